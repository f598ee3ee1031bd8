//! What work is queued for: a replica of a set, or the set as a whole.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use coppice_api::names::{labels, parsing::parse_index};

/// A PodCliqueSet, by namespace and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SetKey {
    /// Its namespace.
    pub namespace: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

impl SetKey {
    /// A key from its parts.
    pub fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
        }
    }
}

impl fmt::Display for SetKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.name)
    }
}

/// What work is queued for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// What concerns the whole set.
    Set(SetKey),
    /// One replica of it.
    Replica(SetKey, u32),
}

/// The set that an object belongs to, by its labels.
pub fn set_of(namespace: Option<&str>, labels: &BTreeMap<String, String>) -> Option<SetKey> {
    Some(SetKey::new(namespace.unwrap_or_default(), labels.get(labels::PART_OF)?))
}

/// The replica that an object belongs to, by its labels.
pub fn replica_of(namespace: Option<&str>, labels: &BTreeMap<String, String>) -> Option<(SetKey, u32)> {
    let index = parse_index(labels.get(labels::SET_REPLICA_INDEX)?)?;
    Some((set_of(namespace, labels)?, index))
}

/// The replica that an object belongs to when it was written by an operator that does not label it with the index: the
/// index stands between the set's name, which a label gives, and the next dash.
pub fn replica_of_unlabelled(
    namespace: Option<&str>,
    labels: &BTreeMap<String, String>,
    name: &str,
) -> Option<(SetKey, u32)> {
    let set = set_of(namespace, labels)?;
    let rest = name.strip_prefix(&*set.name)?.strip_prefix('-')?;
    let index = parse_index(rest.split('-').next()?)?;
    Some((set, index))
}
