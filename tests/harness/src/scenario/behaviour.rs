//! The words with which scenarios steer simulated pods and nodes, and the annotations they stand for. The simulated
//! kubelets own the meaning; this module only translates.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::names::one_of;

/// The prefix of every annotation that steers the simulation.
const PREFIX: &str = "simulation.coppice.dev/";

/// The annotation of a node that switches it off.
pub(super) const POWER: &str = "simulation.coppice.dev/power";

/// Every word, in the order of the documentation.
const KEYS: [&str; 13] = [
    "startDelay",
    "initDuration",
    "readyDelay",
    "neverReady",
    "crashAfter",
    "crashExitCode",
    "crashLoop",
    "imagePullError",
    "completeAfter",
    "exitCode",
    "terminationDelay",
    "ignoreTermination",
    "kill",
];

/// One way in which a simulated pod can be told to behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BehaviourKey(&'static str);

impl BehaviourKey {
    /// The annotation it stands for: the same word with dashes.
    pub fn annotation(self) -> String {
        let mut text = PREFIX.to_owned();
        for letter in self.0.chars() {
            if letter.is_ascii_uppercase() {
                text.push('-');
            }
            text.push(letter.to_ascii_lowercase());
        }
        text
    }
}

/// An annotation's value; `null` takes the annotation away.
pub(super) fn annotation_value(value: &Value) -> Option<String> {
    match value {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

impl<'de> Deserialize<'de> for BehaviourKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match KEYS.iter().find(|key| **key == text) {
            Some(key) => Ok(Self(key)),
            None => Err(D::Error::custom(format!("unknown behaviour {}", one_of(&text, &KEYS)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_for_annotations() {
        assert_eq!(
            BehaviourKey("crashExitCode").annotation(),
            "simulation.coppice.dev/crash-exit-code"
        );
        assert_eq!(BehaviourKey("kill").annotation(), "simulation.coppice.dev/kill");
    }
}
