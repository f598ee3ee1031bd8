//! Environment variables that tell a pod where it stands.
//!
//! Ours come first, so that the user's may refer to them; a variable of the user's with one of our names is dropped.

use serde_json::{Map, Value, json};

/// A plain variable.
pub(crate) fn variable(name: &str, value: impl Into<String>) -> Value {
    json!({"name": name, "value": value.into()})
}

/// A variable that takes its value from a label of the pod.
pub(crate) fn from_label(name: &str, label: &str) -> Value {
    json!({"name": name, "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": format!("metadata.labels['{label}']")}}})
}

/// Puts variables before those of every container and init container of a pod specification.
pub(crate) fn prepend(spec: &mut Map<String, Value>, variables: &[Value]) {
    for_each_container(spec, |container| {
        let ours = |entry: &Value| variables.iter().any(|variable| variable["name"] == entry["name"]);
        let theirs = match container.remove("env") {
            Some(Value::Array(entries)) => entries,
            _ => Vec::new(),
        };
        let merged = variables
            .iter()
            .cloned()
            .chain(theirs.into_iter().filter(|entry| !ours(entry)))
            .collect();
        container.insert("env".to_owned(), Value::Array(merged));
    });
}

/// Calls a function for every init container and container.
pub(crate) fn for_each_container(spec: &mut Map<String, Value>, mut change: impl FnMut(&mut Map<String, Value>)) {
    for list in ["initContainers", "containers"] {
        if let Some(Value::Array(containers)) = spec.get_mut(list) {
            containers
                .iter_mut()
                .filter_map(Value::as_object_mut)
                .for_each(&mut change);
        }
    }
}
