//! `coppice scheduler`: the gang scheduler on a real cluster.

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use coppice_runtime::layers;
use coppice_runtime::lease;
use coppice_runtime::metrics::Metrics;
use coppice_scheduler::{DEFAULT_NAME, Options, Scheduler as Running};
use kube::Client;

use crate::client::Cluster;
use crate::process::{Process, ended, identity};

/// The lease that schedulers are elected by.
const LEASE: &str = "coppice-scheduler";

/// Run the gang scheduler on the cluster of the current kubeconfig, or in a pod
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
    /// Elect one of several by a lease in this namespace; without it, this must be the only one
    #[arg(long, value_name = "NAMESPACE")]
    leader_election_namespace: Option<String>,
    /// The address for /healthz, /readyz and /metrics
    #[arg(long, value_name = "ADDRESS")]
    serve: Option<SocketAddr>,
}

impl Scheduler {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let process = Process::new(Metrics::default());
        let options = layers::Options {
            metrics: process.metrics.clone(),
            ..layers::Options::default()
        };
        let client = self.cluster.client(&options).await?;
        self.work(client, process, ended()).await
    }

    /// Runs in a process until `asked` ends.
    pub(crate) async fn work(
        self,
        client: Client,
        mut process: Process,
        asked: impl Future<Output = ()>,
    ) -> Result<ExitCode> {
        let working = process.health.condition("working");
        if let Some(address) = self.serve {
            process.serve(address).await?;
        }
        if let Some(namespace) = &self.leader_election_namespace {
            let options = lease::Options {
                metrics: process.metrics.clone(),
                ..lease::Options::new(namespace, LEASE, &identity())
            };
            process.elect(&client, options)?;
        }
        let options = Options {
            names: self.names,
            leadership: process.leadership.clone(),
            metrics: process.metrics.clone(),
            supervisor: process.supervisor.clone(),
            ..Options::default()
        };
        let start = async {
            let running = Running::start(client, options).await;
            working.set_ready();
            running
        };
        let outcome = process.run(start, Running::stop, asked).await;
        process.close().await;
        outcome
    }
}
