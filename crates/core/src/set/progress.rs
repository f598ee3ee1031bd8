//! The order of an update: one replica after another, each chosen when the one before it is done.

use coppice_api::types::{PodCliqueSetStatus, PodCliqueSetUpdateProgress, ReplicaUpdateProgress};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::SetSnapshot;
use super::acceptance::Acceptance;
use crate::conditions::whole_seconds;
use crate::context::SetContext;
use crate::replica::ReplicaSummary;

pub(crate) fn advance(
    context: &SetContext<'_>,
    snapshot: &SetSnapshot,
    acceptance: &Acceptance,
    now: Timestamp,
    status: &mut PodCliqueSetStatus,
) {
    let stamp = Time(whole_seconds(now));
    match acceptance {
        Acceptance::Known => {}
        Acceptance::New => {
            status.current_generation_hash = Some(context.generation.label());
            return;
        }
        Acceptance::Adopt(_) => return,
        Acceptance::Changed => {
            status.current_generation_hash = Some(context.generation_hash());
            status.updated_replicas = 0;
            status.update_progress = Some(PodCliqueSetUpdateProgress {
                update_started_at: Some(stamp.clone()),
                update_ended_at: context.on_delete().then(|| stamp.clone()),
                ..PodCliqueSetUpdateProgress::default()
            });
            // The replicas have not seen the new template yet; the first is chosen once they have.
            return;
        }
    }
    let Some(progress) = status.update_progress.as_mut() else {
        return;
    };
    if progress.update_ended_at.is_some() {
        return;
    }
    // A strategy that leaves pods to others has nothing to put in order, also when it was chosen half-way.
    if context.on_delete() {
        progress.update_ended_at = Some(stamp);
        progress.currently_updating.clear();
        return;
    }
    let wanted = |index: i32| {
        u32::try_from(index)
            .ok()
            .filter(|index| *index < context.facts.replicas())
    };
    let active = progress
        .currently_updating
        .first()
        .and_then(|update| wanted(update.replica_index));
    let done = |index: u32| {
        snapshot
            .replicas
            .get(&index)
            .is_some_and(|replica| replica.updated && !replica.updating)
    };
    if active.is_some_and(|index| !done(index)) {
        return;
    }
    let next = snapshot
        .replicas
        .iter()
        .filter(|(index, replica)| **index < context.facts.replicas() && !replica.updated)
        .min_by_key(|(index, replica)| (preference(replica), **index));
    match next {
        // Whose turn is next is decided when the update goes on.
        Some(_) if context.paused() => progress.currently_updating.clear(),
        Some((index, _)) => {
            progress.currently_updating = vec![ReplicaUpdateProgress {
                replica_index: i32::try_from(*index).unwrap_or(i32::MAX),
                update_started_at: Some(stamp),
                ..ReplicaUpdateProgress::default()
            }];
        }
        None => {
            progress.update_ended_at = Some(stamp);
            progress.currently_updating.clear();
        }
    }
}

/// Replicas that serve nothing go first, then those that are about to be replaced anyway.
fn preference(replica: &ReplicaSummary) -> u8 {
    match replica {
        ReplicaSummary { unscheduled: true, .. } => 0,
        ReplicaSummary { breached: true, .. } => 1,
        _ => 2,
    }
}
