//! The scheduler's view of a pod.
//!
//! Owns the projection and the effective resource request: main containers together, or the largest moment of
//! initialisation, whichever is more.

use super::quantity::milli;
use crate::engine::requests::version_number;
use crate::kubelet::pod::{PodKey, RestartPolicy};
use crate::kubelet::status::{Condition, PodStatus};
use crate::tolerations::Toleration;
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::api::ObjectMeta;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Amounts of resources in thousandths.
pub(crate) type Amounts = BTreeMap<String, i128>;

/// The wire form: what is decoded of a `Pod`.
#[derive(Clone, Debug, Serialize, Deserialize, kube::Resource)]
#[resource(inherit = ApiPod)]
pub(crate) struct PodObject {
    metadata: ObjectMeta,
    spec: SpecObject,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecObject {
    node_name: Option<String>,
    scheduler_name: Option<String>,
    scheduling_gates: Vec<serde_json::Value>,
    containers: Vec<ContainerObject>,
    init_containers: Vec<ContainerObject>,
    overhead: BTreeMap<String, String>,
    node_selector: BTreeMap<String, String>,
    affinity: Affinity,
    tolerations: Vec<Toleration>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerObject {
    resources: Resources,
    restart_policy: Option<RestartPolicy>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Resources {
    requests: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: NodeAffinity,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
}

/// Terms of which one must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeSelector {
    pub(crate) node_selector_terms: Vec<Term>,
}

/// Requirements that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Term {
    pub(crate) match_expressions: Vec<Requirement>,
    pub(crate) match_fields: Vec<Requirement>,
}

/// One requirement on a label or field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Requirement {
    pub(crate) key: String,
    pub(crate) operator: String,
    pub(crate) values: Vec<String>,
}

/// A pod to be scheduled, or one that takes room on a node.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) key: PodKey,
    pub(crate) uid: String,
    pub(crate) version: u64,
    pub(crate) node: Option<String>,
    /// Wants this scheduler, is not gated and not on its way out.
    pub(crate) wants_node: bool,
    pub(crate) requests: Amounts,
    pub(crate) node_selector: BTreeMap<String, String>,
    pub(crate) affinity: Option<NodeSelector>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) terminal: bool,
    pub(crate) scheduled: Option<Condition>,
}

impl From<PodObject> for Pod {
    fn from(object: PodObject) -> Self {
        let PodObject { metadata, spec, status } = object;
        let node = spec.node_name.clone().filter(|name| !name.is_empty());
        let ours = spec
            .scheduler_name
            .as_deref()
            .is_none_or(|name| name == "default-scheduler");
        let terminal = status.is_terminal();
        Self {
            key: PodKey::of(&metadata),
            version: version_number(metadata.resource_version.as_deref()),
            uid: metadata.uid.unwrap_or_default(),
            wants_node: node.is_none()
                && ours
                && spec.scheduling_gates.is_empty()
                && metadata.deletion_timestamp.is_none()
                && !terminal,
            node,
            requests: effective_requests(&spec),
            node_selector: spec.node_selector,
            affinity: spec
                .affinity
                .node_affinity
                .required_during_scheduling_ignored_during_execution,
            tolerations: spec.tolerations,
            terminal,
            scheduled: status.condition("PodScheduled").cloned(),
        }
    }
}

fn effective_requests(spec: &SpecObject) -> Amounts {
    let mut running = Amounts::new();
    for container in &spec.containers {
        add(&mut running, &amounts(&container.resources.requests));
    }
    let mut sidecars = Amounts::new();
    let mut peak = Amounts::new();
    for container in &spec.init_containers {
        let own = amounts(&container.resources.requests);
        if container.restart_policy == Some(RestartPolicy::Always) {
            add(&mut sidecars, &own);
            raise(&mut peak, &sidecars);
        } else {
            let mut moment = sidecars.clone();
            add(&mut moment, &own);
            raise(&mut peak, &moment);
        }
    }
    add(&mut running, &sidecars);
    raise(&mut running, &peak);
    add(&mut running, &amounts(&spec.overhead));
    running.insert("pods".to_owned(), 1000);
    running
}

/// Reads quantities; what is not a number counts as nothing, since the API server has validated it.
pub(crate) fn amounts(quantities: &BTreeMap<String, String>) -> Amounts {
    quantities
        .iter()
        .map(|(name, text)| (name.clone(), milli(text).unwrap_or(0)))
        .collect()
}

/// Adds amounts to a total.
pub(crate) fn add(total: &mut Amounts, more: &Amounts) {
    for (name, amount) in more {
        *total.entry(name.clone()).or_insert(0) += amount;
    }
}

/// Takes amounts off a total.
pub(crate) fn subtract(total: &mut Amounts, less: &Amounts) {
    for (name, amount) in less {
        if let Some(left) = total.get_mut(name) {
            *left -= amount;
        }
    }
}

fn raise(total: &mut Amounts, floor: &Amounts) {
    for (name, amount) in floor {
        let entry = total.entry(name.clone()).or_insert(0);
        *entry = (*entry).max(*amount);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use serde_json::{Value, json};

    /// A pod with the given spec.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a literal reads better without a reference"
    )]
    pub(crate) fn pod(name: &str, spec: Value) -> Pod {
        let object = json!({
            "metadata": {"namespace": "default", "name": name, "uid": name, "resourceVersion": "1"},
            "spec": spec,
        });
        Pod::from(serde_json::from_value::<PodObject>(object).unwrap())
    }

    fn container(cpu: &str) -> Value {
        json!({"resources": {"requests": {"cpu": cpu}}})
    }

    #[test]
    fn requests_are_the_sum_or_the_peak_of_initialisation() {
        let sum = pod(
            "a",
            json!({"containers": [container("1"), container("500m")], "overhead": {"cpu": "100m"}}),
        );
        assert_eq!(
            sum.requests,
            Amounts::from([("cpu".to_owned(), 1600), ("pods".to_owned(), 1000)])
        );
        let peak = pod(
            "b",
            json!({"containers": [container("1")], "initContainers": [container("3")]}),
        );
        assert_eq!(peak.requests["cpu"], 3000);
        let mut sidecar = container("2");
        sidecar["restartPolicy"] = json!("Always");
        let with_sidecar = pod(
            "c",
            json!({"containers": [container("1")], "initContainers": [sidecar, container("500m")]}),
        );
        assert_eq!(with_sidecar.requests["cpu"], 3000);
    }

    #[test]
    fn only_ungated_pods_of_this_scheduler_want_a_node() {
        assert!(pod("a", json!({})).wants_node);
        assert!(pod("a", json!({"schedulerName": "default-scheduler"})).wants_node);
        assert!(!pod("a", json!({"schedulerName": "other"})).wants_node);
        assert!(!pod("a", json!({"schedulingGates": [{"name": "g"}]})).wants_node);
        assert!(!pod("a", json!({"nodeName": "n"})).wants_node);
    }
}
