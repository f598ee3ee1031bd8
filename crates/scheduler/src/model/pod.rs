//! Pods at about one kilobyte: what the scheduler keeps of a pod.
//!
//! Owns the selection of fields and the sharing of equal demands: the pods of a clique differ in their names, not in what
//! they ask for. Never keeps the specification (environments alone have exhausted the memory of schedulers).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coppice_api::names::labels as keys;
use coppice_placement::shape::PodDemands;
use coppice_runtime::cache::{Interner, Labels, Meta, ObjectKey, Projection, labels};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::demands::{self, Spec};
use super::volumes::PodVolume;
use crate::caught::decoded;

/// A pod, as the scheduler sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodRecord {
    /// Identity and version.
    pub meta: Meta,
    /// All labels, ordered by key.
    pub labels: Labels,
    /// Who is to find a node for it.
    pub scheduler: Arc<str>,
    /// The node it has.
    pub node: Option<Arc<str>>,
    /// Something holds it back.
    pub gated: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// All its containers have ended: it takes no room.
    pub finished: bool,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its own priority.
    pub priority: i32,
    /// Its preemption policy is `Never`.
    pub never_preempts: bool,
    /// What it demands; equal demands are shared.
    pub demands: Arc<PodDemands>,
    /// Its volumes that come from claims.
    pub volumes: Box<[PodVolume]>,
    /// It is Ready, or has been: such a pod is never released. In doubt it has been.
    pub has_been_ready: bool,
    /// The message of its condition `PodScheduled` while that is false: the reason that was reported to it.
    pub reported_reason: Option<Box<str>>,
}

impl PodRecord {
    /// The value of a label.
    #[must_use]
    pub fn label(&self, key: &str) -> Option<&Arc<str>> {
        let found = self.labels.binary_search_by(|(label, _)| (**label).cmp(key)).ok()?;
        Some(&self.labels[found].1)
    }

    /// The gang it belongs to.
    #[must_use]
    pub fn gang(&self) -> Option<ObjectKey> {
        let name = self.label(keys::POD_GANG)?;
        Some(ObjectKey {
            namespace: self.meta.key.namespace.clone(),
            name: name.clone(),
        })
    }

    /// Whether it takes room on a node.
    #[must_use]
    pub fn takes_room(&self) -> bool {
        self.node.is_some() && !self.finished
    }

    /// Whether it is a member of its gang: neither ended nor ending.
    #[must_use]
    pub fn counts(&self) -> bool {
        !self.deleting && !self.finished
    }
}

/// The projection of pods. Clones share what they know.
#[derive(Debug, Clone, Default)]
pub struct PodRecords {
    shared: Arc<Mutex<BTreeSet<Arc<PodDemands>>>>,
    /// Pods that have gone since it was last looked which demands are in use.
    gone: Arc<Mutex<usize>>,
}

impl PodRecords {
    /// Notes that pods have gone; forgets their demands once there may be as many unused ones as others.
    pub fn note_gone(&self, pods: usize) {
        let mut gone = self.gone.lock();
        *gone = gone.saturating_add(pods);
        if *gone > 0 && gone.saturating_mul(2) >= self.len() {
            *gone = 0;
            self.forget_unused();
        }
    }

    /// Forgets demands that no pod has any more.
    pub fn forget_unused(&self) {
        self.shared.lock().retain(|demands| Arc::strong_count(demands) > 1);
    }

    /// How many different demands are known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.lock().len()
    }

    /// Whether none are.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn share(&self, demands: PodDemands) -> Arc<PodDemands> {
        let mut shared = self.shared.lock();
        if let Some(found) = shared.get(&demands) {
            return found.clone();
        }
        // What no pod demands any more goes each time the table has doubled.
        if shared.len() >= 64 && shared.len().is_power_of_two() {
            shared.retain(|demands| Arc::strong_count(demands) > 1);
        }
        let demands = Arc::new(demands);
        shared.insert(demands.clone());
        demands
    }
}

#[derive(Deserialize)]
struct Wire {
    metadata: Metadata,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    labels: Option<BTreeMap<String, String>>,
    creation_timestamp: Option<Timestamp>,
    deletion_timestamp: Option<serde::de::IgnoredAny>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct Status {
    phase: Option<String>,
    start_time: Option<Timestamp>,
    #[serde(default)]
    conditions: Option<Vec<Condition>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    status: String,
    message: Option<String>,
    last_transition_time: Option<Timestamp>,
}

impl Status {
    fn condition(&self, kind: &str) -> Option<&Condition> {
        let mut conditions = self.conditions.iter().flatten();
        conditions.find(|condition| condition.kind == kind)
    }

    /// Whether the pod is Ready or has been. A kubelet reports `Ready` as false in the very status that has the start of the
    /// pod, and the time of a condition changes only when the condition does; so one that has been false since the start
    /// has never been true. Anything else counts as ready.
    fn has_been_ready(&self) -> bool {
        let Some(ready) = self.condition("Ready") else {
            return false;
        };
        let since = ready.last_transition_time.zip(self.start_time);
        let since_start = since.is_some_and(|(since, start)| since <= start);
        ready.status != "False" || !since_start
    }
}

impl Projection for PodRecords {
    type View = PodRecord;

    fn project(&self, meta: &Meta, object: &RawValue, names: &Interner) -> Result<PodRecord, serde_json::Error> {
        decoded(|| self.read(meta, object, names))
    }
}

impl PodRecords {
    fn read(&self, meta: &Meta, object: &RawValue, names: &Interner) -> Result<PodRecord, serde_json::Error> {
        let Wire { metadata, spec, status } = serde_json::from_str(object.get())?;
        let node = spec.node_name.as_deref().filter(|node| !node.is_empty());
        let demands = if node.is_some() {
            demands::resident(&spec)
        } else {
            demands::waiting(&spec)
        };
        let volumes = demands::volumes(&spec, &meta.key.name);
        let unscheduled = status
            .condition("PodScheduled")
            .filter(|condition| condition.status == "False");
        let reported_reason = unscheduled.map(|condition| condition.message.clone().unwrap_or_default().into());
        Ok(PodRecord {
            labels: metadata.labels.map(|wire| labels(&wire, names)).unwrap_or_default(),
            scheduler: names.intern(spec.scheduler_name.as_deref().unwrap_or_default()),
            node: node.map(|node| names.intern(node)),
            gated: spec.scheduling_gates.is_some_and(|gates| !gates.is_empty()),
            deleting: metadata.deletion_timestamp.is_some(),
            finished: matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")),
            created: metadata.creation_timestamp,
            priority: spec.priority.unwrap_or(0),
            never_preempts: spec.preemption_policy.as_deref() == Some("Never"),
            demands: self.share(demands),
            volumes,
            has_been_ready: status.has_been_ready(),
            reported_reason,
            meta: meta.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::testing::project;
    use serde_json::json;

    #[test]
    fn equal_demands_are_shared_and_a_bound_pod_asks_nothing_of_nodes() {
        let records = PodRecords::default();
        let pod = |name: &str, node: Option<&str>| {
            json!({
                "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1",
                    "labels": {"grove.io/podgang": "g"}},
                "spec": {"schedulerName": "coppice", "nodeName": node, "nodeSelector": {"a": "b"},
                    "schedulingGates": [{"name": "x"}],
                    "containers": [{"resources": {"requests": {"cpu": "1"}}, "env": [{"name": "LONG", "value": "x"}]}]},
                "status": {"phase": "Pending", "conditions": [
                    {"type": "PodScheduled", "status": "False", "message": "no room"}]},
            })
        };
        let first = project(&records, &pod("a", None));
        let second = project(&records, &pod("b", None));
        assert!(Arc::ptr_eq(&first.demands, &second.demands));
        assert_eq!(first.gang(), Some(ObjectKey::new("n", "g")));
        assert_eq!(first.reported_reason.as_deref(), Some("no room"));
        assert!(first.gated && first.counts() && !first.takes_room());
        let bound = project(&records, &pod("c", Some("n1")));
        assert!(bound.takes_room() && bound.demands.node.selector.is_empty());
    }

    #[test]
    fn a_pod_has_been_ready_unless_it_was_never_since_its_start() {
        let was_ready = |status: serde_json::Value| {
            let object = json!({"metadata": {"name": "a", "namespace": "n", "uid": "a", "resourceVersion": "1"},
                "spec": {"nodeName": "n1"}, "status": status});
            project(&PodRecords::default(), &object).has_been_ready
        };
        let condition = |kind: &str, status: &str, second: u32| json!({"type": kind, "status": status, "lastTransitionTime": format!("2026-01-01T00:00:{second:02}Z")});
        let started = "2026-01-01T00:00:05Z";
        let status = |conditions: &[serde_json::Value]| json!({"startTime": started, "conditions": conditions});
        assert!(!was_ready(json!({})), "no kubelet has reported it");
        assert!(was_ready(status(&[condition("Ready", "True", 9)])));
        assert!(was_ready(status(&[condition("Ready", "Unknown", 5)])));
        assert!(!was_ready(status(&[condition("Ready", "False", 5)])));
        assert!(
            was_ready(status(&[condition("Ready", "False", 6)])),
            "it changed after the start"
        );
        assert!(
            was_ready(json!({"conditions": [condition("Ready", "False", 5)]})),
            "in doubt"
        );
        assert!(
            was_ready(json!({"conditions": [{"type": "Ready", "status": "False"}]})),
            "in doubt"
        );
    }
}
