//! One decision while it is made, and what is remembered of a gang that did not fit.

use std::collections::BTreeMap;

use coppice_placement::Reason;
use coppice_placement::state::Mark;
use coppice_runtime::cache::ObjectKey;
use jiff::Timestamp;

use super::{Commit, Decision};
use crate::model::{GangId, Question};

/// Room that is held: pods that do not have it yet, and the nodes where they are to get it.
pub(super) type Room = Vec<(ObjectKey, String)>;

/// What did not fit, and under which circumstances.
pub(super) struct Refused {
    pub(super) room: u64,
    pub(super) question: Question,
    pub(super) reason: Reason,
    pub(super) hold: Room,
    /// The room that was held for others.
    pub(super) held: Room,
    /// Whether it had waited for long, and somebody else had the room that is held against that.
    pub(super) patience: (bool, bool),
    pub(super) locks: bool,
}

/// One decision while it is made.
pub(super) struct Round {
    pub(super) now: Timestamp,
    /// The state before anything was held.
    pub(super) mark: Mark,
    /// The state was built again: what was asked before must be asked again.
    pub(super) stale: bool,
    pub(super) commits: BTreeMap<GangId, Commit>,
    pub(super) order: Vec<GangId>,
    /// Gangs that lose pods in this decision.
    pub(super) gone: Vec<GangId>,
    /// Room that is held so far.
    pub(super) held: Room,
    /// Somebody has the room that is held against starvation.
    pub(super) locked: bool,
    pub(super) reasons: BTreeMap<GangId, (Reason, bool)>,
    pub(super) decision: Decision,
}

impl Round {
    /// Notes why a gang waits.
    pub(super) fn explain(&mut self, question: &Question, reason: Reason) {
        self.reasons.insert(question.id.clone(), (reason, !question.begun));
    }
}
