//! Decoding request bodies: what a plain JSON reader does not notice.
//!
//! [`decode`] finds fields that are stated twice, which strict field validation reports. [`type_mismatch`] says how an
//! object of a built-in kind fails to be one, in the words of the reference's decoder. Neither changes the value.

use std::cell::RefCell;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::model::{Cursor, MapValues, Type};
use crate::path::Path;

/// Reads JSON. Of a field that is stated twice the last value counts; the paths of such fields are returned beside it.
pub fn decode(text: &[u8]) -> Result<(Value, Vec<String>), serde_json::Error> {
    let duplicates = RefCell::new(Vec::new());
    let mut reader = serde_json::Deserializer::from_slice(text);
    let value = Seed {
        path: &Path::ROOT,
        duplicates: &duplicates,
    }
    .deserialize(&mut reader)?;
    reader.end()?;
    Ok((value, duplicates.into_inner()))
}

#[derive(Clone, Copy)]
struct Seed<'a> {
    path: &'a Path<'a>,
    duplicates: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;

    fn deserialize<D: serde::Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("any JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value)
            .map(Value::Number)
            .ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut out = Vec::new();
        loop {
            let path = self.path.index(out.len());
            match list.next_element_seed(Seed { path: &path, ..self })? {
                Some(value) => out.push(value),
                None => return Ok(Value::Array(out)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut out = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            let path = self.path.field(&name);
            let value = fields
                .next_value_seed(Seed { path: &path, ..self })
                .map_err(A::Error::custom)?;
            if out.contains_key(&name) {
                self.duplicates.borrow_mut().push(path.to_dotted());
            }
            out.insert(name, value);
        }
        Ok(Value::Object(out))
    }
}

/// How the object fails to be of the built-in type, by the first mistake: `json: cannot unmarshal string into Go struct
/// field DeploymentSpec.spec.replicas of type int32`. Types of strings are plain strings here; nulls fit everywhere.
pub fn type_mismatch(at: Cursor<'_>, value: &Value) -> Option<String> {
    mismatch(at, value, &Path::ROOT, "")
}

fn mismatch(at: Cursor<'_>, value: &Value, path: &Path<'_>, owner: &str) -> Option<String> {
    let node = at.node();
    let fits = match (node.ty, value) {
        (_, Value::Null)
        | (Type::Any, _)
        | (Type::Object, Value::Object(_))
        | (Type::Array, Value::Array(_))
        | (Type::String, Value::String(_))
        | (Type::Boolean, Value::Bool(_))
        | (Type::Number, Value::Number(_))
        | (Type::IntOrString | Type::Quantity, Value::String(_) | Value::Number(_)) => true,
        (Type::Integer, Value::Number(number)) => match (number.as_i64(), node.format.as_deref()) {
            (Some(whole), Some("int32")) => i32::try_from(whole).is_ok(),
            (whole, _) => whole.is_some(),
        },
        _ => false,
    };
    if !fits {
        let found = match value {
            Value::Number(number) if node.ty == Type::Integer => format!("number {number}"),
            other => json_kind(other).to_owned(),
        };
        let target = go_type(at);
        let field = path.to_dotted_names();
        return Some(if owner.is_empty() {
            format!("json: cannot unmarshal {found} into Go value of type {target}")
        } else {
            format!("json: cannot unmarshal {found} into Go struct field {owner}.{field} of type {target}")
        });
    }
    match value {
        Value::Object(map) => {
            let owner = node.name.as_deref().map_or(owner, short_name);
            map.iter().find_map(|(name, child)| {
                let slot = at.field_slot(name)?;
                let step = if node.field(name).is_some() {
                    path.field(name)
                } else {
                    path.key(name)
                };
                mismatch(at.at(slot), child, &step, owner)
            })
        }
        Value::Array(list) => {
            let items = at.items()?;
            list.iter()
                .enumerate()
                .find_map(|(index, one)| mismatch(items, one, &path.index(index), owner))
        }
        _ => None,
    }
}

fn json_kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The last part of a definition name: `PodSpec`.
fn short_name(name: &str) -> &str {
    name.rsplit('.').next().unwrap_or(name)
}

fn go_type(at: Cursor<'_>) -> String {
    let node = at.node();
    if let (Some(name), Type::Object | Type::IntOrString | Type::Quantity) = (&node.name, node.ty) {
        let mut parts = name.rsplit('.');
        let (kind, package) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        return format!("{package}.{kind}");
    }
    match (node.ty, node.format.as_deref()) {
        (Type::String, Some("date-time")) => "v1.Time".to_owned(),
        (Type::String, _) => "string".to_owned(),
        (Type::Boolean, _) => "bool".to_owned(),
        (Type::Integer, Some(format)) => format.to_owned(),
        (Type::Integer, None) => "int".to_owned(),
        (Type::Number, _) => "float64".to_owned(),
        (Type::Array, _) => format!("[]{}", at.items().map_or_else(String::new, go_type)),
        (Type::Object, _) => match &node.values {
            Some(MapValues::Typed(slot)) => format!("map[string]{}", go_type(at.at(slot))),
            _ => "map[string]interface {}".to_owned(),
        },
        (Type::Any | Type::IntOrString | Type::Quantity, _) => "interface {}".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::assets::kubernetes;
    use crate::model::GroupVersionKind;

    #[test]
    fn repeated_fields_are_found_and_the_last_one_counts() {
        let text =
            br#"{"a": 1, "b": [{"c": 1, "c": {"d": 2, "d": 3}}], "a": 2.5, "n": null, "t": true, "s": "x", "i": -1}"#;
        let (value, duplicates) = decode(text).unwrap();
        assert_eq!(duplicates, ["b[0].c.d", "b[0].c", "a"]);
        assert_eq!(
            value,
            json!({"a": 2.5, "b": [{"c": {"d": 3}}], "n": null, "t": true, "s": "x", "i": -1})
        );
        assert!(decode(b"{} x").is_err());
        assert!(decode(b"{\"a\":").is_err());
    }

    #[test]
    fn whole_numbers_stay_exact() {
        let (value, _) = decode(b"[9007199254740993, 18446744073709551615]").unwrap();
        assert_eq!(value.to_string(), "[9007199254740993,18446744073709551615]");
    }

    #[test]
    fn mismatches_read_like_the_decoder() {
        let deployment = kubernetes()
            .kind(&GroupVersionKind::new("apps", "v1", "Deployment"))
            .unwrap();
        let cases = [
            (
                json!({"spec": {"replicas": "3"}}),
                Some("string into Go struct field DeploymentSpec.spec.replicas of type int32"),
            ),
            (
                json!({"spec": {"replicas": 3_000_000_000_u64}}),
                Some("number 3000000000 into Go struct field DeploymentSpec.spec.replicas of type int32"),
            ),
            (
                json!({"spec": {"template": {"spec": {"containers": [{"name": 1}]}}}}),
                Some("number into Go struct field Container.spec.template.spec.containers.name of type string"),
            ),
            (
                json!({"spec": {"template": {"spec": {"containers": {}}}}}),
                Some("object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container"),
            ),
            (
                json!({"metadata": {"labels": {"a": 1}}}),
                Some("number into Go struct field ObjectMeta.metadata.labels of type string"),
            ),
            (
                json!({"metadata": []}),
                Some("array into Go struct field Deployment.metadata of type v1.ObjectMeta"),
            ),
            (json!([]), Some("array into Go value of type v1.Deployment")),
            (json!({"spec": {"replicas": null, "paused": true}}), None),
        ];
        for (value, expected) in cases {
            let expected = expected.map(|words| format!("json: cannot unmarshal {words}"));
            assert_eq!(type_mismatch(deployment, &value), expected, "{value}");
        }
    }
}
