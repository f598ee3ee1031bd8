//! Stored objects: immutable, shared, already serialised.
//!
//! An object is kept as the JSON bytes that lists and watches send, inside the line that most watchers get, plus the few
//! facts that selecting needs (labels, selectable fields). A parsed tree of a pod is about ten times the size of its JSON, so none is kept; whoever wants
//! to look inside parses again. The revision is part of the bytes but is known only at commit, so a [`Draft`] is
//! serialised before the lock is taken and the commit only splices the number in.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use super::history::EventType;
use super::texts::Texts;

/// The place of an object within its resource: `namespace/name`, or `name` for cluster-scoped resources.
///
/// Ordered as one string, as the keys of a real cluster's storage are, so that lists come in the same order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(Arc<str>);

impl Key {
    /// The key of an object; an empty namespace means cluster-scoped.
    pub fn new(namespace: &str, name: &str) -> Self {
        if namespace.is_empty() {
            Self(name.into())
        } else {
            Self(format!("{namespace}/{name}").into())
        }
    }

    /// A key from its text, for continue tokens.
    pub fn from_text(text: &str) -> Self {
        Self(text.into())
    }

    /// The whole key.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The namespace, empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name.
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or(&self.0, |(_, name)| name)
    }
}

impl std::fmt::Display for Key {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The facts of an object that selectors ask for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// Labels.
    pub labels: Texts,
    /// Selectable fields beside `metadata.name` and `metadata.namespace`, as the kind defines them.
    pub fields: Texts,
    /// `metadata.uid`.
    pub uid: Box<str>,
}

/// An object ready to be committed.
#[derive(Clone, Debug)]
pub struct Draft {
    before: Vec<u8>,
    after: Vec<u8>,
    facts: Facts,
}

impl Draft {
    /// Serialises `object`, whose `metadata.resourceVersion` will be replaced. `fields` are its selectable fields.
    pub fn new(object: &Value, fields: Texts) -> Self {
        let metadata = object.get("metadata");
        let text = |name: &str| metadata.and_then(|metadata| metadata.get(name)).and_then(Value::as_str);
        let labels = metadata
            .and_then(|metadata| metadata.get("labels"))
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()));
        let facts = Facts {
            labels: labels.collect(),
            fields,
            uid: text("uid").unwrap_or_default().into(),
        };
        let (before, after) = serialise_around_revision(object);
        Self { before, after, facts }
    }

    /// The object as of `revision`, inside the line that tells most watchers of it.
    pub(super) fn stamp(self, key: Key, revision: u64, event: EventType) -> Object {
        let digits = revision.to_string();
        let json = self.before.len() + digits.len() + self.after.len();
        let around = LINE_START.len() + event.as_str().len() + LINE_MIDDLE.len() + LINE_END.len();
        let mut line = Vec::with_capacity(around + json);
        begin_line(&mut line, event.as_str());
        let start = line.len();
        line.extend_from_slice(&self.before);
        let revision_at = line.len() - start..line.len() - start + digits.len();
        line.extend_from_slice(digits.as_bytes());
        line.extend_from_slice(&self.after);
        line.extend_from_slice(LINE_END);
        Object {
            key,
            revision,
            facts: self.facts,
            line: line.into(),
            event,
            start,
            revision_at,
        }
    }
}

const LINE_START: &[u8] = b"{\"type\":\"";
const LINE_MIDDLE: &[u8] = b"\",\"object\":";
const LINE_END: &[u8] = b"}\n";

fn begin_line(line: &mut Vec<u8>, event: &str) {
    line.extend_from_slice(LINE_START);
    line.extend_from_slice(event.as_bytes());
    line.extend_from_slice(LINE_MIDDLE);
}

/// A watch event as one line of JSON.
pub fn frame(event: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + 40);
    begin_line(&mut line, event);
    line.extend_from_slice(object);
    line.extend_from_slice(LINE_END);
    line.into()
}

/// A committed state of an object.
#[derive(Clone, Debug)]
pub struct Object {
    key: Key,
    revision: u64,
    facts: Facts,
    line: Bytes,
    event: EventType,
    start: usize,
    revision_at: Range<usize>,
}

impl Object {
    /// Where the object lives.
    pub fn key(&self) -> &Key {
        &self.key
    }

    /// The revision that wrote this state; the object's `resourceVersion`.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// What selectors ask for.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        &self.facts.uid
    }

    /// The object as JSON, shared.
    pub fn json(&self) -> Bytes {
        self.line.slice(self.start..self.line.len() - LINE_END.len())
    }

    /// The object as JSON, borrowed.
    pub fn json_text(&self) -> &[u8] {
        &self.line[self.start..self.line.len() - LINE_END.len()]
    }

    /// The watch event of that type about this state, when it is the one that the commit of this state causes for whoever
    /// watched before.
    pub(super) fn frame(&self, event: EventType) -> Option<Bytes> {
        (self.event == event).then(|| self.line.clone())
    }

    /// The object as a tree.
    pub fn value(&self) -> Value {
        serde_json::from_slice(self.json_text()).expect("the store only holds JSON that it serialised itself")
    }

    /// The same state under another revision, as a DELETED event shows it.
    pub(super) fn restamped(&self, revision: u64) -> Self {
        let json = self.json_text();
        let draft = Draft {
            before: json[..self.revision_at.start].to_vec(),
            after: json[self.revision_at.end..].to_vec(),
            facts: self.facts.clone(),
        };
        draft.stamp(self.key.clone(), revision, EventType::Deleted)
    }
}

/// The JSON text before and after the digits of `metadata.resourceVersion`, type and metadata first.
fn serialise_around_revision(object: &Value) -> (Vec<u8>, Vec<u8>) {
    let empty = serde_json::Map::new();
    let root = object.as_object().unwrap_or(&empty);
    let metadata = root.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let mut before = Vec::with_capacity(1024);
    before.push(b'{');
    for name in ["apiVersion", "kind"] {
        if let Some(value) = root.get(name) {
            write_member(&mut before, name, value);
            before.push(b',');
        }
    }
    before.extend_from_slice(b"\"metadata\":{");
    for (name, value) in metadata.iter().filter(|(name, _)| *name != "resourceVersion") {
        write_member(&mut before, name, value);
        before.push(b',');
    }
    before.extend_from_slice(b"\"resourceVersion\":\"");
    let mut after = Vec::with_capacity(1024);
    after.extend_from_slice(b"\"}");
    for (name, value) in root
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"))
    {
        after.push(b',');
        write_member(&mut after, name, value);
    }
    after.push(b'}');
    (before, after)
}

fn write_member(out: &mut Vec<u8>, name: &str, value: &Value) {
    serde_json::to_writer(&mut *out, name).expect("writing to memory cannot fail");
    out.push(b':');
    serde_json::to_writer(&mut *out, value).expect("writing to memory cannot fail");
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_revision_is_spliced_into_the_json() {
        let object = json!({"kind": "Pod", "apiVersion": "v1", "spec": {"resourceVersion": "x"},
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "old", "labels": {"b": "2", "a": "1"}}});
        let stored = Draft::new(&object, Texts::default()).stamp(Key::new("ns", "a"), 42, EventType::Added);
        let mut expected = object;
        expected["metadata"]["resourceVersion"] = json!("42");
        assert_eq!(stored.value(), expected);
        assert_eq!(stored.uid(), "u");
        assert_eq!(stored.facts().labels.get("a"), Some("1"));
        let line = stored.frame(EventType::Added).unwrap();
        assert_eq!(line, frame("ADDED", &stored.json()));
        assert_eq!(stored.frame(EventType::Modified), None);
        expected["metadata"]["resourceVersion"] = json!("1000");
        assert_eq!(stored.restamped(1000).value(), expected);
    }

    #[test]
    fn keys_split_into_namespace_and_name() {
        let key = Key::new("ns", "a");
        assert_eq!((key.namespace(), key.name()), ("ns", "a"));
        let key = Key::new("", "node");
        assert_eq!((key.namespace(), key.name()), ("", "node"));
    }
}
