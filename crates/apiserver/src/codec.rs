//! Reading request bodies: JSON and YAML into trees, exactly.
//!
//! Integers stay integers. A key that appears twice keeps its last value, as the real server does, and is reported,
//! because strict field validation refuses it. At most [`MOST_DUPLICATES`] are reported, as by the real server: a body
//! can be full of them.

use std::cell::RefCell;

use coppice_schema::path::Path;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// How many duplicate keys of one body are reported.
const MOST_DUPLICATES: usize = 100;

/// A parsed body.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Parsed {
    /// The tree.
    pub(crate) value: Value,
    /// Paths of keys that appear more than once.
    pub(crate) duplicates: Vec<String>,
}

/// Parses JSON.
pub(crate) fn parse_json(bytes: &[u8]) -> Result<Parsed, String> {
    let duplicates = RefCell::new(Vec::new());
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Tree {
        path: &Path::ROOT,
        duplicates: &duplicates,
    }
    .deserialize(&mut deserializer)
    .and_then(|value| deserializer.end().map(|()| value))
    .map_err(|error| {
        if error.is_eof() {
            "unexpected end of JSON input".to_owned()
        } else {
            error.to_string()
        }
    })?;
    Ok(Parsed {
        value,
        duplicates: duplicates.into_inner(),
    })
}

/// Parses YAML (or JSON, which is YAML).
pub(crate) fn parse_yaml(bytes: &[u8]) -> Result<Parsed, String> {
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    if text.trim_start().starts_with('{')
        && let Ok(parsed) = parse_json(bytes)
    {
        return Ok(parsed);
    }
    let value: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    Ok(Parsed {
        value,
        duplicates: Vec::new(),
    })
}

#[derive(Clone, Copy)]
struct Tree<'d> {
    path: &'d Path<'d>,
    duplicates: &'d RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let path = self.path.index(items.len());
            let Some(item) = sequence.next_element_seed(Tree { path: &path, ..self })? else {
                return Ok(Value::Array(items));
            };
            items.push(item);
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        let mut members = Map::new();
        while let Some(name) = access.next_key::<String>()? {
            let path = self.path.field(&name);
            if members.contains_key(&name) && self.duplicates.borrow().len() < MOST_DUPLICATES {
                let path = path.to_dotted();
                let mut duplicates = self.duplicates.borrow_mut();
                if !duplicates.contains(&path) {
                    duplicates.push(path);
                }
            }
            let value = access.next_value_seed(Tree { path: &path, ..self })?;
            members.insert(name, value);
        }
        Ok(Value::Object(members))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn large_integers_stay_exact() {
        let parsed = parse_json(br#"{"a": 9007199254740993, "b": -9223372036854775808}"#).unwrap();
        assert_eq!(parsed.value["a"], json!(9_007_199_254_740_993_i64));
        assert_eq!(parsed.value["b"], json!(i64::MIN));
    }

    #[test]
    fn duplicate_keys_are_reported_with_their_path() {
        let parsed = parse_json(br#"{"a": [{"b": 1, "b": 2, "b": 3}], "c": 1, "c": 2}"#).unwrap();
        assert_eq!(parsed.duplicates, ["a[0].b", "c"]);
        assert_eq!(parsed.value, json!({"a": [{"b": 3}], "c": 2}));
    }

    #[test]
    fn a_body_full_of_duplicate_keys_is_reported_in_part() {
        let keys: Vec<String> = (0..1000)
            .map(|number| format!("\"k{number}\": 1, \"k{number}\": 2"))
            .collect();
        let parsed = parse_json(format!("{{{}}}", keys.join(", ")).as_bytes()).unwrap();
        assert_eq!(parsed.duplicates.len(), MOST_DUPLICATES);
        assert_eq!(parsed.value.as_object().unwrap().len(), 1000);
        assert_eq!(parsed.value["k999"], 2);
    }

    #[test]
    fn yaml_and_json_are_both_read_as_yaml() {
        assert_eq!(
            parse_yaml(b"a: 1\nb: [x, \"2\"]\n").unwrap().value,
            json!({"a": 1, "b": ["x", "2"]})
        );
        assert_eq!(parse_yaml(b"{\"a\": 1}").unwrap().value, json!({"a": 1}));
        assert!(parse_yaml(b"a: [").is_err());
    }

    #[test]
    fn broken_json_is_refused() {
        assert!(parse_json(b"{").is_err());
        assert!(parse_json(b"{} x").is_err());
    }
}
