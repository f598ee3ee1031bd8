//! Judgements on single values: is it absent, do two amounts agree, in which order do the elements of a set stand.
//!
//! Owns the order of keyed sets and the meaning of emptiness. Assumes the facts. Never reports to a sink.

use std::cmp::Ordering;

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

/// Sorts the elements of a set by its keys. Elements with equal keys keep their relative order.
pub(super) fn in_key_order(keys: &[Key], facts: &'static Object, elements: &mut [&Value]) {
    let compare = |left: &&Value, right: &&Value| compare_by(keys, facts, left, right);
    if !elements.is_sorted_by(|left, right| compare(left, right).is_le()) {
        elements.sort_by(compare);
    }
}

fn compare_by(keys: &[Key], facts: &'static Object, left: &Value, right: &Value) -> Ordering {
    keys.iter()
        .map(|key| Rank::of(key, facts, left).cmp(&Rank::of(key, facts, right)))
        .find(|ordering| ordering.is_ne())
        .unwrap_or(Ordering::Equal)
}

/// One key of one element, comparable across whatever JSON may stand there.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Rank<'a> {
    Integer(i128),
    Text(&'a str),
    Other,
}

impl<'a> Rank<'a> {
    fn of(key: &Key, facts: &'static Object, element: &'a Value) -> Self {
        let kind = facts.field(key.name).map_or(Kind::Any, |field| field.kind);
        match element.get(key.name).filter(|value| !is_absent(kind, value)) {
            None => Rank::Text(key.absent),
            Some(Value::String(text)) => Rank::Text(text),
            Some(Value::Number(number)) => whole(number).map_or(Rank::Other, Rank::Integer),
            Some(_) => Rank::Other,
        }
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

    #[test]
    fn equal_keys_keep_their_relative_order() {
        let elements = [
            json!({"containerPort": 80, "name": "second"}),
            json!({"containerPort": 9, "name": "first"}),
            json!({"containerPort": 80, "protocol": "TCP", "name": "third"}),
            json!({"containerPort": 80, "protocol": "SCTP", "name": "before"}),
        ];
        let mut sorted: Vec<&Value> = elements.iter().collect();
        in_key_order(PORT, &CONTAINER_PORT, &mut sorted);
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
        let mut sorted: Vec<&Value> = elements.iter().collect();
        in_key_order(PORT, &CONTAINER_PORT, &mut sorted);
        assert_eq!(sorted[..3], [&json!(null), &json!(3), &json!("text")]);
    }
}
