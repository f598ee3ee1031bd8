//! The form that objects of built-in kinds have after they went through Go's types.
//!
//! A real API server decodes every object into a struct and encodes it again, so what it stores, shows and keeps account of
//! is not quite what was written: empty lists and maps disappear, `false` does where the field is no pointer, and fields that
//! are always written appear. Which is which cannot be told from a schema; [`crate::go_types`] knows. Decides on trees, knows
//! nothing about requests, and leaves members alone that the types do not have (pruning is done elsewhere).

use serde_json::{Map, Value};

use crate::go_time::TimeFormat;
use crate::go_types::{Empty, Field, Table, Type};

/// The form of one kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    message: Option<usize>,
}

impl Form {
    /// The form of a kind; of one that is not built in, that of its metadata.
    pub(crate) fn of(api_version: &str, kind: &str) -> Self {
        let message = Table::shared().kind(api_version, kind);
        Self { message }
    }

    /// Brings an object into its form.
    pub(crate) fn bring(self, object: &mut Value) {
        let Some(members) = object.as_object_mut() else { return };
        match self.message {
            Some(message) => bring_message(Table::shared(), message, members),
            None => bring_metadata(members),
        }
    }

    /// What is wrong with the times of an object, if anything.
    pub(crate) fn time_problem(self, object: &Value) -> Option<String> {
        time_problem(Table::shared(), &Type::Message(self.message?), object)
    }
}

/// Brings the metadata of an object of any kind into its form.
pub(crate) fn bring_metadata(members: &mut Map<String, Value>) {
    let table = Table::shared();
    if let Some(message) = table.place_of("meta.v1.ObjectMeta")
        && let Some(metadata) = members.get_mut("metadata").and_then(Value::as_object_mut)
    {
        bring_message(table, message, metadata);
    }
}

fn bring_message(table: &Table, message: usize, members: &mut Map<String, Value>) {
    let fields = table.fields(message);
    let (mut at, mut to_remove, mut to_add) = (0, false, false);
    // Both are sorted, so one walk finds what belongs together.
    for (name, value) in &mut *members {
        while fields.get(at).is_some_and(|field| *field.name < **name) {
            to_add |= is_written_when_absent(&fields[at]);
            at += 1;
        }
        if let Some(field) = fields.get(at).filter(|field| *field.name == **name) {
            bring_value(table, &field.content, value);
            to_remove |= is_left_out(field, value);
            to_add |= value.is_null() && is_written_when_absent(field);
            at += 1;
        }
    }
    to_add |= fields[at.min(fields.len())..].iter().any(is_written_when_absent);
    if to_remove {
        members.retain(|name, value| {
            let found = fields.binary_search_by(|field| (*field.name).cmp(name));
            found.map_or(true, |at| !is_left_out(&fields[at], value))
        });
    }
    if to_add {
        for field in fields.iter().filter(|field| is_written_when_absent(field)) {
            if !members.contains_key(&*field.name) {
                members.insert(field.name.to_string(), absent(table, field));
            }
        }
    }
}

fn bring_value(table: &Table, content: &Type, value: &mut Value) {
    match (content, value) {
        (Type::Message(message), Value::Object(members)) => bring_message(table, *message, members),
        (Type::List(item) | Type::Items(item), Value::Array(items)) if holds_messages(item) => {
            items.iter_mut().for_each(|value| bring_value(table, item, value));
        }
        (Type::Map(item), Value::Object(members)) if holds_messages(item) => {
            members.values_mut().for_each(|value| bring_value(table, item, value));
        }
        (Type::Time, Value::String(text)) => rewrite(TimeFormat::Seconds, text),
        (Type::MicroTime, Value::String(text)) => rewrite(TimeFormat::Micros, text),
        _ => {}
    }
}

fn rewrite(format: TimeFormat, text: &mut String) {
    if let Some(rewritten) = format.rewritten(text) {
        *text = rewritten;
    }
}

/// What is wrong with the first text that should be a time and is none.
fn time_problem(table: &Table, content: &Type, value: &Value) -> Option<String> {
    match (content, value) {
        (Type::Message(message), Value::Object(members)) => {
            let fields = table.fields(*message);
            members.iter().find_map(|(name, value)| {
                let at = fields.binary_search_by(|field| (*field.name).cmp(name)).ok()?;
                time_problem(table, &fields[at].content, value)
            })
        }
        (Type::List(item) | Type::Items(item), Value::Array(items)) if holds_messages(item) => {
            items.iter().find_map(|value| time_problem(table, item, value))
        }
        (Type::Map(item), Value::Object(members)) if holds_messages(item) => {
            members.values().find_map(|value| time_problem(table, item, value))
        }
        (Type::Time, Value::String(text)) => TimeFormat::Seconds.problem(text),
        (Type::MicroTime, Value::String(text)) => TimeFormat::Micros.problem(text),
        _ => None,
    }
}

fn holds_messages(content: &Type) -> bool {
    match content {
        Type::Message(_) => true,
        Type::List(item) | Type::Items(item) | Type::Map(item) => holds_messages(item),
        _ => false,
    }
}

/// Whether Go would not write this value: it has none, or it is empty and the field says so.
fn is_left_out(field: &Field, value: &Value) -> bool {
    if value.is_null() {
        return !(is_written_when_absent(field) && writes_null(field));
    }
    match field.empty {
        Empty::Optional | Empty::Nullable | Empty::Always => false,
        Empty::Omitted => match &field.content {
            Type::String | Type::Bytes | Type::Bool | Type::Int | Type::Double | Type::List(_) | Type::Map(_) => {
                is_empty(value)
            }
            _ => false,
        },
        Empty::OmittedEvenAsMessage => is_zero(value),
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Object(members) => members.values().all(is_zero),
        other => is_empty(other),
    }
}

fn is_written_when_absent(field: &Field) -> bool {
    match field.empty {
        Empty::Always | Empty::Nullable => true,
        Empty::Optional | Empty::OmittedEvenAsMessage => false,
        // Go leaves out no structs, and these are structs that write themselves.
        Empty::Omitted => matches!(
            field.content,
            Type::Message(_) | Type::Time | Type::MicroTime | Type::Quantity | Type::IntOrString | Type::Json
        ),
    }
}

fn writes_null(field: &Field) -> bool {
    field.empty == Empty::Nullable || matches!(absent_scalar(&field.content), Some(Value::Null))
}

fn absent(table: &Table, field: &Field) -> Value {
    match (&field.content, field.empty) {
        (_, Empty::Nullable) => Value::Null,
        (Type::Message(message), _) => {
            let mut members = Map::new();
            bring_message(table, *message, &mut members);
            Value::Object(members)
        }
        (content, _) => absent_scalar(content).unwrap_or_default(),
    }
}

/// What Go writes for a value that was never set; nothing for a message.
fn absent_scalar(content: &Type) -> Option<Value> {
    Some(match content {
        Type::String => "".into(),
        Type::Bool => false.into(),
        Type::Int | Type::Double | Type::IntOrString => 0.into(),
        Type::Quantity => "0".into(),
        Type::Message(_) => return None,
        Type::Bytes | Type::Time | Type::MicroTime | Type::Json => Value::Null,
        Type::List(_) | Type::Map(_) | Type::Items(_) | Type::Either { .. } => Value::Null,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[track_caller]
    fn brought(api_version: &str, kind: &str, mut object: Value) -> Value {
        let form = Form::of(api_version, kind);
        form.bring(&mut object);
        let once = object.clone();
        form.bring(&mut object);
        assert_eq!(object, once, "the form of a form is the same");
        object
    }

    #[test]
    fn what_is_empty_goes_and_what_is_always_written_comes() {
        let object = json!({
            "metadata": {"labels": {}, "annotations": {"a": ""}, "finalizers": [], "generation": 0},
            "spec": {
                "containers": [{"name": "c", "tty": false, "env": [], "livenessProbe": {"exec": {}}}],
                "schedulingGates": [], "hostNetwork": false, "automountServiceAccountToken": false, "nodeSelector": {},
                "volumes": [{"name": "v", "emptyDir": {}}],
            },
            "status": {"conditions": [{"type": "Ready"}], "containerStatuses": [{"name": "c"}]},
            "unknown": {},
        });
        assert_eq!(
            brought("v1", "Pod", object),
            json!({
                "metadata": {"annotations": {"a": ""}},
                "spec": {
                    "containers": [{"name": "c", "resources": {}, "livenessProbe": {"exec": {}}}],
                    "automountServiceAccountToken": false,
                    "volumes": [{"name": "v", "emptyDir": {}}],
                },
                "status": {
                    "conditions": [{"type": "Ready", "status": "", "lastProbeTime": null, "lastTransitionTime": null}],
                    "containerStatuses": [
                        {"name": "c", "ready": false, "restartCount": 0, "image": "", "imageID": "", "state": {}, "lastState": {}}
                    ],
                },
                "unknown": {},
            })
        );
    }

    #[test]
    fn nulls_become_what_go_writes_for_absent_values() {
        let object =
            json!({"metadata": {"labels": null}, "spec": {"containers": null, "volumes": null, "hostname": null}});
        assert_eq!(
            brought("v1", "Pod", object),
            json!({"metadata": {}, "spec": {"containers": null}, "status": {}})
        );
    }

    #[test]
    fn of_other_kinds_the_metadata_has_the_form() {
        let object = json!({"metadata": {"labels": {}, "name": "a"}, "spec": {"list": [], "off": false}});
        assert_eq!(
            brought("example.com/v1", "Widget", object),
            json!({"metadata": {"name": "a"}, "spec": {"list": [], "off": false}})
        );
    }

    #[test]
    fn times_are_found_wherever_they_are() {
        let lease = |time: &str| json!({"metadata": {}, "spec": {"renewTime": time}});
        let form = Form::of("coordination.k8s.io/v1", "Lease");
        assert_eq!(form.time_problem(&lease("2026-01-01T00:00:00.000000Z")), None);
        assert!(form.time_problem(&lease("now")).is_some());
        let pod = json!({"status": {"conditions": [{"lastTransitionTime": "now"}]}});
        assert!(Form::of("v1", "Pod").time_problem(&pod).is_some());
        assert_eq!(
            brought(
                "coordination.k8s.io/v1",
                "Lease",
                lease("2026-01-01T02:00:00.000000+02:00")
            ),
            lease("2026-01-01T00:00:00.000000Z")
        );
    }

    #[test]
    fn an_empty_claim_has_no_requests() {
        assert_eq!(
            brought("resource.k8s.io/v1", "ResourceClaim", json!({"metadata": {}})),
            json!({"metadata": {}, "spec": {"devices": {"requests": null}}, "status": {}})
        );
    }
}
