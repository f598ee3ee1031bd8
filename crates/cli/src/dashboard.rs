//! `coppice dashboard`: the cluster in a browser.
//!
//! Starts the dashboard on a cluster of a kubeconfig, or beside an embedded one. Never writes to a cluster.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use coppice_dashboard::{Dashboard as Running, Options, Planner};
use coppice_runtime::layers;
use coppice_runtime::supervise::Supervisor;
use futures::FutureExt as _;
use kube::Client;

use crate::client::Cluster;
use crate::gather;
use crate::plan;
use crate::process::ended;

/// Show the cluster in a browser: a map of GPUs, waiting gangs, sets, what happened
///
/// Prints an address on this machine, with the token of this run, and serves it until Ctrl-C. It shows what you may read
/// and changes nothing; nothing is loaded from elsewhere.
#[derive(Args)]
pub(crate) struct Dashboard {
    #[command(flatten)]
    cluster: Cluster,
    /// Show this namespace alone; all that you may read when not given
    #[arg(short, long)]
    namespace: Option<String>,
    /// The address to listen on, of this machine alone; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:0", value_name = "ADDRESS")]
    listen: SocketAddr,
}

impl Dashboard {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let options = layers::Options::default();
        let (client, own_namespace) = self.cluster.client_and_namespace(&options).await?;
        let (_, address) = self.cluster.client_and_address(&options).await?;
        // A cluster that is not there is an error now; one that goes away later is waited for.
        client.apiserver_version().await.map_err(gather::explained)?;
        let supervisor = Supervisor::default();
        let options = Options {
            listen: self.listen,
            namespace: self.namespace,
            cluster: self.cluster.context.unwrap_or(address),
            planner: planner(&client, &own_namespace),
            own_namespace,
            supervisor: supervisor.clone(),
        };
        let running = Running::start(client, options).await?;
        outln!("Dashboard: {}", running.url());
        let outcome = tokio::select! {
            biased;
            ended = supervisor.failed() => Err(ended.into()),
            () = ended() => Ok(ExitCode::SUCCESS),
        };
        running.stop().await;
        outcome
    }
}

/// A dashboard beside an embedded cluster.
#[derive(Args, Clone, Copy)]
pub(crate) struct Beside {
    /// Serve the dashboard on this address of this machine, or on a free port; on a terminal it is always served
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:0")]
    dashboard: Option<SocketAddr>,
}

impl Beside {
    /// Starts it, if it is wanted: what programs read from a pipe stays as it is.
    pub(crate) async fn start(self, client: &Client, supervisor: &Supervisor) -> Result<Option<Running>> {
        let usual = crate::screen::Screen::is_there().then(|| SocketAddr::from(([127, 0, 0, 1], 0)));
        let Some(listen) = self.dashboard.or(usual) else {
            return Ok(None);
        };
        let options = Options {
            listen,
            namespace: None,
            own_namespace: "default".to_owned(),
            cluster: "embedded cluster".to_owned(),
            planner: planner(client, "default"),
            supervisor: supervisor.clone(),
        };
        Ok(Some(Running::start(client.clone(), options).await?))
    }
}

/// Plans as `coppice plan` makes them.
fn planner(client: &Client, own_namespace: &str) -> Planner {
    let (client, own) = (client.clone(), own_namespace.to_owned());
    Arc::new(move |manifest, namespace, rehearse| {
        let (client, own) = (client.clone(), own.clone());
        async move {
            let plans = plan::of_text(&client, &own, &manifest, namespace, rehearse).await;
            plans.map_err(|error| format!("{error:#}"))
        }
        .boxed()
    })
}
