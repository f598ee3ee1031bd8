//! Tables: lists as people read them.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::registry::Served;
use crate::tree::meta_text;

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

/// The table of these objects.
pub(crate) fn table(_served: &Served, objects: &[Value], metadata: &Value, options: &TableOptions<'_>) -> Value {
    let _ = (options.now, options.include_object);
    let rows: Vec<Value> = objects
        .iter()
        .map(|object| {
            json!({"cells": [meta_text(object, "name"), meta_text(object, "creationTimestamp")],
                "object": {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": object["metadata"]}})
        })
        .collect();
    let columns = if options.headers {
        json!([{"name": "Name", "type": "string", "format": "name", "description": "", "priority": 0},
            {"name": "Created At", "type": "date", "format": "", "description": "", "priority": 0}])
    } else {
        Value::Null
    };
    json!({"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata, "columnDefinitions": columns, "rows": rows})
}
