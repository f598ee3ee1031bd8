//! The map follows the sizes of components, also during an update.
//!
//! Further units get the target's template once its anchor is scheduled, and the oldest template in use before that:
//! it is the one that is known to work. Units that are too many are chosen for all components by one rule: unavailable
//! ones first; an anchor at the target keeps its minimum; a version that still serves keeps the component's minimum
//! while its other components are there (S13). An available unit stays until the floor allows to remove it (S1).

use std::cmp::Reverse;
use std::collections::BTreeSet;

use coppice_api::names::Epoch;

use super::batch;
use super::census::{Census, Unit, count};
use super::edit::Taken;
use super::types::{ComponentKind, Entry, Map, Observed, Revision, Role, Target};

/// What is to be done about sizes.
#[derive(Debug, PartialEq)]
pub(super) enum Scaling {
    /// Every component has its size.
    Done,
    /// This map brings sizes closer.
    Write(Map),
    /// Units are too many, and none of them may go now.
    Blocked,
}

/// Brings the sizes of all components closer to what is desired.
pub(super) fn plan(
    target: &Target,
    scope: &BTreeSet<usize>,
    map: &Map,
    census: &Census,
    observed: &Observed,
) -> Scaling {
    let mut next = map.clone();
    let mut blocked = false;
    for (component, wanted) in target.components.iter().enumerate() {
        let planned = map.planned(component);
        if planned < wanted.desired {
            add(
                target,
                scope,
                &mut next,
                census,
                observed,
                component,
                wanted.desired - planned,
            );
        } else if planned > wanted.desired {
            let removed = remove(target, scope, &mut next, census, component, planned - wanted.desired);
            blocked |= removed < planned - wanted.desired;
        }
    }
    let next = next.tidy();
    if next != *map {
        Scaling::Write(next)
    } else if blocked {
        Scaling::Blocked
    } else {
        Scaling::Done
    }
}

/// The template of further units.
fn revision_of_new(
    target: &Target,
    scope: &BTreeSet<usize>,
    map: &Map,
    census: &Census,
    observed: &Observed,
    component: usize,
) -> Revision {
    let wanted = &target.components[component].revision;
    let anchored = batch::target_anchor(target, scope, map, census)
        .is_some_and(|anchor| observed.scheduled.contains(&map.entries[anchor].epoch));
    if anchored {
        return wanted.clone();
    }
    let of_entries = map.entries.iter().filter(|entry| entry.role != Role::Bridge);
    let oldest = of_entries
        .filter_map(|entry| entry.shares.get(&component))
        .map(|share| &share.revision)
        .find(|revision| *revision != wanted);
    oldest.unwrap_or(wanted).clone()
}

fn add(
    target: &Target,
    scope: &BTreeSet<usize>,
    map: &mut Map,
    census: &Census,
    observed: &Observed,
    component: usize,
    missing: u32,
) {
    let wanted = &target.components[component];
    let revision = revision_of_new(target, scope, map, census, observed, component);
    let asleep = map.planned(component) == 0;
    let mut new = Taken {
        count: missing,
        copies: map.free_copies(component, 0, missing),
    };
    let home = map.anchor_with(component, &revision).map(|entry| entry.epoch);
    if wanted.kind == ComponentKind::Standalone || asleep {
        // A component that had no units at all comes back as after a deployment: its minimum in an anchor.
        let newest = map.newest_anchor().map(|anchor| &map.entries[anchor]);
        let leftover = |entry: &&Entry| {
            let mut units = observed.units.iter();
            units.any(|unit| unit.component == component && unit.epoch == entry.epoch && unit.revision != revision)
        };
        let free = newest.filter(|entry| !entry.shares.contains_key(&component) && !leftover(entry));
        let anchor = home.or(free.map(|entry| entry.epoch));
        let anchor = anchor.unwrap_or_else(|| map.add_entry(Role::Anchor, Vec::new()));
        let mut first = new.clone();
        if wanted.kind == ComponentKind::Group {
            first.copies = new.copies.iter().copied().take(wanted.anchored() as usize).collect();
            new.copies.retain(|copy| !first.copies.contains(copy));
        }
        map.put(anchor, component, &revision, &first.units(wanted.kind));
        if wanted.kind == ComponentKind::Standalone || new.copies.is_empty() {
            return;
        }
    }
    let home = map.anchor_with(component, &revision).map(|entry| entry.epoch);
    let depends_on: Vec<_> = home.into_iter().collect();
    let same = |entry: &Entry| {
        let share = entry.shares.get(&component);
        share.is_some_and(|share| share.revision == revision)
    };
    // Beside other copies of the same template, whatever those wait for; else with others that were added later.
    let beside = map
        .entries
        .iter()
        .rev()
        .find(|entry| matches!(entry.role, Role::Tail | Role::ScaleOut) && same(entry))
        .map(|entry| entry.epoch);
    let epoch = beside.unwrap_or_else(|| {
        let accepts = |entry: &Entry| !entry.shares.contains_key(&component);
        map.entry_for_copies(&[Role::ScaleOut], &depends_on, accepts)
    });
    map.put(epoch, component, &revision, &new.units(wanted.kind));
}

fn remove(
    target: &Target,
    scope: &BTreeSet<usize>,
    map: &mut Map,
    census: &Census,
    component: usize,
    excess: u32,
) -> u32 {
    let wanted = &target.components[component];
    let mut candidates: Vec<&Unit> = census.permanent(component).collect();
    candidates.sort_by_key(|unit| {
        (
            unit.available,
            !unit.stale,
            unit.role == Role::Anchor,
            Reverse((unit.epoch, unit.copy)),
        )
    });
    let others_serve = scope.iter().any(|&other| other != component && census.stale(other) > 0);
    let mut available = census.available(component);
    let mut old_ready = count(census.permanent(component).filter(|unit| unit.stale && unit.available));
    let mut removed = 0;
    while removed < excess {
        let anchored = protected_anchor(map, census, component);
        let is_protected =
            |unit: &Unit| anchored.is_some_and(|(epoch, units)| unit.epoch == epoch && units <= wanted.anchored());
        // The executor removes pods of one gang from the end: those that do not exist, are not ready, or are newer.
        let is_next = |unit: &Unit| {
            let share = map.entry(unit.epoch).and_then(|entry| entry.shares.get(&component));
            unit.copy.is_some() || share.is_some_and(|share| unit.rank + 1 == share.units.count())
        };
        let removable = |unit: &&Unit| !is_protected(unit) && is_next(unit);
        let last_old = |unit: &Unit| {
            let serves = unit.stale && unit.available && others_serve && scope.contains(&component);
            serves && old_ready <= wanted.minimum
        };
        let another = candidates.iter().copied().filter(removable).any(|unit| !unit.stale);
        let position = candidates
            .iter()
            .position(|unit| removable(unit) && !(another && last_old(unit)));
        let Some(unit) = position.map(|position| candidates.remove(position)) else {
            break;
        };
        if unit.available {
            if available <= wanted.floor() {
                break;
            }
            available -= 1;
            old_ready -= u32::from(unit.stale);
        }
        map.take(component, unit);
        removed += 1;
    }
    removed
}

/// The anchor that keeps the component's minimum: the newest that has units of it at the target, and how many.
fn protected_anchor(map: &Map, census: &Census, component: usize) -> Option<(Epoch, u32)> {
    let fresh = census
        .permanent(component)
        .filter(|unit| !unit.stale && unit.role == Role::Anchor);
    let epoch = fresh.map(|unit| unit.epoch).max()?;
    let share = map.entry(epoch)?.shares.get(&component)?;
    Some((epoch, share.units.count()))
}
