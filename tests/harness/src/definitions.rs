//! Definitions of other projects' kinds, reduced to the fields that we write and read: for tests only.

use serde_json::Value;

/// PodGroups of KAI.
pub fn kai_pod_groups() -> Value {
    read(include_str!("../definitions/kai-podgroups.yaml"))
}

/// PodGroups of Volcano.
pub fn volcano_pod_groups() -> Value {
    read(include_str!("../definitions/volcano-podgroups.yaml"))
}

fn read(text: &str) -> Value {
    serde_saphyr::from_str(text).expect("a definition in YAML")
}
