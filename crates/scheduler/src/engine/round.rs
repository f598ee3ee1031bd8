//! One decision while it is made, and what is remembered of a gang that did not fit.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_placement::Reason;
use coppice_placement::state::Mark;
use coppice_runtime::cache::ObjectKey;
use jiff::Timestamp;

use super::floors_first::Kept;
use super::holding::Holder;
use super::{Commit, Decision};
use crate::model::{GangId, Question};

/// Room that is held: pods that do not have it yet, and the nodes where they are to get it.
pub(super) type Room = Vec<(ObjectKey, String)>;

/// What did not fit, and under which circumstances.
pub(super) struct Refused {
    pub(super) room: u64,
    /// What was on the nodes ([`Model::version`](crate::model::Model::version)), and when that was.
    pub(super) version: u64,
    pub(super) at: Timestamp,
    pub(super) question: Question,
    pub(super) reason: Reason,
    pub(super) hold: Room,
    /// The room that was held for others.
    pub(super) held: Arc<Room>,
    /// Whether room could be held for it, and whether it was next among those that have waited for long.
    pub(super) patience: (bool, bool),
    /// It has waited for long, and room is held for it.
    pub(super) holder: Option<Arc<Holder>>,
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
    pub(super) held: Arc<Room>,
    /// Those that have waited for long, and the one of them for which room is held.
    pub(super) due: Vec<GangId>,
    pub(super) holder: Option<Arc<Holder>>,
    /// Room that is kept for gangs below their minimum, and whether the gang whose turn it is has to leave some.
    pub(super) kept: Vec<Kept>,
    pub(super) keeping: bool,
    pub(super) reasons: BTreeMap<GangId, (Reason, bool)>,
    pub(super) decision: Decision,
}

impl Round {
    /// Notes why a gang waits.
    pub(super) fn explain(&mut self, question: &Question, reason: Reason) {
        self.reasons.insert(question.id.clone(), (reason, !question.begun));
    }
}
