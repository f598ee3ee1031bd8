//! Path elements: the steps of field paths as managed fields know them, their order and their spelling.

use std::cmp::Ordering;
use std::fmt;

use serde_json::{Map, Value};

use crate::gotext;

/// One step of a field path. The order of the variants is the order of steps.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PathElement {
    /// A field of an object or a key of a map.
    Field(Box<str>),
    /// The element of a keyed list with these key fields, sorted by name.
    Key(Vec<(Box<str>, Scalar)>),
    /// The element of a set list with this value.
    Value(Scalar),
    /// The element of a list at this index.
    Index(i64),
}

/// A value that identifies a list element. Numbers are equal if they are numerically; values of different types have an
/// order, too.
#[derive(Debug, Clone)]
pub struct Scalar(pub Value);

impl Scalar {
    fn rank(&self) -> u8 {
        match self.0 {
            Value::Number(_) => 0,
            Value::String(_) => 1,
            Value::Bool(_) => 2,
            Value::Array(_) => 3,
            Value::Object(_) => 4,
            Value::Null => 5,
        }
    }
}

impl PartialEq for Scalar {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scalar {}

impl PartialOrd for Scalar {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Scalar {
    fn cmp(&self, other: &Self) -> Ordering {
        match (&self.0, &other.0) {
            (Value::Number(left), Value::Number(right)) => match (left.as_i64(), right.as_i64()) {
                (Some(left), Some(right)) => left.cmp(&right),
                _ => {
                    let float = |number: &serde_json::Number| number.as_f64().unwrap_or(f64::NAN);
                    float(left).total_cmp(&float(right))
                }
            },
            (Value::String(left), Value::String(right)) => left.cmp(right),
            (Value::Bool(left), Value::Bool(right)) => left.cmp(right),
            (Value::Array(_), Value::Array(_)) | (Value::Object(_), Value::Object(_)) => {
                gotext::json(&self.0).cmp(&gotext::json(&other.0))
            }
            _ => self.rank().cmp(&other.rank()),
        }
    }
}

impl PathElement {
    /// A field step.
    pub fn field(name: &str) -> Self {
        PathElement::Field(name.into())
    }

    /// The step as a key of `fieldsV1`: `f:name`, `k:{"name":"x"}`, `v:1` or `i:0`.
    pub fn encode(&self) -> String {
        match self {
            PathElement::Field(name) => ["f:", name].concat(),
            PathElement::Key(fields) => {
                let mut out = String::from("k:{");
                for (index, (name, value)) in fields.iter().enumerate() {
                    if index > 0 {
                        out.push(',');
                    }
                    gotext::write_json_string(name, &mut out);
                    out.push(':');
                    gotext::write_json(&value.0, &mut out);
                }
                out.push('}');
                out
            }
            PathElement::Value(value) => format!("v:{}", gotext::json(&value.0)),
            PathElement::Index(index) => format!("i:{index}"),
        }
    }

    /// Reads a key of `fieldsV1`. `Ok(None)` is a kind of step that only a newer version would know.
    pub fn decode(text: &str) -> Result<Option<Self>, String> {
        let (kind, rest) = text.split_at_checked(2).ok_or("key must be 2 characters long:")?;
        if !kind.ends_with(':') {
            return Err(format!("missing colon: {text}"));
        }
        Ok(Some(match kind {
            "f:" => PathElement::Field(rest.into()),
            "v:" => PathElement::Value(Scalar(serde_json::from_str(rest).map_err(|error| error.to_string())?)),
            "k:" => {
                let object: Map<String, Value> = serde_json::from_str(rest).map_err(|error| error.to_string())?;
                let mut fields: Vec<_> = object
                    .into_iter()
                    .map(|(name, value)| (name.into_boxed_str(), Scalar(value)))
                    .collect();
                fields.sort_by(|left, right| left.0.cmp(&right.0));
                PathElement::Key(fields)
            }
            "i:" => PathElement::Index(rest.parse().map_err(|_| format!("invalid index: {text}"))?),
            _ => return Ok(None),
        }))
    }
}

impl fmt::Display for PathElement {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PathElement::Field(name) => write!(out, ".{name}"),
            PathElement::Key(fields) => {
                let parts: Vec<String> = fields
                    .iter()
                    .map(|(name, value)| format!("{name}={}", show(&value.0)))
                    .collect();
                write!(out, "[{}]", parts.join(","))
            }
            PathElement::Value(value) => write!(out, "[={}]", show(&value.0)),
            PathElement::Index(index) => write!(out, "[{index}]"),
        }
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::String(text) => gotext::quote(text),
        other => gotext::json(other),
    }
}
