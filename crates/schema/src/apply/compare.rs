//! Comparing two objects of one type: which paths were added, modified and removed.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::element::PathElement;
use super::place::{Place, Shape};
use super::set::{Entry, FieldSet};

/// The difference of two objects.
#[derive(Debug, Clone, Default)]
pub(super) struct Comparison {
    pub(super) added: FieldSet,
    pub(super) modified: FieldSet,
    pub(super) removed: FieldSet,
}

#[derive(Default)]
struct Entries {
    added: Entry,
    modified: Entry,
    removed: Entry,
}

/// Compares two objects.
pub(super) fn compare(place: Place<'_>, old: &Value, new: &Value) -> Comparison {
    let mut out = Entries::default();
    if old != new {
        visit(place, Some(old), Some(new), &mut out);
    }
    Comparison {
        added: out.added.below,
        modified: out.modified.below,
        removed: out.removed.below,
    }
}

/// Compares values that differ; equal ones need no walk.
fn visit(place: Place<'_>, old: Option<&Value>, new: Option<&Value>, out: &mut Entries) {
    let old_shape = old.map(|old| place.shape(old));
    let new_shape = new.map(|new| place.shape(new));
    let mut in_leaf = false;
    match (old_shape, new_shape) {
        (Some(left), Some(right)) if left != right => {
            visit_as(left, place, old, new, out);
            in_leaf = visit_as(right, place, old, new, out);
        }
        (_, Some(shape)) | (Some(shape), None) => in_leaf = visit_as(shape, place, old, new, out),
        (None, None) => {}
    }
    if !in_leaf {
        match (old, new) {
            (None, _) => out.added.member = true,
            (_, None) => out.removed.member = true,
            _ => {}
        }
    }
}

/// Compares as values of that shape; what does not have it counts as absent. Says whether it was one value.
fn visit_as(shape: Shape, place: Place<'_>, old: Option<&Value>, new: Option<&Value>, out: &mut Entries) -> bool {
    let empty = Map::new();
    match shape {
        Shape::Leaf => leaf(old, new, out),
        Shape::Map => {
            let maps = (old.and_then(Value::as_object), new.and_then(Value::as_object));
            let (left, right) = (maps.0.unwrap_or(&empty), maps.1.unwrap_or(&empty));
            // A field that is absent from an object that exists stands for what its type implies. Where both objects
            // exist that is the same on both sides, so only fields that one of them states can differ.
            let both = maps.0.is_some() && maps.1.is_some();
            let unstated = if both {
                Vec::new()
            } else {
                place.implied_fields(left, right)
            };
            if left.is_empty() && right.is_empty() && unstated.is_empty() {
                return leaf(old, new, out);
            }
            let implied = |name: &str| if both { place.implied(name) } else { None };
            let mut visit_field = |name: &str, old: Option<&Value>, new: Option<&Value>| {
                if old != new {
                    below(place.child_or_deduced(name), PathElement::field(name), old, new, out);
                }
            };
            for (name, child) in left {
                visit_field(name, Some(child), right.get(name).or_else(|| implied(name)));
            }
            for (name, child) in right.iter().filter(|(name, _)| !left.contains_key(*name)) {
                visit_field(name, implied(name), Some(child));
            }
            for (name, value) in unstated {
                visit_field(name, maps.0.map(|_| value), maps.1.map(|_| value));
            }
            false
        }
        Shape::List => {
            let list = |value: Option<&Value>| value.and_then(Value::as_array).map_or(0, Vec::len);
            if list(old) == 0 && list(new) == 0 {
                return leaf(old, new, out);
            }
            visit_lists(place, old, new, out);
            false
        }
    }
}

fn leaf(old: Option<&Value>, new: Option<&Value>, out: &mut Entries) -> bool {
    match (old, new) {
        (None, _) => out.added.member = true,
        (_, None) => out.removed.member = true,
        (Some(old), Some(new)) if !same(old, new) => out.modified.member = true,
        _ => {}
    }
    true
}

fn visit_lists(place: Place<'_>, old: Option<&Value>, new: Option<&Value>, out: &mut Entries) {
    let mut pairs: BTreeMap<PathElement, (Vec<&Value>, Vec<&Value>)> = BTreeMap::new();
    for child in old.and_then(Value::as_array).into_iter().flatten() {
        if let Ok(element) = place.element(child) {
            pairs.entry(element).or_default().0.push(child);
        }
    }
    for child in new.and_then(Value::as_array).into_iter().flatten() {
        if let Ok(element) = place.element(child) {
            pairs.entry(element).or_default().1.push(child);
        }
    }
    for (element, (left, right)) in pairs {
        match (left.as_slice(), right.as_slice()) {
            ([] | [_], [] | [_]) => {
                let (left, right) = (left.first().copied(), right.first().copied());
                if left != right {
                    below(place.items(), element, left, right, out);
                }
            }
            // Repeated elements are one value; where they start or stop being repeated, the single one goes or comes.
            ([_, _, ..], [_, _, ..]) => {
                if left != right {
                    mark(&mut out.modified, element);
                }
            }
            ([_, _, ..], rest) => {
                if let Some(only) = rest.first() {
                    below(place.items(), element.clone(), None, Some(only), out);
                }
                mark(&mut out.removed, element);
            }
            (rest, _) => {
                if let Some(only) = rest.first() {
                    below(place.items(), element.clone(), Some(only), None, out);
                }
                mark(&mut out.added, element);
            }
        }
    }
}

fn below(place: Place<'_>, element: PathElement, old: Option<&Value>, new: Option<&Value>, out: &mut Entries) {
    let mut found = Entries::default();
    visit(place, old, new, &mut found);
    let pairs = [
        (&mut out.added, found.added),
        (&mut out.modified, found.modified),
        (&mut out.removed, found.removed),
    ];
    let mut pairs = pairs.into_iter().filter(|(_, child)| !child.is_empty()).peekable();
    while let Some((entry, child)) = pairs.next() {
        if pairs.peek().is_none() {
            // Nearly always there is only one; it takes the element.
            entry.below.entries.entry(element).or_default().extend(child);
            return;
        }
        entry.below.entries.entry(element.clone()).or_default().extend(child);
    }
}

fn mark(entry: &mut Entry, element: PathElement) {
    entry.below.entries.entry(element).or_default().member = true;
}

/// Equality of values where 1 and 1.0 are the same number.
pub(super) fn same(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left
                    .iter()
                    .all(|(name, left)| right.get(name).is_some_and(|right| same(left, right)))
        }
        _ => left == right,
    }
}
