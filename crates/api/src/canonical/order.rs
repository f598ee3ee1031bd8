//! Judgements on single values: is it absent, do two amounts agree, in which order do the elements of a set stand.
//!
//! Owns the order of keyed sets and the meaning of emptiness. Assumes the facts. Never reports to a sink.

use serde_json::{Map, Number, Value};

use super::facts::{Key, Kind, Object};
use super::fill::{Surroundings, filled};
use crate::quantity::Quantity;

/// Whether a value of this kind says no more than its absence would.
pub(super) fn is_absent(kind: Kind, value: &Value) -> bool {
    match (kind, value) {
        (_, Value::Null) => true,
        (Kind::Text | Kind::PriorityClass | Kind::ServiceAccount, Value::String(text)) => text.is_empty(),
        (Kind::Flag, Value::Bool(flag)) => !flag,
        (Kind::Number, Value::Number(number)) => whole(number) == Some(0),
        (Kind::PlainQuantity, amount) => Quantity::from_json(amount).is_ok_and(Quantity::is_zero),
        (Kind::Object(facts), Value::Object(object)) => facts.transparent && says_nothing(facts, object),
        (Kind::Quantities | Kind::TextsByKey | Kind::Requests, Value::Object(object)) => object.is_empty(),
        (_, Value::Array(elements)) => elements.is_empty(),
        _ => false,
    }
}

/// Whether every field of an object is absent or holds its default.
pub(super) fn says_nothing(facts: &'static Object, object: &Map<String, Value>) -> bool {
    object.iter().all(|(name, value)| match facts.field(name) {
        None => is_absent(Kind::Any, value),
        Some(field) => {
            is_absent(field.kind, value)
                || filled(field.fill, object, Surroundings::default()).is_some_and(|default| default.equals(value))
        }
    })
}

/// A resource amount, where `null` stands for none.
pub(super) fn amount(value: &Value) -> Option<Quantity> {
    if value.is_null() {
        Some(Quantity::ZERO)
    } else {
        Quantity::from_json(value).ok()
    }
}

/// Whether two JSON values spell the same amount. A text that is no amount agrees with itself.
pub(super) fn same_amount(left: &Value, right: &Value) -> bool {
    match (amount(left), amount(right)) {
        (Some(left), Some(right)) => left == right,
        (None, None) => left.is_string() && left == right,
        _ => false,
    }
}

/// A JSON number as an integer when it is one, however it is spelled.
pub(super) fn whole(number: &Number) -> Option<i128> {
    if let Some(integer) = number.as_i64() {
        return Some(integer.into());
    }
    if let Some(integer) = number.as_u64() {
        return Some(integer.into());
    }
    // Up to 2^53 every whole number has exactly one spelling as a float.
    number
        .as_f64()
        .filter(|float| float.fract() == 0.0 && float.abs() <= 9_007_199_254_740_992.0)
        .map(|float| float as i128)
}

/// A JSON value as an integer when it is one.
pub(super) fn integer(value: &Value) -> Option<i128> {
    value.as_number().and_then(whole)
}

/// An element of a set beside the keys it is sorted by, read once.
#[derive(Clone, Copy)]
pub(super) struct Ranked<'a> {
    ranks: [Rank<'a>; MOST_KEYS],
    pub(super) element: &'a Value,
}

/// No set has more keys than this.
const MOST_KEYS: usize = 2;

/// One key of one element, comparable across whatever JSON may stand there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank<'a> {
    Integer(i128),
    Text(&'a str),
    Other,
}

/// Appends the elements of a set to a stack, sorted by the set's keys. Elements with equal keys keep their relative
/// order.
pub(super) fn push_in_key_order<'a>(
    keys: &'static [Key],
    facts: &'static Object,
    elements: &'a [Value],
    stack: &mut Vec<Ranked<'a>>,
) {
    debug_assert!(keys.len() <= MOST_KEYS, "a set has at most {MOST_KEYS} keys");
    let mut kinds = [Kind::Any; MOST_KEYS];
    for (kind, key) in kinds.iter_mut().zip(keys) {
        *kind = facts.field(key.name).map_or(Kind::Any, |field| field.kind);
    }
    let start = stack.len();
    stack.extend(elements.iter().map(|element| {
        let mut ranks = [Rank::Other; MOST_KEYS];
        for ((rank, key), kind) in ranks.iter_mut().zip(keys).zip(kinds) {
            *rank = rank_of(key, kind, element);
        }
        Ranked { ranks, element }
    }));
    let pushed = &mut stack[start..];
    if !pushed.is_sorted_by(|left, right| left.ranks <= right.ranks) {
        pushed.sort_by(|left, right| left.ranks.cmp(&right.ranks));
    }
}

fn rank_of<'a>(key: &Key, kind: Kind, element: &'a Value) -> Rank<'a> {
    match element.get(key.name).filter(|value| !is_absent(kind, value)) {
        None => Rank::Text(key.absent),
        Some(Value::String(text)) => Rank::Text(text),
        Some(Value::Number(number)) => whole(number).map_or(Rank::Other, Rank::Integer),
        Some(_) => Rank::Other,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::canonical::facts::CONTAINER_PORT;

    const PORT: &[Key] = &[
        Key {
            name: "containerPort",
            absent: "",
        },
        Key {
            name: "protocol",
            absent: "TCP",
        },
    ];

    fn sorted(elements: &[Value]) -> Vec<&Value> {
        let mut stack = Vec::new();
        push_in_key_order(PORT, &CONTAINER_PORT, elements, &mut stack);
        stack.into_iter().map(|ranked| ranked.element).collect()
    }

    #[test]
    fn equal_keys_keep_their_relative_order() {
        let elements = [
            json!({"containerPort": 80, "name": "second"}),
            json!({"containerPort": 9, "name": "first"}),
            json!({"containerPort": 80, "protocol": "TCP", "name": "third"}),
            json!({"containerPort": 80, "protocol": "SCTP", "name": "before"}),
        ];
        let sorted = sorted(&elements);
        let names: Vec<_> = sorted.iter().map(|element| &element["name"]).collect();
        assert_eq!(names, ["first", "before", "second", "third"]);
    }

    #[test]
    fn what_is_no_element_is_still_ordered() {
        let elements = [
            json!({"containerPort": [1]}),
            json!(null),
            json!(3),
            json!({"containerPort": 1.5}),
            json!("text"),
        ];
        let sorted = sorted(&elements);
        assert_eq!(sorted[..3], [&json!(null), &json!(3), &json!("text")]);
    }
}
