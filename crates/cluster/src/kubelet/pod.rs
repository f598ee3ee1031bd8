//! The kubelet's view of a pod.
//!
//! Owns the projection from the API's `Pod` to the few fields a simulated kubelet needs; everything else, above all
//! managed fields, is dropped as soon as an object arrives, so that tens of thousands of pods fit in memory.
//! It assumes that the API server has validated the pod.

use super::status::PodStatus;
use crate::behaviour;
use crate::resource_claims::{ClaimReferences, PodClaim};
use crate::view::{Metadata, Reduced};
use coppice_runtime::cache::{Interner, Kind, Meta, ObjectKey};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The pods that are bound to nodes.
pub(crate) type Pods = Kind<Reduced<PodObject, Pod>>;

/// The wire form: what is decoded of a `Pod`.
#[derive(Deserialize)]
pub(crate) struct PodObject {
    metadata: Metadata,
    #[serde(default)]
    spec: SpecObject,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecObject {
    node_name: String,
    restart_policy: Option<RestartPolicy>,
    host_network: bool,
    init_containers: Vec<ContainerObject>,
    containers: Vec<ContainerObject>,
    readiness_gates: Vec<ReadinessGate>,
    resource_claims: Vec<PodClaim>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ContainerObject {
    name: String,
    image: String,
    args: Vec<String>,
    restart_policy: Option<RestartPolicy>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ReadinessGate {
    condition_type: String,
}

/// When a container that has ended is started again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) enum RestartPolicy {
    /// Whatever its exit code.
    #[default]
    Always,
    /// Unless it exited with 0.
    OnFailure,
    /// Not at all.
    Never,
}

/// A container as the kubelet starts it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Container {
    pub(crate) name: String,
    pub(crate) image: String,
    /// Kept only where something reads them: for init containers with a wait rule.
    pub(crate) args: Vec<String>,
    /// An init container that keeps running beside the main ones.
    pub(crate) sidecar: bool,
}

/// A pod that is bound to a node.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) meta: Meta,
    pub(crate) node: ObjectKey,
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) restart_policy: RestartPolicy,
    pub(crate) host_network: bool,
    pub(crate) init_containers: Vec<Container>,
    pub(crate) containers: Vec<Container>,
    pub(crate) readiness_gates: Vec<String>,
    /// Seconds of grace if the pod is being deleted.
    pub(crate) deletion_grace: Option<u32>,
    pub(crate) has_finalizers: bool,
    pub(crate) claims: ClaimReferences,
    pub(crate) status: PodStatus,
}

/// What to keep of a pod besides the fixed fields.
#[derive(Clone, Debug, Default)]
pub(crate) struct Projection {
    /// Labels that wait rules look at.
    pub(crate) labels: BTreeSet<String>,
    /// Init containers whose arguments wait rules read.
    pub(crate) init_containers: BTreeSet<String>,
}

impl Projection {
    /// The projection of the cache.
    pub(crate) fn reduced(self) -> Reduced<PodObject, Pod> {
        Reduced::new(move |meta, object, names| self.pod(meta, object, names))
    }

    /// Reduces a decoded pod to the kubelet's view.
    fn pod(&self, meta: &Meta, object: PodObject, names: &Interner) -> Pod {
        let metadata = object.metadata;
        let spec = object.spec;
        let keep = |container: ContainerObject| Container {
            args: if self.init_containers.contains(&container.name) {
                container.args
            } else {
                Vec::new()
            },
            sidecar: container.restart_policy == Some(RestartPolicy::Always),
            name: container.name,
            image: container.image,
        };
        Pod {
            meta: meta.clone(),
            node: ObjectKey::new(names.intern(""), names.intern(&spec.node_name)),
            deletion_grace: metadata.deletion_grace(),
            has_finalizers: !metadata.finalizers.is_empty(),
            labels: retain(metadata.labels, |key| self.labels.contains(key)),
            annotations: retain(metadata.annotations, |key| key.starts_with(behaviour::PREFIX)),
            restart_policy: spec.restart_policy.unwrap_or_default(),
            host_network: spec.host_network,
            init_containers: spec.init_containers.into_iter().map(keep).collect(),
            containers: spec.containers.into_iter().map(keep).collect(),
            readiness_gates: spec
                .readiness_gates
                .into_iter()
                .map(|gate| gate.condition_type)
                .collect(),
            claims: ClaimReferences::new(spec.resource_claims, object.status.resource_claim_statuses.clone()),
            status: object.status,
        }
    }
}

fn retain(mut map: BTreeMap<String, String>, keep: impl Fn(&str) -> bool) -> BTreeMap<String, String> {
    map.retain(|key, _| keep(key));
    map
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::view::tests::view;
    use serde_json::json;

    /// A bound pod from the fields a test cares about.
    pub(crate) fn pod(spec: serde_json::Value, metadata: serde_json::Value) -> Pod {
        let mut full = json!({
            "metadata": {"namespace": "default", "name": "web-0", "uid": "u-1", "resourceVersion": "7"},
            "spec": {"nodeName": "node-00000", "containers": [{"name": "main", "image": "web:1"}]},
        });
        for (section, given) in [("spec", spec), ("metadata", metadata)] {
            for (key, value) in given.as_object().unwrap() {
                full[section][key] = value.clone();
            }
        }
        let projection = Projection {
            labels: ["app".to_owned()].into(),
            init_containers: ["wait".to_owned()].into(),
        };
        view(&projection.reduced(), full)
    }

    #[test]
    fn only_what_the_kubelet_needs_is_kept() {
        let pod = pod(
            json!({"initContainers": [
                {"name": "wait", "image": "i", "args": ["--for=a"]},
                {"name": "proxy", "image": "i", "args": ["x"], "restartPolicy": "Always"}]}),
            json!({
                "labels": {"app": "web", "other": "x"},
                "annotations": {"simulation.coppice.dev/kill": "1", "note": "long"},
                "managedFields": [{"manager": "someone"}],
                "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30,
                "finalizers": ["a/b"],
            }),
        );
        assert_eq!(pod.labels, BTreeMap::from([("app".to_owned(), "web".to_owned())]));
        assert_eq!(pod.annotations.len(), 1);
        assert_eq!(pod.init_containers[0].args, ["--for=a"]);
        assert!(pod.init_containers[1].args.is_empty() && pod.init_containers[1].sidecar);
        assert_eq!(
            (pod.deletion_grace, pod.has_finalizers, pod.meta.version.0),
            (Some(30), true, 7)
        );
        assert_eq!(pod.restart_policy, RestartPolicy::Always);
    }
}
