//! `allOf`, `anyOf`, `oneOf` and `not`.

use serde_json::Value;

use super::Walk;
use crate::errors::FieldError;
use crate::model::{Cursor, NodeId};
use crate::path::Path;

struct Outcome {
    errors: Vec<FieldError>,
    matches: u32,
}

impl Walk {
    pub(super) fn check_combinations(&mut self, at: Cursor<'_>, value: &Value, old: Option<&Value>, path: &Path<'_>) {
        let Some(constraints) = &at.node().constraints else {
            return;
        };
        let attempt = |id: NodeId| {
            let mut walk = Walk::default();
            walk.check(at.set.cursor(id), value, old, path);
            Outcome {
                errors: walk.errors,
                matches: walk.matches,
            }
        };
        if !constraints.any_of.is_empty() {
            self.any_of(constraints.any_of.iter().map(|id| attempt(*id)), path);
        }
        if !constraints.one_of.is_empty() {
            self.one_of(constraints.one_of.iter().map(|id| attempt(*id)), path);
        }
        let mut valid = 0;
        for outcome in constraints.all_of.iter().map(|id| attempt(*id)) {
            valid += usize::from(outcome.errors.is_empty());
            self.take(outcome);
        }
        if valid != constraints.all_of.len() {
            let none = if valid == 0 { ". None validated" } else { "" };
            self.composite(path, &format!("must validate all the schemas (allOf){none}"));
        }
        if constraints.not.is_some_and(|id| attempt(id).errors.is_empty()) {
            self.composite(path, "must not validate the schema (not)");
        }
    }

    fn any_of(&mut self, outcomes: impl Iterator<Item = Outcome>, path: &Path<'_>) {
        let mut best: Option<Outcome> = None;
        for outcome in outcomes {
            if outcome.errors.is_empty() {
                self.matches += outcome.matches;
                return;
            }
            if best.as_ref().is_none_or(|best| outcome.matches > best.matches) {
                best = Some(outcome);
            }
        }
        self.composite(path, "must validate at least one schema (anyOf)");
        best.into_iter().for_each(|outcome| self.take(outcome));
    }

    fn one_of(&mut self, outcomes: impl Iterator<Item = Outcome>, path: &Path<'_>) {
        let mut best: Option<Outcome> = None;
        let mut valid = 0;
        let mut gained = 0;
        for outcome in outcomes {
            if outcome.errors.is_empty() {
                valid += 1;
                gained = if valid == 1 { outcome.matches } else { gained };
                best = None;
            } else if valid == 0 && best.as_ref().is_none_or(|best| outcome.matches > best.matches) {
                best = Some(outcome);
            }
        }
        match valid {
            1 => self.matches += gained,
            0 => self.composite(path, "must validate one and only one schema (oneOf). Found none valid"),
            many => {
                let words = format!("must validate one and only one schema (oneOf). Found {many} valid alternatives");
                self.composite(path, &words);
            }
        }
        best.into_iter().for_each(|outcome| self.take(outcome));
    }

    fn take(&mut self, outcome: Outcome) {
        self.errors.extend(outcome.errors);
        self.matches += outcome.matches;
    }

    /// Errors of combinations name the field in their words and belong to no field.
    fn composite(&mut self, path: &Path<'_>, words: &str) {
        let detail = format!("{} {words}", crate::gotext::quote(&path.to_dotted()));
        self.errors.push(FieldError::invalid("", "".into(), detail));
    }
}
