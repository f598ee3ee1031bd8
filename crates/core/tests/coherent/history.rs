//! Random histories: a set, and what happens to it. Data, so that one that goes wrong can be made smaller.

use std::collections::BTreeSet;

use coppice_core::update::coherent::{
    ComponentKind, Knobs, Map, Observed, OnFailure, Outcome, Phase, ReplicaRecord, Role, SetKnobs, SetRecord, Strategy,
    SurgePolicy, Target, Units,
};
use jiff::{SignedDuration, Timestamp};

use crate::model::{Shape, World, Write};
use crate::oracles::{self, Step, Verdict};
use crate::subject::{Invariant, Subject};

/// Numbers from a seed.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u32) -> u32 {
        u32::try_from(self.next() % u64::from(bound)).unwrap()
    }

    fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }
}

/// Something that happens. Numbers choose among what is there.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The set is planned.
    PlanSet,
    /// A replica is planned from what was to be seen so many changes ago, and the result is stored.
    Plan(u32, u32),
    /// A replica is planned, and another process will store the result later.
    PlanSlowly(u32),
    /// That other process stores it now.
    StoreLate,
    /// The executor makes so many writes.
    Execute(u32, u32),
    /// Terminating units are gone.
    Reap(u32, u32),
    /// Gangs are placed.
    Schedule(u32),
    /// So many units get ready.
    Ready(u32, u32),
    /// A unit is not ready any more.
    Fail(u32, u32),
    /// A unit is gone.
    Lose(u32, u32),
    /// Time passes.
    Wait(u32),
    /// A component, or all, gets a template.
    Edit(u32, u32),
    /// A component of a replica is scaled.
    Scale(u32, u32, u32),
    /// The user stops or resumes the update.
    Pause(bool),
    /// The user changes the strategy.
    Coherent(bool),
    /// A version of a component never gets ready.
    Break(u32, u32),
    /// The nodes have room for so many units beyond those that are there.
    Full(Option<u32>),
    /// The status of a replica is lost.
    Forget(u32),
    /// The status of the set is lost.
    ForgetSet,
    /// A map is deleted.
    DeleteMap(u32),
    /// All units of a replica and its map are deleted, as gang termination does.
    Terminate(u32),
}

/// A set, and what happens to it.
#[derive(Clone, Debug)]
pub(crate) struct History {
    pub(crate) shapes: Vec<Shape>,
    pub(crate) desired: Vec<Vec<u32>>,
    pub(crate) knobs: Knobs,
    pub(crate) set_knobs: SetKnobs,
    pub(crate) events: Vec<Event>,
    /// Whether what is broken at the end stays so, and is replaced by another version.
    pub(crate) ends_with_fix: bool,
}

const DEADLINE: i64 = 100;

impl History {
    pub(crate) fn random(seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let components = 1 + random.below(3) + random.below(2) * random.below(3);
        let surge = if random.chance(30) { 1 + random.below(2) } else { 0 };
        let shapes: Vec<Shape> = (0..components)
            .map(|_| {
                let minimum = 1 + random.below(3) * random.below(2);
                let least = if surge > 0 && random.chance(50) { 0 } else { minimum };
                Shape {
                    kind: if random.chance(40) {
                        ComponentKind::Standalone
                    } else {
                        ComponentKind::Group
                    },
                    minimum,
                    max_unavailable: least + random.below(2) * random.below(3),
                }
            })
            .collect();
        let replicas = if random.chance(60) { 1 } else { 2 + random.below(2) };
        let desired = (0..replicas)
            .map(|_| {
                let sizes = shapes.iter().map(|shape| shape.minimum + random.below(5));
                sizes.collect()
            })
            .collect();
        let knobs = Knobs {
            max_surge_units: surge,
            surge_policy: if random.chance(70) {
                SurgePolicy::BestEffort
            } else {
                SurgePolicy::Required
            },
            min_ready: SignedDuration::from_secs(if random.chance(20) { 5 } else { 0 }),
            progress_deadline: SignedDuration::from_secs(DEADLINE),
        };
        let set_knobs = SetKnobs {
            max_concurrent_replicas: 1 + random.below(2) * random.below(2),
            on_failure: if random.chance(25) {
                OnFailure::Rollback
            } else {
                OnFailure::Pause
            },
        };
        let length = 10 + random.below(50);
        Self {
            events: (0..length).map(|_| event(random)).collect(),
            ends_with_fix: random.chance(50),
            shapes,
            desired,
            knobs,
            set_knobs,
        }
    }
}

fn event(random: &mut Random) -> Event {
    let replica = random.below(3);
    let which = random.below(1000);
    match random.below(100) {
        0..26 => Event::Plan(replica, if random.chance(30) { random.below(4) } else { 0 }),
        26..29 => Event::PlanSlowly(replica),
        29..32 => Event::StoreLate,
        32..40 => Event::PlanSet,
        40..53 => Event::Execute(replica, 1 + random.below(12)),
        53..60 => Event::Reap(replica, 1 + random.below(6)),
        60..67 => Event::Schedule(replica),
        67..76 => Event::Ready(replica, 1 + random.below(6)),
        76..79 => Event::Fail(replica, which),
        79..81 => Event::Lose(replica, which),
        81..84 => Event::Wait(1 + random.below(30) * (1 + 4 * random.below(2))),
        84..89 => Event::Edit(random.below(9), 1 + random.below(4)),
        89..93 => Event::Scale(replica, which, random.below(6)),
        93 => Event::Pause(random.chance(50)),
        94 => Event::Coherent(random.chance(60)),
        95 => Event::Break(which, 2 + random.below(3)),
        96 => Event::Full(Some(random.below(4)).filter(|_| random.chance(60))),
        97 => {
            if random.chance(70) {
                Event::Forget(replica)
            } else {
                Event::ForgetSet
            }
        }
        98 => Event::DeleteMap(replica),
        _ => Event::Terminate(replica),
    }
}

/// A plan that is not stored yet.
struct Planned {
    replica: usize,
    version: u64,
    target: Target,
    before: Option<Map>,
    observed: Observed,
    record: ReplicaRecord,
    outcome: Outcome,
    now: Timestamp,
}

/// What a run counts.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) batches: u64,
    pub(crate) maps: u64,
    pub(crate) conflicts: u64,
}

/// A history that is being lived through.
struct Run {
    world: World,
    subject: Subject,
    only: Option<Invariant>,
    edited: BTreeSet<usize>,
    rolling: BTreeSet<usize>,
    target_before: Vec<coppice_core::update::coherent::Revision>,
    in_place: bool,
    pending: Vec<Planned>,
    counts: Counts,
}

/// The broken invariant and what was wrong.
pub(crate) type Failure = (Invariant, String);

/// Lives through a history; `mutation` is wrong on purpose, and `only` one invariant is looked at.
pub(crate) fn live(history: &History, mutation: Option<Invariant>, only: Option<Invariant>) -> Result<Counts, Failure> {
    let mut world = World::new(
        history.shapes.clone(),
        &history.desired,
        history.knobs,
        history.set_knobs,
    );
    if mutation == Some(Invariant::S12) {
        world.recreate = |_, target| target.clone();
    }
    world.extra_turns = u32::from(mutation == Some(Invariant::S9));
    let mut run = Run {
        world,
        subject: Subject::with(mutation),
        only,
        edited: BTreeSet::new(),
        rolling: BTreeSet::new(),
        target_before: Vec::new(),
        in_place: false,
        pending: Vec::new(),
        counts: Counts::default(),
    };
    run.converge(Invariant::L2)?;
    for event in &history.events {
        run.happen(*event)?;
    }
    run.end(history)?;
    Ok(run.counts)
}

impl Run {
    fn check(&self, invariant: Invariant, verdict: impl FnOnce() -> Verdict) -> Result<(), Failure> {
        if self.only.is_some_and(|only| only != invariant) {
            return Ok(());
        }
        verdict().map_err(|words| (invariant, words))
    }

    fn happen(&mut self, event: Event) -> Result<(), Failure> {
        let replicas = u32::try_from(self.world.replicas.len()).unwrap();
        let at = |replica: u32| (replica % replicas) as usize;
        match event {
            Event::PlanSet => self.plan_set(),
            Event::Plan(replica, lag) => {
                let planned = self.plan(at(replica), lag as usize)?;
                self.store(&planned)?;
            }
            Event::PlanSlowly(replica) => {
                let planned = self.plan(at(replica), 0)?;
                self.pending.push(planned);
            }
            Event::StoreLate => {
                if let Some(planned) = self.pending.pop() {
                    self.store(&planned)?;
                }
            }
            Event::Execute(replica, most) => {
                self.world.remember(at(replica));
                self.execute(at(replica), most as usize)?;
            }
            Event::Reap(replica, most) => {
                self.world.remember(at(replica));
                self.world.reap(at(replica), most as usize);
            }
            Event::Schedule(replica) => {
                self.world.remember(at(replica));
                self.world.schedule(at(replica));
            }
            Event::Ready(replica, most) => {
                self.world.remember(at(replica));
                self.world.get_ready(at(replica), most as usize);
            }
            Event::Fail(replica, which) => {
                let units = &mut self.world.replicas[at(replica)].units;
                let count = units.len().max(1);
                if let Some(unit) = units.get_mut(which as usize % count) {
                    unit.live.ready_since = None;
                }
            }
            Event::Lose(replica, which) => {
                let units = &mut self.world.replicas[at(replica)].units;
                if !units.is_empty() {
                    units.remove(which as usize % units.len());
                }
            }
            Event::Wait(seconds) => self.world.now += i64::from(seconds),
            Event::Edit(which, version) => self.edit(which as usize, version),
            Event::Scale(replica, which, size) => {
                let component = which as usize % self.world.shapes.len();
                let minimum = self.world.shapes[component].minimum;
                let size = if size == 0 && which % 3 == 0 { 0 } else { minimum + size };
                self.world.replicas[at(replica)].desired[component] = size;
            }
            Event::Pause(paused) => self.world.paused = paused,
            Event::Coherent(coherent) => {
                self.in_place |= !coherent;
                self.world.strategy = if coherent {
                    Strategy::Coherent
                } else {
                    Strategy::InPlace
                };
            }
            Event::Break(which, version) => {
                let component = which as usize % self.world.shapes.len();
                self.world.broken.insert((component, version));
            }
            Event::Full(room) => {
                let all = self.world.replicas.iter().flat_map(|replica| &replica.units);
                let used = all.filter(|unit| unit.live.scheduled).count();
                self.world.capacity = room.map(|room| used + room as usize);
            }
            Event::Forget(replica) => {
                self.subject.amnesia = true;
                self.world.replicas[at(replica)].record = ReplicaRecord::default();
                self.world.replicas[at(replica)].version += 1;
            }
            Event::ForgetSet => {
                self.subject.amnesia = true;
                self.world.set_record = SetRecord::default();
            }
            Event::DeleteMap(replica) => self.delete_map(at(replica)),
            Event::Terminate(replica) => {
                for unit in &mut self.world.replicas[at(replica)].units {
                    unit.live.terminating = true;
                    unit.live.ready_since = None;
                }
                self.delete_map(at(replica));
            }
        }
        Ok(())
    }

    fn delete_map(&mut self, replica: usize) {
        let state = &mut self.world.replicas[replica];
        state.map = None;
        state.record = ReplicaRecord::default();
        state.version += 1;
        state.snapshots.clear();
        state.newest_epoch = state.units.iter().map(|unit| unit.live.epoch).max();
        self.subject.amnesia = true;
    }

    /// One component, or all of them, gets a version.
    fn edit(&mut self, which: usize, version: u32) {
        let count = self.world.shapes.len();
        for component in 0..count {
            if (which >= 5 || which % count == component) && self.world.versions[component] != version {
                self.world.versions[component] = version;
                self.edited.insert(component);
            }
        }
    }

    fn plan_set(&mut self) {
        self.world.plan_set();
        if self.target_before != self.world.set_record.target() {
            self.rolling.clear();
            self.target_before = self.world.set_record.target().to_vec();
        }
        let finished = |replica: &usize| {
            let outcome = self.world.plan_fresh(*replica);
            outcome.done || outcome.progress.iter().all(|progress| progress.stale == 0)
        };
        let rolling: BTreeSet<usize> = self
            .rolling
            .iter()
            .copied()
            .filter(|replica| !finished(replica))
            .collect();
        self.rolling = rolling;
        let all_have_maps = self.world.replicas.iter().all(|replica| replica.map.is_some());
        let known = self.world.set_record.wanted == self.world.wanted();
        if self.world.set_record.scope.is_empty() && known && all_have_maps {
            self.edited.clear();
        }
    }

    fn plan(&mut self, replica: usize, lag: usize) -> Result<Planned, Failure> {
        let target = self.world.target(replica);
        let state = &self.world.replicas[replica];
        let snapshots = &state.snapshots;
        // A map is made only from what is there: the cache holds every write of this process.
        let lagging = state.map.as_ref().and_then(|_| snapshots.len().checked_sub(lag));
        let observed = match lagging {
            Some(position) if lag > 0 => snapshots[position].clone(),
            _ => self.world.observe(replica),
        };
        let now = self.world.time();
        let outcome = self
            .subject
            .plan(&target, state.map.as_ref(), &observed, &state.record, now);
        self.check(Invariant::R1, || {
            if outcome.map.is_none() && self.subject.mutation.is_none() {
                return Ok(());
            }
            let again = self
                .subject
                .plan(&target, state.map.as_ref(), &observed, &state.record, now);
            if again == outcome {
                Ok(())
            } else {
                Err("planned twice with different results".to_owned())
            }
        })?;
        if let Some(map) = &state.map {
            self.check(Invariant::L4, || {
                oracles::l4_anchor_admissible(&target, map, &observed, now, &outcome)
            })?;
        }
        Ok(Planned {
            replica,
            version: state.version,
            before: state.map.clone(),
            record: state.record.clone(),
            target,
            observed,
            outcome,
            now,
        })
    }

    fn store(&mut self, planned: &Planned) -> Result<(), Failure> {
        let replica = planned.replica;
        if self.world.replicas[replica].version != planned.version {
            self.counts.conflicts += 1;
            if self.subject.mutation != Some(Invariant::S10) {
                return Ok(());
            }
        }
        let (Some(before), Some(after)) = (&planned.before, &planned.outcome.map) else {
            self.world.store(replica, &planned.outcome);
            return Ok(());
        };
        let step = Step {
            world: &self.world,
            replica,
            target: &planned.target,
            before,
            after,
            observed: &planned.observed,
            record: &planned.record,
            outcome: &planned.outcome,
            now: planned.now,
            read_version: planned.version,
            edited: &self.edited,
            rolling: &self.rolling,
            in_place: self.in_place,
            counted: std::cell::OnceCell::new(),
        };
        self.check(Invariant::S1, || oracles::s1_floor(&step))?;
        self.check(Invariant::S2, || oracles::s2_one_home(&step))?;
        self.check(Invariant::S3, || oracles::s3_purity(&step))?;
        self.check(Invariant::S4, || oracles::s4_no_mixed_minimum(&step))?;
        self.check(Invariant::S5, || oracles::s5_bounded_surge(&step))?;
        self.check(Invariant::S6, || oracles::s6_lockstep(&step))?;
        self.check(Invariant::S7, || oracles::s7_order(&step))?;
        self.check(Invariant::S8, || oracles::s8_out_of_scope(&step))?;
        // A write that was planned for an earlier target belongs to that update.
        let revisions = planned.target.components.iter().map(|component| &component.revision);
        let of_current_target = revisions.eq(self.world.set_record.target());
        if of_current_target {
            self.check(Invariant::S9, || oracles::s9_isolation(&step))?;
        }
        self.check(Invariant::S10, || oracles::s10_single_writer(&step))?;
        self.check(Invariant::S11, || oracles::s11_freeze(&step))?;
        self.check(Invariant::S13, || oracles::s13_scale_in(&step))?;
        self.check(Invariant::L1, || oracles::l1_monotone(&step))?;
        self.check(Invariant::L5, || oracles::l5_minimal_churn(&step))?;
        self.check(Invariant::R4, || oracles::r4_no_clock_in_identity(&step))?;
        self.check(Invariant::R2, || {
            if !self.counts.maps.is_multiple_of(8) {
                return Ok(());
            }
            oracles::r2_all_is_stored(&step, |spec| {
                if self.subject.mutation == Some(Invariant::R2) {
                    spec.entries.iter_mut().for_each(|entry| entry.revisions.clear());
                }
            })
        })?;
        let is_batch = matches!(planned.outcome.phase, Phase::Anchoring | Phase::Rolling);
        self.counts.maps += 1;
        self.counts.batches += u64::from(is_batch);
        self.world.store(replica, &planned.outcome);
        if is_batch {
            if of_current_target {
                self.rolling.insert(replica);
            }
            self.check(Invariant::R3, || self.no_second_batch(planned))?;
        }
        Ok(())
    }

    /// R3: whatever was to be seen before the batch, it does not lead to another one.
    fn no_second_batch(&self, planned: &Planned) -> Verdict {
        let state = &self.world.replicas[planned.replica];
        let target = &planned.target;
        for old in state.snapshots.iter().chain([&planned.observed]) {
            let mut record = state.record.clone();
            // Twice, because a record is stored first.
            for _ in 0..2 {
                let outcome = self
                    .subject
                    .plan(target, state.map.as_ref(), old, &record, self.world.time());
                let batch = matches!(outcome.phase, Phase::Anchoring | Phase::Rolling) && outcome.map.is_some();
                if batch {
                    return Err("a second batch from an old read".to_owned());
                }
                record = outcome.record;
            }
        }
        Ok(())
    }

    fn execute(&mut self, replica: usize, most: usize) -> Result<(), Failure> {
        for write in self.world.writes(replica).into_iter().take(most) {
            let creates = matches!(write, Write::Create(..));
            if creates {
                // Reads lag behind the cluster, but not behind what this process created.
                self.world.replicas[replica].snapshots.clear();
            }
            self.world.execute(replica, write);
            let state = &self.world.replicas[replica];
            if let (true, Some(map), Some(unit)) = (creates, &state.map, state.units.last()) {
                self.check(Invariant::S12, || oracles::s12_heal_in_kind(map, &unit.live))?;
            }
        }
        Ok(())
    }

    /// Everything works again, and the update comes to its end.
    fn end(&mut self, history: &History) -> Result<(), Failure> {
        self.world.paused = false;
        self.world.strategy = Strategy::Coherent;
        self.world.capacity = None;
        let named = if self.subject.amnesia {
            Invariant::R5
        } else if history.ends_with_fix && !self.world.broken.is_empty() {
            Invariant::L3
        } else {
            Invariant::L2
        };
        if history.ends_with_fix {
            for component in 0..self.world.shapes.len() {
                let broken = |version: u32| self.world.broken.contains(&(component, version));
                if broken(self.world.versions[component]) {
                    self.world.versions[component] = 9;
                    self.edited.insert(component);
                }
            }
        } else {
            self.world.broken.clear();
        }
        self.converge(named)
    }

    /// Everything that can happen by itself happens, until nothing is left to do.
    fn converge(&mut self, named: Invariant) -> Result<(), Failure> {
        let mut quiet = 0;
        for _ in 0..300 {
            let before: Vec<u64> = self.world.replicas.iter().map(|replica| replica.version).collect();
            let record = self.world.set_record.clone();
            self.plan_set();
            for replica in 0..self.world.replicas.len() {
                let planned = self.plan(replica, 0)?;
                self.store(&planned)?;
                self.world.reap(replica, usize::MAX);
                self.execute(replica, usize::MAX)?;
                self.world.reap(replica, usize::MAX);
                self.execute(replica, usize::MAX)?;
                self.world.schedule(replica);
                self.world.get_ready(replica, usize::MAX);
            }
            self.world.now += 6;
            let after: Vec<u64> = self.world.replicas.iter().map(|replica| replica.version).collect();
            quiet = if before == after && record == self.world.set_record {
                quiet + 1
            } else {
                0
            };
            if quiet == 2 {
                break;
            }
        }
        self.check(named, || self.is_finished(quiet))
    }

    fn is_finished(&self, quiet: u32) -> Verdict {
        if quiet < 2 {
            return Err("it does not come to rest".to_owned());
        }
        for (number, replica) in self.world.replicas.iter().enumerate() {
            let outcome = self.world.plan_fresh(number);
            let target = self.world.target(number);
            let words = |text: &str| {
                Err(format!(
                    "replica {number}: {text}: {:?} {:?}",
                    outcome.phase, outcome.reason
                ))
            };
            let Some(map) = &replica.map else {
                return words("no map");
            };
            if outcome.phase != Phase::Idle || !outcome.done {
                return words("not idle");
            }
            if map.entries.iter().any(|entry| entry.role == Role::Bridge) {
                return words("a bridge is left");
            }
            let mut units = 0;
            for entry in &map.entries {
                for (component, share) in &entry.shares {
                    units += share.units.count() as usize;
                    if share.revision != target.components[*component].revision {
                        return words("a stale share is left");
                    }
                    let here = |unit: &&crate::model::ModelUnit| {
                        let live = &unit.live;
                        let home = match &share.units {
                            Units::Copies(copies) => live.copy.is_some_and(|copy| copies.contains(&copy)),
                            Units::Pods(_) => true,
                        };
                        live.component == *component && live.epoch == entry.epoch && home && live.ready_since.is_some()
                    };
                    if replica.units.iter().filter(here).count() != share.units.count() as usize {
                        return words("units and map differ");
                    }
                }
            }
            let desired: u32 = replica.desired.iter().sum();
            if units != desired as usize || replica.units.len() != units {
                return words("sizes differ");
            }
        }
        Ok(())
    }
}

/// Removes events as long as the same invariant breaks.
pub(crate) fn shrink(history: &History, failure: &Failure) -> (History, Failure) {
    let mut smallest = (history.clone(), failure.clone());
    let mut changed = true;
    while changed {
        changed = false;
        for position in (0..smallest.0.events.len()).rev() {
            let mut candidate = smallest.0.clone();
            candidate.events.remove(position);
            if let Err(failure) = live(&candidate, None, None)
                && failure.0 == smallest.1.0
            {
                smallest = (candidate, failure);
                changed = true;
            }
        }
    }
    smallest
}
