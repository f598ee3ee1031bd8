//! Room that is held for a gang that waits: for whom, how much, how long, and who may pass.
//!
//! Room is held where a gang will fit once pods that are ending are gone, and for one gang at a time that has waited for long
//! (the holder) where it would fit if the fewest others left. It is held for a limited time; then the gang rests, and others
//! have their turn: among gangs of one priority, those of the namespace that has not held room for longest. A gang that fits
//! nowhere but in the room of the holder takes it if that leaves the holder with no more pods to wait for than before. Never
//! holds more than the floors of a gang take.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_placement::preempt::{Verdict, preempt_among};
use coppice_placement::{Outcome, Reason, ReasonCode};
use jiff::Timestamp;

use super::attempt::room_of;
use super::{Engine, Room, Round, wake};
use crate::model::{GangId, Question};

/// Who held room, and since when.
#[derive(Debug, Default)]
pub(super) struct Holding {
    pub(super) since: BTreeMap<GangId, Timestamp>,
    /// When room was last held for a gang that had waited for long, by namespace.
    served: BTreeMap<Arc<str>, Timestamp>,
    /// Gangs that would not fit if everybody left, and how things were then ([`Model::room`](crate::model::Model::room)).
    hopeless: BTreeMap<GangId, u64>,
}

impl Holding {
    pub(super) fn serve(&mut self, gang: &GangId, now: Timestamp) {
        self.served.insert(namespace(gang).clone(), now);
    }
}

/// The gang that has waited for long and for which room is held.
#[derive(Debug)]
pub(super) struct Holder {
    question: Question,
    room: Room,
    /// How many pods must leave before it fits.
    departures: usize,
}

impl Engine {
    /// Those that have waited for so long that room may be held for them, in the order of their turns.
    pub(super) fn due(&mut self, questions: &[Question], round: &mut Round) -> Vec<GangId> {
        let mut due = Vec::new();
        for question in questions {
            let asks = question.obstacle.is_none() && !question.gang.is_scheduled();
            if asks && self.is_due(question, round) && self.may_hold(&question.id, round) {
                due.push(question);
            }
        }
        let served = |question: &Question| self.holding.served.get(namespace(&question.id)).copied();
        due.sort_by_cached_key(|question| {
            let priority = std::cmp::Reverse(question.gang.priority);
            (priority, served(question), question.since, question.id.clone())
        });
        due.into_iter().map(|question| question.id.clone()).collect()
    }

    /// Whether it is the turn of a gang to have room held for it.
    pub(super) fn is_next_holder(&self, gang: &GangId, round: &Round) -> bool {
        let room = self.model.room();
        let hopeful = |gang: &&GangId| self.holding.hopeless.get(*gang) != Some(&room);
        round.due.iter().find(hopeful) == Some(gang)
    }

    /// Whether room may be held for a gang; when that ends, and when it may be again.
    pub(super) fn may_hold(&mut self, gang: &GangId, round: &mut Round) -> bool {
        let Some(since) = self.holding.since.get(gang) else {
            return true;
        };
        let until = since.saturating_add(self.settings.hold).unwrap_or(Timestamp::MAX);
        let again = until.saturating_add(self.settings.starvation).unwrap_or(Timestamp::MAX);
        if again <= round.now {
            self.holding.since.remove(gang);
            return true;
        }
        let holds = until > round.now;
        wake(&mut round.decision, if holds { until } else { again });
        holds
    }

    /// Notes that room is held for a gang. Returns until when.
    pub(super) fn note_held(&mut self, gang: &GangId, now: Timestamp) -> Timestamp {
        let since = *self.holding.since.entry(gang.clone()).or_insert(now);
        since.saturating_add(self.settings.hold).unwrap_or(Timestamp::MAX)
    }

    /// Holds room for a gang that has waited for long, where it would fit if the fewest others left. Returns the room.
    pub(super) fn hold_for_long(&mut self, question: &Question, round: &mut Round) -> Option<Room> {
        let Some((room, departures)) = self.after_fewest_departures(question) else {
            self.holding.hopeless.insert(question.id.clone(), self.model.room());
            // Somebody whose turn is over may be next.
            if round.due.len() > 1 {
                wake(&mut round.decision, round.now);
            }
            return None;
        };
        self.holding.serve(&question.id, round.now);
        round.holder = Some(Arc::new(Holder {
            question: question.clone(),
            room: room.clone(),
            departures,
        }));
        Some(room)
    }

    /// Where the floors of a gang would go if the fewest pods of at most its priority left, and how many these are.
    fn after_fewest_departures(&mut self, question: &Question) -> Option<(Room, usize)> {
        let mut gang = question.gang.clone();
        (gang.priority, gang.never_preempts) = (gang.priority.saturating_add(1), false);
        let mut options = self.options(question);
        // They leave by themselves.
        options.disruptions = self.model.disruptions();
        options.disruptions.values_mut().for_each(|allowed| *allowed = u32::MAX);
        let incumbents = self.incumbency.of(&mut self.model);
        let verdict = preempt_among(self.model.state_mut(), &gang, incumbents, &options);
        let Verdict::Possible(found) = verdict else { return None };
        let departures = found.victims.iter().map(|victim| victim.pods.len()).sum();
        Some((room_of(question, &found.plan), departures))
    }

    /// Lets a gang pass that fits only in the room of the holder, if the holder then waits for no more pods than before.
    pub(super) fn backfill(&mut self, question: &Question, round: &mut Round) -> bool {
        let Some(holder) = round.holder.clone().filter(|holder| holder.question.id != question.id) else {
            return false;
        };
        let mark = self.model.state().mark();
        self.lift(&holder.room);
        let found = match self.plan(question) {
            Outcome::Placed(plan) => {
                self.place(&room_of(question, &plan));
                let then = self.after_fewest_departures(&holder.question);
                then.filter(|(_, departures)| *departures <= holder.departures)
                    .map(|(room, departures)| (plan, room, departures))
            }
            _ => None,
        };
        self.model.state_mut().rollback(mark);
        let Some((mut plan, room, departures)) = found else {
            return false;
        };
        self.lift(&holder.room);
        Arc::make_mut(&mut round.held).retain(|held| !holder.room.contains(held));
        plan.bindings.retain(|binding| !binding.extra);
        self.take(question, plan, round);
        self.hold(room.clone(), round);
        if let Some(refused) = self.refused.get_mut(&holder.question.id) {
            refused.hold.clone_from(&room);
        }
        round.holder = Some(Arc::new(Holder {
            question: holder.question.clone(),
            room,
            departures,
        }));
        true
    }

    /// For whom the room is held in which a gang would fit; nothing if it would not fit there either.
    pub(super) fn held_against(&mut self, question: &Question, round: &Round) -> Option<Reason> {
        if round.held.is_empty() {
            return None;
        }
        let mark = self.model.state().mark();
        self.lift(&round.held);
        let outcome = self.plan(question);
        self.model.state_mut().rollback(mark);
        let Outcome::Placed(plan) = outcome else { return None };
        let used: Vec<&str> = plan.bindings.iter().map(|binding| binding.node.as_str()).collect();
        let mut holders: Vec<String> = Vec::new();
        for (pod, _) in round.held.iter().filter(|(_, node)| used.contains(&node.as_str())) {
            let gang = self.model.pod(pod).and_then(|pod| pod.gang());
            let name = gang.map_or_else(|| format!("pod {pod}"), |gang| gang.to_string());
            if !holders.contains(&name) {
                holders.push(name);
            }
        }
        let more = holders.len().saturating_sub(3);
        holders.truncate(3);
        let mut names = holders.join(", ");
        if more > 0 {
            names.push_str(&format!(" and {more} more"));
        }
        let message = format!("there is room, and it is held for {names}");
        Some(Reason::new(ReasonCode::RoomHeld, message))
    }

    fn lift(&mut self, room: &Room) {
        for (pod, node) in room {
            self.model.unhold(pod, node);
        }
    }

    fn place(&mut self, room: &Room) {
        for (pod, node) in room {
            self.model.hold(pod, node);
        }
    }

    /// Forgets gangs that wait no longer, and namespaces that have none.
    pub(super) fn forget_holding(&mut self) {
        let model = &self.model;
        let waits = |gang: &GangId| model.waiting_pods(gang).next().is_some();
        self.holding.since.retain(|gang, _| waits(gang));
        self.holding.hopeless.retain(|gang, _| waits(gang));
        let names: std::collections::BTreeSet<Arc<str>> = model.waiting().map(|gang| namespace(gang).clone()).collect();
        self.holding.served.retain(|name, _| names.contains(name));
    }
}

fn namespace(gang: &GangId) -> &Arc<str> {
    match gang {
        GangId::Gang(key) | GangId::Pod(key) => &key.namespace,
    }
}
