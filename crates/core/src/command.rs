//! What a planner wants done.
//!
//! Every command is either a create under a name known beforehand or conditional on what was read: a patch carries the
//! resource version it was planned for, a delete the uid. So a command that comes too late does nothing.

use serde_json::{Map, Value};

pub use crate::kind::Kind;
use crate::object::NewObject;
use crate::reasons::Reason;

/// An object that was read.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Target {
    /// Its kind.
    pub kind: Kind,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The version that was read.
    pub resource_version: String,
}

/// How soon a status must be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Counts on their way to a settled state; several changes may be written as one.
    Settling,
    /// Counts that have settled. Few wait for them: what more do goes first.
    Settled,
    /// A state that others act on.
    Now,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Create an object. That it exists already is success.
    Create(NewObject),
    /// Merge a patch into an object's metadata and specification.
    Merge {
        /// The object as it was read.
        target: Target,
        /// A JSON merge patch.
        patch: Value,
    },
    /// Merge a patch into an object's status.
    Status {
        /// The object as it was read.
        target: Target,
        /// A JSON merge patch of the status.
        patch: Value,
        /// How soon.
        urgency: Urgency,
    },
    /// Take our scheduling gate off a pod, and no other.
    RemoveGate {
        /// The pod as it was read.
        target: Target,
        /// The gates that stay: they belong to others.
        remaining: Vec<String>,
    },
    /// Read pods from the API server that seem to be gone. When one of them exists, the plan was made from an old view:
    /// what follows is not carried out.
    Confirm {
        /// The clique that they belong to, as it was read.
        target: Target,
        /// Names of the pods.
        names: Vec<String>,
    },
    /// Delete an object.
    Delete {
        /// The object as it was read.
        target: Target,
    },
    /// Tell people.
    Event {
        /// What it is about.
        target: Target,
        /// Whether something is wrong.
        warning: bool,
        /// A reason of the documented list.
        reason: Reason,
        /// What happened.
        message: String,
    },
}

impl Command {
    /// Whether it takes a finalizer of ours off an object that is being deleted.
    pub fn lets_go(&self) -> bool {
        matches!(self, Self::Merge { patch, .. } if patch["metadata"]["finalizers"].is_array() && patch["spec"].is_null())
    }
}

/// The merge patch that turns `stored` into `desired`; none when they are equal.
pub fn merge_patch(stored: &Value, desired: &Value) -> Option<Value> {
    if stored == desired {
        return None;
    }
    let (Value::Object(stored), Value::Object(desired)) = (stored, desired) else {
        return Some(desired.clone());
    };
    let mut patch = Map::new();
    for (key, value) in desired {
        match stored.get(key) {
            Some(existing) => {
                if let Some(change) = merge_patch(existing, value) {
                    patch.insert(key.clone(), change);
                }
            }
            None => {
                patch.insert(key.clone(), value.clone());
            }
        }
    }
    for key in stored.keys().filter(|key| !desired.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    Some(Value::Object(patch))
}

/// The merge patch that turns a stored status into the desired one; none when they are equal. Of an object without a
/// status everything is written, also what has its default: a schema may require it.
pub fn status_patch<S: serde::Serialize>(stored: Option<&S>, desired: &S) -> Option<Value> {
    let stored = stored.map_or_else(|| Value::Object(Map::new()), |status| serde_json::json!(status));
    merge_patch(&stored, &serde_json::json!(desired))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_names_what_changed_and_removes_what_went() {
        let stored = json!({"a": 1, "b": {"x": 1, "y": 2}, "c": [1]});
        assert_eq!(merge_patch(&stored, &stored.clone()), None);
        let desired = json!({"a": 1, "b": {"x": 3}, "d": true});
        assert_eq!(
            merge_patch(&stored, &desired),
            Some(json!({"b": {"x": 3, "y": null}, "c": null, "d": true}))
        );
    }
}
