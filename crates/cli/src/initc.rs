//! `coppice initc`: the init container that holds a pod back until the cliques before it are ready.
//!
//! Owns the watch on the parents' pods and what is said about it; when the pod may start is decided in
//! `coppice_initc`. Pods are selected by the exact labels of gang and clique. Trouble with the API server is reported
//! and waited out, because the pod can do nothing better; only arguments that make no sense end it with an error.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use coppice_initc::{CLIQUE_LABEL, GANG_LABEL, Parent, Shortfall};
use coppice_runtime::backoff::Backoff;
use coppice_runtime::cache::{Cache, Kind, PodProjection, reflect};
use coppice_runtime::layers;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::core::ApiResource;
use tokio::sync::Notify;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::client::Cluster;
use crate::process::ended;

/// What a shell says when a program was ended by SIGTERM; never 0, which would let the pod's containers start.
const TERMINATED: u8 = 143;

/// Wait, inside a pod, until the cliques that it starts after are ready
///
/// Runs as the init container grove-initc of pods with a start-up order; the operator puts it there.
#[derive(Args)]
pub(crate) struct Initc {
    /// A clique to wait for, and how many of its pods must be ready; repeat it, or separate several by commas
    #[arg(short = 'p', long = "podcliques", value_name = "CLIQUE:MINIMUM")]
    podcliques: Vec<String>,
    /// The directory with the files `namespace` and `podgangname` of this pod
    #[arg(long, default_value = "/var/grove/pod-info", value_name = "DIRECTORY")]
    pod_info: PathBuf,
    #[command(flatten)]
    cluster: Cluster,
}

impl Initc {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let parents = coppice_initc::parents(self.podcliques.iter().map(String::as_str))?;
        if parents.is_empty() {
            tracing::info!("no parent cliques to wait for");
            return Ok(ExitCode::SUCCESS);
        }
        let namespace = read(&self.pod_info, "namespace")?;
        let gang = read(&self.pod_info, "podgangname")?;
        let client = self.cluster.client(&layers::Options::default()).await?;
        let wanted: Vec<String> = parents.iter().map(describe).collect();
        tracing::info!(
            "waiting in namespace {namespace}, gang {gang}, for: {}",
            wanted.join(", ")
        );
        let watching = Watching::start(client, &namespace, &gang, &parents);
        tokio::select! {
            biased;
            () = ended() => {
                tracing::warn!("ended before everything was ready");
                Ok(ExitCode::from(TERMINATED))
            }
            () = watching.all_ready(&parents) => {
                tracing::info!("everything is ready");
                Ok(ExitCode::SUCCESS)
            }
        }
    }
}

fn describe(parent: &Parent) -> String {
    format!("{} ({} ready)", parent.clique, parent.minimum)
}

fn read(directory: &Path, file: &str) -> Result<String> {
    let path = directory.join(file);
    let text = std::fs::read_to_string(&path).with_context(|| {
        format!(
            "cannot read {}; the operator mounts it from the pod's metadata",
            path.display()
        )
    })?;
    match text.trim() {
        "" => bail!("{} is empty; the pod lacks the label {GANG_LABEL}", path.display()),
        value => Ok(value.to_owned()),
    }
}

/// The pods of the parents, watched until this is dropped.
struct Watching {
    cache: Cache,
    pods: Kind<PodProjection>,
    changed: Arc<Notify>,
    _stop: DropGuard,
}

impl Watching {
    fn start(client: Client, namespace: &str, gang: &str, parents: &[Parent]) -> Self {
        let cache = Cache::default();
        let pods = cache.kind(ApiResource::erase::<Pod>(&()), PodProjection::default());
        let changed = Arc::new(Notify::new());
        let notify = Arc::clone(&changed);
        pods.on_change(move |_| notify.notify_one());
        let options = reflect::Options {
            namespace: Some(namespace.to_owned()),
            label_selector: Some(selector(gang, parents)),
            // Whole systems wait for this container: look again soon.
            backoff: Backoff {
                first: Duration::from_millis(500),
                longest: Duration::from_secs(5),
                ..Backoff::default()
            },
            // The waiting pods of a gang start together; they should not come back together.
            seed: u64::from(std::process::id()) ^ since_epoch(),
            ..reflect::Options::default()
        };
        let stop = CancellationToken::new();
        tokio::spawn(reflect::reflect(client, pods.clone(), options, stop.clone()));
        Self {
            cache,
            pods,
            changed,
            _stop: stop.drop_guard(),
        }
    }

    async fn all_ready(&self, parents: &[Parent]) {
        self.cache.wait_synced().await;
        let mut told: Option<Vec<Shortfall>> = None;
        loop {
            let short = self.remaining(parents);
            if short.is_empty() {
                return;
            }
            if told.as_ref() != Some(&short) {
                let lines: Vec<String> = short.iter().map(ToString::to_string).collect();
                tracing::info!("waiting: {}", lines.join(", "));
                told = Some(short);
            }
            self.changed.notified().await;
        }
    }

    fn remaining(&self, parents: &[Parent]) -> Vec<Shortfall> {
        let pods = self.pods.all(&self.cache.moment());
        coppice_initc::remaining(parents, |clique| {
            let counted = pods.iter().filter(|pod| {
                pod.label(CLIQUE_LABEL).is_some_and(|label| **label == *clique)
                    && coppice_initc::counts(pod.is_ready(), pod.is_terminating())
            });
            u32::try_from(counted.count()).unwrap_or(u32::MAX)
        })
    }
}

fn selector(gang: &str, parents: &[Parent]) -> String {
    let mut cliques: Vec<&str> = parents.iter().map(|parent| parent.clique.as_str()).collect();
    cliques.sort_unstable();
    cliques.dedup();
    format!("{GANG_LABEL}={gang},{CLIQUE_LABEL} in ({})", cliques.join(","))
}

fn since_epoch() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, |passed| u64::try_from(passed.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        initc: Initc,
    }

    #[test]
    fn the_command_line_and_the_simulated_kubelet_read_the_same_arguments() {
        for given in [
            vec!["--podcliques=a:1"],
            vec!["--podcliques=a:1,b:2", "--podcliques=c:3"],
            vec!["--podcliques", "a:1", "-p", "b:2", "-p=c:3"],
            vec!["--podcliques=, ,"],
            vec!["--podcliques=a:0"],
            vec!["--podcliques=a"],
        ] {
            let line = Line::try_parse_from(["initc"].iter().chain(&given)).unwrap();
            let ours = coppice_initc::parents(line.initc.podcliques.iter().map(String::as_str));
            let stored: Vec<String> = given.iter().map(|argument| (*argument).to_owned()).collect();
            assert_eq!(ours, coppice_initc::arguments(&stored), "{given:?}");
        }
    }

    #[test]
    fn pods_are_selected_by_exact_labels() {
        let parents = coppice_initc::parents(["llm-0-work:1,llm-0-a:2,llm-0-work:1"]).unwrap();
        assert_eq!(
            selector("llm-0", &parents),
            "grove.io/podgang=llm-0,grove.io/podclique in (llm-0-a,llm-0-work)"
        );
    }
}
