//! Walks over one object: its field set, its typing mistakes, and the object without a set of fields.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::element::PathElement;
use super::place::{Place, Shape};
use super::set::{Entry, FieldSet};

/// The paths that the object sets.
pub(super) fn field_set(place: Place<'_>, value: &Value) -> FieldSet {
    collect(place, value).below
}

fn collect(place: Place<'_>, value: &Value) -> Entry {
    match place.shape(value) {
        Shape::Leaf => Entry::member(),
        Shape::Map => {
            let mut below = FieldSet::default();
            for (name, child) in value.as_object().into_iter().flatten() {
                let mut entry = collect(place.child_or_deduced(name), child);
                let is_empty = child.is_null() || child.as_object().is_some_and(Map::is_empty);
                entry.member |= is_empty || !place.declares(name);
                below.put(PathElement::field(name), entry);
            }
            Entry { member: false, below }
        }
        Shape::List => Entry {
            member: false,
            below: collect_list(place, value.as_array().map_or(&[], Vec::as_slice)),
        },
    }
}

/// Elements that occur more than once are owned as one value.
fn collect_list(place: Place<'_>, list: &[Value]) -> FieldSet {
    let mut below = FieldSet::default();
    for child in list {
        let Ok(element) = place.element(child) else { continue };
        let entry = match below.entries.get(&element) {
            Some(_) => Entry::member(),
            None => Entry {
                member: true,
                ..collect(place.items(), child)
            },
        };
        below.entries.insert(element, entry);
    }
    below
}

/// What makes an object impossible to merge, in words: fields the schema does not declare, values of the wrong type, list
/// elements without identity, and duplicates unless they are allowed.
pub(super) fn typing_errors(place: Place<'_>, value: &Value, allow_duplicates: bool) -> Vec<String> {
    let mut errors = Vec::new();
    check(place, value, allow_duplicates, &mut String::new(), &mut errors);
    errors
}

fn check(place: Place<'_>, value: &Value, allow_duplicates: bool, path: &mut String, errors: &mut Vec<String>) {
    if let Some(expected) = place.mismatch(value) {
        errors.push(located(path, &expected));
        return;
    }
    let length = path.len();
    match value {
        Value::Object(map) => {
            for (name, child) in map {
                path.push('.');
                path.push_str(name);
                match place.child(name) {
                    Some(child_place) => check(child_place, child, allow_duplicates, path, errors),
                    None => errors.push(located(path, "field not declared in schema")),
                }
                path.truncate(length);
            }
        }
        Value::Array(list) => {
            let is_associative = place.shape(value) == Shape::List;
            let mut seen = BTreeSet::new();
            for (index, child) in list.iter().enumerate() {
                let element = if is_associative {
                    match place.element(child) {
                        Ok(element) => element,
                        Err(problem) => {
                            errors.push(located(path, &format!("element {index}: {problem}")));
                            return;
                        }
                    }
                } else {
                    PathElement::Index(i64::try_from(index).unwrap_or(i64::MAX))
                };
                path.push_str(&element.to_string());
                check(place.items(), child, allow_duplicates, path, errors);
                path.truncate(length);
                if seen.contains(&element) && !allow_duplicates {
                    errors.push(located(path, &format!("duplicate entries for key {element}")));
                }
                seen.insert(element);
            }
        }
        _ => {}
    }
}

fn located(path: &str, problem: &str) -> String {
    if path.is_empty() {
        problem.to_owned()
    } else {
        format!("{path}: {problem}")
    }
}

/// The value without the paths in the set; `None` if nothing is left.
pub(super) fn remove(place: Place<'_>, value: &Value, set: &FieldSet) -> Option<Value> {
    match (place.shape(value), value) {
        (Shape::Map, Value::Object(map)) => {
            let mut out = Map::new();
            for (name, child) in map {
                match set.entries.get(&PathElement::field(name)) {
                    Some(entry) if entry.member => {}
                    Some(entry) => {
                        let rest = remove(place.child_or_deduced(name), child, &entry.below);
                        out.insert(name.clone(), rest.unwrap_or(Value::Null));
                    }
                    None => {
                        out.insert(name.clone(), child.clone());
                    }
                }
            }
            (!out.is_empty()).then_some(Value::Object(out))
        }
        (Shape::List, Value::Array(list)) => {
            let mut out = Vec::with_capacity(list.len());
            for child in list {
                let entry = place.element(child).ok().and_then(|element| set.entries.get(&element));
                match entry {
                    Some(entry) if entry.member => {}
                    Some(entry) => out.push(remove(place.items(), child, &entry.below).unwrap_or(Value::Null)),
                    None => out.push(child.clone()),
                }
            }
            (!out.is_empty()).then_some(Value::Array(out))
        }
        // What is one value goes as a whole when part of it is to go.
        (_, Value::Object(_) | Value::Array(_)) => None,
        (_, scalar) => Some(scalar.clone()),
    }
}
