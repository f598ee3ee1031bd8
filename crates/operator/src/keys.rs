//! What work is queued for: a replica of a set, the set as a whole, or a topology.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use coppice_api::names::{
    labels,
    parsing::{parse_index, parse_replica_of_child},
};

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
    /// A ClusterTopologyBinding, by name.
    Topology(Arc<str>),
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
    let index = parse_replica_of_child(&set.name, name)?;
    Some((set, index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gang_without_an_index_label_is_found_by_the_set_it_is_labelled_with() {
        let labels = BTreeMap::from([(labels::PART_OF.to_owned(), "web-0".to_owned())]);
        let replica = |name: &str| replica_of_unlabelled(Some("n"), &labels, name).map(|(_, index)| index);
        assert_eq!(
            replica("web-0-3"),
            Some(3),
            "a digit in the set's own name is not the index"
        );
        assert_eq!(replica("web-0-12-decode-0"), Some(12));
        assert_eq!(replica("web-1-3"), None, "another set's");
        assert_eq!(replica("web-0-x"), None);
    }
}
