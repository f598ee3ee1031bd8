//! One node: its labels, what is wrong with it, and its pods.

use coppice_api::names::labels;
use coppice_view::build::gpus_of;
use coppice_view::pod_state::{self, PodState};
use coppice_view::topology::build::facts;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;

use super::Shown;

/// Pods that the page shows.
const PODS: usize = 200;

/// A node.
#[derive(Debug, Clone)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// Its GPUs.
    pub gpus: i64,
    /// How many of them are free.
    pub free: i64,
    /// Why it takes no pods, or not those of every workload.
    pub problems: Vec<String>,
    /// Its labels.
    pub labels: Vec<(String, String)>,
    /// Its pods, those with the most GPUs first.
    pub pods: Shown<NodePod>,
}

/// A pod on a node.
#[derive(Debug, Clone)]
pub struct NodePod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its GPUs.
    pub gpus: i64,
    /// Its gang.
    pub gang: Option<String>,
    /// What it is doing.
    pub state: PodState,
}

/// The node of a name.
pub fn node<'a>(
    name: &str,
    nodes: impl IntoIterator<Item = &'a Node>,
    pods: impl IntoIterator<Item = &'a Pod>,
) -> Option<NodeView> {
    let node = nodes.into_iter().find(|node| node.name_any() == name)?;
    let here = pods
        .into_iter()
        .filter(|pod| pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some(name));
    let facts = facts([node], here);
    let facts = facts.into_iter().next()?;
    let mut pods: Vec<NodePod> = facts
        .pods
        .iter()
        .map(|pod| NodePod {
            namespace: pod.namespace().unwrap_or_default(),
            name: pod.name_any(),
            gpus: gpus_of(pod),
            gang: pod.labels().get(labels::POD_GANG).cloned(),
            state: pod_state::of(pod).0,
        })
        .collect();
    pods.sort_by(|one, other| (-one.gpus, &one.name).cmp(&(-other.gpus, &other.name)));
    Some(NodeView {
        name: name.to_owned(),
        gpus: facts.gpus,
        free: facts.free,
        problems: facts.problems.clone(),
        labels: node
            .labels()
            .iter()
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect(),
        pods: Shown::first(pods, PODS),
    })
}
