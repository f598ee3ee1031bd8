//! Volumes between a plan and its bindings: what is promised meanwhile, and what becomes of a gang whose volumes did not come.
//!
//! Owns the promises to claims while a gang is being bound, so that no other gang counts on the same volume or another place for
//! the same claim, and the pause of a gang after its claims were not bound in time: its room is free for others, and it
//! waits with the reason, longer each time. Never writes to a claim.

use std::collections::{BTreeMap, BTreeSet};

use coppice_placement::{Reason, ReasonCode};
use coppice_runtime::cache::ObjectKey;
use jiff::{SignedDuration, Timestamp};

use super::{Commit, Engine};
use crate::model::volumes::Provision;
use crate::model::{GangId, Model};

/// The first pause, and the longest.
const FIRST: SignedDuration = SignedDuration::from_secs(30);
const LONGEST: SignedDuration = SignedDuration::from_mins(10);

#[derive(Debug, Clone)]
struct Failed {
    message: String,
    until: Timestamp,
    pause: SignedDuration,
}

/// What is promised, and what failed.
#[derive(Debug, Default)]
pub(super) struct Volumes {
    promised: BTreeMap<GangId, BTreeSet<ObjectKey>>,
    failed: BTreeMap<GangId, Failed>,
}

impl Volumes {
    /// Adds claims to a commit, and promises them what the plan chose.
    pub(super) fn promise(&mut self, model: &mut Model, commit: &mut Commit, provisions: Vec<Provision>) {
        for provision in provisions {
            if commit.volumes.iter().any(|known| known.claim == provision.claim) {
                continue;
            }
            model.promise(&provision.claim, provision.promise.clone());
            let promised = self.promised.entry(commit.gang.clone()).or_default();
            promised.insert(provision.claim.clone());
            commit.volumes.push(provision);
        }
    }

    /// Nothing is under way for the gang any more.
    pub(super) fn done(&mut self, model: &mut Model, gang: &GangId) {
        for claim in self.promised.remove(gang).into_iter().flatten() {
            // Another gang may have been promised the same.
            if !self.promised.values().any(|claims| claims.contains(&claim)) {
                model.end_promise(&claim);
            }
        }
    }

    /// Why a gang pauses, and until when.
    pub(super) fn failed(&self, gang: &GangId, now: Timestamp) -> Option<(Reason, Timestamp)> {
        let failed = self.failed.get(gang).filter(|failed| failed.until > now)?;
        let message = format!(
            "{}; its room is free, and it is planned again at {}",
            failed.message, failed.until
        );
        Some((Reason::new(ReasonCode::VolumeNotReady, message), failed.until))
    }

    pub(super) fn retain(&mut self, model: &Model) {
        let waiting: BTreeSet<&GangId> = if self.failed.is_empty() {
            BTreeSet::new()
        } else {
            model.waiting().collect()
        };
        // While it is tried again it is known how often it has failed.
        self.failed
            .retain(|gang, _| waiting.contains(gang) || self.promised.contains_key(gang));
    }
}

impl Engine {
    /// The claims of a gang were not bound: none of its pods is, and it waits for a while.
    pub fn volumes_failed(&mut self, gang: &GangId, message: String, now: Timestamp) {
        let pause = self.volumes.failed.get(gang).map_or(FIRST, |failed| {
            failed.pause.checked_mul(2).unwrap_or(LONGEST).min(LONGEST)
        });
        let until = now.saturating_add(pause).unwrap_or(now);
        // Whole seconds: the message says when.
        let until = Timestamp::from_second(until.as_second()).unwrap_or(until);
        let failed = Failed { message, until, pause };
        self.volumes.failed.insert(gang.clone(), failed);
    }
}
