//! Taints and tolerations.
//!
//! Owns the matching rule that scheduling and eviction share, as the API defines it. It never reads or writes
//! objects.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A mark on a node that repels pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Taint {
    pub(crate) key: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<String>,
    pub(crate) effect: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) time_added: Option<Timestamp>,
}

/// A pod's indifference to some taints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Toleration {
    pub(crate) key: Option<String>,
    pub(crate) operator: Option<String>,
    pub(crate) value: Option<String>,
    pub(crate) effect: Option<String>,
    pub(crate) toleration_seconds: Option<i64>,
}

impl Toleration {
    pub(crate) fn tolerates(&self, taint: &Taint) -> bool {
        let set = |field: &Option<String>| field.clone().filter(|value| !value.is_empty());
        if set(&self.effect).is_some_and(|effect| effect != taint.effect) {
            return false;
        }
        if set(&self.key).is_some_and(|key| key != taint.key) {
            return false;
        }
        let given = self.value.as_deref().unwrap_or("");
        let tainted = taint.value.as_deref().unwrap_or("");
        match set(&self.operator).as_deref() {
            Some("Exists") => true,
            // An empty key stands for all keys only with `Exists`.
            None | Some("Equal") => set(&self.key).is_some() && given == tainted,
            Some(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taint(key: &str, value: &str, effect: &str) -> Taint {
        Taint {
            key: key.to_owned(),
            value: Some(value.to_owned()),
            effect: effect.to_owned(),
            time_added: None,
        }
    }

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
        let text = |value: &str| Some(value.to_owned()).filter(|value| !value.is_empty());
        Toleration {
            key: text(key),
            operator: text(operator),
            value: text(value),
            effect: text(effect),
            toleration_seconds: None,
        }
    }

    #[test]
    fn tolerations_match_as_the_api_says() {
        let gpu = taint("gpu", "h100", "NoSchedule");
        for (given, expected) in [
            (toleration("gpu", "Equal", "h100", "NoSchedule"), true),
            (toleration("gpu", "", "h100", ""), true),
            (toleration("gpu", "Equal", "a100", ""), false),
            (toleration("gpu", "Exists", "", "NoExecute"), false),
            (toleration("gpu", "Exists", "", ""), true),
            (toleration("", "Exists", "", ""), true),
            (toleration("", "Equal", "", ""), false),
            (toleration("gpu", "Like", "h100", ""), false),
        ] {
            assert_eq!(given.tolerates(&gpu), expected, "{given:?}");
        }
    }
}
