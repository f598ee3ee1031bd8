//! What happened during a scenario, in order: steps and observed changes with the fields that changed. Rendering keeps
//! what matters for a failure: the objects it is about, and the end. Pure.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::Value;

use super::target::KindName;
use super::world::{Change, ObjectKey, Verb};

const FIELDS_PER_LINE: usize = 5;
const LONGEST_VALUE: usize = 60;

/// Fields that change without anything having happened, or only together with something else that is shown.
const UNINTERESTING: [&str; 9] = [
    "resourceVersion",
    "managedFields",
    "generation",
    "observedGeneration",
    "lastHeartbeatTime",
    "lastTransitionTime",
    "lastProbeTime",
    "lastUpdateTime",
    "selfLink",
];

/// What a reader looks for first.
const FIRST: [&str; 5] = [
    "metadata.deletionTimestamp ",
    "status.phase ",
    "status.conditions[Ready].status ",
    "spec.nodeName ",
    "spec.replicas ",
];

/// One line of a timeline.
#[derive(Debug, Clone)]
pub struct Entry {
    /// Since the start of the scenario.
    pub at: Duration,
    /// What happened.
    pub event: Event,
}

/// What a line tells.
#[derive(Debug, Clone)]
pub enum Event {
    /// A step began, ended, or something else about the run itself.
    Note(String),
    /// An object changed.
    Change {
        /// What happened to it.
        verb: Verb,
        /// The object.
        key: ObjectKey,
        /// The fields that changed, as text.
        fields: Vec<String>,
    },
}

/// The ordered events of a scenario.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    entries: Vec<Entry>,
}

impl Timeline {
    /// Adds a remark.
    pub fn note(&mut self, at: Duration, text: impl Into<String>) {
        self.entries.push(Entry {
            at,
            event: Event::Note(text.into()),
        });
    }

    /// Adds an observed change.
    pub fn record(&mut self, at: Duration, change: &Change) {
        let fields = match (&change.before, &change.after) {
            (Some(before), Some(after)) => changed_fields(before, after),
            (None, Some(after)) => {
                let shown: &[&str] = if change.key.kind == "Event" {
                    &["reason ", "message "]
                } else {
                    &FIRST
                };
                let fields = changed_fields(&Value::Null, after);
                fields
                    .into_iter()
                    .filter(|field| shown.iter().any(|start| field.starts_with(start)))
                    .collect()
            }
            _ => Vec::new(),
        };
        let (verb, key) = (change.verb, change.key.clone());
        self.entries.push(Entry {
            at,
            event: Event::Change { verb, key, fields },
        });
    }

    /// All entries.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The remarks and the changes of the given kinds (all kinds when none is given), at most `limit` lines from the
    /// end, with a word on what was left out.
    pub fn render(&self, kinds: &[KindName], limit: usize) -> String {
        let relevant: Vec<&Entry> = self
            .entries
            .iter()
            .filter(|entry| match &entry.event {
                Event::Note(_) => true,
                // A change without a visible field is noise; its neighbours tell the story.
                Event::Change { verb, key, fields } => {
                    (*verb != Verb::Modified || !fields.is_empty())
                        && (kinds.is_empty() || kinds.iter().any(|kind| kind.matches(key)))
                }
            })
            .collect();
        let shown = &relevant[relevant.len().saturating_sub(limit)..];
        let mut text = String::new();
        let earlier = relevant.len() - shown.len();
        let others = self.entries.len() - relevant.len();
        if earlier > 0 || others > 0 {
            let _ = writeln!(
                text,
                "  ({earlier} earlier lines and {others} changes of no interest left out)"
            );
        }
        for entry in shown {
            let _ = writeln!(text, "  {:>8.3}s  {}", entry.at.as_secs_f64(), entry.event);
        }
        text
    }
}

impl std::fmt::Display for Event {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Note(text) => write!(formatter, "== {text}"),
            Self::Change { verb, key, fields } => {
                write!(formatter, "{verb:<8}  {key}")?;
                if !fields.is_empty() {
                    let more = fields.len().saturating_sub(FIELDS_PER_LINE);
                    write!(formatter, "  {}", fields[..fields.len() - more].join("; "))?;
                    if more > 0 {
                        write!(formatter, "; and {more} more")?;
                    }
                }
                Ok(())
            }
        }
    }
}

/// The leaves in which two objects differ, as `path before → after`. Lists of named or typed elements are compared by
/// that name, so that a condition shows under its type and not under a position.
pub fn changed_fields(before: &Value, after: &Value) -> Vec<String> {
    let (mut old, mut new) = (BTreeMap::new(), BTreeMap::new());
    flatten(String::new(), before, &mut old);
    flatten(String::new(), after, &mut new);
    let mut paths: Vec<&String> = old.keys().chain(new.keys()).collect();
    paths.sort();
    paths.dedup();
    let show = |side: Option<&String>| side.map_or_else(|| "-".to_owned(), |value| shorten(value));
    let changed = paths.into_iter().filter(|path| old.get(*path) != new.get(*path));
    let mut fields: Vec<String> = changed
        .map(|path| format!("{path} {} → {}", show(old.get(path)), show(new.get(path))))
        .collect();
    fields.sort_by_key(|field| {
        FIRST
            .iter()
            .position(|first| field.starts_with(first))
            .unwrap_or(FIRST.len())
    });
    fields
}

fn flatten(path: String, value: &Value, leaves: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(entries) => {
            for (name, entry) in entries
                .iter()
                .filter(|(name, _)| !UNINTERESTING.contains(&name.as_str()))
            {
                let joined = match (path.is_empty(), name.contains('.')) {
                    (true, _) => name.clone(),
                    (false, true) => format!("{path}[{name}]"),
                    (false, false) => format!("{path}.{name}"),
                };
                flatten(joined, entry, leaves);
            }
        }
        Value::Array(elements) => {
            for (index, element) in elements.iter().enumerate() {
                let named = |key: &'static str| Some((key, element.get(key)?.as_str()?));
                match ["type", "name"].into_iter().find_map(named) {
                    // The name already stands in the path.
                    Some((key, name)) => {
                        let mut rest = element.clone();
                        rest.as_object_mut().map(|entries| entries.remove(key));
                        flatten(format!("{path}[{name}]"), &rest, leaves);
                    }
                    None => flatten(format!("{path}[{index}]"), element, leaves),
                }
            }
        }
        Value::Null => {}
        leaf => {
            leaves.insert(path, leaf.as_str().map_or_else(|| leaf.to_string(), str::to_owned));
        }
    }
}

fn shorten(value: &str) -> String {
    if value.chars().count() <= LONGEST_VALUE {
        return value.replace('\n', " ");
    }
    let start: String = value.chars().take(LONGEST_VALUE - 1).collect();
    format!("{}…", start.replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::world::{Scope, World};
    use serde_json::json;

    fn scope(kind: &str) -> Scope {
        Scope {
            kind: kind.to_owned(),
            group: String::new(),
            namespace: "ns".to_owned(),
        }
    }

    fn recorded() -> Timeline {
        let mut world = World::default();
        let mut timeline = Timeline::default();
        let pod = |version: &str, phase: &str, ready: &str| {
            json!({
                "metadata": {"uid": "1", "resourceVersion": version, "annotations": {"a.b/c": phase}},
                "status": {"phase": phase, "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": version}]},
            })
        };
        timeline.note(Duration::from_millis(5), "step 1: create");
        let mut feed = |millis: u64, changes: Vec<Change>| {
            for change in &changes {
                timeline.record(Duration::from_millis(millis), change);
            }
        };
        feed(10, world.apply(scope("Pod").key("web"), pod("1", "Pending", "False")));
        feed(
            11,
            world.apply(scope("Node").key("n"), json!({"metadata": {"uid": "2"}})),
        );
        feed(12, world.apply(scope("Pod").key("web"), pod("2", "Pending", "False")));
        feed(1500, world.apply(scope("Pod").key("web"), pod("3", "Running", "True")));
        feed(2000, world.delete(&scope("Pod").key("web")));
        timeline
    }

    #[test]
    fn lines_show_time_verb_object_and_what_changed() {
        assert_eq!(
            recorded().render(&["Pod".parse().unwrap()], 10),
            "  (0 earlier lines and 2 changes of no interest left out)\n     \
             0.005s  == step 1: create\n     \
             0.010s  added     Pod web  status.phase - → Pending; status.conditions[Ready].status - → False\n     \
             1.500s  modified  Pod web  status.phase Pending → Running; status.conditions[Ready].status False → True; metadata.annotations[a.b/c] Pending → Running\n     \
             2.000s  deleted   Pod web\n"
        );
    }

    #[test]
    fn only_the_end_is_kept() {
        let text = recorded().render(&[], 2);
        assert!(
            text.starts_with("  (3 earlier lines and 1 changes of no interest left out)\n"),
            "{text}"
        );
        assert!(
            text.contains("modified") && text.contains("deleted") && !text.contains("added"),
            "{text}"
        );
    }

    #[test]
    fn long_values_and_many_fields_are_cut() {
        let after: Value = (0..8)
            .map(|index| (format!("field{index}"), json!("x".repeat(100))))
            .collect();
        let fields = changed_fields(&json!({}), &after);
        assert_eq!(fields.len(), 8);
        assert!(
            fields[0].ends_with('…') && fields[0].chars().count() < 80,
            "{}",
            fields[0]
        );
        let event = Event::Change {
            verb: Verb::Modified,
            key: scope("Pod").key("a"),
            fields,
        };
        assert!(event.to_string().ends_with("; and 3 more"));
    }
}
