//! Pods at about one kilobyte: the view that planners and schedulers need of a pod.
//!
//! Owns the selection of fields. Strings that many pods share (namespaces, labels, nodes, reasons, owners) are
//! interned; times are plain numbers; what is rarely there is boxed. Never keeps the specification.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use serde_json::value::RawValue;

use super::{Interner, Labels, Meta, Projection, labels, pod_wire as wire};

/// The phase of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum PodPhase {
    /// Accepted, not all containers run.
    Pending,
    /// Bound, at least one container runs or ran.
    Running,
    /// All containers ended well.
    Succeeded,
    /// All containers ended, at least one badly.
    Failed,
    /// Not told.
    #[default]
    Unknown,
}

/// One condition of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// Whether its status is `True`.
    pub is_true: bool,
    /// When it changed last.
    pub since: Option<Timestamp>,
    /// The reason given.
    pub reason: Option<Arc<str>>,
}

/// How a container ended last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Termination {
    /// Its exit code.
    pub exit_code: i32,
    /// The reason given, such as `OOMKilled`.
    pub reason: Option<Arc<str>>,
    /// When it ended.
    pub at: Option<Timestamp>,
}

/// What one container requests, as written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerRequests {
    /// Whether it is an init container.
    pub init: bool,
    /// Whether it is an init container that keeps running beside the others.
    pub sidecar: bool,
    /// Resource name and quantity, ordered by name.
    pub requests: Box<[(Arc<str>, Arc<str>)]>,
}

/// What the cache keeps of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodView {
    /// Identity and version.
    pub meta: Meta,
    /// `metadata.generation`.
    pub generation: i64,
    /// All labels, ordered by key.
    pub labels: Labels,
    /// The annotations that the projection was asked to keep, ordered by key.
    pub annotations: Labels,
    /// The uid of the owner that is the controller.
    pub controller_uid: Option<Arc<str>>,
    /// The kind of that owner.
    pub controller_kind: Option<Arc<str>>,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// When it will be or was to be gone.
    pub deletion: Option<Timestamp>,
    /// The node it is bound to.
    pub node_name: Option<Arc<str>>,
    /// `spec.hostname`.
    pub hostname: Option<Arc<str>>,
    /// Names of the scheduling gates that are left.
    pub gates: Box<[Arc<str>]>,
    /// `status.phase`.
    pub phase: PodPhase,
    /// The condition `Ready`.
    pub ready: Option<Condition>,
    /// The condition `PodScheduled`.
    pub scheduled: Option<Condition>,
    /// When the kubelet took it.
    pub started: Option<Timestamp>,
    /// Restarts of all containers together, init containers included.
    pub restarts: u32,
    /// How many containers (init containers not counted) have started.
    pub containers_started: u16,
    /// Why a container waits, when one does.
    pub waiting_reason: Option<Arc<str>>,
    /// The latest known end of a container.
    pub last_termination: Option<Box<Termination>>,
    /// What the containers request, when the projection was asked to keep it; the pod's overhead counts as a sidecar.
    pub requests: Option<Box<[ContainerRequests]>>,
}

impl PodView {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&Arc<str>> {
        let found = self.labels.binary_search_by(|(label, _)| (**label).cmp(key)).ok()?;
        Some(&self.labels[found].1)
    }

    /// The value of an annotation that was kept.
    #[must_use]
    pub fn annotation(&self, key: &str) -> Option<&Arc<str>> {
        let mut all = self.annotations.iter();
        all.find(|(annotation, _)| **annotation == *key).map(|(_, value)| value)
    }

    /// Whether the condition `Ready` is true.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.ready.as_ref().is_some_and(|condition| condition.is_true)
    }

    /// Whether the pod is being deleted.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        self.deletion.is_some()
    }
}

/// The projection of pods.
#[derive(Debug, Clone, Copy, Default)]
pub struct PodProjection {
    /// Whether to keep what the containers request.
    pub requests: bool,
    /// Keys of the annotations to keep.
    pub annotations: &'static [&'static str],
}

impl Projection for PodProjection {
    type View = PodView;

    fn project(&self, meta: &Meta, object: &RawValue, names: &Interner) -> Result<PodView, serde_json::Error> {
        let wire::Pod { metadata, spec, status } = serde_json::from_str(object.get())?;
        let intern = |text: &Option<String>| {
            text.as_deref()
                .filter(|text| !text.is_empty())
                .map(|text| names.intern(text))
        };
        let condition = |kind: &str| {
            let found = status
                .conditions
                .iter()
                .flatten()
                .find(|condition| condition.kind == kind)?;
            Some(Condition {
                is_true: found.status == "True",
                since: found.last_transition_time,
                reason: intern(&found.reason),
            })
        };
        let started = status
            .container_statuses
            .iter()
            .flatten()
            .filter(|status| status.started == Some(true))
            .count();
        let containers = || {
            status
                .init_container_statuses
                .iter()
                .chain(&status.container_statuses)
                .flatten()
        };
        let ends = || {
            containers()
                .flat_map(|status| [&status.state.terminated, &status.last_state.terminated])
                .flatten()
        };
        let mut owners = metadata.owner_references.iter().flatten();
        let controller = owners.find(|owner| owner.controller == Some(true));
        Ok(PodView {
            generation: metadata.generation,
            labels: metadata.labels.map(|wire| labels(&wire, names)).unwrap_or_default(),
            annotations: self.annotations(metadata.annotations.as_ref(), names),
            controller_uid: controller.map(|owner| names.intern(&owner.uid)),
            controller_kind: controller.and_then(|owner| intern(&owner.kind)),
            created: metadata.creation_timestamp,
            deletion: metadata.deletion_timestamp,
            node_name: intern(&spec.node_name),
            hostname: spec.hostname.as_deref().map(|host| own_or(host, &meta.key.name)),
            gates: spec
                .scheduling_gates
                .iter()
                .flatten()
                .map(|gate| names.intern(&gate.name))
                .collect(),
            phase: phase(status.phase.as_deref()),
            ready: condition("Ready"),
            scheduled: condition("PodScheduled"),
            started: status.start_time,
            restarts: containers().map(|status| status.restart_count).sum(),
            containers_started: u16::try_from(started).unwrap_or(u16::MAX),
            waiting_reason: containers()
                .find_map(|status| status.state.waiting.as_ref())
                .and_then(|waiting| intern(&waiting.reason)),
            last_termination: ends().max_by_key(|end| end.finished_at).map(|end| {
                Box::new(Termination {
                    exit_code: end.exit_code,
                    reason: intern(&end.reason),
                    at: end.finished_at,
                })
            }),
            requests: self.requests.then(|| requests(&spec, names)),
            meta: meta.clone(),
        })
    }
}

impl PodProjection {
    fn annotations(&self, wire: Option<&BTreeMap<String, String>>, names: &Interner) -> Labels {
        let kept = wire.into_iter().flatten();
        kept.filter(|(key, _)| self.annotations.contains(&key.as_str()))
            .map(|(key, value)| (names.intern(key), names.intern(value)))
            .collect()
    }
}

/// Pods whose hostname is their name share the string.
fn own_or(text: &str, name: &Arc<str>) -> Arc<str> {
    if text == &**name { name.clone() } else { text.into() }
}

fn phase(text: Option<&str>) -> PodPhase {
    match text {
        Some("Pending") => PodPhase::Pending,
        Some("Running") => PodPhase::Running,
        Some("Succeeded") => PodPhase::Succeeded,
        Some("Failed") => PodPhase::Failed,
        _ => PodPhase::Unknown,
    }
}

fn requests(spec: &wire::Spec, names: &Interner) -> Box<[ContainerRequests]> {
    let shared = |wire: &BTreeMap<String, wire::Quantity>| {
        wire.iter()
            .map(|(name, quantity)| (names.intern(name), quantity.with_text(|text| names.intern(text))))
            .collect::<Box<[_]>>()
    };
    let of = |init: bool| {
        move |container: &wire::Container| ContainerRequests {
            init,
            sidecar: init && container.restart_policy.as_deref() == Some("Always"),
            requests: container.resources.requests.as_ref().map(shared).unwrap_or_default(),
        }
    };
    let inits = spec.init_containers.iter().flatten().map(of(true));
    let mains = spec.containers.iter().flatten().map(of(false));
    let overhead = spec.overhead.iter().map(|wire| ContainerRequests {
        init: false,
        sidecar: true,
        requests: shared(wire),
    });
    inits.chain(mains).chain(overhead).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::Head;

    fn view(json: &serde_json::Value, projection: PodProjection) -> PodView {
        let names = Interner::default();
        let raw = serde_json::value::to_raw_value(json).unwrap();
        let head = Head::read(&raw, &names).unwrap();
        projection.project(&head.meta, &raw, &names).unwrap()
    }

    #[test]
    fn keeps_what_planners_ask_for() {
        let pod = serde_json::json!({
            "metadata": {
                "name": "web-0", "namespace": "prod", "uid": "u-1", "resourceVersion": "42", "generation": 3,
                "labels": {"b": "2", "a": "1"},
                "annotations": {"kept": "yes", "large": "not kept"},
                "ownerReferences": [{"uid": "other", "kind": "A"}, {"uid": "boss", "kind": "B", "controller": true}],
                "deletionTimestamp": "2026-01-01T00:00:30Z",
                "managedFields": [{"manager": "x", "fieldsV1": {"f:spec": {}}}],
            },
            "spec": {
                "nodeName": "node-1", "hostname": "web-0",
                "schedulingGates": [{"name": "gate"}],
                "initContainers": [{"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}],
                "containers": [{"name": "c", "resources": {"requests": {"cpu": 2, "memory": "1Gi"}}}],
                "overhead": {"memory": "10Mi"},
            },
            "status": {
                "phase": "Running", "startTime": "2026-01-01T00:00:00Z",
                "conditions": [
                    {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": "2026-01-01T00:00:10Z"},
                    {"type": "PodScheduled", "status": "True"},
                ],
                "containerStatuses": [{
                    "name": "c", "restartCount": 2, "started": true,
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": {"exitCode": 137, "reason": "OOMKilled", "finishedAt": "2026-01-01T00:00:09Z"}},
                }],
            },
        });
        let projection = PodProjection {
            requests: true,
            annotations: &["kept"],
        };
        let view = view(&pod, projection);
        assert_eq!(view.annotation("kept").map(|value| &**value), Some("yes"));
        assert_eq!(view.annotations.len(), 1);
        assert_eq!(view.label("a").map(|value| &**value), Some("1"));
        assert_eq!(view.label("c"), None);
        assert_eq!(view.controller_uid.as_deref(), Some("boss"));
        assert_eq!(view.controller_kind.as_deref(), Some("B"));
        assert!(view.is_terminating() && !view.is_ready());
        assert_eq!(
            view.ready.as_ref().unwrap().reason.as_deref(),
            Some("ContainersNotReady")
        );
        assert!(view.scheduled.as_ref().unwrap().is_true);
        assert_eq!(
            (view.restarts, view.containers_started, view.phase),
            (2, 1, PodPhase::Running)
        );
        assert_eq!(view.waiting_reason.as_deref(), Some("CrashLoopBackOff"));
        assert_eq!(view.last_termination.as_ref().unwrap().exit_code, 137);
        assert!(Arc::ptr_eq(view.hostname.as_ref().unwrap(), &view.meta.key.name));
        let requests = view.requests.as_ref().unwrap();
        assert_eq!(requests.len(), 3);
        assert!(requests[0].init && requests[0].sidecar);
        assert_eq!(requests[1].requests[0].1.as_ref(), "2");
        assert!(requests[2].sidecar);
    }

    #[test]
    fn an_empty_pod_has_a_view() {
        let pod = serde_json::json!({"metadata": {"name": "a", "uid": "u", "resourceVersion": "1", "labels": null}});
        let view = view(&pod, PodProjection::default());
        assert_eq!((view.phase, view.ready, view.requests), (PodPhase::Unknown, None, None));
    }
}
