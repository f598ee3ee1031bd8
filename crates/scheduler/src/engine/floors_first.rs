//! Floors of everyone first: room that gangs below their minimum could use is kept from pods that are above one.
//!
//! Owns which gangs wait for room for their minimum, what of the room there is now they could use, and from whom it is kept:
//! from extras and from scaled gangs that have not begun, of the same set as long as such a gang waits, of other sets for a short
//! while after the capacity of nodes changed. So nodes that come back one by one are not taken by pods that could do
//! without. Never keeps room from a gang of higher priority, nor for a gang that no room would help.

use coppice_placement::{Outcome, ReasonCode};
use coppice_runtime::cache::ObjectKey;
use jiff::{SignedDuration, Timestamp};

use super::attempt::room_of;
use super::{Engine, Room, Round, wake};
use crate::model::{GangId, Question};

/// Room is kept for so many gangs at a time, in the order of their turns.
const MOST: usize = 8;
/// The window after a change of capacity is renewed by further changes until it is this many times as long.
const LONGEST_WINDOW: i32 = 6;

/// Room that a gang below its minimum could use.
#[derive(Debug)]
pub(super) struct Kept {
    gang: GangId,
    set: Option<ObjectKey>,
    priority: i32,
    room: Room,
}

/// When the capacity of nodes last changed.
#[derive(Debug, Default)]
pub(super) struct Settling {
    /// [`Model::capacity`](crate::model::Model::capacity) as it was last seen.
    seen: Option<u64>,
    began: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl Settling {
    /// Notes the capacity; every change of it opens or renews the window.
    pub(super) fn note(&mut self, capacity: u64, window: SignedDuration, now: Timestamp) {
        let before = self.seen.replace(capacity);
        if before.is_none_or(|before| before == capacity) {
            return;
        }
        let open = self.until.is_some_and(|until| until > now);
        let began = self.began.filter(|_| open).unwrap_or(now);
        let after = |from: Timestamp, length: SignedDuration| from.saturating_add(length).unwrap_or(from);
        let longest = window.checked_mul(LONGEST_WINDOW).unwrap_or(window);
        self.began = Some(began);
        self.until = Some(after(now, window).min(after(began, longest)));
    }

    fn open_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.until.filter(|until| *until > now)
    }
}

impl Engine {
    /// Whether a gang has its turn only after the floors of all others: one that extends what another gang began.
    pub(super) fn comes_after_floors(question: &Question) -> bool {
        !question.begun && !question.gang.depends_on.is_empty()
    }

    /// Finds the room that gangs below their minimum could use, now that all of them had their turn.
    pub(super) fn keep_for_floors(&mut self, questions: &[Question], round: &mut Round) {
        for question in questions {
            if round.kept.len() == MOST {
                return;
            }
            if Self::comes_after_floors(question) || !self.waits_for_room(question, round) {
                continue;
            }
            let kept = self.guarded(&question.id, round, |engine, _| engine.usable_room(question));
            let room = kept.flatten().unwrap_or_default();
            if !room.is_empty() {
                round.kept.push(Kept {
                    gang: question.id.clone(),
                    set: self.set_of(&question.id),
                    priority: question.gang.priority,
                    room,
                });
            }
        }
    }

    /// Whether a gang is below its minimum because of the room there is.
    fn waits_for_room(&self, question: &Question, round: &Round) -> bool {
        let reason = round.reasons.get(&question.id).map(|(reason, _)| reason.code);
        let of_room = reason.is_some_and(|code| {
            !matches!(
                code,
                ReasonCode::Unsupported
                    | ReasonCode::UnknownTopology
                    | ReasonCode::PodExceedsEveryNode
                    | ReasonCode::PackingTooNarrow
                    | ReasonCode::PinnedDomainGone
                    | ReasonCode::WaitingForGang
                    | ReasonCode::WaitingForPods
                    | ReasonCode::BudgetExhausted
                    | ReasonCode::InternalError
            )
        });
        let under_way = round.commits.contains_key(&question.id) || self.is_evicting(&question.id);
        of_room && !under_way && !question.gang.is_scheduled() && !round.stale
    }

    /// Where as many of the missing pods of a gang as possible would go, if it need not be placed as a whole.
    fn usable_room(&mut self, question: &Question) -> Option<Room> {
        let mut parts = question.clone();
        for group in &mut parts.gang.groups {
            let missing = group.missing() as usize;
            group.pending.truncate(missing);
            group.floor = group.floor.saturating_sub(group.missing());
        }
        match self.plan(&parts) {
            Outcome::Placed(mut plan) => {
                plan.bindings.iter_mut().for_each(|binding| binding.extra = false);
                Some(room_of(question, &plan))
            }
            _ => None,
        }
    }

    /// Gives a gang its turn while the room is taken that is kept from it.
    pub(super) fn beside_floors(
        &mut self,
        question: &Question,
        round: &mut Round,
        turn: impl FnOnce(&mut Self, &mut Round),
    ) {
        let (set, window) = (self.set_of(&question.id), self.settling.open_until(round.now));
        let mut room = Room::new();
        let mut until = None;
        for kept in &round.kept {
            let same_set = set.is_some() && kept.set == set;
            let applies = kept.gang != question.id && kept.priority >= question.gang.priority;
            if applies && (same_set || window.is_some()) {
                until = until.or(window.filter(|_| !same_set));
                room.extend(kept.room.iter().cloned());
            }
        }
        if room.is_empty() {
            return turn(self, round);
        }
        if let Some(until) = until {
            wake(&mut round.decision, until);
        }
        let (held, mark) = (round.held.clone(), self.model.state().mark());
        self.hold(room.clone(), round);
        round.keeping = true;
        turn(self, round);
        round.keeping = false;
        // What the turn itself holds stays held, the rest is free for others.
        let added: Room = round.held[held.len() + room.len()..].to_vec();
        self.model.state_mut().rollback(mark);
        round.held = held;
        self.hold(added, round);
    }

    fn set_of(&self, gang: &GangId) -> Option<ObjectKey> {
        let GangId::Gang(key) = gang else { return None };
        let replica = self.model.gang(key)?.replica.as_ref()?;
        Some(replica.0.clone())
    }
}
