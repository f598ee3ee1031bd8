//! Workload controllers and what governs them in tables.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::age::span;
use super::{AGE, Heading, NAME, age, containers, items, name, number, number_at, selector, text, text_at, wide};
use crate::kinds::autoscaler_versions;

pub(super) const DEPLOYMENT: &[Heading] = &[
    NAME,
    text("Ready"),
    text("Up-to-date"),
    text("Available"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

pub(super) fn deployment(object: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(object);
    let ready = format!(
        "{}/{}",
        number_at(object, "/status/readyReplicas"),
        number_at(object, "/spec/replicas")
    );
    vec![
        name(object),
        json!(ready),
        json!(number_at(object, "/status/updatedReplicas")),
        json!(number_at(object, "/status/availableReplicas")),
        age(object, now),
        json!(names),
        json!(images),
        json!(selector(object.pointer("/spec/selector"))),
    ]
}

pub(super) const REPLICA_SET: &[Heading] = &[
    NAME,
    number("Desired"),
    number("Current"),
    number("Ready"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

pub(super) fn replica_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(object);
    vec![
        name(object),
        json!(number_at(object, "/spec/replicas")),
        json!(number_at(object, "/status/replicas")),
        json!(number_at(object, "/status/readyReplicas")),
        age(object, now),
        json!(names),
        json!(images),
        json!(selector(object.pointer("/spec/selector"))),
    ]
}

pub(super) const STATEFUL_SET: &[Heading] = &[NAME, text("Ready"), AGE, wide("Containers"), wide("Images")];

pub(super) fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(object);
    let ready = format!(
        "{}/{}",
        number_at(object, "/status/readyReplicas"),
        number_at(object, "/spec/replicas")
    );
    vec![
        name(object),
        json!(ready),
        age(object, now),
        json!(names),
        json!(images),
    ]
}

pub(super) const DAEMON_SET: &[Heading] = &[
    NAME,
    number("Desired"),
    number("Current"),
    number("Ready"),
    number("Up-to-date"),
    number("Available"),
    text("Node Selector"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

pub(super) fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = containers(object);
    vec![
        name(object),
        json!(number_at(object, "/status/desiredNumberScheduled")),
        json!(number_at(object, "/status/currentNumberScheduled")),
        json!(number_at(object, "/status/numberReady")),
        json!(number_at(object, "/status/updatedNumberScheduled")),
        json!(number_at(object, "/status/numberAvailable")),
        json!(selector(object.pointer("/spec/template/spec/nodeSelector"))),
        age(object, now),
        json!(names),
        json!(images),
        json!(selector(object.pointer("/spec/selector"))),
    ]
}

pub(super) const JOB: &[Heading] = &[NAME, text("Status"), text("Completions"), text("Duration"), AGE];

pub(super) fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let condition =
        |kind: &str| items(object, "/status/conditions").any(|one| one["type"] == kind && one["status"] == "True");
    let status = match (condition("Complete"), condition("Failed"), condition("Suspended")) {
        (true, ..) => "Complete",
        (_, true, _) => "Failed",
        (.., true) => "Suspended",
        _ => "Running",
    };
    let wanted = object.pointer("/spec/completions").and_then(Value::as_i64).unwrap_or(1);
    let time = |path: &str| {
        object
            .pointer(path)
            .and_then(Value::as_str)
            .and_then(|text| text.parse::<Timestamp>().ok())
    };
    let duration = time("/status/startTime").map_or_else(String::new, |start| {
        span(time("/status/completionTime").unwrap_or(now).as_second() - start.as_second())
    });
    vec![
        name(object),
        json!(status),
        json!(format!("{}/{wanted}", number_at(object, "/status/succeeded"))),
        json!(duration),
        age(object, now),
    ]
}

pub(super) const AUTOSCALER: &[Heading] = &[
    NAME,
    text("Reference"),
    text("Targets"),
    text("MinPods"),
    text("MaxPods"),
    text("Replicas"),
    AGE,
];

pub(super) fn autoscaler(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut object = object.clone();
    if object["apiVersion"] == "autoscaling/v1" {
        autoscaler_versions::to_v2(&mut object);
    }
    let object = &object;
    let reference = format!(
        "{}/{}",
        text_at(object, "/spec/scaleTargetRef/kind", ""),
        text_at(object, "/spec/scaleTargetRef/name", "")
    );
    vec![
        name(object),
        json!(reference),
        json!(targets(object)),
        json!(text_at(object, "/spec/minReplicas", "<unset>")),
        json!(number_at(object, "/spec/maxReplicas")),
        json!(number_at(object, "/status/currentReplicas")),
        age(object, now),
    ]
}

/// A part of the whole, or an amount for each pod.
fn amount(metric: Option<&Value>, path: &str) -> String {
    let target = metric.and_then(|metric| metric.pointer(path)).unwrap_or(&Value::Null);
    match (target["averageUtilization"].as_i64(), target["averageValue"].as_str()) {
        (Some(percent), _) => format!("{percent}%"),
        (None, Some(value)) => value.to_owned(),
        (None, None) => "<unknown>".to_owned(),
    }
}

fn targets(object: &Value) -> String {
    let targets: Vec<String> = items(object, "/spec/metrics")
        .enumerate()
        .map(|(index, metric)| {
            let current = object.pointer(&format!("/status/currentMetrics/{index}"));
            match text_at(metric, "/type", "").as_str() {
                "Resource" => {
                    let (wanted, found) = ("/resource/target", "/resource/current");
                    let label = text_at(metric, "/resource/name", "");
                    format!("{label}: {}/{}", amount(current, found), amount(Some(metric), wanted))
                }
                "Pods" => format!(
                    "{}/{}",
                    amount(current, "/pods/current"),
                    amount(Some(metric), "/pods/target")
                ),
                _ => "<unknown type>".to_owned(),
            }
        })
        .collect();
    if targets.is_empty() {
        "<none>".to_owned()
    } else {
        targets.join(", ")
    }
}

pub(super) const BUDGET: &[Heading] = &[
    NAME,
    text("Min Available"),
    text("Max Unavailable"),
    number("Allowed Disruptions"),
    AGE,
];

pub(super) fn budget(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        json!(text_at(object, "/spec/minAvailable", "N/A")),
        json!(text_at(object, "/spec/maxUnavailable", "N/A")),
        json!(number_at(object, "/status/disruptionsAllowed")),
        age(object, now),
    ]
}
