//! Reading a tree of settings: every mistake is noted with its path, and so is every field that nobody asked for.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use coppice_api::duration::Duration as GoDuration;
use serde_json::{Map, Value};

/// Something about one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The field, such as `server.webhooks.port`; empty for the whole file.
    pub path: String,
    /// What about it.
    pub message: String,
}

impl Problem {
    pub(super) fn new(path: &str, message: &str) -> Self {
        Self {
            path: path.to_owned(),
            message: message.to_owned(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.path.is_empty() {
            return formatter.write_str(&self.message);
        }
        write!(formatter, "{}: {}", self.path, self.message)
    }
}

/// What was noted while reading.
#[derive(Default)]
pub(super) struct Findings {
    pub(super) errors: Vec<Problem>,
    pub(super) warnings: Vec<Problem>,
}

/// A mapping of the file. When it is dropped, the fields that were never asked for are noted.
pub(super) struct Section<'a> {
    fields: Option<&'a Map<String, Value>>,
    path: String,
    asked: RefCell<BTreeSet<String>>,
    findings: &'a RefCell<Findings>,
}

impl<'a> Section<'a> {
    pub(super) fn new(path: String, value: Option<&'a Value>, findings: &'a RefCell<Findings>) -> Self {
        let fields = value.and_then(Value::as_object);
        let section = Self {
            fields,
            path,
            asked: RefCell::default(),
            findings,
        };
        if let Some(value) = value.filter(|value| !value.is_object()) {
            section.refuse_at(&section.path, &format!("expected a mapping, got {}", shown(value)));
        }
        section
    }

    /// The path of a field.
    pub(super) fn at(&self, field: &str) -> String {
        if self.path.is_empty() {
            field.to_owned()
        } else {
            format!("{}.{field}", self.path)
        }
    }

    fn refuse_at(&self, path: &str, message: &str) {
        self.findings.borrow_mut().errors.push(Problem::new(path, message));
    }

    /// Notes a mistake.
    pub(super) fn refuse(&self, field: &str, message: &str) {
        self.refuse_at(&self.at(field), message);
    }

    /// Notes something that is accepted.
    pub(super) fn warn(&self, field: &str, message: &str) {
        let problem = Problem::new(&self.at(field), message);
        self.findings.borrow_mut().warnings.push(problem);
    }

    /// A field as it stands; null counts as absent.
    pub(super) fn raw(&self, field: &str) -> Option<&'a Value> {
        self.asked.borrow_mut().insert(field.to_owned());
        self.fields?.get(field).filter(|value| !value.is_null())
    }

    /// A mapping within.
    pub(super) fn section(&self, field: &str) -> Section<'a> {
        Section::new(self.at(field), self.raw(field), self.findings)
    }

    /// The mappings of a list; none when there is no list.
    pub(super) fn sections(&self, field: &str) -> Option<Vec<Section<'a>>> {
        let value = self.raw(field)?;
        let Some(items) = value.as_array() else {
            self.refuse(field, &format!("expected a list, got {}", shown(value)));
            return None;
        };
        let item = |(index, item)| Section::new(format!("{}[{index}]", self.at(field)), Some(item), self.findings);
        Some(items.iter().enumerate().map(item).collect())
    }

    fn read<T>(&self, field: &str, default: T, expected: &str, read: impl FnOnce(&Value) -> Option<T>) -> T {
        let Some(value) = self.raw(field) else { return default };
        read(value).unwrap_or_else(|| {
            self.refuse(field, &format!("expected {expected}, got {}", shown(value)));
            default
        })
    }

    pub(super) fn boolean(&self, field: &str, default: bool) -> bool {
        self.read(field, default, "true or false", Value::as_bool)
    }

    pub(super) fn text(&self, field: &str, default: &str) -> String {
        self.read(field, default.to_owned(), "a text", |value| {
            value.as_str().map(str::to_owned)
        })
    }

    pub(super) fn texts(&self, field: &str) -> Vec<String> {
        let all = |value: &Value| {
            let items = value.as_array()?;
            items.iter().map(|item| item.as_str().map(str::to_owned)).collect()
        };
        self.read(field, Vec::new(), "a list of texts", all)
    }

    pub(super) fn decimal(&self, field: &str, default: f64) -> f64 {
        self.read(field, default, "a number", Value::as_f64)
    }

    pub(super) fn integer<T: TryFrom<i64> + fmt::Display>(&self, field: &str, default: T, least: i64, most: i64) -> T {
        let expected = format!("a whole number from {least} to {most}");
        self.read(field, default, &expected, |value| {
            let number = value.as_i64().filter(|number| (least..=most).contains(number))?;
            T::try_from(number).ok()
        })
    }

    pub(super) fn duration(&self, field: &str, default: Duration) -> Duration {
        let expected = "a length of time such as \"15s\"";
        self.read(field, default, expected, |value| {
            value.as_str()?.parse::<GoDuration>().ok()?.to_standard()
        })
    }

    pub(super) fn choice<T: Copy>(&self, field: &str, default: T, choices: &[(&str, T)]) -> T {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        self.read(field, default, &format!("one of {}", names.join(", ")), |value| {
            let text = value.as_str()?;
            choices
                .iter()
                .find(|(name, _)| *name == text)
                .map(|(_, choice)| *choice)
        })
    }
}

impl Drop for Section<'_> {
    fn drop(&mut self) {
        let asked = self.asked.borrow();
        let unknown = self
            .fields
            .into_iter()
            .flat_map(Map::keys)
            .filter(|key| !asked.contains(*key));
        for key in unknown {
            let problem = Problem::new(&self.at(key), "this field is unknown and has no effect");
            self.findings.borrow_mut().warnings.push(problem);
        }
    }
}

/// A value in a message: short ones as they are, long ones by their kind.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(_) => "a mapping".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        other => other.to_string(),
    }
}
