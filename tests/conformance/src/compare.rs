//! Lists what differs between two servers' normalised answers.

use serde_json::Value;

use crate::corpus::AllowedDifference;
use crate::exchange::Answer;

/// One place where the answers differ.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The case.
    pub case: String,
    /// The step, counted from 1 among the compared ones, and its request.
    pub step: String,
    /// The place in the answer, such as `body.spec.replicas`.
    pub path: String,
    /// What the real server has there.
    pub expected: String,
    /// What the embedded server has there.
    pub actual: String,
}

impl std::fmt::Display for Difference {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{} step {}\n    {}\n      real:     {}\n      embedded: {}",
            self.case, self.step, self.path, self.expected, self.actual
        )
    }
}

/// Compares the answers of one case.
pub fn compare(case: &str, expected: &[Answer], actual: &[Answer]) -> Vec<Difference> {
    let mut differences = Vec::new();
    if expected.len() != actual.len() {
        differences.push(Difference {
            case: case.to_owned(),
            step: "0".to_owned(),
            path: "steps".to_owned(),
            expected: expected.len().to_string(),
            actual: actual.len().to_string(),
        });
    }
    for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
        let step = format!("{} {}", index + 1, expected.request);
        let mut found = Vec::new();
        if expected.status == actual.status {
            walk(&as_value(expected), &as_value(actual), &mut String::new(), &mut found);
        } else {
            // The bodies have nothing in common then.
            found.push(("status".to_owned(), outcome(expected), outcome(actual)));
        }
        differences.extend(found.into_iter().map(|(path, expected, actual)| Difference {
            case: case.to_owned(),
            step: step.clone(),
            path,
            expected,
            actual,
        }));
    }
    differences
}

/// Leaves of two refusals what a client acts on: that the object is invalid, and which fields are. A real server may name more
/// of them than the embedded one, and in other words; it may not name fewer.
pub fn level_refusals(expected: &mut [Answer], actual: &mut [Answer]) {
    for (expected, actual) in expected.iter_mut().zip(actual) {
        if expected.status != 422 || actual.status != 422 {
            continue;
        }
        for answer in [&mut *expected, &mut *actual] {
            answer.body["message"] = Value::Null;
            for cause in causes(answer).into_iter().flatten() {
                cause["message"] = Value::Null;
            }
            if let Some(causes) = causes(answer) {
                causes.dedup();
            }
        }
        let named = causes(actual).cloned().unwrap_or_default();
        if let Some(causes) = causes(expected) {
            causes.retain(|cause| named.contains(cause));
        }
    }
}

/// The status code, and what is said about it.
fn outcome(answer: &Answer) -> String {
    let message = answer.body.get("message").and_then(Value::as_str).unwrap_or_default();
    format!("{} {message}", answer.status).trim_end().to_owned()
}

fn causes(answer: &mut Answer) -> Option<&mut Vec<Value>> {
    answer.body.pointer_mut("/details/causes").and_then(Value::as_array_mut)
}

fn as_value(answer: &Answer) -> Value {
    serde_json::json!({"status": answer.status, "headers": answer.headers, "body": answer.body})
}

fn walk(expected: &Value, actual: &Value, path: &mut String, found: &mut Vec<(String, String, String)>) {
    match (expected, actual) {
        (Value::Object(left), Value::Object(right)) => {
            let keys: std::collections::BTreeSet<&String> = left.keys().chain(right.keys()).collect();
            for key in keys {
                descend(left.get(key), right.get(key), key, path, found);
            }
        }
        (Value::Array(left), Value::Array(right)) => {
            for index in 0..left.len().max(right.len()) {
                descend(left.get(index), right.get(index), &index.to_string(), path, found);
            }
        }
        _ if expected != actual => found.push((path.clone(), shorten(expected), shorten(actual))),
        _ => {}
    }
}

fn descend(
    left: Option<&Value>,
    right: Option<&Value>,
    segment: &str,
    path: &mut String,
    found: &mut Vec<(String, String, String)>,
) {
    let length = path.len();
    if !path.is_empty() {
        path.push('.');
    }
    path.push_str(segment);
    match (left, right) {
        (Some(left), Some(right)) => walk(left, right, path, found),
        (left, right) => found.push((
            path.clone(),
            left.map_or("(absent)".to_owned(), shorten),
            right.map_or("(absent)".to_owned(), shorten),
        )),
    }
    path.truncate(length);
}

fn shorten(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() <= 400 {
        return text;
    }
    text.chars().take(400).chain("…".chars()).collect()
}

/// Splits differences into those that nothing allows, and the indices of the allowances that were used.
pub fn judge(differences: Vec<Difference>, allowed: &[AllowedDifference]) -> (Vec<Difference>, Vec<usize>) {
    let mut used = std::collections::BTreeSet::new();
    let mut refused = Vec::new();
    for difference in differences {
        match allowed.iter().position(|entry| covers(entry, &difference)) {
            Some(index) => {
                used.insert(index);
            }
            None => refused.push(difference),
        }
    }
    (refused, used.into_iter().collect())
}

fn covers(entry: &AllowedDifference, difference: &Difference) -> bool {
    (entry.case == "*" || entry.case == difference.case)
        && path_matches(&entry.path, &difference.path)
        && entry
            .real
            .as_ref()
            .is_none_or(|text| difference.expected.contains(text.as_str()))
}

fn path_matches(pattern: &str, path: &str) -> bool {
    let mut pattern = pattern.split('.');
    let mut path = path.split('.');
    loop {
        match (pattern.next(), path.next()) {
            (Some("**"), _) => return true,
            (Some("*"), Some(_)) => {}
            (Some(left), Some(right)) if left == right => {}
            (None, None) => return true,
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::collections::BTreeMap;

    fn answer(status: u16, body: Value) -> Answer {
        Answer {
            request: "GET /x".into(),
            status,
            headers: BTreeMap::new(),
            body,
        }
    }

    #[test]
    fn differences_are_named_by_path() {
        let found = compare(
            "c",
            &[answer(200, json!({"a": [1, 2], "b": 1}))],
            &[answer(200, json!({"a": [1], "c": 1}))],
        );
        let paths: Vec<&str> = found.iter().map(|difference| difference.path.as_str()).collect();
        assert_eq!(paths, ["body.a.1", "body.b", "body.c"]);
        let found = compare(
            "c",
            &[answer(200, json!({"a": 1}))],
            &[answer(404, json!({"message": "gone"}))],
        );
        let outcomes: Vec<(&str, &str)> = found.iter().map(|found| (&*found.expected, &*found.actual)).collect();
        assert_eq!(outcomes, [("200", "404 gone")]);
    }

    #[test]
    fn a_refusal_may_name_fewer_fields_than_a_real_one_but_no_others() {
        let refusal = |fields: &[&str]| {
            let causes: Vec<Value> = fields
                .iter()
                .map(|field| json!({"field": field, "message": field.len()}))
                .collect();
            vec![answer(
                422,
                json!({"message": fields.len(), "details": {"causes": causes}}),
            )]
        };
        let found = |expected: &[&str], actual: &[&str]| {
            let (mut expected, mut actual) = (refusal(expected), refusal(actual));
            level_refusals(&mut expected, &mut actual);
            compare("c", &expected, &actual).len()
        };
        assert_eq!(found(&["a", "b"], &["b"]), 0);
        assert_eq!(found(&["a", "a"], &["a"]), 0);
        assert_eq!(found(&["a"], &["b"]), 1);
    }

    #[test]
    fn allowances_cover_by_pattern_and_unused_ones_are_known() {
        let found = compare(
            "c",
            &[answer(200, json!({"a": {"x": 1}, "b": 1}))],
            &[answer(200, json!({"a": {"x": 2}, "b": 2}))],
        );
        let allow = |case: &str, path: &str| AllowedDifference {
            case: case.into(),
            path: path.into(),
            real: None,
            reason: "test".into(),
        };
        let (refused, used) = judge(found.clone(), &[allow("other", "**"), allow("*", "body.a.**")]);
        assert_eq!(refused.len(), 1);
        assert_eq!(refused[0].path, "body.b");
        assert_eq!(used, [1]);
        let quoting = |text: &str| AllowedDifference {
            real: Some(text.into()),
            ..allow("c", "**")
        };
        assert_eq!(judge(found.clone(), &[quoting("1")]).0.len(), 0);
        assert_eq!(
            judge(found.clone(), &[quoting("2")]).0.len(),
            2,
            "what the embedded server says does not count"
        );
        let (refused, _) = judge(found, &[allow("c", "body.*")]);
        assert_eq!(
            refused.len(),
            1,
            "one star stands for one segment, not for what is below it"
        );
    }
}
