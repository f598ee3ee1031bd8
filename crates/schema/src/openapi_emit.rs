//! Emits OpenAPI v3 components: what an API server publishes under `/openapi/v3`.
//!
//! Definitions refer to each other; anonymous types are written in place. Where the source had no description there is
//! none.

use serde_json::{Map, Value, json};

use crate::model::{Cursor, Definitions, MapType, MapValues, Node, Slot, SlotDefault, Type};
use crate::structural_emit::{constraint_words, extension_words, rule_words};

impl Definitions {
    /// The `components.schemas` of a document: everything reachable from the given definitions.
    pub fn openapi_components<'a>(&'a self, roots: impl IntoIterator<Item = &'a str>) -> Map<String, Value> {
        self.closure(roots)
            .into_iter()
            .filter_map(|name| Some((name.to_owned(), Value::Object(self.definition(name)?.openapi()))))
            .collect()
    }
}

impl Cursor<'_> {
    /// This type as an OpenAPI v3 schema with references to named definitions.
    pub fn openapi(self) -> Map<String, Value> {
        let node = self.node();
        let mut out = Map::new();
        if let Some(description) = &node.description {
            out.insert("description".into(), json!(description));
        }
        match node.ty {
            Type::Any => {}
            Type::Quantity => {
                out.insert("oneOf".into(), json!([{"type": "string"}, {"type": "number"}]));
            }
            Type::IntOrString => {
                out.insert("format".into(), json!("int-or-string"));
                out.insert("oneOf".into(), json!([{"type": "integer"}, {"type": "string"}]));
            }
            ty => {
                out.insert("type".into(), json!(ty.name()));
            }
        }
        if let Some(format) = &node.format {
            out.insert("format".into(), json!(format));
        }
        if node.nullable {
            out.insert("nullable".into(), json!(true));
        }
        if !node.fields.is_empty() {
            let fields = node
                .fields
                .iter()
                .map(|field| (field.name.to_string(), self.openapi_slot(&field.slot)));
            out.insert("properties".into(), Value::Object(fields.collect()));
        }
        match &node.values {
            None => {}
            Some(MapValues::Any) => {
                out.insert("additionalProperties".into(), json!(true));
            }
            Some(MapValues::Typed(slot)) => {
                out.insert("additionalProperties".into(), self.openapi_slot(slot));
            }
        }
        if let Some(slot) = &node.items {
            out.insert("items".into(), self.openapi_slot(slot));
        }
        if !node.required.is_empty() {
            out.insert("required".into(), json!(node.required));
        }
        constraint_words(self, &mut out);
        extension_words(node, &mut out);
        rule_words(node, &mut out);
        self.kind_words(node, &mut out);
        out
    }

    fn openapi_slot(self, slot: &Slot) -> Value {
        let target = self.at(slot);
        let mut out = match &target.node().name {
            Some(name) => {
                let reference = json!({"$ref": format!("#/components/schemas/{name}")});
                let alone = slot.default == SlotDefault::None && slot.map == MapType::Unset && slot.patch.is_none();
                if alone {
                    return reference;
                }
                Map::from_iter([("allOf".to_owned(), json!([reference]))])
            }
            None => target.openapi(),
        };
        match &slot.default {
            SlotDefault::None => {}
            SlotDefault::Zero => {
                out.insert("default".into(), target.node().ty.zero());
            }
            SlotDefault::Value(value) => {
                out.insert("default".into(), value.clone());
            }
        }
        if slot.map != MapType::Unset {
            out.insert("x-kubernetes-map-type".into(), json!(slot.map.name()));
        }
        if let Some(patch) = &slot.patch {
            let strategy = patch.strategy();
            if !strategy.is_empty() {
                out.insert("x-kubernetes-patch-strategy".into(), json!(strategy));
            }
            if let Some(key) = &patch.merge_key {
                out.insert("x-kubernetes-patch-merge-key".into(), json!(key));
            }
        }
        Value::Object(out)
    }

    fn kind_words(self, node: &Node, out: &mut Map<String, Value>) {
        if !node.kinds.is_empty() {
            let kinds = node.kinds.iter();
            let list = kinds.map(|gvk| json!({"group": gvk.group, "kind": gvk.kind, "version": gvk.version}));
            out.insert("x-kubernetes-group-version-kind".into(), list.collect());
        }
    }
}

impl Type {
    /// The JSON-schema name; int-or-strings and quantities have none of their own and say `string`.
    pub fn name(self) -> &'static str {
        match self {
            Type::Any => "",
            Type::Object => "object",
            Type::Array => "array",
            Type::String | Type::IntOrString | Type::Quantity => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
        }
    }

    /// The zero value.
    pub fn zero(self) -> Value {
        match self {
            Type::Any => Value::Null,
            Type::Object => json!({}),
            Type::Array => json!([]),
            Type::String | Type::Quantity => json!(""),
            Type::Integer | Type::Number | Type::IntOrString => json!(0),
            Type::Boolean => json!(false),
        }
    }
}

impl MapType {
    pub(crate) fn name(self) -> &'static str {
        match self {
            MapType::Unset => "",
            MapType::Granular => "granular",
            MapType::Atomic => "atomic",
        }
    }
}
