//! `coppice topology`: the nodes by the levels of the topology, their GPUs, and what runs where.
//!
//! Levels come from ClusterTopologyBindings, or from well-known node labels where there is none. Never writes.

#[cfg(test)]
mod tests;

use std::process::ExitCode;

use anyhow::{Result, bail};
use clap::Args;
use coppice_api::types::ClusterTopologyBinding;
use coppice_runtime::layers;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, ListParams};

use crate::client::Cluster;
use crate::gather;
use crate::output::{self, Format, advice};
use crate::view::text::Style;
use crate::view::topology::{build, text};

/// Show nodes by topology: GPUs, what is free, and which gangs run where
#[derive(Args)]
pub(crate) struct Topology {
    /// The ClusterTopologyBinding; all of them when not given
    name: Option<String>,
    #[command(flatten)]
    cluster: Cluster,
    /// A line for each node; otherwise only for those that take no pods
    #[arg(short = 'l', long)]
    nodes: bool,
    /// The form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

impl Topology {
    pub(crate) async fn run(self) -> Result<ExitCode> {
        let client = self.cluster.client(&layers::Options::default()).await?;
        let all = ListParams::default();
        let mut bindings: Vec<ClusterTopologyBinding> = gather::list(Api::all(client.clone()), &all).await?;
        if let Some(name) = &self.name {
            let known: Vec<String> = bindings.iter().map(ResourceExt::name_any).collect();
            bindings.retain(|binding| binding.name_any() == *name);
            if bindings.is_empty() {
                bail!(unknown(name, &known));
            }
        }
        let nodes: Vec<Node> = gather::list(Api::all(client.clone()), &all).await?;
        let placed = ListParams::default().fields("spec.nodeName!=");
        let pods: Vec<Pod> = gather::list(Api::all(client), &placed).await?;
        let view = build::view(&bindings, &nodes, &pods);
        let style = Style {
            terminal: output::is_terminal(),
            pods: self.nodes,
        };
        self.output.print(&view, |view| text::draw(view, style))?;
        Ok(ExitCode::SUCCESS)
    }
}

fn unknown(name: &str, known: &[String]) -> String {
    if known.is_empty() {
        let problem = format!("the cluster has no ClusterTopologyBinding {name}, nor any other");
        return advice(
            &problem,
            "leave the name out to see nodes by their labels; an example: examples/topology.yaml",
        );
    }
    let problem = format!("the cluster has no ClusterTopologyBinding {name}");
    advice(&problem, &format!("name one of these: {}", known.join(", ")))
}
