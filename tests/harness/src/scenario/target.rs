//! Which objects a step or an expectation is about: a kind, and what narrows it down. Pure matching over a world.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::matcher::Matcher;
use super::path::FieldPath;
use super::selector::Selector;
use super::world::{self, ObjectKey, Scope, World};

/// A kind as scenarios write it: `Pod`, or `Widget.example.com` where the bare name is not unique.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KindName {
    /// The kind.
    pub kind: String,
    /// The API group, when one was given.
    pub group: Option<String>,
    /// The version, when one was given through `apiVersion`.
    pub version: Option<String>,
}

impl KindName {
    /// A kind of the core group.
    pub fn core(kind: &str) -> Self {
        Self {
            kind: kind.to_owned(),
            group: Some(String::new()),
            version: Some("v1".to_owned()),
        }
    }

    /// With group and version taken from an `apiVersion`.
    pub fn with_api_version(mut self, api_version: &str) -> Self {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        self.group = Some(group.to_owned());
        self.version = Some(version.to_owned());
        self
    }

    /// Whether a watch covers this kind.
    pub fn covers(&self, scope: &Scope) -> bool {
        self.kind == scope.kind && self.group.as_ref().is_none_or(|group| *group == scope.group)
    }

    /// Whether an object is of this kind.
    pub fn matches(&self, key: &ObjectKey) -> bool {
        self.kind == key.kind && self.group.as_ref().is_none_or(|group| *group == key.group)
    }
}

impl FromStr for KindName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, group) = match text.split_once('.') {
            Some((kind, group)) => (kind, Some(group.to_owned())),
            None => (text, None),
        };
        let upper = kind.chars().next().is_some_and(|first| first.is_ascii_uppercase());
        if !upper || !kind.chars().all(|letter| letter.is_ascii_alphanumeric()) {
            return Err(format!(
                "`{text}` is not a kind: write `Pod`, or `Widget.example.com` with the API group"
            ));
        }
        Ok(Self {
            kind: kind.to_owned(),
            group,
            version: None,
        })
    }
}

impl<'de> Deserialize<'de> for KindName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl fmt::Display for KindName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.kind)?;
        match &self.group {
            Some(group) if !group.is_empty() => write!(formatter, ".{group}"),
            _ => Ok(()),
        }
    }
}

/// What a scenario says about one condition of an object.
#[derive(Debug, Clone, PartialEq)]
pub struct ConditionMatcher {
    /// About `status`.
    pub status: Matcher,
    /// About `reason`.
    pub reason: Option<Matcher>,
    /// About `message`.
    pub message: Option<Matcher>,
}

/// Objects of one kind, narrowed down by whatever is given.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// The kind.
    pub kind: KindName,
    /// The namespace; the scenario's own when not given.
    pub namespace: Option<String>,
    /// The exact name.
    pub name: Option<String>,
    /// Labels.
    pub selector: Option<Selector>,
    /// Field values.
    pub fields: BTreeMap<FieldPath, Matcher>,
    /// Conditions.
    pub conditions: BTreeMap<String, ConditionMatcher>,
}

impl Target {
    /// Everything of a kind.
    pub fn all(kind: KindName) -> Self {
        Self {
            kind,
            namespace: None,
            name: None,
            selector: None,
            fields: BTreeMap::new(),
            conditions: BTreeMap::new(),
        }
    }

    /// Whether the object is meant. `namespace` is the scenario's own; cluster-wide objects have none.
    pub fn matches(&self, key: &ObjectKey, object: &Value, namespace: &str) -> bool {
        let wanted_namespace = self.namespace.as_deref().unwrap_or(namespace);
        self.kind.matches(key)
            && (key.namespace.is_empty() || key.namespace == wanted_namespace)
            && self
                .name
                .as_ref()
                .is_none_or(|name| name.replace("${namespace}", namespace) == key.name)
            && self
                .selector
                .as_ref()
                .is_none_or(|selector| selector.matches(&world::labels(object)))
            && self
                .fields
                .iter()
                .all(|(path, matcher)| matcher.matches(&path.select(object)))
            && self
                .conditions
                .iter()
                .all(|(name, matcher)| matcher.mismatch(name, object).is_none())
    }

    /// The objects meant, ordered by name.
    pub fn select<'a>(&self, world: &'a World, namespace: &str) -> Vec<(&'a ObjectKey, &'a Arc<Value>)> {
        world
            .objects()
            .filter(|(key, object)| self.matches(key, object, namespace))
            .collect()
    }
}

impl ConditionMatcher {
    /// Where the condition differs: what was looked at, what was expected, what is there.
    pub fn mismatch(&self, name: &str, object: &Value) -> Option<(String, String, String)> {
        let conditions = object.pointer("/status/conditions").and_then(Value::as_array);
        let condition = conditions.and_then(|all| all.iter().find(|one| one.get("type").is_some_and(|of| of == name)));
        let parts = [
            ("status", Some(&self.status)),
            ("reason", self.reason.as_ref()),
            ("message", self.message.as_ref()),
        ];
        parts.into_iter().find_map(|(field, matcher)| {
            let matcher = matcher?;
            let found: Vec<&Value> = condition
                .and_then(|condition| condition.get(field))
                .into_iter()
                .collect();
            let what = format!("condition {name} {field}");
            (!matcher.matches(&found)).then(|| (what, matcher.to_string(), super::matcher::show_values(&found)))
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.kind)?;
        if let Some(name) = &self.name {
            write!(formatter, " {name}")?;
        }
        if let Some(selector) = &self.selector {
            write!(formatter, " with {selector}")?;
        }
        if let Some(namespace) = &self.namespace {
            write!(formatter, " in {namespace}")?;
        }
        for (index, (path, matcher)) in self.fields.iter().enumerate() {
            write!(
                formatter,
                "{} {path} {matcher}",
                if index == 0 { " where" } else { "," }
            )?;
        }
        for (name, matcher) in &self.conditions {
            write!(formatter, ", condition {name} {}", matcher.status)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn key(kind: &str, group: &str, namespace: &str, name: &str) -> ObjectKey {
        let text = str::to_owned;
        ObjectKey {
            kind: text(kind),
            group: text(group),
            namespace: text(namespace),
            name: text(name),
        }
    }

    #[test]
    fn kinds_match_by_group_only_when_one_is_given() {
        let widget: KindName = "Widget.example.com".parse().unwrap();
        assert!(widget.matches(&key("Widget", "example.com", "a", "x")));
        assert!(!widget.matches(&key("Widget", "other.com", "a", "x")));
        assert!(
            "Widget"
                .parse::<KindName>()
                .unwrap()
                .matches(&key("Widget", "other.com", "a", "x"))
        );
        assert!("pods".parse::<KindName>().is_err());
        assert_eq!(
            "Widget"
                .parse::<KindName>()
                .unwrap()
                .with_api_version("example.com/v1")
                .to_string(),
            "Widget.example.com"
        );
    }

    #[test]
    fn a_target_means_the_scenarios_namespace_and_cluster_wide_objects() {
        let own = Target {
            name: Some("${namespace}".to_owned()),
            ..Target::all("Node".parse().unwrap())
        };
        assert!(own.matches(&key("Node", "", "", "here"), &Value::Null, "here"));
        assert!(!own.matches(&key("Node", "", "", "there"), &Value::Null, "here"));
        let target = Target::all("Pod".parse().unwrap());
        assert!(target.matches(&key("Pod", "", "mine", "x"), &json!({}), "mine"));
        assert!(!target.matches(&key("Pod", "", "other", "x"), &json!({}), "mine"));
        assert!(target.matches(&key("Pod", "", "", "x"), &json!({}), "mine"));
    }

    #[test]
    fn a_condition_that_is_not_there_is_not_true() {
        let not_ready = ConditionMatcher {
            status: Matcher::Not(json!("True")),
            reason: None,
            message: None,
        };
        assert!(not_ready.mismatch("Ready", &json!({})).is_none());
        let ready = ConditionMatcher {
            status: Matcher::Equals(json!("True")),
            reason: None,
            message: None,
        };
        let object = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        let (what, expected, actual) = ready.mismatch("Ready", &object).unwrap();
        assert_eq!(
            (what.as_str(), expected.as_str(), actual.as_str()),
            ("condition Ready status", "\"True\"", "\"False\"")
        );
    }
}
