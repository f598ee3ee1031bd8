//! One writer's part of a status that several write: their writes do not meet.
//!
//! Owns the translation of "these fields, and these conditions of mine" into JSON patch operations that touch nothing else.
//! A condition is replaced at its place, after a test that what is there is what was read; a new one is appended. So a
//! write neither depends on the version of the object nor undoes what others wrote meanwhile, and one that was made for an
//! older state of its own part is refused. Only the first conditions of all, which have no place yet, would take the place of
//! what others write meanwhile: of several writers, all but one must then insist on the version.

use serde_json::{Map, Value, json};

/// What to write.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OwnPart {
    /// The operations; none when the status says so already.
    pub operations: Vec<Value>,
    /// The first conditions are written: what others wrote since the object was read would be lost.
    pub needs_version: bool,
}

impl OwnPart {
    /// The operations that bring one writer's part of `status`, as it was read, to what `changes` says: a JSON merge patch of
    /// plain fields, in which `conditions` is the whole list; of that, those whose type is `mine` count.
    #[must_use]
    pub fn of(status: Option<&Value>, changes: &Value, mine: impl Fn(&str) -> bool) -> Self {
        let nothing = Map::new();
        let changes = changes.as_object().unwrap_or(&nothing);
        let mut part = Self::default();
        let Some(status) = status.filter(|status| status.as_object().is_some_and(|fields| !fields.is_empty())) else {
            let whole: Map<String, Value> = changes
                .clone()
                .into_iter()
                .filter(|(_, value)| !value.is_null())
                .collect();
            if !whole.is_empty() {
                part.needs_version = true;
                part.operations
                    .push(json!({"op": "add", "path": "/status", "value": whole}));
            }
            return part;
        };
        for (field, value) in changes.iter().filter(|(field, _)| *field != "conditions") {
            let path = format!("/status/{}", escaped(field));
            match (value.is_null(), &status[field]) {
                (_, known) if known == value => {}
                (true, _) => part.operations.push(json!({"op": "remove", "path": path})),
                (false, _) => part.operations.push(json!({"op": "add", "path": path, "value": value})),
            }
        }
        if let Some(wanted) = changes.get("conditions").and_then(Value::as_array) {
            part.conditions(status["conditions"].as_array(), wanted, &mine);
        }
        part
    }

    fn conditions(&mut self, known: Option<&Vec<Value>>, wanted: &[Value], mine: &impl Fn(&str) -> bool) {
        let is_mine = |condition: &Value| condition["type"].as_str().is_some_and(mine);
        let wanted: Vec<&Value> = wanted.iter().filter(|condition| is_mine(condition)).collect();
        let Some(known) = known else {
            if !wanted.is_empty() {
                self.needs_version = true;
                self.operations
                    .push(json!({"op": "add", "path": "/status/conditions", "value": wanted}));
            }
            return;
        };
        let same = |a: &Value, b: &Value| a["type"] == b["type"];
        for (at, condition) in known.iter().enumerate() {
            let Some(now) = wanted.iter().find(|now| same(now, condition)) else {
                continue;
            };
            if *now != condition {
                self.test(at, condition);
                self.operations
                    .push(json!({"op": "replace", "path": format!("/status/conditions/{at}"), "value": now}));
            }
        }
        let new = wanted
            .iter()
            .filter(|now| !known.iter().any(|condition| same(now, condition)));
        self.operations
            .extend(new.map(|now| json!({"op": "add", "path": "/status/conditions/-", "value": now})));
        // From the last to the first, so that the others stay where they are until their turn.
        for (at, condition) in known.iter().enumerate().rev() {
            if is_mine(condition) && !wanted.iter().any(|now| same(now, condition)) {
                self.test(at, condition);
                self.operations
                    .push(json!({"op": "remove", "path": format!("/status/conditions/{at}")}));
            }
        }
    }

    fn test(&mut self, at: usize, condition: &Value) {
        for field in ["type", "status", "reason"] {
            let path = format!("/status/conditions/{at}/{field}");
            self.operations
                .push(json!({"op": "test", "path": path, "value": condition[field]}));
        }
    }
}

/// A field as a part of a path.
fn escaped(field: &str) -> String {
    field.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(kind: &str, status: &str) -> Value {
        json!({"type": kind, "status": status, "reason": "R", "message": ""})
    }

    fn applied(status: &Value, part: &OwnPart) -> Result<Value, json_patch::PatchError> {
        let mut object = json!({"status": status});
        let patch: json_patch::Patch = serde_json::from_value(json!(part.operations)).expect("operations");
        json_patch::patch(&mut object, &patch)?;
        Ok(object["status"].clone())
    }

    #[test]
    fn two_writers_of_one_status_do_not_undo_each_other() {
        let read = json!({"phase": "Pending", "conditions": [condition("A", "False"), condition("B", "False"), condition("C", "False")]});
        let ours = json!({"phase": "Running", "conditions": [condition("A", "True"), condition("B", "True"), condition("D", "True")]});
        let first = OwnPart::of(Some(&read), &ours, |kind| kind != "B");
        let theirs = json!({"score": 1, "conditions": [condition("B", "True")]});
        let second = OwnPart::of(Some(&read), &theirs, |kind| kind == "B");
        assert!(!first.needs_version && !second.needs_version);
        // In whichever order they arrive.
        for (a, b) in [(&first, &second), (&second, &first)] {
            let done = applied(&applied(&read, a).unwrap(), b).unwrap();
            let expected = json!({"phase": "Running", "score": 1,
                "conditions": [condition("A", "True"), condition("B", "True"), condition("D", "True")]});
            assert_eq!(done, expected);
        }
        assert!(
            applied(&applied(&read, &first).unwrap(), &first).is_err(),
            "made for an older state"
        );
    }

    #[test]
    fn what_is_said_already_is_not_written_and_what_went_is_removed() {
        let read = json!({"phase": "P", "score": 1, "conditions": [condition("A", "True"), condition("X", "True")]});
        let mine = |kind: &str| kind == "A";
        let same = json!({"phase": "P", "conditions": [condition("A", "True")]});
        assert_eq!(OwnPart::of(Some(&read), &same, mine), OwnPart::default());
        let gone = OwnPart::of(
            Some(&read),
            &json!({"score": null, "gone": null, "conditions": []}),
            mine,
        );
        assert_eq!(
            applied(&read, &gone).unwrap(),
            json!({"phase": "P", "conditions": [condition("X", "True")]})
        );
    }

    #[test]
    fn the_first_conditions_need_the_version() {
        let wanted = json!({"phase": "P", "gone": null, "conditions": [condition("A", "True")]});
        for read in [None, Some(json!({})), Some(json!({"phase": "P"}))] {
            let part = OwnPart::of(read.as_ref(), &wanted, |_| true);
            assert!(part.needs_version);
            let done = applied(&read.unwrap_or_default(), &part).unwrap();
            assert_eq!(done, json!({"phase": "P", "conditions": [condition("A", "True")]}));
        }
    }
}
