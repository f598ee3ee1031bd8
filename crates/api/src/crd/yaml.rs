//! A small, deterministic YAML writer for JSON documents.
//!
//! Keys are sorted, so equal documents give equal text whatever order they were built in. Short collections stay on
//! one line, which keeps deep schemas small and readable. Strings that YAML could take for something else are
//! quoted.

use std::fmt::Write;

use serde_json::{Map, Value};

/// The longest collection that is written on one line.
const SHORT: usize = 100;

/// Appends a document.
pub(super) fn write(out: &mut String, document: &Value) {
    block(out, document, 0);
}

fn block(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in sorted(map) {
                let _ = write!(out, "{:indent$}", "");
                entry(out, key, value, indent);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            for item in list {
                let _ = write!(out, "{:indent$}- ", "");
                match flow(item) {
                    Some(text) => {
                        out.push_str(&text);
                        out.push('\n');
                    }
                    None => item_block(out, item, indent + 2),
                }
            }
        }
        scalar => {
            let text = flow(scalar).expect("a scalar or an empty collection fits on any line");
            let _ = writeln!(out, "{:indent$}{text}", "");
        }
    }
}

/// The first entry of a map shares the line with the dash.
fn item_block(out: &mut String, item: &Value, indent: usize) {
    let Value::Object(map) = item else {
        out.push('\n');
        return block(out, item, indent);
    };
    for (position, (key, value)) in sorted(map).into_iter().enumerate() {
        if position > 0 {
            let _ = write!(out, "{:indent$}", "");
        }
        entry(out, key, value, indent);
    }
}

fn entry(out: &mut String, key: &str, value: &Value, indent: usize) {
    let key = scalar_text(key);
    match flow(value) {
        Some(text) => {
            let _ = writeln!(out, "{key}: {text}");
        }
        None => {
            let _ = writeln!(out, "{key}:");
            // A list may stand at the indentation of its key.
            let deeper = if value.is_array() { indent } else { indent + 2 };
            block(out, value, deeper);
        }
    }
}

/// The value on one line: always for scalars, for collections when they are short.
fn flow(value: &Value) -> Option<String> {
    let text = match value {
        Value::String(text) => return Some(scalar_text(text)),
        Value::Array(list) => {
            let items: Option<Vec<_>> = list.iter().map(flow).collect();
            format!("[{}]", items?.join(", "))
        }
        Value::Object(map) => {
            let entries = sorted(map).into_iter();
            let entries = entries.map(|(key, value)| Some(format!("{}: {}", scalar_text(key), flow(value)?)));
            format!("{{{}}}", entries.collect::<Option<Vec<_>>>()?.join(", "))
        }
        scalar => return Some(scalar.to_string()),
    };
    (text.len() <= SHORT).then_some(text)
}

fn sorted(map: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut entries: Vec<_> = map.iter().collect();
    entries.sort_unstable_by_key(|(key, _)| *key);
    entries
}

/// A string as a scalar: plain when no reader could misread it, else quoted as in JSON, which YAML accepts.
fn scalar_text(text: &str) -> String {
    // A dot may lead a path such as `.spec.replicas`, but three of them end a document.
    let start = text.strip_prefix('.').unwrap_or(text);
    let starts_like_a_word = start.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/');
    let plain = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_' | '.' | '/' | ' ');
    if starts_like_a_word && text.chars().all(plain) && !text.ends_with(' ') && !is_other_type(text) {
        text.to_owned()
    } else {
        Value::from(text).to_string()
    }
}

/// Words that some YAML reader takes for a boolean, a null or a number.
fn is_other_type(text: &str) -> bool {
    const WORDS: &[&str] = &[
        "y", "n", "yes", "no", "on", "off", "true", "false", "null", ".inf", ".nan",
    ];
    WORDS.contains(&text.to_ascii_lowercase().as_str()) || text.parse::<f64>().is_ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn text(document: &Value) -> String {
        let mut out = String::new();
        write(&mut out, document);
        out
    }

    #[test]
    fn small_collections_stay_on_one_line_and_keys_are_sorted() {
        const EXPECTED: &str = "a:\n- j: LONG\n  k:\n  - l: LONG\nb: {enum: [\"True\", x], type: string}\n";
        let long = "a".repeat(SHORT);
        let document = json!({
            "b": { "type": "string", "enum": ["True", "x"] },
            "a": [{ "k": [{ "l": long }], "j": long }],
        });
        assert_eq!(text(&document), EXPECTED.replace("LONG", &long));
    }

    #[test]
    fn words_with_another_meaning_are_quoted() {
        for word in [
            "no", "True", "null", "1e3", "", "-", "a: b", "x #y", "~", ".5", "inf", "...", ". a", ".",
        ] {
            assert!(text(&json!(word)).starts_with('"'), "{word} must be quoted");
        }
    }

    fn document() -> impl Strategy<Value = Value> {
        let scalar = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "[ -~]{0,12}".prop_map(Value::from),
            "[a-zA-Z.: ]{1,6}".prop_map(Value::from),
        ];
        scalar.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map("[ -~]{1,8}", inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_reader_gets_back_what_was_written(document in document()) {
            let written = text(&document);
            let read: Value = serde_saphyr::from_str(&written).map_err(|error| TestCaseError::fail(format!("{error}\n{written}")))?;
            prop_assert_eq!(read, document, "{}", written);
        }
    }
}
