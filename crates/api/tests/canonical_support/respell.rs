//! Other spellings of a pod spec that mean the same.

use coppice_schema::{Cursor, MapValues, Type};
use serde_json::{Map, Value, json};

use super::generate::Choices;
use super::{AMOUNTS, DEFAULTS, IMAGES, QUIET, parse, set_keys, short_name};

/// What the meaning of a field may depend on besides its object.
#[derive(Clone, Copy)]
struct Around {
    host_network: bool,
    ephemeral: bool,
    in_container: bool,
}

/// Another spelling of a whole pod spec.
pub(crate) fn pod_spec(cursor: Cursor<'_>, spec: &Value, choices: &mut Choices) -> Value {
    let host_network = spec.get("hostNetwork") == Some(&Value::Bool(true));
    value(
        cursor,
        spec,
        Around {
            host_network,
            ephemeral: false,
            in_container: false,
        },
        choices,
    )
}

fn value(cursor: Cursor<'_>, from: &Value, around: Around, choices: &mut Choices) -> Value {
    match (cursor.node().ty, from) {
        (Type::Quantity, amount) => respelled_amount(amount, choices),
        (Type::Object, Value::Object(from)) if !cursor.node().fields.is_empty() => {
            object(cursor, from, around, choices)
        }
        (Type::Object, Value::Object(from)) => match &cursor.node().values {
            Some(MapValues::Typed(slot)) => {
                let entry = |(name, from): (&String, &Value), choices: &mut Choices| {
                    (name.clone(), value(cursor.at(slot), from, around, choices))
                };
                Value::Object(from.iter().rev().map(|from| entry(from, choices)).collect())
            }
            _ => Value::Object(from.clone()),
        },
        (_, other) => other.clone(),
    }
}

/// Another spelling of one of the known amounts.
fn respelled_amount(amount: &Value, choices: &mut Choices) -> Value {
    let group = AMOUNTS
        .iter()
        .find(|group| group.iter().any(|spelling| parse(spelling) == *amount));
    group.map_or_else(|| amount.clone(), |group| parse(choices.one::<&str>(group)))
}

fn object(cursor: Cursor<'_>, from: &Map<String, Value>, around: Around, choices: &mut Choices) -> Value {
    let definition = short_name(cursor);
    let mut around = around;
    match definition {
        "Container" => around.in_container = true,
        "EphemeralContainer" => (around.in_container, around.ephemeral) = (true, true),
        _ => {}
    }
    let mut to = Map::new();
    for (name, from) in from.iter().rev() {
        let Some(field) = cursor.field(name) else { continue };
        let spelled = match (field.items(), from) {
            (Some(items), Value::Array(elements)) => {
                let mut elements: Vec<_> = elements
                    .iter()
                    .map(|from| value(items, from, around, choices))
                    .collect();
                if set_keys(definition, name).is_some() {
                    choices.shuffle(&mut elements);
                }
                Value::Array(elements)
            }
            _ => value(field, from, around, choices),
        };
        to.insert(name.clone(), spelled);
    }
    conditional_defaults(definition, &mut to, around, choices);
    for (table, share) in [(DEFAULTS, 50), (QUIET, 30)] {
        for (_, name, text) in table.iter().filter(|(owner, ..)| *owner == definition) {
            if !to.contains_key(*name) && choices.percent(share) {
                to.insert((*name).to_owned(), parse(text));
            }
        }
    }
    for field in &cursor.node().fields {
        if !to.contains_key(&*field.name) && choices.percent(10) {
            let is_list = cursor.at(&field.slot).node().ty == Type::Array;
            to.insert(
                field.name.to_string(),
                if is_list && choices.percent(50) {
                    json!([])
                } else {
                    Value::Null
                },
            );
        }
    }
    Value::Object(to)
}

fn conditional_defaults(definition: &str, object: &mut Map<String, Value>, around: Around, choices: &mut Choices) {
    let mut fill = |object: &mut Map<String, Value>, name: &str, default: Option<Value>| {
        if let Some(default) = default.filter(|_| !object.contains_key(name) && choices.percent(60)) {
            object.insert(name.to_owned(), default);
        }
    };
    let policy = |image: Option<&Value>| {
        let image = image.and_then(Value::as_str);
        let known = IMAGES.iter().find(|(known, _)| Some(*known) == image);
        Some(json!(known.map_or("IfNotPresent", |(_, policy)| policy)))
    };
    match definition {
        "Container" | "EphemeralContainer" => {
            let default = policy(object.get("image"));
            fill(object, "imagePullPolicy", default);
        }
        "ImageVolumeSource" => {
            let default = policy(object.get("reference"));
            fill(object, "pullPolicy", default);
        }
        "ContainerPort" if around.host_network && !around.ephemeral => {
            let default = object.get("containerPort").cloned();
            fill(object, "hostPort", default);
        }
        "Volume" if object.keys().all(|name| name == "name") => fill(object, "emptyDir", Some(json!({"medium": ""}))),
        "PodSpec" => {
            let default = object.get("serviceAccountName").cloned();
            fill(object, "serviceAccount", default);
            if object.contains_key("serviceAccount") && choices.percent(30) {
                object.remove("serviceAccountName");
            }
        }
        "ResourceRequirements" if around.in_container && !around.ephemeral => {
            let Some(limits) = object.get("limits").and_then(Value::as_object).cloned() else {
                return;
            };
            let mut requests = object
                .get("requests")
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default();
            for (name, limit) in &limits {
                let spelled = respelled_amount(limit, choices);
                if !requests.contains_key(name) && choices.percent(50) {
                    requests.insert(name.clone(), spelled);
                }
            }
            object.insert("requests".to_owned(), Value::Object(requests));
        }
        _ => {}
    }
}
