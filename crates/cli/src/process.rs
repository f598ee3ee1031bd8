//! What every long-running part has in common: a client, a lease, an address for probes and metrics, an end by signal.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use coppice_runtime::clock::SystemClock;
use coppice_runtime::layers;
use coppice_runtime::lease::{self, Elector, Leadership};
use coppice_runtime::metrics::Metrics;
use coppice_runtime::server::Server;
use coppice_runtime::shutdown::{Condition, Health};
use kube::Client;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::client::Cluster;

/// How a long-running part runs.
#[derive(Args)]
pub(crate) struct Process {
    /// Elect one of several by a lease in this namespace; without it, this must be the only one
    #[arg(long, value_name = "NAMESPACE")]
    leader_election_namespace: Option<String>,
    /// The address for /healthz, /readyz and /metrics
    #[arg(long, value_name = "ADDRESS")]
    serve: Option<SocketAddr>,
}

/// A part on its way.
pub(crate) struct Begun {
    pub(crate) client: Client,
    pub(crate) metrics: Metrics,
    pub(crate) leadership: Leadership,
    stop: CancellationToken,
    working: Condition,
    election: Option<JoinHandle<()>>,
    server: Option<JoinHandle<std::io::Result<()>>>,
}

impl Process {
    /// Connects, listens and stands for election under the name of a lease.
    pub(crate) async fn begin(&self, cluster: &Cluster, lease: &str) -> Result<Begun> {
        let metrics = Metrics::default();
        let client = cluster
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
        let (leadership, election) = self.elect(&client, &metrics, &stop, lease)?;
        Ok(Begun {
            client,
            metrics,
            leadership,
            stop,
            working,
            election,
            server,
        })
    }

    fn elect(
        &self,
        client: &Client,
        metrics: &Metrics,
        stop: &CancellationToken,
        lease: &str,
    ) -> Result<(Leadership, Option<JoinHandle<()>>)> {
        let Some(namespace) = &self.leader_election_namespace else {
            return Ok((Leadership::always(), None));
        };
        let host = std::env::var("HOSTNAME").unwrap_or_else(|_| "coppice".to_owned());
        let identity = format!("{host}_{}", std::process::id());
        let mut options = lease::Options::new(namespace, lease, &identity);
        options.metrics = metrics.clone();
        let elector = Elector::new(client.clone(), options, Arc::new(SystemClock))?;
        let leadership = elector.leadership();
        Ok((leadership, Some(tokio::spawn(elector.run(stop.clone())))))
    }
}

impl Begun {
    /// Says that it works, and waits for a signal or for the loss of the lease.
    pub(crate) async fn serve_until_ended(&self) {
        self.working.set_ready();
        tokio::select! {
            biased;
            () = ended() => {}
            // Another one may lead now: begin anew, with a fresh view of the cluster.
            () = self.leadership.wait_lost() => tracing::warn!("the lease was lost; ending"),
        }
    }

    /// Gives the lease back and ends.
    pub(crate) async fn end(self) -> Result<ExitCode> {
        self.stop.cancel();
        if let Some(election) = self.election {
            election.await?;
        }
        if let Some(server) = self.server {
            server.await??;
        }
        Ok(ExitCode::SUCCESS)
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
