//! `coppice up`: an embedded cluster for use with kubectl, until Ctrl-C.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use coppice_cluster::behaviour::PodBehaviour;
use coppice_cluster::profile::NodeProfile;

use crate::dashboard::Beside;
use crate::embedded::{Embedded, EmbeddedOptions};
use crate::process::ended;

/// Start an embedded cluster with simulated nodes, operator and scheduler
///
/// It is for use with kubectl and runs until Ctrl-C. Everything is in memory and gone afterwards.
#[derive(Args)]
pub(crate) struct Up {
    /// The kind of nodes: small, h100 or gb200-nvl72
    #[arg(long, default_value = "gb200-nvl72", value_name = "NAME")]
    profile: NodeProfile,
    /// The number of nodes
    #[arg(long, default_value_t = 36, value_name = "N")]
    nodes: u32,
    /// The address for kubectl; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
    /// Where to write the kubeconfig
    #[arg(long, default_value = "coppice.kubeconfig", value_name = "FILE")]
    kubeconfig: PathBuf,
    #[command(flatten)]
    dashboard: Beside,
}

impl Up {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let file = self.kubeconfig.clone();
        let embedded = Embedded::start(EmbeddedOptions {
            profile: self.profile,
            nodes: self.nodes,
            listen: Some(self.listen),
            kubeconfig: Some(self.kubeconfig),
            behaviour: PodBehaviour::default(),
        })
        .await?;
        let dashboard = self.dashboard.start(&embedded.client, embedded.supervisor()).await?;
        outln!(
            "An embedded cluster of {} {} nodes is up at {}.",
            self.nodes,
            self.profile.name(),
            embedded.url().unwrap_or_default()
        );
        outln!();
        outln!(
            "  export KUBECONFIG={}",
            std::path::absolute(&file).unwrap_or(file).display()
        );
        outln!("  kubectl get nodes");
        outln!("  kubectl apply --server-side -f examples/topology.yaml -f examples/disaggregated.yaml");
        outln!("  kubectl get podcliquesets,podcliques,podgangs,pods");
        if let Some(dashboard) = &dashboard {
            outln!();
            outln!("Dashboard: {}", dashboard.url());
        }
        outln!();
        outln!("Ctrl-C ends it; nothing is kept.");
        let outcome = tokio::select! {
            biased;
            ended = embedded.failed() => Err(ended.into()),
            () = ended() => Ok(ExitCode::SUCCESS),
        };
        outln!("stopping");
        if let Some(dashboard) = dashboard {
            dashboard.stop().await;
        }
        embedded.stop().await;
        outcome
    }
}
