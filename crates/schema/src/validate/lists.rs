//! Duplicates in set and keyed lists.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::errors::FieldError;
use crate::gotext;
use crate::model::{Cursor, ListType, MapValues};
use crate::path::Path;

/// Elements that occur more than once in set lists, or whose keys do in keyed lists. Each is reported once, at its
/// second appearance.
pub fn validate_lists(at: Cursor<'_>, value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    walk(at, value, &Path::ROOT, &mut errors);
    errors
}

fn walk(at: Cursor<'_>, value: &Value, path: &Path<'_>, errors: &mut Vec<FieldError>) {
    let node = at.node();
    match value {
        Value::Object(map) => {
            for (name, child) in map {
                match (node.field(name), &node.values) {
                    (Some(field), _) => walk(at.at(&field.slot), child, &path.field(name), errors),
                    (None, Some(MapValues::Typed(slot))) => walk(at.at(slot), child, &path.key(name), errors),
                    _ => {}
                }
            }
        }
        Value::Array(list) => {
            match &node.list {
                ListType::Set => {
                    for index in second_appearances(list.iter()) {
                        errors.push(FieldError::duplicate(
                            path.index(index).to_field_path(),
                            list[index].clone(),
                        ));
                    }
                }
                ListType::Map(keys) => keyed(keys, list, path, errors),
                ListType::Unset | ListType::Atomic => {}
            }
            if let Some(items) = at.items() {
                for (index, element) in list.iter().enumerate() {
                    walk(items, element, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn keyed(keys: &[Box<str>], list: &[Value], path: &Path<'_>, errors: &mut Vec<FieldError>) {
    if let Some(index) = list
        .iter()
        .position(|element| !element.is_null() && !element.is_object())
    {
        let detail = "must be an object for an array of list-type map";
        errors.push(FieldError::invalid(
            path.index(index).to_field_path(),
            list[index].clone(),
            detail,
        ));
        return;
    }
    if list.len() < 2 {
        return;
    }
    if let [key] = keys {
        // The usual case needs no copies: one key, a plain string.
        let texts: Option<Vec<&str>> = list.iter().map(|element| element.get(&**key)?.as_str()).collect();
        if texts.is_some_and(|texts| all_different(&texts)) {
            return;
        }
    }
    let identities: Vec<Value> = list
        .iter()
        .map(|element| {
            let stated = keys
                .iter()
                .filter_map(|key| Some((key.to_string(), element.get(&**key)?.clone())));
            Value::Object(stated.collect::<Map<_, _>>())
        })
        .collect();
    for index in second_appearances(identities.iter()) {
        errors.push(FieldError::duplicate(
            path.index(index).to_field_path(),
            identities[index].clone(),
        ));
    }
}

fn all_different(texts: &[&str]) -> bool {
    if texts.len() <= 16 {
        return texts
            .iter()
            .enumerate()
            .all(|(index, text)| !texts[..index].contains(text));
    }
    let mut sorted = texts.to_vec();
    sorted.sort_unstable();
    sorted.windows(2).all(|pair| pair[0] != pair[1])
}

fn second_appearances<'v>(values: impl Iterator<Item = &'v Value>) -> Vec<usize> {
    let mut seen: HashMap<String, usize> = HashMap::new();
    let mut found = Vec::new();
    for (index, value) in values.enumerate() {
        let times = seen.entry(gotext::json(value)).or_default();
        *times += 1;
        if *times == 2 {
            found.push(index);
        }
    }
    found
}

/// Whether two elements are equal.
pub(super) fn has_duplicates(list: &[Value]) -> bool {
    list.iter()
        .enumerate()
        .any(|(index, element)| list[..index].contains(element))
}
