//! Coherent updates: a new version arrives as something that can serve, in step, and can be stopped and taken back.
//!
//! [`plan`] takes one replica of a set from what its PodGangMap says, what was observed and what is wanted to at most one
//! new map, which is the only decision that is stored; gangs and pods follow it. The phase is derived on every call, so a
//! crash leaves nothing to recover. [`plan_set`] decides which replicas have their turn and which templates are wanted.
//!
//! One update makes one new anchor in each replica (the minimum of every component in scope); everything else follows as
//! tails and as further pods of that anchor, in proportion, and never takes a component below its floor. Templates are
//! compared by component: what did not change is never touched.
//!
//! Nothing here reads a clock, a client or a stored phase, and no epoch depends on time.

mod adopt;
mod batch;
mod bridge;
mod census;
mod edit;
mod message;
mod record;
mod scale;
mod set;
mod types;
mod wire;

use std::collections::BTreeSet;

use jiff::Timestamp;

pub use census::keep_first;
pub use message::message;
pub use set::{ReplicaFacts, SetKnobs, SetRecord, plan_set};
pub use types::{
    Component, ComponentKind, Entry, Knobs, LiveUnit, Map, Observed, OnFailure, Outcome, Phase, Progress, Reason,
    ReplicaRecord, Revision, Role, Share, Strategy, SurgePolicy, Target, Units,
};
pub use wire::{from_spec, to_spec};

use census::Census;
use scale::Scaling;

/// Decides the next step of one replica. The map is stored on the condition that the one that was read still is.
pub fn plan(
    target: &Target,
    map: Option<&Map>,
    observed: &Observed,
    record: &ReplicaRecord,
    now: Timestamp,
) -> Outcome {
    let Some(map) = map else {
        return Outcome {
            map: Some(adopt::plan(target, observed)),
            record: record.clone(),
            awaits_record: false,
            phase: Phase::Adopt,
            reason: Reason::None,
            deadline: None,
            progress: Vec::new(),
            in_flight: Vec::new(),
            scope: BTreeSet::new(),
            failed: false,
            done: false,
        };
    };
    Planner::new(target, map, observed, record, now).plan(record)
}

/// What the steps of one call share.
struct Planner<'a> {
    target: &'a Target,
    map: &'a Map,
    observed: &'a Observed,
    census: Census,
    scope: BTreeSet<usize>,
    record: ReplicaRecord,
    unsettled: record::Unsettled,
    now: Timestamp,
}

/// A step: where the replica stands, why it waits, and the map to store.
type Step = (Phase, Reason, Option<Map>);

impl<'a> Planner<'a> {
    fn new(target: &'a Target, map: &'a Map, observed: &'a Observed, before: &ReplicaRecord, now: Timestamp) -> Self {
        let census = Census::new(target, map, observed, now);
        let stale = (0..target.components.len()).filter(|component| census.stale(*component) > 0);
        let known = target
            .scope
            .iter()
            .copied()
            .filter(|component| *component < target.components.len());
        let scope: BTreeSet<usize> = known.chain(stale).collect();
        let record = record::advance(target, &scope, map, &census, before, now);
        let unsettled = record::unsettled(target, &scope, map, &census, &record);
        Self {
            target,
            map,
            observed,
            census,
            scope,
            record,
            unsettled,
            now,
        }
    }

    fn plan(mut self, before: &ReplicaRecord) -> Outcome {
        let (phase, reason, map) = self.step();
        let done = self.is_done();
        let failed = phase == Phase::Stalled && reason == Reason::UnitsNotReady;
        // The record comes first: a unit that is added later must not pass for one that was available before.
        let awaits_record = map.is_some() && self.record != *before;
        let map = map.filter(|_| !awaits_record);
        let progress = (0..self.target.components.len()).map(|component| Progress {
            desired: self.target.components[component].desired,
            available: self.census.available(component),
            updated: self.census.updated(component),
            stale: self.census.stale(component),
        });
        Outcome {
            deadline: self.deadline(phase),
            awaits_record,
            map,
            phase,
            reason,
            progress: progress.collect(),
            in_flight: self.unsettled.epochs,
            record: self.record,
            scope: self.scope,
            failed,
            done,
        }
    }

    fn step(&mut self) -> Step {
        match scale::plan(self.target, &self.scope, self.map, &self.census, self.observed) {
            Scaling::Write(map) => return (Phase::Scale, Reason::None, Some(map)),
            Scaling::Blocked => return (Phase::Scale, Reason::BudgetExhausted, None),
            Scaling::Done => {}
        }
        if self.target.strategy == Strategy::InPlace {
            return (Phase::InPlace, Reason::None, self.in_place());
        }
        if let Some(map) = self.replaced_in_place() {
            return (Phase::Adopt, Reason::None, Some(map));
        }
        if self.is_done() {
            return (Phase::Idle, Reason::None, None);
        }
        if self.target.paused {
            return (Phase::Paused, Reason::Paused, None);
        }
        if !self.target.admitted {
            return (Phase::Queued, Reason::WaitingForTurn, None);
        }
        let missing = |component: &usize| !self.target.components[*component].revision_stored;
        if self.scope.iter().any(missing) {
            return (Phase::Stalled, Reason::RevisionMissing, None);
        }
        if let Some(map) = self.unwanted_bridges() {
            return (Phase::Bridging, Reason::None, Some(map));
        }
        let step = self.update();
        if step.2.is_some() || !self.is_overdue() {
            return step;
        }
        if self.abandons_surge() {
            self.record.surge_abandoned = true;
            self.record.last_progress = Some(self.now);
            return (Phase::Bridging, Reason::SurgeCapacityUnavailable, None);
        }
        (Phase::Stalled, step.1, None)
    }

    /// The next step of an update that is not held.
    fn update(&self) -> Step {
        let stale = record::stale(self.target, &self.census);
        if let Some(reason) = self.unsettled.reason {
            return (Phase::Settling, reason, None);
        }
        if stale == 0 {
            let map = bridge::drop_where_possible(self.target, self.map, &self.census, |_| true);
            let waits = if map.is_some() {
                Reason::None
            } else {
                Reason::BudgetExhausted
            };
            return (Phase::Trimming, waits, map);
        }
        let wants_bridge = self.target.knobs.max_surge_units > 0 && !self.record.surge_abandoned;
        let uncovered = bridge::uncovered(&self.scope, self.map, &self.census);
        if wants_bridge && !uncovered.is_empty() {
            let map = bridge::build(self.target, &uncovered, self.map);
            return (Phase::Bridging, Reason::None, Some(map));
        }
        let anchor = batch::target_anchor(self.target, &self.scope, self.map, &self.census);
        let (phase, map) = match anchor {
            None => (
                Phase::Anchoring,
                batch::anchor(self.target, &self.scope, self.map, &self.census),
            ),
            Some(anchor) => (
                Phase::Rolling,
                batch::roll(self.target, &self.scope, self.map, &self.census, anchor),
            ),
        };
        let waits = if map.is_some() {
            Reason::None
        } else {
            Reason::BudgetExhausted
        };
        (phase, waits, map)
    }

    /// Whether the update has made no progress for longer than it may.
    fn is_overdue(&self) -> bool {
        self.overdue_at().is_some_and(|at| at <= self.now)
    }

    fn overdue_at(&self) -> Option<Timestamp> {
        let since = self.record.last_progress?;
        let deadline = self.target.knobs.progress_deadline;
        Some(since.saturating_add(deadline).unwrap_or(Timestamp::MAX))
    }

    /// Whether the update goes on without its bridge: nothing else is missing, and the budget admits an anchor.
    fn abandons_surge(&self) -> bool {
        let admits = |component: &usize| {
            let component = &self.target.components[*component];
            component.max_unavailable >= component.anchored()
        };
        self.unsettled.only_unscheduled_bridges
            && self.target.knobs.surge_policy == SurgePolicy::BestEffort
            && !self.record.surge_abandoned
            && self.scope.iter().all(admits)
    }

    /// The map without bridges of a version that is not wanted any more, or that the update goes on without.
    fn unwanted_bridges(&self) -> Option<Map> {
        bridge::drop_where_possible(self.target, self.map, &self.census, |position| {
            let abandoned = self.record.surge_abandoned && !record::is_settled(self.map, position, &self.record);
            // A map that was made from a half-built bridge has one that carries too little.
            let incomplete = self.map.entries[position].shares.iter().any(|(component, share)| {
                let wanted = &self.target.components[*component];
                self.census.stale(*component) > 0 && share.units.count() < wanted.anchored()
            });
            abandoned || incomplete || self.census.has_stale(position)
        })
    }

    /// The map after another strategy has replaced units inside their gangs: what has the template of the target is
    /// created from it as well when it is lost.
    fn replaced_in_place(&self) -> Option<Map> {
        let mut next = self.map.clone();
        for (component, units) in self.census.units.iter().enumerate() {
            let wanted = &self.target.components[component].revision;
            for unit in units.iter().filter(|unit| !unit.stale) {
                let share = next.entries[unit.entry].shares.get_mut(&component);
                if let Some(share) = share.filter(|share| share.revision != *wanted) {
                    share.revision = wanted.clone();
                }
            }
        }
        (next != *self.map).then(|| next.tidy())
    }

    /// The map while another strategy replaces units inside their gangs: what is lost comes back at the target.
    fn in_place(&self) -> Option<Map> {
        let mut next = self.map.clone();
        for entry in &mut next.entries {
            for (component, share) in &mut entry.shares {
                if let Some(wanted) = self.target.components.get(*component) {
                    share.revision = wanted.revision.clone();
                }
            }
        }
        let without = bridge::drop_where_possible(self.target, &next, &self.census, |_| true);
        let next = without.unwrap_or(next).tidy();
        (next != *self.map).then_some(next)
    }

    /// Whether nothing is left of the update.
    fn is_done(&self) -> bool {
        let holds = |component: &usize| self.census.available(*component) >= self.target.components[*component].floor();
        record::stale(self.target, &self.census) == 0
            && !self.map.has_bridge()
            && self.unsettled.epochs.is_empty()
            && self.scope.iter().all(holds)
    }

    /// When this call has to be repeated if nothing else happens.
    fn deadline(&self, phase: Phase) -> Option<Timestamp> {
        let waits = matches!(
            phase,
            Phase::Settling | Phase::Bridging | Phase::Anchoring | Phase::Rolling | Phase::Trimming
        );
        let soaking = self
            .census
            .units
            .iter()
            .flatten()
            .filter_map(|unit| unit.available_at)
            .min();
        let soaking = soaking.filter(|_| phase != Phase::Idle);
        let overdue = self.overdue_at().filter(|at| waits && *at > self.now);
        [soaking, overdue, self.unsettled.available_at]
            .into_iter()
            .flatten()
            .min()
    }
}
