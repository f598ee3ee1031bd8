//! The format of scenario files as types: what may be written, word for word. Unknown words are refused by the
//! deserializer with their place; what only makes sense together is checked in `convert`.
//!
//! Flattened structs would lose the places of their fields, so common fields are repeated by a macro.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use serde_saphyr::Spanned;

use super::behaviour::BehaviourKey;
use super::expectation::Count;
use super::matcher::Matcher;
use super::model::{ClusterNeeds, PatchKind, Place, Propagation};
use super::names::one_of;
use super::path::FieldPath;
use super::selector::Selector;
use super::target::{ConditionMatcher, KindName, Target};

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct ScenarioFile {
    pub(super) name: Spanned<String>,
    pub(super) description: String,
    pub(super) runs_on: Option<Vec<Place>>,
    #[serde(default)]
    pub(super) cluster: ClusterNeeds,
    #[serde(default)]
    pub(super) manifests: Vec<Spanned<Value>>,
    #[serde(default)]
    pub(super) never: Vec<Spanned<NeverFile>>,
    pub(super) steps: Vec<Spanned<StepFile>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct StepFile {
    pub(super) name: Option<String>,
    pub(super) apply: Option<Vec<Spanned<Value>>>,
    pub(super) create: Option<Vec<Spanned<Value>>>,
    pub(super) patch: Option<PatchFile>,
    pub(super) edit: Option<EditFile>,
    pub(super) scale: Option<ScaleFile>,
    pub(super) delete: Option<DeleteFile>,
    pub(super) cordon: Option<NodesFile>,
    pub(super) uncordon: Option<NodesFile>,
    pub(super) drain: Option<NodesFile>,
    pub(super) kill_node: Option<NodesFile>,
    pub(super) restore_node: Option<NodesFile>,
    pub(super) kill_pod: Option<PodsFile>,
    pub(super) pod_behaviour: Option<BehaviourFile>,
    pub(super) remember: Option<RememberFile>,
    #[serde(default, deserialize_with = "present")]
    pub(super) restart_operator: Option<Nothing>,
    #[serde(default, deserialize_with = "present")]
    pub(super) restart_scheduler: Option<Nothing>,
    pub(super) kill_scheduler: Option<KillSchedulerFile>,
    #[serde(default, deserialize_with = "present")]
    pub(super) kill_api_server: Option<Nothing>,
    #[serde(default, deserialize_with = "present")]
    pub(super) restart_api_server: Option<Nothing>,
    #[serde(default, deserialize_with = "present")]
    pub(super) wait: Option<WaitFile>,
    pub(super) fails: Option<FailsFile>,
    #[serde(default)]
    pub(super) expect: Vec<Spanned<ExpectationFile>>,
    pub(super) within: Option<Time>,
    pub(super) holds_for: Option<Time>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct KillSchedulerFile {
    pub(super) after_bindings: u32,
}

/// A struct with the fields of a target and further ones.
macro_rules! with_target {
    ($name:ident, $kind:ty { $($(#[$attribute:meta])* $field:ident: $type:ty),* $(,)? }) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        pub(super) struct $name {
            pub(super) kind: $kind,
            pub(super) api_version: Option<String>,
            pub(super) namespace: Option<String>,
            pub(super) name: Option<String>,
            pub(super) selector: Option<Selector>,
            #[serde(default, rename = "where")]
            pub(super) where_fields: BTreeMap<FieldPath, Matcher>,
            #[serde(default)]
            pub(super) where_conditions: BTreeMap<String, ConditionFile>,
            $($(#[$attribute])* pub(super) $field: $type,)*
        }

        impl $name {
            pub(super) fn target_of(&self, kind: KindName) -> Target {
                Target {
                    kind: match &self.api_version {
                        Some(api_version) => kind.with_api_version(api_version),
                        None => kind,
                    },
                    namespace: self.namespace.clone(),
                    name: self.name.clone(),
                    selector: self.selector.clone(),
                    fields: self.where_fields.clone(),
                    conditions: conditions(&self.where_conditions),
                }
            }
        }
    };
}

with_target!(TargetFile, KindName {});
with_target!(PatchFile, KindName {
    count: Option<usize>,
    #[serde(default, rename = "type")]
    patch_type: PatchKind,
    subresource: Option<String>,
    patch: Value,
});
with_target!(EditFile, KindName {
    count: Option<usize>,
    #[serde(default)]
    set: BTreeMap<FieldPath, Value>,
    #[serde(default)]
    remove: Vec<FieldPath>,
});
with_target!(ScaleFile, KindName { replicas: u32 });
with_target!(DeleteFile, KindName {
    count: Option<usize>,
    propagation: Option<Propagation>,
    grace_period_seconds: Option<u32>,
});
with_target!(
    RememberFile,
    KindName {
        #[serde(rename = "as")]
        remember_as: String,
    }
);
with_target!(ExpectationFile, Option<KindName> {
    count: Option<CountFile>,
    #[serde(default)]
    fields: BTreeMap<FieldPath, Matcher>,
    #[serde(default)]
    conditions: BTreeMap<String, ConditionFile>,
    #[serde(default)]
    distinct: Vec<FieldPath>,
    #[serde(default)]
    same: Vec<FieldPath>,
    #[serde(default)]
    same_node_labels: Vec<String>,
    #[serde(default)]
    distinct_node_labels: Vec<String>,
    keeps: Option<String>,
    replaces: Option<String>,
    absent: Option<TargetFile>,
    event: Option<EventFile>,
});

/// A struct for nodes or pods, whose kind goes without saying.
macro_rules! of_known_kind {
    ($name:ident, $kind:literal { $($(#[$attribute:meta])* $field:ident: $type:ty),* $(,)? }) => {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields, rename_all = "camelCase")]
        pub(super) struct $name {
            name: Option<String>,
            selector: Option<Selector>,
            #[serde(default, rename = "where")]
            where_fields: BTreeMap<FieldPath, Matcher>,
            #[serde(default)]
            where_conditions: BTreeMap<String, ConditionFile>,
            #[serde(default)]
            all: bool,
            pub(super) count: Option<usize>,
            $($(#[$attribute])* pub(super) $field: $type,)*
        }

        impl $name {
            pub(super) fn target(&self) -> Target {
                Target {
                    name: self.name.clone(),
                    selector: self.selector.clone(),
                    fields: self.where_fields.clone(),
                    conditions: conditions(&self.where_conditions),
                    ..Target::all(KindName::core($kind))
                }
            }

            /// Whether anything says which ones are meant.
            pub(super) fn narrows(&self) -> bool {
                self.all || self.count.is_some() || self.target() != Target::all(KindName::core($kind))
            }
        }
    };
}

of_known_kind!(NodesFile, "Node" {});
of_known_kind!(PodsFile, "Pod" {});
of_known_kind!(BehaviourFile, "Pod" {
    set: BTreeMap<BehaviourKey, Value>,
});

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct EventFile {
    pub(super) reason: Matcher,
    #[serde(rename = "type")]
    pub(super) event_type: Option<Matcher>,
    pub(super) kind: Option<String>,
    pub(super) name: Option<String>,
    pub(super) message: Option<Matcher>,
    pub(super) count: Option<CountFile>,
    pub(super) namespace: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct NeverFile {
    pub(super) name: Option<String>,
    pub(super) more_than: Option<usize>,
    pub(super) fewer_than: Option<usize>,
    pub(super) of: Option<TargetFile>,
    pub(super) deleted: Option<TargetFile>,
    pub(super) created: Option<TargetFile>,
    pub(super) after: Option<String>,
    pub(super) until: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct FailsFile {
    pub(super) code: Option<u16>,
    pub(super) reason: Option<Matcher>,
    pub(super) message: Option<Matcher>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub(super) struct WaitFile {
    pub(super) quiet_for: Option<Time>,
}

/// `{}` or nothing at all, for steps that need no words.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// A key without a value counts as present: `killApiServer:` is enough.
fn present<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(deserializer: D) -> Result<Option<T>, D::Error> {
    Option::<T>::deserialize(deserializer).map(|value| Some(value.unwrap_or_default()))
}

/// A length of time such as `500ms`, `5s` or `2m`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Time(pub(super) Duration);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
        let number: Option<u64> = text[..digits].parse().ok();
        match (number, &text[digits..]) {
            (Some(number), "ms") => Ok(Self(Duration::from_millis(number))),
            (Some(number), "s") => Ok(Self(Duration::from_secs(number))),
            (Some(number), "m") => Ok(Self(Duration::from_secs(number * 60))),
            _ => Err(D::Error::custom(format!(
                "`{text}` is not a length of time: write `500ms`, `5s` or `2m`"
            ))),
        }
    }
}

/// A number, or bounds.
pub(super) struct CountFile(pub(super) Count);

impl<'de> Deserialize<'de> for CountFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let problem = || D::Error::custom("a count is a number, or a mapping with `atLeast` and `atMost`");
        let number = |value: &Value| {
            value
                .as_u64()
                .and_then(|number| usize::try_from(number).ok())
                .ok_or_else(problem)
        };
        match Value::deserialize(deserializer)? {
            Value::Object(entries) => {
                let mut count = Count {
                    at_least: 0,
                    at_most: usize::MAX,
                };
                for (name, value) in &entries {
                    match name.as_str() {
                        "atLeast" => count.at_least = number(value)?,
                        "atMost" => count.at_most = number(value)?,
                        unknown => {
                            let text = one_of(unknown, &["atLeast", "atMost"]);
                            return Err(D::Error::custom(format!("unknown bound {text}")));
                        }
                    }
                }
                Ok(Self(count))
            }
            value => number(&value).map(|number| {
                Self(Count {
                    at_least: number,
                    at_most: number,
                })
            }),
        }
    }
}

/// A status (`"True"`), a comparison of the status, or a mapping with `status`, `reason` and `message`.
#[derive(Clone)]
pub(super) struct ConditionFile(pub(super) ConditionMatcher);

impl<'de> Deserialize<'de> for ConditionFile {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        const FIELDS: [&str; 3] = ["status", "reason", "message"];
        let mut value = Value::deserialize(deserializer)?;
        let convert = |value: Value| Matcher::try_from(words(value)).map_err(D::Error::custom);
        let mut matcher = ConditionMatcher {
            status: Matcher::Exists(true),
            reason: None,
            message: None,
        };
        match value.as_object_mut() {
            Some(entries) if entries.keys().any(|key| FIELDS.contains(&key.as_str())) => {
                for (name, entry) in std::mem::take(entries) {
                    match name.as_str() {
                        "status" => matcher.status = convert(entry)?,
                        "reason" => matcher.reason = Some(convert(entry)?),
                        "message" => matcher.message = Some(convert(entry)?),
                        unknown => {
                            return Err(D::Error::custom(format!("unknown field {}", one_of(unknown, &FIELDS))));
                        }
                    }
                }
            }
            _ => matcher.status = convert(value)?,
        }
        Ok(Self(matcher))
    }
}

/// The status of a condition is a word, but `True` without quotes is read as a truth value.
fn words(value: Value) -> Value {
    match value {
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Object(entries) => {
            // `exists` is the one operator whose operand is a truth value.
            let word = |(name, entry): (String, Value)| {
                let entry = if name == "exists" { entry } else { words(entry) };
                (name, entry)
            };
            Value::Object(entries.into_iter().map(word).collect())
        }
        Value::Array(elements) => Value::Array(elements.into_iter().map(words).collect()),
        other => other,
    }
}

pub(super) fn conditions(file: &BTreeMap<String, ConditionFile>) -> BTreeMap<String, ConditionMatcher> {
    file.iter()
        .map(|(name, matcher)| (name.clone(), matcher.0.clone()))
        .collect()
}
