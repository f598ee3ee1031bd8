//! What a scenario may say about a value: that it is something, that it exists, that it lies within bounds. Pure.

use std::fmt;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::names::one_of;

/// The words that turn a mapping into a comparison.
pub const OPERATORS: [&str; 7] = ["equals", "not", "exists", "atLeast", "atMost", "oneOf", "contains"];

/// A statement about the values a path leads to. Written as the value itself, or as a mapping with one operator.
#[derive(Debug, Clone, PartialEq)]
pub enum Matcher {
    /// The value is this one. `null` also matches a field that is not there.
    Equals(Value),
    /// The value is another one, or not there.
    Not(Value),
    /// The field is there (and not `null`), or is not.
    Exists(bool),
    /// A number not below this.
    AtLeast(f64),
    /// A number not above this.
    AtMost(f64),
    /// One of these.
    OneOf(Vec<Value>),
    /// Text that contains this text, or a list that contains this element.
    Contains(Value),
}

impl Matcher {
    /// Whether the values found satisfy the statement. With several values (`[*]` in the path) every one has to.
    pub fn matches(&self, found: &[&Value]) -> bool {
        let present: Vec<&Value> = found.iter().copied().filter(|value| !value.is_null()).collect();
        match self {
            Self::Exists(wanted) => *wanted != present.is_empty(),
            Self::Equals(Value::Null) => present.is_empty(),
            Self::Not(Value::Null) => !present.is_empty(),
            Self::Not(unwanted) => present.iter().all(|value| !equal(value, unwanted)),
            _ if present.is_empty() => false,
            _ => present.iter().all(|value| self.matches_one(value)),
        }
    }

    fn matches_one(&self, value: &Value) -> bool {
        match self {
            Self::Equals(wanted) => equal(value, wanted),
            Self::Not(unwanted) => !equal(value, unwanted),
            Self::Exists(wanted) => *wanted,
            Self::AtLeast(bound) => value.as_f64().is_some_and(|number| number >= *bound),
            Self::AtMost(bound) => value.as_f64().is_some_and(|number| number <= *bound),
            Self::OneOf(choices) => choices.iter().any(|choice| equal(value, choice)),
            Self::Contains(part) => match (value, part) {
                (Value::String(text), Value::String(part)) => text.contains(part.as_str()),
                (Value::Array(elements), part) => elements.iter().any(|element| equal(element, part)),
                _ => false,
            },
        }
    }
}

/// Equality of JSON, except that 1 and 1.0 are the same number.
fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left == right || left.as_f64() == right.as_f64(),
        _ => left == right,
    }
}

/// Values as a reader wants to see them: text in quotes, nothing as `(not there)`.
pub fn show_values(found: &[&Value]) -> String {
    match found {
        [] => "(not there)".to_owned(),
        [one] => one.to_string(),
        many => many.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "),
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Equals(Value::Null) | Self::Exists(false) => formatter.write_str("(not there)"),
            Self::Not(Value::Null) | Self::Exists(true) => formatter.write_str("any value"),
            Self::Equals(value) => write!(formatter, "{value}"),
            Self::Not(value) => write!(formatter, "not {value}"),
            Self::AtLeast(bound) => write!(formatter, "at least {bound}"),
            Self::AtMost(bound) => write!(formatter, "at most {bound}"),
            Self::OneOf(choices) => write!(formatter, "one of {}", show_values(&choices.iter().collect::<Vec<_>>())),
            Self::Contains(part) => write!(formatter, "something that contains {part}"),
        }
    }
}

impl TryFrom<Value> for Matcher {
    type Error = String;

    fn try_from(value: Value) -> Result<Self, String> {
        let Value::Object(entries) = value else {
            return Ok(Self::Equals(value));
        };
        let mut entries = entries.into_iter();
        let (Some((operator, operand)), None) = (entries.next(), entries.next()) else {
            return Err(format!(
                "a comparison is a mapping with one operator ({}); to compare with a mapping write `equals`",
                OPERATORS.join(", ")
            ));
        };
        let number = |operand: &Value| operand.as_f64().ok_or_else(|| format!("`{operator}` takes a number"));
        match operator.as_str() {
            "equals" => Ok(Self::Equals(operand)),
            "not" => Ok(Self::Not(operand)),
            "exists" => operand
                .as_bool()
                .map(Self::Exists)
                .ok_or_else(|| "`exists` takes true or false".to_owned()),
            "atLeast" => Ok(Self::AtLeast(number(&operand)?)),
            "atMost" => Ok(Self::AtMost(number(&operand)?)),
            "oneOf" => match operand {
                Value::Array(choices) => Ok(Self::OneOf(choices)),
                _ => Err("`oneOf` takes a list".to_owned()),
            },
            "contains" => Ok(Self::Contains(operand)),
            unknown => Err(format!("unknown operator {}", one_of(unknown, &OPERATORS))),
        }
    }
}

impl<'de> Deserialize<'de> for Matcher {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn matches(matcher: Value, found: &[Value]) -> bool {
        Matcher::try_from(matcher)
            .unwrap()
            .matches(&found.iter().collect::<Vec<_>>())
    }

    #[test]
    fn plain_values_compare_by_equality() {
        assert!(matches(json!(3), &[json!(3.0)]));
        assert!(!matches(json!(3), &[json!("3")]));
        assert!(!matches(json!(3), &[]));
        assert!(matches(json!(null), &[]));
        assert!(matches(json!([1]), &[json!([1])]));
        assert!(matches(json!({"equals": {"a": 1}}), &[json!({"a": 1})]));
    }

    #[test]
    fn what_is_not_there_is_not_something() {
        assert!(matches(json!({"not": "True"}), &[]));
        assert!(matches(json!({"not": "True"}), &[json!("False")]));
        assert!(!matches(json!({"not": "True"}), &[json!("True")]));
        assert!(matches(json!({"exists": false}), &[json!(null)]));
        assert!(!matches(json!({"exists": true}), &[]));
        assert!(matches(json!({"exists": true}), &[json!(0)]));
    }

    #[test]
    fn bounds_choices_and_parts() {
        assert!(matches(json!({"atLeast": 2}), &[json!(2)]));
        assert!(!matches(json!({"atLeast": 2}), &[json!(1)]));
        assert!(!matches(json!({"atMost": 2}), &[json!("1")]));
        assert!(matches(json!({"oneOf": ["a", "b"]}), &[json!("b")]));
        assert!(matches(json!({"contains": "ell"}), &[json!("hello")]));
        assert!(matches(json!({"contains": "x"}), &[json!(["x", "y"])]));
        assert!(!matches(json!({"contains": "z"}), &[json!(["x", "y"])]));
    }

    #[test]
    fn of_several_values_every_one_has_to_match() {
        assert!(matches(json!("a"), &[json!("a"), json!("a")]));
        assert!(!matches(json!("a"), &[json!("a"), json!("b")]));
    }

    #[test]
    fn unknown_operators_are_named_with_the_known_ones() {
        let error = Matcher::try_from(json!({"atleast": 2})).unwrap_err();
        assert!(
            error.contains("`atleast`") && error.contains("did you mean `atLeast`"),
            "{error}"
        );
        assert!(
            Matcher::try_from(json!({"atLeast": 1, "atMost": 2}))
                .unwrap_err()
                .contains("one operator")
        );
        assert!(
            Matcher::try_from(json!({"atLeast": "2"}))
                .unwrap_err()
                .contains("takes a number")
        );
    }
}
