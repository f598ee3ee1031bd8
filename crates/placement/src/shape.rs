//! Pod shapes: pods that are interchangeable to the scheduler.
//!
//! Owns the interning of everything a pod demands (requests, node demands, host ports, anti-affinity, the labels that
//! others' anti-affinity looks at) to a small id, and the relation "these two may not share a node", which covers host ports
//! and anti-affinity on the host name alike. What the engine cannot honour is listed in [`PodDemands::unsupported`] by the
//! caller or found here, and makes every plan with that shape a refusal.
//!
//! Shapes stay for as long as the table: callers keep their number small by passing only those pod labels that some
//! anti-affinity selector in the cluster mentions, and make a new table when it has doubled (the scheduler's
//! `Model::forget_unused`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::predicates::{Expression, Labels, NodeDemands, selector_parts};
use crate::resources::{Amounts, Column, Columns, Unoffered};

/// The label by which hosts are told apart.
pub const HOSTNAME: &str = "kubernetes.io/hostname";

/// A shape, as an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeId(pub(crate) u32);

impl ShapeId {
    pub(crate) fn index(self) -> usize {
        self.0 as usize
    }
}

/// A port on the node.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The address; empty or `0.0.0.0` means all.
    pub address: String,
    /// The number.
    pub port: u16,
}

impl HostPort {
    fn collides(&self, other: &Self) -> bool {
        let any = |address: &str| address.is_empty() || address == "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (any(&self.address) || any(&other.address) || self.address == other.address)
    }
}

/// A required anti-affinity term.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeepApart {
    /// Only the host name can be honoured.
    pub topology_key: String,
    /// Namespaces of the pods to keep away from; empty means the pod's own.
    pub namespaces: BTreeSet<String>,
    /// Which pods; all expressions must hold.
    pub selector: Vec<Expression>,
}

/// Something a pod asks for that the engine does not do.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Unsupported {
    /// Anti-affinity on something else than the host name.
    #[error("required anti-affinity on {0:?} (only {HOSTNAME} is honoured)")]
    AntiAffinityKey(String),
    /// Required affinity to other pods.
    #[error("required pod affinity")]
    PodAffinity,
    /// Hard topology spread constraints.
    #[error("topology spread constraints with DoNotSchedule")]
    TopologySpread,
    /// A device claim without an allocation.
    #[error("resource claim {0:?} is not allocated")]
    UnallocatedClaim(String),
    /// Anything else, in words.
    #[error("{0}")]
    Other(String),
}

/// Everything the placement of a pod depends on.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodDemands {
    /// Its namespace.
    pub namespace: String,
    /// The labels that anti-affinity selectors may look at.
    pub labels: Labels,
    /// Effective requests in base units; the pod itself (`pods: 1`) is added.
    pub requests: Amounts,
    /// What it asks of nodes.
    pub node: NodeDemands,
    /// Ports it takes on the node.
    pub host_ports: Vec<HostPort>,
    /// Pods it must not share a node with.
    pub keep_apart: Vec<KeepApart>,
    /// Claims on volumes that are not bound yet, by their names in [`crate::Gang::claims`].
    pub claims: BTreeSet<String>,
    /// Volumes that count once on a node however many pods use them: by the resource that limits them, their names.
    pub attached: BTreeMap<String, BTreeSet<String>>,
    /// What the caller already knows cannot be honoured.
    pub unsupported: Vec<Unsupported>,
}

impl PodDemands {
    /// What cannot be honoured, the first few of it.
    #[must_use]
    pub fn refusals(&self, most: usize) -> Vec<Unsupported> {
        let keys = self.keep_apart.iter().filter(|term| term.topology_key != HOSTNAME);
        let keys = keys.map(|term| Unsupported::AntiAffinityKey(term.topology_key.clone()));
        self.unsupported.iter().cloned().chain(keys).take(most).collect()
    }

    /// How many labels, amounts, expressions, values and ports there are: what it costs to keep and to compare.
    #[must_use]
    pub fn parts(&self) -> usize {
        let apart = self.keep_apart.iter();
        let apart = apart.map(|term| 1 + term.namespaces.len() + selector_parts(&term.selector));
        self.labels.len()
            + self.requests.len()
            + self.host_ports.len()
            + self.unsupported.len()
            + self.claims.len()
            + self.attached.values().map(BTreeSet::len).sum::<usize>()
            + apart.sum::<usize>()
            + self.node.parts()
    }

    fn shuns(&self, other: &Self) -> bool {
        self.keep_apart.iter().any(|term| {
            let namespace = if term.namespaces.is_empty() {
                other.namespace == self.namespace
            } else {
                term.namespaces.contains(&other.namespace)
            };
            namespace && term.selector.iter().all(|expression| expression.matches(&other.labels))
        })
    }

    fn may_share(&self, other: &Self) -> bool {
        let ports = self
            .host_ports
            .iter()
            .any(|mine| other.host_ports.iter().any(|port| port.collides(mine)));
        !ports && !self.shuns(other) && !other.shuns(self)
    }
}

/// One interned shape.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shape {
    /// What it was made from.
    pub demands: Arc<PodDemands>,
    /// Requests by column, the pod itself included; never empty.
    pub requests: Vec<(Column, i64)>,
    /// Columns of which it takes one per volume that is not on the node yet. A limit that no node has does not count.
    pub attached: Vec<(Column, Arc<BTreeSet<String>>)>,
    /// What it asks for and no node offers: if there is any such thing, no node has room for it.
    pub unoffered: Unoffered,
    /// What one look at a node costs, in steps.
    pub effort: usize,
    /// Two such pods may not share a node.
    pub exclusive: bool,
    /// Other shapes that may not share a node with this one, sorted.
    pub conflicts: Vec<ShapeId>,
}

/// All shapes of a cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shapes {
    shapes: Vec<Shape>,
    index: BTreeMap<Arc<PodDemands>, ShapeId>,
    picky: Vec<ShapeId>,
    parts: usize,
}

/// Parts that are compared with a node in one step.
const PARTS_PER_STEP: usize = 32;

impl Shapes {
    /// The shape of these demands, created on first use.
    pub fn intern(&mut self, demands: &Arc<PodDemands>, columns: &Columns) -> ShapeId {
        if let Some(id) = self.index.get(demands) {
            return *id;
        }
        let id = ShapeId(u32::try_from(self.shapes.len()).expect("fewer than 2^32 shapes"));
        // Only a shape with ports or terms can cause a conflict, so only those are compared with everything.
        let picky = !demands.host_ports.is_empty() || !demands.keep_apart.is_empty();
        let against: Vec<ShapeId> = if picky {
            (0..id.0).map(ShapeId).collect()
        } else {
            self.picky.clone()
        };
        let conflicts: Vec<ShapeId> = against
            .into_iter()
            .filter(|other| !self.shapes[other.index()].demands.may_share(demands))
            .collect();
        for other in &conflicts {
            self.shapes[other.index()].conflicts.push(id);
        }
        if picky {
            self.picky.push(id);
        }
        let (requests, unoffered) = resolve(demands, columns);
        let parts = demands.parts();
        self.parts = self.parts.saturating_add(parts);
        self.shapes.push(Shape {
            exclusive: !demands.may_share(demands),
            demands: demands.clone(),
            attached: attached(demands, columns),
            requests,
            unoffered,
            effort: 1 + parts / PARTS_PER_STEP,
            conflicts,
        });
        self.index.insert(demands.clone(), id);
        id
    }

    /// Reads the requests of every shape again: the columns have changed.
    pub(crate) fn resolve(&mut self, columns: &Columns) {
        for shape in &mut self.shapes {
            (shape.requests, shape.unoffered) = resolve(&shape.demands, columns);
            shape.attached = attached(&shape.demands, columns);
        }
    }

    /// How many parts the demands of all shapes have together.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.parts
    }

    /// One shape.
    #[must_use]
    pub fn get(&self, id: ShapeId) -> &Shape {
        &self.shapes[id.index()]
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shapes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shapes.is_empty()
    }
}

/// Requests by column, the pod itself included.
fn resolve(demands: &PodDemands, columns: &Columns) -> (Vec<(Column, i64)>, Unoffered) {
    let (mut requests, unoffered) = columns.resolve(&demands.requests);
    requests.retain(|(column, _)| *column != Column::PODS);
    requests.push((Column::PODS, 1));
    requests.sort_unstable();
    (requests, unoffered)
}

/// Shared volumes by the column that limits them.
fn attached(demands: &PodDemands, columns: &Columns) -> Vec<(Column, Arc<BTreeSet<String>>)> {
    let limited = demands.attached.iter();
    limited
        .filter_map(|(name, volumes)| Some((columns.get(name)?, Arc::new(volumes.clone()))))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predicates::Operator;

    fn port(address: &str, port: u16) -> HostPort {
        HostPort {
            protocol: "TCP".into(),
            address: address.into(),
            port,
        }
    }

    fn with_ports(ports: Vec<HostPort>) -> PodDemands {
        PodDemands {
            host_ports: ports,
            ..PodDemands::default()
        }
    }

    #[test]
    fn equal_demands_are_one_shape_and_every_pod_counts() {
        let (columns, mut shapes) = (Columns::default(), Shapes::default());
        let demands = PodDemands {
            requests: Amounts::from([("cpu".into(), 5), ("pods".into(), 9)]),
            ..PodDemands::default()
        };
        let first = shapes.intern(&Arc::new(demands.clone()), &columns);
        assert_eq!(shapes.intern(&Arc::new(demands.clone()), &columns), first);
        assert_eq!(shapes.len(), 1);
        assert_eq!(shapes.get(first).requests, vec![(Column::CPU, 5), (Column::PODS, 1)]);
    }

    #[test]
    fn ports_collide_by_protocol_number_and_address() {
        let (columns, mut shapes) = (Columns::default(), Shapes::default());
        let any = shapes.intern(&Arc::new(with_ports(vec![port("", 80)])), &columns);
        let one = shapes.intern(&Arc::new(with_ports(vec![port("10.0.0.1", 80)])), &columns);
        let two = shapes.intern(&Arc::new(with_ports(vec![port("10.0.0.2", 80)])), &columns);
        let other = shapes.intern(&Arc::new(with_ports(vec![port("", 81)])), &columns);
        assert_eq!(shapes.get(any).conflicts, vec![one, two]);
        assert_eq!(shapes.get(one).conflicts, vec![any]);
        assert!(shapes.get(other).conflicts.is_empty());
        assert!(shapes.get(one).exclusive, "two of them want the same port");
    }

    #[test]
    fn anti_affinity_works_both_ways_and_only_on_the_host_name() {
        let (columns, mut shapes) = (Columns::default(), Shapes::default());
        let plain = PodDemands {
            labels: Labels::from([("app".into(), "x".into())]),
            ..PodDemands::default()
        };
        let mut shy = PodDemands {
            keep_apart: vec![KeepApart {
                topology_key: HOSTNAME.into(),
                namespaces: BTreeSet::new(),
                selector: vec![Expression {
                    key: "app".into(),
                    operator: Operator::In,
                    values: vec!["x".into()],
                }],
            }],
            ..PodDemands::default()
        };
        let shy_id = shapes.intern(&Arc::new(shy.clone()), &columns);
        let plain_id = shapes.intern(&Arc::new(plain.clone()), &columns);
        assert_eq!(shapes.get(plain_id).conflicts, vec![shy_id]);
        assert_eq!(shapes.get(shy_id).conflicts, vec![plain_id]);
        assert!(!shapes.get(shy_id).exclusive, "it shuns app=x, not itself");
        assert!(shy.refusals(9).is_empty());
        shy.keep_apart[0].topology_key = "zone".into();
        assert_eq!(shy.refusals(9), vec![Unsupported::AntiAffinityKey("zone".into())]);
        shy.keep_apart[0].namespaces.insert("elsewhere".into());
        assert!(!shy.shuns(&plain));
    }
}
