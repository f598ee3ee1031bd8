//! What the scheduler decides: which pods to bind where, whom to evict, whom to release, what to tell. Pure.
//!
//! Owns the order of gangs, the room that is held for some of them while a decision is made, the memory of what did not
//! fit, and the assumption that a decision is carried out until the shell says otherwise ([`Engine::not_bound`],
//! [`Engine::done`]). No client, no clock: `decide(now)` with the same history gives the same answer.
//!
//! One decision: gangs in order (those that have begun first, then by priority, then by age) get their floors, all or
//! nothing; then scaled gangs that have not begun and extras, in the same order, as far as gangs below their floors have no
//! use for the room (`floors_first`). A gang that does not fit is tried once more as if pods that are ending were
//! gone; then, if it has priority over others, at their expense; then, if it has waited for long and is the first of its
//! kind, as if every pod of ours were gone. Where such an attempt succeeds the room is held for the rest of the decision,
//! so that nobody else takes it while it comes free.
//!
//! What a gang says of itself is decided from what it is, not from what was done to it: one whose pods are bound and that
//! does not say so is told so, whoever bound them, however often a write of its status is lost or comes late.

#[cfg(test)]
mod arrival_tests;
mod aside;
#[cfg(test)]
mod aside_tests;
mod attempt;
mod decision;
mod disruptions;
#[cfg(test)]
mod eviction_history_tests;
mod floors_first;
#[cfg(test)]
mod floors_first_tests;
#[cfg(test)]
mod history_tests;
mod holding;
#[cfg(test)]
mod holding_tests;
mod incumbency;
#[cfg(test)]
mod preemption_tests;
#[cfg(test)]
mod release_tests;
mod report;
#[cfg(test)]
mod report_tests;
mod round;
mod standing;
#[cfg(test)]
mod standing_tests;
mod stored_plan;
#[cfg(test)]
mod tests;
mod volumes;
#[cfg(test)]
mod volumes_tests;

use std::collections::{BTreeMap, BTreeSet};

#[cfg(test)]
use coppice_placement::ReasonCode;
use coppice_placement::{Options as PlanOptions, Plan};
use coppice_runtime::cache::ObjectKey;
use jiff::{SignedDuration, Timestamp};

use crate::model::{GangId, Model, Question};
use round::{Refused, Room, Round};

pub use decision::{Bind, Commit, Confirmation, Decision, Eviction, Release, Report, SetAside};
pub use report::{LONGEST_MESSAGE, reason_text};
pub(crate) use standing::message as message_of;

/// How many steps the planning of one gang may take.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    /// In all.
    pub steps: u64,
    /// Of these, for making a plan better once there is one.
    pub improvement: u64,
}

/// How to decide.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Steps that planning one gang may take.
    pub budget: Budget,
    /// How long a gang waits before room is held for it.
    pub starvation: SignedDuration,
    /// How long room is held for a gang, before it rests and others have their turn.
    pub hold: SignedDuration,
    /// How long a gang may be bound in part, when that was not meant, before its pods are deleted.
    pub release: SignedDuration,
    /// How long a message about a gang stands before it is replaced by one with the same reason.
    pub retell: SignedDuration,
    /// How long before the pods of a gang that waits get another event with the same reason.
    pub repeat_events: SignedDuration,
    /// How long the reason of a gang that waits may be out of date.
    pub refresh: SignedDuration,
    /// How old the oldest waiting pod of a gang is before it is reported that others are missing: pods of a gang are created
    /// one after another.
    pub arrival: SignedDuration,
    /// How long a gang is set aside after deciding about it panicked; twice as long after each further panic.
    pub set_back: SignedDuration,
    /// How long after a change of the nodes' capacity room is kept for gangs below their minimum, from pods of other sets
    /// that are above it.
    pub settle: SignedDuration,
    /// How long the operator has to report on a gang before we do.
    pub first_word: SignedDuration,
}

impl Default for Settings {
    fn default() -> Self {
        let plan = PlanOptions::default();
        Self {
            budget: Budget {
                steps: plan.budget,
                improvement: plan.improvement,
            },
            starvation: SignedDuration::from_mins(5),
            hold: SignedDuration::from_mins(5),
            release: SignedDuration::from_secs(30),
            retell: SignedDuration::from_secs(5),
            repeat_events: SignedDuration::from_mins(5),
            refresh: SignedDuration::from_secs(30),
            // Creation is stored in whole seconds, so this is at least one.
            arrival: SignedDuration::from_secs(2),
            set_back: SignedDuration::from_secs(10),
            settle: SignedDuration::from_secs(5),
            first_word: SignedDuration::from_secs(2),
        }
    }
}

/// The decider. See the module.
pub struct Engine {
    /// What it knows of the cluster. The shell keeps it up to date.
    pub model: Model,
    settings: Settings,
    /// Gangs with something under way, and the room held for those that wait for evictions.
    busy: BTreeMap<GangId, Room>,
    refused: BTreeMap<GangId, Refused>,
    stuck: BTreeMap<GangId, Timestamp>,
    /// What was reported last of gangs that wait.
    reported: BTreeMap<GangId, report::Reported>,
    confirmations: standing::PendingConfirmations,
    incumbency: incumbency::Incumbency,
    holding: holding::Holding,
    settling: floors_first::Settling,
    spent: Vec<disruptions::Spent>,
    aside: BTreeMap<GangId, aside::Aside>,
    volumes: volumes::Volumes,
    /// Called before a gang is planned.
    #[cfg(test)]
    before_plan: Option<BeforePlan>,
}

/// A fault that tests inject.
#[cfg(test)]
type BeforePlan = std::sync::Arc<dyn Fn(&Question, &mut Model) + Send + Sync>;

impl Engine {
    /// An engine on an empty cluster.
    #[must_use]
    pub fn new(model: Model, settings: Settings) -> Self {
        Self {
            model,
            settings,
            busy: BTreeMap::new(),
            refused: BTreeMap::new(),
            stuck: BTreeMap::new(),
            reported: BTreeMap::new(),
            confirmations: standing::PendingConfirmations::default(),
            incumbency: incumbency::Incumbency::default(),
            holding: holding::Holding::default(),
            settling: floors_first::Settling::default(),
            spent: Vec::new(),
            aside: BTreeMap::new(),
            volumes: volumes::Volumes::default(),
            #[cfg(test)]
            before_plan: None,
        }
    }

    /// A binding was refused, or it is not known whether it came about: the pod is planned again unless it has a node.
    pub fn not_bound(&mut self, pod: &ObjectKey) {
        self.model.forget(pod);
    }

    /// Everything decided about a gang has been carried out, or given up.
    pub fn done(&mut self, gang: &GangId) {
        self.volumes.done(&mut self.model, gang);
        self.busy.remove(gang);
    }

    /// Whether something is under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Decides what to do now, and assumes that it is done.
    pub fn decide(&mut self, now: Timestamp) -> Decision {
        let mut round = self.round(now);
        self.settle_disruptions();
        self.settling.note(self.model.capacity(), self.settings.settle, now);
        let held: Room = self.busy.values().flatten().cloned().collect();
        self.hold(held, &mut round);
        let questions = self.questions(&mut round);
        round.due = self.due(&questions, &mut round);
        let (after, first): (Vec<&Question>, Vec<&Question>) = questions
            .iter()
            .partition(|question| Self::comes_after_floors(question));
        for question in first {
            self.guarded(&question.id, &mut round, |engine, round| engine.turn(question, round));
        }
        // Floors first, for everyone; what is left over is for scaled gangs, then for extras.
        if !after.is_empty() || questions.iter().any(Self::has_extras) {
            self.keep_for_floors(&questions, &mut round);
        }
        for question in after {
            self.guarded(&question.id, &mut round, |engine, round| {
                engine.beside_floors(question, round, |engine, round| engine.turn(question, round));
            });
        }
        for question in &questions {
            let id = &question.id;
            if !self.is_evicting(id) && !self.is_aside(id, &mut round) {
                self.guarded(id, &mut round, |engine, round| {
                    engine.beside_floors(question, round, |engine, round| engine.extras(id, round));
                });
            }
        }
        self.model.state_mut().rollback(round.mark);
        self.report(&mut round);
        for gang in std::mem::take(&mut round.gone) {
            self.model.note_change(gang);
        }
        self.begin(&mut round);
        self.confirm(&mut round);
        self.clean_up(now);
        round.decision
    }

    /// The turn of a gang to get its floors.
    fn turn(&mut self, question: &Question, round: &mut Round) {
        // Where the other copies of its set are may have been decided in this very round.
        if round.stale || question.gang.spread.is_some() || self.model.has_volumes(&question.id) {
            if let Some(question) = self.model.question(&question.id) {
                self.floors(&question, round);
            }
        } else {
            self.floors(question, round);
        }
    }

    /// Whether a gang has pods to place above its floors.
    fn has_extras(question: &Question) -> bool {
        question.gang.groups.iter().any(|group| group.extras() > 0)
    }

    fn round(&self, now: Timestamp) -> Round {
        Round {
            now,
            mark: self.model.state().mark(),
            stale: false,
            commits: BTreeMap::new(),
            order: Vec::new(),
            gone: Vec::new(),
            held: std::sync::Arc::default(),
            due: Vec::new(),
            holder: None,
            kept: Vec::new(),
            keeping: false,
            reasons: BTreeMap::new(),
            decision: Decision::default(),
        }
    }

    /// Puts the decision together, and notes what is under way from now on.
    fn begin(&mut self, round: &mut Round) {
        let Round {
            commits,
            order,
            decision,
            ..
        } = round;
        decision.commits = order.iter().filter_map(|gang| commits.remove(gang)).collect();
        for commit in &mut decision.commits {
            self.busy.insert(commit.gang.clone(), Vec::new());
            self.refused.remove(&commit.gang);
            self.stuck.remove(&commit.gang);
            let several = commit.bindings.len() > 1 || !commit.volumes.is_empty();
            let store = matches!(commit.gang, GangId::Gang(_)) && several;
            commit.store = commit.store.take().filter(|_| store);
            if let Some(store) = &mut commit.store {
                let bindings = commit.bindings.iter();
                bindings.for_each(|bind| store.add(&bind.pod.uid, &bind.node));
            }
            self.confirmations.add(commit);
        }
        for report in &mut decision.reports {
            // What is told of a whole gang must not overtake what becomes of it next; its room stays held meanwhile.
            report.whole &= !self.busy.contains_key(&report.gang);
            if report.whole {
                let held = self.refused.get(&report.gang).map(|refused| refused.hold.clone());
                self.busy.insert(report.gang.clone(), held.unwrap_or_default());
            }
        }
        for release in &decision.releases {
            self.busy.insert(release.gang.clone(), Vec::new());
        }
    }

    /// Everything that waits and has nothing under way, in the order of its turns.
    fn questions(&mut self, round: &mut Round) -> Vec<Question> {
        let ids: Vec<GangId> = self
            .model
            .waiting()
            .filter(|id| !self.busy.contains_key(*id))
            .cloned()
            .collect();
        let mut questions = Vec::with_capacity(ids.len());
        for id in ids {
            if !self.is_aside(&id, round) {
                let asked = self.guarded(&id, round, |engine, _| engine.model.question(&id));
                questions.extend(asked.flatten());
            }
        }
        questions.sort_by_cached_key(|question| {
            (
                !question.begun,
                std::cmp::Reverse(question.gang.priority),
                !question.gang.depends_on.is_empty(),
                question.since,
                question.id.clone(),
            )
        });
        questions
    }

    fn is_evicting(&self, gang: &GangId) -> bool {
        self.busy.get(gang).is_some_and(|hold| !hold.is_empty())
    }

    fn hold(&mut self, room: Room, round: &mut Round) {
        for (pod, node) in &room {
            self.model.hold(pod, node);
        }
        if !room.is_empty() {
            std::sync::Arc::make_mut(&mut round.held).extend(room);
        }
    }

    /// Takes bindings of the engine into the commit of a gang, and assumes them.
    fn take(&mut self, question: &Question, plan: Plan, round: &mut Round) {
        let (mut binds, mut volumes) = (Vec::new(), Vec::new());
        for binding in plan.bindings {
            let Some(key) = question.pods.get(&binding.pod) else {
                continue;
            };
            let Some(pod) = self.model.pod(key) else { continue };
            volumes.extend(self.model.provisions(pod, &binding.node, &plan.volumes));
            binds.push(Bind {
                pod: pod.meta.clone(),
                node: binding.node,
            });
        }
        if binds.is_empty() {
            return;
        }
        let commit = round.commits.entry(question.id.clone()).or_insert_with(|| {
            round.order.push(question.id.clone());
            Commit {
                gang: question.id.clone(),
                bindings: Vec::new(),
                store: Some(self.bound_so_far(&question.id)),
                score: plan.score,
                notes: Vec::new(),
                volumes: Vec::new(),
            }
        });
        commit.notes.extend(plan.notes);
        self.volumes.promise(&mut self.model, commit, volumes);
        commit.bindings.extend(binds.iter().cloned());
        for bind in &binds {
            self.model.assume(&bind.pod.key, &bind.node);
        }
    }

    fn clean_up(&mut self, now: Timestamp) {
        self.let_in_again(now);
        let waiting: BTreeSet<GangId> = self.model.waiting().cloned().collect();
        self.refused.retain(|gang, _| waiting.contains(gang));
        self.stuck.retain(|gang, _| waiting.contains(gang));
        self.reported.retain(|gang, _| waiting.contains(gang));
        self.confirmations.retain(&self.model);
        self.volumes.retain(&self.model);
        self.forget_holding();
    }
}

fn wake(decision: &mut Decision, at: Timestamp) {
    decision.wake = Some(decision.wake.map_or(at, |earlier| earlier.min(at)));
}
