//! The cluster as the planner sees it.
//!
//! Owns nodes, what is free on them (one array per resource), which shapes run where, the topology views, and sums per
//! domain that are kept up to date with every placement. Tentative placements go through an undo log: [`ClusterState::mark`],
//! place, [`ClusterState::rollback`]; rolling back restores every number bit for bit, and no copy of the cluster is made.
//!
//! Sums count what is free above zero on every node, ruled out or not: they are upper bounds, used to reject and never
//! to accept. They are kept wider than amounts, so no amount that somebody wrote makes them wrap. Changing nodes rebuilds the views (a rare event); changing pods costs O(levels).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::predicates::Node;
use crate::resources::{Column, Columns, Sum, is_always, narrowed};
use crate::shape::{PodDemands, Shape, ShapeId, Shapes};
pub use crate::topology::NodeId;
use crate::topology::{DomainId, View};

/// Why a change of the state was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateError {
    /// A pod names a node that is not there.
    #[error("node {0:?} is not in the cluster state: add it first")]
    UnknownNode(String),
    /// The pod is already placed.
    #[error("pod {0:?} is already placed: remove it first")]
    PodExists(String),
}

/// A pod that takes room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resident {
    /// Where it is.
    pub node: NodeId,
    /// What it is.
    pub shape: ShapeId,
}

/// A point in the undo log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(usize);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Viewed {
    view: View,
    /// Free amounts, `domain * columns + column`.
    free: Vec<Sum>,
    /// Resident pods by domain.
    pods: Vec<u32>,
}

/// The cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterState {
    columns: Columns,
    /// How many nodes offer each resource.
    offers: BTreeMap<String, u32>,
    shapes: Shapes,
    nodes: Vec<Option<Node>>,
    by_name: BTreeMap<String, NodeId>,
    allocatable: Vec<Vec<i64>>,
    free: Vec<Vec<Sum>>,
    residents: Vec<Vec<(ShapeId, u32)>>,
    pods: BTreeMap<String, Resident>,
    views: Vec<Viewed>,
    log: Vec<(NodeId, ShapeId, i32)>,
    /// A change has begun and not ended.
    torn: bool,
}

impl Default for ClusterState {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl ClusterState {
    /// An empty cluster with these topologies: names and label keys, broadest first.
    #[must_use]
    pub fn new(topologies: &[(String, Vec<String>)]) -> Self {
        let mut state = Self {
            columns: Columns::default(),
            offers: BTreeMap::new(),
            shapes: Shapes::default(),
            nodes: Vec::new(),
            by_name: BTreeMap::new(),
            allocatable: Vec::new(),
            free: Vec::new(),
            residents: Vec::new(),
            pods: BTreeMap::new(),
            views: Vec::new(),
            log: Vec::new(),
            torn: false,
        };
        state.refill();
        state.set_topologies(topologies);
        state
    }

    /// Replaces the topologies.
    pub fn set_topologies(&mut self, topologies: &[(String, Vec<String>)]) {
        self.torn = true;
        let plain = (String::new(), Vec::new());
        self.views = std::iter::once(&plain)
            .chain(topologies)
            .map(|(name, keys)| self.viewed(name, keys))
            .collect();
        self.torn = false;
    }

    /// Whether a change panicked half way: such a state must be built again.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.torn
    }

    /// Adds nodes, or replaces those of the same name; their pods stay.
    pub fn put_nodes(&mut self, nodes: impl IntoIterator<Item = Node>) {
        self.torn = true;
        let mut changed = Vec::new();
        for node in nodes {
            let known = self.by_name.get(&node.name).copied();
            let id = known.unwrap_or_else(|| self.add(&node.name));
            self.offer(&node, true);
            if let Some(old) = self.nodes[id.index()].replace(node) {
                self.offer(&old, false);
            }
            changed.push(id);
        }
        if !self.renew_columns() {
            for id in changed {
                self.fill(id);
            }
        }
        self.rebuild();
        self.torn = false;
    }

    /// Removes nodes; pods on them are forgotten with them.
    pub fn remove_nodes<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        self.torn = true;
        for name in names {
            let Some(id) = self.by_name.remove(name) else { continue };
            if let Some(old) = self.nodes[id.index()].take() {
                self.offer(&old, false);
            }
            self.residents[id.index()].clear();
            self.pods.retain(|_, resident| resident.node != id);
            self.fill(id);
        }
        self.renew_columns();
        self.rebuild();
        self.torn = false;
    }

    /// Counts what a node offers, or no longer does.
    fn offer(&mut self, node: &Node, offers: bool) {
        let names = node.allocatable.iter().filter(|(_, amount)| **amount > 0);
        for (name, _) in names.filter(|(name, _)| !is_always(name)) {
            if offers {
                *self.offers.entry(name.clone()).or_default() += 1;
            } else if let Some(count) = self.offers.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    self.offers.remove(name);
                }
            }
        }
    }

    /// Gives columns to what is offered now, and to nothing else; false if they are the same as before.
    fn renew_columns(&mut self) -> bool {
        let columns = Columns::of(&self.offers);
        if columns == self.columns {
            return false;
        }
        self.columns = columns;
        self.shapes.resolve(&self.columns);
        self.refill();
        true
    }

    /// Computes what every node has and what is free there.
    fn refill(&mut self) {
        let (columns, nodes) = (self.columns.len(), self.nodes.len());
        self.allocatable = vec![vec![0; nodes]; columns];
        self.free = vec![vec![0; nodes]; columns];
        for at in 0..nodes {
            self.fill(NodeId(index(at)));
        }
    }

    /// Computes what a node has and what is free there.
    fn fill(&mut self, id: NodeId) {
        let at = id.index();
        let amounts = self.nodes[at]
            .as_ref()
            .map(|node| self.columns.resolve(&node.allocatable).0);
        for column in 0..self.columns.len() {
            self.allocatable[column][at] = 0;
        }
        for (column, amount) in amounts.into_iter().flatten() {
            self.allocatable[column.index()][at] = amount;
        }
        for column in 0..self.columns.len() {
            self.free[column][at] = Sum::from(self.allocatable[column][at]);
        }
        let mut limited: BTreeSet<Column> = BTreeSet::new();
        for (shape, count) in &self.residents[at] {
            let shape = self.shapes.get(*shape);
            for (column, request) in &shape.requests {
                self.free[column.index()][at] -= Sum::from(*request) * Sum::from(*count);
            }
            limited.extend(shape.attached.iter().map(|(column, _)| *column));
        }
        for column in limited {
            let count = self.attached_on(id, column).len();
            self.free[column.index()][at] -= count as Sum;
        }
    }

    /// The shared volumes on a node that a column limits.
    fn attached_on(&self, node: NodeId, column: Column) -> BTreeSet<&str> {
        let residents = self.residents[node.index()].iter();
        let attached = residents.flat_map(|(shape, _)| &self.shapes.get(*shape).attached);
        let of_column = attached.filter(|(limited, _)| *limited == column);
        of_column
            .flat_map(|(_, volumes)| volumes.iter().map(String::as_str))
            .collect()
    }

    /// How many more volumes the first pod of a shape would bring to a node, by the column that limits them.
    fn to_attach(&self, node: NodeId, shape: ShapeId) -> impl Iterator<Item = (Column, i64)> {
        let attached = self.shapes.get(shape).attached.iter();
        attached.map(move |(column, volumes)| {
            let there = self.attached_on(node, *column);
            let missing = volumes.iter().filter(|volume| !there.contains(volume.as_str()));
            (*column, i64::try_from(missing.count()).unwrap_or(i64::MAX))
        })
    }

    /// The limit of volumes because of which not even one pod of the shape has room on the node.
    pub(crate) fn attach_limit(&self, node: NodeId, shape: ShapeId) -> Option<&str> {
        let per_pod = |column| {
            let requests = &self.shapes.get(shape).requests;
            let found = requests.iter().find(|(of, _)| *of == column);
            found.map_or(0, |(_, request)| *request)
        };
        let mut to_attach = self.to_attach(node, shape);
        let full = to_attach
            .find(|(column, missing)| missing.saturating_add(per_pod(*column)) > self.free_on(node, *column).max(0));
        full.map(|(column, _)| self.columns.name(column))
    }

    fn add(&mut self, name: &str) -> NodeId {
        let vacant = self.nodes.iter().position(Option::is_none);
        let at = vacant.unwrap_or(self.nodes.len());
        let id = NodeId(index(at));
        if at == self.nodes.len() {
            self.nodes.push(None);
            self.residents.push(Vec::new());
            self.allocatable.iter_mut().for_each(|column| column.push(0));
            self.free.iter_mut().for_each(|column| column.push(0));
        }
        self.by_name.insert(name.to_owned(), id);
        id
    }

    /// Interns what a pod demands.
    pub fn shape(&mut self, demands: &PodDemands) -> ShapeId {
        self.shared_shape(&Arc::new(demands.clone()))
    }

    /// The same without a copy of the demands.
    pub fn shared_shape(&mut self, demands: &Arc<PodDemands>) -> ShapeId {
        self.torn = true;
        let shape = self.shapes.intern(demands, &self.columns);
        self.torn = false;
        shape
    }

    /// The shapes that were interned since the state was made.
    #[must_use]
    pub fn shapes(&self) -> &Shapes {
        &self.shapes
    }

    /// Takes room for a pod that is bound or assumed. Room is taken even where there is none: the watch is truth.
    pub fn add_pod(&mut self, pod: &str, node: &str, shape: ShapeId) -> Result<(), StateError> {
        if self.pods.contains_key(pod) {
            return Err(StateError::PodExists(pod.to_owned()));
        }
        let node = self
            .node_id(node)
            .ok_or_else(|| StateError::UnknownNode(node.to_owned()))?;
        self.pods.insert(pod.to_owned(), Resident { node, shape });
        self.change(node, shape, 1);
        Ok(())
    }

    /// Gives back a pod's room; the pod, if it was there.
    pub fn remove_pod(&mut self, pod: &str) -> Option<Resident> {
        let resident = self.pods.remove(pod)?;
        self.change(resident.node, resident.shape, -1);
        Some(resident)
    }

    /// A placed pod.
    #[must_use]
    pub fn pod(&self, pod: &str) -> Option<Resident> {
        self.pods.get(pod).copied()
    }

    /// Every placed pod.
    pub fn pods(&self) -> impl Iterator<Item = (&str, Resident)> {
        self.pods.iter().map(|(name, resident)| (name.as_str(), *resident))
    }

    /// A point to roll back to.
    #[must_use]
    pub fn mark(&self) -> Mark {
        Mark(self.log.len())
    }

    /// Takes room tentatively.
    pub fn place(&mut self, node: NodeId, shape: ShapeId, count: u32) {
        let count = i32::try_from(count).expect("fewer than 2^31 pods on a node");
        self.log.push((node, shape, count));
        self.change(node, shape, count);
    }

    /// Gives back room tentatively, as if pods were evicted.
    pub fn lift(&mut self, node: NodeId, shape: ShapeId, count: u32) {
        let count = i32::try_from(count).expect("fewer than 2^31 pods on a node");
        self.log.push((node, shape, -count));
        self.change(node, shape, -count);
    }

    /// Undoes everything tentative since the mark and names the nodes it touched.
    pub fn rollback(&mut self, mark: Mark) -> Vec<NodeId> {
        let mut touched = Vec::with_capacity(self.log.len() - mark.0);
        while self.log.len() > mark.0 {
            let (node, shape, count) = self.log.pop().expect("the log is longer than the mark");
            self.change(node, shape, -count);
            touched.push(node);
        }
        touched
    }

    fn change(&mut self, node: NodeId, shape: ShapeId, count: i32) {
        self.torn = true;
        let at = node.index();
        // Most shapes have none of these; nothing is allocated for them.
        let limited = self.shapes.get(shape).attached.iter();
        let before: Vec<(Column, usize)> = limited
            .map(|(column, _)| (*column, self.attached_on(node, *column).len()))
            .collect();
        let residents = &mut self.residents[at];
        match residents.binary_search_by_key(&shape, |(id, _)| *id) {
            Ok(found) => {
                residents[found].1 = residents[found]
                    .1
                    .checked_add_signed(count)
                    .expect("no more pods leave than came");
                if residents[found].1 == 0 {
                    residents.remove(found);
                }
            }
            Err(place) => residents.insert(
                place,
                (shape, u32::try_from(count).expect("only placed pods are lifted")),
            ),
        }
        let volumes: Vec<(Column, Sum)> = before
            .into_iter()
            .map(|(column, before)| (column, self.attached_on(node, column).len() as Sum - before as Sum))
            .collect();
        let requests = self.shapes.get(shape).requests.iter();
        let requests = requests.map(|(column, request)| (*column, Sum::from(*request) * Sum::from(count)));
        let width = self.columns.len();
        for (column, taken) in requests.chain(volumes) {
            let free = &mut self.free[column.index()][at];
            let before = (*free).max(0);
            *free -= taken;
            let delta = (*free).max(0) - before;
            for viewed in &mut self.views {
                for domain in viewed.view.chain_of(node) {
                    viewed.free[domain.index() * width + column.index()] += delta;
                }
            }
        }
        for viewed in &mut self.views {
            for domain in viewed.view.chain_of(node) {
                let pods = &mut viewed.pods[domain.index()];
                *pods = pods.checked_add_signed(count).expect("no more pods leave than came");
            }
        }
        self.torn = false;
    }

    fn viewed(&self, name: &str, keys: &[String]) -> Viewed {
        let present = self.nodes.iter().enumerate().filter_map(|(at, node)| {
            let id = NodeId(index(at));
            node.as_ref().map(|node| (id, node.name.as_str(), &node.labels))
        });
        let view = View::build(name, keys, present, self.nodes.len());
        let width = self.columns.len();
        let mut free = vec![0; view.domains().len() * width];
        let mut pods = vec![0; view.domains().len()];
        for node in view.nodes_in(DomainId::ROOT) {
            let count: u32 = self.residents[node.index()].iter().map(|(_, count)| count).sum();
            for domain in view.chain_of(*node) {
                pods[domain.index()] += count;
                for column in 0..width {
                    free[domain.index() * width + column] += self.free[column][node.index()].max(0);
                }
            }
        }
        Viewed { view, free, pods }
    }

    fn rebuild(&mut self) {
        self.views = self
            .views
            .iter()
            .map(|viewed| self.viewed(viewed.view.name(), viewed.view.keys()))
            .collect();
    }

    /// The same state with every sum computed anew; equal to this one unless there is a bug.
    #[must_use]
    pub fn recomputed(&self) -> Self {
        let mut other = self.clone();
        other.columns = Columns::of(&other.offers);
        other.shapes.resolve(&other.columns);
        other.refill();
        other.rebuild();
        other
    }

    /// How many more pods of the shape have room on the node, nothing but room and conflicts considered.
    #[must_use]
    pub fn room(&self, node: NodeId, shape: ShapeId) -> u32 {
        let asked = self.shapes.get(shape);
        let mut most = self.room_ignoring_conflicts(node, shape);
        if most == 0 {
            return 0;
        }
        let residents = &self.residents[node.index()];
        if asked.exclusive {
            most = 1;
        }
        let clash =
            |(id, _): &(ShapeId, u32)| (asked.exclusive && *id == shape) || asked.conflicts.binary_search(id).is_ok();
        if (asked.exclusive || !asked.conflicts.is_empty()) && residents.iter().any(clash) {
            return 0;
        }
        most
    }

    /// The same without regard to host ports and anti-affinity.
    pub(crate) fn room_ignoring_conflicts(&self, node: NodeId, shape: ShapeId) -> u32 {
        let asked = self.shapes.get(shape);
        if asked.unoffered.count > 0 {
            return 0;
        }
        let mut most = i64::from(u32::MAX);
        for (column, request) in &asked.requests {
            most = most.min(self.free_on(node, *column) / request);
        }
        for (column, missing) in self.to_attach(node, shape) {
            let left = self.free_on(node, column).saturating_sub(missing);
            let per_pod = asked.requests.iter().find(|(of, _)| *of == column);
            most = most.min(match per_pod {
                _ if missing > 0 && left < 0 => 0,
                Some((_, request)) => left / request,
                None => most,
            });
        }
        u32::try_from(most.max(0)).unwrap_or(u32::MAX)
    }

    /// The resource names.
    #[must_use]
    pub fn columns(&self) -> &Columns {
        &self.columns
    }

    /// One shape.
    #[must_use]
    pub fn shape_of(&self, id: ShapeId) -> &Shape {
        self.shapes.get(id)
    }

    /// How many node indices are in use, vacant ones included.
    pub(crate) fn node_slots(&self) -> usize {
        self.nodes.len()
    }

    /// The index of a node.
    #[must_use]
    pub fn node_id(&self, name: &str) -> Option<NodeId> {
        self.by_name.get(name).copied()
    }

    /// A node.
    #[must_use]
    pub fn node(&self, id: NodeId) -> &Node {
        self.nodes[id.index()]
            .as_ref()
            .expect("ids are handed out for present nodes only")
    }

    /// What is free on a node; negative where the watch reported more pods than there is room.
    #[must_use]
    pub fn free_on(&self, node: NodeId, column: Column) -> i64 {
        narrowed(self.free[column.index()][node.index()])
    }

    /// What a node can hold.
    #[must_use]
    pub fn allocatable_on(&self, node: NodeId, column: Column) -> i64 {
        self.allocatable[column.index()][node.index()]
    }

    /// Which shapes run on a node, and how many of each.
    #[must_use]
    pub fn residents_on(&self, node: NodeId) -> &[(ShapeId, u32)] {
        &self.residents[node.index()]
    }

    /// The view of a topology; the one named `""` has no levels and always exists.
    #[must_use]
    pub fn view_named(&self, topology: &str) -> Option<usize> {
        self.views.iter().position(|viewed| viewed.view.name() == topology)
    }

    /// A view by its index.
    #[must_use]
    pub fn view(&self, at: usize) -> &View {
        &self.views[at].view
    }

    /// The free amount of a resource in a domain of a view, an upper bound.
    #[must_use]
    pub fn free_in(&self, view: usize, domain: DomainId, column: Column) -> i64 {
        narrowed(self.views[view].free[domain.index() * self.columns.len() + column.index()])
    }

    /// How many pods run in a domain.
    #[must_use]
    pub fn pods_in(&self, view: usize, domain: DomainId) -> u32 {
        self.views[view].pods[domain.index()]
    }

    /// Bytes held by the state, counted by its parts (allocator overhead and map nodes' slack not included).
    #[must_use]
    pub fn bytes(&self) -> usize {
        let free: usize = self
            .free
            .iter()
            .map(|column| column.capacity() * size_of::<Sum>())
            .sum();
        let allocatable: usize = self.allocatable.iter().map(|column| column.capacity() * 8).sum();
        let shapes = self.shapes.len() * size_of::<Shape>() + self.shapes.parts() * 64;
        let residents: usize = self
            .residents
            .iter()
            .map(|list| 24 + list.capacity() * size_of::<(ShapeId, u32)>())
            .sum();
        let pods: usize = self
            .pods
            .keys()
            .map(|name| name.capacity() + 24 + size_of::<Resident>())
            .sum();
        let nodes: usize = self
            .nodes
            .iter()
            .flatten()
            .map(|node| {
                let labels: usize = node
                    .labels
                    .iter()
                    .map(|(key, value)| key.len() + value.len() + 48)
                    .sum();
                size_of::<Node>() + node.name.len() * 2 + labels + node.allocatable.len() * 48
            })
            .sum();
        let views: usize = self
            .views
            .iter()
            .map(|viewed| {
                let domains = viewed.view.domains().len();
                let levels = viewed.view.keys().len();
                viewed.free.capacity() * size_of::<Sum>()
                    + domains * (100 + levels * 40)
                    + self.nodes.len() * (8 + levels * 4)
            })
            .sum();
        free + allocatable + shapes + residents + pods + nodes + views
    }
}

fn index(at: usize) -> u32 {
    u32::try_from(at).expect("fewer than 2^32 nodes")
}
