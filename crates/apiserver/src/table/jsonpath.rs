//! The part of JSONPath that printer columns use: fields, indices, `[*]`, and filters that compare with a constant.

use serde_json::Value;

#[derive(Debug, PartialEq, Eq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    Filter {
        path: String,
        equal: bool,
        constant: String,
    },
}

/// All values at a path; nothing for a path that is not understood.
pub(super) fn find<'a>(object: &'a Value, path: &str) -> Vec<&'a Value> {
    let Some(steps) = parse(path) else { return Vec::new() };
    let mut found = vec![object];
    for step in &steps {
        found = found.into_iter().flat_map(|value| advance(value, step)).collect();
    }
    found
}

fn advance<'a>(value: &'a Value, step: &Step) -> Vec<&'a Value> {
    match (step, value) {
        (Step::Field(name), Value::Object(members)) => members.get(name).into_iter().collect(),
        (Step::Index(index), Value::Array(items)) => {
            let at = if *index < 0 { items.len() as i64 + index } else { *index };
            usize::try_from(at)
                .ok()
                .and_then(|at| items.get(at))
                .into_iter()
                .collect()
        }
        (Step::All, Value::Array(items)) => items.iter().collect(),
        (Step::All, Value::Object(members)) => members.values().collect(),
        (Step::Filter { path, equal, constant }, Value::Array(items)) => items
            .iter()
            .filter(|item| {
                let found = find(item, path);
                found.first().is_some_and(|value| (plain(value) == *constant) == *equal)
            })
            .collect(),
        _ => Vec::new(),
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.trim().trim_start_matches('$');
    if let Some(inner) = rest.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')) {
        rest = inner;
    }
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(tail) = rest.strip_prefix('[') {
            let end = closing(tail)?;
            steps.push(bracket(&tail[..end])?);
            rest = &tail[end + 1..];
        } else {
            let tail = rest.strip_prefix('.').unwrap_or(rest);
            let (name, remaining) = field(tail);
            if !name.is_empty() {
                steps.push(if name == "*" { Step::All } else { Step::Field(name) });
            } else if !remaining.starts_with('[') && !remaining.is_empty() {
                return None;
            }
            rest = remaining;
        }
    }
    Some(steps)
}

/// A field name up to the next `.` or `[`; a backslash escapes.
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => name.extend(characters.next().map(|(_, escaped)| escaped)),
            '.' | '[' => return (name, &text[at..]),
            plain => name.push(plain),
        }
    }
    (name, "")
}

/// Where the bracket that is open ends, quotes considered.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(text: &str) -> Option<Step> {
    let text = text.trim();
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(quoted) = unquote(text) {
        return Some(Step::Field(quoted));
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|filter| filter.strip_suffix(')')) {
        let (left, equal, right) = match (filter.split_once("=="), filter.split_once("!=")) {
            (Some((left, right)), _) => (left, true, right),
            (None, Some((left, right))) => (left, false, right),
            (None, None) => return None,
        };
        let constant = unquote(right.trim()).unwrap_or_else(|| right.trim().to_owned());
        return Some(Step::Filter {
            path: left.trim().trim_start_matches('@').to_owned(),
            equal,
            constant,
        });
    }
    text.parse().ok().map(Step::Index)
}

fn unquote(text: &str) -> Option<String> {
    ['\'', '"'].into_iter().find_map(|quote| {
        let inner = text.strip_prefix(quote)?.strip_suffix(quote)?;
        Some(inner.replace('\\', ""))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_printer_columns() {
        let object = json!({"metadata": {"labels": {"a.b/c": "x"}}, "spec": {"list": [{"n": 1}, {"n": 2}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]}});
        let cases = [
            (".spec.list[0].n", vec![json!(1)]),
            (".spec.list[-1].n", vec![json!(2)]),
            (".spec.list[*].n", vec![json!(1), json!(2)]),
            (".metadata.labels['a.b/c']", vec![json!("x")]),
            (r".metadata.labels.a\.b/c", vec![json!("x")]),
            (".status.conditions[?(@.type==\"Ready\")].status", vec![json!("True")]),
            (".status.conditions[?(@.type!='Ready')].status", vec![json!("False")]),
            ("{.spec.none}", vec![]),
            (".spec.list[", vec![]),
        ];
        for (path, expected) in cases {
            let found: Vec<Value> = find(&object, path).into_iter().cloned().collect();
            assert_eq!(found, expected, "{path}");
        }
    }
}
