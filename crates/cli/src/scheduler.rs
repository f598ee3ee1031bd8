//! `coppice scheduler`: the gang scheduler on a real cluster.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use coppice_scheduler::{DEFAULT_NAME, Options, Scheduler as Running};

use crate::client::Cluster;
use crate::process::{Process, ended};

/// Run the gang scheduler on the cluster of the current kubeconfig, or in a pod.
///
/// It places pods that name it, gang by gang: all of a gang's minimum or nothing, packed as the gang asks. The CRDs must
/// be there: coppice crds install. Stops cleanly on Ctrl-C or SIGTERM.
#[derive(Args)]
pub(crate) struct Scheduler {
    #[command(flatten)]
    cluster: Cluster,
    /// The schedulerName of pods to place; may be given several times
    #[arg(long = "scheduler-name", default_value = DEFAULT_NAME, value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    process: Process,
}

impl Scheduler {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let process = self.process.begin(&self.cluster, "coppice-scheduler").await?;
        let options = Options {
            names: self.names,
            leadership: process.leadership.clone(),
            metrics: process.metrics.clone(),
            ..Options::default()
        };
        let running = tokio::select! {
            biased;
            () = ended() => None,
            running = Running::start(process.client.clone(), options) => Some(running),
        };
        if let Some(running) = running {
            process.serve_until_ended().await;
            running.stop().await;
        }
        process.end().await
    }
}
