//! From what is known of a domain to what is known of each of its cliques.
//!
//! A node belongs to the clique of its fabric; a pod to the clique whose row names it, else to the clique it reported, else
//! to that of its node. So a daemon that was started before its node moved to another clique stays with its old row until it
//! is gone, and the new clique gets a row of its own at once.

use std::collections::{BTreeMap, BTreeSet};

use super::facts::{CliqueFacts, NodeMembership, PodFacts};
use super::owner::names_pod;
use crate::api::{DaemonRow, limits};

/// A node as it is cached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeFacts {
    /// UID of the domain it is labelled for.
    pub domain_uid: Option<String>,
    /// The clique that its slice publishes; none when it publishes no such attribute, empty without a fabric.
    pub clique_id: Option<String>,
}

/// What is known of a domain.
#[derive(Clone, Debug, Default)]
pub struct DomainFacts {
    /// UID of the domain.
    pub uid: String,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Nodes as they are cached, at least those labelled for the domain and those with a row.
    pub nodes: BTreeMap<String, NodeFacts>,
    /// Daemon pods of the domain as they are cached.
    pub pods: Vec<PodFacts>,
    /// UIDs of daemon pods that were seen deleted.
    pub deleted_pods: BTreeSet<String>,
    /// The stored rows of each clique of the domain.
    pub rows: BTreeMap<String, Vec<DaemonRow>>,
}

impl DomainFacts {
    /// The clique of a node: what its slice says, else what a pod there reported (nodes with an older plugin).
    pub fn clique_of_node(&self, node: &str) -> Option<&str> {
        let published = self.nodes.get(node).and_then(|facts| facts.clique_id.as_deref());
        let reported = || {
            let pods = self.pods.iter().filter(|pod| pod.node == node && !pod.ended);
            pods.filter_map(|pod| pod.reported_clique.as_deref()).next_back()
        };
        published.or_else(reported)
    }

    fn clique_of_pod<'a>(&'a self, pod: &'a PodFacts) -> Option<&'a str> {
        let named = self.rows.iter().find(|(_, rows)| {
            let mut rows = rows.iter().filter(|row| row.node_name == pod.node);
            rows.any(|row| names_pod(row, &pod.uid, &pod.address))
        });
        let named = named.map(|(clique, _)| clique.as_str());
        named
            .or(pod.reported_clique.as_deref())
            .or_else(|| self.clique_of_node(&pod.node))
    }
}

/// The facts of each clique that has rows or members.
pub fn group(domain: &DomainFacts) -> BTreeMap<String, CliqueFacts> {
    let mut cliques: BTreeMap<String, CliqueFacts> = BTreeMap::new();
    let empty = || CliqueFacts {
        deleting: domain.deleting,
        deleted_pods: domain.deleted_pods.clone(),
        ..CliqueFacts::default()
    };
    let labelled = |facts: &NodeFacts| facts.domain_uid.as_deref() == Some(domain.uid.as_str());
    for (name, _) in domain.nodes.iter().filter(|(_, facts)| labelled(facts)) {
        if let Some(clique) = domain
            .clique_of_node(name)
            .filter(|clique| limits::is_clique_id(clique))
        {
            let facts = cliques.entry(clique.to_owned()).or_insert_with(empty);
            facts.nodes.insert(name.clone(), NodeMembership::Member);
        }
    }
    for (clique, rows) in &domain.rows {
        let facts = cliques.entry(clique.clone()).or_insert_with(empty);
        for row in rows {
            let membership = match domain.nodes.get(&row.node_name) {
                None => NodeMembership::Unknown,
                // A node whose fabric is not known is not known to have left.
                Some(node) if labelled(node) && domain.clique_of_node(&row.node_name).is_none() => {
                    NodeMembership::Member
                }
                Some(_) => NodeMembership::Left,
            };
            facts.nodes.entry(row.node_name.clone()).or_insert(membership);
        }
    }
    for pod in &domain.pods {
        if let Some(clique) = domain.clique_of_pod(pod)
            && let Some(facts) = cliques.get_mut(clique)
        {
            facts.pods.entry(pod.node.clone()).or_default().push(pod.clone());
        }
    }
    cliques
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    fn node(domain: &str, clique: Option<&str>) -> NodeFacts {
        NodeFacts {
            domain_uid: Some(domain.into()),
            clique_id: clique.map(Into::into),
        }
    }

    fn pod(uid: &str, node: &str, address: &str, reported: Option<&str>) -> PodFacts {
        PodFacts {
            uid: uid.into(),
            node: node.into(),
            created: Timestamp::UNIX_EPOCH,
            address: address.into(),
            ready: false,
            ended: false,
            writes_own_row: false,
            reported_clique: reported.map(Into::into),
        }
    }

    fn row(node: &str, pod: &str) -> DaemonRow {
        DaemonRow {
            node_name: node.into(),
            pod_uid: Some(pod.into()),
            ip_address: "10.0.0.1".into(),
            ..DaemonRow::default()
        }
    }

    /// §9.4: a node that moved to another domain does not keep its row through that domain's pod.
    #[test]
    fn a_node_of_another_domain_has_left() {
        let domain = DomainFacts {
            uid: "d".into(),
            nodes: [("a".to_owned(), node("other", Some("u.1")))].into(),
            rows: [("u.1".to_owned(), vec![row("a", "p"), row("b", "q")])].into(),
            ..DomainFacts::default()
        };
        let facts = &group(&domain)["u.1"];
        assert_eq!(facts.nodes["a"], NodeMembership::Left);
        assert_eq!(facts.nodes["b"], NodeMembership::Unknown);
    }

    #[test]
    fn a_daemon_stays_with_the_row_it_was_started_for_when_its_node_moves() {
        let domain = DomainFacts {
            uid: "d".into(),
            nodes: [("a".to_owned(), node("d", Some("u.2")))].into(),
            pods: vec![pod("p", "a", "10.0.0.1", None), pod("q", "a", "10.0.0.2", None)],
            rows: [("u.1".to_owned(), vec![row("a", "p")])].into(),
            ..DomainFacts::default()
        };
        let cliques = group(&domain);
        assert_eq!(cliques["u.1"].nodes["a"], NodeMembership::Left);
        assert_eq!(cliques["u.1"].pods["a"][0].uid, "p");
        assert_eq!(cliques["u.2"].nodes["a"], NodeMembership::Member);
        assert_eq!(cliques["u.2"].pods["a"][0].uid, "q");
    }

    #[test]
    fn nodes_without_a_fabric_or_with_a_nonsense_one_have_no_row() {
        let domain = DomainFacts {
            uid: "d".into(),
            nodes: [
                ("a".to_owned(), node("d", Some(""))),
                ("b".to_owned(), node("d", Some("../x"))),
                ("c".to_owned(), node("d", None)),
                ("e".to_owned(), node("d", None)),
            ]
            .into(),
            pods: vec![pod("p", "e", "", Some("u.7"))],
            ..DomainFacts::default()
        };
        let cliques = group(&domain);
        assert_eq!(cliques.keys().collect::<Vec<_>>(), ["u.7"]);
        assert!(cliques["u.7"].is_member("e"));
    }
}
