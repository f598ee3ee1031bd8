//! The units of a map with what was observed of them.
//!
//! A unit belongs to its entry only when it was created for the epoch of that entry: a copy that the map has moved, and
//! whose old pods still run, is not available. Reads older than the last write therefore cannot look like progress.

use std::collections::BTreeMap;

use coppice_api::names::Epoch;
use jiff::Timestamp;

use super::types::{LiveUnit, Map, Observed, Revision, Role, Target, Units};

/// A unit of the map.
#[derive(Clone, Debug)]
pub(super) struct Unit {
    /// The position of its entry.
    pub(super) entry: usize,
    /// The epoch of its entry.
    pub(super) epoch: Epoch,
    /// The role of its entry.
    pub(super) role: Role,
    /// Its index, for a copy.
    pub(super) copy: Option<u32>,
    /// Its position among the units of its component in its entry. Of pods, the last one goes first.
    pub(super) rank: u32,
    /// The template that it has, or will have once it exists.
    pub(super) revision: Revision,
    /// Whether it is ready, and has been for long enough.
    pub(super) available: bool,
    /// Whether it does not have the template of the target.
    pub(super) stale: bool,
    /// Whether it has its nodes.
    pub(super) scheduled: bool,
    /// When it becomes available, if it stays ready.
    pub(super) available_at: Option<Timestamp>,
}

/// The units of each component.
#[derive(Debug)]
pub(super) struct Census {
    /// By component.
    pub(super) units: Vec<Vec<Unit>>,
}

impl Census {
    /// Counts the units of a map.
    pub(super) fn new(target: &Target, map: &Map, observed: &Observed, now: Timestamp) -> Self {
        let mut copies: BTreeMap<(usize, u32, Epoch), &LiveUnit> = BTreeMap::new();
        let mut pods: BTreeMap<(usize, Epoch), Vec<&LiveUnit>> = BTreeMap::new();
        for unit in observed.units.iter().filter(|unit| !unit.terminating) {
            match unit.copy {
                Some(copy) => drop(copies.insert((unit.component, copy, unit.epoch), unit)),
                None => pods.entry((unit.component, unit.epoch)).or_default().push(unit),
            }
        }
        let mut units: Vec<Vec<Unit>> = vec![Vec::new(); target.components.len()];
        for (position, entry) in map.entries.iter().enumerate() {
            for (&component, share) in &entry.shares {
                let Some(wanted) = target.components.get(component) else {
                    continue;
                };
                let make = |copy: Option<u32>, rank: u32, live: Option<&LiveUnit>| {
                    let available_at = live
                        .and_then(|live| live.ready_since)
                        .map(|since| since.saturating_add(target.knobs.min_ready).unwrap_or(Timestamp::MAX));
                    let revision = live.map_or(&share.revision, |live| &live.revision);
                    Unit {
                        entry: position,
                        epoch: entry.epoch,
                        role: entry.role,
                        copy,
                        rank,
                        available: available_at.is_some_and(|at| at <= now),
                        stale: *revision != wanted.revision,
                        revision: revision.clone(),
                        scheduled: live.is_some_and(|live| live.scheduled),
                        available_at: available_at.filter(|at| *at > now),
                    }
                };
                match &share.units {
                    Units::Copies(indices) => units[component].extend(indices.iter().zip(0..).map(|(&copy, rank)| {
                        let live = copies.get(&(component, copy, entry.epoch)).copied();
                        make(Some(copy), rank, live)
                    })),
                    Units::Pods(count) => {
                        let mut live = pods.remove(&(component, entry.epoch)).unwrap_or_default();
                        keep_first(&mut live, &share.revision);
                        let kept = (0..*count).map(|rank| make(None, rank, live.get(rank as usize).copied()));
                        units[component].extend(kept);
                    }
                }
            }
        }
        Self { units }
    }

    /// Available units of a component, with those of bridges.
    pub(super) fn available(&self, component: usize) -> u32 {
        count(self.units[component].iter().filter(|unit| unit.available))
    }

    /// Units of a component outside bridges.
    pub(super) fn permanent(&self, component: usize) -> impl Iterator<Item = &Unit> {
        self.units[component].iter().filter(|unit| unit.role != Role::Bridge)
    }

    /// Units of a component outside bridges that do not have the template of the target.
    pub(super) fn stale(&self, component: usize) -> u32 {
        count(self.permanent(component).filter(|unit| unit.stale))
    }

    /// Units of a component outside bridges that have the template of the target.
    pub(super) fn updated(&self, component: usize) -> u32 {
        count(self.permanent(component).filter(|unit| !unit.stale))
    }

    /// Whether any unit of an entry is stale.
    pub(super) fn has_stale(&self, entry: usize) -> bool {
        let mut all = self.units.iter().flatten();
        all.any(|unit| unit.entry == entry && unit.stale)
    }
}

/// Sorts the pods of a standalone clique in one gang, which come oldest first, so that those to keep stand first when the
/// map wants fewer: those that are ready, with the template of the gang, with a node, and then the oldest.
pub fn keep_first(units: &mut [&LiveUnit], revision: &Revision) {
    units.sort_by_key(|unit| {
        let lacks = |condition: bool| !condition;
        (
            lacks(unit.ready_since.is_some()),
            lacks(unit.revision == *revision),
            lacks(unit.scheduled),
            unit.ready_since,
        )
    });
}

/// How many there are.
pub(super) fn count<T>(items: impl Iterator<Item = T>) -> u32 {
    u32::try_from(items.count()).unwrap_or(u32::MAX)
}
