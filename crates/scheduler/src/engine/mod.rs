//! What the scheduler decides: which pods to bind where, whom to evict, whom to release, what to tell. Pure.
//!
//! Owns the order of gangs, the room that is held for some of them while a decision is made, the memory of what did not
//! fit, and the assumption that a decision is carried out until the shell says otherwise ([`Engine::bound`],
//! [`Engine::done`]). No client, no clock: `decide(now)` with the same history gives the same answer.
//!
//! One decision: gangs in order (those that have begun first, then by priority, then by age) get their floors, all or
//! nothing; then extras, in the same order. A gang that does not fit is tried once more as if pods that are ending were
//! gone; then, if it has priority over others, at their expense; then, if it has waited for long and is the first of its
//! kind, as if every pod of ours were gone. Where such an attempt succeeds the room is held for the rest of the decision,
//! so that nobody else takes it while it comes free.
//!
//! What a gang says of itself is decided from what it is, not from what was done to it: one whose pods are bound and that
//! does not say so is told so, whoever bound them, however often a write of its status is lost or comes late.

#[cfg(test)]
mod arrival_tests;
mod attempt;
mod incumbency;
mod standing;
#[cfg(test)]
mod standing_tests;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use coppice_placement::plan::Binding;
use coppice_placement::{Options as PlanOptions, Reason, ReasonCode};
use coppice_runtime::cache::{Meta, ObjectKey};
use jiff::{SignedDuration, Timestamp};

use crate::model::{GangId, Model, Question, StoredPlan};

pub(crate) use standing::message as message_of;

/// How to decide.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Steps for one gang, and steps of these for making its plan better.
    pub budget: (u64, u64),
    /// How long a gang waits before room is held for it.
    pub starvation: SignedDuration,
    /// How long a gang may be bound in part, when that was not meant, before its pods are deleted.
    pub release: SignedDuration,
    /// How long a message about a gang stands before it is replaced by one with the same reason.
    pub retell: SignedDuration,
    /// How old the oldest waiting pod of a gang is before it is told that others are missing: pods of a gang are created
    /// one after another, and that is no news.
    pub arrival: SignedDuration,
}

impl Default for Settings {
    fn default() -> Self {
        let plan = PlanOptions::default();
        Self {
            budget: (plan.budget, plan.improvement),
            starvation: SignedDuration::from_mins(5),
            release: SignedDuration::from_secs(30),
            retell: SignedDuration::from_secs(5),
            // Creation is stored in whole seconds, so this is at least one.
            arrival: SignedDuration::from_secs(2),
        }
    }
}

/// A pod to bind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// The pod.
    pub pod: Meta,
    /// Where to.
    pub node: String,
}

/// Pods of one gang to bind.
#[derive(Debug, Clone, PartialEq)]
pub struct Commit {
    /// The gang.
    pub gang: GangId,
    /// Its pods.
    pub bindings: Vec<Bind>,
    /// What to store on the gang first; nothing when one write is all there is, or when it is stored already.
    pub store: Option<StoredPlan>,
    /// How well the gang is placed.
    pub score: f64,
    /// Things worth telling.
    pub notes: Vec<Reason>,
}

/// Pods of others that make room for a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// For whom.
    pub gang: GangId,
    /// What to store on that gang first: the plan that uses the room.
    pub store: Option<StoredPlan>,
    /// Who goes, by gang.
    pub victims: BTreeMap<String, Vec<Meta>>,
}

/// Pods of a gang that was bound in part and cannot be completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The gang.
    pub gang: GangId,
    /// Its pods that have nodes.
    pub pods: Vec<Meta>,
}

/// A gang that is placed and does not say so, or not how well.
#[derive(Debug, Clone, PartialEq)]
pub struct Confirmation {
    /// The gang.
    pub gang: ObjectKey,
    /// What to say.
    pub message: String,
    /// How well it is placed.
    pub score: f64,
}

/// Why pods wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The gang.
    pub gang: GangId,
    /// The reason.
    pub reason: Reason,
    /// Waiting pods that were not told this yet.
    pub pods: Vec<Meta>,
    /// No pod of the gang has a node.
    pub whole: bool,
}

/// What to do now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// Gangs to bind.
    pub commits: Vec<Commit>,
    /// Pods to evict.
    pub evictions: Vec<Eviction>,
    /// Gangs to undo.
    pub releases: Vec<Release>,
    /// Gangs to tell about.
    pub reports: Vec<Report>,
    /// Gangs to call placed.
    pub confirmations: Vec<Confirmation>,
    /// When to decide again at the latest.
    pub wake: Option<Timestamp>,
}

/// The longest message.
pub const LONGEST_MESSAGE: usize = 400;

/// Room that is held: pods that do not have it yet, and the nodes where they are to get it.
type Room = Vec<(ObjectKey, String)>;

/// What did not fit, and under which circumstances.
struct Refused {
    room: u64,
    question: Question,
    reason: Reason,
    hold: Room,
    /// The room that was held for others.
    held: Room,
    /// Whether it had waited for long, and somebody else had the room that is held against that.
    patience: (bool, bool),
    locks: bool,
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
    told: BTreeMap<GangId, (ReasonCode, Timestamp)>,
    news: standing::News,
    incumbency: incumbency::Incumbency,
}

/// One decision in the making.
struct Making {
    now: Timestamp,
    commits: BTreeMap<GangId, Commit>,
    order: Vec<GangId>,
    /// Gangs that lose pods in this decision.
    gone: Vec<GangId>,
    /// Room that is held so far.
    held: Room,
    /// Somebody has the room that is held against starvation.
    locked: bool,
    reasons: BTreeMap<GangId, (Reason, bool)>,
    decision: Decision,
}

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
            told: BTreeMap::new(),
            news: standing::News::default(),
            incumbency: incumbency::Incumbency::default(),
        }
    }

    /// A binding was refused, or it is not known whether it came about: the pod is planned again unless it has a node.
    pub fn not_bound(&mut self, pod: &ObjectKey) {
        self.model.forget(pod);
    }

    /// Everything decided about a gang has been carried out, or given up.
    pub fn done(&mut self, gang: &GangId) {
        self.busy.remove(gang);
    }

    /// Whether something is under way.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Decides what to do now, and assumes that it is done.
    pub fn decide(&mut self, now: Timestamp) -> Decision {
        let mut making = Making {
            now,
            commits: BTreeMap::new(),
            order: Vec::new(),
            gone: Vec::new(),
            held: Room::new(),
            locked: false,
            reasons: BTreeMap::new(),
            decision: Decision::default(),
        };
        let mark = self.model.state().mark();
        let held: Room = self.busy.values().flatten().cloned().collect();
        self.hold(held, &mut making);
        let mut questions = self.questions();
        for question in &mut questions {
            // Where the other copies of its set are may have been decided in this very round.
            if question.gang.spread.is_some()
                && let Some(anew) = self.model.question(&question.id)
            {
                *question = anew;
            }
            self.floors(question, &mut making);
        }
        // Floors first, for everyone; what is left over is for extras.
        questions.retain(|question| !self.is_evicting(&question.id));
        for question in &questions {
            self.extras(&question.id, &mut making);
        }
        self.model.state_mut().rollback(mark);
        self.tell(&mut making);
        self.clean_up();
        let Making {
            mut commits,
            order,
            mut decision,
            gone,
            ..
        } = making;
        gone.into_iter().for_each(|gang| self.model.note_change(gang));
        decision.commits = order.iter().filter_map(|gang| commits.remove(gang)).collect();
        for commit in &mut decision.commits {
            self.busy.insert(commit.gang.clone(), Vec::new());
            self.refused.remove(&commit.gang);
            self.stuck.remove(&commit.gang);
            let store = matches!(commit.gang, GangId::Gang(_)) && commit.bindings.len() > 1;
            commit.store = commit.store.take().filter(|_| store);
            self.news.add(commit);
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
        self.confirm(now, &mut decision);
        decision
    }

    /// Everything that waits and has nothing under way, in the order of its turns.
    fn questions(&mut self) -> Vec<Question> {
        let ids: Vec<GangId> = self
            .model
            .waiting()
            .filter(|id| !self.busy.contains_key(*id))
            .cloned()
            .collect();
        let mut questions: Vec<Question> = ids.iter().filter_map(|id| self.model.question(id)).collect();
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

    fn hold(&mut self, room: Room, making: &mut Making) {
        for (pod, node) in &room {
            self.model.hold(pod, node);
        }
        making.held.extend(room);
    }

    /// Takes bindings of the engine into the commit of a gang, and assumes them.
    fn take(&mut self, question: &Question, bindings: Vec<Binding>, making: &mut Making, score: f64, notes: &[Reason]) {
        let mut binds = Vec::new();
        for binding in bindings {
            let Some(key) = question.pods.get(&binding.pod) else {
                continue;
            };
            let Some(pod) = self.model.pod(key) else { continue };
            binds.push(Bind {
                pod: pod.meta.clone(),
                node: binding.node,
            });
        }
        for bind in &binds {
            self.model.assume(&bind.pod.key, &bind.node);
        }
        if binds.is_empty() {
            return;
        }
        let commit = making.commits.entry(question.id.clone()).or_insert_with(|| {
            making.order.push(question.id.clone());
            Commit {
                gang: question.id.clone(),
                bindings: Vec::new(),
                store: Some(StoredPlan::default()),
                score,
                notes: Vec::new(),
            }
        });
        commit.bindings.extend(binds);
        commit.notes.extend(notes.iter().cloned());
        if let Some(store) = &mut commit.store {
            *store = StoredPlan::new(
                commit
                    .bindings
                    .iter()
                    .map(|bind| (&*bind.pod.key.name, bind.node.as_str())),
            );
        }
    }

    fn tell(&mut self, making: &mut Making) {
        for (gang, (reason, whole)) in std::mem::take(&mut making.reasons) {
            let reason = Reason::new(reason.code, bounded(&reason.message));
            if let Some(due) = self.arriving(&gang, &reason, making.now) {
                wake(&mut making.decision, due);
                continue;
            }
            let text = told(&reason);
            let untold: Vec<Meta> = self
                .model
                .waiting_pods(&gang)
                .filter(|pod| pod.told.as_deref() != Some(text.as_str()))
                .map(|pod| pod.meta.clone())
                .collect();
            if untold.is_empty() && !(whole && self.is_outdated(&gang, &reason)) {
                continue;
            }
            if let Some((code, at)) = self.told.get(&gang) {
                let due = at.saturating_add(self.settings.retell).unwrap_or(*at);
                let strangers = untold
                    .iter()
                    .any(|pod| self.model.pod(&pod.key).is_some_and(|pod| pod.told.is_none()));
                if *code == reason.code && due > making.now && !strangers {
                    wake(&mut making.decision, due);
                    continue;
                }
            }
            self.told.insert(gang.clone(), (reason.code, making.now));
            making.decision.reports.push(Report {
                gang,
                reason,
                pods: untold,
                whole,
            });
        }
    }

    /// Until when the pods of a gang may still be on their way; nothing when it is time to tell that some are missing.
    fn arriving(&self, gang: &GangId, reason: &Reason, now: Timestamp) -> Option<Timestamp> {
        if reason.code != ReasonCode::WaitingForPods || self.told.contains_key(gang) {
            return None;
        }
        let oldest = self.model.waiting_pods(gang).map(|pod| pod.created).min()??;
        let due = oldest.saturating_add(self.settings.arrival).ok()?;
        Some(due).filter(|due| *due > now)
    }

    fn clean_up(&mut self) {
        let waiting: BTreeSet<GangId> = self.model.waiting().cloned().collect();
        self.refused.retain(|gang, _| waiting.contains(gang));
        self.stuck.retain(|gang, _| waiting.contains(gang));
        self.told.retain(|gang, _| waiting.contains(gang));
        self.news.retain(&self.model);
    }
}

/// The message of a pod's condition for a reason.
#[must_use]
pub fn told(reason: &Reason) -> String {
    format!("{}: {}", reason.code.as_str(), reason.message)
}

fn bounded(message: &str) -> String {
    if message.len() <= LONGEST_MESSAGE {
        return message.to_owned();
    }
    let end = (0..LONGEST_MESSAGE - 3)
        .rev()
        .find(|at| message.is_char_boundary(*at))
        .unwrap_or(0);
    format!("{}...", &message[..end])
}

fn wake(decision: &mut Decision, at: Timestamp) {
    decision.wake = Some(decision.wake.map_or(at, |earlier| earlier.min(at)));
}
