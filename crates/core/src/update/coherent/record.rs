//! What is remembered of an update: which units have been available, and when there was progress last.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::names::Epoch;
use jiff::Timestamp;

use super::census::{Census, count};
use super::types::{Map, Reason, ReplicaRecord, Role, Target, Units};

/// The record after what was observed. Without a component in scope there is nothing to remember.
pub(super) fn advance(
    target: &Target,
    scope: &BTreeSet<usize>,
    map: &Map,
    census: &Census,
    before: &ReplicaRecord,
    now: Timestamp,
) -> ReplicaRecord {
    if scope.is_empty() && !map.has_bridge() {
        return ReplicaRecord::default();
    }
    let revisions = target.revisions();
    let same_target = before.revisions == revisions;
    let settled = settled(target, scope, map, census, before);
    let stale = stale(target, census);
    let held = target.paused || !target.admitted;
    let rose = |(key, now): (&(Epoch, usize), &u32)| before.settled.get(key).is_none_or(|before| now > before);
    let progress = !same_target
        || before.held != held
        || before.last_progress.is_none()
        || stale < before.fewest_stale
        || settled.iter().any(rose);
    ReplicaRecord {
        fewest_stale: if same_target {
            stale.min(before.fewest_stale)
        } else {
            stale
        },
        last_progress: if progress { Some(now) } else { before.last_progress },
        surge_abandoned: same_target && before.surge_abandoned,
        revisions,
        settled,
        held,
    }
}

/// All stale units outside bridges.
pub(super) fn stale(target: &Target, census: &Census) -> u32 {
    (0..target.components.len())
        .map(|component| census.stale(component))
        .sum()
}

/// For each epoch and component at the target, the most units that were available at one time; none for those that never
/// had one.
fn settled(
    target: &Target,
    scope: &BTreeSet<usize>,
    map: &Map,
    census: &Census,
    before: &ReplicaRecord,
) -> BTreeMap<(Epoch, usize), u32> {
    let mut settled = BTreeMap::new();
    for (position, entry) in map.entries.iter().enumerate() {
        for (&component, share) in &entry.shares {
            let at_target = target.components[component].revision == share.revision;
            if !scope.contains(&component) || !at_target {
                continue;
            }
            let units = census.units[component].iter();
            let available = count(units.filter(|unit| unit.entry == position && unit.available && !unit.stale));
            let earlier = before.settled.get(&(entry.epoch, component)).copied().unwrap_or(0);
            // Fewer than before is remembered before more are added: a unit that is added has its own first time.
            let most = available.max(earlier).min(share.units.count());
            if most > 0 {
                settled.insert((entry.epoch, component), most);
            }
        }
    }
    settled
}

/// Units at the target that have not been available yet.
#[derive(Debug, Default)]
pub(super) struct Unsettled {
    /// Their epochs.
    pub(super) epochs: Vec<Epoch>,
    /// Why the first of them waits.
    pub(super) reason: Option<Reason>,
    /// Whether all of them belong to bridges that have no node yet.
    pub(super) only_unscheduled_bridges: bool,
    /// When the next of them becomes available, if it stays ready.
    pub(super) available_at: Option<Timestamp>,
}

/// Finds units at the target that have not been available yet.
pub(super) fn unsettled(
    target: &Target,
    scope: &BTreeSet<usize>,
    map: &Map,
    census: &Census,
    record: &ReplicaRecord,
) -> Unsettled {
    let mut found = Unsettled {
        only_unscheduled_bridges: true,
        ..Unsettled::default()
    };
    for (position, entry) in map.entries.iter().enumerate() {
        let waits = |(component, share): (&usize, &super::types::Share)| {
            let settled = record.settled.get(&(entry.epoch, *component)).copied().unwrap_or(0);
            let at_target = target.components[*component].revision == share.revision;
            // Another strategy leaves stale units in entries at the target; they are replaced, not waited for.
            let units = census.units[*component].iter();
            let updated = count(units.filter(|unit| unit.entry == position && !unit.stale));
            scope.contains(component) && at_target && settled < updated
        };
        if !entry.shares.iter().any(|(component, share)| waits((component, share))) {
            continue;
        }
        found.epochs.push(entry.epoch);
        let units = || census.units.iter().flatten().filter(|unit| unit.entry == position);
        let scheduled = units().filter(|unit| !unit.available).all(|unit| unit.scheduled);
        let reason = match (scheduled, entry.role) {
            (true, _) => Reason::UnitsNotReady,
            (false, Role::Bridge) => Reason::SurgeCapacityUnavailable,
            (false, _) => Reason::GangUnschedulable,
        };
        found.only_unscheduled_bridges &= reason == Reason::SurgeCapacityUnavailable;
        // Capacity is named before health: taking an update back needs the same capacity.
        found.reason = match found.reason {
            None | Some(Reason::UnitsNotReady) => Some(reason),
            other => other,
        };
        let soonest = units().filter_map(|unit| unit.available_at).min();
        found.available_at = [found.available_at, soonest].into_iter().flatten().min();
    }
    found.only_unscheduled_bridges &= !found.epochs.is_empty();
    found
}

/// Whether an entry of the map has all its units remembered as available.
pub(super) fn is_settled(map: &Map, position: usize, record: &ReplicaRecord) -> bool {
    let entry = &map.entries[position];
    let settled = |(component, share): (&usize, &super::types::Share)| {
        let most = record.settled.get(&(entry.epoch, *component)).copied().unwrap_or(0);
        let units: &Units = &share.units;
        most >= units.count()
    };
    entry
        .shares
        .iter()
        .all(|(component, share)| settled((component, share)))
}
