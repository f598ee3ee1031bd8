//! What changed between two templates, field by field.
//!
//! Owns the report that a person reads before an update. Works on canonical values, so that it shows changes of meaning
//! only, defaults included. Elements of sets are matched by key and named ones by name, so that an inserted variable is one
//! change. Reports something exactly when [`super::same_template`] says that the templates differ.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::facts::{Kind, Object, POD_SPEC};
use super::{TemplateView, canonical_value};

/// One field that means something else.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldChange {
    /// Where, for example `spec.containers[name=main].image`.
    pub path: String,
    /// The value before; `None` when the field was absent.
    pub before: Option<Value>,
    /// The value after; `None` when the field is absent now.
    pub after: Option<Value>,
}

/// All changes of meaning from the stored to the desired template, in canonical order.
#[must_use]
pub fn differences(stored: &TemplateView<'_>, desired: &TemplateView<'_>) -> Vec<FieldChange> {
    let (before, after) = (canonical_value(stored), canonical_value(desired));
    let mut found = Differences::default();
    for part in ["metadata", "spec"] {
        found.path = part.to_owned();
        let kind = if part == "spec" {
            Kind::Object(&POD_SPEC)
        } else {
            Kind::Any
        };
        found.compare(kind, before.get(part), after.get(part));
    }
    found.changes
}

#[derive(Default)]
struct Differences {
    path: String,
    changes: Vec<FieldChange>,
}

impl Differences {
    fn compare(&mut self, kind: Kind, before: Option<&Value>, after: Option<&Value>) {
        if before == after {
            return;
        }
        match (before, after) {
            (Some(Value::Object(before)), Some(Value::Object(after))) => self.objects(kind, before, after),
            (Some(Value::Array(before)), Some(Value::Array(after))) => self.lists(kind, before, after),
            _ => self.changes.push(FieldChange {
                path: self.path.clone(),
                before: before.cloned(),
                after: after.cloned(),
            }),
        }
    }

    /// Compares below a further path segment.
    fn below(&mut self, segment: &str, kind: Kind, before: Option<&Value>, after: Option<&Value>) {
        let length = self.path.len();
        self.path.push_str(segment);
        self.compare(kind, before, after);
        self.path.truncate(length);
    }

    fn objects(&mut self, kind: Kind, before: &Map<String, Value>, after: &Map<String, Value>) {
        let facts = if let Kind::Object(facts) = kind {
            Some(facts)
        } else {
            None
        };
        let names: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
        for name in names {
            let field = facts.and_then(|facts| facts.field(name));
            let plain = name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-');
            let segment = if plain && !name.is_empty() {
                format!(".{name}")
            } else {
                format!("[{name}]")
            };
            self.below(
                &segment,
                field.map_or(Kind::Any, |field| field.kind),
                before.get(name),
                after.get(name),
            );
        }
    }

    fn lists(&mut self, kind: Kind, before: &[Value], after: &[Value]) {
        let (keys, element): (Vec<&str>, Kind) = match kind {
            Kind::Set(keys, facts) => (keys.iter().map(|key| key.name).collect(), Kind::Object(facts)),
            Kind::List(facts) => (vec!["name"], Kind::Object(facts)),
            _ => (vec!["name"], Kind::Any),
        };
        match (
            named(&keys, kind_facts(element), before),
            named(&keys, kind_facts(element), after),
        ) {
            (Some(old), Some(new)) => self.named_lists(element, &old, &new),
            _ => {
                for index in 0..before.len().max(after.len()) {
                    self.below(&format!("[{index}]"), element, before.get(index), after.get(index));
                }
            }
        }
    }

    fn named_lists(&mut self, element: Kind, before: &[(String, &Value)], after: &[(String, &Value)]) {
        let old: BTreeMap<&str, &Value> = before.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let new: BTreeMap<&str, &Value> = after.iter().map(|(name, value)| (name.as_str(), *value)).collect();
        let kept_before: Vec<&str> = before
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| new.contains_key(name))
            .collect();
        let kept_after: Vec<&str> = after
            .iter()
            .map(|(name, _)| name.as_str())
            .filter(|name| old.contains_key(name))
            .collect();
        if kept_before != kept_after {
            let length = self.path.len();
            self.path.push_str("[order]");
            self.changes.push(FieldChange {
                path: self.path.clone(),
                before: Some(kept_before.into()),
                after: Some(kept_after.into()),
            });
            self.path.truncate(length);
        }
        for (name, value) in before {
            self.below(
                &format!("[{name}]"),
                element,
                Some(value),
                new.get(name.as_str()).copied(),
            );
        }
        for (name, value) in after.iter().filter(|(name, _)| !old.contains_key(name.as_str())) {
            self.below(&format!("[{name}]"), element, None, Some(value));
        }
    }
}

fn kind_facts(kind: Kind) -> Option<&'static Object> {
    if let Kind::Object(facts) = kind {
        Some(facts)
    } else {
        None
    }
}

/// The elements with their names, or `None` unless every element has one of its own.
fn named<'a>(keys: &[&str], facts: Option<&'static Object>, elements: &'a [Value]) -> Option<Vec<(String, &'a Value)>> {
    let mut names = BTreeSet::new();
    let mut found = Vec::with_capacity(elements.len());
    for element in elements {
        let mut parts = Vec::with_capacity(keys.len());
        for key in keys {
            facts.is_none_or(|facts| facts.field(key).is_some()).then_some(())?;
            match element.get(*key)? {
                Value::String(text) => parts.push(format!("{key}={text}")),
                Value::Number(number) => parts.push(format!("{key}={number}")),
                _ => return None,
            }
        }
        let name = parts.join(",");
        if !names.insert(name.clone()) {
            return None;
        }
        found.push((name, element));
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn changes(before: &Value, after: &Value) -> Vec<(String, Value, Value)> {
        let nothing = BTreeMap::new();
        let spec = |value: &Value| value.as_object().cloned().expect("a pod spec");
        let (before, after) = (spec(before), spec(after));
        let view = |spec| TemplateView {
            labels: &nothing,
            annotations: &nothing,
            priority_class: None,
            spec,
        };
        differences(&view(&before), &view(&after))
            .into_iter()
            .map(|change| {
                (
                    change.path,
                    change.before.unwrap_or_default(),
                    change.after.unwrap_or_default(),
                )
            })
            .collect()
    }

    #[test]
    fn a_changed_tag_shows_the_pull_policy_that_follows_from_it() {
        let found = changes(
            &json!({"containers": [{"name": "main", "image": "x:1"}, {"name": "side", "image": "y:1"}]}),
            &json!({"containers": [{"name": "side", "image": "y:1"}, {"name": "main", "image": "x:latest"}]}),
        );
        assert_eq!(
            found,
            [
                (
                    "spec.containers[name=main].image".to_owned(),
                    json!("x:1"),
                    json!("x:latest")
                ),
                (
                    "spec.containers[name=main].imagePullPolicy".to_owned(),
                    json!("IfNotPresent"),
                    json!("Always")
                ),
            ]
        );
    }

    #[test]
    fn an_inserted_variable_is_one_change_and_a_moved_one_is_a_change_of_order() {
        let spec = |names: &[&str]| {
            let env: Vec<Value> = names.iter().map(|name| json!({"name": name, "value": "v"})).collect();
            json!({"containers": [{"name": "main", "image": "x:1", "env": env}]})
        };
        assert_eq!(
            changes(&spec(&["A", "B"]), &spec(&["A", "N", "B"])),
            [(
                "spec.containers[name=main].env[name=N]".to_owned(),
                Value::Null,
                json!({"name": "N", "value": "v"})
            )]
        );
        assert_eq!(
            changes(&spec(&["A", "B"]), &spec(&["B", "A"])),
            [(
                "spec.containers[name=main].env[order]".to_owned(),
                json!(["name=A", "name=B"]),
                json!(["name=B", "name=A"])
            )]
        );
    }

    #[test]
    fn names_with_dots_are_bracketed() {
        assert_eq!(
            changes(
                &json!({"nodeSelector": {"a.io/b": "1"}}),
                &json!({"nodeSelector": {"a.io/b": "2"}})
            ),
            [("spec.nodeSelector[a.io/b]".to_owned(), json!("1"), json!("2"))]
        );
    }
}
