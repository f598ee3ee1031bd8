//! HorizontalPodAutoscalers of `autoscaling/v1`, which are stored as `autoscaling/v2`.
//!
//! The old version has one number for the wanted use of CPU. Everything else that the new version can say travels in
//! annotations, so an object that is read and written in the old version loses nothing.

use serde_json::{Map, Value, json};

use crate::tree::meta_mut;

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";

/// A source of metrics: its name, and where each of its values stands in the new version and in the old one.
type Source = (&'static str, &'static [(&'static str, &'static str)]);

const WANTED: [Source; 5] = [
    (
        "resource",
        &[
            ("/name", "name"),
            ("/target/averageUtilization", "targetAverageUtilization"),
            ("/target/averageValue", "targetAverageValue"),
        ],
    ),
    (
        "containerResource",
        &[
            ("/name", "name"),
            ("/container", "container"),
            ("/target/averageUtilization", "targetAverageUtilization"),
            ("/target/averageValue", "targetAverageValue"),
        ],
    ),
    (
        "pods",
        &[
            ("/metric/name", "metricName"),
            ("/metric/selector", "selector"),
            ("/target/averageValue", "targetAverageValue"),
        ],
    ),
    (
        "object",
        &[
            ("/describedObject", "target"),
            ("/metric/name", "metricName"),
            ("/metric/selector", "selector"),
            ("/target/value", "targetValue"),
            ("/target/averageValue", "averageValue"),
        ],
    ),
    (
        "external",
        &[
            ("/metric/name", "metricName"),
            ("/metric/selector", "metricSelector"),
            ("/target/value", "targetValue"),
            ("/target/averageValue", "targetAverageValue"),
        ],
    ),
];

const CURRENT: [Source; 5] = [
    (
        "resource",
        &[
            ("/name", "name"),
            ("/current/averageUtilization", "currentAverageUtilization"),
            ("/current/averageValue", "currentAverageValue"),
        ],
    ),
    (
        "containerResource",
        &[
            ("/name", "name"),
            ("/container", "container"),
            ("/current/averageUtilization", "currentAverageUtilization"),
            ("/current/averageValue", "currentAverageValue"),
        ],
    ),
    (
        "pods",
        &[
            ("/metric/name", "metricName"),
            ("/metric/selector", "selector"),
            ("/current/averageValue", "currentAverageValue"),
        ],
    ),
    (
        "object",
        &[
            ("/describedObject", "target"),
            ("/metric/name", "metricName"),
            ("/metric/selector", "selector"),
            ("/current/value", "currentValue"),
            ("/current/averageValue", "averageValue"),
        ],
    ),
    (
        "external",
        &[
            ("/metric/name", "metricName"),
            ("/metric/selector", "metricSelector"),
            ("/current/value", "currentValue"),
            ("/current/averageValue", "currentAverageValue"),
        ],
    ),
];

/// Turns a stored object into its old form.
pub(crate) fn to_v1(object: &mut Value) {
    let metrics = take_list(object, "spec", "metrics");
    let (cpu, others): (Vec<Value>, Vec<Value>) = metrics.into_iter().partition(is_cpu_utilization);
    if let Some(percentage) = cpu
        .first()
        .and_then(|metric| metric.pointer("/resource/target/averageUtilization"))
    {
        object["spec"]["targetCPUUtilizationPercentage"] = percentage.clone();
    }
    let current = take_list(object, "status", "currentMetrics");
    let percentage = current
        .iter()
        .filter(|metric| metric.pointer("/resource/name") == Some(&json!("cpu")))
        .find_map(|metric| metric.pointer("/resource/current/averageUtilization").cloned());
    let conditions = take_list(object, "status", "conditions");
    let status = &mut object["status"];
    if status.is_null() {
        *status = json!({});
    }
    if let Some(status) = status.as_object_mut() {
        if let Some(percentage) = percentage {
            status.insert("currentCPUUtilizationPercentage".into(), percentage);
        }
        for name in ["currentReplicas", "desiredReplicas"] {
            status.entry(name).or_insert(json!(0));
        }
    }
    let behavior = take(object, "spec", "behavior");
    drop_annotations(object);
    let old = |metrics: &[Value], sources| metrics.iter().map(|metric| to_old(metric, sources)).collect::<Vec<_>>();
    if !others.is_empty() {
        annotate(object, METRICS, &json!(old(&others, &WANTED)));
    }
    if !current.is_empty() {
        annotate(object, CURRENT_METRICS, &json!(old(&current, &CURRENT)));
    }
    if let Some(behavior) = behavior.filter(|behavior| !behavior.is_null()) {
        annotate(object, BEHAVIOR, &with_keys(&behavior, char::to_ascii_uppercase));
    }
    if !conditions.is_empty() {
        annotate(object, CONDITIONS, &json!(conditions));
    }
}

/// Turns an object of the old form into what is stored.
pub(crate) fn to_v2(object: &mut Value) {
    let new = |text: Option<Value>, sources: &[Source]| {
        let metrics: Option<Vec<Value>> = text.and_then(|text| serde_json::from_value(text).ok());
        metrics.map(|metrics| metrics.iter().map(|metric| to_new(metric, sources)).collect::<Vec<_>>())
    };
    let mut metrics = new(annotation(object, METRICS), &WANTED).unwrap_or_default();
    match take(object, "spec", "targetCPUUtilizationPercentage") {
        Some(percentage) if !percentage.is_null() => metrics.push(cpu_utilization(&percentage)),
        _ if metrics.is_empty() => metrics.push(cpu_utilization(&json!(80))),
        _ => {}
    }
    let behavior = annotation(object, BEHAVIOR).map(|behavior| with_keys(&behavior, char::to_ascii_lowercase));
    let percentage = take(object, "status", "currentCPUUtilizationPercentage");
    let current = new(annotation(object, CURRENT_METRICS), &CURRENT).or_else(|| {
        let cpu = |percentage| json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percentage}}}]);
        percentage.map(cpu).and_then(|list| list.as_array().cloned())
    });
    let conditions = annotation(object, CONDITIONS);
    drop_annotations(object);
    object["spec"]["metrics"] = json!(metrics);
    if let Some(behavior) = behavior.filter(|behavior| behavior.as_object().is_some_and(|members| !members.is_empty()))
    {
        object["spec"]["behavior"] = behavior;
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        status.retain(|name, value| name != "currentReplicas" || *value != 0);
        status.entry("currentMetrics").or_insert(Value::Null);
    }
    if let Some(current) = current {
        object["status"]["currentMetrics"] = json!(current);
    }
    if let Some(conditions) = conditions.filter(Value::is_array) {
        object["status"]["conditions"] = conditions;
    }
}

fn is_cpu_utilization(metric: &Value) -> bool {
    metric["type"] == "Resource"
        && metric.pointer("/resource/name") == Some(&json!("cpu"))
        && metric.pointer("/resource/target/averageUtilization").is_some()
}

fn cpu_utilization(percentage: &Value) -> Value {
    json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percentage}}})
}

fn to_old(metric: &Value, sources: &[Source]) -> Value {
    let mut old = json!({"type": metric["type"]});
    for (name, places) in sources {
        let Some(source) = metric.get(*name) else { continue };
        let moved = places
            .iter()
            .filter_map(|(place, old)| Some(((*old).to_owned(), source.pointer(place)?.clone())));
        old[*name] = Value::Object(moved.collect());
    }
    old
}

fn to_new(metric: &Value, sources: &[Source]) -> Value {
    let mut new = json!({"type": metric["type"]});
    for (name, places) in sources {
        let Some(source) = metric.get(*name) else { continue };
        let mut moved = json!({});
        for (place, old) in *places {
            let Some(value) = source.get(*old).filter(|value| !value.is_null()) else {
                continue;
            };
            let mut at = &mut moved;
            for step in place.split('/').skip(1) {
                at = &mut at[step];
            }
            *at = value.clone();
        }
        settle_target(&mut moved);
        new[*name] = moved;
    }
    new
}

/// The old form does not say which of its values is meant, and cannot leave one of them out.
fn settle_target(source: &mut Value) {
    let Some(target) = source.get_mut("target").and_then(Value::as_object_mut) else {
        return;
    };
    let kind = if target.contains_key("averageUtilization") {
        "Utilization"
    } else if target.contains_key("averageValue") {
        if target.get("value") == Some(&json!("0")) {
            target.remove("value");
        }
        "AverageValue"
    } else {
        "Value"
    };
    target.insert("type".into(), json!(kind));
}

/// The tree with the first letter of each key changed and without nulls: the behaviour is written with the names of Go's
/// fields.
fn with_keys(value: &Value, change: fn(&char) -> char) -> Value {
    match value {
        Value::Object(members) => {
            let changed = members
                .iter()
                .filter(|(_, member)| !member.is_null())
                .map(|(name, member)| {
                    let mut letters = name.chars();
                    let first = letters.next().map(|letter| change(&letter));
                    (
                        first.into_iter().chain(letters).collect::<String>(),
                        with_keys(member, change),
                    )
                });
            Value::Object(changed.collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(|item| with_keys(item, change)).collect()),
        other => other.clone(),
    }
}

fn take(object: &mut Value, part: &str, name: &str) -> Option<Value> {
    object.get_mut(part)?.as_object_mut()?.remove(name)
}

fn take_list(object: &mut Value, part: &str, name: &str) -> Vec<Value> {
    match take(object, part, name) {
        Some(Value::Array(items)) => items,
        _ => Vec::new(),
    }
}

fn annotation(object: &Value, name: &str) -> Option<Value> {
    let text = object.get("metadata")?.get("annotations")?.get(name)?.as_str()?;
    serde_json::from_str(text).ok()
}

fn annotate(object: &mut Value, name: &str, value: &Value) {
    let annotations = meta_mut(object)
        .entry("annotations")
        .or_insert_with(|| Value::Object(Map::new()));
    annotations[name] = json!(value.to_string());
}

fn drop_annotations(object: &mut Value) {
    let metadata = meta_mut(object);
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else {
        return;
    };
    annotations.retain(|name, _| ![METRICS, CURRENT_METRICS, CONDITIONS, BEHAVIOR].contains(&name.as_str()));
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_cpu_is_a_number_in_the_old_version() {
        let mut object = json!({"metadata": {}, "spec": {"maxReplicas": 3, "metrics": [cpu_utilization(&json!(60))]}});
        let stored = object.clone();
        to_v1(&mut object);
        assert_eq!(
            object["spec"],
            json!({"maxReplicas": 3, "targetCPUUtilizationPercentage": 60})
        );
        assert_eq!(object["status"], json!({"currentReplicas": 0, "desiredReplicas": 0}));
        to_v2(&mut object);
        assert_eq!(object["spec"], stored["spec"]);
    }

    #[test]
    fn nothing_wanted_means_eighty_percent_of_cpu() {
        let mut object = json!({"metadata": {}, "spec": {"maxReplicas": 3}});
        to_v2(&mut object);
        assert_eq!(object["spec"]["metrics"], json!([cpu_utilization(&json!(80))]));
    }

    #[test]
    fn what_the_old_version_cannot_say_comes_back_unchanged() {
        let stored = json!({"metadata": {"annotations": {"mine": "1"}}, "spec": {"maxReplicas": 3,
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5, "policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}]}},
            "metrics": [
                {"type": "Resource", "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}},
                {"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c",
                    "target": {"type": "Utilization", "averageUtilization": 5}}},
                {"type": "Pods", "pods": {"metric": {"name": "m", "selector": {"matchLabels": {"a": "b"}}},
                    "target": {"type": "AverageValue", "averageValue": "2"}}},
                {"type": "Object", "object": {"describedObject": {"kind": "Service", "name": "s", "apiVersion": "v1"},
                    "metric": {"name": "m"}, "target": {"type": "Value", "value": "3"}}},
                {"type": "External", "external": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "4"}}},
                cpu_utilization(&json!(60))]},
            "status": {"currentReplicas": 1, "desiredReplicas": 2,
                "conditions": [{"type": "AbleToScale", "status": "True"}],
                "currentMetrics": [{"type": "Resource", "resource": {"name": "cpu",
                    "current": {"averageUtilization": 7, "averageValue": "70m"}}}]}});
        let mut object = stored.clone();
        to_v1(&mut object);
        assert_eq!(object["status"]["currentCPUUtilizationPercentage"], 7);
        assert!(object["spec"].get("metrics").is_none() && object["spec"].get("behavior").is_none());
        let behavior = object["metadata"]["annotations"][BEHAVIOR].as_str().unwrap();
        assert!(behavior.contains("StabilizationWindowSeconds"), "{behavior}");
        to_v2(&mut object);
        assert_eq!(object, stored);
    }
}
