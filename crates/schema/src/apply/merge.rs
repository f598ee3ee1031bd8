//! Merging a configuration into a live object: what the configuration says wins, what it does not mention stays.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde_json::{Map, Value};

use super::element::PathElement;
use super::place::{Place, Shape};

/// The merged value; `None` if nothing is left of it.
pub(super) fn merge(place: Place<'_>, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    // The shape is that of the configuration, where it says anything.
    let shape = place.shape(config.or(live)?);
    match shape {
        Shape::Leaf => config.or(live).cloned(),
        Shape::Map => {
            let (left, right) = (live.and_then(Value::as_object), config.and_then(Value::as_object));
            if left.is_none_or(Map::is_empty) && right.is_none_or(Map::is_empty) {
                return config.or(live).cloned();
            }
            let empty = Map::new();
            let (left, right) = (left.unwrap_or(&empty), right.unwrap_or(&empty));
            let mut out = Map::new();
            for (name, child) in left {
                if let Some(merged) = merge(place.child_or_deduced(name), Some(child), right.get(name)) {
                    out.insert(name.clone(), merged);
                }
            }
            for (name, child) in right.iter().filter(|(name, _)| !left.contains_key(*name)) {
                if let Some(merged) = merge(place.child_or_deduced(name), None, Some(child)) {
                    out.insert(name.clone(), merged);
                }
            }
            (!out.is_empty()).then_some(Value::Object(out))
        }
        Shape::List => {
            let list = |value: Option<&'_ Value>| value.and_then(Value::as_array).map_or(0, Vec::len);
            if list(live) == 0 && list(config) == 0 {
                return config.or(live).cloned();
            }
            merge_lists(place, live, config)
        }
    }
}

/// The elements of one list with what identifies them. An element that occurs more than once is not merged: it has no
/// value.
struct Indexed<'v> {
    order: Vec<(PathElement, &'v Value)>,
    single: BTreeMap<PathElement, Option<&'v Value>>,
}

fn indexed<'v>(place: Place<'_>, value: Option<&'v Value>) -> Indexed<'v> {
    let mut out = Indexed {
        order: Vec::new(),
        single: BTreeMap::new(),
    };
    for child in value.and_then(Value::as_array).into_iter().flatten() {
        let Ok(element) = place.element(child) else { continue };
        out.single
            .entry(element.clone())
            .and_modify(|found| *found = None)
            .or_insert(Some(child));
        out.order.push((element, child));
    }
    out
}

/// Elements only in the live list keep their position relative to the shared ones; shared elements come in the order of
/// the configuration.
fn merge_lists(place: Place<'_>, live: Option<&Value>, config: Option<&Value>) -> Option<Value> {
    let (left, right) = (indexed(place, live), indexed(place, config));
    let mut shared: VecDeque<&PathElement> = right
        .order
        .iter()
        .map(|(element, _)| element)
        .filter(|element| left.single.contains_key(element))
        .collect();
    let mut next_shared = shared.pop_front();
    let mut merged: BTreeSet<&PathElement> = BTreeSet::new();
    let mut out = Vec::with_capacity(left.order.len().max(right.order.len()));
    let items = place.items();
    let combine = |element: &PathElement| {
        let live = left.single.get(element).copied().flatten();
        merge(items, live, right.single.get(element).copied().flatten())
    };
    let (mut left_index, mut right_index) = (0, 0);
    while left_index < left.order.len() || right_index < right.order.len() {
        if let (Some((mine, _)), Some((theirs, _))) = (left.order.get(left_index), right.order.get(right_index)) {
            if mine == theirs {
                merged.insert(theirs);
                out.extend(combine(theirs));
                left_index += 1;
                right_index += 1;
                next_shared = shared.pop_front();
                continue;
            }
            if right.single.contains_key(mine) && next_shared.is_some_and(|next| next != mine) {
                // Shared, but it is not its turn.
                left_index += 1;
                continue;
            }
        }
        if let Some((mine, child)) = left.order.get(left_index) {
            if !right.single.contains_key(mine) {
                out.extend(merge(items, Some(child), None));
                left_index += 1;
                continue;
            }
            if merged.contains(mine) {
                left_index += 1;
            }
        }
        if let Some((theirs, _)) = right.order.get(right_index) {
            merged.insert(theirs);
            out.extend(combine(theirs));
            right_index += 1;
            if next_shared == Some(theirs) {
                next_shared = shared.pop_front();
            }
        }
    }
    (!out.is_empty()).then_some(Value::Array(out))
}
