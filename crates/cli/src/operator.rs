//! `coppice operator`: the operator on a real cluster.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use coppice_core::settings::Settings;
use coppice_operator::{Operator as Running, Options};

use crate::client::Cluster;
use crate::process::{Process, ended};

/// Run the operator on the cluster of the current kubeconfig, or in a pod.
///
/// The CRDs must be there: coppice crds install. Stops cleanly on Ctrl-C or SIGTERM.
#[derive(Args)]
pub(crate) struct Operator {
    #[command(flatten)]
    cluster: Cluster,
    /// The scheduler of cliques that name none
    #[arg(long, default_value = "default-scheduler", value_name = "NAME")]
    default_scheduler: String,
    /// The image of the container that waits for other cliques
    #[arg(long, default_value = "coppice", env = "COPPICE_WAITER_IMAGE", value_name = "IMAGE")]
    waiter_image: String,
    /// Hand packing constraints to the scheduler
    #[arg(long)]
    topology_aware_scheduling: bool,
    #[command(flatten)]
    process: Process,
}

impl Operator {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let process = self
            .process
            .begin(&self.cluster, "grove-operator-leader-election")
            .await?;
        let settings = Settings {
            default_scheduler: self.default_scheduler,
            waiter_image: self.waiter_image,
            topology_aware: self.topology_aware_scheduling,
            ..Settings::default()
        };
        let options = Options {
            settings,
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
