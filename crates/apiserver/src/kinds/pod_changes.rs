//! What of a pod may change.

use coppice_schema::FieldError;
use serde_json::Value;

const IMMUTABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Complaints about a change of a pod: its spec is fixed, but for a few fields.
pub(super) fn validate(object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (mut new, old) = (object["spec"].clone(), &old["spec"]);
    let gated = has_gates(old);
    for kind in ["containers", "initContainers"] {
        let pairs = new[kind].as_array().map_or(0, Vec::len) == old[kind].as_array().map_or(0, Vec::len);
        if !pairs {
            errors.push(FieldError::forbidden(
                format!("spec.{kind}"),
                "pod updates may not add or remove containers",
            ));
            return errors;
        }
        for (index, container) in new
            .get_mut(kind)
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
            .enumerate()
        {
            container["image"] = old[kind][index]["image"].clone();
        }
    }
    let deadline = |spec: &Value| spec["activeDeadlineSeconds"].as_i64();
    let wrong = match (deadline(old), deadline(&new)) {
        (Some(old), Some(new)) if old < new => Some("must be less than or equal to previous value"),
        (Some(_), None) => Some("must not update from a positive integer to nil value"),
        _ => None,
    };
    if let Some(detail) = wrong {
        let value = new["activeDeadlineSeconds"].clone();
        errors.push(FieldError::invalid("spec.activeDeadlineSeconds", value.clone(), detail));
        if !value.is_null() {
            return errors;
        }
    }
    if let Some((index, added)) = added_gate(&new, old) {
        let detail = format!("only deletion is allowed, but found new scheduling gate '{added}'");
        errors.push(FieldError::forbidden(
            format!("spec.schedulingGates[{index}].name"),
            detail,
        ));
    }
    forgive(&mut new, old, "activeDeadlineSeconds");
    forgive(&mut new, old, "schedulingGates");
    if !tolerations_only_added(&new, old) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden("spec.tolerations", detail));
    }
    forgive(&mut new, old, "tolerations");
    if new["terminationGracePeriodSeconds"] == 1
        && old["terminationGracePeriodSeconds"]
            .as_i64()
            .is_some_and(|seconds| seconds < 0)
    {
        forgive(&mut new, old, "terminationGracePeriodSeconds");
    }
    if gated {
        // Whoever holds a gate may narrow down where the pod goes.
        forgive(&mut new, old, "nodeSelector");
        forgive_node_affinity(&mut new, old);
    }
    if new != *old {
        errors.push(FieldError::forbidden("spec", IMMUTABLE));
    }
    errors
}

fn has_gates(spec: &Value) -> bool {
    spec["schedulingGates"]
        .as_array()
        .is_some_and(|gates| !gates.is_empty())
}

fn added_gate(new: &Value, old: &Value) -> Option<(usize, String)> {
    let known: Vec<&Value> = old["schedulingGates"].as_array().into_iter().flatten().collect();
    let mut gates = new["schedulingGates"].as_array().into_iter().flatten().enumerate();
    let (index, gate) = gates.find(|(_, gate)| !known.contains(gate))?;
    Some((index, gate["name"].as_str().unwrap_or_default().to_owned()))
}

fn forgive(new: &mut Value, old: &Value, name: &str) {
    crate::tree::carry(name, old, new);
}

fn forgive_node_affinity(new: &mut Value, old: &Value) {
    let Some(affinity) = new.get_mut("affinity").and_then(Value::as_object_mut) else {
        return;
    };
    match old.pointer("/affinity/nodeAffinity") {
        Some(old) => affinity.insert("nodeAffinity".into(), old.clone()),
        None => affinity.remove("nodeAffinity"),
    };
    if affinity.is_empty() && old.get("affinity").is_none() {
        forgive(new, old, "affinity");
    }
}

fn tolerations_only_added(new: &Value, old: &Value) -> bool {
    let items = |spec: &Value| spec["tolerations"].as_array().cloned().unwrap_or_default();
    let new = items(new);
    items(old).iter().all(|toleration| {
        let without = |value: &Value| {
            let mut members = value.as_object().cloned().unwrap_or_default();
            members.remove("tolerationSeconds");
            members
        };
        new.iter()
            .any(|one| one == toleration || without(one) == without(toleration))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec() -> Value {
        json!({"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"a": "b"}})
    }

    fn change(edit: impl Fn(&mut Value)) -> Vec<FieldError> {
        let old = json!({"spec": spec()});
        let mut new = old.clone();
        edit(&mut new["spec"]);
        validate(&new, &old)
    }

    #[test]
    fn few_fields_of_a_pod_may_change() {
        assert!(change(|spec| spec["containers"][0]["image"] = json!("j")).is_empty());
        assert!(change(|spec| spec["activeDeadlineSeconds"] = json!(5)).is_empty());
        let (short, long) = (
            json!({"spec": {"activeDeadlineSeconds": 5}}),
            json!({"spec": {"activeDeadlineSeconds": 9}}),
        );
        assert!(validate(&short, &long).is_empty());
        assert_eq!(validate(&long, &short)[0].path, "spec.activeDeadlineSeconds");
        assert_eq!(
            validate(&json!({"spec": {}}), &short)[0].path,
            "spec.activeDeadlineSeconds"
        );
        assert!(change(|spec| spec["tolerations"] = json!([{"key": "a"}])).is_empty());
        assert_eq!(change(|spec| spec["nodeSelector"] = json!({"a": "c"})).len(), 1);
        assert_eq!(change(|spec| spec["nodeName"] = json!("n")).len(), 1);
        assert_eq!(change(|spec| spec["schedulingGates"] = json!([{"name": "g"}])).len(), 1);
    }

    #[test]
    fn gates_may_only_go() {
        let old = json!({"spec": {"containers": [], "schedulingGates": [{"name": "g"}]}});
        let mut new = old.clone();
        new["spec"].as_object_mut().unwrap().remove("schedulingGates");
        new["spec"]["nodeSelector"] = json!({"x": "y"});
        assert!(validate(&new, &old).is_empty());
    }
}
