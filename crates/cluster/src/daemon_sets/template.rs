//! From the template of a DaemonSet to a pod for one node.
//!
//! Owns what the controller adds: a name, labels, the owner, tolerations of what befalls nodes, and the affinity to the
//! node. The name follows from set, node and template, so that a creation whose answer was lost is not repeated as another pod.

use super::view::DaemonSet;
use crate::digest::digest;
use crate::tolerations::Toleration;
use serde_json::{Value, json};

/// The label with the revision of the template that a pod was created from.
pub(crate) const REVISION_LABEL: &str = "controller-revision-hash";
const GENERATION_LABEL: &str = "pod-template-generation";
const LONGEST_BASE: usize = 240;

/// What pods of a DaemonSet tolerate: they stay where others are evicted.
pub(crate) fn tolerations(host_network: bool) -> Vec<Toleration> {
    let execute = ["not-ready", "unreachable"].map(|taint| (taint, "NoExecute"));
    let schedule =
        ["disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"].map(|taint| (taint, "NoSchedule"));
    let network = host_network.then_some(("network-unavailable", "NoSchedule"));
    execute
        .into_iter()
        .chain(schedule)
        .chain(network)
        .map(|(taint, effect)| Toleration {
            key: Some(format!("node.kubernetes.io/{taint}")),
            operator: Some("Exists".to_owned()),
            effect: Some(effect.to_owned()),
            ..Toleration::default()
        })
        .collect()
}

/// A hash of a template, fit for a label.
pub(crate) fn revision(template: &Value) -> String {
    digest(&[&template.to_string()])
}

/// The pod of a DaemonSet for one node.
pub(crate) fn pod(set: &DaemonSet, node: &str) -> Value {
    let mut metadata = json!({
        "name": pod_name(set, node),
        "namespace": &*set.meta.key.namespace,
        "ownerReferences": [{
            "apiVersion": "apps/v1", "kind": "DaemonSet", "name": &*set.meta.key.name, "uid": &*set.meta.uid,
            "controller": true, "blockOwnerDeletion": true,
        }],
    });
    let given = &set.template["metadata"];
    for field in ["labels", "annotations", "finalizers"] {
        if !given[field].is_null() {
            metadata[field] = given[field].clone();
        }
    }
    metadata["labels"][REVISION_LABEL] = json!(set.revision);
    metadata["labels"][GENERATION_LABEL] = json!(set.generation.to_string());
    let mut spec = set.template["spec"].clone();
    let mut tolerations: Vec<Value> = spec["tolerations"].as_array().cloned().unwrap_or_default();
    let host_network = spec["hostNetwork"] == true;
    let added = self::tolerations(host_network);
    let added = added
        .into_iter()
        .map(|toleration| json!({"key": toleration.key, "operator": toleration.operator, "effect": toleration.effect}));
    tolerations.extend(
        added
            .collect::<Vec<_>>()
            .into_iter()
            .filter(|one| !set_has(&set.template, one)),
    );
    spec["tolerations"] = json!(tolerations);
    spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = json!({
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}],
    });
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
}

fn set_has(template: &Value, toleration: &Value) -> bool {
    let given = template["spec"]["tolerations"].as_array();
    given.is_some_and(|given| given.contains(toleration))
}

fn pod_name(set: &DaemonSet, node: &str) -> String {
    let name = &*set.meta.key.name;
    // Names of DaemonSets are ASCII.
    let base = name.get(..LONGEST_BASE).unwrap_or(name);
    format!("{base}-{}", digest(&[&set.meta.uid, node, &set.revision]))
}
