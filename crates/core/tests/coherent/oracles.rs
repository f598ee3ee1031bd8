//! The invariants of coherent updates, one small function each. They count for themselves and share no arithmetic with
//! the planner.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

use coppice_api::names::Epoch;
use coppice_core::update::coherent::{
    Component, LiveUnit, Map, Observed, Outcome, Phase, ReplicaRecord, Revision, Role, Target, Units, from_spec,
    to_spec,
};
use jiff::Timestamp;

use crate::model::World;

/// What an oracle answers.
pub(crate) type Verdict = Result<(), String>;

/// A change of a map that is about to be stored.
pub(crate) struct Step<'a> {
    pub(crate) world: &'a World,
    pub(crate) replica: usize,
    pub(crate) target: &'a Target,
    pub(crate) before: &'a Map,
    pub(crate) after: &'a Map,
    pub(crate) observed: &'a Observed,
    pub(crate) record: &'a ReplicaRecord,
    pub(crate) outcome: &'a Outcome,
    pub(crate) now: Timestamp,
    /// The version of the map that the plan was made from.
    pub(crate) read_version: u64,
    /// Components that were edited since all replicas had the same templates.
    pub(crate) edited: &'a BTreeSet<usize>,
    /// Replicas in which the current update has moved units, and that are not finished.
    pub(crate) rolling: &'a BTreeSet<usize>,
    /// Whether another strategy has been in force.
    pub(crate) in_place: bool,
    /// The units of the map before, and of each component those that leave their entry; counted once.
    pub(crate) counted: OnceCell<(Vec<Seen>, Vec<Vec<Seen>>)>,
}

/// A unit of a map as the oracles see it.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    component: usize,
    copy: Option<u32>,
    epoch: Epoch,
    role: Role,
    stale: bool,
    available: bool,
    exists: bool,
}

/// The units of a map; pods of one epoch in the order in which they are kept.
pub(crate) fn seen(target: &Target, map: &Map, observed: &Observed, now: Timestamp) -> Vec<Seen> {
    let mut all = Vec::new();
    for entry in &map.entries {
        for (&component, share) in &entry.shares {
            let here = |unit: &&LiveUnit| unit.component == component && unit.epoch == entry.epoch && !unit.terminating;
            let unit = |copy: Option<u32>, live: Option<&LiveUnit>| {
                let revision = live.map_or(&share.revision, |live| &live.revision);
                let ready = live.and_then(|live| live.ready_since);
                Seen {
                    component,
                    copy,
                    epoch: entry.epoch,
                    role: entry.role,
                    stale: *revision != target.components[component].revision,
                    available: ready.is_some_and(|since| since + target.knobs.min_ready <= now),
                    exists: live.is_some(),
                }
            };
            match &share.units {
                Units::Copies(copies) => all.extend(copies.iter().map(|copy| {
                    let live = observed.units.iter().filter(here).find(|unit| unit.copy == Some(*copy));
                    unit(Some(*copy), live)
                })),
                Units::Pods(pods) => {
                    let mut live: Vec<&LiveUnit> = observed.units.iter().filter(here).collect();
                    live.sort_by_key(|unit| {
                        let same = unit.revision == share.revision;
                        (unit.ready_since.is_none(), !same, !unit.scheduled, unit.ready_since)
                    });
                    all.extend((0..*pods as usize).map(|number| unit(None, live.get(number).copied())));
                }
            }
        }
    }
    all
}

impl Step<'_> {
    fn counted(&self) -> &(Vec<Seen>, Vec<Vec<Seen>>) {
        self.counted.get_or_init(|| {
            let units = seen(self.target, self.before, self.observed, self.now);
            let leaving = self
                .components()
                .map(|component| self.count_leaving(&units, component))
                .collect();
            (units, leaving)
        })
    }

    fn units(&self) -> &[Seen] {
        &self.counted().0
    }

    /// The units of a component that leave their entry.
    fn leaving(&self, component: usize) -> &[Seen] {
        &self.counted().1[component]
    }

    fn component(&self, component: usize) -> &Component {
        &self.target.components[component]
    }

    fn minimum(&self, component: usize) -> u32 {
        let component = self.component(component);
        component.minimum.min(component.desired)
    }

    fn components(&self) -> std::ops::Range<usize> {
        0..self.target.components.len()
    }

    fn is_batch(&self) -> bool {
        matches!(self.outcome.phase, Phase::Anchoring | Phase::Rolling)
    }

    fn count_leaving(&self, units: &[Seen], component: usize) -> Vec<Seen> {
        let mut leaving = Vec::new();
        let units = units.iter().filter(|unit| unit.component == component).rev().cloned();
        let mut pods: BTreeMap<Epoch, u32> = BTreeMap::new();
        for unit in units {
            match unit.copy {
                Some(copy) if !holds(self.after, unit.epoch, component, copy) => leaving.push(unit),
                Some(_) => {}
                None => {
                    let before = count(self.before, unit.epoch, component);
                    let fewer = before.saturating_sub(count(self.after, unit.epoch, component));
                    let taken = pods.entry(unit.epoch).or_default();
                    if *taken < fewer {
                        *taken += 1;
                        leaving.push(unit);
                    }
                }
            }
        }
        leaving
    }
}

fn share_units(map: &Map, epoch: Epoch, component: usize) -> Option<&Units> {
    let entry = map.entries.iter().find(|entry| entry.epoch == epoch)?;
    Some(&entry.shares.get(&component)?.units)
}

fn holds(map: &Map, epoch: Epoch, component: usize, copy: u32) -> bool {
    matches!(share_units(map, epoch, component), Some(Units::Copies(copies)) if copies.contains(&copy))
}

fn count(map: &Map, epoch: Epoch, component: usize) -> u32 {
    share_units(map, epoch, component).map_or(0, Units::count)
}

fn total(map: &Map, component: usize, bridges: bool) -> u32 {
    let entries = map.entries.iter().filter(|entry| bridges || entry.role != Role::Bridge);
    let shares = entries.filter_map(|entry| entry.shares.get(&component));
    shares.map(|share| share.units.count()).sum()
}

macro_rules! ensure {
    ($condition:expr, $($words:tt)+) => {
        if !$condition {
            return Err(format!($($words)+));
        }
    };
}

/// S1: what removes an available unit of a component leaves at least its floor.
pub(crate) fn s1_floor(step: &Step<'_>) -> Verdict {
    for component in step.components() {
        let taken = step.leaving(component).iter().filter(|unit| unit.available).count();
        let units = step.units();
        let available = units
            .iter()
            .filter(|unit| unit.component == component && unit.available);
        let left = available.count() - taken;
        let wanted = step.component(component);
        let floor = wanted.desired.saturating_sub(wanted.max_unavailable) as usize;
        ensure!(
            taken == 0 || left >= floor,
            "component {component}: {left} left of floor {floor}"
        );
    }
    Ok(())
}

/// S2: every copy has one home, and only scaling changes how many units there are.
pub(crate) fn s2_one_home(step: &Step<'_>) -> Verdict {
    let mut homes = BTreeSet::new();
    for entry in &step.after.entries {
        for (component, share) in &entry.shares {
            ensure!(share.units.count() > 0, "an empty share");
            if let Units::Copies(copies) = &share.units {
                for copy in copies {
                    ensure!(
                        homes.insert((*component, *copy)),
                        "copy {copy} of {component} has two homes"
                    );
                }
            }
        }
    }
    for component in step.components() {
        let (before, after) = (
            total(step.before, component, false),
            total(step.after, component, false),
        );
        if step.outcome.phase == Phase::Scale {
            let desired = step.component(component).desired;
            let closer = (before.min(desired)..=before.max(desired)).contains(&after);
            ensure!(closer, "component {component}: {before} to {after} of {desired}");
        } else {
            ensure!(before == after, "component {component}: {before} units became {after}");
        }
    }
    Ok(())
}

/// S3: one template a component and gang; a gang that an update makes has only units at the target, in scope.
pub(crate) fn s3_purity(step: &Step<'_>) -> Verdict {
    let coherent = !matches!(step.outcome.phase, Phase::InPlace | Phase::Adopt);
    for entry in &step.after.entries {
        let old = step.before.entries.iter().find(|old| old.epoch == entry.epoch);
        for (component, share) in &entry.shares {
            let old_share = old.and_then(|old| old.shares.get(component));
            let same = old_share.is_none_or(|old| old.revision == share.revision);
            ensure!(
                same || !coherent,
                "the template of {component} in {} changed",
                entry.epoch
            );
            let made = old.is_none() && !matches!(step.outcome.phase, Phase::Scale | Phase::Adopt);
            let at_target = share.revision == step.component(*component).revision;
            ensure!(!made || at_target, "a new gang with an old template");
            ensure!(
                !made || step.outcome.scope.contains(component),
                "a new gang out of scope"
            );
        }
    }
    for unit in step
        .observed
        .units
        .iter()
        .filter(|unit| !step.in_place && !unit.terminating)
    {
        let entry = step.before.entries.iter().find(|entry| entry.epoch == unit.epoch);
        let share = entry.and_then(|entry| entry.shares.get(&unit.component));
        ensure!(
            share.is_none_or(|share| share.revision == unit.revision),
            "a unit of another template"
        );
    }
    Ok(())
}

/// S4: nothing rolls before the newest anchor holds the minimum of every component that still has stale units.
pub(crate) fn s4_no_mixed_minimum(step: &Step<'_>) -> Verdict {
    let (map, remaining) = match step.outcome.phase {
        Phase::Rolling => (step.before, step.before),
        Phase::Anchoring => (step.after, step.after),
        _ => return Ok(()),
    };
    let anchor = map.entries.iter().rev().find(|entry| entry.role == Role::Anchor);
    let Some(anchor) = anchor else {
        return Err("rolling without an anchor".to_owned());
    };
    let units = seen(step.target, remaining, step.observed, step.now);
    for component in step.components() {
        let mine = units
            .iter()
            .filter(|unit| unit.component == component && unit.role != Role::Bridge);
        if mine.filter(|unit| unit.stale).count() == 0 {
            continue;
        }
        let share = anchor.shares.get(&component);
        let at_target = share.filter(|share| share.revision == step.component(component).revision);
        let held = at_target.map_or(0, |share| share.units.count());
        let minimum = step.minimum(component);
        ensure!(
            held >= minimum,
            "the anchor has {held} of {minimum} of component {component}"
        );
    }
    Ok(())
}

/// S5: no more units than desired and bridges; more only while a scale-in waits.
pub(crate) fn s5_bounded_surge(step: &Step<'_>) -> Verdict {
    for component in step.components() {
        let wanted = step.component(component);
        let before = total(step.before, component, true);
        let most = wanted.desired + step.target.knobs.max_surge_units * wanted.minimum;
        let after = total(step.after, component, true);
        ensure!(
            after <= most.max(before),
            "component {component}: {after} units, at most {most}"
        );
    }
    Ok(())
}

/// S6: components go in step, and no batch begins while a unit at the target has never been ready.
pub(crate) fn s6_lockstep(step: &Step<'_>) -> Verdict {
    if !step.is_batch() {
        return Ok(());
    }
    let units = step.units();
    let scope: Vec<usize> = step.outcome.scope.iter().copied().collect();
    let permanent = |component: usize, stale: bool| {
        let mine = units
            .iter()
            .filter(|unit| unit.component == component && unit.role != Role::Bridge);
        mine.filter(|unit| unit.stale == stale).count() as u64
    };
    let desired = |component: usize| u64::from(step.component(component).desired);
    let systems = scope.iter().filter(|component| desired(**component) > 0);
    let steps = systems
        .map(|component| desired(*component) / u64::from(step.component(*component).minimum))
        .min();
    let steps = steps.unwrap_or(1).max(1);
    let goal = |number: u64, component: usize| number * desired(component) / steps;
    let mut number = 1;
    let behind = |number: u64| {
        let mut unfinished = scope.iter().filter(|component| permanent(**component, true) > 0);
        unfinished.any(|component| goal(number, *component) > permanent(*component, false))
    };
    while number <= 2 * steps && !behind(number) {
        number += 1;
    }
    for component in step.components() {
        let paid = step.leaving(component).iter().filter(|unit| unit.available).count() as u64;
        let allowed = match step.outcome.phase {
            Phase::Anchoring => u64::from(step.minimum(component)),
            _ => goal(number, component).saturating_sub(permanent(component, false)),
        };
        ensure!(
            paid <= allowed,
            "component {component}: {paid} units in step {number}, {allowed} allowed"
        );
    }
    gate(step)
}

fn gate(step: &Step<'_>) -> Verdict {
    let state = &step.world.replicas[step.replica];
    for entry in &step.before.entries {
        for (&component, share) in &entry.shares {
            if share.revision != step.component(component).revision || !step.outcome.scope.contains(&component) {
                continue;
            }
            let settled = match &share.units {
                Units::Copies(copies) => copies
                    .iter()
                    .all(|copy| state.ever_ready.contains(&(entry.epoch, component, Some(*copy)))),
                Units::Pods(pods) => state
                    .most_ready
                    .get(&(entry.epoch, component))
                    .is_some_and(|most| most >= pods),
            };
            ensure!(
                settled || step.in_place,
                "a batch while {component} of {} was never ready",
                entry.epoch
            );
        }
    }
    Ok(())
}

/// S7: a gang waits only for older anchors that have the same templates.
pub(crate) fn s7_order(step: &Step<'_>) -> Verdict {
    for entry in &step.after.entries {
        for epoch in &entry.depends_on {
            ensure!(*epoch < entry.epoch, "{} waits for the younger {epoch}", entry.epoch);
            let other = step.after.entries.iter().find(|other| other.epoch == *epoch);
            let Some(other) = other else {
                return Err(format!("{} waits for {epoch}, which does not exist", entry.epoch));
            };
            ensure!(
                other.role == Role::Anchor,
                "{} waits for something else than an anchor",
                entry.epoch
            );
            for (component, share) in &entry.shares {
                let theirs = other.shares.get(component);
                let same = theirs.is_none_or(|theirs| theirs.revision == share.revision);
                ensure!(same, "{} waits for another template of {component}", entry.epoch);
            }
        }
    }
    Ok(())
}

/// S8: nothing of a component that was not edited is moved.
pub(crate) fn s8_out_of_scope(step: &Step<'_>) -> Verdict {
    if matches!(step.outcome.phase, Phase::Scale | Phase::InPlace) {
        return Ok(());
    }
    let homes = |map: &Map, component: usize| -> Vec<(Epoch, Units)> {
        let shares = map.entries.iter().filter(|entry| entry.role != Role::Bridge);
        let shares = shares.filter_map(|entry| Some((entry.epoch, entry.shares.get(&component)?.units.clone())));
        shares.collect()
    };
    for component in step.components().filter(|component| !step.edited.contains(component)) {
        let same = homes(step.before, component) == homes(step.after, component);
        ensure!(same, "component {component} was not edited, and moved");
    }
    Ok(())
}

/// S9: no more replicas than allowed are on the way to the same target.
pub(crate) fn s9_isolation(step: &Step<'_>) -> Verdict {
    if !step.is_batch() {
        return Ok(());
    }
    let mut rolling = step.rolling.clone();
    rolling.insert(step.replica);
    let most = step.world.set_knobs.max_concurrent_replicas as usize;
    ensure!(rolling.len() <= most, "replicas {rolling:?} roll, at most {most}");
    Ok(())
}

/// S10: a map is stored only over the one that was read.
pub(crate) fn s10_single_writer(step: &Step<'_>) -> Verdict {
    let stored = step.world.replicas[step.replica].version;
    ensure!(
        stored == step.read_version,
        "read {}, stored {stored}",
        step.read_version
    );
    Ok(())
}

/// S11: while paused, or overdue with units that were never ready, only sizes and lost units are reconciled.
pub(crate) fn s11_freeze(step: &Step<'_>) -> Verdict {
    ensure!(!(step.target.paused && step.is_batch()), "a batch while paused");
    let overdue = step
        .record
        .last_progress
        .is_some_and(|since| since + step.target.knobs.progress_deadline <= step.now);
    ensure!(
        !overdue || !step.is_batch() || gate(step).is_ok(),
        "a batch while stalled"
    );
    Ok(())
}

/// S12: what exists in an epoch has the template that the map names for it. Judged when a unit is created.
pub(crate) fn s12_heal_in_kind(map: &Map, unit: &LiveUnit) -> Verdict {
    let entry = map.entries.iter().find(|entry| entry.epoch == unit.epoch);
    let share = entry.and_then(|entry| entry.shares.get(&unit.component));
    let same = share.is_none_or(|share| share.revision == unit.revision);
    ensure!(same, "component {} came back as {}", unit.component, unit.revision);
    Ok(())
}

/// S13: scaling in spares the anchor of the target, and the last ready units of a version that still serves.
pub(crate) fn s13_scale_in(step: &Step<'_>) -> Verdict {
    if step.outcome.phase != Phase::Scale {
        return Ok(());
    }
    let before = step.units();
    let after = seen(step.target, step.after, step.observed, step.now);
    let permanent = |units: &[Seen], component: usize| -> Vec<Seen> {
        let mine = units
            .iter()
            .filter(|unit| unit.component == component && unit.role != Role::Bridge);
        mine.cloned().collect()
    };
    for component in step.components() {
        let leaving = step.leaving(component);
        if leaving.is_empty() {
            continue;
        }
        let minimum = step.minimum(component) as usize;
        let mine = permanent(before, component);
        let fresh = mine.iter().filter(|unit| !unit.stale && unit.role == Role::Anchor);
        let anchor = fresh.map(|unit| unit.epoch).max();
        let held = |map: &Map| anchor.map_or(0, |epoch| count(map, epoch, component) as usize);
        let kept = held(step.after) >= minimum.min(held(step.before));
        ensure!(
            kept,
            "component {component}: the anchor has {} of {minimum}",
            held(step.after)
        );

        let old_ready = |units: &[Seen]| units.iter().filter(|unit| unit.stale && unit.available).count();
        let rest = permanent(&after, component);
        // In a gang in which another strategy left two versions, the executor chooses.
        let mixed = |unit: &Seen| {
            let entry = step.before.entries.iter().find(|entry| entry.epoch == unit.epoch);
            let share = entry.and_then(|entry| entry.shares.get(&component));
            share.is_some_and(|share| share.revision == step.component(component).revision)
        };
        let took_old = leaving.iter().any(|unit| unit.stale && unit.available && !mixed(unit));
        let others = step
            .components()
            .any(|other| other != component && permanent(before, other).iter().any(|unit| unit.stale));
        let in_anchor = |unit: &Seen| Some(unit.epoch) == anchor;
        let spare = rest.iter().filter(|unit| !unit.stale && !in_anchor(unit)).count()
            + held(step.after).saturating_sub(minimum);
        let below = old_ready(&rest) < step.component(component).minimum as usize;
        ensure!(
            !(took_old && below && others && spare > 0),
            "component {component}: the old version lost its last {} while {spare} new ones could go",
            old_ready(&mine)
        );
    }
    Ok(())
}

/// L1: with the same target nothing goes back, and every batch moves something.
pub(crate) fn l1_monotone(step: &Step<'_>) -> Verdict {
    let updated = |map: &Map| -> Vec<u32> {
        step.components()
            .map(|component| {
                let wanted = &step.component(component).revision;
                let entries = map.entries.iter().filter(|entry| entry.role != Role::Bridge);
                let shares = entries.filter_map(|entry| entry.shares.get(&component));
                shares
                    .filter(|share| share.revision == *wanted)
                    .map(|share| share.units.count())
                    .sum()
            })
            .collect()
    };
    if step.outcome.phase == Phase::Scale {
        return Ok(());
    }
    let (before, after) = (updated(step.before), updated(step.after));
    ensure!(
        before.iter().zip(&after).all(|(before, after)| after >= before),
        "{before:?} became {after:?}"
    );
    let moved: usize = step.components().map(|component| step.leaving(component).len()).sum();
    ensure!(!step.is_batch() || moved > 0, "a batch that moves nothing");
    Ok(())
}

/// L4: an anchor is admissible whenever budgets hold one and only stale units are unavailable.
pub(crate) fn l4_anchor_admissible(
    target: &Target,
    map: &Map,
    observed: &Observed,
    now: Timestamp,
    outcome: &Outcome,
) -> Verdict {
    if outcome.phase != Phase::Anchoring
        || outcome.map.is_some()
        || outcome.reason == coppice_core::update::coherent::Reason::None
    {
        return Ok(());
    }
    let units = seen(target, map, observed, now);
    let enough = outcome.scope.iter().all(|component| {
        let component = &target.components[*component];
        component.max_unavailable >= component.minimum
    });
    let only_stale = units
        .iter()
        .all(|unit| unit.available || unit.stale || !outcome.scope.contains(&unit.component));
    ensure!(!(enough && only_stale), "the anchor is not admitted");
    Ok(())
}

/// L5: an update moves only what is stale.
pub(crate) fn l5_minimal_churn(step: &Step<'_>) -> Verdict {
    if !step.is_batch() {
        return Ok(());
    }
    for component in step.components() {
        let fresh = step
            .leaving(component)
            .iter()
            .filter(|unit| !unit.stale && unit.exists)
            .count();
        ensure!(
            fresh == 0,
            "component {component}: {fresh} units at the target moved again"
        );
    }
    Ok(())
}

/// R2: nothing is decided outside what is stored.
pub(crate) fn r2_all_is_stored(step: &Step<'_>, store: impl Fn(&mut coppice_api::types::PodGangMapSpec)) -> Verdict {
    let components = &step.target.components;
    let mut spec = to_spec(step.after, components, 0, "generation", None);
    store(&mut spec);
    let text = serde_json::to_string(&spec).unwrap();
    let read = serde_json::from_str(&text).unwrap();
    let back = from_spec(&read, components, |_, component| {
        Revision::new(&format!("generation of {component}"))
    });
    ensure!(back.as_ref() == Some(step.after), "stored and read again as {back:?}");
    Ok(())
}

/// R4: a new gang gets a number that no gang of the replica ever had.
pub(crate) fn r4_no_clock_in_identity(step: &Step<'_>) -> Verdict {
    let newest = step.world.replicas[step.replica].newest_epoch;
    for entry in &step.after.entries {
        let old = step.before.entries.iter().any(|old| old.epoch == entry.epoch);
        ensure!(old || Some(entry.epoch) > newest, "epoch {} is used twice", entry.epoch);
    }
    Ok(())
}
