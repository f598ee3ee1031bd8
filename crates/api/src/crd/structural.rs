//! From the derived JSON schema of a Rust type to a structural schema as a CustomResourceDefinition wants it.
//!
//! Structural schemas have no references, no null types and no unions, so those are resolved here. What serde knows
//! about defaults and required fields is about decoding, not about the API, and is dropped; the API's own facts are in
//! attributes of the types: `x-required`, `x-default` and `x-without` (see `api/src/types`). A keyword that is not
//! known here is a programming error and panics; the unit tests build every schema.

use coppice_schema::Definitions;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

use crate::types::parts::{DEFAULT, KUBERNETES_TYPE, REQUIRED, WITHOUT};

/// Keywords that mean the same in both worlds and hold no schema.
const KEPT: &[&str] = &[
    "description",
    "maxLength",
    "maximum",
    "minItems",
    "minLength",
    "minimum",
    "pattern",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-validations",
];

/// Facts of the generator, of decoding, or of the property's place in its object.
const DROPPED: &[&str] = &["$schema", "default", "required", "title", REQUIRED];

/// The structural schema of a type; Kubernetes' own types come from `kubernetes`.
pub(super) fn of<T: JsonSchema>(kubernetes: &Definitions) -> Value {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let mut root = object(generator.into_root_schema_for::<T>().to_value());
    let types = root.remove("$defs").map(object).unwrap_or_default();
    Converter { types, kubernetes }.node(root)
}

struct Converter<'a> {
    types: Map<String, Value>,
    kubernetes: &'a Definitions,
}

impl Converter<'_> {
    fn node(&self, schema: Map<String, Value>) -> Value {
        let mut node = Map::new();
        let mut without = Vec::new();
        for (keyword, value) in self.resolve(schema) {
            match keyword.as_str() {
                "type" => drop(node.insert(keyword, without_null(value))),
                // Schemars offers null beside the values of an optional enum.
                "enum" => drop(node.insert(
                    keyword,
                    list(value).into_iter().filter(|value| !value.is_null()).collect(),
                )),
                // An encoding, not a restriction, and not in the contract.
                "format" if value == "double" => {}
                "format" => drop(node.insert(keyword, value)),
                "items" | "additionalProperties" => drop(node.insert(keyword, self.node(object(value)))),
                "properties" => self.properties(object(value), &mut node),
                DEFAULT => drop(node.insert("default".to_owned(), value)),
                WITHOUT => without = list(value),
                KUBERNETES_TYPE => node.extend(self.kubernetes_type(&value)),
                known if KEPT.contains(&known) => drop(node.insert(keyword, value)),
                known if DROPPED.contains(&known) => {}
                unknown => panic!("the schema keyword {unknown} has no structural form here"),
            }
        }
        let mut node = Value::Object(node);
        for path in &without {
            remove_property(&mut node, path.as_str().expect("x-without lists property paths"));
        }
        node
    }

    fn properties(&self, properties: Map<String, Value>, node: &mut Map<String, Value>) {
        let is_required = |schema: &Value| schema.get(REQUIRED) == Some(&Value::Bool(true));
        let mut required: Vec<&String> = properties
            .iter()
            .filter(|(_, schema)| is_required(schema))
            .map(|(name, _)| name)
            .collect();
        required.sort_unstable();
        if !required.is_empty() {
            node.insert("required".to_owned(), required.into_iter().cloned().collect());
        }
        let converted = properties
            .into_iter()
            .map(|(name, schema)| (name, self.node(object(schema))));
        node.insert("properties".to_owned(), Value::Object(converted.collect()));
    }

    /// Replaces a reference, or a union of one schema with null, by what it stands for. What is said at the place of use
    /// wins over what the type says of itself.
    fn resolve(&self, mut schema: Map<String, Value>) -> Map<String, Value> {
        let target = if let Some(reference) = schema.remove("$ref") {
            let name = reference.as_str().and_then(|text| text.strip_prefix("#/$defs/"));
            let found = name.and_then(|name| self.types.get(name)).cloned();
            found.unwrap_or_else(|| panic!("{reference} is not among the generated types"))
        } else if let Some(alternatives) = schema.remove("anyOf") {
            let is_null = |schema: &Value| schema.get("type").is_some_and(|name| name == "null");
            let mut rest = list(alternatives).into_iter().filter(|schema| !is_null(schema));
            match (rest.next(), rest.next()) {
                (Some(only), None) => only,
                _ => panic!("only a union with null can be written as a structural schema"),
            }
        } else {
            return schema;
        };
        let mut resolved = self.resolve(object(target));
        resolved.extend(schema);
        resolved
    }

    fn kubernetes_type(&self, name: &Value) -> Map<String, Value> {
        let name = name.as_str().unwrap_or_default();
        let definition = self.kubernetes.definition(name);
        let definition = definition.unwrap_or_else(|| panic!("the Kubernetes type {name} is not in the schema facts"));
        let mut schema = definition.to_structural();
        sort_required(&mut schema);
        object(schema)
    }
}

fn without_null(kind: Value) -> Value {
    let Value::Array(kinds) = kind else { return kind };
    let mut rest = kinds.into_iter().filter(|kind| kind != "null");
    match (rest.next(), rest.next()) {
        (Some(only), None) => only,
        _ => panic!("a structural schema has one type"),
    }
}

fn sort_required(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            if let Some(Value::Array(required)) = map.get_mut("required") {
                required.sort_unstable_by(|left, right| left.as_str().cmp(&right.as_str()));
            }
            map.values_mut().for_each(sort_required);
        }
        Value::Array(list) => list.iter_mut().for_each(sort_required),
        _ => {}
    }
}

/// Removes a property, given as `outer.inner`, from an object schema or from the items of a list of objects.
fn remove_property(schema: &mut Value, path: &str) {
    let object = match schema.get_mut("items") {
        Some(items) => items,
        None => schema,
    };
    let properties = object.get_mut("properties").and_then(Value::as_object_mut);
    let properties = properties.unwrap_or_else(|| panic!("{path} is not below an object"));
    match path.split_once('.') {
        Some((outer, inner)) => match properties.get_mut(outer) {
            Some(schema) => remove_property(schema, inner),
            None => panic!("there is no property {outer} to remove {inner} from"),
        },
        None => assert!(
            properties.remove(path).is_some(),
            "there is no property {path} to remove"
        ),
    }
}

fn object(schema: Value) -> Map<String, Value> {
    match schema {
        Value::Object(map) => map,
        other => panic!("a schema is an object, not {other}"),
    }
}

fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(list) => list,
        other => panic!("expected a list, not {other}"),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use schemars::Schema;
    use serde_json::json;

    use super::*;

    /// An inner type.
    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Inner {
        #[schemars(extend("x-required" = true, "x-default" = 3))]
        count: i32,
        gone: Option<f64>,
    }

    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Outer {
        /// Said at the place of use.
        #[schemars(extend("x-without" = ["gone"]))]
        one: Option<Inner>,
        #[schemars(extend("x-without" = ["gone"]))]
        many: Vec<Inner>,
        both: Inner,
        numbers: BTreeMap<String, i64>,
    }

    #[test]
    fn references_unions_and_markers_are_resolved() {
        let inner = json!({
            "type": "object",
            "description": "An inner type.",
            "required": ["count"],
            "properties": { "count": { "type": "integer", "format": "int32", "default": 3 } },
        });
        let mut one = inner.clone();
        one["description"] = json!("Said at the place of use.");
        let mut both = inner.clone();
        both["properties"]["gone"] = json!({ "type": "number" });
        let expected = json!({
            "type": "object",
            "properties": {
                "one": one,
                "many": { "type": "array", "items": inner },
                "both": both,
                "numbers": { "type": "object", "additionalProperties": { "type": "integer", "format": "int64" } },
            },
        });
        assert_eq!(of::<Outer>(&Definitions::default()), expected);
    }

    #[derive(JsonSchema)]
    #[allow(dead_code)]
    struct Strange(#[schemars(schema_with = "union")] i32);

    fn union(_: &mut schemars::SchemaGenerator) -> Schema {
        schemars::json_schema!({ "anyOf": [{ "type": "string" }, { "type": "integer" }] })
    }

    #[test]
    #[should_panic(expected = "only a union with null")]
    fn what_has_no_structural_form_is_refused() {
        of::<Strange>(&Definitions::default());
    }

    #[test]
    #[should_panic(expected = "is not in the schema facts")]
    fn an_unknown_kubernetes_type_is_refused() {
        of::<crate::types::PodCliqueSpec>(&Definitions::default());
    }
}
