//! What pod specs may say.

use std::collections::BTreeSet;

use coppice_schema::FieldError;
use serde_json::{Value, json};

use super::{NameRule, container_ports, quantity};
use crate::rest::validate_name;

/// Complaints about a pod spec.
pub(super) fn validate_spec(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let list = |name: &str| spec.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let containers = list("containers");
    if containers.is_empty() {
        errors.push(FieldError::required(format!("{path}.containers"), ""));
    }
    let mut names = BTreeSet::new();
    container_ports::validate_host_ports(&containers, &format!("{path}.containers"), &mut errors);
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
    container_ports::validate(container, at, errors);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> Value {
        json!({"containers": [{"name": "c", "image": "i"}], "nodeSelector": {"a": "b"}})
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
}
