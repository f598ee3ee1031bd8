//! Writes the facts format. Refuses what the format cannot say instead of dropping it.

use std::fmt::Write as _;

use serde_json::Value;

use crate::SchemaError;
use crate::constraints::Constraints;
use crate::model::{Definitions, ListType, MapType, MapValues, Node, Slot, SlotDefault, Type};

/// Writes the definitions reachable from the roots, sorted by name.
pub fn write<'a>(set: &'a Definitions, roots: impl IntoIterator<Item = &'a str>) -> Result<String, SchemaError> {
    let mut out = String::new();
    for name in set.closure(roots) {
        let node = set.definition(name).expect("a closure holds only definitions").node();
        definition(set, name, node, &mut out).map_err(|error| error.inside(name))?;
    }
    Ok(out)
}

fn definition(set: &Definitions, name: &str, node: &Node, out: &mut String) -> Result<(), SchemaError> {
    let _ = write!(out, "def {name}");
    let is_struct = node.ty == Type::Object && !node.is_free_form() && node.values.is_none();
    if !is_struct {
        let _ = write!(out, " = {}", type_token(set, node)?);
        list_words(&node.list, out);
    }
    map_word(node.map, out);
    for kind in &node.kinds {
        let _ = write!(out, " kind={kind}");
    }
    out.push('\n');
    for field in &node.fields {
        let _ = write!(out, "  {} {}", field.name, slot_token(set, &field.slot)?);
        if node.requires(&field.name) {
            out.push_str(" required");
        }
        if let SlotDefault::Value(value) = &field.slot.default {
            let _ = write!(out, " default={}", json(value));
        }
        let target = set.node(field.slot.node);
        if target.name.is_none() {
            list_words(&target.list, out);
            map_word(target.map, out);
            if let Some(constraints) = &target.constraints {
                constraint_words(constraints, out)?;
            }
        } else {
            map_word(field.slot.map, out);
        }
        if let Some(patch) = &field.slot.patch {
            let strategy = patch.strategy();
            if !strategy.is_empty() {
                let _ = write!(out, " patch={strategy}");
            }
            if let Some(key) = &patch.merge_key {
                let _ = write!(out, " merge={key}");
            }
        }
        out.push('\n');
    }
    Ok(())
}

fn slot_token(set: &Definitions, slot: &Slot) -> Result<String, SchemaError> {
    let node = set.node(slot.node);
    let mut token = match &node.name {
        Some(name) => name.to_string(),
        None => type_token(set, node)?,
    };
    if slot.default == SlotDefault::Zero {
        token.push('=');
    }
    Ok(token)
}

fn type_token(set: &Definitions, node: &Node) -> Result<String, SchemaError> {
    let base = match node.ty {
        Type::Any => "any",
        Type::String => "string",
        Type::Integer => "integer",
        Type::Number => "number",
        Type::Boolean => "boolean",
        Type::IntOrString => "int-or-string",
        Type::Quantity => "quantity",
        Type::Array => {
            let items = node
                .items
                .as_ref()
                .ok_or_else(|| SchemaError::new("list without items"))?;
            return Ok(format!("[{}]", inner_token(set, items)?));
        }
        Type::Object => match &node.values {
            Some(MapValues::Typed(slot)) if node.fields.is_empty() => {
                return Ok(format!("{{{}}}", inner_token(set, slot)?));
            }
            None if node.fields.is_empty() => "object",
            _ => return Err(SchemaError::new("the facts format has no anonymous structs")),
        },
    };
    Ok(match &node.format {
        Some(format) => format!("{base}:{format}"),
        None => base.to_owned(),
    })
}

fn inner_token(set: &Definitions, slot: &Slot) -> Result<String, SchemaError> {
    let node = set.node(slot.node);
    let anonymous_facts = node.name.is_none()
        && (node.list != ListType::Unset || node.map != MapType::Unset || node.constraints.is_some());
    let has_facts = matches!(slot.default, SlotDefault::Value(_)) || slot.map != MapType::Unset || slot.patch.is_some();
    if anonymous_facts || has_facts {
        return Err(SchemaError::new(
            "the facts format has no attributes on list elements and map values",
        ));
    }
    slot_token(set, slot)
}

fn list_words(list: &ListType, out: &mut String) {
    match list {
        ListType::Unset => {}
        ListType::Atomic => out.push_str(" list=atomic"),
        ListType::Set => out.push_str(" list=set"),
        ListType::Map(keys) => {
            let _ = write!(out, " list=map keys={}", keys.join(","));
        }
    }
}

fn map_word(map: MapType, out: &mut String) {
    out.push_str(match map {
        MapType::Unset => "",
        MapType::Granular => " map=granular",
        MapType::Atomic => " map=atomic",
    });
}

fn constraint_words(constraints: &Constraints, out: &mut String) -> Result<(), SchemaError> {
    let mut rest = constraints.clone();
    let enumeration = std::mem::take(&mut rest.enumeration);
    if !enumeration.is_empty() {
        let _ = write!(out, " enum={}", json(&Value::Array(enumeration)));
    }
    if let Some(pattern) = rest.pattern.take() {
        let _ = write!(out, " pattern={}", json(&Value::String(pattern.source().to_owned())));
    }
    let counts = [
        ("min-length", rest.min_length.take()),
        ("max-length", rest.max_length.take()),
        ("min-items", rest.min_items.take()),
        ("max-items", rest.max_items.take()),
    ];
    for (word, count) in counts {
        if let Some(count) = count {
            let _ = write!(out, " {word}={count}");
        }
    }
    for (word, bound) in [("minimum", rest.minimum.take()), ("maximum", rest.maximum.take())] {
        if let Some(bound) = bound {
            let _ = write!(out, " {word}={bound}");
        }
    }
    if rest == Constraints::default() {
        Ok(())
    } else {
        Err(SchemaError::new("a constraint the facts format cannot say"))
    }
}

/// Blanks separate words, so they are escaped.
fn json(value: &Value) -> String {
    value.to_string().replace(' ', "\\u0020")
}
