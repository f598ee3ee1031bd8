//! The rules of nodes: what is filled in, what may be said, what of it may change.

use coppice_schema::FieldError;
use serde_json::{Value, json};

use crate::tree::object_mut;

/// The address ranges of a node are a list and, for old clients, its first entry; what can be given out is what there is.
pub(super) fn fill(object: &mut Value) {
    let status = object_mut(object, "status");
    if let (Some(capacity), None) = (status.get("capacity").cloned(), status.get("allocatable")) {
        status.insert("allocatable".into(), capacity);
    }
    let spec = object_mut(object, "spec");
    let first = |ranges: Option<&Value>| ranges.and_then(|ranges| ranges.get(0)).cloned();
    match (spec.get("podCIDR").cloned(), first(spec.get("podCIDRs"))) {
        (Some(one), None) => drop(spec.insert("podCIDRs".into(), json!([one]))),
        (None, Some(one)) => drop(spec.insert("podCIDR".into(), one)),
        _ => {}
    }
}

/// A new node is not ready, and repels pods until someone has seen that it is.
pub(super) fn prepare_new(object: &mut Value) {
    let taints = object_mut(object, "spec").entry("taints").or_insert(json!([]));
    let Some(taints) = taints.as_array_mut() else { return };
    if !taints
        .iter()
        .any(|taint| taint["key"] == "node.kubernetes.io/not-ready" && taint["effect"] == "NoSchedule")
    {
        taints.push(json!({"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}));
    }
}

/// Complaints about a node.
pub(super) fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let taints = object.pointer("/spec/taints").and_then(Value::as_array);
    let mut seen = Vec::new();
    for (index, taint) in taints.into_iter().flatten().enumerate() {
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        let effect = taint["effect"].as_str().unwrap_or_default();
        // That is how a real server calls them.
        let at = format!("metadata.taints[{index}]");
        if taint["key"].as_str().unwrap_or_default().is_empty() {
            errors.push(FieldError::invalid(
                format!("{at}.key"),
                json!(""),
                "name part must be non-empty",
            ));
        }
        if effect.is_empty() {
            errors.push(FieldError::required(format!("{at}.effect"), ""));
        } else if !effects.contains(&effect) {
            let allowed = effects.map(|effect| json!(effect));
            errors.push(FieldError::not_supported(
                format!("{at}.effect"),
                json!(effect),
                &allowed,
            ));
        }
        if seen.contains(&(&taint["key"], effect)) {
            errors.push(FieldError::duplicate(at, taint.clone()));
        }
        seen.push((&taint["key"], effect));
    }
}

/// Complaints about a change of a node: what it is and which addresses its pods get does not change.
pub(super) fn validate_update(object: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    for (name, path) in [("providerID", "/spec/providerID"), ("podCIDRs", "/spec/podCIDRs")] {
        if old.pointer(path).is_some() && object.pointer(path) != old.pointer(path) {
            let shown = name.trim_end_matches('s');
            let detail = format!("node updates may not change {shown} except from \"\" to valid");
            errors.push(FieldError::forbidden(format!("spec.{name}"), detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_capacity_are_completed() {
        let mut node = json!({"spec": {"podCIDR": "10.1.0.0/24"}, "status": {"capacity": {"cpu": "4"}}});
        fill(&mut node);
        assert_eq!(node["spec"]["podCIDRs"], json!(["10.1.0.0/24"]));
        assert_eq!(node["status"]["allocatable"], json!({"cpu": "4"}));
        let mut node = json!({"spec": {"podCIDRs": ["10.1.0.0/24"]}});
        fill(&mut node);
        assert_eq!(node["spec"]["podCIDR"], "10.1.0.0/24");
    }

    #[test]
    fn taints_are_checked_and_a_provider_stays() {
        let errors = |taints: Value| {
            let mut errors = Vec::new();
            validate(&json!({"spec": {"taints": taints}}), &mut errors);
            errors.iter().map(|error| error.path.clone()).collect::<Vec<_>>()
        };
        assert_eq!(
            errors(json!([{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}])),
            [""; 0]
        );
        assert_eq!(
            errors(json!([{"key": "a", "effect": "Odd"}, {"effect": ""}])),
            [
                "metadata.taints[0].effect",
                "metadata.taints[1].key",
                "metadata.taints[1].effect"
            ]
        );
        let change = |old: Value, new: Value| {
            let mut errors = Vec::new();
            validate_update(&json!({"spec": {"providerID": new}}), &old, &mut errors);
            errors.len()
        };
        assert_eq!(change(json!({"spec": {"providerID": "a"}}), json!("b")), 1);
        assert_eq!(change(json!({"spec": {}}), json!("b")), 0);
    }
}
