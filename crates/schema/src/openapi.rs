//! Reads OpenAPI v3 schemas: the `components.schemas` of a published document.
//!
//! Knows the shapes Kubernetes publishes (`allOf` with one `$ref` beside a default, quantities and int-or-strings as
//! `oneOf`). Descriptions and unions are left behind. It never follows references outside the document.

use serde_json::{Map, Value};

use crate::SchemaError;
use crate::model::{
    Definitions, Field, GroupVersionKind, ListType, MapType, MapValues, Node, NodeId, PatchFacts, Slot, SlotDefault,
    Type,
};

const REFERENCE_PREFIX: &str = "#/components/schemas/";

impl Definitions {
    /// Adds the schemas of an OpenAPI v3 document (the object under `components.schemas`). A definition that is
    /// already in the set is kept as it is, apart from additional kinds.
    pub fn add_openapi(&mut self, schemas: &Map<String, Value>) -> Result<(), SchemaError> {
        for (name, schema) in schemas {
            let known = self.id(name).is_some_and(|id| self.is_defined(id));
            let id = self.declare(name);
            if known {
                self.add_kinds(id, kinds(schema));
                continue;
            }
            let node = self.openapi_node(schema).map_err(|error| error.inside(name))?;
            self.define(id, node);
        }
        Ok(())
    }

    /// Says that the default of a field is its zero value and is published only, never filled in.
    pub fn publish_only(&mut self, definition: &str, field: &str) -> Result<(), SchemaError> {
        let missing = || SchemaError::new(format!("no zero default at {field}")).inside(definition);
        let id = self.id(definition).ok_or_else(missing)?;
        self.below.take();
        let known = self.nodes[id.0 as usize].fields.get_mut(field);
        let slot = known.map(|known| &mut known.slot);
        let slot = slot.filter(|slot| matches!(&slot.default, SlotDefault::Value(value) if is_zero(value)));
        slot.ok_or_else(missing)?.default = SlotDefault::Zero;
        Ok(())
    }

    fn is_defined(&self, id: NodeId) -> bool {
        let node = self.node(id);
        node.ty != Type::Any || node.preserve_unknown
    }

    fn add_kinds(&mut self, id: NodeId, kinds: Vec<GroupVersionKind>) {
        for kind in kinds {
            if self.kinds.insert(kind.clone(), id).is_none() {
                self.nodes[id.0 as usize].kinds.push(kind);
            }
        }
    }

    fn openapi_slot(&mut self, schema: &Value, required: bool) -> Result<Slot, SchemaError> {
        let reference = schema.get("$ref").or_else(|| schema.get("allOf")?.get(0)?.get("$ref"));
        let node = match reference.and_then(Value::as_str) {
            Some(reference) => {
                let name = reference.strip_prefix(REFERENCE_PREFIX);
                self.declare(name.ok_or_else(|| SchemaError::new(format!("unsupported reference {reference}")))?)
            }
            None => {
                let node = self.openapi_node(schema)?;
                self.push(node)
            }
        };
        let default = match schema.get("default") {
            None => SlotDefault::None,
            // The generator publishes the zero value for every field that is always written; the others are defaults
            // that somebody chose.
            Some(value) if value.as_object().is_some_and(Map::is_empty) || (required && is_zero(value)) => {
                SlotDefault::Zero
            }
            Some(value) => SlotDefault::Value(value.clone()),
        };
        let map = if reference.is_some() {
            map_type(object(schema)?)?
        } else {
            MapType::Unset
        };
        Ok(Slot {
            node,
            default,
            map,
            patch: patch_facts(schema)?.map(Box::new),
        })
    }

    fn openapi_node(&mut self, schema: &Value) -> Result<Node, SchemaError> {
        let mut node = Node {
            format: schema.get("format").and_then(Value::as_str).map(Into::into),
            kinds: kinds(schema),
            map: map_type(object(schema)?)?,
            ..Node::default()
        };
        if let Some(alternatives) = schema.get("oneOf").and_then(Value::as_array) {
            let types: Vec<_> = alternatives
                .iter()
                .filter_map(|one| one.get("type")?.as_str())
                .collect();
            node.ty = match types.as_slice() {
                ["string", "number"] => Type::Quantity,
                ["integer", "string"] => Type::IntOrString,
                other => return Err(SchemaError::new(format!("unsupported oneOf {other:?}"))),
            };
            node.format = None;
            return Ok(node);
        }
        node.ty = match schema.get("type").and_then(Value::as_str) {
            None => Type::Any,
            Some("object") => Type::Object,
            Some("array") => Type::Array,
            Some("string") => Type::String,
            Some("integer") => Type::Integer,
            Some("number") => Type::Number,
            Some("boolean") => Type::Boolean,
            Some(other) => return Err(SchemaError::new(format!("unknown type {other}"))),
        };
        node.required = strings(schema.get("required"));
        if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
            for (name, property) in properties {
                let required = node.requires(name);
                let slot = self
                    .openapi_slot(property, required)
                    .map_err(|error| error.inside(name))?;
                node.fields.insert(Field {
                    name: name.as_str().into(),
                    slot,
                });
            }
        }
        match schema.get("additionalProperties") {
            None | Some(Value::Bool(false)) => {}
            Some(Value::Bool(true)) => node.values = Some(MapValues::Any),
            Some(values) => node.values = Some(MapValues::Typed(self.openapi_slot(values, true)?)),
        }
        if node.ty == Type::Array {
            let items = schema
                .get("items")
                .ok_or_else(|| SchemaError::new("array without items"))?;
            node.items = Some(self.openapi_slot(items, true)?);
            node.list = list_type(object(schema)?)?;
        }
        node.preserve_unknown = match node.ty {
            Type::Object => node.fields.is_empty() && node.values.is_none(),
            Type::Any => true,
            _ => false,
        };
        Ok(node)
    }
}

pub(crate) fn object(schema: &Value) -> Result<&Map<String, Value>, SchemaError> {
    schema
        .as_object()
        .ok_or_else(|| SchemaError::new("a schema must be an object"))
}

pub(crate) fn list_type(schema: &Map<String, Value>) -> Result<ListType, SchemaError> {
    Ok(match schema.get("x-kubernetes-list-type").and_then(Value::as_str) {
        None => ListType::Unset,
        Some("atomic") => ListType::Atomic,
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(strings(schema.get("x-kubernetes-list-map-keys"))),
        Some(other) => return Err(SchemaError::new(format!("unknown list type {other}"))),
    })
}

pub(crate) fn map_type(schema: &Map<String, Value>) -> Result<MapType, SchemaError> {
    Ok(match schema.get("x-kubernetes-map-type").and_then(Value::as_str) {
        None => MapType::Unset,
        Some("atomic") => MapType::Atomic,
        Some("granular") => MapType::Granular,
        Some(other) => return Err(SchemaError::new(format!("unknown map type {other}"))),
    })
}

fn patch_facts(schema: &Value) -> Result<Option<PatchFacts>, SchemaError> {
    let strategy = schema.get("x-kubernetes-patch-strategy").and_then(Value::as_str);
    let merge_key = schema
        .get("x-kubernetes-patch-merge-key")
        .and_then(Value::as_str)
        .map(Into::into);
    if strategy.is_none() && merge_key.is_none() {
        return Ok(None);
    }
    let mut facts = PatchFacts {
        merge_key,
        ..PatchFacts::default()
    };
    facts.add_strategy(strategy.unwrap_or_default())?;
    Ok(Some(facts))
}

impl PatchFacts {
    pub(crate) fn add_strategy(&mut self, strategy: &str) -> Result<(), SchemaError> {
        for part in strategy.split(',').filter(|part| !part.is_empty()) {
            match part {
                "merge" => self.merge = true,
                "replace" => self.replace = true,
                "retainKeys" => self.retain_keys = true,
                other => return Err(SchemaError::new(format!("unknown patch strategy {other}"))),
            }
        }
        Ok(())
    }

    pub(crate) fn strategy(&self) -> String {
        let parts = [
            (self.merge, "merge"),
            (self.retain_keys, "retainKeys"),
            (self.replace, "replace"),
        ];
        parts
            .iter()
            .filter(|(on, _)| *on)
            .map(|(_, name)| *name)
            .collect::<Vec<_>>()
            .join(",")
    }
}

fn kinds(schema: &Value) -> Vec<GroupVersionKind> {
    let list = schema.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
    let text = |value: &Value, key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    list.into_iter()
        .flatten()
        .map(|gvk| GroupVersionKind::new(&text(gvk, "group"), &text(gvk, "version"), &text(gvk, "kind")))
        .collect()
}

pub(crate) fn strings(list: Option<&Value>) -> Vec<Box<str>> {
    list.and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(Into::into)
        .collect()
}

fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(on) => !on,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}
