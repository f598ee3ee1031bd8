//! What concerns all replicas of a set: which templates are wanted, which components changed, and whose turn it is.

use std::collections::BTreeSet;

use super::types::{OnFailure, Revision};

/// What a user may set of the updates of a set.
#[derive(Clone, Copy, Debug)]
pub struct SetKnobs {
    /// Replicas that are updated at the same time.
    pub max_concurrent_replicas: u32,
    /// What happens when an update makes no progress.
    pub on_failure: OnFailure,
}

/// What is remembered of the update of a set. When it is lost, the scope is found again from the replicas; what is lost
/// for good is which version to go back to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetRecord {
    /// The templates of the set that this record is about, by component.
    pub wanted: Vec<Revision>,
    /// The templates that all replicas had before, by component; empty when it is not known.
    pub previous: Vec<Revision>,
    /// Whether the update was taken back: replicas go to `previous`.
    pub rolled_back: bool,
    /// Components that the update concerns; empty when there is none.
    pub scope: BTreeSet<usize>,
    /// Replicas whose turn it is.
    pub admitted: BTreeSet<u32>,
}

impl SetRecord {
    /// The templates that replicas should have.
    pub fn target(&self) -> &[Revision] {
        if self.rolled_back { &self.previous } else { &self.wanted }
    }
}

/// What is known of one replica.
#[derive(Clone, Debug, Default)]
pub struct ReplicaFacts {
    /// Its index.
    pub index: u32,
    /// For each component the templates that its units have, by its map and by its pods, with those of bridges.
    pub revisions: Vec<BTreeSet<Revision>>,
    /// The templates for which its last plan found nothing left to do.
    pub done_with: Option<Vec<Revision>>,
    /// The templates for which units were placed and did not get ready within the deadline.
    pub failed_with: Option<Vec<Revision>>,
    /// Whether no pod of it has a node.
    pub unscheduled: bool,
    /// Whether some component of it is below its minimum.
    pub breached: bool,
}

impl ReplicaFacts {
    fn is_stale(&self, component: usize, target: &[Revision]) -> bool {
        let revisions = self.revisions.get(component);
        revisions.is_some_and(|all| all.iter().any(|revision| Some(revision) != target.get(component)))
    }

    fn has_stale(&self, target: &[Revision]) -> bool {
        (0..target.len()).any(|component| self.is_stale(component, target))
    }

    /// Whether some component has units at the target and others: what was begun is finished first, also when the record
    /// of it is lost.
    fn is_begun(&self, target: &[Revision]) -> bool {
        let mut components = self.revisions.iter().zip(target);
        components.any(|(revisions, wanted)| revisions.len() > 1 && revisions.contains(wanted))
    }

    fn is_mixed(&self) -> bool {
        self.revisions.iter().any(|revisions| revisions.len() > 1)
    }

    fn is_done(&self, target: &[Revision]) -> bool {
        !self.has_stale(target) && self.done_with.as_deref() == Some(target)
    }
}

/// The record of a set for the templates that its spec has now.
pub fn plan_set(wanted: &[Revision], knobs: SetKnobs, before: &SetRecord, replicas: &[ReplicaFacts]) -> SetRecord {
    let mut record = before.clone();
    if record.wanted != wanted {
        let finished = !before.wanted.is_empty() && before.scope.is_empty();
        // Only a version that every replica had is one to go back to.
        if finished && !before.rolled_back {
            record.previous.clone_from(&before.wanted);
        }
        record.wanted = wanted.to_vec();
        record.rolled_back = false;
        record.admitted.clear();
    }
    let failed = |replica: &ReplicaFacts| replica.failed_with.as_deref() == Some(record.target());
    let known = record.previous.len() == wanted.len() && record.previous != wanted;
    if knobs.on_failure == OnFailure::Rollback && !record.rolled_back && known && replicas.iter().any(failed) {
        record.rolled_back = true;
        record.admitted.clear();
    }
    let target = record.target().to_vec();
    let stale = |component: &usize| replicas.iter().any(|replica| replica.is_stale(*component, &target));
    record.scope.extend((0..target.len()).filter(stale));
    record.scope.retain(|component| *component < target.len());
    let finished = |replica: &&ReplicaFacts| replica.is_done(&target);
    if replicas.iter().all(|replica| finished(&replica)) {
        record.scope.clear();
        record.admitted.clear();
        return record;
    }
    admit(&mut record.admitted, knobs.max_concurrent_replicas, &target, replicas);
    record
}

/// Gives free turns to replicas with stale units: those that were begun, those without a scheduled pod, those that are
/// broken, those that have several versions, then by index.
fn admit(admitted: &mut BTreeSet<u32>, most: u32, target: &[Revision], replicas: &[ReplicaFacts]) {
    let unfinished: BTreeSet<u32> = replicas
        .iter()
        .filter(|replica| !replica.is_done(target))
        .map(|replica| replica.index)
        .collect();
    admitted.retain(|index| unfinished.contains(index));
    let mut waiting: Vec<&ReplicaFacts> = replicas
        .iter()
        .filter(|replica| !admitted.contains(&replica.index) && replica.has_stale(target))
        .collect();
    waiting.sort_by_key(|replica| {
        let later = |earlier: bool| !earlier;
        (
            later(replica.is_begun(target)),
            later(replica.unscheduled),
            later(replica.breached),
            later(replica.is_mixed()),
            replica.index,
        )
    });
    for replica in waiting {
        if admitted.len() >= most.max(1) as usize {
            break;
        }
        admitted.insert(replica.index);
    }
}
