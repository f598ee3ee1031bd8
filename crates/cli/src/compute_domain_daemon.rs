//! `coppice compute-domain-daemon`: runs `nvidia-imex` for one ComputeDomain on one node.

use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use coppice_domain_daemon::{Paths, Settings, run, socket};
use coppice_runtime::clock::SystemClock;
use coppice_runtime::layers;
use coppice_runtime::metrics::Metrics;
use tokio_util::sync::CancellationToken;

use crate::client::Cluster;
use crate::process::{Process, ended};

/// How long the watch and the socket have to end.
const GRACE: Duration = Duration::from_secs(5);
/// From this verbosity on, the log has details.
const DETAILS: u8 = 6;

/// Run nvidia-imex for a ComputeDomain on this node, or check that it is ready
///
/// Runs in the pods of a ComputeDomain's DaemonSet, which set its environment. It follows the rows of its clique, keeps the
/// hosts file current, signals and restarts nvidia-imex, and stops it before it ends itself.
#[derive(Args)]
pub(crate) struct ComputeDomainDaemon {
    #[command(flatten)]
    cluster: Cluster,
    /// How much to log
    #[arg(
        short = 'v',
        long = "v",
        env = "LOG_VERBOSITY",
        default_value_t = 4,
        value_name = "NUMBER"
    )]
    verbosity: u8,
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// Run until SIGTERM
    Run,
    /// Exit with 0 when the daemon of this pod is ready, else with 1 and the reason
    Check,
}

impl ComputeDomainDaemon {
    /// What to log.
    pub(crate) fn log_level(&self) -> &'static str {
        match self.action {
            Action::Check => "error",
            Action::Run if self.verbosity >= DETAILS => "debug",
            Action::Run => "info",
        }
    }

    pub(crate) async fn run(self) -> Result<ExitCode> {
        match self.action {
            Action::Check => Ok(check().await),
            Action::Run => self.serve().await,
        }
    }

    async fn serve(self) -> Result<ExitCode> {
        let settings = Settings::read(|name| std::env::var(name).ok(), Paths::default())?;
        let process = Process::new(Metrics::default());
        let client = self.cluster.client(&layers::Options::default()).await?;
        let group = process.supervisor.group("compute-domain-daemon");
        let stop = CancellationToken::new();
        let mut work = pin!(run(client, settings, Arc::new(SystemClock), &group, stop.clone()));
        let outcome = tokio::select! {
            biased;
            failed = process.supervisor.failed() => {
                stop.cancel();
                work.await?;
                Err(failed.into())
            }
            () = ended() => {
                stop.cancel();
                work.await?;
                Ok(ExitCode::SUCCESS)
            }
            result = &mut work => {
                result?;
                Err(anyhow!("the daemon ended without being asked to"))
            }
        };
        group.stop(GRACE).await;
        outcome
    }
}

async fn check() -> ExitCode {
    let domain = std::env::var("COMPUTE_DOMAIN_UUID").unwrap_or_default();
    match socket::check(&Paths::default().socket(), &domain).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            errln!("{problem}");
            ExitCode::FAILURE
        }
    }
}
