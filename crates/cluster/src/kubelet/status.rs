//! Pod status as the API stores it.
//!
//! Owns the wire types of the status fields a kubelet writes, how a desired status is compared with the stored one,
//! and the strategic merge patch between the two. Conditions that others own are never touched, and nothing is
//! written when nothing differs.

use crate::resource_claims::ClaimStatus;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The part of a pod's status that a kubelet writes or reads.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodStatus {
    pub(crate) phase: Phase,
    pub(crate) conditions: Vec<Condition>,
    #[serde(rename = "hostIP", skip_serializing_if = "Option::is_none")]
    pub(crate) host_ip: Option<String>,
    #[serde(rename = "podIP", skip_serializing_if = "Option::is_none")]
    pub(crate) pod_ip: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) start_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) init_container_statuses: Vec<ContainerStatus>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) container_statuses: Vec<ContainerStatus>,
    /// Written by the claim controller, never by a kubelet.
    #[serde(skip_serializing)]
    pub(crate) resource_claim_statuses: Vec<ClaimStatus>,
}

/// Where a pod stands as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Phase {
    /// Not every container has started.
    #[default]
    Pending,
    /// At least one container runs or restarts.
    Running,
    /// All containers ended well and stay ended.
    Succeeded,
    /// All containers ended, not all well.
    Failed,
    /// Nobody knows.
    #[serde(other)]
    Unknown,
}

/// One condition of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Condition {
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) status: String,
    pub(crate) reason: Option<String>,
    pub(crate) message: Option<String>,
    pub(crate) last_transition_time: Option<Timestamp>,
}

/// The state of one container.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ContainerStatus {
    pub(crate) name: String,
    pub(crate) image: String,
    #[serde(rename = "imageID")]
    pub(crate) image_id: String,
    #[serde(rename = "containerID", skip_serializing_if = "Option::is_none")]
    pub(crate) container_id: Option<String>,
    pub(crate) ready: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) started: Option<bool>,
    pub(crate) restart_count: u32,
    pub(crate) state: State,
    pub(crate) last_state: State,
}

/// One of waiting, running, terminated; or none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct State {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waiting: Option<Waiting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) running: Option<Running>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) terminated: Option<Terminated>,
}

/// Why a container has not started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Waiting {
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

/// Since when a container runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Running {
    pub(crate) started_at: Option<Timestamp>,
}

/// How a container ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Terminated {
    pub(crate) exit_code: i32,
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    pub(crate) started_at: Option<Timestamp>,
    pub(crate) finished_at: Option<Timestamp>,
    #[serde(rename = "containerID", skip_serializing_if = "Option::is_none")]
    pub(crate) container_id: Option<String>,
}

impl PodStatus {
    pub(crate) fn condition(&self, kind: &str) -> Option<&Condition> {
        self.conditions.iter().find(|condition| condition.kind == kind)
    }

    /// Whether the pod counts as ready.
    pub(crate) fn is_ready(&self) -> bool {
        self.condition("Ready")
            .is_some_and(|condition| condition.status == "True")
    }

    /// Whether the pod has ended for good.
    pub(crate) fn is_terminal(&self) -> bool {
        matches!(self.phase, Phase::Succeeded | Phase::Failed)
    }
}

/// The patch that makes the stored status say what is desired; nothing if it does.
///
/// `desired` holds only conditions of the kubelet; conditions of others in `stored` are left alone.
pub(crate) fn patch(stored: &PodStatus, desired: &PodStatus) -> Option<Value> {
    let mut status = serde_json::Map::new();
    if desired.phase != stored.phase {
        status.insert("phase".to_owned(), json!(desired.phase));
    }
    if desired.start_time != stored.start_time {
        status.insert("startTime".to_owned(), json!(desired.start_time));
    }
    if desired.host_ip != stored.host_ip && desired.host_ip.is_some() {
        status.insert("hostIP".to_owned(), json!(desired.host_ip));
        status.insert("hostIPs".to_owned(), json!([{"ip": desired.host_ip}]));
    }
    if desired.pod_ip != stored.pod_ip && desired.pod_ip.is_some() {
        status.insert("podIP".to_owned(), json!(desired.pod_ip));
        status.insert("podIPs".to_owned(), json!([{"ip": desired.pod_ip}]));
    }
    if desired.init_container_statuses != stored.init_container_statuses {
        status.insert(
            "initContainerStatuses".to_owned(),
            json!(desired.init_container_statuses),
        );
    }
    if desired.container_statuses != stored.container_statuses {
        status.insert("containerStatuses".to_owned(), json!(desired.container_statuses));
    }
    let conditions: Vec<Value> = desired
        .conditions
        .iter()
        .filter_map(|condition| condition_patch(stored.condition(&condition.kind), condition))
        .collect();
    if !conditions.is_empty() {
        status.insert("conditions".to_owned(), Value::Array(conditions));
    }
    (!status.is_empty()).then(|| json!({"status": status}))
}

fn condition_patch(stored: Option<&Condition>, desired: &Condition) -> Option<Value> {
    if stored == Some(desired) {
        return None;
    }
    let mut value = json!({
        "type": desired.kind,
        "status": desired.status,
        "lastTransitionTime": desired.last_transition_time,
    });
    // A merge keeps what is not named, so an old reason has to be taken away expressly.
    for (field, old, new) in [
        (
            "reason",
            stored.and_then(|stored| stored.reason.as_ref()),
            &desired.reason,
        ),
        (
            "message",
            stored.and_then(|stored| stored.message.as_ref()),
            &desired.message,
        ),
    ] {
        if new.is_some() || old.is_some() {
            value[field] = json!(new);
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(status: &str, reason: Option<&str>) -> Condition {
        Condition {
            kind: "Ready".to_owned(),
            status: status.to_owned(),
            reason: reason.map(ToOwned::to_owned),
            last_transition_time: Some(Timestamp::UNIX_EPOCH),
            ..Condition::default()
        }
    }

    #[test]
    fn nothing_differs_nothing_is_written() {
        let foreign = Condition {
            kind: "example.com/gate".to_owned(),
            ..Condition::default()
        };
        let stored = PodStatus {
            conditions: vec![foreign, ready("True", None)],
            ..PodStatus::default()
        };
        let desired = PodStatus {
            conditions: vec![ready("True", None)],
            ..PodStatus::default()
        };
        assert_eq!(patch(&stored, &desired), None);
    }

    #[test]
    fn only_differences_are_written_and_old_reasons_removed() {
        let stored = PodStatus {
            conditions: vec![ready("False", Some("ContainersNotReady"))],
            ..PodStatus::default()
        };
        let desired = PodStatus {
            phase: Phase::Running,
            conditions: vec![ready("True", None)],
            ..PodStatus::default()
        };
        assert_eq!(
            patch(&stored, &desired),
            Some(json!({
                "status": {
                    "phase": "Running",
                    "conditions": [{
                        "type": "Ready", "status": "True", "reason": null,
                        "lastTransitionTime": "1970-01-01T00:00:00Z",
                    }],
                },
            }))
        );
    }

    #[test]
    fn what_was_written_reads_back_equal() {
        let desired = PodStatus {
            phase: Phase::Running,
            pod_ip: Some("10.128.0.2".to_owned()),
            host_ip: Some("172.16.0.1".to_owned()),
            start_time: Some(Timestamp::UNIX_EPOCH),
            conditions: vec![ready("True", None)],
            container_statuses: vec![ContainerStatus {
                name: "main".to_owned(),
                state: State {
                    running: Some(Running {
                        started_at: Some(Timestamp::UNIX_EPOCH),
                    }),
                    ..State::default()
                },
                started: Some(true),
                ..ContainerStatus::default()
            }],
            ..PodStatus::default()
        };
        let mut written = patch(&PodStatus::default(), &desired).unwrap();
        let read: PodStatus = serde_json::from_value(written["status"].take()).unwrap();
        assert_eq!(read, desired);
        assert_eq!(patch(&read, &desired), None);
    }

    #[test]
    fn an_unheard_of_phase_is_unknown() {
        let status: PodStatus = serde_json::from_value(json!({"phase": "Dreaming"})).unwrap();
        assert_eq!(status.phase, Phase::Unknown);
        assert!(!status.is_terminal());
    }
}
