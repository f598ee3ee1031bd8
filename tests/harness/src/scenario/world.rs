//! The objects a scenario can see, as last observed, and the changes between two observations. A plain value without
//! clock or client: the recorder feeds it, expectations and never-statements read it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

/// Which object: its kind, where it lives, its name. The namespace of cluster-wide objects is empty.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectKey {
    /// The kind, such as `Pod`.
    pub kind: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The namespace; empty for cluster-wide objects.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.kind, self.name)
    }
}

/// What one watch covers: a kind, in one namespace or cluster-wide.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Scope {
    /// The kind.
    pub kind: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The namespace; empty for cluster-wide kinds.
    pub namespace: String,
}

impl Scope {
    /// The key of an object within the scope.
    pub fn key(&self, name: &str) -> ObjectKey {
        ObjectKey {
            kind: self.kind.clone(),
            group: self.group.clone(),
            namespace: self.namespace.clone(),
            name: name.to_owned(),
        }
    }

    fn covers(&self, key: &ObjectKey) -> bool {
        self.kind == key.kind && self.group == key.group && self.namespace == key.namespace
    }
}

/// What happened to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verb {
    /// It was not there before.
    Added,
    /// It was there before and is another now.
    Modified,
    /// It is gone.
    Deleted,
}

impl fmt::Display for Verb {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(match self {
            Self::Added => "added",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
        })
    }
}

/// One observed change.
#[derive(Debug, Clone)]
pub struct Change {
    /// The object.
    pub key: ObjectKey,
    /// What happened to it.
    pub verb: Verb,
    /// Its last state before, if it was there.
    pub before: Option<Arc<Value>>,
    /// Its state now, if it is there.
    pub after: Option<Arc<Value>>,
}

/// All observed objects.
#[derive(Debug, Clone, Default)]
pub struct World {
    objects: BTreeMap<ObjectKey, Arc<Value>>,
}

impl World {
    /// Every object with its key, ordered by kind, namespace and name.
    pub fn objects(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<Value>)> {
        self.objects.iter()
    }

    /// One object.
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    /// An object was seen. Another UID under the same name means that the old object was deleted in between; the
    /// same resource version means that nothing happened.
    pub fn apply(&mut self, key: ObjectKey, object: Value) -> Vec<Change> {
        let object = Arc::new(object);
        let before = self.objects.insert(key.clone(), Arc::clone(&object));
        let after = Some(object);
        match before {
            Some(before) if uid(&before) != after.as_deref().and_then(uid) && uid(&before).is_some() => vec![
                Change {
                    key: key.clone(),
                    verb: Verb::Deleted,
                    before: Some(before),
                    after: None,
                },
                Change {
                    key,
                    verb: Verb::Added,
                    before: None,
                    after,
                },
            ],
            Some(before) if after.as_deref() == Some(&*before) => Vec::new(),
            Some(before) => vec![Change {
                key,
                verb: Verb::Modified,
                before: Some(before),
                after,
            }],
            None => vec![Change {
                key,
                verb: Verb::Added,
                before: None,
                after,
            }],
        }
    }

    /// An object was seen to be gone.
    pub fn delete(&mut self, key: &ObjectKey) -> Vec<Change> {
        let before = self.objects.remove(key);
        before
            .map(|before| Change {
                key: key.clone(),
                verb: Verb::Deleted,
                before: Some(before),
                after: None,
            })
            .into_iter()
            .collect()
    }

    /// Whether the world is at least as new as a complete list of a scope. `listed_at` is the version of the list, and
    /// `seen_up_to` the newest version the scope's watch has delivered.
    pub fn is_current(&self, scope: &Scope, listed: &[(ObjectKey, Value)], listed_at: u64, seen_up_to: u64) -> bool {
        let caught_up = listed.iter().all(|(key, object)| match self.get(key) {
            Some(seen) if uid(seen) == uid(object) => version(seen) >= version(object),
            // Gone again since, which only a watch that is further than the list can tell.
            _ => seen_up_to > listed_at,
        });
        let unlisted = |key: &ObjectKey| !listed.iter().any(|(listed, _)| listed == key);
        let none_outlived = self
            .objects
            .iter()
            .filter(|(key, _)| scope.covers(key) && unlisted(key))
            .all(|(_, object)| version(object) > Some(listed_at));
        caught_up && none_outlived
    }

    /// A complete list of a scope was seen: what is not in it is gone.
    pub fn replace(&mut self, scope: &Scope, listed: Vec<(ObjectKey, Value)>) -> Vec<Change> {
        let gone: Vec<ObjectKey> = self
            .objects
            .keys()
            .filter(|key| scope.covers(key) && !listed.iter().any(|(listed, _)| listed == *key))
            .cloned()
            .collect();
        let mut changes: Vec<Change> = gone.iter().flat_map(|key| self.delete(key)).collect();
        changes.extend(listed.into_iter().flat_map(|(key, object)| self.apply(key, object)));
        changes
    }
}

/// The UID of an object.
pub fn uid(object: &Value) -> Option<&str> {
    object.pointer("/metadata/uid").and_then(Value::as_str)
}

/// The resource version of an object; those of one resource are numbers that grow.
pub fn version(object: &Value) -> Option<u64> {
    object
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str)
        .and_then(|text| text.parse().ok())
}

/// The labels of an object.
pub fn labels(object: &Value) -> BTreeMap<String, String> {
    let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    labels
        .into_iter()
        .flatten()
        .map(|(key, value)| (key.clone(), text(value)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scope() -> Scope {
        Scope {
            kind: "Pod".to_owned(),
            group: String::new(),
            namespace: "a".to_owned(),
        }
    }

    fn pod(uid: &str, phase: &str) -> Value {
        json!({"metadata": {"uid": uid}, "status": {"phase": phase}})
    }

    fn verbs(changes: &[Change]) -> Vec<(Verb, &str)> {
        changes
            .iter()
            .map(|change| (change.verb, change.key.name.as_str()))
            .collect()
    }

    #[test]
    fn changes_are_told_apart() {
        let mut world = World::default();
        let key = scope().key("one");
        assert_eq!(
            verbs(&world.apply(key.clone(), pod("1", "Pending"))),
            [(Verb::Added, "one")]
        );
        assert_eq!(verbs(&world.apply(key.clone(), pod("1", "Pending"))), []);
        assert_eq!(
            verbs(&world.apply(key.clone(), pod("1", "Running"))),
            [(Verb::Modified, "one")]
        );
        assert_eq!(
            verbs(&world.apply(key.clone(), pod("2", "Pending"))),
            [(Verb::Deleted, "one"), (Verb::Added, "one")]
        );
        assert_eq!(verbs(&world.delete(&key)), [(Verb::Deleted, "one")]);
        assert_eq!(verbs(&world.delete(&key)), []);
    }

    #[test]
    fn a_world_is_current_when_it_is_at_least_as_new_as_a_list() {
        let pod = |uid: &str, version: &str| json!({"metadata": {"uid": uid, "resourceVersion": version}});
        let one = |uid: &str, version: &str| vec![(scope().key("one"), pod(uid, version))];
        let mut world = World::default();
        world.apply(scope().key("one"), pod("1", "10"));
        let current =
            |listed: &[(ObjectKey, Value)], at: u64, up_to: u64| world.is_current(&scope(), listed, at, up_to);
        assert!(current(&one("1", "9"), 9, 10));
        assert!(current(&one("1", "10"), 12, 10));
        assert!(!current(&one("1", "11"), 11, 10), "a newer state was not seen");
        assert!(
            !current(&one("2", "11"), 11, 10),
            "another object under the name was not seen"
        );
        assert!(!current(&[], 11, 10), "the deletion was not seen");
        assert!(current(&[], 9, 10), "created after the list");
        let two = vec![
            (scope().key("one"), pod("1", "10")),
            (scope().key("two"), pod("2", "8")),
        ];
        assert!(!current(&two, 10, 10), "the second was not seen");
        assert!(current(&two, 10, 11), "the second was deleted after the list");
    }

    #[test]
    fn a_complete_list_deletes_what_it_lacks_in_its_scope_only() {
        let mut world = World::default();
        let elsewhere = ObjectKey {
            namespace: "b".to_owned(),
            ..scope().key("one")
        };
        world.apply(scope().key("one"), pod("1", "Running"));
        world.apply(scope().key("two"), pod("2", "Running"));
        world.apply(elsewhere.clone(), pod("3", "Running"));
        let listed = vec![
            (scope().key("two"), pod("2", "Running")),
            (scope().key("three"), pod("4", "Pending")),
        ];
        assert_eq!(
            verbs(&world.replace(&scope(), listed)),
            [(Verb::Deleted, "one"), (Verb::Added, "three")]
        );
        assert!(world.get(&elsewhere).is_some());
    }
}
