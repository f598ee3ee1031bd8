//! Tables: lists as people read them.
//!
//! A kind has columns and a function that fills them from an object; custom resources name the paths of their cells.

mod age;
mod configuration;
mod jsonpath;
mod nodes;
mod pods;
mod workloads;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::registry::Served;
use crate::tree::meta_text;

use age::since;

/// How a table is wanted.
#[derive(Clone, Copy)]
pub(crate) struct TableOptions<'a> {
    /// What comes along with each row: `Metadata` (the usual), `Object`, `None`.
    pub(crate) include_object: &'a str,
    /// The time ages are measured from.
    pub(crate) now: Timestamp,
    /// Whether columns are described.
    pub(crate) headers: bool,
}

/// A heading: name, type, format, priority.
type Heading = (&'static str, &'static str, &'static str, i64);
/// Fills the cells of one object.
type Fill = fn(&Value, Timestamp) -> Vec<Value>;

const NAME: Heading = ("Name", "string", "name", 0);
const AGE: Heading = ("Age", "string", "", 0);

const fn text(name: &'static str) -> Heading {
    (name, "string", "", 0)
}

const fn number(name: &'static str) -> Heading {
    (name, "integer", "", 0)
}

const fn wide(name: &'static str) -> Heading {
    (name, "string", "", 1)
}

/// The table of these objects.
pub(crate) fn table(served: &Served, objects: &[Value], metadata: &Value, options: &TableOptions<'_>) -> Value {
    let (columns, cells) = match served.rules.columns() {
        Some(columns) => {
            let mut headings = vec![heading(NAME)];
            headings.extend(columns.iter().map(|column| {
                json!({"name": column.name, "type": column.kind, "format": column.format,
                    "description": column.description, "priority": column.priority})
            }));
            let fill = |object: &Value| {
                let mut cells = vec![json!(meta_text(object, "name"))];
                cells.extend(columns.iter().map(|column| custom_cell(object, column, options.now)));
                cells
            };
            (headings, objects.iter().map(fill).collect::<Vec<_>>())
        }
        None => {
            let (headings, fill) = layout(served);
            let headings = headings.iter().map(|one| heading(*one)).collect();
            (
                headings,
                objects.iter().map(|object| fill(object, options.now)).collect(),
            )
        }
    };
    let rows: Vec<Value> = objects
        .iter()
        .zip(cells)
        .map(|(object, cells)| {
            let mut row = row(object, &cells, options.include_object);
            if let Some(condition) = pods::completed(served, object) {
                row["conditions"] = json!([condition]);
            }
            row
        })
        .collect();
    let columns = if options.headers { json!(columns) } else { Value::Null };
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns,
        "rows": rows})
}

fn heading((name, kind, format, priority): Heading) -> Value {
    json!({"name": name, "type": kind, "format": format, "description": "", "priority": priority})
}

fn row(object: &Value, cells: &[Value], include: &str) -> Value {
    let shown = match include {
        "None" => return json!({"cells": cells}),
        "Object" => object.clone(),
        _ => json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]}),
    };
    json!({"cells": cells, "object": shown})
}

/// A cell of a custom resource: of several values the first.
fn custom_cell(object: &Value, column: &crate::kinds::Column, now: Timestamp) -> Value {
    let found = jsonpath::find(object, &column.json_path);
    let Some(value) = found.first().filter(|value| !value.is_null()) else {
        return Value::Null;
    };
    match (column.kind.as_str(), value) {
        ("date", Value::String(time)) => json!(since(time, now)),
        ("string", Value::String(text)) => json!(text),
        ("string", other) => json!(other.to_string()),
        ("integer", Value::Number(_)) | ("number", Value::Number(_)) | ("boolean", Value::Bool(_)) => (*value).clone(),
        _ => Value::Null,
    }
}

/// The columns of a kind and how to fill them.
fn layout(served: &Served) -> (&'static [Heading], Fill) {
    if served.custom {
        return (&[NAME, AGE], name_and_age);
    }
    match (&*served.group, &*served.kind) {
        ("", "Pod") => (pods::COLUMNS, pods::cells),
        ("", "Node") => (nodes::COLUMNS, nodes::cells),
        ("apps", "Deployment") => (workloads::DEPLOYMENT, workloads::deployment),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => (workloads::REPLICA_SET, workloads::replica_set),
        ("apps", "StatefulSet") => (workloads::STATEFUL_SET, workloads::stateful_set),
        ("apps", "DaemonSet") => (workloads::DAEMON_SET, workloads::daemon_set),
        ("autoscaling", _) => (workloads::AUTOSCALER, workloads::autoscaler),
        ("policy", "PodDisruptionBudget") => (workloads::BUDGET, workloads::budget),
        ("batch", "Job") => (workloads::JOB, workloads::job),
        _ => configuration::layout(&served.group, &served.kind),
    }
}

fn name_and_age(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

fn name(object: &Value) -> Value {
    json!(meta_text(object, "name"))
}

fn age(object: &Value, now: Timestamp) -> Value {
    json!(since(meta_text(object, "creationTimestamp"), now))
}

/// A text at a pointer, or a substitute.
fn text_at(object: &Value, pointer: &str, substitute: &str) -> String {
    match object.pointer(pointer) {
        Some(Value::String(text)) if !text.is_empty() => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::Bool(flag)) => flag.to_string(),
        _ => substitute.to_owned(),
    }
}

fn number_at(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

fn items<'a>(object: &'a Value, pointer: &str) -> impl Iterator<Item = &'a Value> {
    object.pointer(pointer).and_then(Value::as_array).into_iter().flatten()
}

fn members(object: &Value, pointer: &str) -> usize {
    object
        .pointer(pointer)
        .and_then(Value::as_object)
        .map_or(0, serde_json::Map::len)
}

/// Names and images of a pod template's containers.
fn containers(object: &Value) -> (String, String) {
    let list = |field: &str| {
        let texts: Vec<String> = items(object, "/spec/template/spec/containers")
            .map(|one| text_at(one, field, ""))
            .collect();
        texts.join(",")
    };
    (list("/name"), list("/image"))
}

/// A label selector as text.
fn selector(value: Option<&Value>) -> String {
    let Some(value) = value else { return "<none>".to_owned() };
    let labels = value.get("matchLabels").unwrap_or(value);
    let terms: Vec<String> = labels
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some(format!("{key}={}", value.as_str()?)))
        .collect();
    if terms.is_empty() {
        "<none>".to_owned()
    } else {
        terms.join(",")
    }
}
