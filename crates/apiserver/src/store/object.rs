//! Stored objects: immutable, shared, already serialised, and packed.
//!
//! An object is kept as the JSON that lists and watches send, compressed, plus the few facts that selecting needs (labels,
//! selectable fields). A parsed tree of a pod is about ten times the size of its JSON, and its JSON is three to four times
//! the size of its packed form, because names, managed fields and conditions repeat themselves; unpacking costs a small part of
//! parsing. Whoever wants to look inside parses again. The revision is part of the JSON but is known only at commit, so a
//! [`Draft`] is serialised and packed without it before the lock is taken, and whoever unpacks splices the number in.

use std::cell::RefCell;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

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

/// What two states of an object share when they differ in nothing but the revision.
#[derive(Debug)]
struct Content {
    facts: Facts,
    /// The JSON without the digits of `metadata.resourceVersion`, compressed.
    packed: Box<[u8]>,
    /// How long it is unpacked.
    length: usize,
    /// Where the digits belong.
    digits_at: usize,
}

/// An object ready to be committed.
#[derive(Debug)]
pub struct Draft {
    content: Arc<Content>,
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
        let (json, digits_at) = serialise_around_revision(object);
        let content = Content {
            facts,
            packed: pack(&json),
            length: json.len(),
            digits_at,
        };
        Self {
            content: Arc::new(content),
        }
    }

    /// The object as of `revision`.
    pub(super) fn stamp(self, key: Key, revision: u64) -> Object {
        Object {
            key,
            revision,
            content: self.content,
        }
    }
}

const LINE_START: &[u8] = b"{\"type\":\"";
const LINE_MIDDLE: &[u8] = b"\",\"object\":";
const LINE_END: &[u8] = b"}\n";
/// More than the longest event type and what is around it.
pub(super) const LINE_OVERHEAD: usize = 40;

fn begin_line(line: &mut Vec<u8>, event: &str) {
    line.extend_from_slice(LINE_START);
    line.extend_from_slice(event.as_bytes());
    line.extend_from_slice(LINE_MIDDLE);
}

/// A watch event as one line of JSON.
pub fn frame(event: &str, object: &[u8]) -> Bytes {
    let mut line = Vec::with_capacity(object.len() + LINE_OVERHEAD);
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
    content: Arc<Content>,
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
        &self.content.facts
    }

    /// `metadata.uid`.
    pub fn uid(&self) -> &str {
        &self.content.facts.uid
    }

    /// The object as JSON.
    pub fn json(&self) -> Vec<u8> {
        let mut json = Vec::with_capacity(self.size());
        self.write_json(&mut json);
        json
    }

    /// Appends the object as JSON.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        let content = &*self.content;
        let digits = self.revision.to_string();
        let start = out.len();
        out.resize(start + content.length + digits.len(), 0);
        let json = &mut out[start..];
        lz4_flex::block::decompress_into(&content.packed, &mut json[..content.length])
            .expect("the store only holds what it packed itself");
        let digits_end = content.digits_at + digits.len();
        json.copy_within(content.digits_at..content.length, digits_end);
        json[content.digits_at..digits_end].copy_from_slice(digits.as_bytes());
    }

    /// At least as many bytes as the JSON has, and hardly more.
    pub fn size(&self) -> usize {
        const MOST_DIGITS: usize = 20;
        self.content.length + MOST_DIGITS
    }

    /// The watch event of that type about this state, as one line of JSON.
    pub(super) fn frame(&self, event: &str) -> Bytes {
        let mut line = Vec::with_capacity(self.size() + LINE_OVERHEAD);
        begin_line(&mut line, event);
        self.write_json(&mut line);
        line.extend_from_slice(LINE_END);
        line.into()
    }

    /// The object as a tree.
    pub fn value(&self) -> Value {
        serde_json::from_slice(&self.json()).expect("the store only holds JSON that it serialised itself")
    }

    /// The same state under another revision, as a DELETED event shows it.
    pub(super) fn restamped(&self, revision: u64) -> Self {
        Self {
            revision,
            ..self.clone()
        }
    }
}

/// Compresses, in a buffer that is kept: one for each object would be much larger than what is left of it.
fn pack(json: &[u8]) -> Box<[u8]> {
    /// Larger buffers are not kept.
    const LARGEST_KEPT: usize = 64 * 1024;
    thread_local! {
        static BUFFER: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
    }
    BUFFER.with_borrow_mut(|buffer| {
        let needed = lz4_flex::block::get_maximum_output_size(json.len());
        if buffer.len() < needed {
            buffer.resize(needed, 0);
        }
        let length = lz4_flex::block::compress_into(json, buffer).expect("as large as it may need to be");
        let packed = buffer[..length].into();
        if buffer.len() > LARGEST_KEPT {
            *buffer = Vec::new();
        }
        packed
    })
}

/// The JSON text without the digits of `metadata.resourceVersion`, and where they belong. Type and metadata come first.
fn serialise_around_revision(object: &Value) -> (Vec<u8>, usize) {
    let empty = serde_json::Map::new();
    let root = object.as_object().unwrap_or(&empty);
    let metadata = root.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    let mut json = Vec::with_capacity(2048);
    json.push(b'{');
    for name in ["apiVersion", "kind"] {
        if let Some(value) = root.get(name) {
            write_member(&mut json, name, value);
            json.push(b',');
        }
    }
    json.extend_from_slice(b"\"metadata\":{");
    for (name, value) in metadata.iter().filter(|(name, _)| *name != "resourceVersion") {
        write_member(&mut json, name, value);
        json.push(b',');
    }
    json.extend_from_slice(b"\"resourceVersion\":\"");
    let digits_at = json.len();
    json.extend_from_slice(b"\"}");
    for (name, value) in root
        .iter()
        .filter(|(name, _)| !matches!(name.as_str(), "apiVersion" | "kind" | "metadata"))
    {
        json.push(b',');
        write_member(&mut json, name, value);
    }
    json.push(b'}');
    (json, digits_at)
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
        let stored = Draft::new(&object, Texts::default()).stamp(Key::new("ns", "a"), 42);
        let mut expected = object;
        expected["metadata"]["resourceVersion"] = json!("42");
        assert_eq!(stored.value(), expected);
        assert!((stored.json().len()..stored.json().len() + 20).contains(&stored.size()));
        assert_eq!(stored.uid(), "u");
        assert_eq!(stored.facts().labels.get("a"), Some("1"));
        assert_eq!(stored.frame("ADDED"), frame("ADDED", &stored.json()));
        expected["metadata"]["resourceVersion"] = json!("1000");
        assert_eq!(stored.restamped(1000).value(), expected);
    }

    #[test]
    fn objects_of_any_size_come_back_as_they_were() {
        for size in [0, 1, 10_000, 1_000_000, 100] {
            let text: String = (0..size)
                .map(|number| char::from(b'a' + (number % 89 % 26) as u8))
                .collect();
            let object = json!({"kind": "ConfigMap", "metadata": {"resourceVersion": "7"}, "data": {"text": text}});
            let stored = Draft::new(&object, Texts::default()).stamp(Key::new("ns", "a"), 7);
            assert!(stored.value() == object, "{size}");
        }
    }

    #[test]
    fn keys_split_into_namespace_and_name() {
        let key = Key::new("ns", "a");
        assert_eq!((key.namespace(), key.name()), ("ns", "a"));
        let key = Key::new("", "node");
        assert_eq!((key.namespace(), key.name()), ("", "node"));
    }
}
