//! Label selectors in the notation of Kubernetes (`app=web,tier in (a, b),!canary`): parsing and matching. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

/// A parsed label selector. Shown as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector {
    text: String,
    requirements: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

impl Selector {
    /// Whether the labels satisfy every requirement.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.requirements.iter().all(|requirement| match requirement {
            Requirement::In(key, values) => labels.get(key).is_some_and(|value| values.contains(value)),
            Requirement::NotIn(key, values) => labels.get(key).is_none_or(|value| !values.contains(value)),
            Requirement::Exists(key) => labels.contains_key(key),
            Requirement::Absent(key) => !labels.contains_key(key),
        })
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl FromStr for Selector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let requirements = split(text)
            .into_iter()
            .map(|part| requirement(part.trim()).ok_or_else(|| format!("`{text}` is not a label selector")))
            .collect::<Result<_, _>>()?;
        Ok(Self {
            text: text.to_owned(),
            requirements,
        })
    }
}

/// Splits at commas outside parentheses.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut start, mut inside) = (Vec::new(), 0, false);
    for (index, letter) in text.char_indices() {
        match letter {
            '(' => inside = true,
            ')' => inside = false,
            ',' if !inside => {
                parts.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

fn requirement(part: &str) -> Option<Requirement> {
    let key = |text: &str| {
        let text = text.trim();
        let valid = |letter: char| letter.is_ascii_alphanumeric() || "-_./".contains(letter);
        (!text.is_empty() && text.chars().all(valid)).then(|| text.to_owned())
    };
    let list = |text: &str| -> Option<Vec<String>> {
        let inner = text.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some(inner.split(',').map(|value| value.trim().to_owned()).collect())
    };
    if let Some(name) = part.strip_prefix('!') {
        return key(name).map(Requirement::Absent);
    }
    if let Some((name, value)) = part.split_once("!=") {
        return Some(Requirement::NotIn(key(name)?, vec![value.trim().to_owned()]));
    }
    if let Some((name, value)) = part.split_once('=') {
        let value = value.strip_prefix('=').unwrap_or(value);
        return Some(Requirement::In(key(name)?, vec![value.trim().to_owned()]));
    }
    if let Some((name, values)) = part.split_once(" notin ") {
        return Some(Requirement::NotIn(key(name)?, list(values)?));
    }
    if let Some((name, values)) = part.split_once(" in ") {
        return Some(Requirement::In(key(name)?, list(values)?));
    }
    key(part).map(Requirement::Exists)
}

impl<'de> Deserialize<'de> for Selector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_of_requirement() {
        let labels = BTreeMap::from([
            ("app".to_owned(), "web".to_owned()),
            ("a.b/tier".to_owned(), "x".to_owned()),
        ]);
        for (text, expected) in [
            ("app=web", true),
            ("app==web", true),
            ("app=db", false),
            ("app!=db,a.b/tier=x", true),
            ("app!=web", false),
            ("other!=web", true),
            ("app in (db, web)", true),
            ("app notin (db, web)", false),
            ("app,!canary", true),
            ("canary", false),
            ("app in (web), a.b/tier notin (y)", true),
        ] {
            assert_eq!(text.parse::<Selector>().unwrap().matches(&labels), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_selector_is_refused() {
        for text in ["", "app=web,", "app in web", "a b", "=x"] {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
    }
}
