//! The nodes by the levels of the topology, their GPUs, and what runs where.
//!
//! Levels come from ClusterTopologyBindings, or from well-known node labels where there is none.

pub mod build;
pub mod text;

use serde::Serialize;

/// All topologies of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct TopologyView {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub topologies: Vec<Tree>,
}

/// One topology.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Tree {
    /// The ClusterTopologyBinding; none when the levels were guessed from node labels.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub levels: Vec<Level>,
    pub total: Amounts,
    pub domains: Vec<Domain>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Level {
    pub domain: String,
    pub key: String,
}

/// Nodes that share the value of a label, within the domain above.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Domain {
    pub level: String,
    /// The value of the label; none for nodes without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    #[serde(flatten)]
    pub amounts: Amounts,
    /// The gangs with pods here, those with the most first.
    pub gangs: Vec<Share>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<Domain>,
    /// Its nodes, where no level is below.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hosts: Vec<Host>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Amounts {
    pub nodes: usize,
    /// Nodes that take pods: ready and not cordoned.
    pub usable_nodes: usize,
    pub gpus: i64,
    /// GPUs that no pod asked for, on nodes that take pods.
    pub free_gpus: i64,
}

/// How many pods of a gang are in a domain. Pods without a gang count by themselves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    pub namespace: String,
    pub name: String,
    pub pods: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Host {
    pub name: String,
    pub gpus: i64,
    pub free_gpus: i64,
    /// Why it takes no pods, or not those of everybody.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// Pods of gangs, as namespace/name.
    pub pods: Vec<String>,
}
