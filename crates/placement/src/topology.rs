//! Topology views: which nodes lie close together.
//!
//! A view is made from an ordered list of node label keys, broadest first. Nodes are sorted by their path of label
//! values, so every domain at every level is a contiguous range of positions, and domains nest. A domain is identified by
//! its whole path: rack `r1` of zone `a` is not rack `r1` of zone `b`. A node without the label of a level belongs to no
//! domain of that level and still belongs to the domains of every level it is labelled for.
//!
//! Depth 0 is the root (all nodes, labelled or not); the first key has depth 1. Views are rebuilt when nodes or their
//! labels change; nothing here knows about capacity.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// A node, as an index that stays the same for as long as the node exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A domain of one view; the root is [`DomainId::ROOT`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainId(pub(crate) u32);

impl DomainId {
    /// The domain of all nodes.
    pub const ROOT: Self = Self(0);
    /// The domain of no nodes: where extras go that may go nowhere.
    pub const NOWHERE: Self = Self(1);
    pub(crate) const NONE: Self = Self(u32::MAX);

    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// The label values that identify a domain, broadest first; `None` where its nodes lack the label of a broader level.
pub type DomainPath = Vec<Option<String>>;

/// One domain: a range of positions at one depth.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Domain {
    /// 0 for the root, 1 for the broadest level.
    pub depth: usize,
    /// First position.
    pub start: usize,
    /// One past the last position.
    pub end: usize,
    /// The closest domain around it; the root is its own parent.
    pub parent: DomainId,
    /// What identifies it.
    pub path: DomainPath,
}

/// The nodes of a cluster seen through one list of label keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    name: String,
    keys: Vec<String>,
    order: Vec<NodeId>,
    position: Vec<u32>,
    domains: Vec<Domain>,
    by_depth: Vec<Vec<DomainId>>,
    chain: Vec<DomainId>,
}

impl View {
    /// Builds the view over the given nodes; `slots` is one more than the highest node index.
    pub(crate) fn build<'a>(
        name: &str,
        keys: &[String],
        nodes: impl Iterator<Item = (NodeId, &'a str, &'a BTreeMap<String, String>)>,
        slots: usize,
    ) -> Self {
        let mut rows: Vec<(Vec<Option<&str>>, &str, NodeId)> = nodes
            .map(|(id, node_name, labels)| {
                let path = keys.iter().map(|key| labels.get(key).map(String::as_str)).collect();
                (path, node_name, id)
            })
            .collect();
        rows.sort_unstable_by(|left, right| match left.0.cmp(&right.0) {
            Ordering::Equal => left.1.cmp(right.1),
            other => other,
        });
        let mut view = Self {
            name: name.to_owned(),
            keys: keys.to_vec(),
            order: rows.iter().map(|row| row.2).collect(),
            position: vec![u32::MAX; slots],
            domains: vec![
                Domain {
                    depth: 0,
                    start: 0,
                    end: rows.len(),
                    parent: DomainId::ROOT,
                    path: Vec::new(),
                },
                Domain {
                    depth: keys.len() + 1,
                    start: 0,
                    end: 0,
                    parent: DomainId::ROOT,
                    path: Vec::new(),
                },
            ],
            by_depth: vec![Vec::new(); keys.len() + 1],
            chain: vec![DomainId::NONE; slots * keys.len()],
        };
        view.by_depth[0].push(DomainId::ROOT);
        for (at, row) in rows.iter().enumerate() {
            view.position[row.2.index()] = u32::try_from(at).expect("fewer than 2^32 nodes");
            let mut parent = DomainId::ROOT;
            for depth in 1..=keys.len() {
                if row.0[depth - 1].is_none() {
                    continue;
                }
                let same = at > 0 && rows[at - 1].0[..depth] == row.0[..depth];
                let domain = if same {
                    *view.by_depth[depth]
                        .last()
                        .expect("the previous node opened this domain")
                } else {
                    view.open(depth, at, parent, &row.0[..depth])
                };
                view.domains[domain.index()].end = at + 1;
                view.chain[row.2.index() * keys.len() + depth - 1] = domain;
                parent = domain;
            }
        }
        view
    }

    fn open(&mut self, depth: usize, at: usize, parent: DomainId, path: &[Option<&str>]) -> DomainId {
        let id = DomainId(u32::try_from(self.domains.len()).expect("fewer than 2^32 domains"));
        self.domains.push(Domain {
            depth,
            start: at,
            end: at,
            parent,
            path: path.iter().map(|value| value.map(str::to_owned)).collect(),
        });
        self.by_depth[depth].push(id);
        id
    }

    /// The name of the topology.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The label keys, broadest first.
    #[must_use]
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// The depth of a label key.
    #[must_use]
    pub fn depth_of(&self, key: &str) -> Option<usize> {
        self.keys.iter().position(|candidate| candidate == key).map(|at| at + 1)
    }

    /// The label key of a depth; nothing for the root.
    #[must_use]
    pub fn key_of(&self, depth: usize) -> Option<&str> {
        depth
            .checked_sub(1)
            .and_then(|at| self.keys.get(at))
            .map(String::as_str)
    }

    /// All domains: the root, the one without nodes, then those made from labels.
    #[must_use]
    pub fn domains(&self) -> &[Domain] {
        &self.domains
    }

    /// One domain.
    #[must_use]
    pub fn domain(&self, id: DomainId) -> &Domain {
        &self.domains[id.index()]
    }

    /// The nodes of a domain.
    #[must_use]
    pub fn nodes_in(&self, id: DomainId) -> &[NodeId] {
        let domain = self.domain(id);
        &self.order[domain.start..domain.end]
    }

    /// Whether `inner` lies within `outer` (or is it).
    #[must_use]
    pub fn contains(&self, outer: DomainId, inner: DomainId) -> bool {
        let (outer, inner) = (self.domain(outer), self.domain(inner));
        outer.depth <= inner.depth && outer.start <= inner.start && inner.end <= outer.end
    }

    /// Whether a node lies in a domain.
    #[must_use]
    pub fn holds(&self, domain: DomainId, node: NodeId) -> bool {
        let domain = self.domain(domain);
        let position = self.position[node.index()] as usize;
        domain.start <= position && position < domain.end
    }

    /// The domains of one depth inside another domain, in order.
    #[must_use]
    pub fn inside(&self, outer: DomainId, depth: usize) -> &[DomainId] {
        let range = self.domain(outer);
        let all = &self.by_depth[depth];
        let first = all.partition_point(|id| self.domain(*id).start < range.start);
        let last = all.partition_point(|id| self.domain(*id).end <= range.end);
        if first <= last { &all[first..last] } else { &[] }
    }

    /// The indices of a domain and of all domains inside it: domains are numbered by position, outer ones first.
    pub(crate) fn numbers_inside(&self, outer: DomainId) -> std::ops::Range<usize> {
        let end = self.domain(outer).end;
        let after = self.domains.partition_point(|domain| domain.start < end);
        outer.index()..after.max(outer.index() + 1)
    }

    /// The domain of a node at a depth.
    #[must_use]
    pub fn domain_of(&self, node: NodeId, depth: usize) -> Option<DomainId> {
        if depth == 0 {
            return Some(DomainId::ROOT);
        }
        let domain = self.chain[node.index() * self.keys.len() + depth - 1];
        (domain != DomainId::NONE).then_some(domain)
    }

    /// The domain of the given depth around a domain, if there is one.
    #[must_use]
    pub fn ancestor_at(&self, id: DomainId, depth: usize) -> Option<DomainId> {
        let mut at = id;
        while self.domain(at).depth > depth {
            at = self.domain(at).parent;
        }
        (self.domain(at).depth == depth).then_some(at)
    }

    /// The domain with this path.
    #[must_use]
    pub fn find(&self, path: &[Option<String>]) -> Option<DomainId> {
        self.by_depth
            .get(path.len())?
            .iter()
            .copied()
            .find(|id| self.domain(*id).path == path)
    }

    /// The domains a node belongs to, the root included.
    pub(crate) fn chain_of(&self, node: NodeId) -> impl Iterator<Item = DomainId> + '_ {
        let width = self.keys.len();
        let at = node.index() * width;
        std::iter::once(DomainId::ROOT).chain(
            self.chain[at..at + width]
                .iter()
                .copied()
                .filter(|id| *id != DomainId::NONE),
        )
    }

    /// A domain in words: its label values joined by slashes.
    #[must_use]
    pub fn describe(&self, id: DomainId) -> String {
        let path = &self.domain(id).path;
        if id == DomainId::NOWHERE {
            return "nowhere".to_owned();
        }
        if path.is_empty() {
            return "the whole cluster".to_owned();
        }
        let values: Vec<&str> = path.iter().map(|value| value.as_deref().unwrap_or("-")).collect();
        values.join("/")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(rows: &[(&str, &[(&str, &str)])], keys: &[&str]) -> View {
        let nodes: Vec<(String, BTreeMap<String, String>)> = rows
            .iter()
            .map(|(name, labels)| {
                let labels = labels.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
                ((*name).to_owned(), labels)
            })
            .collect();
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let listed = nodes
            .iter()
            .enumerate()
            .map(|(at, row)| (NodeId(at as u32), row.0.as_str(), &row.1));
        View::build("t", &keys, listed, nodes.len())
    }

    #[test]
    fn domains_are_ranges_and_paths_identify_them() {
        let view = view(
            &[
                ("n1", &[("zone", "b"), ("rack", "r1")]),
                ("n2", &[("zone", "a"), ("rack", "r1")]),
                ("n3", &[("zone", "a"), ("rack", "r2")]),
                ("n4", &[("zone", "a"), ("rack", "r1")]),
            ],
            &["zone", "rack"],
        );
        assert_eq!(view.inside(DomainId::ROOT, 1).len(), 2);
        assert_eq!(
            view.inside(DomainId::ROOT, 2).len(),
            3,
            "r1 of zone a is not r1 of zone b"
        );
        let zone_a = view.domain_of(NodeId(1), 1).unwrap();
        assert_eq!(view.nodes_in(zone_a), &[NodeId(1), NodeId(3), NodeId(2)]);
        assert_eq!(view.inside(zone_a, 2).len(), 2);
        let rack = view.domain_of(NodeId(3), 2).unwrap();
        assert_eq!(view.describe(rack), "a/r1");
        assert_eq!(view.ancestor_at(rack, 1), Some(zone_a));
        assert_eq!(view.find(&[Some("a".into()), Some("r1".into())]), Some(rack));
        assert!(view.contains(zone_a, rack) && !view.contains(rack, zone_a));
        for outer in [zone_a, rack, DomainId::ROOT] {
            let inside = |at: &usize| view.contains(outer, DomainId(*at as u32)) && *at != DomainId::NOWHERE.index();
            let numbers: Vec<usize> = view
                .numbers_inside(outer)
                .filter(|at| *at != DomainId::NOWHERE.index())
                .collect();
            assert_eq!(numbers, (0..view.domains().len()).filter(inside).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_node_without_a_label_keeps_the_levels_it_has() {
        let view = view(
            &[
                ("n1", &[("zone", "a")]),
                ("n2", &[("zone", "a"), ("rack", "r1"), ("host", "n2")]),
                ("n3", &[("zone", "a"), ("host", "n3")]),
                ("n4", &[]),
            ],
            &["zone", "rack", "host"],
        );
        let zone = view.domain_of(NodeId(0), 1).unwrap();
        assert_eq!(view.nodes_in(zone).len(), 3);
        assert_eq!(view.domain_of(NodeId(0), 2), None);
        assert_eq!(view.inside(zone, 2).len(), 1);
        let host = view.domain_of(NodeId(2), 3).unwrap();
        assert_eq!(view.domain(host).parent, zone, "no rack in between");
        assert_eq!(view.ancestor_at(host, 2), None);
        assert_eq!(view.inside(zone, 3).len(), 2);
        assert_eq!(view.domain_of(NodeId(3), 1), None);
        assert!(view.holds(DomainId::ROOT, NodeId(3)));
        assert_eq!(view.describe(host), "a/-/n3");
    }
}
