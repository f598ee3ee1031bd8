//! The working table of one decision.
//!
//! Per local shape: which nodes are allowed, how many slots each has now, and the sum of slots per domain. Tentative
//! placements go through the state's undo log and keep the table in step. A slot sum is exact for one shape alone and an
//! upper bound as soon as shapes compete.

use std::collections::BTreeSet;

use crate::budget::{Exhausted, Steps};
use crate::predicates::RuledOut;
use crate::resources::Column;
use crate::shape::ShapeId;
use crate::state::{ClusterState, Mark, NodeId};
use crate::topology::{DomainId, View};

use super::volumes::Claims;

/// Pods of a group on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Placed {
    pub(super) group: usize,
    pub(super) node: NodeId,
    pub(super) count: u32,
    pub(super) extra: bool,
}

pub(super) struct Table<'a> {
    pub(super) state: &'a mut ClusterState,
    pub(super) view: usize,
    pub(super) shapes: Vec<ShapeId>,
    pub(super) steps: Steps,
    /// Where everything must lie.
    pub(super) root: DomainId,
    allowed: Vec<Vec<bool>>,
    likes: Vec<Vec<i64>>,
    slots: Vec<Vec<u32>>,
    sums: Vec<Vec<u64>>,
    /// How many pods of the gang and its siblings each domain holds, as far as this table knows.
    members: Vec<u32>,
    pub(super) placed: Vec<Placed>,
}

/// A point in the table's history.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    mark: Mark,
    placed: usize,
}

impl<'a> Table<'a> {
    /// Scans the nodes of `root` for every shape; `excluded` nodes are ruled out.
    pub(super) fn scan(
        state: &'a mut ClusterState,
        view: usize,
        root: DomainId,
        shapes: Vec<ShapeId>,
        excluded: &Excluded<'_>,
        steps: Steps,
    ) -> Result<Self, Exhausted> {
        let nodes = state.view(view).nodes_in(root).to_vec();
        let mut steps = steps;
        let efforts = shapes.iter().map(|shape| state.shape_of(*shape).effort);
        steps.spend(nodes.len().saturating_mul(efforts.sum()))?;
        let width = excluded.nodes.len();
        let domains = state.view(view).domains().len();
        let mut table = Self {
            view,
            root,
            steps,
            allowed: vec![vec![false; width]; shapes.len()],
            likes: vec![Vec::new(); shapes.len()],
            slots: vec![vec![0; width]; shapes.len()],
            sums: vec![vec![0; domains]; shapes.len()],
            members: vec![0; domains],
            placed: Vec::new(),
            shapes,
            state,
        };
        for local in 0..table.shapes.len() {
            let shape = table.shapes[local];
            let all = table.state.shape_of(shape).demands.clone();
            let demands = &all.node;
            let mut likes = vec![0; width];
            let mut fussy = false;
            for node in &nodes {
                let described = table.state.node(*node);
                let out = || excluded.by_claim(&all.claims, *node).is_some();
                table.allowed[local][node.index()] =
                    !excluded.nodes[node.index()] && demands.ruled_out(described).is_none() && !out();
                if !demands.preferred.is_empty() || !described.taints.is_empty() {
                    likes[node.index()] = demands.preference(described);
                    fussy |= likes[node.index()] != 0;
                }
            }
            if fussy {
                table.likes[local] = likes;
            }
        }
        for node in nodes {
            table.touch(node);
        }
        Ok(table)
    }

    pub(super) fn view(&self) -> &View {
        self.state.view(self.view)
    }

    fn touch(&mut self, node: NodeId) {
        let at = node.index();
        for local in 0..self.shapes.len() {
            let now = if self.allowed[local][at] {
                self.state.room(node, self.shapes[local])
            } else {
                0
            };
            let before = std::mem::replace(&mut self.slots[local][at], now);
            if now == before {
                continue;
            }
            for domain in self.state.view(self.view).chain_of(node) {
                let sum = &mut self.sums[local][domain.index()];
                *sum = *sum + u64::from(now) - u64::from(before);
            }
        }
    }

    pub(super) fn slots(&self, local: usize, node: NodeId) -> u32 {
        self.slots[local][node.index()]
    }

    /// Whether the node counts for the shape at all.
    pub(super) fn allows(&self, local: usize, node: NodeId) -> bool {
        self.allowed[local][node.index()]
    }

    pub(super) fn sum(&self, local: usize, domain: DomainId) -> u64 {
        self.sums[local][domain.index()]
    }

    pub(super) fn like(&self, local: usize, node: NodeId) -> i64 {
        self.likes[local].get(node.index()).copied().unwrap_or(0)
    }

    /// Steps for one placement: it touches every shape and every level above the node.
    pub(super) fn effort(&self) -> usize {
        4 + 2 * self.shapes.len()
    }

    pub(super) fn point(&self) -> Point {
        Point {
            mark: self.state.mark(),
            placed: self.placed.len(),
        }
    }

    pub(super) fn place(&mut self, local: usize, placed: Placed) {
        self.state.place(placed.node, self.shapes[local], placed.count);
        self.placed.push(placed);
        self.note_member(placed.node);
        self.touch(placed.node);
    }

    /// Notes that a pod of the gang or of a sibling is on a node.
    pub(super) fn note_member(&mut self, node: NodeId) {
        for domain in self.state.view(self.view).chain_of(node) {
            self.members[domain.index()] += 1;
        }
    }

    /// Whether a domain holds pods of the gang or of its siblings.
    pub(super) fn has_members(&self, domain: DomainId) -> bool {
        self.members[domain.index()] > 0
    }

    /// How many levels one has to go outward from a domain to find pods of the gang or of its siblings.
    pub(super) fn remoteness(&self, domain: DomainId) -> usize {
        let (view, mut at, mut levels) = (self.view(), domain, 0);
        while at != DomainId::ROOT && !self.has_members(at) {
            at = view.domain(at).parent;
            levels += 1;
        }
        levels
    }

    pub(super) fn back(&mut self, point: Point) {
        let touched = self.state.rollback(point.mark);
        for placed in self.placed.drain(point.placed..) {
            for domain in self.state.view(self.view).chain_of(placed.node) {
                self.members[domain.index()] -= 1;
            }
        }
        for node in touched {
            self.touch(node);
        }
    }

    /// Whether two domains are mirror images: the same parent, and node by node the same room, residents and subdomains.
    /// What fails in one fails in the other.
    pub(super) fn alike(&mut self, first: DomainId, second: DomainId, bound: &[NodeId]) -> Result<bool, Exhausted> {
        let view = self.state.view(self.view);
        let (left, right) = (view.domain(first), view.domain(second));
        let same_place = left.depth == right.depth && left.parent == right.parent && left.depth > 0;
        if !same_place || left.end - left.start != right.end - right.start {
            return Ok(false);
        }
        if (0..self.shapes.len()).any(|local| self.sum(local, first) != self.sum(local, second)) {
            return Ok(false);
        }
        if bound
            .iter()
            .any(|node| view.holds(first, *node) || view.holds(second, *node))
        {
            return Ok(false);
        }
        let (lefts, rights) = (view.nodes_in(first), view.nodes_in(second));
        self.steps.spend(lefts.len())?;
        let offset = |node: NodeId, depth: usize, start: usize| {
            view.domain_of(node, depth)
                .map(|domain| view.domain(domain).start - start)
        };
        Ok(lefts.iter().zip(rights).all(|(a, b)| {
            (0..self.shapes.len()).all(|local| {
                self.slots(local, *a) == self.slots(local, *b)
                    && self.allowed[local][a.index()] == self.allowed[local][b.index()]
                    && self.like(local, *a) == self.like(local, *b)
            }) && self.state.residents_on(*a) == self.state.residents_on(*b)
                && self
                    .state
                    .columns()
                    .all()
                    .all(|column| self.state.free_on(*a, column) == self.state.free_on(*b, column))
                && (left.depth + 1..=view.keys().len())
                    .all(|depth| offset(*a, depth, left.start) == offset(*b, depth, right.start))
        }))
    }

    /// Whether a domain has slots and resources for the floors of a subtree, all alone.
    pub(super) fn covers(&self, domain: DomainId, need: &[u32]) -> bool {
        let slots = need
            .iter()
            .enumerate()
            .all(|(local, count)| u64::from(*count) <= self.sum(local, domain));
        slots && self.shortage(domain, need).is_none()
    }

    /// The first resource of which several shapes together ask for more than the domain has, and how much more.
    pub(super) fn shortage(&self, domain: DomainId, need: &[u32]) -> Option<(Column, i64)> {
        if need.iter().filter(|count| **count > 0).count() < 2 {
            return None;
        }
        let mut asked = vec![0_i64; self.state.columns().len()];
        for (local, count) in need.iter().enumerate() {
            for (column, request) in &self.state.shape_of(self.shapes[local]).requests {
                let sum = &mut asked[column.index()];
                *sum = sum.saturating_add(request.saturating_mul(i64::from(*count)));
            }
        }
        let columns = self.state.columns();
        columns.all().find_map(|column| {
            let free = self.state.free_in(self.view, domain, column);
            let lacking = asked[column.index()].saturating_sub(free);
            (asked[column.index()] > 0 && lacking > 0).then_some((column, lacking))
        })
    }
}

/// Why a node is out for a shape, room not considered.
pub(crate) fn ruled_out(
    state: &ClusterState,
    shape: ShapeId,
    node: NodeId,
    excluded: &Excluded<'_>,
) -> Option<RuledOut> {
    let described = state.node(node);
    let demands = &state.shape_of(shape).demands;
    let by_claim = || excluded.by_claim(&demands.claims, node);
    let by_limit = || state.attach_limit(node, shape).map(str::to_owned);
    demands
        .node
        .ruled_out(described)
        .or_else(|| by_claim().map(|what| RuledOut::Volume(what.to_owned())))
        .or_else(|| excluded.nodes[node.index()].then_some(RuledOut::Excluded))
        .or_else(|| by_limit().map(RuledOut::AttachLimit))
}

/// Nodes that are out for all pods, and for those with certain claims.
pub(crate) struct Excluded<'a> {
    nodes: Vec<bool>,
    claims: &'a Claims,
}

impl<'a> Excluded<'a> {
    pub(crate) fn new(nodes: Vec<bool>, claims: &'a Claims) -> Self {
        Self { nodes, claims }
    }

    /// The first of these claims that cannot be served on the node.
    fn by_claim(&self, names: &BTreeSet<String>, node: NodeId) -> Option<&str> {
        names.iter().find_map(|name| self.claims.keeps_off(name, node))
    }
}
