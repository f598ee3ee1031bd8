//! The gangs that hold room, ordered by what it costs to evict them.
//!
//! Owns the units of eviction (single extras, whole gangs with whoever depends on them), their order (cheapest first), which
//! of them touch a node, and how much of every resource each node would get back by priority band. All of it is kept in step
//! with [`Incumbents::put`] and [`Incumbents::remove`], so a question costs nothing per running gang.
//!
//! Where pods are is read from the cluster state when a gang is put: put it again when its pods come, go or move. A pod that
//! the state no longer knows frees nothing. Never decides who goes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::resources::{Column, Sum};
use crate::shape::ShapeId;
use crate::state::{ClusterState, NodeId};

use super::{Running, RunningPod};

/// What a unit of eviction is; later ones hurt more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    Extra,
    Scaled,
    Base,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct UnitPod {
    pub(super) name: Arc<str>,
    /// Whose it is: a position in [`Unit::gangs`].
    pub(super) gang: usize,
    pub(super) budgets: Vec<Arc<str>>,
    pub(super) home: Option<(NodeId, ShapeId)>,
}

/// Pods that go together or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unit {
    pub(super) kind: Kind,
    /// The gangs that are hit; the first gives the unit its place in the order.
    pub(super) gangs: Vec<Arc<str>>,
    /// The highest priority among them.
    pub(super) priority: i32,
    /// One of them may not be touched now.
    protected: bool,
    pub(super) pods: Vec<UnitPod>,
    rank: Rank,
}

/// Priority, kind, pods under disruption budgets, pods, youngest gang first, name, youngest extra first.
type Rank = (i32, Kind, usize, usize, Reverse<u64>, Arc<str>, usize);

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    running: Running,
    units: Vec<usize>,
    /// What its pods add to the bands: node, priority, shape.
    holds: Vec<(NodeId, i32, ShapeId)>,
}

/// Amounts by column.
pub(super) type Band = Vec<Sum>;

/// Every running gang, ready to be asked who should go.
#[derive(Debug, Clone, Default)]
pub struct Incumbents {
    gangs: BTreeMap<Arc<str>, Entry>,
    dependents: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    units: Vec<Option<Unit>>,
    vacant: Vec<usize>,
    order: BTreeMap<Rank, usize>,
    by_node: BTreeMap<NodeId, Vec<usize>>,
    bands: BTreeMap<NodeId, BTreeMap<i32, Band>>,
    /// How many gangs have how many pods.
    sizes: BTreeMap<usize, usize>,
}

impl Incumbents {
    /// All of these.
    #[must_use]
    pub fn new(state: &ClusterState, running: &[Running]) -> Self {
        let mut incumbents = Self::default();
        for gang in running {
            incumbents.insert(gang.clone());
        }
        for gang in running {
            incumbents.refresh(state, &gang.name);
        }
        incumbents
    }

    /// Adds a gang, or replaces the one of the same name.
    pub fn put(&mut self, state: &ClusterState, running: Running) {
        let name: Arc<str> = running.name.as_str().into();
        let base = self.forget(state, &name).flatten();
        self.insert(running);
        for changed in base.iter().chain([&name]) {
            self.refresh_upward(state, changed);
        }
    }

    /// Removes a gang; false if it was not there.
    pub fn remove(&mut self, state: &ClusterState, name: &str) -> bool {
        let Some(base) = self.forget(state, name) else {
            return false;
        };
        if let Some(base) = base {
            self.refresh_upward(state, &base);
        }
        true
    }

    /// How many gangs there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.gangs.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.gangs.is_empty()
    }

    /// Whether a gang of this priority has anybody below it.
    #[must_use]
    pub fn any_below(&self, priority: i32) -> bool {
        self.order.first_key_value().is_some_and(|(rank, _)| rank.0 < priority)
    }

    /// The number of pods of the largest gang.
    pub(super) fn largest(&self) -> usize {
        self.sizes.last_key_value().map_or(0, |(size, _)| *size)
    }

    /// What evicting everything of a priority would give back on a node, lowest priority first.
    pub(super) fn bands(&self, node: NodeId) -> impl Iterator<Item = (i32, &Band)> {
        let bands = self.bands.get(&node).into_iter().flatten();
        bands.map(|(priority, band)| (*priority, band))
    }

    /// Units that a gang of this priority may evict and that touch one of the nodes (any node if none are given), cheapest
    /// first.
    pub(super) fn evictable<'a>(
        &'a self,
        priority: i32,
        nodes: Option<&[NodeId]>,
    ) -> Box<dyn Iterator<Item = &'a Unit> + 'a> {
        let unit = |at: &usize| self.units[*at].as_ref().expect("listed units exist");
        let open = move |unit: &&Unit| unit.priority < priority && !unit.protected;
        let Some(nodes) = nodes else {
            return Box::new(self.order.values().map(unit).filter(open));
        };
        let here = nodes.iter().filter_map(|node| self.by_node.get(node)).flatten();
        let here: BTreeSet<usize> = here.copied().collect();
        let mut found: Vec<&Unit> = here.iter().map(unit).filter(open).collect();
        found.sort_unstable_by(|left, right| left.rank.cmp(&right.rank));
        Box::new(found.into_iter())
    }

    fn insert(&mut self, running: Running) {
        let name: Arc<str> = running.name.as_str().into();
        if let Some(base) = &running.base {
            let known = self.dependents.entry(base.as_str().into()).or_default();
            known.insert(name.clone());
        }
        *self.sizes.entry(size(&running)).or_default() += 1;
        let entry = Entry {
            running,
            units: Vec::new(),
            holds: Vec::new(),
        };
        self.gangs.insert(name, entry);
    }

    /// Forgets a gang and returns its base, if it was there.
    fn forget(&mut self, state: &ClusterState, name: &str) -> Option<Option<Arc<str>>> {
        self.clear(state, name);
        let entry = self.gangs.remove(name)?;
        let size = size(&entry.running);
        if let Some(count) = self.sizes.get_mut(&size) {
            *count -= 1;
            if *count == 0 {
                self.sizes.remove(&size);
            }
        }
        let base: Option<Arc<str>> = entry.running.base.as_deref().map(Into::into);
        if let Some(base) = &base
            && let Some(known) = self.dependents.get_mut(base)
        {
            known.remove(name);
            if known.is_empty() {
                self.dependents.remove(base);
            }
        }
        Some(base)
    }

    /// The gang and whoever depends on it, directly or not.
    fn with_dependents(&self, name: &str) -> Vec<Arc<str>> {
        let Some((name, _)) = self.gangs.get_key_value(name) else {
            return Vec::new();
        };
        let mut found = vec![name.clone()];
        let mut known = BTreeSet::from([name.clone()]);
        let mut at = 0;
        while at < found.len() {
            let next = self.dependents.get(&found[at]).into_iter().flatten();
            found.extend(next.filter(|name| known.insert((*name).clone())).cloned());
            at += 1;
        }
        found
    }

    fn refresh_upward(&mut self, state: &ClusterState, name: &str) {
        let mut seen: BTreeSet<String> = BTreeSet::new();
        let mut next = Some(name.to_owned());
        while let Some(name) = next.filter(|name| seen.insert(name.clone())) {
            self.refresh(state, &name);
            next = self
                .gangs
                .get(name.as_str())
                .and_then(|entry| entry.running.base.clone());
        }
    }

    fn clear(&mut self, state: &ClusterState, name: &str) {
        let Some(entry) = self.gangs.get_mut(name) else { return };
        let (units, holds) = (std::mem::take(&mut entry.units), std::mem::take(&mut entry.holds));
        for at in units {
            let unit = self.units[at].take().expect("units belong to one gang");
            self.order.remove(&unit.rank);
            for (node, _) in unit.pods.iter().filter_map(|pod| pod.home) {
                if let Some(list) = self.by_node.get_mut(&node) {
                    list.retain(|other| *other != at);
                }
            }
            self.vacant.push(at);
        }
        self.add(state, &holds, -1);
    }

    fn add(&mut self, state: &ClusterState, holds: &[(NodeId, i32, ShapeId)], sign: Sum) {
        for (node, priority, shape) in holds {
            let bands = self.bands.entry(*node).or_default();
            let band = bands.entry(*priority).or_default();
            band.resize(band.len().max(state.columns().len()), 0);
            for (column, request) in &state.shape_of(*shape).requests {
                band[column.index()] += Sum::from(*request) * sign;
            }
            // Every pod counts in the column of pods, so a band without pods is empty.
            if band[Column::PODS.index()] == 0 {
                bands.remove(priority);
            }
        }
    }

    fn refresh(&mut self, state: &ClusterState, name: &str) {
        self.clear(state, name);
        let together = self.with_dependents(name);
        let Some(first) = together.first().map(|name| &self.gangs[name].running) else {
            return;
        };
        let mut units = Vec::new();
        let mut holds = Vec::new();
        let own = together[0].clone();
        for (youth, pod) in extras(first).enumerate() {
            let pods = vec![resolve(state, pod, 0)];
            holds.extend(
                pods.iter()
                    .filter_map(|pod| pod.home)
                    .filter(|_| !first.protected)
                    .map(|(node, shape)| (node, first.priority, shape)),
            );
            units.push(unit(Kind::Extra, vec![own.clone()], &[first], pods, youth));
        }
        let gangs: Vec<&Running> = together.iter().map(|name| &self.gangs[name].running).collect();
        let pods: Vec<UnitPod> = gangs
            .iter()
            .enumerate()
            .flat_map(|(at, gang)| {
                let all = gang.groups.iter().flat_map(|group| &group.pods);
                all.map(move |pod| resolve(state, pod, at))
            })
            .collect();
        if !pods.is_empty() {
            let kind = if first.base.is_some() { Kind::Scaled } else { Kind::Base };
            let whole = unit(kind, together.clone(), &gangs, pods, 0);
            if !whole.protected {
                let floors = first
                    .groups
                    .iter()
                    .flat_map(|group| group.pods.iter().take(group.floor as usize));
                let floors: BTreeSet<&str> = floors.map(|pod| pod.name.as_str()).collect();
                let mine = whole
                    .pods
                    .iter()
                    .filter(|pod| pod.gang == 0 && floors.contains(&*pod.name));
                let homes = mine.filter_map(|pod| pod.home);
                holds.extend(homes.map(|(node, shape)| (node, whole.priority, shape)));
            }
            units.push(whole);
        }
        let mut ids = Vec::with_capacity(units.len());
        for unit in units {
            let at = self.vacant.pop().unwrap_or_else(|| {
                self.units.push(None);
                self.units.len() - 1
            });
            self.order.insert(unit.rank.clone(), at);
            let nodes: BTreeSet<NodeId> = unit.pods.iter().filter_map(|pod| pod.home).map(|home| home.0).collect();
            for node in nodes {
                self.by_node.entry(node).or_default().push(at);
            }
            self.units[at] = Some(unit);
            ids.push(at);
        }
        self.add(state, &holds, 1);
        let entry = self.gangs.get_mut(&own).expect("it was found above");
        (entry.units, entry.holds) = (ids, holds);
    }
}

fn size(running: &Running) -> usize {
    running.groups.iter().map(|group| group.pods.len()).sum()
}

/// Pods above the floors, youngest first.
fn extras(running: &Running) -> impl Iterator<Item = &RunningPod> {
    let groups = running.groups.iter();
    groups.flat_map(|group| group.pods.iter().skip(group.floor as usize).rev())
}

fn resolve(state: &ClusterState, pod: &RunningPod, gang: usize) -> UnitPod {
    UnitPod {
        name: pod.name.as_str().into(),
        gang,
        budgets: pod.budgets.clone(),
        home: state.pod(&pod.name).map(|resident| (resident.node, resident.shape)),
    }
}

fn unit(kind: Kind, gangs: Vec<Arc<str>>, running: &[&Running], pods: Vec<UnitPod>, youth: usize) -> Unit {
    let priority = running.iter().map(|gang| gang.priority).max().unwrap_or(i32::MIN);
    let budgeted = pods.iter().filter(|pod| !pod.budgets.is_empty()).count();
    Unit {
        rank: (
            priority,
            kind,
            budgeted,
            pods.len(),
            Reverse(running[0].sequence),
            gangs[0].clone(),
            youth,
        ),
        kind,
        priority,
        protected: running.iter().any(|gang| gang.protected),
        gangs,
        pods,
    }
}
