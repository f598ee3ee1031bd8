//! What horizontal autoscalers may say: their bounds, what they scale, what they measure and how fast they go.

use coppice_schema::FieldError;
use serde_json::{Value, json};

use super::{NameRule, quantity};
use crate::rest::validate_name;

/// The sources that a metric can have: its type and the member that says more.
const SOURCES: [(&str, &str); 5] = [
    ("ContainerResource", "containerResource"),
    ("External", "external"),
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
];
/// The order in which a real server looks at them; only the first one that is there is looked at closely.
const SOURCE_ORDER: [&str; 5] = ["object", "external", "pods", "resource", "containerResource"];
const LONGEST_WINDOW: i64 = 3600;
const LONGEST_PERIOD: i64 = 1800;

/// Complaints about an autoscaler.
pub(super) fn validate(object: &Value, errors: &mut Vec<FieldError>) {
    let spec = &object["spec"];
    bounds(spec, errors);
    target_reference(&spec["scaleTargetRef"], errors);
    for (index, metric) in spec["metrics"].as_array().into_iter().flatten().enumerate() {
        metric_source(metric, &format!("spec.metrics[{index}]"), errors);
    }
    let counts_elsewhere = |metric: &Value| matches!(text(metric, "type"), "Object" | "External");
    let mut metrics = spec["metrics"].as_array().into_iter().flatten();
    if spec["minReplicas"] == 0 && !metrics.any(counts_elsewhere) {
        let detail = "must specify at least one Object or External metric to support scaling to zero replicas";
        errors.push(FieldError::forbidden("spec.metrics", detail));
    }
    for direction in ["scaleUp", "scaleDown"] {
        if let Some(rules) = spec["behavior"].get(direction).filter(|rules| rules.is_object()) {
            scaling_rules(rules, &format!("spec.behavior.{direction}"), errors);
        }
    }
}

fn bounds(spec: &Value, errors: &mut Vec<FieldError>) {
    let (least, most) = (spec["minReplicas"].as_i64(), spec["maxReplicas"].as_i64().unwrap_or(0));
    if let Some(least) = least.filter(|least| *least < 1) {
        let detail = "must be greater than or equal to 1";
        errors.push(FieldError::invalid("spec.minReplicas", json!(least), detail));
    }
    if most == 0 {
        let detail = "must be set and greater than 0";
        errors.push(FieldError::required("spec.maxReplicas", detail));
    } else if most < 0 {
        let detail = "must be greater than or equal to 1";
        errors.push(FieldError::invalid("spec.maxReplicas", json!(most), detail));
    }
    if least.is_some_and(|least| most < least) {
        let detail = "must be greater than or equal to `minReplicas`";
        errors.push(FieldError::invalid("spec.maxReplicas", json!(most), detail));
    }
}

fn target_reference(reference: &Value, errors: &mut Vec<FieldError>) {
    let path = "spec.scaleTargetRef";
    object_reference(reference, path, errors);
    // Only one kind that can be scaled has no group.
    if text(reference, "kind") != "ReplicationController" && !text(reference, "apiVersion").contains('/') {
        let (value, detail) = (
            json!(text(reference, "apiVersion")),
            "apiVersion must specify API group",
        );
        errors.push(FieldError::invalid(format!("{path}.apiVersion"), value, detail));
    }
}

fn object_reference(reference: &Value, path: &str, errors: &mut Vec<FieldError>) {
    for name in ["kind", "name"] {
        path_segment(text(reference, name), "", &format!("{path}.{name}"), errors);
    }
}

/// A name that has to be there and to fit into a path.
fn path_segment(name: &str, absent: &str, path: &str, errors: &mut Vec<FieldError>) {
    if name.is_empty() {
        errors.push(FieldError::required(path, absent));
    } else if let Some(detail) = validate_name(name, NameRule::PathSegment) {
        errors.push(FieldError::invalid(path, json!(name), detail));
    }
}

fn metric_source(metric: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let kind = text(metric, "type");
    if kind.is_empty() {
        let detail = "must specify a metric source type";
        errors.push(FieldError::required(format!("{path}.type"), detail));
    }
    let expected = SOURCES
        .iter()
        .find(|(known, _)| *known == kind)
        .map(|(_, member)| *member);
    let there = |member: &str| metric.get(member).is_some_and(Value::is_object);
    let present: Vec<&str> = SOURCE_ORDER.into_iter().filter(|member| there(member)).collect();
    if expected.is_none() {
        let known = SOURCES.map(|(known, _)| json!(known));
        // A real server says it before and after it has looked at the source.
        let unknown = FieldError::not_supported(format!("{path}.type"), json!(kind), &known);
        errors.extend([unknown.clone(), unknown]);
    }
    if let Some(first) = present.first() {
        source(first, &metric[first], &format!("{path}.{first}"), errors);
    }
    if let Some(expected) = expected.filter(|expected| !there(expected)) {
        let detail = "must populate information for the given metric source";
        errors.push(FieldError::required(format!("{path}.{expected}"), detail));
    }
    if present.len() > 1 {
        for other in present.into_iter().filter(|member| Some(*member) != expected) {
            let detail = "must populate the given metric source only";
            errors.push(FieldError::forbidden(format!("{path}.{other}"), detail));
        }
    }
}

fn source(member: &str, source: &Value, path: &str, errors: &mut Vec<FieldError>) {
    match member {
        "object" => object_reference(&source["describedObject"], &format!("{path}.describedObject"), errors),
        "resource" | "containerResource" if text(source, "name").is_empty() => {
            errors.push(FieldError::required(
                format!("{path}.name"),
                "must specify a resource name",
            ));
        }
        _ => {}
    }
    if member == "containerResource" {
        let (container, path) = (text(source, "container"), format!("{path}.container"));
        if container.is_empty() {
            errors.push(FieldError::required(path, "must specify a container"));
        } else if let Some(detail) = validate_name(container, NameRule::Label) {
            errors.push(FieldError::invalid(path, json!(container), detail));
        }
    }
    if matches!(member, "object" | "external" | "pods") {
        let name = text(&source["metric"], "name");
        path_segment(
            name,
            "must specify a metric name",
            &format!("{path}.metric.name"),
            errors,
        );
    }
    let (target, path) = (&source["target"], format!("{path}.target"));
    metric_target(target, &path, errors);
    let has = |name: &str| target.get(name).is_some_and(|value| !value.is_null());
    let (value, average, utilization) = (has("value"), has("averageValue"), has("averageUtilization"));
    let mut required = |name: &str, detail| errors.push(FieldError::required(format!("{path}.{name}"), detail));
    match member {
        "object" if !value && !average => required("averageValue", "must set either a target value or averageValue"),
        "external" if !value && !average => required(
            "averageValue",
            "must set either a target value for metric or a per-pod target",
        ),
        "pods" if !average => required("averageValue", "must specify a positive target averageValue"),
        "resource" | "containerResource" if !utilization && !average => required(
            "averageUtilization",
            "must set either a target raw value or a target utilization",
        ),
        "external" if value && average => {
            let detail = "may not set both a target value for metric and a per-pod target";
            errors.push(FieldError::forbidden(format!("{path}.value"), detail));
        }
        "resource" | "containerResource" if utilization && average => {
            let detail = "may not set both a target raw value and a target utilization";
            errors.push(FieldError::forbidden(format!("{path}.averageValue"), detail));
        }
        _ => {}
    }
}

fn metric_target(target: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let kind = text(target, "type");
    if kind.is_empty() {
        let detail = "must specify a metric target type";
        errors.push(FieldError::required(format!("{path}.type"), detail));
    }
    if !matches!(kind, "Utilization" | "Value" | "AverageValue") {
        let detail = "must be either Utilization, Value, or AverageValue";
        errors.push(FieldError::invalid(format!("{path}.type"), json!(kind), detail));
    }
    for name in ["value", "averageValue"] {
        let amount = &target[name];
        if !amount.is_null() && !quantity::is_greater(amount, &json!("0")) {
            let detail = "must be positive";
            errors.push(FieldError::invalid(format!("{path}.{name}"), amount.clone(), detail));
        }
    }
    if let Some(percent) = target["averageUtilization"].as_i64().filter(|percent| *percent < 1) {
        let detail = "must be greater than 0";
        errors.push(FieldError::invalid(
            format!("{path}.averageUtilization"),
            json!(percent),
            detail,
        ));
    }
}

fn scaling_rules(rules: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let window = &rules["stabilizationWindowSeconds"];
    let least = (0, "must be greater than or equal to zero");
    let window_path = format!("{path}.stabilizationWindowSeconds");
    number_within(window, window_path, least, LONGEST_WINDOW, errors);
    let select = &rules["selectPolicy"];
    if !select.is_null() && !matches!(select.as_str(), Some("Max" | "Min" | "Disabled")) {
        let known = ["Disabled", "Max", "Min"].map(|known| json!(known));
        let select_path = format!("{path}.selectPolicy");
        errors.push(FieldError::not_supported(select_path, select.clone(), &known));
    }
    let policies = rules["policies"].as_array().map_or(&[][..], Vec::as_slice);
    if policies.is_empty() {
        let detail = "must specify at least one Policy";
        errors.push(FieldError::required(format!("{path}.policies"), detail));
    }
    for (index, policy) in policies.iter().enumerate() {
        scaling_policy(policy, &format!("{path}.policies[{index}]"), errors);
    }
    let tolerance = &rules["tolerance"];
    if quantity::is_greater(&json!("0"), tolerance) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(
            format!("{path}.tolerance"),
            tolerance.clone(),
            detail,
        ));
    }
}

fn scaling_policy(policy: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let kind = text(policy, "type");
    if !matches!(kind, "Pods" | "Percent") {
        let known = ["Percent", "Pods"].map(|known| json!(known));
        errors.push(FieldError::not_supported(format!("{path}.type"), json!(kind), &known));
    }
    for (name, most) in [("value", i64::MAX), ("periodSeconds", LONGEST_PERIOD)] {
        let least = (1, "must be greater than zero");
        number_within(&policy[name], format!("{path}.{name}"), least, most, errors);
    }
}

fn number_within(value: &Value, path: String, least: (i64, &str), most: i64, errors: &mut Vec<FieldError>) {
    let Some(number) = value.as_i64() else { return };
    let (least, too_small) = least;
    if number < least {
        errors.push(FieldError::invalid(path, json!(number), too_small));
    } else if number > most {
        let detail = format!("must be less than or equal to {most}");
        errors.push(FieldError::invalid(path, json!(number), detail));
    }
}

fn text<'v>(value: &'v Value, name: &str) -> &'v str {
    value[name].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaints(changes: &Value) -> Vec<String> {
        let mut object = json!({"spec": {
            "minReplicas": 1, "maxReplicas": 3,
            "scaleTargetRef": {"apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": "x"},
        }});
        json_patch::merge(&mut object["spec"], changes);
        let mut errors = Vec::new();
        validate(&object, &mut errors);
        errors.iter().map(|error| error.path.clone()).collect()
    }

    #[test]
    fn a_metric_has_the_one_source_of_its_type_with_a_target() {
        let target = json!({"type": "AverageValue", "averageValue": "2"});
        let pods = json!({"metric": {"name": "queue"}, "target": target});
        assert!(complaints(&json!({"metrics": [{"type": "Pods", "pods": pods}]})).is_empty());
        assert_eq!(
            complaints(&json!({"metrics": [{"type": "Resource", "pods": pods}]})),
            ["spec.metrics[0].resource"]
        );
        assert_eq!(
            complaints(&json!({"metrics": [{"type": "Pods", "pods": pods, "resource": {"name": "cpu"}}]})),
            ["spec.metrics[0].resource"]
        );
        assert_eq!(
            complaints(
                &json!({"metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]})
            ),
            ["spec.metrics[0].resource.target.averageUtilization"]
        );
    }

    #[test]
    fn bounds_are_positive_and_in_order() {
        assert!(complaints(&json!({})).is_empty());
        assert_eq!(
            complaints(&json!({"maxReplicas": 0, "minReplicas": null})),
            ["spec.maxReplicas"]
        );
        assert_eq!(complaints(&json!({"minReplicas": 5})), ["spec.maxReplicas"]);
        assert_eq!(
            complaints(&json!({"minReplicas": 0})),
            ["spec.minReplicas", "spec.metrics"]
        );
    }
}
