//! The controller's view of a pod of a DaemonSet.

use super::template::REVISION_LABEL;
use crate::kubelet::status::{Phase, PodStatus};
use crate::view::{Metadata, Reduced};
use coppice_runtime::cache::{Interner, Kind, Meta};
use coppice_runtime::clock::later;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;

/// All pods; those of other owners are empty.
pub(crate) type Pods = Kind<Reduced<PodObject, Option<Pod>>>;

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
    node_name: Option<String>,
    affinity: Value,
}

/// A pod of a DaemonSet.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) meta: Meta,
    /// UID of its DaemonSet.
    pub(crate) owner: Arc<str>,
    /// Where it is bound, or where it is to be bound.
    pub(crate) node: Arc<str>,
    pub(crate) bound: bool,
    pub(crate) deleting: bool,
    /// Ended, whether well or not.
    pub(crate) ended: bool,
    pub(crate) revision: String,
    pub(crate) created: Option<Timestamp>,
    /// Since when it has been ready.
    pub(crate) ready_since: Option<Timestamp>,
}

impl Pod {
    pub(crate) fn from_object(meta: &Meta, object: PodObject, names: &Interner) -> Option<Self> {
        let PodObject { metadata, spec, status } = object;
        let owner = names.intern(metadata.controller("DaemonSet")?);
        let bound = spec.node_name.filter(|name| !name.is_empty());
        let node = bound.as_deref().or_else(|| target(&spec.affinity)).unwrap_or_default();
        let ready = status.condition("Ready").filter(|condition| condition.status == "True");
        Some(Self {
            meta: meta.clone(),
            owner,
            node: names.intern(node),
            bound: bound.is_some(),
            deleting: metadata.is_deleting(),
            ended: matches!(status.phase, Phase::Failed | Phase::Succeeded),
            revision: metadata.labels.get(REVISION_LABEL).cloned().unwrap_or_default(),
            created: metadata.creation_timestamp,
            ready_since: ready.map(|ready| ready.last_transition_time.unwrap_or_default()),
        })
    }

    /// When the pod counts as available: at once when ready, or after it has been ready for `least`.
    pub(crate) fn available_at(&self, least: Duration) -> Option<Timestamp> {
        self.ready_since.map(|since| later(since, least))
    }
}

/// The node that the affinity of an unbound pod names.
fn target(affinity: &Value) -> Option<&str> {
    let required = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
    required["nodeSelectorTerms"][0]["matchFields"][0]["values"][0].as_str()
}
