//! What pod specs may say, and what of them may change.

use std::collections::BTreeSet;

use coppice_schema::FieldError;
use serde_json::{Value, json};

use super::{NameRule, quantity};
use crate::rest::validate_name;

const IMMUTABLE: &str = "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Complaints about a pod spec.
pub(super) fn validate_spec(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let list = |name: &str| spec.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let containers = list("containers");
    if containers.is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut names = BTreeSet::new();
    for (kind, containers) in [("containers", containers), ("initContainers", list("initContainers"))] {
        for (index, container) in containers.iter().enumerate() {
            validate_container(container, &format!("{path}.{kind}[{index}]"), &mut names, &mut errors);
        }
    }
    one_of(
        spec,
        "restartPolicy",
        &["Always", "OnFailure", "Never"],
        path,
        &mut errors,
    );
    one_of(
        spec,
        "dnsPolicy",
        &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"],
        path,
        &mut errors,
    );
    let mut volumes = BTreeSet::new();
    for (index, volume) in list("volumes").iter().enumerate() {
        let at = format!("{path}.volumes[{index}].name");
        validate_unique_name(volume, &at, &mut volumes, &mut errors);
    }
    let mut gates = BTreeSet::new();
    for (index, gate) in list("schedulingGates").iter().enumerate() {
        let name = gate["name"].as_str().unwrap_or_default();
        if !gates.insert(name.to_owned()) {
            errors.push(FieldError::duplicate(
                format!("{path}.schedulingGates[{index}]"),
                json!(name),
            ));
        }
    }
    for (index, container) in list("initContainers").iter().enumerate() {
        let at = format!("{path}.initContainers[{index}]");
        let forbidden = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];
        for name in forbidden.into_iter().filter(|name| container.get(name).is_some()) {
            if container["restartPolicy"] != "Always" {
                let detail = "may not be set for init containers without restartPolicy=Always";
                errors.push(FieldError::forbidden(format!("{at}.{name}"), detail));
            }
        }
    }
    for (index, toleration) in list("tolerations").iter().enumerate() {
        validate_toleration(toleration, &format!("{path}.tolerations[{index}]"), &mut errors);
    }
    for (index, constraint) in list("topologySpreadConstraints").iter().enumerate() {
        validate_spread(
            constraint,
            &format!("{path}.topologySpreadConstraints[{index}]"),
            &mut errors,
        );
    }
    validate_mounts(spec, path, &volumes, &mut errors);
    if let Some(host) = spec
        .get("hostname")
        .and_then(Value::as_str)
        .filter(|host| !host.is_empty())
        && let Some(detail) = validate_name(host, NameRule::Label)
    {
        errors.push(FieldError::invalid(format!("{path}.hostname"), json!(host), detail));
    }
    errors
}

fn validate_toleration(toleration: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let text = |name: &str| toleration[name].as_str().unwrap_or_default();
    let (key, operator, effect) = (text("key"), text("operator"), text("effect"));
    if key.is_empty() && operator != "Exists" {
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(FieldError::invalid(format!("{at}.operator"), json!(operator), detail));
    }
    if toleration.get("tolerationSeconds").is_some() && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(FieldError::invalid(format!("{at}.effect"), json!(effect), detail));
    }
    if operator == "Exists" && !text("value").is_empty() {
        let detail = "value must be empty when `operator` is 'Exists'";
        errors.push(FieldError::invalid(format!("{at}.operator"), json!(operator), detail));
    }
    if !effect.is_empty() {
        one_of(
            toleration,
            "effect",
            &["NoSchedule", "PreferNoSchedule", "NoExecute"],
            at,
            errors,
        );
    }
}

fn validate_spread(constraint: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let skew = constraint["maxSkew"].as_i64().unwrap_or(0);
    if skew <= 0 {
        let detail = "must be greater than zero";
        errors.push(FieldError::invalid(format!("{at}.maxSkew"), json!(skew), detail));
    }
    if constraint["topologyKey"].as_str().unwrap_or_default().is_empty() {
        errors.push(FieldError::required(format!("{at}.topologyKey"), "can not be empty"));
    }
    one_of(
        constraint,
        "whenUnsatisfiable",
        &["DoNotSchedule", "ScheduleAnyway"],
        at,
        errors,
    );
}

fn one_of(spec: &Value, name: &str, allowed: &[&str], path: &str, errors: &mut Vec<FieldError>) {
    let Some(value) = spec
        .get(name)
        .and_then(Value::as_str)
        .filter(|value| !allowed.contains(value))
    else {
        return;
    };
    let allowed: Vec<Value> = allowed.iter().map(|one| json!(one)).collect();
    errors.push(FieldError::not_supported(
        format!("{path}.{name}"),
        json!(value),
        &allowed,
    ));
}

fn validate_unique_name(object: &Value, at: &str, names: &mut BTreeSet<String>, errors: &mut Vec<FieldError>) {
    let name = object["name"].as_str().unwrap_or_default();
    if name.is_empty() {
        errors.push(FieldError::required(at, ""));
    } else if let Some(detail) = validate_name(name, NameRule::Label) {
        errors.push(FieldError::invalid(at, json!(name), detail));
    } else if !names.insert(name.to_owned()) {
        errors.push(FieldError::duplicate(at, json!(name)));
    }
}

fn validate_container(container: &Value, at: &str, names: &mut BTreeSet<String>, errors: &mut Vec<FieldError>) {
    validate_unique_name(container, &format!("{at}.name"), names, errors);
    if container["image"].as_str().unwrap_or_default().is_empty() {
        errors.push(FieldError::required(format!("{at}.image"), ""));
    }
    validate_requests(container, at, errors);
    one_of(
        container,
        "imagePullPolicy",
        &["Always", "IfNotPresent", "Never"],
        at,
        errors,
    );
    for (index, port) in container["ports"].as_array().into_iter().flatten().enumerate() {
        let number = port["containerPort"].as_i64().unwrap_or(0);
        if !(1..=65_535).contains(&number) {
            let detail = "must be between 1 and 65535, inclusive";
            errors.push(FieldError::invalid(
                format!("{at}.ports[{index}].containerPort"),
                json!(number),
                detail,
            ));
        }
    }
    for (index, variable) in container["env"].as_array().into_iter().flatten().enumerate() {
        if variable["name"].as_str().unwrap_or_default().is_empty() {
            errors.push(FieldError::required(format!("{at}.env[{index}].name"), ""));
        }
    }
}

/// Nothing may request more than its limit.
fn validate_requests(container: &Value, at: &str, errors: &mut Vec<FieldError>) {
    let list = |kind: &str| {
        container
            .pointer(&format!("/resources/{kind}"))
            .and_then(Value::as_object)
    };
    let (Some(requests), Some(limits)) = (list("requests"), list("limits")) else {
        return;
    };
    for (name, request) in requests {
        let Some(limit) = limits.get(name) else { continue };
        if quantity::is_greater(request, limit) {
            let limit = limit.as_str().unwrap_or_default();
            let detail = format!("must be less than or equal to {name} limit of {limit}");
            errors.push(FieldError::invalid(
                format!("{at}.resources.requests"),
                request.clone(),
                detail,
            ));
        }
    }
}

fn validate_mounts(spec: &Value, path: &str, volumes: &BTreeSet<String>, errors: &mut Vec<FieldError>) {
    for kind in ["containers", "initContainers"] {
        for (index, container) in spec[kind].as_array().into_iter().flatten().enumerate() {
            for (mount_index, mount) in container["volumeMounts"].as_array().into_iter().flatten().enumerate() {
                let at = format!("{path}.{kind}[{index}].volumeMounts[{mount_index}]");
                let name = mount["name"].as_str().unwrap_or_default();
                if name.is_empty() {
                    errors.push(FieldError::required(format!("{at}.name"), ""));
                } else if !volumes.contains(name) {
                    let kind = coppice_schema::ErrorKind::NotFound;
                    errors.push(FieldError::new(kind, format!("{at}.name"), json!(name), ""));
                }
                if mount["mountPath"].as_str().unwrap_or_default().is_empty() {
                    errors.push(FieldError::required(format!("{at}.mountPath"), ""));
                }
            }
        }
    }
}

/// Complaints about a change of a pod: its spec is fixed, but for a few fields.
pub(super) fn validate_spec_change(object: &Value, old: &Value) -> Vec<FieldError> {
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
    use super::*;

    fn spec() -> Value {
        json!({"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"a": "b"}})
    }

    fn change(edit: impl Fn(&mut Value)) -> Vec<FieldError> {
        let old = json!({"spec": spec()});
        let mut new = old.clone();
        edit(&mut new["spec"]);
        validate_spec_change(&new, &old)
    }

    #[test]
    fn names_and_images_are_needed() {
        let errors = validate_spec(
            &json!({"containers": [{"name": "c"}, {"name": "c", "image": "i"}]}),
            "spec",
        );
        let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "spec.containers[0].image: Required value",
                "spec.containers[1].name: Duplicate value: \"c\""
            ]
        );
        assert_eq!(validate_spec(&json!({}), "spec").len(), 1);
        assert!(validate_spec(&spec(), "spec").is_empty());
    }

    #[test]
    fn mounts_need_volumes() {
        let errors = validate_spec(
            &json!({"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]}),
            "spec",
        );
        assert_eq!(
            errors[0].to_string(),
            "spec.containers[0].volumeMounts[0].name: Not found: \"v\""
        );
    }

    #[test]
    fn few_fields_of_a_pod_may_change() {
        assert!(change(|spec| spec["containers"][0]["image"] = json!("j")).is_empty());
        assert!(change(|spec| spec["activeDeadlineSeconds"] = json!(5)).is_empty());
        let (short, long) = (
            json!({"spec": {"activeDeadlineSeconds": 5}}),
            json!({"spec": {"activeDeadlineSeconds": 9}}),
        );
        assert!(validate_spec_change(&short, &long).is_empty());
        assert_eq!(
            validate_spec_change(&long, &short)[0].path,
            "spec.activeDeadlineSeconds"
        );
        assert_eq!(
            validate_spec_change(&json!({"spec": {}}), &short)[0].path,
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
        assert!(validate_spec_change(&new, &old).is_empty());
    }
}
