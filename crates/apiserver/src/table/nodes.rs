//! Nodes in a table.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{AGE, Heading, NAME, age, items, name, text, text_at, wide};
use crate::tree::meta;

pub(super) const COLUMNS: &[Heading] = &[
    NAME,
    text("Status"),
    text("Roles"),
    AGE,
    text("Version"),
    wide("Internal-IP"),
    wide("External-IP"),
    wide("OS-Image"),
    wide("Kernel-Version"),
    wide("Container-Runtime"),
];

pub(super) fn cells(node: &Value, now: Timestamp) -> Vec<Value> {
    let address = |kind: &str| {
        let found = items(node, "/status/addresses").find(|address| address["type"] == kind);
        json!(found.map_or_else(|| "<none>".to_owned(), |address| text_at(address, "/address", "<none>")))
    };
    let info = |field: &str, substitute: &str| json!(text_at(node, &format!("/status/nodeInfo/{field}"), substitute));
    vec![
        name(node),
        json!(status(node)),
        json!(roles(node)),
        age(node, now),
        info("kubeletVersion", ""),
        address("InternalIP"),
        address("ExternalIP"),
        info("osImage", "<unknown>"),
        info("kernelVersion", "<unknown>"),
        info("containerRuntimeVersion", "<unknown>"),
    ]
}

fn status(node: &Value) -> String {
    let ready = items(node, "/status/conditions").find(|condition| condition["type"] == "Ready");
    let mut words = vec![match ready.map(|condition| condition["status"] == "True") {
        Some(true) => "Ready",
        Some(false) => "NotReady",
        None => "Unknown",
    }];
    if node.pointer("/spec/unschedulable") == Some(&Value::Bool(true)) {
        words.push("SchedulingDisabled");
    }
    words.join(",")
}

fn roles(node: &Value) -> String {
    let labels = meta(node, "labels").and_then(Value::as_object);
    let mut roles: Vec<&str> = Vec::new();
    for (key, value) in labels.into_iter().flatten() {
        if let Some(role) = key
            .strip_prefix("node-role.kubernetes.io/")
            .filter(|role| !role.is_empty())
        {
            roles.push(role);
        } else if key == "kubernetes.io/role" {
            roles.extend(value.as_str());
        }
    }
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() {
        "<none>".to_owned()
    } else {
        roles.join(",")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_and_roles() {
        let node = json!({"metadata": {"labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "gpu"}},
            "spec": {"unschedulable": true}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        assert_eq!(status(&node), "Ready,SchedulingDisabled");
        assert_eq!(roles(&node), "gpu,worker");
        assert_eq!(status(&json!({})), "Unknown");
        assert_eq!(roles(&json!({})), "<none>");
    }
}
