//! What the ports of containers may say, and that no two of a pod ask for the same one of its node.

use std::collections::BTreeSet;

use coppice_schema::FieldError;
use serde_json::{Value, json};

const PORT_RANGE: &str = "must be between 1 and 65535, inclusive";
const LONGEST_NAME: usize = 15;

/// Complaints about the ports of one container, which is at `path`.
pub(super) fn validate(container: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut names = BTreeSet::new();
    for (index, port) in ports(container) {
        let at = |member: &str| format!("{path}.ports[{index}].{member}");
        let name = port["name"].as_str().unwrap_or_default();
        let complaints = name_complaints(name);
        if name.is_empty() {
            // Ports need none.
        } else if !complaints.is_empty() {
            errors.extend(
                complaints
                    .into_iter()
                    .map(|detail| FieldError::invalid(at("name"), json!(name), detail)),
            );
        } else if !names.insert(name) {
            errors.push(FieldError::duplicate(at("name"), json!(name)));
        }
        match port["containerPort"].as_i64().unwrap_or(0) {
            0 => errors.push(FieldError::required(at("containerPort"), "")),
            1..=65_535 => {}
            other => errors.push(FieldError::invalid(at("containerPort"), json!(other), PORT_RANGE)),
        }
        let host = port["hostPort"].as_i64().unwrap_or(0);
        if !(0..=65_535).contains(&host) {
            errors.push(FieldError::invalid(at("hostPort"), json!(host), PORT_RANGE));
        }
        let protocol = port["protocol"].as_str().unwrap_or_default();
        if !matches!(protocol, "" | "TCP" | "UDP" | "SCTP") {
            let known = ["SCTP", "TCP", "UDP"].map(|known| json!(known));
            errors.push(FieldError::not_supported(at("protocol"), json!(protocol), &known));
        }
    }
}

/// Complaints about ports of the node that several containers, at `path`, ask for.
pub(super) fn validate_host_ports(containers: &[Value], path: &str, errors: &mut Vec<FieldError>) {
    let mut taken = BTreeSet::new();
    for (container_index, container) in containers.iter().enumerate() {
        for (index, port) in ports(container) {
            let Some(number) = port["hostPort"].as_i64().filter(|number| *number != 0) else {
                continue;
            };
            let text = |name: &str| port[name].as_str().unwrap_or_default();
            let asked = format!("{}/{}/{number}", text("protocol"), text("hostIP"));
            if !taken.insert(asked.clone()) {
                let at = format!("{path}[{container_index}].ports[{index}].hostPort");
                errors.push(FieldError::duplicate(at, json!(asked)));
            }
        }
    }
}

fn ports(container: &Value) -> impl Iterator<Item = (usize, &Value)> {
    container["ports"].as_array().into_iter().flatten().enumerate()
}

/// Everything that a name lacks to be a port's.
fn name_complaints(name: &str) -> Vec<&'static str> {
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let wrong = [
        (name.len() > LONGEST_NAME, "must be no more than 15 characters"),
        (
            !name.bytes().all(allowed),
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)",
        ),
        (
            !name.bytes().any(|byte| byte.is_ascii_lowercase()),
            "must contain at least one letter (a-z)",
        ),
        (name.contains("--"), "must not contain consecutive hyphens"),
        (
            name.starts_with('-') || name.ends_with('-'),
            "must not begin or end with a hyphen",
        ),
    ];
    wrong
        .into_iter()
        .filter_map(|(wrong, detail)| wrong.then_some(detail))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(ports: &Value) -> Vec<String> {
        let mut errors = Vec::new();
        validate(&json!({"ports": ports}), "c", &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ports_have_numbers_and_may_have_short_unique_names() {
        let good = json!([{"containerPort": 80, "name": "http"}, {"containerPort": 80, "protocol": "UDP"}]);
        assert!(complaints(&good).is_empty());
        let bad = json!([
            {"name": "http"},
            {"containerPort": 70000, "hostPort": -1, "name": "http", "protocol": "QUIC"},
            {"containerPort": 1, "name": "-a-very-long-name"},
        ]);
        assert_eq!(
            complaints(&bad),
            [
                "c.ports[0].containerPort: Required value",
                "c.ports[1].name: Duplicate value: \"http\"",
                "c.ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                "c.ports[1].hostPort: Invalid value: -1: must be between 1 and 65535, inclusive",
                "c.ports[1].protocol: Unsupported value: \"QUIC\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
                "c.ports[2].name: Invalid value: \"-a-very-long-name\": must be no more than 15 characters",
                "c.ports[2].name: Invalid value: \"-a-very-long-name\": must not begin or end with a hyphen",
            ]
        );
    }

    #[test]
    fn a_port_of_the_node_is_asked_for_once() {
        let port = |protocol: &str| json!({"ports": [{"containerPort": 80, "hostPort": 80, "protocol": protocol}]});
        let mut errors = Vec::new();
        validate_host_ports(&[port("TCP"), port("UDP"), port("TCP")], "spec.containers", &mut errors);
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            ["spec.containers[2].ports[0].hostPort: Duplicate value: \"TCP//80\""]
        );
    }
}
