//! Dotted paths into objects, such as `spec.containers[name=main].image` or `metadata.labels[app.kubernetes.io/name]`.
//! Owns the grammar and the reading and writing through it; knows nothing of Kubernetes.
//!
//! A path is a list of names separated by dots. Brackets after a name select within a list or mapping: `[0]` an element
//! by position, `[*]` every element, `[key=value]` every element whose `key` has that value, and anything else (in
//! quotes where it holds `=`, `*` or only digits) an entry by name, for names that contain dots.

use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A parsed path. Ordered and shown by its text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct FieldPath {
    text: String,
    segments: Vec<Segment>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Entry(String),
    Position(usize),
    Each,
    With { key: String, value: String },
}

impl FieldPath {
    /// Every value the path leads to; none when it leads nowhere.
    pub fn select<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![root];
        for segment in &self.segments {
            found = found.into_iter().flat_map(|value| segment.select(value)).collect();
        }
        found
    }

    /// Puts a value where the path leads, making mappings on the way. Fails when a position or an element that the
    /// path selects is not there, because nobody could know what to make instead.
    pub fn set(&self, root: &mut Value, new: &Value) -> Result<(), String> {
        let (last, parents) = self.segments.split_last().expect("the parser refuses empty paths");
        let mut parent = root;
        for segment in parents {
            parent = segment
                .enter(parent)
                .ok_or_else(|| format!("`{self}` leads nowhere at {segment}"))?;
        }
        let place = last
            .enter(parent)
            .ok_or_else(|| format!("`{self}` leads nowhere at {last}"))?;
        *place = new.clone();
        Ok(())
    }

    /// Takes away what the path leads to; whether there was anything.
    pub fn remove(&self, root: &mut Value) -> bool {
        let (last, parents) = self.segments.split_last().expect("the parser refuses empty paths");
        let mut parent = root;
        for segment in parents {
            match segment.enter_existing(parent) {
                Some(next) => parent = next,
                None => return false,
            }
        }
        match (last, parent) {
            (Segment::Entry(name), Value::Object(entries)) => entries.remove(name).is_some(),
            (Segment::Position(position), Value::Array(elements)) if *position < elements.len() => {
                elements.remove(*position);
                true
            }
            (Segment::With { key, value }, Value::Array(elements)) => {
                let before = elements.len();
                elements.retain(|element| !has(element, key, value));
                elements.len() < before
            }
            _ => false,
        }
    }
}

fn has(element: &Value, key: &str, value: &str) -> bool {
    element.get(key).is_some_and(|found| {
        let text = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
        text == value
    })
}

impl Segment {
    fn select<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        match (self, value) {
            (Self::Entry(name), Value::Object(entries)) => entries.get(name).into_iter().collect(),
            (Self::Position(position), Value::Array(elements)) => elements.get(*position).into_iter().collect(),
            (Self::Each, Value::Array(elements)) => elements.iter().collect(),
            (Self::Each, Value::Object(entries)) => entries.values().collect(),
            (Self::With { key, value }, Value::Array(elements)) => {
                elements.iter().filter(|element| has(element, key, value)).collect()
            }
            _ => Vec::new(),
        }
    }

    fn enter_existing<'a>(&self, value: &'a mut Value) -> Option<&'a mut Value> {
        match (self, value) {
            (Self::Entry(name), Value::Object(entries)) => entries.get_mut(name),
            (Self::Position(position), Value::Array(elements)) => elements.get_mut(*position),
            (Self::With { key, value }, Value::Array(elements)) => {
                elements.iter_mut().find(|element| has(element, key, value))
            }
            _ => None,
        }
    }

    fn enter<'a>(&self, value: &'a mut Value) -> Option<&'a mut Value> {
        if let Self::Entry(name) = self {
            if value.is_null() {
                *value = Value::Object(serde_json::Map::new());
            }
            return value
                .as_object_mut()
                .map(|entries| entries.entry(name.clone()).or_insert(Value::Null));
        }
        self.enter_existing(value)
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl fmt::Display for Segment {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entry(name) => write!(formatter, "`{name}`"),
            Self::Position(position) => write!(formatter, "[{position}]"),
            Self::Each => formatter.write_str("[*]"),
            Self::With { key, value } => write!(formatter, "[{key}={value}]"),
        }
    }
}

impl FromStr for FieldPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |why: &str| format!("`{text}` is not a path: {why}");
        let mut segments = Vec::new();
        let mut rest = text;
        loop {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (name, tail) = rest.split_at(end);
            if name.is_empty() {
                return Err(bad("a name is missing"));
            }
            segments.push(Segment::Entry(name.to_owned()));
            rest = tail;
            while let Some(inner) = rest.strip_prefix('[') {
                let end = inner.find(']').ok_or_else(|| bad("a bracket is not closed"))?;
                segments.push(bracket(&inner[..end]).ok_or_else(|| bad("empty brackets"))?);
                rest = &inner[end + 1..];
            }
            match rest.strip_prefix('.') {
                Some(next) => rest = next,
                None if rest.is_empty() => break,
                None => return Err(bad("after a bracket comes a dot or another bracket")),
            }
        }
        Ok(Self {
            text: text.to_owned(),
            segments,
        })
    }
}

fn bracket(inner: &str) -> Option<Segment> {
    let unquoted = inner
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'))
        .or_else(|| inner.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')));
    match (unquoted, inner) {
        (_, "") => None,
        (Some(name), _) => Some(Segment::Entry(name.to_owned())),
        (None, "*") => Some(Segment::Each),
        (None, inner) => Some(match (inner.parse(), inner.split_once('=')) {
            (Ok(position), _) => Segment::Position(position),
            (_, Some((key, value))) => Segment::With {
                key: key.to_owned(),
                value: value.to_owned(),
            },
            _ => Segment::Entry(inner.to_owned()),
        }),
    }
}

impl<'de> Deserialize<'de> for FieldPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn path(text: &str) -> FieldPath {
        text.parse().unwrap()
    }

    fn object() -> Value {
        json!({
            "metadata": {"labels": {"app.kubernetes.io/name": "web", "0": "zero"}},
            "spec": {"containers": [{"name": "a", "image": "x"}, {"name": "b", "image": "y", "port": 80}]},
        })
    }

    #[test]
    fn paths_select_entries_positions_and_elements() {
        let object = object();
        for (text, expected) in [
            ("metadata.labels[app.kubernetes.io/name]", vec![json!("web")]),
            ("metadata.labels['0']", vec![json!("zero")]),
            ("spec.containers[1].image", vec![json!("y")]),
            ("spec.containers[*].image", vec![json!("x"), json!("y")]),
            ("spec.containers[name=b].image", vec![json!("y")]),
            ("spec.containers[port=80].name", vec![json!("b")]),
            ("spec.containers[name=c].image", vec![]),
            ("spec.missing.deeper", vec![]),
            ("spec.containers.image", vec![]),
        ] {
            assert_eq!(
                path(text).select(&object).into_iter().cloned().collect::<Vec<_>>(),
                expected,
                "{text}"
            );
        }
    }

    #[test]
    fn setting_makes_mappings_on_the_way_but_no_list_elements() {
        let mut object = object();
        path("metadata.annotations[a.b/c]")
            .set(&mut object, &json!("d"))
            .unwrap();
        path("spec.containers[name=b].image")
            .set(&mut object, &json!("z"))
            .unwrap();
        assert_eq!(object["metadata"]["annotations"]["a.b/c"], "d");
        assert_eq!(object["spec"]["containers"][1]["image"], "z");
        let error = path("spec.containers[name=c].image")
            .set(&mut object, &json!("z"))
            .unwrap_err();
        assert!(error.contains("[name=c]"), "{error}");
    }

    #[test]
    fn removing_says_whether_there_was_anything() {
        let mut object = object();
        assert!(path("spec.containers[name=a]").remove(&mut object));
        assert!(path("metadata.labels['0']").remove(&mut object));
        assert!(!path("metadata.labels.none").remove(&mut object));
        assert_eq!(
            object["spec"]["containers"],
            json!([{"name": "b", "image": "y", "port": 80}])
        );
    }

    #[test]
    fn what_is_no_path_is_refused_with_the_reason() {
        for (text, reason) in [
            ("", "a name is missing"),
            ("a..b", "a name is missing"),
            (".a", "a name is missing"),
            ("a[", "not closed"),
            ("a[]", "empty brackets"),
            ("a[0]b", "after a bracket"),
        ] {
            let error = text.parse::<FieldPath>().unwrap_err();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
