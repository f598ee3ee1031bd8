//! Defaulting: fills in true defaults, and removes nulls that mean "absent".
//!
//! A null is a value only where the schema says nullable; elsewhere it is replaced by the default or, without one,
//! removed. Zero defaults are never filled in.

use serde_json::{Map, Value};

use crate::model::{Cursor, Slot, SlotDefault};

/// Removes nulls from fields that are not nullable and have no default. Run it before [`apply_defaults`].
pub fn drop_nulls(at: Cursor<'_>, value: &mut Value) {
    match value {
        Value::Object(map) => {
            // Two steps, because removing walks a map more slowly, and there is rarely anything to remove.
            let mut has_nulls = false;
            for (name, child) in &mut *map {
                match child {
                    Value::Null => has_nulls = true,
                    Value::Object(_) | Value::Array(_) => {
                        if let Some(inner) = at.field(name) {
                            drop_nulls(inner, child);
                        }
                    }
                    _ => {}
                }
            }
            if has_nulls {
                map.retain(|name, child| {
                    let slot = at.field_slot(name).filter(|_| child.is_null());
                    slot.is_none_or(|slot| keeps_null(at, slot) || slot_default(slot).is_some())
                });
            }
        }
        Value::Array(list) => {
            if let Some(items) = at.items() {
                for element in list {
                    drop_nulls(items, element);
                }
            }
        }
        _ => {}
    }
}

/// Fills in defaults, also inside the defaults themselves.
pub fn apply_defaults(at: Cursor<'_>, value: &mut Value) {
    if !at.has_defaults() {
        return;
    }
    match value {
        Value::Object(map) => default_object(at, map),
        Value::Array(list) => {
            let Some(slot) = &at.node().items else { return };
            for element in list {
                default_null(at, slot, element);
                apply_defaults(at.at(slot), element);
            }
        }
        _ => {}
    }
}

fn default_object(at: Cursor<'_>, map: &mut Map<String, Value>) {
    let node = at.node();
    for field in &node.fields {
        let Some(default) = slot_default(&field.slot) else {
            continue;
        };
        match map.get_mut(&*field.name) {
            None => {
                map.insert(field.name.to_string(), default.clone());
            }
            Some(found) if found.is_null() && !keeps_null(at, &field.slot) => *found = default.clone(),
            Some(_) => {}
        }
    }
    for (name, child) in map {
        if let Some(field) = node.field(name) {
            apply_defaults(at.at(&field.slot), child);
        } else if let Some(slot) = at.field_slot(name) {
            default_null(at, slot, child);
            apply_defaults(at.at(slot), child);
        }
    }
}

fn default_null(at: Cursor<'_>, slot: &Slot, value: &mut Value) {
    if value.is_null() && !keeps_null(at, slot) {
        *value = slot_default(slot).cloned().unwrap_or(Value::Null);
    }
}

pub(crate) fn slot_default(slot: &Slot) -> Option<&Value> {
    match &slot.default {
        SlotDefault::Value(value) if !value.is_null() => Some(value),
        _ => None,
    }
}

fn keeps_null(at: Cursor<'_>, slot: &Slot) -> bool {
    at.at(slot).node().nullable
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::assets::kubernetes;
    use crate::model::GroupVersionKind;

    fn pod() -> Cursor<'static> {
        kubernetes()
            .kind(&GroupVersionKind::new("", "v1", "Pod"))
            .expect("a built-in kind")
    }

    #[test]
    fn built_in_defaults_are_those_the_server_writes() {
        let mut value = json!({"spec": {
            "imagePullSecrets": [{}],
            "containers": [{"name": "c", "ports": [{"containerPort": 1}], "livenessProbe": {"grpc": {"port": 1}}}]
        }});
        apply_defaults(pod(), &mut value);
        assert_eq!(
            value,
            json!({"spec": {
                "imagePullSecrets": [{}],
                "containers": [{"name": "c", "ports": [{"containerPort": 1, "protocol": "TCP"}],
                    "livenessProbe": {"grpc": {"port": 1, "service": ""}}}]
            }})
        );
    }
}
