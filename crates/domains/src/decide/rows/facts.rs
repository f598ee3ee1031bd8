//! What is known of the nodes and pods of one clique, and how certain it is.
//!
//! Caches may be old, so what is *in* them is believed and what is *missing* from them is not. A row loses its pod or its
//! node only by a positive signal: a deletion that was watched, or a [`Check`], a live read that the planner asks for.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;

/// A daemon pod of the domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodFacts {
    /// Its UID.
    pub uid: String,
    /// The node it runs on.
    pub node: String,
    /// When it was created: of two pods on a node, the newer one owns the row.
    pub created: Timestamp,
    /// Its address; empty until it has one, and when it is not an address.
    pub address: String,
    /// Whether it is Ready.
    pub ready: bool,
    /// Whether it has ended (Succeeded or Failed): it owns nothing any more.
    pub ended: bool,
    /// Whether it writes its row itself, as the driver's own daemons do.
    pub writes_own_row: bool,
    /// The clique it reported; empty: no fabric.
    pub reported_clique: Option<String>,
}

/// Whether a node belongs to the domain and clique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeMembership {
    /// It is labelled for the domain and its fabric is this clique.
    Member,
    /// The cached node is not labelled for the domain, or its fabric is another clique.
    Left,
    /// The node is not in the cache.
    Unknown,
}

/// A request for a live read of a node and of the domain's daemon pods on it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Check {
    /// The node.
    pub node: String,
    /// The pod in the row.
    pub pod_uid: Option<String>,
    /// The address in the row.
    pub address: String,
}

/// What a live read found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckResult {
    /// What was asked.
    pub check: Check,
    /// Whether the node belongs to the domain and this clique; `Unknown` when it does not exist.
    pub membership: NodeMembership,
    /// UIDs and addresses of the domain's daemon pods on the node that have not ended, without those that the row of
    /// another clique names.
    pub pods: Vec<(String, String)>,
}

impl CheckResult {
    fn pod_is_there(&self) -> bool {
        self.pods.iter().any(|(uid, address)| match &self.check.pod_uid {
            Some(wanted) => wanted == uid,
            None => !self.check.address.is_empty() && self.check.address == *address,
        })
    }

    /// Whether the pod of the row is gone.
    pub fn confirms_pod_gone(&self) -> bool {
        !self.pod_is_there()
    }

    /// Whether the row can be released: the node is gone; or it has left and no daemon of this clique runs on it that
    /// could answer under the row's name.
    pub fn confirms_departure(&self) -> bool {
        match self.membership {
            NodeMembership::Unknown => true,
            NodeMembership::Left => self.pods.is_empty(),
            NodeMembership::Member => false,
        }
    }
}

/// What is known of one clique of a domain.
#[derive(Clone, Debug, Default)]
pub struct CliqueFacts {
    /// Nodes that have a row or should have one.
    pub nodes: BTreeMap<String, NodeMembership>,
    /// Daemon pods by node, as cached, without those that belong to another clique.
    pub pods: BTreeMap<String, Vec<PodFacts>>,
    /// UIDs of pods that were seen deleted.
    pub deleted_pods: BTreeSet<String>,
    /// Results of live reads, by node: the newest of each.
    pub checked: BTreeMap<String, CheckResult>,
    /// Indices that nodes had before their rows were lost, for example because the object was deleted.
    pub former: BTreeMap<String, u32>,
    /// Whether the domain is being deleted: the rows go with the object.
    pub deleting: bool,
}

impl CliqueFacts {
    /// Whether a node is known to belong to the clique.
    pub fn is_member(&self, node: &str) -> bool {
        self.nodes.get(node) == Some(&NodeMembership::Member)
    }

    /// The cached pods of a node.
    pub fn pods_of(&self, node: &str) -> &[PodFacts] {
        self.pods.get(node).map_or(&[], Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(pod_uid: Option<&str>, address: &str, membership: NodeMembership, pods: &[(&str, &str)]) -> CheckResult {
        CheckResult {
            check: Check {
                node: "a".into(),
                pod_uid: pod_uid.map(Into::into),
                address: address.into(),
            },
            membership,
            pods: pods
                .iter()
                .map(|(uid, address)| ((*uid).into(), (*address).into()))
                .collect(),
        }
    }

    #[test]
    fn a_row_is_released_only_when_no_daemon_can_answer_for_it() {
        use NodeMembership::{Left, Member, Unknown};
        assert!(result(Some("p"), "", Unknown, &[]).confirms_departure());
        assert!(!result(Some("p"), "", Member, &[]).confirms_departure());
        assert!(!result(Some("p"), "1", Left, &[("p", "1")]).confirms_departure());
        // Any daemon on the node may have read the row and be about to use its index.
        assert!(!result(Some("p"), "1", Left, &[("q", "2")]).confirms_departure());
        assert!(!result(None, "", Left, &[("q", "2")]).confirms_departure());
        assert!(result(None, "", Left, &[]).confirms_departure());
        // A row of the driver's own daemon is known by its address.
        assert!(!result(None, "1", Left, &[("p", "1")]).confirms_pod_gone());
        assert!(result(None, "1", Left, &[("q", "2")]).confirms_pod_gone());
    }
}
