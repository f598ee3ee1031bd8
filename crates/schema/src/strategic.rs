//! Strategic merge patches: merge patches that know which lists merge by key.
//!
//! Understands the directives `$patch`, `$retainKeys`, `$setElementOrder/<field>` and `$deleteFromPrimitiveList/<field>`.
//! Only built-in kinds have the facts for it; the server refuses such patches for custom resources. A null deletes.

use serde_json::{Map, Value};

use crate::gotext;
use crate::model::{Cursor, PatchFacts};

const DIRECTIVE: &str = "$patch";
const RETAIN_KEYS: &str = "$retainKeys";
const ELEMENT_ORDER: &str = "$setElementOrder";
const DELETE_FROM_LIST: &str = "$deleteFromPrimitiveList";

/// Why a patch cannot be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// A patch or an object that is not a JSON object.
    #[error("invalid JSON document")]
    NotAnObject,
    /// An element of a merged list has no merge key.
    #[error("map: {element} does not contain declared merge key: {key}")]
    NoMergeKey {
        /// The element as JSON.
        element: String,
        /// The merge key of the list.
        key: String,
    },
    /// A `$patch` that is none of the known ones.
    #[error("unknown patch type: {directive} in map: {map}")]
    BadDirective {
        /// What `$patch` says.
        directive: String,
        /// The patch as JSON.
        map: String,
    },
    /// `$patch: merge` inside a list.
    #[error("merging lists cannot yet be specified in the patch")]
    MergeInList,
    /// Elements of several types, or not of the expected one.
    #[error("list element types are not identical: {0}")]
    MixedElements(String),
    /// A list of lists.
    #[error("lists of lists are not supported")]
    ListOfLists,
    /// A list of objects that is to be merged but has no merge key.
    #[error("cannot merge lists without merge key for {0}")]
    NoKeyDeclared(String),
    /// A malformed `$deleteFromPrimitiveList`.
    #[error("invalid patch format of primitive list")]
    BadDeleteList,
    /// A malformed `$retainKeys`, or one that does not name every field of the patch.
    #[error("invalid patch format of retainKeys")]
    BadRetainKeys,
    /// A malformed `$setElementOrder`.
    #[error("invalid patch format of setElementOrder list")]
    BadElementOrder,
    /// A list whose order contradicts its `$setElementOrder`.
    #[error("The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{order}\n")]
    OrderMismatch {
        /// The list in the patch.
        patch: String,
        /// The order list.
        order: String,
    },
}

/// Applies a strategic merge patch to an object of a built-in type.
pub fn strategic_merge(schema: Cursor<'_>, original: Value, patch: Value) -> Result<Value, PatchError> {
    let (Value::Object(original), Value::Object(patch)) = (original, patch) else {
        return Err(PatchError::NotAnObject);
    };
    merge_map(Some(schema), original, patch).map(Value::Object)
}

type Object = Map<String, Value>;

fn merge_map(at: Option<Cursor<'_>>, mut original: Object, mut patch: Object) -> Result<Object, PatchError> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Object::new()),
            _ => Err(bad_directive(&directive, patch)),
        };
    }
    retain_keys(&mut original, &mut patch)?;
    order_lists(at, &mut original, &mut patch)?;
    for (name, value) in patch {
        let (name, is_delete_list) = match name.strip_prefix(DELETE_FROM_LIST) {
            Some(rest) => (
                rest.strip_prefix('/').ok_or(PatchError::BadDeleteList)?.to_owned(),
                true,
            ),
            None => (name, false),
        };
        if value.is_null() {
            original.remove(&name);
            continue;
        }
        let place = Place::of(at, &name);
        match (original.remove(&name), value) {
            (Some(Value::Object(old)), Value::Object(new)) => {
                let merged = if place.replaces {
                    new
                } else {
                    merge_map(place.at, old, new)?
                };
                original.insert(name, Value::Object(merged));
            }
            (Some(Value::Array(old)), Value::Array(new)) => {
                let merged = if place.merges || is_delete_list {
                    merge_list(&place, old, new, is_delete_list)?
                } else {
                    new
                };
                original.insert(name, Value::Array(merged));
            }
            (old, new) => {
                // Another type, or not there yet: the patch is the value.
                let value = if is_delete_list {
                    old
                } else {
                    without_directives(without_nulls(new))
                };
                if let Some(value) = value {
                    original.insert(name, value);
                }
            }
        }
    }
    Ok(original)
}

/// What the schema says about a field.
struct Place<'a> {
    at: Option<Cursor<'a>>,
    merges: bool,
    replaces: bool,
    merge_key: Option<&'a str>,
}

impl<'a> Place<'a> {
    fn of(at: Option<Cursor<'a>>, name: &str) -> Self {
        let slot = at.and_then(|at| at.field_slot(name));
        let facts: Option<&'a PatchFacts> = slot.and_then(|slot| slot.patch.as_deref());
        Self {
            at: at.zip(slot).map(|(at, slot)| at.at(slot)),
            merges: facts.is_some_and(|facts| facts.merge),
            replaces: facts.is_some_and(|facts| facts.replace),
            merge_key: facts.and_then(|facts| facts.merge_key.as_deref()),
        }
    }
}

/// `$retainKeys` clears the fields it does not name.
fn retain_keys(original: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
    let Some(directive) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    let Value::Array(keys) = directive else {
        return Err(PatchError::BadRetainKeys);
    };
    let is_kept = |name: &str| keys.iter().any(|key| key.as_str() == Some(name));
    let is_directive = |name: &str| name.starts_with(DELETE_FROM_LIST) || name.starts_with(ELEMENT_ORDER);
    if patch
        .iter()
        .any(|(name, value)| !value.is_null() && !is_directive(name) && !is_kept(name))
    {
        return Err(PatchError::BadRetainKeys);
    }
    original.retain(|name, _| is_kept(name));
    Ok(())
}

/// `$setElementOrder` lists: merges the list they belong to and puts it in that order.
fn order_lists(at: Option<Cursor<'_>>, original: &mut Object, patch: &mut Object) -> Result<(), PatchError> {
    let directives: Vec<String> = patch
        .keys()
        .filter(|name| name.starts_with(ELEMENT_ORDER))
        .cloned()
        .collect();
    for directive in directives {
        let Some(Value::Array(order)) = patch.remove(&directive) else {
            return Err(PatchError::BadElementOrder);
        };
        let name = directive
            .strip_prefix(ELEMENT_ORDER)
            .and_then(|rest| rest.strip_prefix('/'));
        let name = name.ok_or(PatchError::BadElementOrder)?;
        let place = Place::of(at, name);
        let live = list(original.get(name))?;
        let stated = list(patch.remove(name).as_ref())?;
        if let Some(stated) = &stated {
            check_order(stated, &order, place.merge_key)?;
        }
        let server_order = live.clone().unwrap_or_default();
        let merged = match (live, stated) {
            (None, None) => continue,
            (Some(live), None) => live,
            (None, Some(stated)) => match without_directives(Value::Array(stated)) {
                Some(Value::Array(list)) => list,
                _ => continue,
            },
            (Some(live), Some(stated)) if place.merges => merge_list(&place, live, stated, false)?,
            (Some(_), Some(stated)) => stated,
        };
        let sorted = in_order(merged, &order, &server_order, place.merge_key)?;
        original.insert(name.to_owned(), Value::Array(sorted));
    }
    Ok(())
}

fn list(value: Option<&Value>) -> Result<Option<Vec<Value>>, PatchError> {
    match value {
        None => Ok(None),
        Some(Value::Array(list)) => Ok(Some(list.clone())),
        Some(_) => Err(PatchError::BadElementOrder),
    }
}

/// The elements of the patch must come in the order of the order list and be part of it.
fn check_order(stated: &[Value], order: &[Value], merge_key: Option<&str>) -> Result<(), PatchError> {
    if stated.is_empty() || order.is_empty() {
        return Ok(());
    }
    let mut wanted = stated
        .iter()
        .filter(|element| element.get(DIRECTIVE).is_none())
        .peekable();
    for place in order {
        let Some(element) = wanted.peek() else { return Ok(()) };
        if identity(element, merge_key)? == identity(place, merge_key)? {
            wanted.next();
        }
    }
    if wanted.peek().is_none() {
        return Ok(());
    }
    let text = |list: &[Value]| gotext::json(&Value::Array(list.to_vec()));
    Err(PatchError::OrderMismatch {
        patch: text(stated),
        order: text(order),
    })
}

/// What identifies an element: its merge key, or itself.
fn identity<'v>(element: &'v Value, merge_key: Option<&str>) -> Result<&'v Value, PatchError> {
    match merge_key {
        None => Ok(element),
        Some(key) => element.get(key).ok_or_else(|| PatchError::NoMergeKey {
            element: gotext::json(element),
            key: key.to_owned(),
        }),
    }
}

fn merge_list(
    place: &Place<'_>,
    original: Vec<Value>,
    patch: Vec<Value>,
    is_delete_list: bool,
) -> Result<Vec<Value>, PatchError> {
    let Some(first) = original.first().or(patch.first()) else {
        return Ok(original);
    };
    let is_objects = first.is_object();
    if first.is_array() {
        return Err(PatchError::ListOfLists);
    }
    if original
        .iter()
        .chain(&patch)
        .any(|element| kind(element) != kind(first))
    {
        let both = [Value::Array(original), Value::Array(patch)];
        return Err(PatchError::MixedElements(gotext::json(&Value::Array(both.to_vec()))));
    }
    if !is_objects {
        if is_delete_list {
            return Ok(original
                .into_iter()
                .filter(|element| !patch.contains(element))
                .collect());
        }
        let mut merged: Vec<Value> = Vec::with_capacity(original.len() + patch.len());
        for element in original.iter().chain(&patch) {
            if !merged.contains(element) {
                merged.push(element.clone());
            }
        }
        return in_order(merged, &patch, &original, None);
    }
    let name = || {
        place
            .at
            .and_then(|at| at.node().name.clone())
            .unwrap_or_default()
            .into_string()
    };
    let key = place.merge_key.ok_or_else(|| PatchError::NoKeyDeclared(name()))?;
    let (original, patch) = special_elements(original, patch, key)?;
    let items = place.at.and_then(Cursor::items);
    let mut merged = original.clone();
    for element in patch.iter().cloned() {
        let wanted = identity(&element, Some(key))?;
        match merged.iter_mut().find(|candidate| candidate.get(key) == Some(wanted)) {
            Some(found) => {
                if let (Value::Object(old), Value::Object(new)) = (found.take(), element) {
                    *found = Value::Object(merge_map(items, old, new)?);
                }
            }
            None => merged.push(element),
        }
    }
    in_order(merged, &patch, &original, Some(key))
}

fn kind(value: &Value) -> u8 {
    match value {
        Value::Null => 0,
        Value::Bool(_) => 1,
        Value::Number(_) => 2,
        Value::String(_) => 3,
        Value::Array(_) => 4,
        Value::Object(_) => 5,
    }
}

/// Carries out `$patch` elements of a list: deletions, and replacing the list as a whole.
fn special_elements(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut rest = Vec::with_capacity(patch.len());
    let mut replace = false;
    for element in patch {
        match element.get(DIRECTIVE) {
            None => rest.push(element),
            Some(directive) => match directive.as_str() {
                Some("delete") => {
                    let wanted = identity(&element, Some(key))?;
                    original.retain(|candidate| candidate.get(key) != Some(wanted));
                }
                Some("replace") => replace = true,
                Some("merge") => return Err(PatchError::MergeInList),
                _ => {
                    return Err(bad_directive(
                        directive,
                        element.as_object().cloned().unwrap_or_default(),
                    ));
                }
            },
        }
    }
    Ok(if replace { (rest, Vec::new()) } else { (original, rest) })
}

/// Elements named in `order` come in that order, the others in the server's; where both orders are known the server's
/// decides between them.
fn in_order(
    merged: Vec<Value>,
    order: &[Value],
    server_order: &[Value],
    merge_key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    let position = |list: &[Value], element: &Value| -> Option<usize> {
        let same = |candidate: &Value| match merge_key {
            Some(key) => candidate.get(key) == element.get(key),
            None => candidate == element,
        };
        list.iter().position(same)
    };
    for element in &merged {
        identity(element, merge_key)?;
    }
    let (mut named, mut others): (Vec<Value>, Vec<Value>) = merged
        .into_iter()
        .partition(|element| position(order, element).is_some());
    named.sort_by_key(|element| position(order, element));
    others.sort_by_key(|element| position(server_order, element));
    let mut out = Vec::with_capacity(named.len() + others.len());
    let (mut named, mut others) = (named.into_iter().peekable(), others.into_iter().peekable());
    while let (Some(left), Some(right)) = (others.peek(), named.peek()) {
        let before = match (position(server_order, left), position(server_order, right)) {
            (Some(left), Some(right)) => left < right,
            _ => false,
        };
        out.extend(if before { others.next() } else { named.next() });
    }
    out.extend(others);
    out.extend(named);
    Ok(out)
}

fn bad_directive(directive: &Value, map: Object) -> PatchError {
    let directive = directive
        .as_str()
        .map_or_else(|| gotext::json(directive), str::to_owned);
    PatchError::BadDirective {
        directive,
        map: gotext::json(&Value::Object(map)),
    }
}

/// The value without elements and fields that are directives; `None` if it is one itself.
fn without_directives(value: Value) -> Option<Value> {
    Some(match value {
        Value::Object(map) if map.contains_key(DIRECTIVE) => return None,
        Value::Object(map) => {
            let is_directive = |name: &str| {
                name == RETAIN_KEYS || name.starts_with(ELEMENT_ORDER) || name.starts_with(DELETE_FROM_LIST)
            };
            let fields = map.into_iter().filter(|(name, _)| !is_directive(name));
            Value::Object(
                fields
                    .filter_map(|(name, value)| Some((name, without_directives(value)?)))
                    .collect(),
            )
        }
        Value::Array(list) => Value::Array(list.into_iter().filter_map(without_directives).collect()),
        scalar => scalar,
    })
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(map) => {
            let fields = map.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(fields.map(|(name, value)| (name, without_nulls(value))).collect())
        }
        Value::Array(list) => Value::Array(list.into_iter().map(without_nulls).collect()),
        scalar => scalar,
    }
}
