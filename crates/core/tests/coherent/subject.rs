//! The planner under test, and what it would be with one thing wrong: mutations change what goes in or comes out of it,
//! so that the shipped code has none.

use coppice_api::names::Epoch;
use coppice_core::update::coherent::{Map, Observed, Outcome, Phase, Reason, ReplicaRecord, Role, Target, Units, plan};
use jiff::Timestamp;

/// The invariants, by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Invariant {
    S1,
    S2,
    S3,
    S4,
    S5,
    S6,
    S7,
    S8,
    S9,
    S10,
    S11,
    S12,
    S13,
    L1,
    L2,
    L3,
    L4,
    L5,
    R1,
    R2,
    R3,
    R4,
    R5,
}

impl Invariant {
    pub(crate) const ALL: [Self; 23] = [
        Self::S1,
        Self::S2,
        Self::S3,
        Self::S4,
        Self::S5,
        Self::S6,
        Self::S7,
        Self::S8,
        Self::S9,
        Self::S10,
        Self::S11,
        Self::S12,
        Self::S13,
        Self::L1,
        Self::L2,
        Self::L3,
        Self::L4,
        Self::L5,
        Self::R1,
        Self::R2,
        Self::R3,
        Self::R4,
        Self::R5,
    ];
}

/// The planner, with at most one mutation: the one that breaks the named invariant.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subject {
    pub(crate) mutation: Option<Invariant>,
    calls: std::cell::Cell<u32>,
    /// Whether a record was lost.
    pub(crate) amnesia: bool,
}

impl Subject {
    pub(crate) fn with(mutation: Option<Invariant>) -> Self {
        Self {
            mutation,
            ..Self::default()
        }
    }

    pub(crate) fn plan(
        &self,
        target: &Target,
        map: Option<&Map>,
        observed: &Observed,
        record: &ReplicaRecord,
        now: Timestamp,
    ) -> Outcome {
        let (Some(mutation), Some(map)) = (self.mutation, map) else {
            return plan(target, map, observed, record, now);
        };
        let mut target_in = target.clone();
        let mut observed_in = observed.clone();
        let mut record_in = record.clone();
        match mutation {
            Invariant::S1 => target_in
                .components
                .iter_mut()
                .for_each(|component| component.max_unavailable += 1),
            Invariant::S4 => {
                let components = target_in.components.iter_mut();
                components.for_each(|component| component.minimum = (component.minimum - 1).max(1));
            }
            Invariant::S5 => target_in.knobs.max_surge_units += 1,
            Invariant::S11 => target_in.paused = false,
            Invariant::S6 => {
                let scope = plan(target, Some(map), observed, record, now).scope;
                for entry in &map.entries {
                    for (component, share) in entry.shares.iter().filter(|(component, _)| scope.contains(component)) {
                        if share.revision == target.components[*component].revision {
                            record_in.settled.insert((entry.epoch, *component), share.units.count());
                        }
                    }
                }
            }
            Invariant::R3 => relabel(map, &mut observed_in),
            _ => {}
        }
        let mut outcome = plan(&target_in, Some(map), &observed_in, &record_in, now);
        if mutation == Invariant::S6 {
            // What was put in must not come out as a change of the record.
            let same = outcome.map.is_some();
            outcome.record = if same {
                record.clone()
            } else {
                plan(target, Some(map), observed, record, now).record
            };
            outcome.map = outcome.map.filter(|_| outcome.record == *record);
        }
        self.calls.set(self.calls.get() + 1);
        self.spoil(mutation, target, map, observed, now, &mut outcome);
        outcome
    }

    fn spoil(
        &self,
        mutation: Invariant,
        target: &Target,
        before: &Map,
        observed: &Observed,
        now: Timestamp,
        outcome: &mut Outcome,
    ) {
        let is_batch = matches!(outcome.phase, Phase::Anchoring | Phase::Rolling);
        let unready = observed.units.iter().any(|unit| unit.ready_since.is_none());
        match mutation {
            Invariant::L2 if outcome.phase == Phase::Trimming => outcome.map = None,
            Invariant::L3 if unready && outcome.phase != Phase::Scale => outcome.map = None,
            Invariant::L4 if unready && outcome.phase == Phase::Anchoring => {
                outcome.map = None;
                outcome.reason = Reason::BudgetExhausted;
            }
            Invariant::R1 if self.calls.get().is_multiple_of(3) => outcome.map = None,
            Invariant::R5 if self.amnesia && is_batch => outcome.map = None,
            _ => {}
        }
        let Some(after) = &mut outcome.map else { return };
        match mutation {
            Invariant::S2 if is_batch => keep_twice(before, after),
            Invariant::S3 if outcome.phase == Phase::Anchoring => old_template(before, after),
            Invariant::S7 => wait_for_the_future(after),
            Invariant::S8 if is_batch => move_one(target, after, |component, _| !outcome.scope.contains(&component)),
            Invariant::L5 if is_batch => move_one(target, after, |component, at_target| {
                at_target && outcome.scope.contains(&component)
            }),
            Invariant::S13 if outcome.phase == Phase::Scale => take_from_anchor(before, after),
            Invariant::L1 if outcome.phase == Phase::Rolling => go_back(target, before, after),
            Invariant::R4 => {
                let clock = u64::try_from(now.as_second()).unwrap() % 5 + 100_000;
                let epoch = Epoch::parse(&clock.to_string()).unwrap();
                let new = after
                    .entries
                    .last_mut()
                    .filter(|last| before.entries.iter().all(|old| old.epoch != last.epoch));
                if let Some(new) = new {
                    new.epoch = epoch;
                }
            }
            _ => {}
        }
    }
}

/// Units seem to belong where the map has them, whatever they were created for.
fn relabel(map: &Map, observed: &mut Observed) {
    for unit in &mut observed.units {
        for entry in &map.entries {
            let Some(share) = entry.shares.get(&unit.component) else {
                continue;
            };
            if matches!((&share.units, unit.copy), (Units::Copies(copies), Some(copy)) if copies.contains(&copy)) {
                unit.epoch = entry.epoch;
                unit.revision = share.revision.clone();
            }
        }
    }
}

/// A copy that moved also stays.
fn keep_twice(before: &Map, after: &mut Map) {
    for old in &before.entries {
        let Some(entry) = after.entries.iter_mut().find(|entry| entry.epoch == old.epoch) else {
            continue;
        };
        for (component, share) in &mut entry.shares {
            if let (Units::Copies(now), Some(Units::Copies(then))) =
                (&mut share.units, old.shares.get(component).map(|share| &share.units))
            {
                now.extend(then);
            }
        }
    }
}

/// A new anchor with a template of before.
fn old_template(before: &Map, after: &mut Map) {
    let Some(last) = after.entries.last_mut() else { return };
    for (component, share) in &mut last.shares {
        let old = before.entries.iter().filter_map(|entry| entry.shares.get(component));
        if let Some(old) = old
            .map(|share| &share.revision)
            .find(|revision| **revision != share.revision)
        {
            share.revision = old.clone();
            return;
        }
    }
}

fn wait_for_the_future(after: &mut Map) {
    let tail = after.entries.iter_mut().rev().find(|entry| entry.role == Role::Tail);
    if let Some(tail) = tail {
        tail.depends_on = vec![tail.epoch.next()];
    }
}

/// Moves one copy, chosen by component and whether it has the template of the target, into the newest entry.
fn move_one(target: &Target, after: &mut Map, wanted: impl Fn(usize, bool) -> bool) {
    let newest = after.entries.len() - 1;
    for position in 0..newest {
        let entry = &mut after.entries[position];
        for (&component, share) in &mut entry.shares {
            let at_target = share.revision == target.components[component].revision;
            let Units::Copies(copies) = &mut share.units else {
                continue;
            };
            if copies.len() < 2 || !wanted(component, at_target) {
                continue;
            }
            let Some(copy) = copies.pop_last() else { continue };
            let revision = target.components[component].revision.clone();
            let home = after.entries[newest].shares.entry(component);
            let share = home.or_insert_with(|| coppice_core::update::coherent::Share {
                revision,
                units: Units::Copies(std::collections::BTreeSet::new()),
            });
            if let Units::Copies(copies) = &mut share.units {
                copies.insert(copy);
            }
            return;
        }
    }
}

/// Scaling in takes a copy of the newest anchor where it would have taken one behind it.
fn take_from_anchor(before: &Map, after: &mut Map) {
    for old in before.entries.iter().filter(|old| !old.role.is_one_gang()) {
        for (component, share) in &old.shares {
            let Units::Copies(then) = &share.units else { continue };
            let entry = after.entries.iter_mut().find(|entry| entry.epoch == old.epoch);
            let Some(share) = entry.and_then(|entry| entry.shares.get_mut(component)) else {
                continue;
            };
            let Units::Copies(now) = &mut share.units else { continue };
            let Some(gone) = then.difference(now).next() else {
                continue;
            };
            now.insert(*gone);
            let anchor = after.entries.iter_mut().rev().find(|entry| entry.role == Role::Anchor);
            let share = anchor.and_then(|anchor| anchor.shares.get_mut(component));
            if let Some(Units::Copies(copies)) = share.map(|share| &mut share.units) {
                copies.pop_first();
            }
        }
    }
}

/// The newest anchor gets back the template that it had.
fn go_back(target: &Target, before: &Map, after: &mut Map) {
    let anchor = after.entries.iter_mut().rev().find(|entry| entry.role == Role::Anchor);
    if let Some(entry) = anchor {
        for (component, share) in &mut entry.shares {
            let old = before.entries.iter().filter_map(|entry| entry.shares.get(component));
            let wanted = &target.components[*component].revision;
            if share.revision == *wanted
                && let Some(old) = old.map(|share| &share.revision).find(|revision| *revision != wanted)
            {
                share.revision = old.clone();
            }
        }
    }
}
