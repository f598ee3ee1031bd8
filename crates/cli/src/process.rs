//! What every long-running program has in common: probes, a lease, supervised tasks, and an end in order.
//!
//! Owns the end: by a signal, by the loss of the lease, or because an essential task ended. The work stops first, then the
//! lease is released, then the servers stop, so that another replica takes over only when this one no longer writes.
//! Ends with an error unless a signal asked for it, so that the kubelet restarts the program with a fresh view of the
//! cluster. Never decides what the work is.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use coppice_runtime::clock::SystemClock;
use coppice_runtime::health::Health;
use coppice_runtime::lease::{self, Elector, Leadership};
use coppice_runtime::metrics::Metrics;
use coppice_runtime::server::Server;
use coppice_runtime::supervise::{Group, Supervisor};
use kube::Client;
use rand::RngExt as _;

/// How long the release of the lease and running requests to the servers may take.
const GRACE: Duration = Duration::from_secs(10);

/// A program on its way.
pub(crate) struct Process {
    pub(crate) metrics: Metrics,
    pub(crate) health: Health,
    pub(crate) supervisor: Supervisor,
    pub(crate) leadership: Leadership,
    /// Tasks that stop last.
    pub(crate) servers: Group,
    lease: Group,
}

impl Process {
    pub(crate) fn new(metrics: Metrics) -> Self {
        let health = Health::default();
        let supervisor = Supervisor::new(health.clone());
        Self {
            metrics,
            health,
            leadership: Leadership::always(),
            servers: supervisor.group("servers"),
            lease: supervisor.group("lease"),
            supervisor,
        }
    }

    /// Serves probes and metrics on an address.
    pub(crate) async fn serve(&self, address: SocketAddr) -> Result<()> {
        let server = Server::bind(address)
            .await
            .with_context(|| format!("cannot listen on {address}"))?;
        let name = format!("probes and metrics on {}", server.address()?);
        let serving = server.run(self.health.clone(), self.metrics.clone(), self.servers.stopping());
        self.servers.spawn_fallible(&name, serving);
        Ok(())
    }

    /// Stands for election.
    pub(crate) fn elect(&mut self, client: &Client, options: lease::Options) -> Result<()> {
        let elector = Elector::new(client.clone(), options, Arc::new(SystemClock))?;
        self.leadership = elector.leadership();
        self.lease.spawn("election", elector.run(self.lease.stopping()));
        Ok(())
    }

    /// Starts the work and runs until `asked` ends, the lease is lost or an essential task ends; then stops the work and
    /// releases the lease. The servers go on until [`Process::close`].
    pub(crate) async fn run<W>(
        &self,
        start: impl Future<Output = W>,
        stop: impl AsyncFnOnce(W),
        asked: impl Future<Output = ()>,
    ) -> Result<ExitCode> {
        let mut asked = std::pin::pin!(asked);
        let (started, mut outcome) = tokio::select! {
            biased;
            ended = self.supervisor.failed() => (None, Err(ended.into())),
            () = asked.as_mut() => (None, Ok(ExitCode::SUCCESS)),
            work = start => (Some(work), Ok(ExitCode::SUCCESS)),
        };
        if let Some(work) = started {
            outcome = tokio::select! {
                biased;
                ended = self.supervisor.failed() => Err(ended.into()),
                () = asked.as_mut() => Ok(ExitCode::SUCCESS),
                // Another replica may lead now: start again, with a fresh view of the cluster.
                () = self.leadership.wait_lost() => Err(anyhow!("the lease was lost")),
            };
            stop(work).await;
        }
        self.lease.stop(GRACE).await;
        outcome
    }

    /// Stops the servers.
    pub(crate) async fn close(self) {
        self.servers.stop(GRACE).await;
    }
}

/// A name of this process for its lease. The random part keeps two processes apart that have the same host name and
/// process id, as containers of one pod or hosts of one image do.
pub(crate) fn identity() -> String {
    let host = ["POD_NAME", "HOSTNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()));
    let random: u64 = rand::rng().random();
    format!("{}_{random:016x}", host.as_deref().unwrap_or("coppice"))
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

#[cfg(test)]
#[path = "process_tests.rs"]
mod tests;
