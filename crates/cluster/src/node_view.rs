//! The view of a node that the controllers here share.
//!
//! Owns the projection of the API's `Node`. Every field is read-only here; writers send patches of the fields they
//! own.

use crate::behaviour;
use crate::profile::SIMULATED_NODE_LABEL;
use crate::tolerations::Taint;
use crate::view::{Metadata, Reduced, resource};
use coppice_runtime::cache::{Cache, Interner, Kind, Meta};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node as ApiNode;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The nodes of the cluster, watched once for all components.
pub(crate) type Nodes = Kind<Reduced<NodeObject, Node>>;

/// A cache of nodes, empty until it is fed.
pub(crate) fn nodes() -> Nodes {
    Cache::default().kind(resource::<ApiNode>(), Reduced::new(Node::from_object))
}

/// The wire form: what is decoded of a `Node`.
#[derive(Deserialize)]
pub(crate) struct NodeObject {
    metadata: Metadata,
    #[serde(default)]
    spec: SpecObject,
    #[serde(default)]
    status: StatusObject,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecObject {
    unschedulable: bool,
    taints: Vec<Taint>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusObject {
    addresses: Vec<Address>,
    conditions: Vec<NodeCondition>,
    allocatable: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Address {
    #[serde(rename = "type")]
    kind: String,
    address: String,
}

/// One condition of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeCondition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) last_heartbeat_time: Option<Timestamp>,
    pub(crate) last_transition_time: Option<Timestamp>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Node {
    pub(crate) meta: Meta,
    pub(crate) labels: BTreeMap<String, String>,
    /// Carries the label of nodes whose kubelet is simulated.
    pub(crate) simulated: bool,
    pub(crate) powered: bool,
    pub(crate) address: Option<String>,
    pub(crate) unschedulable: bool,
    pub(crate) taints: Vec<Taint>,
    pub(crate) conditions: Vec<NodeCondition>,
    pub(crate) allocatable: BTreeMap<String, String>,
    pub(crate) deleting: bool,
}

impl Node {
    fn from_object(meta: &Meta, object: NodeObject, _names: &Interner) -> Self {
        let NodeObject { metadata, spec, status } = object;
        Self {
            meta: meta.clone(),
            simulated: metadata
                .labels
                .get(SIMULATED_NODE_LABEL)
                .is_some_and(|value| value == "true"),
            powered: behaviour::has_power(&metadata.annotations),
            deleting: metadata.is_deleting(),
            labels: metadata.labels,
            address: status
                .addresses
                .into_iter()
                .find(|address| address.kind == "InternalIP")
                .map(|address| address.address),
            unschedulable: spec.unschedulable,
            taints: spec.taints,
            conditions: status.conditions,
            allocatable: status.allocatable,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.meta.key.name
    }

    pub(crate) fn condition(&self, kind: &str) -> Option<&NodeCondition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }
}

/// Which nodes have simulated kubelets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeSelection {
    /// Only nodes that carry the label [`SIMULATED_NODE_LABEL`]: safe beside real nodes.
    #[default]
    Labelled,
    /// Every node: for clusters that have no real ones.
    All,
}

impl NodeSelection {
    pub(crate) fn includes(self, node: &Node) -> bool {
        match self {
            NodeSelection::Labelled => node.simulated,
            NodeSelection::All => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::view;
    use serde_json::json;

    #[test]
    fn a_node_is_read_from_its_wire_form() {
        let node = view(
            &Reduced::new(Node::from_object),
            json!({
                "metadata": {
                    "name": "n", "uid": "u", "resourceVersion": "12",
                    "labels": {SIMULATED_NODE_LABEL: "true"}, "annotations": {behaviour::POWER: "off"},
                },
                "spec": {"unschedulable": true, "taints": [{"key": "k", "effect": "NoSchedule"}]},
                "status": {
                    "addresses": [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": "172.16.0.1"}],
                    "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}],
                    "allocatable": {"cpu": "8"},
                },
            }),
        );
        assert_eq!(node.address.as_deref(), Some("172.16.0.1"));
        assert!(!node.powered && node.simulated && node.unschedulable);
        assert_eq!((node.name(), node.meta.version.0), ("n", 12));
        assert_eq!(node.condition("Ready").unwrap().status, "True");
        assert!(NodeSelection::Labelled.includes(&node));
        assert!(!NodeSelection::Labelled.includes(&Node::default()) && NodeSelection::All.includes(&node));
    }
}
