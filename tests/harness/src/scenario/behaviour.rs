//! The words with which scenarios steer simulated pods, and the annotations they stand for. The simulated kubelets own
//! the meaning; this module only translates.

use coppice_cluster::behaviour as annotations;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::names::one_of;

/// Every word with the annotation it stands for.
const KEYS: [(&str, &str); 13] = [
    ("startDelay", annotations::START_DELAY),
    ("initDuration", annotations::INIT_DURATION),
    ("readyDelay", annotations::READY_DELAY),
    ("neverReady", annotations::NEVER_READY),
    ("crashAfter", annotations::CRASH_AFTER),
    ("crashExitCode", annotations::CRASH_EXIT_CODE),
    ("crashLoop", annotations::CRASH_LOOP),
    ("imagePullError", annotations::IMAGE_PULL_ERROR),
    ("completeAfter", annotations::COMPLETE_AFTER),
    ("exitCode", annotations::EXIT_CODE),
    ("terminationDelay", annotations::TERMINATION_DELAY),
    ("ignoreTermination", annotations::IGNORE_TERMINATION),
    ("kill", annotations::KILL),
];

/// One way in which a simulated pod can be told to behave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct BehaviourKey(&'static str);

impl BehaviourKey {
    /// The annotation it stands for.
    pub fn annotation(self) -> String {
        self.0.to_owned()
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
        match KEYS.iter().find(|(word, _)| *word == text) {
            Some((_, annotation)) => Ok(Self(annotation)),
            None => {
                let words = KEYS.map(|(word, _)| word);
                Err(D::Error::custom(format!("unknown behaviour {}", one_of(&text, &words))))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_its_annotation_in_another_spelling() {
        for (word, annotation) in KEYS {
            let dashed = word.chars().fold(String::new(), |text, letter| match letter {
                'A'..='Z' => format!("{text}-{}", letter.to_ascii_lowercase()),
                _ => format!("{text}{letter}"),
            });
            assert_eq!(annotation, format!("{}{dashed}", annotations::PREFIX));
        }
    }
}
