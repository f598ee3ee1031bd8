//! `coppice demo`: the main job on an embedded cluster, told step by step.
//!
//! A disaggregated serving system is applied and becomes ready, loses a node and recovers, and is updated copy by copy. Then
//! another one forms an NVLink domain.
//! Each step waits for a condition that it reads from the API as any client would, shows the tree of `coppice get --pods`
//! in the meantime, and fails the demo when the condition does not come.

mod stage;
mod story;

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use clap::Args;
use coppice_cluster::behaviour::PodBehaviour;
use coppice_cluster::profile::NodeProfile;
use coppice_dashboard::Dashboard;

use crate::dashboard::Beside;
use crate::embedded::{Embedded, EmbeddedOptions};
use crate::process::ended;
use stage::seconds;
use story::Story;

/// A guided tour on an embedded cluster: no cluster, no Docker, no Go
///
/// An embedded cluster of simulated GPU nodes runs a disaggregated serving system: it starts in order, loses a node and
/// recovers, and is updated copy by copy; at last an NVLink domain forms. On a terminal the tree is drawn in place; in a
/// pipe each change is a line.
#[derive(Args)]
pub(crate) struct Demo {
    /// End after the tour; otherwise the cluster stays up until Ctrl-C
    #[arg(long)]
    exit: bool,
    /// The number of simulated GB200 nodes: at least 14, in racks of 18
    #[arg(long, default_value_t = 36, value_name = "N", value_parser = clap::value_parser!(u32).range(14..))]
    nodes: u32,
    #[command(flatten)]
    dashboard: Beside,
}

impl Demo {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let kubeconfig = std::env::temp_dir().join(format!("coppice-demo-{}.kubeconfig", std::process::id()));
        let outcome = tokio::select! {
            biased;
            embedded = self.tour(&kubeconfig) => embedded,
            () = ended() => {
                let _ = std::fs::remove_file(kubeconfig);
                return Ok(ExitCode::from(INTERRUPTED));
            }
        };
        let mut result = Ok(ExitCode::SUCCESS);
        if let (Ok((embedded, _)), false) = (&outcome, self.exit) {
            tokio::select! {
                biased;
                ended = embedded.failed() => result = Err(ended.into()),
                () = ended() => {}
            }
        }
        let _ = std::fs::remove_file(kubeconfig);
        let (embedded, dashboard) = outcome?;
        if let Some(dashboard) = dashboard {
            dashboard.stop().await;
        }
        embedded.stop().await;
        result
    }

    async fn tour(&self, kubeconfig: &Path) -> Result<(Embedded, Option<Dashboard>)> {
        let started = Instant::now();
        stage::title("1. An embedded Kubernetes with simulated GPU nodes, in this process");
        let embedded = Embedded::start(EmbeddedOptions {
            profile: NodeProfile::Gb200Nvl72,
            nodes: self.nodes,
            listen: Some(([127, 0, 0, 1], 0).into()),
            kubeconfig: Some(kubeconfig.to_owned()),
            behaviour: unhurried(),
        })
        .await?;
        outln!(
            "   {} GB200 NVL72 nodes with 4 GPUs each, API server, operator and gang scheduler: ready in {}",
            self.nodes,
            seconds(started)
        );
        let dashboard = self.dashboard.start(&embedded.client, embedded.supervisor()).await?;
        if let Some(dashboard) = &dashboard {
            outln!("   Watch it in a browser: {}", dashboard.url());
        }
        tokio::select! {
            biased;
            ended = embedded.failed() => return Err(ended.into()),
            told = async { Story::begin(&embedded).await?.tell(self.nodes).await } => told?,
        }
        stage::title(&format!("Done in {}.", seconds(started)));
        if self.exit {
            outln!("   To keep the cluster: coppice demo without --exit. To do the same by hand: docs/tutorial.md");
            return Ok((embedded, dashboard));
        }
        outln!("   The cluster stays up until Ctrl-C. In another terminal:");
        outln!();
        outln!("     export KUBECONFIG={}", kubeconfig.display());
        for (command, meaning) in NEXT {
            outln!("     {command:62}  # {meaning}");
        }
        if let Some(dashboard) = &dashboard {
            outln!();
            outln!("   Dashboard: {}", dashboard.url());
        }
        outln!();
        outln!("   To do the same by hand: docs/tutorial.md");
        Ok((embedded, dashboard))
    }
}

/// The usual code of a program that Ctrl-C ended before its time.
const INTERRUPTED: u8 = 130;

/// What to try next.
const NEXT: [(&str, &str); 7] = [
    ("coppice get llm --watch", "the tree, live"),
    ("coppice topology", "racks, GPUs, what runs where"),
    (
        "kubectl scale podcliquescalinggroup llm-0-decode --replicas 2",
        "one more copy, a gang",
    ),
    ("coppice explain pcs/llm", "why it is where it is"),
    (
        "coppice explain computedomain/nvl-0-rack",
        "nodes and indices of a domain",
    ),
    ("coppice events llm", "what happened"),
    ("kubectl delete podcliqueset llm", "everything goes"),
];

/// Pods that take a moment to start and to stop, so that their order can be seen.
fn unhurried() -> PodBehaviour {
    PodBehaviour {
        start_delay: Duration::from_millis(300),
        ready_delay: Duration::from_millis(900),
        termination_delay: Duration::from_millis(500),
        ..PodBehaviour::default()
    }
}
