//! Which webhook is concerned by which write.

use serde_json::{Value, json};

use super::Operation;
use super::config::Webhook;
use crate::crd::evaluate_condition;
use crate::rest::Call;
use crate::selector::LabelSelector;
use crate::store::Key;
use crate::tree::meta;

/// A write as webhooks see it.
pub(super) struct Subject<'a> {
    pub(super) call: &'a Call,
    pub(super) operation: Operation,
    pub(super) object: Option<&'a Value>,
    pub(super) old: Option<&'a Value>,
}

/// Whether a webhook is to be asked. An error means that its conditions could not be evaluated.
pub(super) fn concerns(webhook: &Webhook, subject: &Subject<'_>) -> Result<bool, String> {
    let call = subject.call;
    let target = Target {
        operation: subject.operation.as_str(),
        group: &call.served.group,
        versions: if webhook.equivalent {
            call.registry
                .versions(&call.served.group)
                .unwrap_or_default()
                .iter()
                .map(|version| &**version)
                .collect()
        } else {
            vec![&*call.served.version]
        },
        resource: &call.served.plural,
        subresource: &call.path.subresource,
        namespaced: call.served.namespaced,
    };
    if !webhook.rules.iter().any(|rule| rule_matches(rule, &target)) {
        return Ok(false);
    }
    if !namespace_matches(&webhook.namespace_selector, subject) || !object_matches(&webhook.object_selector, subject) {
        return Ok(false);
    }
    if webhook.conditions.is_empty() {
        return Ok(true);
    }
    let request = super::review::request(subject, "")["request"].take();
    let null = json!(null);
    let variables = [
        ("object", subject.object.unwrap_or(&null)),
        ("oldObject", subject.old.unwrap_or(&null)),
        ("request", &request),
    ];
    for (name, expression) in &webhook.conditions {
        match evaluate_condition(expression, &variables) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(problem) => {
                return Err(format!(
                    "matchCondition {name:?} of webhook {:?}: {problem}",
                    webhook.name
                ));
            }
        }
    }
    Ok(true)
}

struct Target<'a> {
    operation: &'a str,
    group: &'a str,
    versions: Vec<&'a str>,
    resource: &'a str,
    subresource: &'a str,
    namespaced: bool,
}

fn rule_matches(rule: &Value, target: &Target<'_>) -> bool {
    let list = |name: &str| -> Vec<&str> {
        rule.get(name)
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    };
    let has = |name: &str, wanted: &str| list(name).iter().any(|one| *one == "*" || *one == wanted);
    let scope = match rule.get("scope").and_then(Value::as_str).unwrap_or("*") {
        "Namespaced" => target.namespaced,
        "Cluster" => !target.namespaced,
        _ => true,
    };
    scope
        && has("operations", target.operation)
        && has("apiGroups", target.group)
        && target.versions.iter().any(|version| has("apiVersions", version))
        && list("resources")
            .iter()
            .any(|pattern| resource_matches(pattern, target.resource, target.subresource))
}

fn resource_matches(pattern: &str, resource: &str, subresource: &str) -> bool {
    match pattern.split_once('/') {
        None => subresource.is_empty() && (pattern == "*" || pattern == resource),
        Some((wanted, part)) => {
            (wanted == "*" || wanted == resource)
                && (part == subresource || (part == "*" && (!subresource.is_empty() || wanted == "*")))
        }
    }
}

/// Objects in a namespace are judged by its labels, namespaces by their own; nothing else has a namespace to judge.
fn namespace_matches(selector: &Value, subject: &Subject<'_>) -> bool {
    let Ok(selector) = LabelSelector::from_structured(selector) else {
        return false;
    };
    if selector.is_empty() {
        return true;
    }
    let call = subject.call;
    if &*call.served.id == "namespaces" {
        let own = subject.object.or(subject.old);
        return selector.matches_map(own.and_then(|namespace| meta(namespace, "labels")));
    }
    if call.path.namespace.is_empty() {
        return true;
    }
    let namespace = call
        .core
        .store
        .get("namespaces", &Key::new("", &call.path.namespace))
        .map(|found| found.value());
    selector.matches_map(namespace.as_ref().and_then(|namespace| meta(namespace, "labels")))
}

fn object_matches(selector: &Value, subject: &Subject<'_>) -> bool {
    let Ok(selector) = LabelSelector::from_structured(selector) else {
        return false;
    };
    selector.is_empty()
        || [subject.object, subject.old]
            .into_iter()
            .flatten()
            .any(|one| selector.matches_map(meta(one, "labels")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target<'a>(operation: &'a str, resource: &'a str, subresource: &'a str) -> Target<'a> {
        Target {
            operation,
            group: "",
            versions: vec!["v1"],
            resource,
            subresource,
            namespaced: true,
        }
    }

    #[test]
    fn rules_name_operations_and_resources() {
        let rule = json!({"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]});
        assert!(rule_matches(&rule, &target("CREATE", "pods", "")));
        assert!(!rule_matches(&rule, &target("UPDATE", "pods", "")));
        assert!(!rule_matches(&rule, &target("CREATE", "pods", "status")));
        let mut cluster = rule;
        cluster["scope"] = json!("Cluster");
        assert!(!rule_matches(&cluster, &target("CREATE", "pods", "")));
    }

    #[test]
    fn patterns_of_resources() {
        let cases = [
            ("*", "", true),
            ("*", "status", false),
            ("*/*", "", true),
            ("*/*", "status", true),
            ("pods/*", "status", true),
            ("pods/*", "", false),
            ("pods/status", "status", true),
            ("*/scale", "status", false),
        ];
        for (pattern, subresource, expected) in cases {
            assert_eq!(
                resource_matches(pattern, "pods", subresource),
                expected,
                "{pattern} {subresource}"
            );
        }
    }
}
