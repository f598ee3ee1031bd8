//! The custom kind of generated cases: its definition, with a field of every sort that a schema can tell apart, and the contents
//! of its objects.

use serde_json::{Map, Value, json};

use super::content::{conditions, map, maybe};
use super::dice::Dice;
use crate::corpus::{Case, Step};

/// The fields of an object; with all that it needs when it must be complete.
pub(super) fn gadget(dice: &mut Dice, complete: bool) -> Value {
    let mut spec = Map::new();
    maybe!(
        dice,
        spec,
        if complete { 95 } else { 30 },
        "colour",
        dice.one(&["red", "red", "red", "green", "blue"])
    );
    maybe!(dice, spec, 40, "size", dice.one(&[0, 2, 5, 5, 11]));
    maybe!(dice, spec, 10, "max", dice.one(&[1, 4, 9]));
    maybe!(
        dice,
        spec,
        15,
        "note",
        dice.one(&[json!("short"), json!("much too long"), Value::Null])
    );
    maybe!(dice, spec, 10, "ratio", dice.one(&[json!(1), json!(0.5)]));
    maybe!(
        dice,
        spec,
        10,
        "port",
        dice.one(&[json!(80), json!("http"), json!(true)])
    );
    maybe!(
        dice,
        spec,
        10,
        "since",
        dice.one(&["2026-01-01T00:00:00Z", "yesterday"])
    );
    maybe!(dice, spec, 25, "flags", json!(dice.some(&["x", "y", "z"])));
    maybe!(dice, spec, 40, "parts", {
        let parts = dice.some(&["a", "b", "c"]).into_iter().map(|name| {
            let mut part = Map::from_iter([("name".to_owned(), json!(name))]);
            maybe!(dice, part, 40, "weight", dice.one(&[1, 5, 7]));
            maybe!(dice, part, 30, "tags", json!(dice.some(&["t", "u"])));
            Value::Object(part)
        });
        Value::Array(parts.collect())
    });
    maybe!(dice, spec, 25, "pairs", {
        let pairs = [
            json!({"host": "h"}),
            json!({"host": "h", "port": 90}),
            json!({"host": "g", "port": 80, "path": "/"}),
        ];
        json!(dice.some(&pairs))
    });
    maybe!(
        dice,
        spec,
        20,
        "rows",
        json!(dice.some(&[json!({"v": 1}), json!({"v": 2}), json!({})]))
    );
    maybe!(dice, spec, 20, "words", map(dice, &["k", "l"], &["1", "2"]));
    maybe!(dice, spec, 20, "limits", map(dice, &["k", "l"], &["1", "2"]));
    maybe!(
        dice,
        spec,
        15,
        "free",
        json!({"any": {"thing": dice.one(&[1, 2])}, "list": [1, {"a": dice.one(&["x", "y"])}]})
    );
    maybe!(dice, spec, 20, "nested", {
        let mut nested = Map::new();
        maybe!(dice, nested, 50, "leaf", dice.one(&["x", "y"]));
        maybe!(dice, nested, 50, "count", dice.one(&[1, 3]));
        Value::Object(nested)
    });
    maybe!(dice, spec, 6, "unknown", json!({"field": 1}));
    json!({"spec": spec})
}

pub(super) fn gadget_status(dice: &mut Dice) -> Value {
    let mut status = Map::new();
    // Never empty: a real server refuses the status that is left when an apply takes the last field out of it.
    maybe!(dice, status, 100, "phase", dice.one(&["Running", "Failed"]));
    maybe!(dice, status, 40, "size", dice.one(&[1, 2]));
    maybe!(dice, status, 20, "selector", dice.one(&["app=a", "app=b"]));
    maybe!(dice, status, 40, "conditions", conditions(dice, &["Ready", "Whole"]));
    Value::Object(status)
}

/// What both servers need before the first case: the definition of the custom kind, served.
pub fn definition() -> Case {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let name = "gadgets.generated.example.com";
    let step = |request: String| Step {
        request,
        silent: true,
        ..Step::default()
    };
    let schema = json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "required": ["colour"],
                "x-kubernetes-validations": [
                    {"rule": "!has(self.max) || self.size <= self.max", "message": "size must not exceed max"},
                    {"rule": "!has(oldSelf.port) || has(self.port)", "message": "a port stays", "fieldPath": ".port", "reason": "FieldValueForbidden"},
                ],
                "properties": {
                    "size": {"type": "integer", "format": "int32", "default": 1, "minimum": 0, "maximum": 10},
                    "max": {"type": "integer"},
                    "colour": {"type": "string", "enum": ["red", "green"],
                               "x-kubernetes-validations": [{"rule": "self == oldSelf", "messageExpression": "'colour is ' + oldSelf"}]},
                    "note": {"type": "string", "nullable": true, "maxLength": 8},
                    "ratio": {"type": "number"},
                    "port": {"x-kubernetes-int-or-string": true},
                    "since": {"type": "string", "format": "date-time"},
                    "flags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "parts": {
                        "type": "array", "maxItems": 5, "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "required": ["name"], "properties": {
                            "name": {"type": "string"},
                            "weight": {"type": "integer", "default": 5},
                            "tags": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                        }},
                    },
                    "pairs": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["host", "port"],
                        "items": {"type": "object", "required": ["host"], "properties": {
                            "host": {"type": "string"}, "port": {"type": "integer", "default": 80}, "path": {"type": "string"},
                        }},
                    },
                    "rows": {"type": "array", "x-kubernetes-list-type": "atomic", "items": {"type": "object", "properties": {"v": {"type": "integer", "default": 7}}}},
                    "words": {"type": "object", "additionalProperties": {"type": "string"}},
                    "limits": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                    "nested": {"type": "object", "default": {}, "properties": {
                        "leaf": {"type": "string"}, "count": {"type": "integer", "default": 3},
                    }},
                },
            },
            "status": {"type": "object", "properties": {
                "phase": {"type": "string"}, "size": {"type": "integer"}, "selector": {"type": "string"},
                "conditions": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"],
                    "items": {"type": "object", "required": ["type", "status"], "properties": {
                        "type": {"type": "string"}, "status": {"type": "string"}, "reason": {"type": "string"},
                        "message": {"type": "string"}, "lastTransitionTime": {"type": "string", "format": "date-time"},
                    }},
                },
            }},
        },
    });
    let object = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name},
        "spec": {
            "group": "generated.example.com", "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema},
                "additionalPrinterColumns": [
                    {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
                    {"name": "Parts", "type": "string", "jsonPath": ".spec.parts[*].name"},
                    {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size", "labelSelectorPath": ".status.selector"},
                },
            }],
        },
    });
    Case {
        case: "generated".to_owned(),
        steps: vec![
            Step {
                body: Some(object),
                ..step(format!("POST {definitions}"))
            },
            Step {
                events: Some(10),
                until_condition: Some("Established".to_owned()),
                ..step(format!(
                    "GET {definitions}?watch=true&fieldSelector=metadata.name%3D{name}&timeoutSeconds=30"
                ))
            },
        ],
    }
}
