//! From the cached view of a pod to what planners need to know of it.

use coppice_api::names::{finalizers, labels, parsing::parse_index};
use coppice_core::snapshot::PodFacts;
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
        template_hash: label(labels::POD_TEMPLATE_HASH),
        created: pod.created.unwrap_or(Timestamp::UNIX_EPOCH),
        deleting: pod.is_terminating(),
        finished: matches!(pod.phase, PodPhase::Succeeded | PodPhase::Failed),
        scheduled,
        gated: pod.gates.iter().any(|gate| is_ours(gate)),
        other_gates: pod
            .gates
            .iter()
            .filter(|gate| !is_ours(gate))
            .map(ToString::to_string)
            .collect(),
        ready: pod.is_ready(),
        failing: pod
            .waiting_reason
            .as_deref()
            .is_some_and(|reason| FAILING.contains(&reason)),
    }
}
