//! From the cached view of a pod to what planners need to know of it.

use coppice_api::names::{finalizers, labels, parsing::parse_index};
use coppice_core::backends::{STAMP_ANNOTATIONS, STAMP_LABELS, Stamp};
use coppice_core::snapshot::{Membership, PodFacts};
use coppice_runtime::cache::{PodPhase, PodView};
use jiff::Timestamp;

/// Reasons for which a container waits after something went wrong.
const FAILING: [&str; 6] = [
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "InvalidImageName",
    "CreateContainerConfigError",
    "CreateContainerError",
];

/// What planners need to know of a pod.
pub(crate) fn facts(pod: &PodView) -> PodFacts {
    let label = |key: &str| pod.label(key).map(ToString::to_string).unwrap_or_default();
    let is_ours = |gate: &str| gate == finalizers::SCHEDULING_GATE;
    let scheduled = pod.node_name.is_some() || pod.scheduled.as_ref().is_some_and(|condition| condition.is_true);
    PodFacts {
        name: pod.meta.key.name.to_string(),
        namespace: pod.meta.key.namespace.to_string(),
        uid: pod.meta.uid.to_string(),
        resource_version: pod.meta.version.to_string(),
        owner_uid: pod.controller_uid.as_deref().unwrap_or_default().to_owned(),
        clique: label(labels::POD_CLIQUE),
        index: parse_index(&label(labels::POD_INDEX)),
        membership: membership(pod),
        template_hash: label(labels::POD_TEMPLATE_HASH),
        created: pod.created.unwrap_or(Timestamp::UNIX_EPOCH),
        deleting: pod.is_terminating(),
        ended: ended(pod),
        scheduled,
        gated: pod.gates.iter().any(|gate| is_ours(gate)),
        other_gates: pod
            .gates
            .iter()
            .filter(|gate| !is_ours(gate))
            .map(ToString::to_string)
            .collect(),
        ready: pod.is_ready(),
        ready_since: pod
            .ready
            .as_ref()
            .filter(|ready| ready.is_true)
            .and_then(|ready| ready.since),
        failing: pod
            .waiting_reason
            .as_deref()
            .is_some_and(|reason| FAILING.contains(&reason)),
    }
}

/// When a pod ended. One that was evicted has no container that says so, and one that never ran has only its creation.
fn ended(pod: &PodView) -> Option<Timestamp> {
    if !matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed) {
        return None;
    }
    let container = pod.last_termination.as_ref().and_then(|end| end.at);
    let unready = pod
        .ready
        .as_ref()
        .filter(|ready| !ready.is_true)
        .and_then(|ready| ready.since);
    Some(container.max(unready).or(pod.created).unwrap_or(Timestamp::UNIX_EPOCH))
}

/// What ties a pod to its gang.
fn membership(pod: &PodView) -> Membership {
    let text = |value: &std::sync::Arc<str>| value.to_string();
    let labels = STAMP_LABELS.iter();
    let annotations = STAMP_ANNOTATIONS.iter();
    Membership {
        gang: pod.label(labels::POD_GANG).map(text).unwrap_or_default(),
        has_base_gang: pod.label(labels::BASE_POD_GANG).is_some(),
        stamp: Stamp {
            labels: labels
                .filter_map(|key| Some(((*key).to_owned(), text(pod.label(key)?))))
                .collect(),
            annotations: annotations
                .filter_map(|key| Some(((*key).to_owned(), text(pod.annotation(key)?))))
                .collect(),
            scheduling_group: None,
        },
        group_index: pod
            .label(labels::SCALING_GROUP_POD_INDEX)
            .and_then(|index| parse_index(index)),
    }
}
