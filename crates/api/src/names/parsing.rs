//! Reading names back, by reconstruction only.
//!
//! Every function takes the known owner and answers only if building the name again gives the text it was given.

use std::collections::BTreeMap;

use super::{ReplicaName, ScalingGroupName, labels};

/// Why an object's labels and name do not identify it.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum IdentityError {
    /// A label is missing.
    #[error("label {0} is missing; the operator sets it on every object that it manages")]
    Missing(&'static str),
    /// A label is not an index.
    #[error("label {key} is {value:?}, which is not an index (0, 1, 2, ... without leading zeros)")]
    NotAnIndex {
        /// The label.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// The labels contradict the name.
    #[error("name {name:?} is not that of {expected}, which is what its labels say")]
    Contradiction {
        /// The name.
        name: String,
        /// What the labels say.
        expected: String,
    },
}

/// A decimal index as we write it: no sign, no leading zeros.
pub fn parse_index(text: &str) -> Option<u32> {
    let index: u32 = text.parse().ok()?;
    (index.to_string() == text).then_some(index)
}

/// The copy of `set` that a base gang or headless service of this name belongs to.
pub fn parse_replica<'a>(set: &'a str, name: &str) -> Option<ReplicaName<'a>> {
    let index = parse_index(name.strip_prefix(set)?.strip_prefix('-')?)?;
    let replica = ReplicaName::new(set, index);
    (replica.to_string() == name).then_some(replica)
}

/// The index of the copy of `set` that a child of this name belongs to: every child is named after its copy. For objects
/// of operators that do not label them with the index; the set's name is known exactly, from a label.
pub fn parse_replica_of_child(set: &str, name: &str) -> Option<u32> {
    let rest = name.strip_prefix(set)?.strip_prefix('-')?;
    parse_index(rest.split('-').next()?)
}

/// The name in the template of the scaling group whose object in this copy has this name.
pub fn parse_scaling_group<'a>(replica: ReplicaName<'a>, name: &'a str) -> Option<ScalingGroupName<'a>> {
    let group = name.strip_prefix(&replica.to_string())?.strip_prefix('-')?;
    (!group.is_empty()).then(|| replica.scaling_group(group))
}

/// The index of a pod of `clique` with this host name.
pub fn parse_hostname(clique: &str, hostname: &str) -> Option<u32> {
    parse_index(hostname.strip_prefix(clique)?.strip_prefix('-')?)
}

/// What a PodClique is, from its labels and checked against its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CliqueIdentity {
    /// The set.
    pub set: String,
    /// The copy of the set.
    pub replica: u32,
    /// The scaling group by name in the template, and its copy; none for a standalone clique.
    pub scaling_group: Option<(String, u32)>,
    /// The clique, by name in the template.
    pub clique: String,
}

impl CliqueIdentity {
    /// Reads the identity of the PodClique `name` with these labels.
    pub fn read(name: &str, from: &BTreeMap<String, String>) -> Result<Self, IdentityError> {
        let text = |key| from.get(key).map(String::as_str).ok_or(IdentityError::Missing(key));
        let index = |key| {
            let value = text(key)?;
            parse_index(value).ok_or_else(|| IdentityError::NotAnIndex {
                key,
                value: value.to_owned(),
            })
        };
        let set = text(labels::PART_OF)?;
        let replica = ReplicaName::new(set, index(labels::SET_REPLICA_INDEX)?);
        let contradiction = |expected: String| IdentityError::Contradiction {
            name: name.to_owned(),
            expected,
        };
        let (scaling_group, owner) = match from.get(labels::SCALING_GROUP) {
            None => (None, replica.to_string()),
            Some(object) => {
                let copy = index(labels::SCALING_GROUP_REPLICA_INDEX)?;
                let group = parse_scaling_group(replica, object)
                    .ok_or_else(|| contradiction(format!("scaling group {object:?} in copy {replica}")))?;
                (Some((group.group.to_owned(), copy)), group.replica_name(copy))
            }
        };
        let clique = name
            .strip_prefix(&owner)
            .and_then(|rest| rest.strip_prefix('-'))
            .filter(|clique| !clique.is_empty())
            .ok_or_else(|| contradiction(format!("a clique of {owner}")))?;
        let identity = Self {
            set: set.to_owned(),
            replica: replica.index,
            scaling_group,
            clique: clique.to_owned(),
        };
        debug_assert_eq!(identity.object_name(), name);
        Ok(identity)
    }

    /// The copy of the set.
    pub fn replica_name(&self) -> ReplicaName<'_> {
        ReplicaName::new(&self.set, self.replica)
    }

    /// The name of the PodClique object.
    pub fn object_name(&self) -> String {
        match &self.scaling_group {
            None => self.replica_name().clique_name(&self.clique),
            Some((group, copy)) => self
                .replica_name()
                .scaling_group(group)
                .clique_name(*copy, &self.clique),
        }
    }
}
