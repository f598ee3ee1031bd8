//! Who may change managed objects: only the operator and those it exempts, unless the set lifts the protection.
//!
//! The decision needs one lookup (the set that the object belongs to), so it has two steps: [`Request::owner`] says
//! which set to look up, if any, and [`Request::decide`] decides with what was found. On updates and deletions the
//! labels of the *old* object count: otherwise removing a label would lift the protection.
//!
//! Deleting a pod is free, because that is how people restart one. Nothing here decides about `scale` and `status`,
//! which are written by autoscalers and schedulers.

use std::collections::BTreeMap;

use crate::names::{annotations, labels};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Creates an object.
    Create,
    /// Changes an object.
    Update,
    /// Deletes an object.
    Delete,
    /// Connects to an object (`exec`, `attach`, ...).
    Connect,
}

/// A request to change an object that carries our label.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// What it does.
    pub operation: Operation,
    /// The kind of object, such as `Pod`.
    pub kind: &'a str,
    /// `status`, `scale`, ...; empty for the object itself.
    pub subresource: &'a str,
    /// The name of the object, for messages.
    pub name: &'a str,
    /// The user who asks.
    pub user: &'a str,
    /// The labels of the new object on creation, of the old object otherwise.
    pub labels: Option<&'a BTreeMap<String, String>>,
}

/// Who is never refused.
#[derive(Clone, Copy, Debug)]
pub struct Trusted<'a> {
    /// The operator's own user name.
    pub operator: &'a str,
    /// Further users, by full name.
    pub exempt: &'a [String],
}

/// What the lookup of the owning set gave.
#[derive(Clone, Copy, Debug)]
pub enum Owner<'a> {
    /// No lookup was asked for.
    None,
    /// There is no such set.
    Missing,
    /// The annotations of the set.
    Found(Option<&'a BTreeMap<String, String>>),
}

/// Whether a request is allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is, possibly with a warning.
    Allow(Option<String>),
    /// It is not, and why.
    Deny(String),
}

impl Request<'_> {
    /// The set to look up before deciding, in the namespace of the object. None when the decision needs no lookup.
    pub fn owner(&self) -> Option<&str> {
        if self.operation == Operation::Connect || !self.subresource.is_empty() {
            return None;
        }
        self.labels?.get(labels::PART_OF).map(String::as_str)
    }

    /// Decides, with what the lookup of [`Request::owner`] gave.
    pub fn decide(&self, owner: Owner<'_>, trusted: Trusted<'_>) -> Decision {
        if self.operation == Operation::Connect || !self.subresource.is_empty() {
            return Decision::Allow(None);
        }
        let Some(set) = self.owner() else {
            return Decision::Allow(Some(format!(
                "{} {:?} has no label {}, so no set protects it",
                self.kind,
                self.name,
                labels::PART_OF
            )));
        };
        let set_annotations = match owner {
            Owner::None | Owner::Missing => {
                let text = format!(
                    "PodCliqueSet {set:?} of {} {:?} does not exist, so nothing protects it",
                    self.kind, self.name
                );
                return Decision::Allow(Some(text));
            }
            Owner::Found(annotations) => annotations,
        };
        let lifted = set_annotations.and_then(|all| all.get(annotations::DISABLE_PROTECTION));
        let free_deletion = self.operation == Operation::Delete && self.kind == "Pod";
        if lifted.is_some_and(|value| value == annotations::DISABLE_PROTECTION_VALUE)
            || free_deletion
            || self.user == trusted.operator
            || trusted.exempt.iter().any(|user| user == self.user)
        {
            return Decision::Allow(None);
        }
        Decision::Deny(format!(
            "{} {:?} is managed by PodCliqueSet {set:?} and user {:?} may not change it: change the set instead, or set its \
             annotation {}: \"{}\" to lift the protection",
            self.kind,
            self.name,
            self.user,
            annotations::DISABLE_PROTECTION,
            annotations::DISABLE_PROTECTION_VALUE
        ))
    }
}
