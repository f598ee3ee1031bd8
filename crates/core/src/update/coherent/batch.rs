//! The next units to go from the old templates to the target: the anchor first, then the rest in proportion.
//!
//! Unavailable stale units are taken first and cost nothing; available ones only as far as their component stays at its
//! floor. Components go in step: of `K` steps, after step `k` component `c` has `k·R[c]/K` units at the target.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use coppice_api::names::Epoch;

use super::census::{Census, Unit};
use super::edit::Taken;
use super::types::{ComponentKind, Map, Revision, Role, Target};

/// The anchor of the target: the newest one, if nothing in it is stale and it has the minimum of every component that
/// still has stale units.
pub(super) fn target_anchor(target: &Target, scope: &BTreeSet<usize>, map: &Map, census: &Census) -> Option<usize> {
    let anchor = map.newest_anchor()?;
    let entry = &map.entries[anchor];
    let holds = |component: &usize| {
        let share = entry.shares.get(component);
        share.is_some_and(|share| share.units.count() >= target.components[*component].anchored())
    };
    let mut unfinished = scope.iter().filter(|component| census.stale(**component) > 0);
    (!census.has_stale(anchor) && unfinished.all(holds)).then_some(anchor)
}

/// Stale units of a component in the order in which they are replaced: unavailable ones, those of the newest template
/// (the abandoned one is the suspect, the oldest is known to work), by index.
fn drain_order(census: &Census, component: usize) -> Vec<&Unit> {
    let mut introduced: BTreeMap<&Revision, Epoch> = BTreeMap::new();
    for unit in census.permanent(component) {
        let first = introduced.entry(&unit.revision).or_insert(unit.epoch);
        *first = (*first).min(unit.epoch);
    }
    let key = |unit: &Unit| {
        let introduced = introduced.get(&unit.revision).copied();
        (unit.available, Reverse(introduced), unit.copy, Reverse(unit.epoch))
    };
    let (mut copies, pods): (Vec<&Unit>, Vec<&Unit>) =
        census.permanent(component).partition(|unit| unit.copy.is_some());
    copies.retain(|unit| unit.stale);
    copies.sort_by_key(|unit| key(unit));
    // Which pod of a gang goes is decided by the executor: the last one.
    let mut stacks: BTreeMap<usize, Vec<&Unit>> = BTreeMap::new();
    for unit in pods {
        stacks.entry(unit.entry).or_default().push(unit);
    }
    let mut order = copies;
    loop {
        let last = stacks
            .iter()
            .filter_map(|(entry, stack)| Some((*entry, *stack.last()?)));
        let next = last.filter(|(_, unit)| unit.stale).min_by_key(|(_, unit)| key(unit));
        let Some((entry, unit)) = next else { break };
        stacks.entry(entry).or_default().pop();
        order.push(unit);
    }
    order
}

/// Available units of a component that may be taken.
fn budget(target: &Target, census: &Census, component: usize) -> u32 {
    census
        .available(component)
        .saturating_sub(target.components[component].floor())
}

/// The map with an anchor at the target; none while the budget of some component does not admit it.
pub(super) fn anchor(target: &Target, scope: &BTreeSet<usize>, map: &Map, census: &Census) -> Option<Map> {
    let mut next = map.clone();
    let mut shares: Vec<(usize, Taken)> = Vec::new();
    for &component in scope {
        let wanted = &target.components[component];
        let mut taken = Taken::default();
        let mut cost = 0;
        let order = drain_order(census, component);
        for unit in order.into_iter().take(wanted.anchored() as usize) {
            cost += u32::from(unit.available);
            taken.push(unit);
            next.take(component, unit);
        }
        if cost > budget(target, census, component) {
            return None;
        }
        if taken.count > 0 {
            shares.push((component, taken));
        }
    }
    let epoch = next.add_entry(Role::Anchor, Vec::new());
    for (component, taken) in shares {
        let wanted = &target.components[component];
        next.put(epoch, component, &wanted.revision, &taken.units(wanted.kind));
    }
    Some(next.tidy())
}

/// The number of steps: how many complete systems the components in scope make up.
pub(super) fn steps(target: &Target, scope: &BTreeSet<usize>) -> u32 {
    let components = scope.iter().map(|&component| &target.components[component]);
    let awake = components.filter(|component| component.desired > 0);
    let systems = awake.map(|component| component.desired / component.minimum.max(1));
    systems.min().unwrap_or(1).max(1)
}

/// Units of a component at the target after a step.
pub(super) fn after_step(step: u64, desired: u32, steps: u32) -> u32 {
    u32::try_from(step * u64::from(desired) / u64::from(steps)).unwrap_or(u32::MAX)
}

/// The current step: the first in which some component has units to replace.
fn current_step(target: &Target, scope: &BTreeSet<usize>, census: &Census, steps: u32) -> u64 {
    let unfinished = scope.iter().filter(|component| census.stale(**component) > 0);
    let first = unfinished.map(|&component| {
        let desired = u64::from(target.components[component].desired.max(1));
        let next = u64::from(census.updated(component)) + 1;
        (next * u64::from(steps)).div_ceil(desired)
    });
    first.min().unwrap_or(1)
}

/// The map with the next batch; none while no unit may be taken.
pub(super) fn roll(target: &Target, scope: &BTreeSet<usize>, map: &Map, census: &Census, anchor: usize) -> Option<Map> {
    let anchor = map.entries[anchor].epoch;
    let steps = steps(target, scope);
    let step = current_step(target, scope, census, steps);
    let mut next = map.clone();
    let mut shares: Vec<(usize, Taken)> = Vec::new();
    for &component in scope {
        let goal = after_step(step, target.components[component].desired, steps);
        let mut quota = goal.saturating_sub(census.updated(component));
        let mut budget = budget(target, census, component);
        let mut taken = Taken::default();
        for unit in drain_order(census, component) {
            if unit.available {
                if quota == 0 || budget == 0 {
                    break;
                }
                budget -= 1;
            }
            quota = quota.saturating_sub(1);
            taken.push(unit);
            next.take(component, unit);
        }
        if taken.count > 0 {
            shares.push((component, taken));
        }
    }
    if shares.is_empty() {
        return None;
    }
    for (component, taken) in shares {
        let wanted = &target.components[component];
        let epoch = match wanted.kind {
            ComponentKind::Standalone => anchor,
            ComponentKind::Group => tail(map, &mut next, census, anchor, component, &wanted.revision),
        };
        next.put(epoch, component, &wanted.revision, &taken.units(wanted.kind));
    }
    Some(next.tidy())
}

/// The tail of the anchor for copies of a component. Never one that copies may have left before: it is newer than the
/// anchor, and nothing in it is stale.
fn tail(before: &Map, next: &mut Map, census: &Census, anchor: Epoch, component: usize, revision: &Revision) -> Epoch {
    let stale: BTreeSet<Epoch> = before
        .entries
        .iter()
        .enumerate()
        .filter(|(position, _)| census.has_stale(*position))
        .map(|(_, entry)| entry.epoch)
        .collect();
    next.entry_for_copies(&[Role::Tail], &[anchor], |entry| {
        let share = entry.shares.get(&component);
        entry.epoch > anchor && !stale.contains(&entry.epoch) && share.is_none_or(|share| share.revision == *revision)
    })
}
