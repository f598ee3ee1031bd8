//! A replica set as the planner sees it, with an executor that does one write at a time in any order.
//!
//! Everything that outlives a call stands in `World`: spec, set record, maps with their records, units. A crash between
//! two writes therefore is nothing but another order of operations. Time passes only by [`World::now`].

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coppice_api::names::Epoch;
use coppice_core::update::coherent::{
    Component, ComponentKind, Knobs, LiveUnit, Map, Observed, Outcome, ReplicaFacts, ReplicaRecord, Revision, Role,
    SetKnobs, SetRecord, Strategy, Target, Units, keep_first, plan, plan_set,
};
use jiff::{SignedDuration, Timestamp};

/// A component that does not change during a history.
#[derive(Clone, Debug)]
pub(crate) struct Shape {
    pub(crate) kind: ComponentKind,
    pub(crate) minimum: u32,
    pub(crate) max_unavailable: u32,
}

/// A unit that exists.
#[derive(Clone, Debug)]
pub(crate) struct ModelUnit {
    pub(crate) id: u64,
    pub(crate) live: LiveUnit,
}

/// A slot of the map, for what the model remembers of it.
pub(crate) type Slot = (Epoch, usize, Option<u32>);

/// One replica of the set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Replica {
    pub(crate) desired: Vec<u32>,
    pub(crate) map: Option<Map>,
    pub(crate) record: ReplicaRecord,
    /// The resourceVersion of the map.
    pub(crate) version: u64,
    pub(crate) units: Vec<ModelUnit>,
    pub(crate) scheduled: BTreeSet<Epoch>,
    /// What was to be observed lately, newest last.
    pub(crate) snapshots: VecDeque<Observed>,
    /// Copies that were ready once since they are where they are.
    pub(crate) ever_ready: BTreeSet<Slot>,
    /// The most pods of a standalone clique in an epoch that were ready at one time.
    pub(crate) most_ready: BTreeMap<(Epoch, usize), u32>,
    pub(crate) newest_epoch: Option<Epoch>,
}

/// How the executor makes a lost unit again.
pub(crate) type Recreate = fn(share: &Revision, target: &Revision) -> Revision;

/// The set.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) shapes: Vec<Shape>,
    pub(crate) versions: Vec<u32>,
    pub(crate) knobs: Knobs,
    pub(crate) set_knobs: SetKnobs,
    pub(crate) paused: bool,
    pub(crate) strategy: Strategy,
    pub(crate) set_record: SetRecord,
    pub(crate) replicas: Vec<Replica>,
    /// Versions of components that never get ready.
    pub(crate) broken: BTreeSet<(usize, u32)>,
    /// Units that have room on the nodes.
    pub(crate) capacity: Option<usize>,
    pub(crate) now: i64,
    pub(crate) next_id: u64,
    pub(crate) recreate: Recreate,
    /// Turns that are given beyond the limit; only a mutation has any.
    pub(crate) extra_turns: u32,
    /// Components of units that the executor removed because the map said so.
    pub(crate) replaced: Vec<usize>,
    revisions: Vec<Vec<Revision>>,
    names: Vec<String>,
}

impl World {
    pub(crate) fn new(shapes: Vec<Shape>, desired: &[Vec<u32>], knobs: Knobs, set_knobs: SetKnobs) -> Self {
        let names = |component: usize| {
            (0..16)
                .map(|version| Revision::new(&format!("c{component}v{version}")))
                .collect()
        };
        let replica = |desired: &Vec<u32>| Replica {
            desired: desired.clone(),
            ..Replica::default()
        };
        Self {
            versions: vec![1; shapes.len()],
            revisions: (0..shapes.len()).map(names).collect(),
            names: (0..shapes.len()).map(|component| format!("c{component}")).collect(),
            shapes,
            knobs,
            set_knobs,
            paused: false,
            strategy: Strategy::Coherent,
            set_record: SetRecord::default(),
            replicas: desired.iter().map(replica).collect(),
            broken: BTreeSet::new(),
            capacity: None,
            now: 0,
            next_id: 0,
            recreate: |share, _| share.clone(),
            extra_turns: 0,
            replaced: Vec::new(),
        }
    }

    pub(crate) fn time(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_secs(self.now)
    }

    pub(crate) fn revision(&self, component: usize, version: u32) -> Revision {
        self.revisions[component][version as usize % 16].clone()
    }

    pub(crate) fn wanted(&self) -> Vec<Revision> {
        let versions = self.versions.iter().enumerate();
        versions
            .map(|(component, version)| self.revision(component, *version))
            .collect()
    }

    /// What one replica is asked to become, by spec and status of the set.
    pub(crate) fn target(&self, replica: usize) -> Target {
        let wanted = self.wanted();
        let known = self.set_record.wanted == wanted;
        let revisions = if known {
            self.set_record.target().to_vec()
        } else {
            wanted
        };
        let components = self.shapes.iter().zip(revisions).zip(&self.replicas[replica].desired);
        Target {
            components: components
                .enumerate()
                .map(|(position, ((shape, revision), desired))| Component {
                    name: self.names[position].clone(),
                    kind: shape.kind,
                    revision,
                    revision_stored: true,
                    desired: *desired,
                    minimum: shape.minimum,
                    max_unavailable: shape.max_unavailable,
                })
                .collect(),
            scope: if known {
                self.set_record.scope.clone()
            } else {
                BTreeSet::new()
            },
            knobs: self.knobs,
            paused: self.paused,
            admitted: known && self.set_record.admitted.contains(&index(replica)),
            strategy: self.strategy,
        }
    }

    pub(crate) fn observe(&self, replica: usize) -> Observed {
        Observed {
            units: self.replicas[replica]
                .units
                .iter()
                .map(|unit| unit.live.clone())
                .collect(),
            scheduled: self.replicas[replica].scheduled.clone(),
        }
    }

    /// Keeps what is to be seen now, for reads that lag.
    pub(crate) fn remember(&mut self, replica: usize) {
        let seen = self.observe(replica);
        let snapshots = &mut self.replicas[replica].snapshots;
        if snapshots.back() != Some(&seen) {
            snapshots.push_back(seen);
            if snapshots.len() > 4 {
                snapshots.pop_front();
            }
        }
    }

    pub(crate) fn plan_fresh(&self, replica: usize) -> Outcome {
        let state = &self.replicas[replica];
        let observed = self.observe(replica);
        plan(
            &self.target(replica),
            state.map.as_ref(),
            &observed,
            &state.record,
            self.time(),
        )
    }

    /// Plans the set from what there is.
    pub(crate) fn plan_set(&mut self) {
        let facts: Vec<ReplicaFacts> = (0..self.replicas.len()).map(|replica| self.facts(replica)).collect();
        let knobs = SetKnobs {
            max_concurrent_replicas: self.set_knobs.max_concurrent_replicas + self.extra_turns,
            ..self.set_knobs
        };
        self.set_record = plan_set(&self.wanted(), knobs, &self.set_record, &facts);
    }

    fn facts(&self, replica: usize) -> ReplicaFacts {
        let state = &self.replicas[replica];
        let mut revisions: Vec<BTreeSet<Revision>> = vec![BTreeSet::new(); self.shapes.len()];
        for entry in state.map.iter().flat_map(|map| &map.entries) {
            for (component, share) in &entry.shares {
                revisions[*component].insert(share.revision.clone());
            }
        }
        for unit in state.units.iter().filter(|unit| !unit.live.terminating) {
            revisions[unit.live.component].insert(unit.live.revision.clone());
        }
        let outcome = self.plan_fresh(replica);
        let target: Vec<Revision> = self
            .target(replica)
            .components
            .iter()
            .map(|component| component.revision.clone())
            .collect();
        ReplicaFacts {
            index: index(replica),
            revisions,
            done_with: outcome.done.then(|| target.clone()),
            failed_with: outcome.failed.then_some(target),
            unscheduled: state.units.iter().all(|unit| !unit.live.scheduled),
            breached: false,
        }
    }

    /// Stores what a plan says, whatever is stored: the caller compares versions.
    pub(crate) fn store(&mut self, replica: usize, outcome: &Outcome) {
        let state = &mut self.replicas[replica];
        if outcome.record != state.record && state.map.is_some() {
            state.record = outcome.record.clone();
            state.version += 1;
            return;
        }
        if let Some(map) = &outcome.map {
            state.version += 1;
            if state.map.is_none() {
                // An epoch of which nothing is left may be used again.
                state.newest_epoch = state.units.iter().map(|unit| unit.live.epoch).max();
            }
            state.newest_epoch = state.newest_epoch.max(map.entries.last().map(|entry| entry.epoch));
            let slots = slots(map);
            state.ever_ready.retain(|slot| slots.contains(slot));
            for ((epoch, component), most) in &mut state.most_ready {
                let entry = map.entries.iter().find(|entry| entry.epoch == *epoch);
                let share = entry.and_then(|entry| entry.shares.get(component));
                *most = (*most).min(share.map_or(0, |share| share.units.count()));
            }
            state.map = Some(map.clone());
            self.notice_ready(replica);
        }
    }

    fn notice_ready(&mut self, replica: usize) {
        let state = &mut self.replicas[replica];
        let Some(map) = &state.map else { return };
        let mut pods: BTreeMap<(Epoch, usize), u32> = BTreeMap::new();
        for unit in &state.units {
            let live = &unit.live;
            if live.ready_since.is_none() || live.terminating {
                continue;
            }
            match live.copy {
                Some(_) => drop(state.ever_ready.insert((live.epoch, live.component, live.copy))),
                None => *pods.entry((live.epoch, live.component)).or_default() += 1,
            }
        }
        for ((epoch, component), ready) in pods {
            let entry = map.entries.iter().find(|entry| entry.epoch == epoch);
            let planned = entry.and_then(|entry| entry.shares.get(&component));
            let planned = planned.map_or(0, |share| share.units.count());
            let most = state.most_ready.entry((epoch, component)).or_default();
            *most = (*most).max(ready.min(planned));
        }
    }

    /// The writes that the executor would make now: removals, and then what is missing.
    pub(crate) fn writes(&self, replica: usize) -> Vec<Write> {
        let state = &self.replicas[replica];
        let Some(map) = &state.map else {
            return Vec::new();
        };
        let mut writes = Vec::new();
        for component in 0..self.shapes.len() {
            let mut wanted: BTreeMap<u32, (Epoch, Role, &Revision)> = BTreeMap::new();
            let mut counts: Vec<(Epoch, Role, &Revision, u32)> = Vec::new();
            for entry in &map.entries {
                let Some(share) = entry.shares.get(&component) else {
                    continue;
                };
                match &share.units {
                    Units::Copies(copies) => {
                        wanted.extend(
                            copies
                                .iter()
                                .map(|copy| (*copy, (entry.epoch, entry.role, &share.revision))),
                        );
                    }
                    Units::Pods(pods) => counts.push((entry.epoch, entry.role, &share.revision, *pods)),
                }
            }
            let mine = || state.units.iter().filter(|unit| unit.live.component == component);
            if self.shapes[component].kind == ComponentKind::Group {
                for unit in mine().filter(|unit| !unit.live.terminating) {
                    let home = unit.live.copy.and_then(|copy| wanted.get(&copy));
                    if home.is_none_or(|(epoch, _, _)| *epoch != unit.live.epoch) {
                        writes.push(Write::Remove(unit.id));
                    }
                }
                for (copy, (epoch, role, revision)) in wanted {
                    if mine().all(|unit| unit.live.copy != Some(copy)) {
                        writes.push(Write::Create(component, Some(copy), epoch, role, revision.clone()));
                    }
                }
                continue;
            }
            let planned: u32 = counts.iter().map(|(_, _, _, pods)| pods).sum();
            let mut room = (planned as usize).saturating_sub(mine().count());
            for unit in mine().filter(|unit| !unit.live.terminating) {
                if counts.iter().all(|(epoch, _, _, _)| *epoch != unit.live.epoch) {
                    writes.push(Write::Remove(unit.id));
                }
            }
            for (epoch, role, revision, pods) in counts {
                let here: Vec<&ModelUnit> = mine()
                    .filter(|unit| unit.live.epoch == epoch && !unit.live.terminating)
                    .collect();
                let mut live: Vec<&LiveUnit> = here.iter().map(|unit| &unit.live).collect();
                keep_first(&mut live, revision);
                for surplus in live.iter().skip(pods as usize) {
                    let unit = here.iter().find(|unit| std::ptr::eq(&raw const unit.live, *surplus));
                    writes.extend(unit.map(|unit| Write::Remove(unit.id)));
                }
                for _ in here.len()..pods as usize {
                    if room > 0 {
                        room -= 1;
                        writes.push(Write::Create(component, None, epoch, role, revision.clone()));
                    }
                }
            }
        }
        writes
    }

    /// Carries out one write.
    pub(crate) fn execute(&mut self, replica: usize, write: Write) {
        let target = self.target(replica);
        let recreate = self.recreate;
        let state = &mut self.replicas[replica];
        match write {
            Write::Remove(id) => {
                for unit in state.units.iter_mut().filter(|unit| unit.id == id) {
                    self.replaced.push(unit.live.component);
                    unit.live.terminating = true;
                    unit.live.ready_since = None;
                }
            }
            Write::Create(component, copy, epoch, role, revision) => {
                self.next_id += 1;
                state.units.push(ModelUnit {
                    id: self.next_id,
                    live: LiveUnit {
                        component,
                        copy,
                        epoch,
                        role,
                        revision: recreate(&revision, &target.components[component].revision),
                        scheduled: false,
                        ready_since: None,
                        terminating: false,
                    },
                });
            }
        }
    }

    /// Terminating units are gone.
    pub(crate) fn reap(&mut self, replica: usize, most: usize) {
        let mut left = most;
        self.replicas[replica].units.retain(|unit| {
            let goes = unit.live.terminating && left > 0;
            left -= usize::from(goes);
            !goes
        });
    }

    /// Places gangs as a gang scheduler does: an anchor or a bridge at first all or nothing, after what it depends on.
    pub(crate) fn schedule(&mut self, replica: usize) {
        let used = |world: &Self| {
            let all = world.replicas.iter().flat_map(|replica| &replica.units);
            all.filter(|unit| unit.live.scheduled).count()
        };
        let Some(map) = self.replicas[replica].map.clone() else {
            return;
        };
        for entry in &map.entries {
            let state = &self.replicas[replica];
            if entry.depends_on.iter().any(|epoch| !state.scheduled.contains(epoch)) {
                continue;
            }
            let planned: u32 = entry.shares.values().map(|share| share.units.count()).sum();
            let here = |unit: &&ModelUnit| unit.live.epoch == entry.epoch && !unit.live.terminating;
            let existing = state.units.iter().filter(here).count();
            let waiting: Vec<u64> = state
                .units
                .iter()
                .filter(here)
                .filter(|unit| !unit.live.scheduled)
                .map(|unit| unit.id)
                .collect();
            let mut room = self
                .capacity
                .map_or(usize::MAX, |capacity| capacity.saturating_sub(used(self)));
            let first_time = entry.role.is_one_gang() && !state.scheduled.contains(&entry.epoch);
            if first_time && (existing < planned as usize || room < waiting.len()) {
                continue;
            }
            let state = &mut self.replicas[replica];
            for unit in state.units.iter_mut().filter(|unit| waiting.contains(&unit.id)) {
                if room > 0 {
                    room -= 1;
                    unit.live.scheduled = true;
                }
            }
            let placed = state
                .units
                .iter()
                .filter(here)
                .filter(|unit| unit.live.scheduled)
                .count();
            if placed >= planned as usize {
                state.scheduled.insert(entry.epoch);
            }
        }
    }

    /// Scheduled units get ready, unless their version is broken.
    pub(crate) fn get_ready(&mut self, replica: usize, most: usize) {
        let now = self.time();
        let broken: BTreeSet<(usize, Revision)> = self
            .broken
            .iter()
            .map(|(component, version)| (*component, self.revision(*component, *version)))
            .collect();
        let waiting = self.replicas[replica].units.iter_mut().filter(|unit| {
            let live = &unit.live;
            let works = broken.is_empty() || !broken.contains(&(live.component, live.revision.clone()));
            live.scheduled && live.ready_since.is_none() && !live.terminating && works
        });
        for unit in waiting.take(most) {
            unit.live.ready_since = Some(now);
        }
        self.notice_ready(replica);
    }
}

/// One write of the executor.
#[derive(Clone, Debug)]
pub(crate) enum Write {
    Remove(u64),
    Create(usize, Option<u32>, Epoch, Role, Revision),
}

/// The slots of a map that are copies.
pub(crate) fn slots(map: &Map) -> BTreeSet<Slot> {
    let mut slots = BTreeSet::new();
    for entry in &map.entries {
        for (component, share) in &entry.shares {
            if let Units::Copies(copies) = &share.units {
                slots.extend(copies.iter().map(|copy| (entry.epoch, *component, Some(*copy))));
            }
        }
    }
    slots
}

pub(crate) fn index(replica: usize) -> u32 {
    u32::try_from(replica).unwrap()
}
