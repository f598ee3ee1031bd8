//! The reference definitions as they are served today: those at hand, with what changed since they were published.
//!
//! The changes are listed in `fixtures/reference-since.txt` of the API crate. Those that ours do not follow on purpose
//! (`fixtures/allowed-differences.txt`) are left out: the comparison is about everything else.

use std::path::Path;

use serde_json::{Value, json};

const SINCE: &str = include_str!("../../../api/fixtures/reference-since.txt");
const MEANT: &str = include_str!("../../../api/fixtures/allowed-differences.txt");

/// The definitions of a directory, and of the one beside it with what was added later.
pub fn definitions(directory: &Path, read: impl Fn(&Path) -> Vec<Value>) -> Vec<Value> {
    let mut definitions = read(directory);
    let later = directory.join("../grove-crds-alpha13");
    if later.is_dir() {
        definitions.extend(read(&later));
    }
    for line in lines(SINCE) {
        apply(line, &mut definitions);
    }
    definitions
}

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn is_meant(path: &str) -> bool {
    lines(MEANT).any(|line| {
        let pattern = line.split_once(" | ").map_or(line, |(pattern, _)| pattern);
        let pattern = pattern.split_once(' ').map_or(pattern, |(_, path)| path);
        match pattern.split_once('*') {
            None => path == pattern,
            Some((start, end)) => path.starts_with(start) && path.contains(end) && !end.is_empty(),
        }
    })
}

/// Carries out one line; columns are not part of any comparison of objects.
fn apply(line: &str, definitions: &mut [Value]) {
    let (sign, rest) = line.split_once(' ').expect("a sign and a path");
    let (path, facts) = rest.split_once(' ').unwrap_or((rest, ""));
    if path.contains("/column:") || is_meant(path) {
        return;
    }
    let mut segments = path.split('/');
    let (name, _version) = (segments.next().expect("a definition"), segments.next());
    let mut segments: Vec<&str> = segments.collect();
    let last = segments.pop().expect("a field");
    let definition = definitions
        .iter_mut()
        .find(|definition| definition["metadata"]["name"] == name)
        .unwrap_or_else(|| panic!("{line}: no such definition"));
    let mut parent = &mut definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    for segment in segments {
        parent = match segment {
            "[]" => &mut parent["items"],
            field => &mut parent["properties"][field],
        };
    }
    match (sign, last) {
        ("-", field) => {
            if let Some(properties) = parent["properties"].as_object_mut() {
                properties.remove(field);
            }
        }
        (_, "[]") => parent["items"] = schema(facts),
        (_, field) => {
            parent["properties"][field] = schema(facts);
            if let Some(required) = parent["required"].as_array_mut() {
                required.retain(|required| required != field);
            }
        }
    }
}

/// A type with its format, then facts such as `default="a"` and `enum=["a","b"]`, in JSON without blanks.
fn schema(facts: &str) -> Value {
    let mut facts = facts.split_whitespace();
    let kind = facts.next().unwrap_or_default();
    let (kind, format) = kind.split_once('/').unwrap_or((kind, ""));
    let mut schema = json!({ "type": kind });
    if !format.is_empty() {
        schema["format"] = json!(format);
    }
    for fact in facts {
        let (name, value) = fact.split_once('=').expect("a name and a value");
        schema[name] = serde_json::from_str(value).expect("a value in JSON");
    }
    schema
}

#[test]
fn a_line_changes_the_schema_it_names() {
    let definition = |schema: Value| json!({"metadata": {"name": "podgangs.scheduler.grove.io"}, "spec": {"versions": [{"schema": {"openAPIV3Schema": schema}}]}});
    let mut definitions = vec![definition(json!({"properties": {"status": {
        "required": ["phase"], "properties": {"phase": {"type": "string"}, "old": {"type": "string"}},
    }}}))];
    for line in [
        "+ podgangs.scheduler.grove.io/v1alpha1/status/lastReady string/date-time",
        "+ podgangs.scheduler.grove.io/v1alpha1/status/names array",
        "+ podgangs.scheduler.grove.io/v1alpha1/status/names/[] string",
        "~ podgangs.scheduler.grove.io/v1alpha1/status/phase string default=\"a\" enum=[\"a\",\"b\"]",
        "- podgangs.scheduler.grove.io/v1alpha1/status/old",
    ] {
        apply(line, &mut definitions);
    }
    let expected = definition(json!({"properties": {"status": {"required": [], "properties": {
        "phase": {"type": "string", "default": "a", "enum": ["a", "b"]}, "lastReady": {"type": "string", "format": "date-time"},
        "names": {"type": "array", "items": {"type": "string"}},
    }}}}));
    assert_eq!(definitions, [expected]);
    assert!(is_meant("podcliques.grove.io/v1alpha1/spec/minAvailable"));
    assert!(!is_meant("podgangs.scheduler.grove.io/v1alpha1/status/phase"));
}
