//! Replaces what must differ between two servers by tokens, in order of first appearance within a case.
//!
//! The same uid or resource version becomes the same token, so a version that should not have moved is still seen.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::exchange::Answer;

/// Normalises the answers of one case together, so that tokens agree across them.
pub fn normalise(answers: &[Answer]) -> Vec<Answer> {
    let mut tokens = Tokens::default();
    answers
        .iter()
        .map(|answer| {
            let mut answer = answer.clone();
            order(&mut answer.body);
            collect_generated_names(&answer.body, &mut tokens);
            walk(&mut answer.body, "", &mut tokens);
            for value in answer.headers.values_mut() {
                *value = tokens.replace_known(value);
            }
            answer
        })
        .collect()
}

/// Puts into one order what a server may put into any: the managers of a second, and several things that are wrong with one
/// request, which a real server finds in the random order of its maps.
fn order(value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(Value::Array(managers)) = map.get_mut("managedFields") {
                managers.sort_by_key(|entry| {
                    ["manager", "operation", "subresource", "apiVersion"].map(|key| entry[key].to_string())
                });
            }
            let causes = map.get_mut("details").and_then(|details| details.get_mut("causes"));
            if let Some(causes) = causes.and_then(Value::as_array_mut)
                && causes.len() > 1
            {
                causes.sort_by_key(Value::to_string);
                if let Some(Value::String(message)) = map.get_mut("message")
                    && let Some((before, _)) = message.split_once(": [")
                {
                    *message = format!("{before}: [as the causes]");
                }
            }
            map.values_mut().for_each(order);
        }
        Value::Array(items) => items.iter_mut().for_each(order),
        _ => {}
    }
}

#[derive(Default)]
struct Tokens {
    by_value: BTreeMap<String, String>,
    counts: BTreeMap<&'static str, usize>,
}

impl Tokens {
    fn token(&mut self, class: &'static str, value: &str) -> String {
        if let Some(token) = self.by_value.get(value) {
            return token.clone();
        }
        let count = self.counts.entry(class).or_default();
        *count += 1;
        let token = format!("<{class} {count}>");
        self.by_value.insert(value.to_owned(), token.clone());
        token
    }

    /// Replaces uids that stand in a longer text, such as a message about an object that no answer showed.
    fn replace_uids(&mut self, text: &str) -> String {
        const LENGTH: usize = 36;
        let is_uid = |part: &str| {
            part.char_indices().all(|(index, character)| match index {
                8 | 13 | 18 | 23 => character == '-',
                _ => character.is_ascii_hexdigit(),
            })
        };
        let mut replaced = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            match rest.get(..LENGTH).filter(|part| is_uid(part)) {
                Some(uid) => {
                    replaced.push_str(&self.token("uid", uid));
                    rest = &rest[LENGTH..];
                }
                None => {
                    replaced.push(first);
                    rest = &rest[first.len_utf8()..];
                }
            }
        }
        replaced
    }

    /// Replaces values that already have a token inside a longer text, such as a message that quotes a uid.
    /// Short values (resource versions) are too likely to stand there by chance.
    fn replace_known(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (value, token) in &self.by_value {
            if value.len() >= 8 && text.contains(value.as_str()) {
                text = text.replace(value.as_str(), token);
            }
        }
        text
    }
}

fn class_of(key: &str) -> Option<&'static str> {
    match key {
        "uid" => Some("uid"),
        "resourceVersion" => Some("version"),
        "continue" => Some("continue"),
        "clusterIP" | "podIP" | "hostIP" | "ip" | "serverAddress" => Some("address"),
        "creationTimestamp"
        | "deletionTimestamp"
        | "time"
        | "lastTransitionTime"
        | "lastHeartbeatTime"
        | "firstTimestamp"
        | "lastTimestamp"
        | "eventTime"
        | "startTime"
        | "startedAt"
        | "lastProbeTime"
        | "expirationTimestamp" => Some("time"),
        _ => None,
    }
}

fn walk(value: &mut Value, key: &str, tokens: &mut Tokens) {
    match value {
        Value::Object(map) => {
            // Other writers move the version of a list on; what it is made of has versions of its own.
            let is_list = map.contains_key("items") || map.contains_key("rows");
            let version = map
                .get_mut("metadata")
                .and_then(|metadata| metadata.get_mut("resourceVersion"));
            if let Some(version) = version.filter(|_| is_list) {
                *version = Value::String("<version of a list>".to_owned());
            }
            for (key, item) in map.iter_mut() {
                walk(item, key, tokens);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| walk(item, key, tokens)),
        Value::String(text) if !text.is_empty() => match class_of(key) {
            // Times only have to be there: two of them may fall into the same second on one server only.
            Some("time") => *text = "<time>".to_owned(),
            Some("address") if text == "None" => {}
            Some("version") if text == "0" => {}
            Some(class) => *text = tokens.token(class, text),
            None if key == "cells" && is_age(text) => *text = "<age>".to_owned(),
            None if key == "cells" && is_time(text) => *text = "<time>".to_owned(),
            None => *text = tokens.replace_uids(&tokens.replace_known(&without_recorded_version(text))),
        },
        _ => {}
    }
}

/// A failed precondition quotes versions, which depend on everything that happened before.
fn without_recorded_version(text: &str) -> String {
    let mut text = text.to_owned();
    for quoted in [
        "the ResourceVersion in the precondition (",
        "the ResourceVersion in record (",
    ] {
        if let Some((before, after)) = text.split_once(quoted) {
            let rest = after.trim_start_matches(|character: char| character.is_ascii_digit());
            text = format!("{before}{quoted}<version>{rest}");
        }
    }
    text
}

/// The age of an object in a table.
fn is_age(text: &str) -> bool {
    text.strip_suffix('s')
        .is_some_and(|seconds| !seconds.is_empty() && seconds.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The time of creation of an object in a table, which some kinds show in place of an age.
fn is_time(text: &str) -> bool {
    let shape = |byte: u8| if byte.is_ascii_digit() { b'0' } else { byte };
    text.bytes().map(shape).eq(*b"0000-00-00T00:00:00Z")
}

/// A name made from `generateName` ends in random characters, wherever it is quoted later.
fn collect_generated_names(value: &Value, tokens: &mut Tokens) {
    match value {
        Value::Object(map) => {
            if let Some(metadata) = map.get("metadata").and_then(Value::as_object)
                && let Some(prefix) = metadata.get("generateName").and_then(Value::as_str)
                && let Some(name) = metadata.get("name").and_then(Value::as_str)
                && name.len() == prefix.len() + 5
                && name.starts_with(prefix)
            {
                tokens.token("generated name", name);
            }
            map.values().for_each(|item| collect_generated_names(item, tokens));
        }
        Value::Array(items) => items.iter().for_each(|item| collect_generated_names(item, tokens)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(body: Value) -> Answer {
        Answer {
            request: "GET /".into(),
            status: 200,
            headers: BTreeMap::new(),
            body,
        }
    }

    #[test]
    fn the_version_that_a_failed_precondition_quotes_is_a_token() {
        let message = "in the precondition (1) does not match the ResourceVersion in record (266). The object changed";
        let normal = normalise(&[answer(json!({"message": message}))]);
        let expected =
            "in the precondition (1) does not match the ResourceVersion in record (<version>). The object changed";
        assert_eq!(normal[0].body, json!({"message": expected}));
    }

    #[test]
    fn ages_and_times_in_tables_only_have_to_be_there() {
        let cells = json!({"rows": [{"cells": ["a", "12s", "2026-01-01T00:00:59Z", "2026-01-01"]}]});
        let normal = normalise(&[answer(cells)]);
        assert_eq!(
            normal[0].body["rows"][0]["cells"],
            json!(["a", "<age>", "<time>", "2026-01-01"])
        );
    }

    #[test]
    fn equal_versions_stay_equal_and_different_ones_differ() {
        let answers = [
            answer(json!({"metadata": {"resourceVersion": "812", "uid": "2b7c-aaaa-bbbb"}})),
            answer(json!({"metadata": {"resourceVersion": "812"}})),
            answer(json!({"metadata": {"resourceVersion": "813"}, "message": "uid 2b7c-aaaa-bbbb is gone"})),
        ];
        let normal = normalise(&answers);
        assert_eq!(
            normal[0].body,
            json!({"metadata": {"resourceVersion": "<version 1>", "uid": "<uid 1>"}})
        );
        assert_eq!(normal[1].body, json!({"metadata": {"resourceVersion": "<version 1>"}}));
        assert_eq!(normal[2].body["metadata"]["resourceVersion"], "<version 2>");
        assert_eq!(normal[2].body["message"], "uid <uid 1> is gone");
    }

    #[test]
    fn uids_in_messages_become_tokens_also_when_no_answer_showed_them() {
        let message = "the UID in the precondition (11111111-2222-3333-4444-555555555555) is not fe499108-bafe-41cd-bab7-3dbad0ae847d.";
        let normal = normalise(&[answer(json!({"message": message}))]);
        assert_eq!(
            normal[0].body["message"],
            "the UID in the precondition (<uid 1>) is not <uid 2>."
        );
    }

    #[test]
    fn generated_names_become_tokens_everywhere() {
        let answers = [answer(
            json!({"metadata": {"generateName": "job-", "name": "job-x7f2q"}, "note": "made job-x7f2q"}),
        )];
        let normal = normalise(&answers);
        assert_eq!(normal[0].body["metadata"]["name"], "<generated name 1>");
        assert_eq!(normal[0].body["note"], "made <generated name 1>");
    }
}
