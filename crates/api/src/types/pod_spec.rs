//! The pod specification inside a clique, kept as JSON data.
//!
//! Coppice passes pod specifications through; it reads a handful of fields and adds a few. Keeping the document itself
//! means that every field of every Kubernetes version survives, and that a cached clique costs what its JSON costs.
//! Typed accessors below read the fields we use; they return nothing for a field of the wrong type (the API server's
//! schema refuses such an object before we see it).

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::parts;

/// A `core/v1` PodSpec as a JSON document.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct PodSpec(pub Map<String, Value>);

impl PodSpec {
    /// The document, for walking.
    pub fn as_map(&self) -> &Map<String, Value> {
        &self.0
    }

    /// A string field of the specification itself; absent, null and empty are the same.
    pub fn text(&self, field: &str) -> Option<&str> {
        self.0
            .get(field)
            .and_then(Value::as_str)
            .filter(|text| !text.is_empty())
    }

    /// A list field of the specification itself; absent and null are empty.
    pub fn list(&self, field: &str) -> &[Value] {
        self.0.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// The scheduler asked for, if any.
    pub fn scheduler_name(&self) -> Option<&str> {
        self.text("schedulerName")
    }

    /// The pods' own priority class, if any.
    pub fn priority_class_name(&self) -> Option<&str> {
        self.text("priorityClassName")
    }

    /// The main containers.
    pub fn containers(&self) -> &[Value] {
        self.list("containers")
    }

    /// The init containers, in their order of execution.
    pub fn init_containers(&self) -> &[Value] {
        self.list("initContainers")
    }
}

impl From<Map<String, Value>> for PodSpec {
    fn from(map: Map<String, Value>) -> Self {
        Self(map)
    }
}

impl JsonSchema for PodSpec {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "PodSpec".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        parts::kubernetes_type("io.k8s.api.core.v1.PodSpec")
    }
}
