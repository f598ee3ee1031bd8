//! Places: a position in an object as merging sees it, with or without a schema.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::element::{PathElement, Scalar};
use crate::assets::kubernetes;
use crate::gotext;
use crate::model::{Cursor, Field, ListType, MapType, MapValues, SlotDefault, Type};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";

/// A position in an object.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place<'a> {
    /// The schema says what is here.
    Typed {
        at: Cursor<'a>,
        map: MapType,
        is_root: bool,
    },
    /// No schema: objects are granular, everything else is one value.
    Deduced,
    /// Whatever is here is one value.
    Whole,
}

/// How a value is owned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shape {
    /// As one value.
    Leaf,
    /// By field.
    Map,
    /// By element.
    List,
}

impl<'a> Place<'a> {
    /// The root of an object.
    pub(super) fn root(schema: Option<Cursor<'a>>) -> Self {
        schema.map_or(Place::Deduced, |at| Place::Typed {
            at,
            map: MapType::Unset,
            is_root: true,
        })
    }

    /// How this value is owned here. A null is an empty object or list where the schema expects one; a value of an
    /// unexpected type is a leaf.
    pub(super) fn shape(self, value: &Value) -> Shape {
        let Place::Typed { at, map, .. } = self else {
            let is_map = matches!((self, value), (Place::Deduced, Value::Object(_) | Value::Null));
            return if is_map { Shape::Map } else { Shape::Leaf };
        };
        let node = at.node();
        if node.name.as_deref() == Some(RAW_EXTENSION) {
            return Shape::Leaf;
        }
        let is_atomic = if map == MapType::Unset { node.map } else { map } == MapType::Atomic;
        match (node.ty, value) {
            (Type::Object | Type::Any, Value::Object(_) | Value::Null) if !is_atomic => Shape::Map,
            (Type::Array, Value::Array(_) | Value::Null) | (Type::Any, Value::Array(_)) => match node.list {
                ListType::Set | ListType::Map(_) => Shape::List,
                ListType::Unset | ListType::Atomic => Shape::Leaf,
            },
            _ => Shape::Leaf,
        }
    }

    /// Why a value of this JSON type cannot be here, in the words of the structured-merge library.
    pub(super) fn mismatch(self, value: &Value) -> Option<String> {
        let Place::Typed { at, .. } = self else { return None };
        let node = at.node();
        if value.is_null() || node.ty == Type::Any || node.name.as_deref() == Some(RAW_EXTENSION) {
            return None;
        }
        let found = || format!("&{{{}}}", plain(value));
        let is_plain_string = matches!(node.format.as_deref(), None | Some("" | "byte"));
        match (node.ty, value) {
            (Type::Object, Value::Object(_)) | (Type::Array, Value::Array(_)) => None,
            (Type::Object, _) => Some(format!("expected map, got {}", found())),
            (Type::Array, _) => Some(format!("expected list, got {}", found())),
            (Type::Integer | Type::Number, Value::Number(_)) | (Type::Boolean, Value::Bool(_)) => None,
            (Type::Integer | Type::Number, _) => {
                Some(format!("expected numeric (int or float), got {}", type_name(value)))
            }
            (Type::Boolean, _) => Some(format!("expected boolean, got {}", found())),
            (Type::String, Value::String(_)) => None,
            (Type::String, _) if is_plain_string => Some(format!(
                "expected string, got &value.valueUnstructured{{Value:{}}}",
                plain(value)
            )),
            (_, Value::Object(_) | Value::Array(_)) => Some(format!("expected any scalar, got {}", found())),
            _ => None,
        }
    }

    /// Whether the schema says that objects or lists here are one value.
    pub(super) fn is_one_value(self) -> bool {
        let Place::Typed { at, map, .. } = self else {
            return false;
        };
        let node = at.node();
        match node.ty {
            Type::Object => (if map == MapType::Unset { node.map } else { map }) == MapType::Atomic,
            Type::Array => matches!(node.list, ListType::Unset | ListType::Atomic),
            _ => false,
        }
    }

    /// Whether the schema declares the field.
    pub(super) fn declares(self, name: &str) -> bool {
        match self {
            Place::Typed { at, is_root, .. } => {
                at.node().field(name).is_some() || (is_root && matches!(name, "apiVersion" | "kind" | "metadata"))
            }
            _ => false,
        }
    }

    /// The place of a field; `None` if the schema does not allow it.
    pub(super) fn child(self, name: &str) -> Option<Place<'a>> {
        let (at, is_root) = match self {
            Place::Typed { at, is_root, .. } => (at, is_root),
            other => return Some(other),
        };
        let node = at.node();
        let typed = |at: Cursor<'a>, map: MapType| {
            Some(Place::Typed {
                at,
                map,
                is_root: false,
            })
        };
        let field = node.field(name);
        // Custom resources leave the description of metadata to the server.
        if is_root && name == "metadata" && field.is_none_or(|field| at.at(&field.slot).node().name.is_none()) {
            return Some(
                kubernetes()
                    .definition(OBJECT_META)
                    .map_or(Place::Deduced, |at| Place::Typed {
                        at,
                        map: MapType::Unset,
                        is_root: false,
                    }),
            );
        }
        match (field, &node.values) {
            (Some(field), _) => typed(at.at(&field.slot), field.slot.map),
            (None, Some(MapValues::Typed(slot))) => typed(at.at(slot), slot.map),
            (None, Some(MapValues::Any)) => Some(Place::Deduced),
            (None, None) if node.preserve_unknown || node.fields.is_empty() => Some(Place::Deduced),
            (None, None) if is_root && matches!(name, "apiVersion" | "kind") => Some(Place::Deduced),
            (None, None) => None,
        }
    }

    /// The place of a field, without a schema if there is none for it.
    pub(super) fn child_or_deduced(self, name: &str) -> Place<'a> {
        self.child(name).unwrap_or(Place::Deduced)
    }

    /// What an absent field of a built-in type stands for: structs that are part of their parent always exist, and
    /// required fields are always written. Only where parent and field are declared by a built-in type.
    pub(super) fn implied(self, name: &str) -> Option<&'static Value> {
        let Place::Typed { at, .. } = self else { return None };
        implied_value(at, at.node().field(name)?)
    }

    /// The implied fields that neither object states.
    pub(super) fn implied_fields(
        self,
        left: &Map<String, Value>,
        right: &Map<String, Value>,
    ) -> Vec<(&'a str, &'static Value)> {
        let Place::Typed { at, .. } = self else {
            return Vec::new();
        };
        let implied = at
            .node()
            .fields
            .iter()
            .filter_map(|field| Some((&*field.name, implied_value(at, field)?)));
        implied
            .filter(|(name, _)| !left.contains_key(*name) && !right.contains_key(*name))
            .collect()
    }

    /// The place of list elements.
    pub(super) fn items(self) -> Place<'a> {
        match self {
            Place::Typed { at, .. } => match &at.node().items {
                Some(slot) => Place::Typed {
                    at: at.at(slot),
                    map: slot.map,
                    is_root: false,
                },
                None => Place::Whole,
            },
            _ => Place::Whole,
        }
    }

    /// What identifies an element of the list here.
    pub(super) fn element(self, value: &Value) -> Result<PathElement, String> {
        let Place::Typed { at, .. } = self else {
            return Err("invalid indexing of non-associative list".to_owned());
        };
        match &at.node().list {
            ListType::Map(keys) => keyed_element(at, keys, value),
            ListType::Set => match value {
                Value::Object(_) => Err("associative list without keys has an element that's a map type".to_owned()),
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => Err("associative list without keys has an element that's an explicit null".to_owned()),
                scalar => Ok(PathElement::Value(Scalar(scalar.clone()))),
            },
            ListType::Unset | ListType::Atomic => Err("invalid indexing of non-associative list".to_owned()),
        }
    }
}

fn implied_value(at: Cursor<'_>, field: &Field) -> Option<&'static Value> {
    static EMPTY: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));
    static TEXT: LazyLock<Value> = LazyLock::new(|| Value::String(String::new()));
    static NUMBER: LazyLock<Value> = LazyLock::new(|| Value::from(0));
    let node = at.node();
    node.name.as_ref()?;
    match (&field.slot.default, at.at(&field.slot).node().ty) {
        (SlotDefault::Zero, Type::Object) => Some(&EMPTY),
        _ if !node.requires(&field.name) => None,
        (SlotDefault::Zero, Type::String) => Some(&TEXT),
        (SlotDefault::Zero, Type::Integer | Type::Number) => Some(&NUMBER),
        (SlotDefault::Zero, Type::Boolean) => Some(&Value::Bool(false)),
        (SlotDefault::None, _) => Some(&Value::Null),
        _ => None,
    }
}

fn keyed_element(at: Cursor<'_>, keys: &[Box<str>], value: &Value) -> Result<PathElement, String> {
    let map = match value {
        Value::Object(map) => map,
        Value::Null => return Err("associative list with keys may not have a null element".to_owned()),
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let items = at.items();
    let mut fields: Vec<(Box<str>, Scalar)> = Vec::with_capacity(keys.len());
    for key in keys {
        if let Some(found) = map.get(&**key) {
            fields.push((key.clone(), Scalar(found.clone())));
            continue;
        }
        let Some(field) = items.and_then(|items| items.node().field(key)) else {
            continue;
        };
        match &field.slot.default {
            SlotDefault::None => {}
            SlotDefault::Zero => fields.push((key.clone(), Scalar(at.at(&field.slot).node().ty.zero()))),
            SlotDefault::Value(default) => fields.push((key.clone(), Scalar(default.clone()))),
        }
    }
    if fields.is_empty() && !keys.is_empty() {
        let names: Vec<String> = keys.iter().map(|key| gotext::quote(key)).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values \
             for any key fields)",
            names.join(" ")
        ));
    }
    fields.sort_by(|left, right| left.0.cmp(&right.0));
    Ok(PathElement::Key(fields))
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => format!("[{}]", list.iter().map(plain).collect::<Vec<_>>().join(" ")),
        Value::Object(map) => {
            let parts: Vec<String> = map
                .iter()
                .map(|(name, value)| format!("{name}:{}", plain(value)))
                .collect();
            format!("map[{}]", parts.join(" "))
        }
        other => gotext::json(other),
    }
}

fn type_name(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        Value::Number(_) | Value::Null => "number",
    }
}
