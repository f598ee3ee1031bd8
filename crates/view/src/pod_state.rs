//! What a pod is doing, and why it is not ready, in a few words.

use coppice_api::names::environment::WAITER_CONTAINER;
use coppice_api::names::finalizers::SCHEDULING_GATE;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};
use serde::Serialize;

/// The state of a pod, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum PodState {
    Ready,
    Starting,
    Waiting,
    Failing,
    Unscheduled,
    Gated,
    Ended,
    Terminating,
}

impl PodState {
    /// The word for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ready => "ready",
            Self::Starting => "starting",
            Self::Waiting => "waiting",
            Self::Failing => "failing",
            Self::Unscheduled => "unscheduled",
            Self::Gated => "gated",
            Self::Ended => "ended",
            Self::Terminating => "terminating",
        }
    }
}

/// The state of a pod and the reason for it.
pub fn of(pod: &Pod) -> (PodState, Option<String>) {
    if pod.metadata.deletion_timestamp.is_some() {
        return (PodState::Terminating, None);
    }
    let empty = PodStatus::default();
    let status = pod.status.as_ref().unwrap_or(&empty);
    if matches!(status.phase.as_deref(), Some("Failed" | "Succeeded")) {
        return (PodState::Ended, status.reason.clone().or_else(|| status.phase.clone()));
    }
    if is_true(status, "Ready") {
        return (PodState::Ready, None);
    }
    if let Some(reason) = gates(pod) {
        return (PodState::Gated, Some(reason));
    }
    if pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()) {
        let message = condition(status, "PodScheduled").and_then(|condition| condition.message.clone());
        return (PodState::Unscheduled, message);
    }
    let containers = status.init_container_statuses.iter().chain(&status.container_statuses);
    let containers: Vec<&ContainerStatus> = containers.flatten().collect();
    if let Some(reason) = containers.iter().find_map(|container| trouble(container)) {
        return (PodState::Failing, Some(reason));
    }
    let waits = containers.iter().any(|container| {
        let state = container.state.as_ref();
        container.name == WAITER_CONTAINER && state.is_some_and(|state| state.running.is_some())
    });
    if waits {
        return (PodState::Waiting, Some("for the cliques it starts after".to_owned()));
    }
    (PodState::Starting, None)
}

fn condition<'a>(status: &'a PodStatus, kind: &str) -> Option<&'a k8s_openapi::api::core::v1::PodCondition> {
    status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == kind)
}

fn is_true(status: &PodStatus, kind: &str) -> bool {
    condition(status, kind).is_some_and(|condition| condition.status == "True")
}

fn gates(pod: &Pod) -> Option<String> {
    let gates = pod.spec.as_ref()?.scheduling_gates.as_ref()?;
    let names: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
    match names.as_slice() {
        [] => None,
        [SCHEDULING_GATE] => Some("until its gang may be scheduled".to_owned()),
        names => Some(format!("by {}", names.join(", "))),
    }
}

/// Waiting containers name their trouble, except when they are merely being made.
fn trouble(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref()?;
    if matches!(reason, "ContainerCreating" | "PodInitializing") {
        return None;
    }
    Some(format!("{}: {reason}", container.name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn state_of(value: serde_json::Value) -> (PodState, Option<String>) {
        of(&serde_json::from_value(value).expect("a pod"))
    }

    #[test]
    fn a_pod_says_why_it_is_not_ready() {
        assert_eq!(
            state_of(json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}})),
            (PodState::Terminating, None)
        );
        assert_eq!(
            state_of(json!({"spec": {"containers": [], "schedulingGates": [{"name": SCHEDULING_GATE}]}})),
            (PodState::Gated, Some("until its gang may be scheduled".into()))
        );
        assert_eq!(
            state_of(json!({"spec": {"containers": [], "schedulingGates": [{"name": "example.com/quota"}]}})),
            (PodState::Gated, Some("by example.com/quota".into()))
        );
        assert_eq!(
            state_of(json!({"spec": {"containers": []}, "status": {"conditions": [
                {"type": "PodScheduled", "status": "False", "message": "no rack holds it"}]}})),
            (PodState::Unscheduled, Some("no rack holds it".into()))
        );
        let failing = json!({"name": "engine", "image": "", "imageID": "", "ready": false, "restartCount": 3,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}}});
        assert_eq!(
            state_of(json!({"spec": {"containers": [], "nodeName": "n"}, "status": {"containerStatuses": [failing]}})),
            (PodState::Failing, Some("engine: CrashLoopBackOff".into()))
        );
        let waiter = json!({"name": WAITER_CONTAINER, "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"running": {}}});
        assert_eq!(
            state_of(
                json!({"spec": {"containers": [], "nodeName": "n"}, "status": {"initContainerStatuses": [waiter]}})
            )
            .0,
            PodState::Waiting
        );
        assert_eq!(
            state_of(
                json!({"spec": {"containers": [], "nodeName": "n"}, "status": {"phase": "Failed", "reason": "Evicted"}})
            ),
            (PodState::Ended, Some("Evicted".into()))
        );
    }
}
