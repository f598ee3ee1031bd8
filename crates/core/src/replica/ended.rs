//! Pods that ended. Each is replaced at its index at once and counts for nothing, but is kept for a while: people read its
//! logs, and clients that restart a whole group when one of its pods failed must see that it failed.
//!
//! What is kept is bounded for each clique in number and in time, so that a pod that fails again and again leaves no more
//! behind than one that failed once. Nothing is kept of a clique that the API server refuses new pods for: a quota may
//! count those that ended.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{CliqueState, Draft, Replica};
use crate::command::{Command, Kind};
use crate::failure::Verb;
use crate::reasons::Reason;
use crate::snapshot::{PodFacts, target_of};

/// Deletes the pods of a clique that ended and are not kept any longer. Returns, by index, the pod that ended last and until
/// when it is kept.
pub(super) fn plan<'a>(
    replica: &Replica<'_>,
    state: &CliqueState<'a>,
    draft: &mut Draft,
) -> BTreeMap<u32, (&'a PodFacts, Option<Timestamp>)> {
    let limits = replica.context.settings.ended_pods;
    let most = if is_refused(replica, state) {
        0
    } else {
        limits.per_clique
    };
    let mut last = BTreeMap::new();
    for (position, pod) in state.ended().into_iter().enumerate() {
        let ended = pod.ended.unwrap_or(pod.created);
        let until = ended.saturating_add(limits.keep_for).unwrap_or(Timestamp::MAX);
        let kept = position < most && until > replica.now;
        if kept {
            draft.wake_at(until);
        } else {
            draft.delete(pod.target());
        }
        if let Some(index) = pod.index {
            last.entry(index).or_insert((pod, kept.then_some(until)));
        }
    }
    last
}

/// Whether the API server refused a pod of the clique when it was tried last.
fn is_refused(replica: &Replica<'_>, state: &CliqueState<'_>) -> bool {
    let uid = state.stored.and_then(|stored| stored.metadata.uid.as_deref());
    let mut failures = replica.snapshot.failures.iter();
    failures.any(|failure| {
        let create = failure.subject.kind == Kind::Pod && failure.subject.verb == Verb::Create;
        create && Some(failure.owner.uid.as_str()) == uid
    })
}

/// The event that reports a replacement.
pub(super) fn replaced(state: &CliqueState<'_>, pod: &PodFacts, kept_until: Option<Timestamp>) -> Option<Command> {
    let stored = state.stored?;
    let fate = match kept_until {
        Some(until) => format!("is kept until {} for its logs", crate::conditions::whole_seconds(until)),
        None => "is deleted".to_owned(),
    };
    Some(Command::Event {
        target: target_of(Kind::PodClique, &stored.metadata),
        warning: true,
        reason: Reason::PodReplaced,
        message: format!("pod {} has ended and is replaced; it {fate}", pod.name),
    })
}
