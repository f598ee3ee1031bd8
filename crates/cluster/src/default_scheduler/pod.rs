//! The scheduler's view of a pod.
//!
//! Owns the projection and the effective resource request: main containers together, or the largest moment of
//! initialisation, whichever is more.

use super::quantity::milli;
use crate::kubelet::pod::RestartPolicy;
use crate::kubelet::status::{Condition, PodStatus};
use crate::resource_claims::{ClaimReferences, PodClaim};
use crate::tolerations::Toleration;
use crate::view::{Metadata, Reduced};
use coppice_runtime::cache::{Interner, Kind, Meta};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::Arc;

/// All pods of the cluster.
pub(crate) type Pods = Kind<Reduced<PodObject, Pod>>;

/// Amounts of resources in thousandths.
pub(crate) type Amounts = BTreeMap<String, i128>;

/// The wire form: what is decoded of a `Pod`.
#[derive(Deserialize)]
pub(crate) struct PodObject {
    metadata: Metadata,
    spec: SpecObject,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Default, Deserialize)]
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
    resource_claims: Vec<PodClaim>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerObject {
    resources: Resources,
    restart_policy: Option<RestartPolicy>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Resources {
    requests: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Affinity {
    node_affinity: NodeAffinity,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct NodeAffinity {
    required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
}

/// Terms of which one must match.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct NodeSelector {
    pub(crate) node_selector_terms: Vec<Term>,
}

/// Requirements that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Term {
    pub(crate) match_expressions: Vec<Requirement>,
    pub(crate) match_fields: Vec<Requirement>,
}

/// One requirement on a label or field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Requirement {
    pub(crate) key: String,
    pub(crate) operator: String,
    pub(crate) values: Vec<String>,
}

/// A pod to be scheduled, or one that takes room on a node.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) meta: Meta,
    pub(crate) node: Option<Arc<str>>,
    /// Wants this scheduler, is not gated and not on its way out.
    pub(crate) wants_node: bool,
    pub(crate) requests: Amounts,
    pub(crate) node_selector: BTreeMap<String, String>,
    pub(crate) affinity: Option<NodeSelector>,
    pub(crate) tolerations: Vec<Toleration>,
    pub(crate) terminal: bool,
    pub(crate) scheduled: Option<Condition>,
    pub(crate) claims: ClaimReferences,
}

impl Pod {
    pub(crate) fn from_object(meta: &Meta, object: PodObject, names: &Interner) -> Self {
        let PodObject { metadata, spec, status } = object;
        let node = spec.node_name.as_deref().filter(|name| !name.is_empty());
        let ours = spec
            .scheduler_name
            .as_deref()
            .is_none_or(|name| name == "default-scheduler");
        let terminal = status.is_terminal();
        Self {
            meta: meta.clone(),
            wants_node: node.is_none()
                && ours
                && spec.scheduling_gates.is_empty()
                && !metadata.is_deleting()
                && !terminal,
            node: node.map(|name| names.intern(name)),
            requests: effective_requests(&spec),
            node_selector: spec.node_selector,
            affinity: spec
                .affinity
                .node_affinity
                .required_during_scheduling_ignored_during_execution,
            tolerations: spec.tolerations,
            terminal,
            scheduled: status.condition("PodScheduled").cloned(),
            claims: ClaimReferences::new(spec.resource_claims, status.resource_claim_statuses),
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
    use crate::view::tests::view;
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
        view(&Reduced::new(Pod::from_object), object)
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
