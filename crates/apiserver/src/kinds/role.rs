//! The rules of roles and their bindings: what is filled in and what may be said.

use coppice_schema::FieldError;
use serde_json::{Value, json};

const GROUP: &str = "rbac.authorization.k8s.io";

/// Roles and people belong to a group that need not be named.
pub(super) fn fill_binding(object: &mut Value) {
    if let Some(reference) = object.get_mut("roleRef") {
        fill_group(reference);
    }
    let subjects = object.get_mut("subjects").and_then(Value::as_array_mut);
    for subject in subjects.into_iter().flatten() {
        if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
            fill_group(subject);
        }
    }
}

fn fill_group(reference: &mut Value) {
    let group = reference.get("apiGroup").and_then(Value::as_str).unwrap_or_default();
    if group.is_empty() && reference.is_object() {
        reference["apiGroup"] = json!(GROUP);
    }
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Complaints about a role.
pub(super) fn validate(object: &Value, cluster: bool, errors: &mut Vec<FieldError>) {
    let rules = object.get("rules").and_then(Value::as_array);
    for (index, rule) in rules.into_iter().flatten().enumerate() {
        let empty = |name: &str| rule.get(name).and_then(Value::as_array).is_none_or(Vec::is_empty);
        let mut require = |name: &str, detail: &str| {
            errors.push(FieldError::required(format!("rules[{index}].{name}"), detail));
        };
        if empty("verbs") {
            require("verbs", "verbs must contain at least one value");
        }
        if !empty("nonResourceURLs") {
            let at = format!("rules[{index}].nonResourceURLs");
            let urls = rule["nonResourceURLs"].clone();
            if !cluster {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                errors.push(FieldError::invalid(at, urls, detail));
            } else if !(empty("apiGroups") && empty("resources") && empty("resourceNames")) {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                errors.push(FieldError::invalid(at, urls, detail));
            }
            continue;
        }
        if empty("apiGroups") {
            require("apiGroups", "resource rules must supply at least one api group");
        }
        if empty("resources") {
            require("resources", "resource rules must supply at least one resource");
        }
    }
}

/// Complaints about a binding.
pub(super) fn validate_binding(object: &Value, cluster: bool, errors: &mut Vec<FieldError>) {
    let reference = object.get("roleRef").unwrap_or(&Value::Null);
    let group = text(reference, "apiGroup");
    if group != GROUP {
        errors.push(FieldError::not_supported(
            "roleRef.apiGroup",
            json!(group),
            &[json!(GROUP)],
        ));
    }
    let kinds: &[Value] = if cluster {
        &[json!("ClusterRole")]
    } else {
        &[json!("Role"), json!("ClusterRole")]
    };
    let kind = json!(text(reference, "kind"));
    if !kinds.contains(&kind) {
        errors.push(FieldError::not_supported("roleRef.kind", kind, kinds));
    }
    if text(reference, "name").is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    }
    let subjects = object.get("subjects").and_then(Value::as_array);
    for (index, subject) in subjects.into_iter().flatten().enumerate() {
        validate_subject(subject, cluster, &format!("subjects[{index}]"), errors);
    }
}

fn validate_subject(subject: &Value, cluster: bool, at: &str, errors: &mut Vec<FieldError>) {
    if text(subject, "name").is_empty() {
        errors.push(FieldError::required(format!("{at}.name"), ""));
    }
    let group = text(subject, "apiGroup");
    let expected = match text(subject, "kind") {
        "ServiceAccount" => "",
        "User" | "Group" => GROUP,
        other => {
            let kinds = ["Group", "ServiceAccount", "User"].map(|kind| json!(kind));
            errors.push(FieldError::not_supported(format!("{at}.kind"), json!(other), &kinds));
            return;
        }
    };
    if group != expected {
        errors.push(FieldError::not_supported(
            format!("{at}.apiGroup"),
            json!(group),
            &[json!(expected)],
        ));
    }
    // Within a namespace, that one is meant.
    if cluster && expected.is_empty() && text(subject, "namespace").is_empty() {
        errors.push(FieldError::required(format!("{at}.namespace"), ""));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(check: impl Fn(&mut Vec<FieldError>)) -> Vec<String> {
        let mut errors = Vec::new();
        check(&mut errors);
        errors.into_iter().map(|error| error.path).collect()
    }

    #[test]
    fn rules_say_who_may_do_what() {
        let rules = |rules: Value, cluster: bool| paths(|errors| validate(&json!({"rules": rules}), cluster, errors));
        let good = json!([{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]);
        assert_eq!(rules(good, false), [""; 0]);
        assert_eq!(
            rules(json!([{}]), false),
            ["rules[0].verbs", "rules[0].apiGroups", "rules[0].resources"]
        );
        let urls = json!([{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}]);
        assert_eq!(rules(urls.clone(), true), [""; 0]);
        assert_eq!(rules(urls, false), ["rules[0].nonResourceURLs"]);
    }

    #[test]
    fn bindings_name_a_role_and_people() {
        let mut good = json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]});
        fill_binding(&mut good);
        assert_eq!(paths(|errors| validate_binding(&good, false, errors)), [""; 0]);
        assert_eq!(paths(|errors| validate_binding(&good, true, errors)), ["roleRef.kind"]);
        good["subjects"] = json!([{"kind": "ServiceAccount", "name": "a"}, {"kind": "Robot", "name": "b"}]);
        assert_eq!(
            paths(|errors| validate_binding(&good, false, errors)),
            ["subjects[1].kind"]
        );
        good["roleRef"]["kind"] = json!("ClusterRole");
        assert_eq!(
            paths(|errors| validate_binding(&good, true, errors)),
            ["subjects[0].namespace", "subjects[1].kind"]
        );
    }
}
