//! Pruning: removes what the schema does not know, or only says what that would be.
//!
//! Custom resources keep apiVersion, kind and metadata at their root and in embedded resources whatever the schema says;
//! metadata itself is judged by the built-in ObjectMeta. Values of the wrong type are left to validation.

use serde_json::{Map, Value};

use crate::assets::kubernetes;
use crate::model::{Cursor, MapValues, Node};
use crate::path::Path;

/// What the value at the root of a walk is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Root {
    /// A whole Kubernetes object.
    Object,
    /// Any value.
    Value,
}

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

fn is_type_field(name: &str) -> bool {
    matches!(name, "apiVersion" | "kind" | "metadata")
}

/// Removes unknown fields and returns their paths, sorted.
pub fn prune(at: Cursor<'_>, value: &mut Value, root: Root) -> Vec<String> {
    let mut found = Vec::new();
    prune_value(Some(at), value, root == Root::Object, &Path::ROOT, &mut found);
    found.sort_unstable();
    found
}

/// The paths of unknown fields, sorted; the value is not changed.
pub fn unknown_fields(at: Cursor<'_>, value: &Value, root: Root) -> Vec<String> {
    let mut found = Vec::new();
    find_unknown(Some(at), value, root == Root::Object, &Path::ROOT, &mut found);
    found.sort_unstable();
    found
}

/// What is to be done with one field of an object.
enum Fate<'a> {
    /// Kept as it is, with everything below it.
    Keep,
    /// Judged by this type.
    Judge(Cursor<'a>),
    /// Kept, but whatever fields are below it are unknown.
    Empty,
    /// Unknown.
    Remove,
}

fn fate<'a>(at: Cursor<'a>, node: &Node, name: &str, is_object: bool) -> Fate<'a> {
    if let Some(field) = node.field(name) {
        let target = at.at(&field.slot);
        // Custom resource schemas state metadata as a bare object (with constraints at most).
        if is_object && name == "metadata" && target.node().name.is_none() {
            return object_meta().map_or(Fate::Keep, Fate::Judge);
        }
        return Fate::Judge(target);
    }
    if is_object && is_type_field(name) {
        let meta = if name == "metadata" { object_meta() } else { None };
        return meta.map_or(Fate::Keep, Fate::Judge);
    }
    match &node.values {
        Some(MapValues::Typed(slot)) => Fate::Judge(at.at(slot)),
        Some(MapValues::Any) => Fate::Empty,
        None if node.preserve_unknown => Fate::Keep,
        None => Fate::Remove,
    }
}

fn object_meta() -> Option<Cursor<'static>> {
    kubernetes().definition(OBJECT_META)
}

fn prune_value(at: Option<Cursor<'_>>, value: &mut Value, root: bool, path: &Path<'_>, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => prune_object(at, map, root, path, found),
        Value::Array(list) => {
            let free = at.is_some_and(|at| at.node().preserve_unknown && at.node().items.is_none());
            if !free {
                let items = at.and_then(Cursor::items);
                for (index, element) in list.iter_mut().enumerate() {
                    prune_value(items, element, false, &path.index(index), found);
                }
            }
        }
        _ => {}
    }
}

fn prune_object(
    at: Option<Cursor<'_>>,
    map: &mut Map<String, Value>,
    root: bool,
    path: &Path<'_>,
    found: &mut Vec<String>,
) {
    let Some(at) = at else {
        found.extend(map.keys().map(|name| path.field(name).to_dotted()));
        map.clear();
        return;
    };
    let node = at.node();
    if node.is_free_form() && !root && !node.embedded_resource {
        return;
    }
    let is_object = root || node.embedded_resource;
    // Two steps, because removing walks a map more slowly, and there is rarely anything to remove.
    let mut has_unknown = false;
    for (name, child) in &mut *map {
        match fate(at, node, name, is_object) {
            Fate::Keep => {}
            Fate::Judge(target) => prune_value(Some(target), child, false, &path.field(name), found),
            Fate::Empty => prune_value(None, child, false, &path.field(name), found),
            Fate::Remove => {
                found.push(path.field(name).to_dotted());
                has_unknown = true;
            }
        }
    }
    if has_unknown {
        map.retain(|name, _| !matches!(fate(at, node, name, is_object), Fate::Remove));
    }
}

fn find_unknown(at: Option<Cursor<'_>>, value: &Value, root: bool, path: &Path<'_>, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let Some(at) = at else {
                found.extend(map.keys().map(|name| path.field(name).to_dotted()));
                return;
            };
            let node = at.node();
            if node.is_free_form() && !root && !node.embedded_resource {
                return;
            }
            let is_object = root || node.embedded_resource;
            for (name, child) in map {
                match fate(at, node, name, is_object) {
                    Fate::Keep => {}
                    Fate::Judge(target) => find_unknown(Some(target), child, false, &path.field(name), found),
                    Fate::Empty => find_unknown(None, child, false, &path.field(name), found),
                    Fate::Remove => found.push(path.field(name).to_dotted()),
                }
            }
        }
        Value::Array(list) => {
            let free = at.is_some_and(|at| at.node().preserve_unknown && at.node().items.is_none());
            if !free {
                let items = at.and_then(Cursor::items);
                for (index, element) in list.iter().enumerate() {
                    find_unknown(items, element, false, &path.index(index), found);
                }
            }
        }
        _ => {}
    }
}
