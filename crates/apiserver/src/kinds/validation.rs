//! What built-in objects other than pods may say, and what of them may change.

use coppice_schema::FieldError;
use serde_json::{Value, json};

use super::{autoscaler, node, pod_validation, role, service};
use crate::selector::LabelSelector;

/// Complaints about an object of a built-in kind.
pub(super) fn validate(group: &str, kind: &str, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match (group, kind) {
        ("apps", "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet") => workload(kind, object, &mut errors),
        ("batch", "Job") => {
            let spec = object.pointer("/spec/template/spec").cloned().unwrap_or_default();
            errors.extend(pod_validation::validate_spec(&spec, "spec.template.spec"));
        }
        ("", "ConfigMap" | "Secret") => data(object, &mut errors),
        ("", "Service") => service::validate(object, &mut errors),
        ("autoscaling", _) => autoscaler::validate(object, &mut errors),
        ("policy", "PodDisruptionBudget") => {
            for name in ["minAvailable", "maxUnavailable"] {
                amount(object, name, &mut errors);
            }
            let has = |name: &str| object.pointer(&format!("/spec/{name}")).is_some();
            if has("minAvailable") && has("maxUnavailable") {
                let value = object["spec"].clone();
                errors.push(FieldError::invalid(
                    "spec",
                    value,
                    "minAvailable and maxUnavailable cannot be both set",
                ));
            }
        }
        ("scheduling.k8s.io", _) => priority_class(object, &mut errors),
        ("coordination.k8s.io", _) => lease(object, &mut errors),
        ("", "Event") => event(object, &mut errors),
        ("", "Node") => node::validate(object, &mut errors),
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
            role::validate(object, kind == "ClusterRole", &mut errors);
        }
        ("rbac.authorization.k8s.io", _) => {
            role::validate_binding(object, kind == "ClusterRoleBinding", &mut errors);
        }
        ("apps", "ControllerRevision") if object.get("data").is_none_or(Value::is_null) => {
            errors.push(FieldError::required("data", "data is mandatory"));
        }
        _ => {}
    }
    errors
}

fn workload(kind: &str, object: &Value, errors: &mut Vec<FieldError>) {
    let replicas = object.pointer("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    if replicas < 0 {
        errors.push(FieldError::invalid(
            "spec.replicas",
            json!(replicas),
            "must be greater than or equal to 0",
        ));
    }
    let selector = object.pointer("/spec/selector").filter(|selector| !selector.is_null());
    let labels = object.pointer("/spec/template/metadata/labels");
    match selector.map(LabelSelector::from_structured) {
        // It selects nothing, also not what the template makes.
        None if kind == "DaemonSet" => errors.push(mismatch(labels)),
        None => errors.push(FieldError::required("spec.selector", "")),
        Some(Ok(parsed)) if parsed.is_empty() => {
            let detail = format!("empty selector is invalid for {}", kind.to_lowercase());
            errors.push(FieldError::invalid(
                "spec.selector",
                selector.cloned().unwrap_or_default(),
                detail,
            ));
        }
        Some(Ok(parsed)) if !parsed.matches_map(labels) => errors.push(mismatch(labels)),
        Some(Ok(_)) => {}
        Some(Err(detail)) => {
            errors.push(FieldError::invalid(
                "spec.selector",
                selector.cloned().unwrap_or_default(),
                detail,
            ));
        }
    }
    let template = object.pointer("/spec/template/spec").cloned().unwrap_or_default();
    errors.extend(pod_validation::validate_spec(&template, "spec.template.spec"));
    let policy = template["restartPolicy"].as_str().unwrap_or_default();
    if matches!(policy, "OnFailure" | "Never") {
        let at = "spec.template.spec.restartPolicy";
        errors.push(FieldError::not_supported(at, json!(policy), &[json!("Always")]));
    }
    if template.get("activeDeadlineSeconds").is_some() {
        let owner = if kind == "Deployment" { "ReplicaSet" } else { kind };
        let detail = format!("activeDeadlineSeconds in {owner} is not Supported");
        errors.push(FieldError::forbidden(
            "spec.template.spec.activeDeadlineSeconds",
            detail,
        ));
    }
}

/// A number that is not negative, or a percentage.
fn amount(object: &Value, name: &str, errors: &mut Vec<FieldError>) {
    let at = format!("spec.{name}");
    match object.pointer(&format!("/spec/{name}")) {
        Some(Value::String(text)) => {
            let digits = text.strip_suffix('%').unwrap_or_default();
            if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
                let detail = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
                errors.push(FieldError::invalid(at, json!(text), detail));
            } else if digits.parse::<i64>().is_ok_and(|percent| percent > 100) {
                errors.push(FieldError::invalid(at, json!(text), "must not be greater than 100%"));
            }
        }
        Some(Value::Number(number)) if number.as_i64().is_some_and(|number| number < 0) => {
            let detail = "must be greater than or equal to 0";
            errors.push(FieldError::invalid(at, json!(number), detail));
        }
        _ => {}
    }
}

fn mismatch(labels: Option<&Value>) -> FieldError {
    let value = labels.cloned().unwrap_or(Value::Null);
    let detail = "`selector` does not match template `labels`";
    FieldError::invalid("spec.template.metadata.labels", value, detail)
}

fn data(object: &Value, errors: &mut Vec<FieldError>) {
    if object["type"] == "kubernetes.io/tls" {
        tls(object, errors);
    }
    for member in ["data", "binaryData"] {
        for key in object
            .get(member)
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(serde_json::Map::keys)
        {
            let good = !key.is_empty()
                && key.len() <= 253
                && key
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'));
            if !good {
                let detail = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";
                errors.push(FieldError::invalid(format!("{member}[{key}]"), json!(key), detail));
            }
        }
    }
}

fn event(object: &Value, errors: &mut Vec<FieldError>) {
    let about = object
        .pointer("/involvedObject/namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let own = crate::tree::meta_text(object, "namespace");
    // Events about cluster-scoped objects live in `default`.
    if about != own && !(about.is_empty() && own == "default") {
        let detail = "does not match event.namespace";
        errors.push(FieldError::invalid("involvedObject.namespace", json!(about), detail));
    }
}

/// A secret for TLS has both halves.
fn tls(object: &Value, errors: &mut Vec<FieldError>) {
    for key in ["tls.crt", "tls.key"] {
        if object.get("data").is_none_or(|data| data.get(key).is_none()) {
            errors.push(FieldError::required(format!("data[{key}]"), ""));
        }
    }
}

fn lease(object: &Value, errors: &mut Vec<FieldError>) {
    let transitions = object.pointer("/spec/leaseTransitions").and_then(Value::as_i64);
    if let Some(transitions) = transitions.filter(|transitions| *transitions < 0) {
        errors.push(FieldError::invalid(
            "spec.leaseTransitions",
            json!(transitions),
            "must be greater than or equal to 0",
        ));
    }
    let seconds = object.pointer("/spec/leaseDurationSeconds").and_then(Value::as_i64);
    if let Some(seconds) = seconds.filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid(
            "spec.leaseDurationSeconds",
            json!(seconds),
            "must be greater than 0",
        ));
    }
}

fn priority_class(object: &Value, errors: &mut Vec<FieldError>) {
    let name = crate::tree::meta_text(object, "name");
    let value = object["value"].as_i64().unwrap_or(0);
    if name.starts_with("system-") {
        let detail = "priority class names with 'system-' prefix are reserved for system use only";
        errors.push(FieldError::forbidden("metadata.name", detail));
    } else if value > 1_000_000_000 {
        let detail = "maximum allowed value of a user defined priority is 1000000000";
        errors.push(FieldError::forbidden("value", detail));
    }
}

/// Complaints about a change of an object of a built-in kind.
pub(super) fn validate_update(group: &str, kind: &str, object: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    match (group, kind) {
        ("", "ConfigMap" | "Secret") if old["immutable"] == true => {
            if object["immutable"] != true {
                errors.push(FieldError::forbidden(
                    "immutable",
                    "field is immutable when `immutable` is set",
                ));
            }
            for member in ["data", "binaryData"] {
                if object.get(member) != old.get(member) {
                    errors.push(FieldError::forbidden(
                        member,
                        "field is immutable when `immutable` is set",
                    ));
                }
            }
        }
        ("scheduling.k8s.io", _) => {
            if object.get("value") != old.get("value") {
                errors.push(FieldError::forbidden("value", "may not be changed in an update."));
            }
            fixed(object, old, &["/preemptionPolicy"], &mut errors);
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding")
            if object.get("roleRef") != old.get("roleRef") =>
        {
            let value = object.get("roleRef").cloned().unwrap_or_default();
            errors.push(FieldError::invalid("roleRef", value, "cannot change roleRef"));
        }
        ("apps", "Deployment" | "ReplicaSet" | "DaemonSet") => fixed(object, old, &["/spec/selector"], &mut errors),
        ("", "Node") => node::validate_update(object, old, &mut errors),
        ("apps", "ControllerRevision") => fixed(object, old, &["/data"], &mut errors),
        ("", "Service") => service::validate_update(object, old, &mut errors),
        ("resource.k8s.io", "ResourceClaim" | "ResourceClaimTemplate") => fixed(object, old, &["/spec"], &mut errors),
        _ => {}
    }
    if kind == "Secret" {
        fixed(object, old, &["/type"], &mut errors);
    }
    errors
}

fn fixed(object: &Value, old: &Value, paths: &[&str], errors: &mut Vec<FieldError>) {
    for path in paths {
        if object.pointer(path) != old.pointer(path) {
            let field = path.trim_start_matches('/').replace('/', ".");
            let value = object.pointer(path).cloned().unwrap_or_default();
            errors.push(FieldError::invalid(field, value, "field is immutable"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_must_match_templates() {
        let mut object = json!({"spec": {"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "c"}},
            "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
        let errors = validate("apps", "Deployment", &object);
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert!(
            errors[0]
                .to_string()
                .contains("`selector` does not match template `labels`")
        );
        object["spec"]["template"]["metadata"]["labels"]["a"] = json!("b");
        assert!(validate("apps", "Deployment", &object).is_empty());
    }

    #[test]
    fn immutable_means_immutable() {
        let old = json!({"immutable": true, "data": {"a": "b"}});
        let new = json!({"immutable": true, "data": {"a": "c"}});
        assert_eq!(validate_update("", "ConfigMap", &new, &old).len(), 1);
        assert!(validate_update("", "ConfigMap", &old, &old).is_empty());
        assert_eq!(
            validate_update("", "Secret", &json!({"type": "x"}), &json!({"type": "y"})).len(),
            1
        );
    }
}
