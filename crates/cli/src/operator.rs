//! `coppice operator`: the operator on a real cluster.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use coppice_core::settings::Settings;
use coppice_operator::{Operator as Running, Options};
use coppice_runtime::clock::SystemClock;
use coppice_runtime::layers;
use coppice_runtime::lease::{self, Elector, Leadership};
use coppice_runtime::metrics::Metrics;
use coppice_runtime::server::Server;
use coppice_runtime::shutdown::Health;
use tokio_util::sync::CancellationToken;

use crate::client::Cluster;

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
    /// Elect one of several operators by a lease in this namespace; without it, this must be the only one
    #[arg(long, value_name = "NAMESPACE")]
    leader_election_namespace: Option<String>,
    /// The address for /healthz, /readyz and /metrics
    #[arg(long, value_name = "ADDRESS")]
    serve: Option<std::net::SocketAddr>,
}

impl Operator {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let metrics = Metrics::default();
        let client = self
            .cluster
            .client(&layers::Options {
                metrics: metrics.clone(),
                ..layers::Options::default()
            })
            .await?;
        let stop = CancellationToken::new();
        let health = Health::default();
        let working = health.condition("working");
        let server = match self.serve {
            Some(address) => {
                let server = Server::bind(address)
                    .await
                    .with_context(|| format!("cannot listen on {address}"))?;
                Some(tokio::spawn(server.run(health.clone(), metrics.clone(), stop.clone())))
            }
            None => None,
        };
        let (leadership, election) = self.elect(&client, &metrics, &stop)?;
        let settings = Settings {
            default_scheduler: self.default_scheduler,
            waiter_image: self.waiter_image,
            topology_aware: self.topology_aware_scheduling,
            ..Settings::default()
        };
        let options = Options {
            settings,
            leadership: leadership.clone(),
            metrics,
            ..Options::default()
        };
        let running = tokio::select! {
            biased;
            () = ended() => None,
            running = Running::start(client, options) => Some(running),
        };
        if let Some(running) = running {
            working.set_ready();
            tokio::select! {
                biased;
                () = ended() => {}
                // Another one may lead now: begin anew, with a fresh view of the cluster.
                () = leadership.wait_lost() => tracing::warn!("the lease was lost; ending"),
            }
            running.stop().await;
        }
        stop.cancel();
        if let Some(election) = election {
            election.await?;
        }
        if let Some(server) = server {
            server.await??;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn elect(
        &self,
        client: &kube::Client,
        metrics: &Metrics,
        stop: &CancellationToken,
    ) -> Result<(Leadership, Option<tokio::task::JoinHandle<()>>)> {
        let Some(namespace) = &self.leader_election_namespace else {
            return Ok((Leadership::always(), None));
        };
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "coppice".to_owned());
        let identity = format!("{host}_{}", std::process::id());
        let mut options = lease::Options::new(namespace, "grove-operator-leader-election", &identity);
        options.metrics = metrics.clone();
        let elector = Elector::new(client.clone(), options, Arc::new(SystemClock))?;
        let leadership = elector.leadership();
        Ok((leadership, Some(tokio::spawn(elector.run(stop.clone())))))
    }
}

/// Waits for Ctrl-C or SIGTERM.
pub(crate) async fn ended() {
    use tokio::signal::unix::{SignalKind, signal};
    let terminated = async {
        match signal(SignalKind::terminate()) {
            Ok(mut signal) => drop(signal.recv().await),
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        _ = tokio::signal::ctrl_c() => {}
        () = terminated => {}
    }
}
