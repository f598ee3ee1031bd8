//! Nodes: from the API object to what the engine needs of it.
//!
//! Owns the selection of fields. A heartbeat changes nothing here, so callers compare before they put a node in place.
//! A quantity that cannot be read counts as nothing: it can only keep pods away.

use coppice_api::quantity::Quantity;
use coppice_placement::predicates::{Effect, Node, Taint};
use coppice_runtime::cache::{Interner, Meta, Projection};
use k8s_openapi::api::core::v1 as core;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

use crate::caught::decoded;

/// The projection of nodes to what the engine needs of them.
#[derive(Debug, Clone, Copy, Default)]
pub struct NodeProjection;

#[derive(Deserialize)]
struct Wire {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(default)]
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize, Default)]
struct Spec {
    #[serde(default)]
    unschedulable: Option<bool>,
    #[serde(default)]
    taints: Option<Vec<core::Taint>>,
}

#[derive(Deserialize, Default)]
struct Status {
    #[serde(default)]
    allocatable: Option<BTreeMap<String, serde_json::Value>>,
    #[serde(default)]
    conditions: Option<Vec<Condition>>,
}

#[derive(Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    status: String,
}

impl Projection for NodeProjection {
    type View = Node;

    fn project(&self, meta: &Meta, object: &RawValue, _names: &Interner) -> Result<Node, serde_json::Error> {
        decoded(|| Self::read(meta, object))
    }
}

impl NodeProjection {
    fn read(meta: &Meta, object: &RawValue) -> Result<Node, serde_json::Error> {
        let Wire { metadata, spec, status } = serde_json::from_str(object.get())?;
        let ready = status
            .conditions
            .iter()
            .flatten()
            .any(|condition| condition.kind == "Ready" && condition.status == "True");
        let taints = spec.taints.iter().flatten().filter_map(taint).collect();
        let allocatable = status
            .allocatable
            .into_iter()
            .flatten()
            .map(|(name, value)| {
                let amount = Quantity::from_json(&value).ok();
                (
                    name.clone(),
                    amount.and_then(|amount| base_units(&name, amount)).unwrap_or(0),
                )
            })
            .collect();
        Ok(Node {
            name: meta.key.name.to_string(),
            labels: metadata.labels.unwrap_or_default(),
            taints,
            unschedulable: spec.unschedulable.unwrap_or(false),
            not_ready: !ready,
            allocatable,
        })
    }
}

fn taint(wire: &core::Taint) -> Option<Taint> {
    Some(Taint {
        key: wire.key.clone(),
        value: wire.value.clone().unwrap_or_default(),
        effect: effect(&wire.effect)?,
    })
}

/// The effect of this name.
pub(super) fn effect(name: &str) -> Option<Effect> {
    match name {
        "NoSchedule" => Some(Effect::NoSchedule),
        "PreferNoSchedule" => Some(Effect::PreferNoSchedule),
        "NoExecute" => Some(Effect::NoExecute),
        _ => None,
    }
}

/// An amount in the engine's units: CPU in thousandths, everything else whole.
pub(super) fn base_units(resource: &str, amount: Quantity) -> Option<i64> {
    if resource == "cpu" {
        amount.millis()
    } else {
        amount.units()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::project;
    use serde_json::json;

    #[test]
    fn a_node_is_its_labels_taints_and_room() {
        let node = project(
            &NodeProjection,
            &json!({
                "metadata": {"name": "n1", "uid": "u", "resourceVersion": "1", "labels": {"rack": "r1"}},
                "spec": {"unschedulable": true, "taints": [
                    {"key": "gpu", "effect": "NoSchedule"}, {"key": "odd", "effect": "Unheard"}]},
                "status": {
                    "allocatable": {"cpu": "1500m", "memory": "1Gi", "nvidia.com/gpu": 8, "bad": "x"},
                    "conditions": [{"type": "Ready", "status": "True"}],
                },
            }),
        );
        assert!(node.unschedulable && !node.not_ready);
        assert_eq!(node.taints.len(), 1, "an effect that nobody knows is no effect");
        assert_eq!(node.allocatable["cpu"], 1500);
        assert_eq!(node.allocatable["memory"], 1 << 30);
        assert_eq!(node.allocatable["nvidia.com/gpu"], 8);
        assert_eq!(node.allocatable["bad"], 0);
    }

    #[test]
    fn a_node_that_says_nothing_is_not_ready() {
        let node = project(
            &NodeProjection,
            &json!({"metadata": {"name": "n", "uid": "u", "resourceVersion": "1"}}),
        );
        assert!(node.not_ready && node.allocatable.is_empty());
    }
}
