//! Random documents of a structural schema, for property tests.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Random documents: optional properties come and go, lists and maps have one to three elements.
pub fn random(schema: &Value) -> BoxedStrategy<Value> {
    match schema["type"].as_str() {
        Some("object") => random_object(schema),
        Some("array") => prop::collection::vec(random(&schema["items"]), 1..3)
            .prop_map(Value::from)
            .boxed(),
        Some("integer") => (0..1000i32).prop_map(Value::from).boxed(),
        Some("number") => (0..1000i32).prop_map(|number| json!(f64::from(number) / 8.0)).boxed(),
        Some("boolean") => any::<bool>().prop_map(Value::from).boxed(),
        _ if schema["enum"].is_array() => {
            prop::sample::select(schema["enum"].as_array().cloned().unwrap_or_default()).boxed()
        }
        _ if schema["format"] == "date-time" => (0..60u8)
            .prop_map(|second| json!(format!("2026-01-02T03:04:{second:02}Z")))
            .boxed(),
        _ => "[a-z]{1,5}".prop_map(Value::from).boxed(),
    }
}

fn random_object(schema: &Value) -> BoxedStrategy<Value> {
    let required = schema["required"].as_array().cloned().unwrap_or_default();
    let mut object = Just(Map::new()).boxed();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let property = if required.iter().any(|required| required == name) {
            random(property).prop_map(Some).boxed()
        } else {
            prop::option::weighted(0.3, random(property)).boxed()
        };
        let name = name.clone();
        object = (object, property)
            .prop_map(move |(mut object, value)| {
                object.extend(value.map(|value| (name.clone(), value)));
                object
            })
            .boxed();
    }
    if let Some(values) = schema.get("additionalProperties") {
        let entries = prop::collection::btree_map("[a-z]{1,5}", random(values), 1..3);
        object = entries.prop_map(|entries| entries.into_iter().collect()).boxed();
    }
    object.prop_map(Value::Object).boxed()
}
