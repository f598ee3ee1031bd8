//! The fields of a pod that are read off the wire; everything else is skipped while parsing.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;

#[derive(Deserialize)]
pub(super) struct Pod {
    pub(super) metadata: Metadata,
    #[serde(default)]
    pub(super) spec: Spec,
    #[serde(default)]
    pub(super) status: Status,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Metadata {
    #[serde(default)]
    pub(super) generation: i64,
    #[serde(default)]
    pub(super) labels: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(super) annotations: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub(super) owner_references: Option<Vec<OwnerReference>>,
    pub(super) creation_timestamp: Option<Timestamp>,
    pub(super) deletion_timestamp: Option<Timestamp>,
}

#[derive(Deserialize)]
pub(super) struct OwnerReference {
    pub(super) uid: String,
    #[serde(default)]
    pub(super) kind: Option<String>,
    #[serde(default)]
    pub(super) controller: Option<bool>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct Spec {
    pub(super) node_name: Option<String>,
    pub(super) hostname: Option<String>,
    #[serde(default)]
    pub(super) scheduling_gates: Option<Vec<Gate>>,
    #[serde(default)]
    pub(super) containers: Option<Vec<Container>>,
    #[serde(default)]
    pub(super) init_containers: Option<Vec<Container>>,
    #[serde(default)]
    pub(super) overhead: Option<BTreeMap<String, Quantity>>,
}

#[derive(Deserialize)]
pub(super) struct Gate {
    pub(super) name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Container {
    pub(super) restart_policy: Option<String>,
    #[serde(default)]
    pub(super) resources: Resources,
}

#[derive(Deserialize, Default)]
pub(super) struct Resources {
    #[serde(default)]
    pub(super) requests: Option<BTreeMap<String, Quantity>>,
}

/// A quantity as written; servers also accept bare numbers.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Quantity {
    Text(String),
    Number(serde_json::Number),
}

impl Quantity {
    pub(super) fn with_text<R>(&self, read: impl FnOnce(&str) -> R) -> R {
        match self {
            Self::Text(text) => read(text),
            Self::Number(number) => read(&number.to_string()),
        }
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    pub(super) phase: Option<String>,
    pub(super) start_time: Option<Timestamp>,
    #[serde(default)]
    pub(super) conditions: Option<Vec<Condition>>,
    #[serde(default)]
    pub(super) container_statuses: Option<Vec<ContainerStatus>>,
    #[serde(default)]
    pub(super) init_container_statuses: Option<Vec<ContainerStatus>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Condition {
    #[serde(rename = "type")]
    pub(super) kind: String,
    #[serde(default)]
    pub(super) status: String,
    pub(super) reason: Option<String>,
    pub(super) last_transition_time: Option<Timestamp>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ContainerStatus {
    #[serde(default)]
    pub(super) restart_count: u32,
    #[serde(default)]
    pub(super) started: Option<bool>,
    #[serde(default)]
    pub(super) state: ContainerState,
    #[serde(default)]
    pub(super) last_state: ContainerState,
}

#[derive(Deserialize, Default)]
pub(super) struct ContainerState {
    pub(super) terminated: Option<Terminated>,
    pub(super) waiting: Option<Waiting>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Terminated {
    #[serde(default)]
    pub(super) exit_code: i32,
    pub(super) reason: Option<String>,
    pub(super) finished_at: Option<Timestamp>,
}

#[derive(Deserialize)]
pub(super) struct Waiting {
    pub(super) reason: Option<String>,
}
