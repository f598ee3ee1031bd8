//! Gangs that are set aside because deciding about them panicked.
//!
//! Owns the borders of one gang's part of a decision: when it panics, whatever it decided, held or assumed is undone, the
//! model is rolled back (or built again where the panic left it half changed), and the gang is left alone for a while that
//! grows with each failure. Every other gang has its turn as if the failed one were not there.

use std::sync::Arc;

use coppice_placement::state::Mark;
use coppice_placement::{Reason, ReasonCode};
use jiff::{SignedDuration, Timestamp};

use super::holding::Holder;
use super::{Engine, Room, Round, SetAside, wake};
use crate::caught::caught;
use crate::model::GangId;

/// How long a gang is set aside at most.
const LONGEST: SignedDuration = SignedDuration::from_mins(10);

/// A gang that is set aside.
#[derive(Debug)]
pub(super) struct Aside {
    failures: u32,
    until: Timestamp,
    reason: Reason,
    /// None of its pods had a node.
    whole: bool,
}

/// A decision before the part of one gang.
struct Checkpoint {
    mark: Mark,
    held: Arc<Room>,
    evictions: usize,
    releases: usize,
    bindings: usize,
    holder: Option<Arc<Holder>>,
}

impl Engine {
    /// Does the part of a decision that concerns one gang; nothing if that panicked, and then nothing of it remains.
    pub(super) fn guarded<T>(
        &mut self,
        gang: &GangId,
        round: &mut Round,
        part: impl FnOnce(&mut Self, &mut Round) -> T,
    ) -> Option<T> {
        let before = Checkpoint {
            mark: self.model.state().mark(),
            held: round.held.clone(),
            evictions: round.decision.evictions.len(),
            releases: round.decision.releases.len(),
            bindings: round.commits.get(gang).map_or(0, |commit| commit.bindings.len()),
            holder: round.holder.clone(),
        };
        match caught(|| part(self, round)) {
            Ok(done) => Some(done),
            Err(message) => {
                self.undo(gang, &before, round);
                self.set_aside(gang, message, round);
                None
            }
        }
    }

    fn undo(&mut self, gang: &GangId, before: &Checkpoint, round: &mut Round) {
        round.held.clone_from(&before.held);
        round.keeping = false;
        round.decision.evictions.truncate(before.evictions);
        round.decision.releases.truncate(before.releases);
        round.holder.clone_from(&before.holder);
        // A gang has its turn only while nothing is under way for it, so whatever is now came from this part.
        self.busy.remove(gang);
        self.refused.remove(gang);
        let undone = round.commits.get_mut(gang).map(|commit| {
            let undone = commit.bindings.split_off(before.bindings);
            (undone, commit.bindings.is_empty())
        });
        let (undone, none_left) = undone.unwrap_or_default();
        if none_left {
            round.commits.remove(gang);
            round.order.retain(|other| other != gang);
        }
        let rolled_back = caught(|| self.model.state_mut().rollback(before.mark)).is_ok();
        if rolled_back && !self.model.is_torn() {
            undone.iter().for_each(|bind| self.model.forget(&bind.pod.key));
            return;
        }
        undone
            .iter()
            .for_each(|bind| self.model.forget_after_recovery(&bind.pod.key));
        self.model.recover();
        // What was asked names shapes of the state that is gone.
        round.stale = true;
        round.mark = self.model.state().mark();
        for (pod, node) in round.held.iter() {
            self.model.hold(pod, node);
        }
    }

    fn set_aside(&mut self, gang: &GangId, message: String, round: &mut Round) {
        let failures = self.aside.get(gang).map_or(0, |aside| aside.failures);
        let factor = 1_i32.checked_shl(failures).unwrap_or(i32::MAX);
        let delay = self
            .settings
            .set_back
            .checked_mul(factor)
            .unwrap_or(LONGEST)
            .min(LONGEST);
        let until = round.now.saturating_add(delay).unwrap_or(round.now);
        let text = format!("the scheduler panicked while deciding about this gang and tries again later: {message}");
        let aside = Aside {
            failures: failures.saturating_add(1),
            until,
            reason: Reason::new(ReasonCode::InternalError, text),
            whole: !self.model.has_begun(gang),
        };
        round.reasons.insert(gang.clone(), (aside.reason.clone(), aside.whole));
        wake(&mut round.decision, until);
        self.aside.insert(gang.clone(), aside);
        round.decision.set_aside.push(SetAside {
            gang: gang.clone(),
            message,
        });
    }

    /// Whether a gang is set aside; says why, and when it has its turn again.
    pub(super) fn is_aside(&self, gang: &GangId, round: &mut Round) -> bool {
        let Some(aside) = self.aside.get(gang).filter(|aside| aside.until > round.now) else {
            return false;
        };
        wake(&mut round.decision, aside.until);
        round.reasons.insert(gang.clone(), (aside.reason.clone(), aside.whole));
        true
    }

    /// Forgets those whose time is over and that have not failed again.
    pub(super) fn let_in_again(&mut self, now: Timestamp) {
        self.aside.retain(|_, aside| aside.until > now);
    }
}
