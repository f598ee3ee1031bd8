//! Documents made from the structural schemas of CustomResourceDefinitions.

use serde_json::{Map, Value, json};

/// The schema of a kind's objects, in some set of definitions.
pub fn schema_of(kind: &str, definitions: &[Value]) -> Value {
    let mut found = definitions
        .iter()
        .filter(|definition| definition["spec"]["names"]["kind"] == kind);
    let definition = found
        .next()
        .unwrap_or_else(|| panic!("there is no definition of {kind}"));
    let mut schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"].clone();
    let group = definition["spec"]["group"].as_str().expect("a definition has a group");
    schema["properties"]["apiVersion"]["enum"] = json!([format!("{group}/v1alpha1")]);
    schema["properties"]["kind"]["enum"] = json!([kind]);
    schema["properties"]["metadata"] =
        json!({ "type": "object", "required": ["name"], "properties": { "name": { "type": "string" } } });
    schema["required"] = json!(["apiVersion", "kind", "metadata", "spec"]);
    schema
}

/// A document with every property, every list with one element, every map with one entry.
pub fn full(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("object") => {
            let mut object = Map::new();
            for (name, property) in schema["properties"].as_object().into_iter().flatten() {
                object.insert(name.clone(), full(property));
            }
            if let Some(values) = schema.get("additionalProperties") {
                object.insert("some-key".to_owned(), full(values));
            }
            Value::Object(object)
        }
        Some("array") => json!([full(&schema["items"])]),
        Some("integer") => json!(7),
        Some("number") => json!(0.5),
        Some("boolean") => json!(false),
        _ if schema["x-kubernetes-int-or-string"] == true => json!("1"),
        _ => full_text(schema),
    }
}

fn full_text(schema: &Value) -> Value {
    match (schema["enum"].as_array(), schema["format"].as_str()) {
        (Some(values), _) => values.last().expect("an enum has values").clone(),
        (None, Some("date-time")) => json!("2026-01-02T03:04:05Z"),
        _ => json!("text"),
    }
}

/// All objects of a document that have fields, as JSON pointers. Objects that are maps by their schema are left out: a
/// new key there is data, not an unknown field.
pub fn objects(document: &Value, schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    collect(document, schema, String::new(), &mut found);
    found
}

fn collect(document: &Value, schema: &Value, pointer: String, found: &mut Vec<String>) {
    match document {
        Value::Object(object) => {
            let values = schema.get("additionalProperties");
            for (name, value) in object {
                let inner = schema["properties"].get(name).or(values).unwrap_or(&Value::Null);
                collect(value, inner, format!("{pointer}/{name}"), found);
            }
            if values.is_none() {
                found.push(pointer);
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                collect(value, &schema["items"], format!("{pointer}/{index}"), found);
            }
        }
        _ => {}
    }
}
