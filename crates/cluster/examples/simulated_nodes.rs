//! Simulated nodes for any API server: `simulated_nodes --kubeconfig kubeconfig --nodes 100 --profile h100`.
//!
//! By default only what real nodes would do; `--all` adds the controllers and the scheduler that a bare API server lacks.

use anyhow::Context;
use clap::Parser;
use coppice_cluster::profile::NodeProfile;
use coppice_cluster::{Controllers, Options, SimulatedCluster};
use coppice_runtime::layers;
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::path::PathBuf;

/// Runs simulated nodes until Ctrl-C.
#[derive(Debug, Parser)]
struct Arguments {
    /// The kubeconfig of the API server; the usual places if not given.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// How many nodes to create.
    #[arg(long, default_value_t = 10)]
    nodes: u32,
    /// What they look like: small, h100 or gb200-nvl72.
    #[arg(long, default_value = "small")]
    profile: NodeProfile,
    /// Also run the controllers that a bare API server lacks.
    #[arg(long)]
    all: bool,
    /// Switch node leases off.
    #[arg(long)]
    no_heartbeats: bool,
    /// Seconds of silence after which a node counts as unreachable.
    #[arg(long, default_value_t = 50)]
    node_grace_seconds: u64,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
        .with_writer(std::io::stderr)
        .init();
    let arguments = Arguments::parse();
    let config = match &arguments.kubeconfig {
        Some(path) => {
            let kubeconfig = Kubeconfig::read_from(path).with_context(|| format!("reading {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?
        }
        None => kube::Config::infer().await?,
    };
    let mut options = Options::default()
        .nodes(arguments.profile, arguments.nodes)
        .node_grace(std::time::Duration::from_secs(arguments.node_grace_seconds))
        .controllers(if arguments.all {
            Controllers::all()
        } else {
            Controllers::nodes_only()
        });
    if arguments.no_heartbeats {
        options = options.heartbeats(None);
    }
    let client = layers::client(config, &layers::Options::default())?;
    let cluster = SimulatedCluster::start(client, options).await?;
    tracing::info!(nodes = arguments.nodes, profile = %arguments.profile, "simulated nodes are running");
    tokio::signal::ctrl_c().await?;
    cluster.stop().await;
    Ok(())
}
