//! The attempt of a clique: the number that the names of its new pods are made from.
//!
//! No name may come twice in the life of a clique, and a create that is repeated must meet its own pod. So the number is
//! stored in the clique's status, and raised by a conditional write before the first pod with it is created, whenever a pod
//! with the stored number has gone or is going. Pods of an undisturbed deployment all have the number zero, which is not
//! written at all. That a pod went is known from the pod itself while it is leaving, from the shell when it saw it go, and
//! otherwise from the count in the same status; a count alone may also mean that the pods are not visible yet, so
//! it is confirmed before anything is created.

use std::sync::Arc;

use coppice_api::names::pod_names::pod_name;
use coppice_api::types::PodClique;

use crate::snapshot::PodFacts;

/// The attempts of one clique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// The stored number.
    pub stored: u32,
    /// The number for new pods.
    pub next: u32,
    /// Whether only a count says that pods went: they may not be visible yet.
    pub unconfirmed: bool,
}

impl Attempt {
    /// Reads the attempt of a clique. `leaving` are pods that are being deleted or have ended, `departed` those that were
    /// seen to go, and `visible` is how many of its pods run or are being deleted.
    pub(crate) fn read<'a>(
        stored: Option<&PodClique>,
        leaving: impl Iterator<Item = &'a Arc<PodFacts>>,
        departed: impl Iterator<Item = &'a Arc<PodFacts>>,
        visible: usize,
    ) -> Self {
        let Some(stored) = stored else { return Self::default() };
        let attempt = stored_attempt(stored);
        let uid = stored.metadata.uid.as_deref().unwrap_or_default();
        let departed = departed.filter(|pod| pod.owner_uid == uid);
        let used = leaving.chain(departed).any(|pod| has_attempt(stored, pod));
        let counted = stored.status.as_ref().map_or(0, |status| status.replicas);
        let fewer = usize::try_from(counted).unwrap_or(0) > visible;
        Self {
            stored: attempt,
            next: attempt.saturating_add(u32::from(used || fewer)),
            unconfirmed: fewer && !used,
        }
    }

    /// Whether the number must be stored before a pod is created with it.
    pub fn is_raised(self) -> bool {
        self.next != self.stored
    }

    /// The name of a new pod with this index.
    pub(crate) fn pod_name(self, clique: &str, index: u32) -> String {
        pod_name(clique, index, &self.token())
    }

    /// What names are made from.
    pub(crate) fn token(self) -> String {
        self.next.to_string()
    }
}

fn stored_attempt(clique: &PodClique) -> u32 {
    let stored = clique.status.as_ref().and_then(|status| status.pod_attempt);
    stored.and_then(|attempt| u32::try_from(attempt).ok()).unwrap_or(0)
}

/// Whether a pod that is gone has a name of the stored attempt, so that the attempt must be raised. Others need not be
/// remembered.
pub fn has_attempt(clique: &PodClique, pod: &PodFacts) -> bool {
    let name = clique.metadata.name.as_deref().unwrap_or_default();
    let token = stored_attempt(clique).to_string();
    pod.index.is_some_and(|index| pod.name == pod_name(name, index, &token))
}
