//! What a gang says of its own placement.
//!
//! Owns which gangs are to be confirmed as placed: those whose floors are met by pods that are bound and whose
//! condition does not say so, and those about which something new was decided. Whatever else is under way for a gang comes
//! first, so there is one writer at a time. A write that failed is repeated after a while, for as long as it is true.
//!
//! The operator reports on the same gangs, in a part of the status of its own. The first status of a gang is the operator's: we write
//! after it reported what follows from our bindings, or after a short while if it has nothing to report.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::types::PodGangPhase;
use coppice_placement::{Outcome, Reason};
use coppice_runtime::cache::ObjectKey;
use jiff::Timestamp;

use super::{Commit, Confirmation, Engine, Round, reason_text, wake};
use crate::model::{GangId, Model};

/// What was decided about gangs and is not in their status yet.
#[derive(Debug, Default)]
pub(super) struct PendingConfirmations {
    decided: BTreeMap<ObjectKey, (String, f64)>,
    /// Gangs whose status could not be written, and when to try again.
    failed: BTreeMap<ObjectKey, Timestamp>,
    /// Since when it has been known of gangs that they are placed and do not say so.
    unsaid: BTreeMap<ObjectKey, Timestamp>,
}

impl PendingConfirmations {
    pub(super) fn add(&mut self, commit: &Commit) {
        if let GangId::Gang(key) = &commit.gang {
            self.decided.insert(key.clone(), (message(commit), commit.score));
        }
    }

    pub(super) fn retain(&mut self, model: &Model) {
        self.decided.retain(|key, _| model.gang(key).is_some());
        self.failed.retain(|key, _| model.gang(key).is_some());
        self.unsaid.retain(|key, _| model.gang(key).is_some());
    }
}

impl Engine {
    /// The status of the gang says that it is placed, or could not be written.
    pub fn confirmed(&mut self, gang: &ObjectKey, confirmed: bool, now: Timestamp) {
        if confirmed {
            self.confirmations.decided.remove(gang);
            self.confirmations.failed.remove(gang);
            self.confirmations.unsaid.remove(gang);
        } else {
            let again = now.saturating_add(self.settings.retell).unwrap_or(now);
            self.confirmations.failed.insert(gang.clone(), again);
        }
    }

    /// Until when the operator may still report on a gang that is placed; nothing when it is our turn.
    fn operator_has_the_word(&mut self, gang: &ObjectKey, now: Timestamp) -> Option<Timestamp> {
        let phase = self.model.gang(gang).and_then(|record| record.phase.clone());
        if phase == Some(PodGangPhase::Running) {
            return None;
        }
        let since = *self.confirmations.unsaid.entry(gang.clone()).or_insert(now);
        let until = since.saturating_add(self.settings.first_word).unwrap_or(since);
        Some(until).filter(|until| *until > now)
    }

    /// Whether the operator may still make its first report on a gang, and until when.
    pub(super) fn awaits_first_report(&self, gang: &GangId, now: Timestamp) -> Option<Timestamp> {
        let GangId::Gang(key) = gang else { return None };
        let record = self.model.gang(key).filter(|record| record.phase.is_none())?;
        let until = record.created?.saturating_add(self.settings.first_word).ok()?;
        Some(until).filter(|until| *until > now)
    }

    /// Whether the condition of a gang that has no place says something else than this.
    pub(super) fn is_outdated(&self, gang: &GangId, reason: &Reason) -> bool {
        let GangId::Gang(key) = gang else { return false };
        let says = |record: &crate::model::GangRecord| {
            let standing = record.standing.as_ref();
            standing.is_some_and(|standing| standing.tells(reason))
        };
        self.model.gang(key).is_some_and(|record| !says(record))
    }

    /// Calls those gangs placed that are, and that do not say so.
    pub(super) fn confirm(&mut self, round: &mut Round) {
        let unsaid: BTreeSet<ObjectKey> = self
            .model
            .unplaced()
            .chain(self.confirmations.decided.keys())
            .cloned()
            .collect();
        for key in unsaid {
            let id = GangId::Gang(key.clone());
            if self.busy.contains_key(&id) {
                continue;
            }
            if self.is_aside(&id, round) {
                continue;
            }
            let placed = self.guarded(&id, round, |engine, _| engine.model.placed(&key));
            let Some(question) = placed.flatten() else {
                continue;
            };
            if let Some(again) = self.confirmations.failed.get(&key).filter(|again| **again > round.now) {
                wake(&mut round.decision, *again);
                continue;
            }
            if let Some(until) = self.operator_has_the_word(&key, round.now) {
                wake(&mut round.decision, until);
                continue;
            }
            let (message, score) = match self.confirmations.decided.get(&key) {
                Some(decided) => decided.clone(),
                // Somebody else bound them: how well is asked, not remembered.
                None => match self.guarded(&id, round, |engine, _| engine.plan(&question)) {
                    Some(Outcome::Placed(plan)) => ("its pods are bound".to_owned(), plan.score),
                    Some(_) => ("its pods are bound".to_owned(), 0.0),
                    None => continue,
                },
            };
            self.busy.insert(id, Vec::new());
            round.decision.confirmations.push(Confirmation {
                gang: key,
                message,
                score,
            });
        }
    }
}

/// What is said of a gang that was bound.
pub(crate) fn message(commit: &Commit) -> String {
    let only = |bind: &super::Bind| match &commit.gang {
        GangId::Pod(_) => format!("bound to {}", bind.node),
        GangId::Gang(_) => format!("{} is bound to {}", bind.pod.key.name, bind.node),
    };
    let mut message = match commit.bindings.as_slice() {
        [bind] => only(bind),
        several => format!("{} pods are bound", several.len()),
    };
    for note in &commit.notes {
        message.push_str("; ");
        message.push_str(&reason_text(note));
    }
    message
}
