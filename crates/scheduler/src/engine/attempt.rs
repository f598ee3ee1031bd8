//! The turn of one gang: its stored plan, a new plan, room that comes free, room at the expense of others.

use coppice_placement::plan::Binding;
use coppice_placement::preempt::{Verdict, preempt_among};
use coppice_placement::shape::ShapeId;
use coppice_placement::{Options as PlanOptions, Outcome, Plan, Reason, ReasonCode, Waiting, plan};
use coppice_runtime::cache::{Meta, ObjectKey};

use super::incumbency::named;
use super::{Engine, Eviction, Making, Refused, Release, Room, wake};
use crate::model::{GangId, Question, StoredPlan};

impl Engine {
    /// Gives a gang its floors, or says why not.
    pub(super) fn floors(&mut self, question: &Question, making: &mut Making) {
        let whole = !question.begun;
        if let Some(reason) = &question.obstacle {
            making.reasons.insert(question.id.clone(), (reason.clone(), whole));
            return;
        }
        if question.gang.is_scheduled() {
            return;
        }
        let patience = (self.is_due(question, making), making.locked);
        if let Some(refused) = self.refused.get(&question.id)
            && refused.room == self.model.room()
            && refused.question == *question
            && refused.patience == patience
            && refused.held == making.held
        {
            let (reason, hold) = (refused.reason.clone(), refused.hold.clone());
            let locks = refused.locks;
            if self.is_stuck(question, making) {
                return;
            }
            making.locked |= locks;
            making.reasons.insert(question.id.clone(), (reason, whole));
            self.hold(hold, making);
            self.plan_wake(question, making);
            return;
        }
        let outcome = match self.resume(question) {
            Some(plan) => {
                self.take(question, plan.bindings, making, plan.score, &plan.notes);
                if let Some(commit) = making.commits.get_mut(&question.id) {
                    commit.store = None;
                }
                return;
            }
            None => self.plan(question),
        };
        let reasons = match outcome {
            Outcome::Placed(plan) => {
                let floors = plan.bindings.into_iter().filter(|binding| !binding.extra).collect();
                self.take(question, floors, making, plan.score, &plan.notes);
                return;
            }
            Outcome::Waiting(waiting) => {
                making.reasons.insert(question.id.clone(), (waits(&waiting), whole));
                return;
            }
            Outcome::Infeasible(reasons) => reasons,
            Outcome::BudgetExhausted { steps } => {
                let message = format!("no placement was found or ruled out within {steps} steps");
                vec![Reason::new(ReasonCode::BudgetExhausted, message)]
            }
        };
        let mut reason = summary(&reasons);
        if reason.code == ReasonCode::Unsupported {
            making.reasons.insert(question.id.clone(), (reason, whole));
            return;
        }
        let (mut hold, mut locks) = (Room::new(), false);
        if let Some(room) = self.when_gone(question, &self.leaving_pods()) {
            reason.message.push_str("; pods that are ending will make room");
            hold = room;
        } else if self.evict(question, making) || self.is_stuck(question, making) {
            return;
        } else if patience == (true, false)
            && let Some(room) = self.when_gone(question, &self.all_pods(question.gang.priority))
        {
            locks = true;
            making.locked = true;
            reason.message.push_str("; room that comes free is kept for it");
            hold = room;
        }
        let held = making.held.clone();
        self.hold(hold.clone(), making);
        self.plan_wake(question, making);
        making.reasons.insert(question.id.clone(), (reason.clone(), whole));
        self.refused.insert(
            question.id.clone(),
            Refused {
                room: self.model.room(),
                question: question.clone(),
                reason,
                hold,
                held,
                patience,
                locks,
            },
        );
    }

    /// Gives pods above the floors what is left.
    pub(super) fn extras(&mut self, id: &GangId, making: &mut Making) {
        let Some(question) = self.model.question(id) else {
            return;
        };
        if question.obstacle.is_some() || !question.gang.is_scheduled() {
            return;
        }
        let refused = self.refused.get(id);
        if refused.is_some_and(|refused| {
            refused.room == self.model.room() && refused.question == question && refused.held == making.held
        }) {
            let reason = refused.map(|refused| refused.reason.clone());
            making
                .reasons
                .extend(reason.map(|reason| (id.clone(), (reason, false))));
            return;
        }
        let (left, reason) = match self.plan(&question) {
            Outcome::Placed(plan) => {
                let message = format!("no room for {} pods above the minimum", plan.left_over);
                let left = plan.left_over;
                self.take(&question, plan.bindings, making, plan.score, &plan.notes);
                (left, Reason::new(ReasonCode::InsufficientResources, message))
            }
            Outcome::Infeasible(reasons) => (1, summary(&reasons)),
            Outcome::Waiting(waiting) => (1, waits(&waiting)),
            Outcome::BudgetExhausted { .. } => {
                let message = "no place was found for pods above the minimum within the budget";
                (1, Reason::new(ReasonCode::BudgetExhausted, message))
            }
        };
        if left > 0 {
            making.reasons.insert(id.clone(), (reason.clone(), false));
            if let Some(question) = self.model.question(id) {
                let room = self.model.room();
                let refused = Refused {
                    room,
                    question,
                    reason,
                    hold: Room::new(),
                    held: making.held.clone(),
                    patience: (false, false),
                    locks: false,
                };
                self.refused.insert(id.clone(), refused);
            }
        }
    }

    fn options(&self, question: &Question) -> PlanOptions {
        PlanOptions {
            budget: self.settings.budget.0,
            improvement: self.settings.budget.1,
            scheduled: question.scheduled.clone(),
            ..PlanOptions::default()
        }
    }

    pub(super) fn plan(&mut self, question: &Question) -> Outcome {
        let options = self.options(question);
        plan(self.model.state_mut(), &question.gang, &options)
    }

    /// The rest of the plan stored on the gang, if it still holds: every pod has room on its node, the floors are met and
    /// what must lie together does.
    fn resume(&mut self, question: &Question) -> Option<Plan> {
        let GangId::Gang(key) = &question.id else { return None };
        let stored = &self.model.gang(key)?.plan;
        if stored.nodes.is_empty() {
            return None;
        }
        let homes = pods_and_nodes(stored);
        let mut gang = question.gang.clone();
        let mut bindings = Vec::new();
        for (at, group) in gang.groups.iter_mut().enumerate() {
            let node_of = |pod: &String| homes.get(&*question.pods.get(pod)?.name).copied();
            for pod in std::mem::take(&mut group.pending) {
                let Some(node) = node_of(&pod) else { continue };
                group.bound.push(node.to_owned());
                bindings.push(Binding {
                    group: at,
                    pod,
                    node: node.to_owned(),
                    extra: false,
                });
            }
        }
        let dependencies = gang.depends_on.iter().all(|name| question.scheduled.contains(name));
        if bindings.is_empty() || !gang.is_scheduled() || !dependencies {
            return None;
        }
        let mark = self.model.state().mark();
        let fits = bindings.iter().all(|binding| {
            let shape = question.gang.groups[binding.group].shape;
            self.try_place(&binding.node, shape)
        });
        self.model.state_mut().rollback(mark);
        let options = self.options(question);
        let Outcome::Placed(mut plan) = plan(self.model.state_mut(), &gang, &options) else {
            return None;
        };
        let split = plan
            .notes
            .iter()
            .any(|note| note.code == ReasonCode::SplitAcrossDomains);
        plan.bindings = bindings;
        (fits && !split).then_some(plan)
    }

    fn try_place(&mut self, node: &str, shape: ShapeId) -> bool {
        let state = self.model.state_mut();
        let Some(id) = state.node_id(node) else { return false };
        let ruled_out = state.shape_of(shape).demands.node.ruled_out(state.node(id)).is_some();
        if ruled_out || state.room(id, shape) == 0 {
            return false;
        }
        state.place(id, shape, 1);
        true
    }

    fn leaving_pods(&self) -> Vec<ObjectKey> {
        self.model.leaving().cloned().collect()
    }

    /// Pods of ours that a gang of this priority may wait for.
    fn all_pods(&self, priority: i32) -> Vec<ObjectKey> {
        let pods = self
            .model
            .pods()
            .filter(|pod| pod.takes_room() && self.model.is_ours(pod));
        pods.filter(|pod| pod.priority <= priority)
            .map(|pod| pod.meta.key.clone())
            .collect()
    }

    /// Where the floors of a gang would go if these pods were gone.
    fn when_gone(&mut self, question: &Question, pods: &[ObjectKey]) -> Option<Room> {
        let state = self.model.state_mut();
        let residents: Vec<_> = pods.iter().filter_map(|pod| state.pod(&pod.to_string())).collect();
        if residents.is_empty() {
            return None;
        }
        let mark = state.mark();
        for resident in residents {
            state.lift(resident.node, resident.shape, 1);
        }
        let outcome = match self.resume(question) {
            Some(plan) => Outcome::Placed(plan),
            None => self.plan(question),
        };
        self.model.state_mut().rollback(mark);
        match outcome {
            Outcome::Placed(plan) => Some(room_of(question, &plan)),
            _ => None,
        }
    }

    /// Finds victims for a gang; returns whether there are any.
    fn evict(&mut self, question: &Question, making: &mut Making) -> bool {
        let options = self.options(question);
        let incumbents = self.incumbency.of(&mut self.model);
        if !incumbents.any_below(question.gang.priority) {
            return false;
        }
        let verdict = preempt_among(self.model.state_mut(), &question.gang, incumbents, &options);
        let Verdict::Possible(preemption) = verdict else {
            return false;
        };
        let metas = |names: &[String]| -> Vec<Meta> {
            let pods = names.iter().filter_map(|name| self.model.pod(&key_of(name)));
            pods.map(|pod| pod.meta.clone()).collect()
        };
        let victims = preemption
            .victims
            .iter()
            .map(|victim| (victim.gang.clone(), metas(&victim.pods)))
            .collect();
        let room = room_of(question, &preemption.plan);
        let name = |binding: &Binding| question.pods.get(&binding.pod).map(|key| key.name.clone());
        let pairs: Vec<_> = preemption
            .plan
            .bindings
            .iter()
            .filter_map(|binding| Some((name(binding)?, binding.node.as_str())))
            .collect();
        let store = StoredPlan::new(pairs.iter().map(|(pod, node)| (&**pod, *node)));
        making.decision.evictions.push(Eviction {
            gang: question.id.clone(),
            store: matches!(question.id, GangId::Gang(_)).then_some(store),
            victims,
        });
        let message = format!("{} gangs of lower priority make room", preemption.victims.len());
        let reason = Reason::new(ReasonCode::InsufficientResources, message);
        making.reasons.insert(question.id.clone(), (reason, !question.begun));
        // Who goes is gone for everybody else in this decision.
        for victim in &preemption.victims {
            self.incumbency.lose(&self.model, &victim.gang);
            making.gone.push(named(&victim.gang));
        }
        self.hold(room.clone(), making);
        self.busy.insert(question.id.clone(), room);
        true
    }

    /// Whether a gang was meant to be bound as a whole, was not, and cannot be completed; it is released after a while.
    fn is_stuck(&mut self, question: &Question, making: &mut Making) -> bool {
        let GangId::Gang(key) = &question.id else { return false };
        let Some(record) = self.model.gang(key).filter(|_| question.begun) else {
            return false;
        };
        let homes = pods_and_nodes(&record.plan);
        if !question.pods.values().any(|pod| homes.contains_key(&*pod.name)) {
            // It was whole once: what became of it since is not for the scheduler to judge.
            return false;
        }
        let since = *self.stuck.entry(question.id.clone()).or_insert(making.now);
        let due = since.saturating_add(self.settings.release).unwrap_or(since);
        if due > making.now {
            wake(&mut making.decision, due);
            return false;
        }
        let pods = self.model.placed_pods(key);
        making.decision.releases.push(Release {
            gang: question.id.clone(),
            pods,
        });
        true
    }

    /// Whether the gang has waited for so long that room is kept for it.
    fn is_due(&self, question: &Question, making: &Making) -> bool {
        question
            .since
            .saturating_add(self.settings.starvation)
            .is_ok_and(|due| due <= making.now)
    }

    fn plan_wake(&self, question: &Question, making: &mut Making) {
        let due = question.since.saturating_add(self.settings.starvation).ok();
        if let Some(due) = due.filter(|due| *due > making.now) {
            wake(&mut making.decision, due);
        }
    }
}

fn pods_and_nodes(plan: &StoredPlan) -> std::collections::BTreeMap<&str, &str> {
    let nodes = plan.nodes.iter();
    nodes
        .flat_map(|(node, pods)| pods.iter().map(|pod| (pod.as_str(), node.as_str())))
        .collect()
}

/// The room that the floors of a plan take.
fn room_of(question: &Question, plan: &Plan) -> Room {
    let floors = plan.bindings.iter().filter(|binding| !binding.extra);
    floors
        .filter_map(|binding| Some((question.pods.get(&binding.pod)?.clone(), binding.node.clone())))
        .collect()
}

pub(super) fn key_of(name: &str) -> ObjectKey {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    ObjectKey::new(namespace, name)
}

fn waits(waiting: &[Waiting]) -> Reason {
    match waiting.first() {
        Some(Waiting::Gang(name)) => Reason::new(ReasonCode::WaitingForGang, format!("{name} must be scheduled first")),
        Some(Waiting::Pods { group, have, need }) => {
            let message = format!("{group}: {have} of {need} pods exist and are free of gates");
            Reason::new(ReasonCode::WaitingForPods, message)
        }
        None => Reason::new(ReasonCode::WaitingForPods, "it has no turn yet"),
    }
}

fn summary(reasons: &[Reason]) -> Reason {
    let Some(first) = reasons.first() else {
        return Reason::new(ReasonCode::DoesNotFitTogether, "no placement exists");
    };
    let messages: Vec<&str> = reasons.iter().map(|reason| reason.message.as_str()).collect();
    Reason::new(first.code, messages.join("; "))
}
