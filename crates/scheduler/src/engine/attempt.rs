//! The turn of one gang: a new plan, room that comes free, room at the expense of others.

use std::collections::BTreeMap;

use coppice_placement::preempt::{Verdict, preempt_among};
use coppice_placement::{Options as PlanOptions, Outcome, Plan, Reason, ReasonCode, Waiting, plan};
use coppice_runtime::cache::{Meta, ObjectKey};

use super::incumbency::named;
use super::{Engine, Eviction, Refused, Room, Round, wake};
use crate::model::{GangId, Question};

impl Engine {
    /// Gives a gang its floors, or says why not.
    pub(super) fn floors(&mut self, question: &Question, round: &mut Round) {
        if let Some(reason) = &question.obstacle {
            round.explain(question, reason.clone());
            return;
        }
        if let Some(reason) = &question.waits_for_volume {
            round.explain(question, reason.clone());
        }
        if let Some((reason, until)) = self.volumes.failed(&question.id, round.now) {
            wake(&mut round.decision, until);
            round.explain(question, reason);
            return;
        }
        if let Some(reason) = &question.incomplete {
            round.explain(question, reason.clone());
        }
        if question.gang.is_scheduled() || self.awaits_siblings(question, round) {
            return;
        }
        if self.repeat_refusal(question, round) || self.complete_stored_plan(question, round) {
            return;
        }
        match self.plan(question) {
            Outcome::Placed(mut plan) => {
                plan.bindings.retain(|binding| !binding.extra);
                self.take(question, plan, round);
            }
            Outcome::Waiting(waiting) => round.explain(question, waits(&waiting)),
            Outcome::Infeasible(reasons) => {
                if self.complete_in_part(question, round) {
                    return;
                }
                self.refuse(question, summary(&reasons), round);
            }
            Outcome::BudgetExhausted { steps } => {
                let message = format!("no placement was found or ruled out within {steps} steps");
                self.refuse(question, Reason::new(ReasonCode::BudgetExhausted, message), round);
            }
        }
    }

    /// Whether a gang should wait for a moment until it is known which gangs follow it into the domain that it takes.
    fn awaits_siblings(&self, question: &Question, round: &mut Round) -> bool {
        let due = question
            .since
            .saturating_add(self.settings.arrival)
            .unwrap_or(question.since);
        let Some(reason) = question.arriving.as_ref().filter(|_| due > round.now) else {
            return false;
        };
        wake(&mut round.decision, due);
        round.explain(question, reason.clone());
        true
    }

    /// Places those groups of a gang that has begun whose missing pods have room, when others of its groups have none: what one
    /// clique lacks does not keep the replacement of another from its node. Returns whether there are any.
    fn complete_in_part(&mut self, question: &Question, round: &mut Round) -> bool {
        let GangId::Gang(key) = &question.id else { return false };
        let missing = question.gang.groups.iter().filter(|group| group.missing() > 0);
        if !question.begun || missing.count() < 2 || self.model.unfinished_plan(key).is_some() {
            return false;
        }
        for at in 0..question.gang.groups.len() {
            if question.gang.groups[at].missing() == 0 {
                continue;
            }
            let mut alone = question.clone();
            for (other, group) in alone
                .gang
                .groups
                .iter_mut()
                .enumerate()
                .filter(|(other, _)| *other != at)
            {
                group.pending.clear();
                group.floor = group.floor.min(u32::try_from(group.bound.len()).unwrap_or(u32::MAX));
                debug_assert_ne!(other, at);
            }
            if let Outcome::Placed(mut plan) = self.plan(&alone) {
                plan.bindings.retain(|binding| !binding.extra);
                self.take(&alone, plan, round);
            }
        }
        round.commits.contains_key(&question.id)
    }

    /// Says again what was said of a gang before, if nothing has changed that could make a difference.
    fn repeat_refusal(&mut self, question: &Question, round: &mut Round) -> bool {
        let patience = self.patience(question, round);
        let Some(refused) = self.refused.get(&question.id).filter(|refused| {
            refused.room == self.model.room()
                && refused.question == *question
                && refused.patience == patience
                && refused.held == round.held
        }) else {
            return false;
        };
        // It cannot fit, but the reason may have changed: others have taken room.
        if refused.version != self.model.version() {
            let due = refused.at.saturating_add(self.settings.refresh).unwrap_or(refused.at);
            if due <= round.now {
                return false;
            }
            wake(&mut round.decision, due);
        }
        let (reason, hold, holder) = (refused.reason.clone(), refused.hold.clone(), refused.holder.clone());
        if !self.release_if_stuck(question, round) {
            round.holder = round.holder.take().or(holder);
            round.explain(question, reason);
            self.hold(hold, round);
            self.plan_wake(question, round);
        }
        true
    }

    /// Looks for another way for a gang that does not fit: room that comes free, room at the expense of others, room that is
    /// kept for it. Remembers what came of it.
    fn refuse(&mut self, question: &Question, mut reason: Reason, round: &mut Round) {
        if reason.code == ReasonCode::Unsupported {
            round.explain(question, reason);
            return;
        }
        if !round.keeping && self.backfill(question, round) {
            return;
        }
        let patience = self.patience(question, round);
        let (may_hold, is_next) = patience;
        let (mut hold, mut holder) = (Room::new(), None);
        if may_hold && let Some(room) = self.when_gone(question, &self.leaving_pods()) {
            self.note_held(&question.id, round.now);
            reason.message.push_str("; pods that are ending will make room");
            hold = room;
        } else if self.evict(question, round) || self.release_if_stuck(question, round) {
            return;
        } else if is_next && let Some(room) = self.hold_for_long(question, round) {
            let until = self.note_held(&question.id, round.now);
            wake(&mut round.decision, until);
            holder.clone_from(&round.holder);
            reason.message.push_str("; room that comes free is kept for it");
            hold = room;
        } else if let Some(held) = self.held_against(question, round) {
            reason = held;
        }
        let held = round.held.clone();
        self.hold(hold.clone(), round);
        self.plan_wake(question, round);
        round.explain(question, reason.clone());
        self.refused.insert(
            question.id.clone(),
            Refused {
                room: self.model.room(),
                version: self.model.version(),
                at: round.now,
                question: question.clone(),
                reason,
                hold,
                held,
                patience,
                holder,
            },
        );
    }

    /// Gives pods above the floors what is left.
    pub(super) fn extras(&mut self, id: &GangId, round: &mut Round) {
        let Some(question) = self.model.question(id) else {
            return;
        };
        if question.obstacle.is_some() || !question.gang.is_scheduled() {
            return;
        }
        if let Some((reason, until)) = self.volumes.failed(id, round.now) {
            wake(&mut round.decision, until);
            round.reasons.insert(id.clone(), (reason, false));
            return;
        }
        let refused = self.refused.get(id);
        if refused.is_some_and(|refused| {
            refused.room == self.model.room() && refused.question == question && refused.held == round.held
        }) {
            let reason = refused.map(|refused| refused.reason.clone());
            round.reasons.extend(reason.map(|reason| (id.clone(), (reason, false))));
            return;
        }
        let (left, reason) = match self.plan(&question) {
            Outcome::Placed(plan) => {
                let message = format!("no room for {} pods above the minimum", plan.left_over);
                let left = plan.left_over;
                self.take(&question, plan, round);
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
            let rest = self.model.question(id);
            let held = rest.as_ref().and_then(|rest| self.held_against(rest, round));
            let reason = held.unwrap_or(reason);
            round.reasons.insert(id.clone(), (reason.clone(), false));
            if let Some(question) = rest {
                let room = self.model.room();
                let refused = Refused {
                    room,
                    version: self.model.version(),
                    at: round.now,
                    question,
                    reason,
                    hold: Room::new(),
                    held: round.held.clone(),
                    patience: (false, false),
                    holder: None,
                };
                self.refused.insert(id.clone(), refused);
            }
        }
    }

    pub(super) fn options(&self, question: &Question) -> PlanOptions {
        PlanOptions {
            budget: self.settings.budget.steps,
            improvement: self.settings.budget.improvement,
            scheduled: question.scheduled.clone(),
            ..PlanOptions::default()
        }
    }

    pub(super) fn plan(&mut self, question: &Question) -> Outcome {
        #[cfg(test)]
        if let Some(fault) = self.before_plan.clone() {
            fault(question, &mut self.model);
        }
        let options = self.options(question);
        plan(self.model.state_mut(), &question.gang, &options)
    }

    fn leaving_pods(&self) -> Vec<ObjectKey> {
        self.model.leaving().cloned().collect()
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
        let outcome = match self.rest_of_stored_plan(question) {
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
    fn evict(&mut self, question: &Question, round: &mut Round) -> bool {
        let options = PlanOptions {
            disruptions: self.disruptions(),
            ..self.options(question)
        };
        let incumbents = self.incumbency.of(&mut self.model);
        if question.gang.never_preempts || !incumbents.any_below(question.gang.priority) {
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
        let victims: BTreeMap<String, Vec<Meta>> = preemption
            .victims
            .iter()
            .map(|victim| (victim.gang.clone(), metas(&victim.pods)))
            .collect();
        let protected = self.count_disruptions(&question.id, &victims);
        let room = room_of(question, &preemption.plan);
        let store = self.plan_to_store(question, &preemption.plan.bindings);
        round.decision.evictions.push(Eviction {
            gang: question.id.clone(),
            store: matches!(question.id, GangId::Gang(_)).then_some(store),
            victims,
            protected,
        });
        let message = format!("{} gangs of lower priority make room", preemption.victims.len());
        round.explain(question, Reason::new(ReasonCode::InsufficientResources, message));
        // The victims are gone for every other gang in this decision.
        for victim in &preemption.victims {
            self.incumbency.lose(&self.model, &victim.gang);
            round.gone.push(named(&victim.gang));
        }
        self.hold(room.clone(), round);
        self.busy.insert(question.id.clone(), room);
        true
    }

    /// Whether room may be held for a gang, and whether it is next among those that have waited for long.
    fn patience(&mut self, question: &Question, round: &mut Round) -> (bool, bool) {
        let may_hold = self.may_hold(&question.id, round);
        let is_next = may_hold && round.holder.is_none() && self.is_next_holder(&question.id, round);
        (may_hold, is_next)
    }

    /// Whether the gang has waited for so long that room is kept for it.
    pub(super) fn is_due(&self, question: &Question, round: &Round) -> bool {
        question
            .since
            .saturating_add(self.settings.starvation)
            .is_ok_and(|due| due <= round.now)
    }

    fn plan_wake(&self, question: &Question, round: &mut Round) {
        let due = question.since.saturating_add(self.settings.starvation).ok();
        if let Some(due) = due.filter(|due| *due > round.now) {
            wake(&mut round.decision, due);
        }
    }
}

/// The room that the floors of a plan take.
pub(super) fn room_of(question: &Question, plan: &Plan) -> Room {
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
