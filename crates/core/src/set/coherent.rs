//! A coherent update, as the set sees it: which components it concerns, whose turn it is, and where a rollback leads. All
//! of it stands in `status.updateProgress`; what is lost is found again from the replicas.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::types::{PodCliqueSetStatus, PodCliqueSetUpdateProgress, ReplicaUpdateProgress};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::SetSnapshot;
use super::acceptance::Acceptance;
use crate::components::{ComponentFacts, components, revision_in};
use crate::conditions::whole_seconds;
use crate::context::SetContext;
use crate::reasons::Reason;
use crate::update::coherent::{self, Phase, ReplicaFacts, Revision, SetRecord};
use crate::update::in_step::{StepSummary, knobs_of_set};

/// Brings the status to what the replicas say.
pub(crate) fn advance(
    context: &SetContext<'_>,
    snapshot: &SetSnapshot,
    acceptance: &Acceptance,
    now: Timestamp,
    status: &mut PodCliqueSetStatus,
) {
    let components = components(context);
    let before = read(context, &components, status);
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
        }
    }
    let wanted: Vec<Revision> = components
        .iter()
        .map(|component| Revision::new(&component.wanted))
        .collect();
    let replicas = facts(context, snapshot);
    let record = coherent::plan_set(&wanted, knobs_of_set(context), &before, &replicas);
    let changed = *acceptance == Acceptance::Changed;
    write(&components, &record, snapshot, changed, now, status);
}

/// The record, as the status has it.
fn read(context: &SetContext<'_>, components: &[ComponentFacts], status: &PodCliqueSetStatus) -> SetRecord {
    let hash = status.current_generation_hash.as_deref();
    let wanted: Option<Vec<Revision>> = if context.accepted() == Some(true) {
        Some(
            components
                .iter()
                .map(|component| Revision::new(&component.wanted))
                .collect(),
        )
    } else {
        let stored = hash.and_then(|hash| context.revisions.of_generation(hash));
        stored.and_then(|stored| {
            let all = components
                .iter()
                .map(|component| revision_in(context, component, stored));
            all.map(|hash| hash.map(|hash| Revision::new(&hash))).collect()
        })
    };
    let progress = status.update_progress.as_ref();
    let open = progress.filter(|progress| progress.update_ended_at.is_none());
    let previous = progress.and_then(|progress| {
        let names = components
            .iter()
            .map(|component| progress.previous_revisions.get(&component.name));
        names.map(|hash| hash.map(|hash| Revision::new(hash))).collect()
    });
    let in_scope = |component: &ComponentFacts| {
        open.is_some_and(|progress| {
            progress.in_scope_standalone_pod_cliques.contains(&component.name)
                || progress.in_scope_pod_clique_scaling_groups.contains(&component.name)
        })
    };
    let scope = components
        .iter()
        .enumerate()
        .filter(|(_, component)| in_scope(component));
    let admitted = open.into_iter().flat_map(|progress| &progress.currently_updating);
    SetRecord {
        wanted: wanted.unwrap_or_default(),
        previous: previous.unwrap_or_default(),
        rolled_back: progress.is_some_and(|progress| progress.rolled_back == Some(true)),
        scope: scope.map(|(position, _)| position).collect(),
        admitted: admitted
            .filter_map(|update| u32::try_from(update.replica_index).ok())
            .collect(),
    }
}

fn steps<'a>(context: &SetContext<'_>, snapshot: &'a SetSnapshot) -> impl Iterator<Item = (u32, &'a StepSummary)> {
    let wanted = snapshot.replicas.range(..context.facts.replicas());
    wanted.filter_map(|(index, replica)| Some((*index, replica.step.as_deref()?)))
}

fn facts(context: &SetContext<'_>, snapshot: &SetSnapshot) -> Vec<ReplicaFacts> {
    let facts = |(index, step): (u32, &StepSummary)| {
        let replica = &snapshot.replicas[&index];
        ReplicaFacts {
            index,
            revisions: step.revisions.clone(),
            done_with: step.done.then(|| step.target.clone()),
            failed_with: step.failed.then(|| step.target.clone()),
            unscheduled: replica.unscheduled,
            breached: replica.breached,
        }
    };
    steps(context, snapshot).map(facts).collect()
}

fn write(
    components: &[ComponentFacts],
    record: &SetRecord,
    snapshot: &SetSnapshot,
    changed: bool,
    now: Timestamp,
    status: &mut PodCliqueSetStatus,
) {
    let stamp = Time(whole_seconds(now));
    let open = status
        .update_progress
        .as_ref()
        .is_some_and(|progress| progress.update_ended_at.is_none());
    let finished = record.scope.is_empty() && record.admitted.is_empty();
    if (!finished && !open) || changed {
        status.update_progress = Some(PodCliqueSetUpdateProgress {
            update_started_at: Some(stamp.clone()),
            ..PodCliqueSetUpdateProgress::default()
        });
    }
    let Some(progress) = status.update_progress.as_mut() else {
        return;
    };
    let named = components.iter().zip(&record.previous);
    progress.previous_revisions = named
        .map(|(component, revision)| (component.name.clone(), revision.to_string()))
        .collect();
    progress.rolled_back = record.rolled_back.then_some(true);
    let in_scope = |group: bool| -> Vec<String> {
        let scope = record.scope.iter().map(|component| &components[*component]);
        let named = scope.filter(|component| component.group.is_some() == group);
        let sorted: BTreeSet<String> = named.map(|component| component.name.clone()).collect();
        sorted.into_iter().collect()
    };
    progress.in_scope_standalone_pod_cliques = in_scope(false);
    progress.in_scope_pod_clique_scaling_groups = in_scope(true);
    if finished {
        progress.currently_updating.clear();
        progress.update_ended_at.get_or_insert(stamp);
        return;
    }
    let before: BTreeMap<i32, ReplicaUpdateProgress> = std::mem::take(&mut progress.currently_updating)
        .into_iter()
        .map(|update| (update.replica_index, update))
        .collect();
    let updating = record.admitted.iter().map(|index| {
        let key = i32::try_from(*index).unwrap_or(i32::MAX);
        let old = before.get(&key);
        let step = snapshot.replicas.get(index).and_then(|replica| replica.step.as_deref());
        described(key, old, step, &stamp)
    });
    progress.currently_updating = updating.collect();
}

/// One replica whose turn it is.
fn described(
    index: i32,
    old: Option<&ReplicaUpdateProgress>,
    step: Option<&StepSummary>,
    stamp: &Time,
) -> ReplicaUpdateProgress {
    let phase = step.filter(|step| !matches!(step.phase, Phase::Idle | Phase::Queued));
    ReplicaUpdateProgress {
        replica_index: index,
        update_started_at: old
            .and_then(|old| old.update_started_at.clone())
            .or_else(|| Some(stamp.clone())),
        in_flight_epochs: step
            .into_iter()
            .flat_map(|step| &step.in_flight)
            .map(ToString::to_string)
            .collect(),
        message: phase
            .map(|step| step.message.clone())
            .filter(|message| !message.is_empty()),
        phase: phase.map(|step| format!("{:?}", step.phase)),
        reason: phase
            .and_then(|step| reason(step.reason))
            .map(|reason| reason.as_str().to_owned()),
        components: step.map(|step| step.components.clone()).unwrap_or_default(),
        unknown: old.map(|old| old.unknown.clone()).unwrap_or_default(),
        ..ReplicaUpdateProgress::default()
    }
}

/// The documented reason of a wait.
pub(crate) fn reason(reason: coherent::Reason) -> Option<Reason> {
    Some(match reason {
        coherent::Reason::None => return None,
        coherent::Reason::WaitingForTurn => Reason::WaitingForUpdateTurn,
        coherent::Reason::Paused => Reason::UpdatePaused,
        coherent::Reason::GangUnschedulable => Reason::GangUnschedulable,
        coherent::Reason::SurgeCapacityUnavailable => Reason::SurgeCapacityUnavailable,
        coherent::Reason::UnitsNotReady => Reason::UnitsNotReady,
        coherent::Reason::BudgetExhausted => Reason::BudgetExhausted,
        coherent::Reason::RevisionMissing => Reason::RevisionMissing,
    })
}

/// The first replica whose update stands still, why, and in words.
pub(crate) fn stalled(context: &SetContext<'_>, snapshot: &SetSnapshot) -> Option<(Reason, String)> {
    let mut stalled = steps(context, snapshot).filter(|(_, step)| step.phase == Phase::Stalled);
    let (index, step) = stalled.next()?;
    let why = reason(step.reason).unwrap_or(Reason::ProgressDeadlineExceeded);
    Some((why, format!("replica {index}: {}", step.message)))
}

/// The names of the revisions that something still needs: for each template of a component that is in use, or that a
/// rollback leads to, and that is not the set's of today, the newest revision that holds it.
pub(crate) fn in_use(context: &SetContext<'_>, snapshot: &SetSnapshot) -> BTreeSet<String> {
    if !context.coherent() {
        return BTreeSet::new();
    }
    let components = components(context);
    let status = context.facts.set.status.as_ref();
    let progress = status.and_then(|status| status.update_progress.as_ref());
    let mut needed: Vec<BTreeSet<String>> = vec![BTreeSet::new(); components.len()];
    for step in snapshot.replicas.values().filter_map(|replica| replica.step.as_deref()) {
        for (needed, revisions) in needed.iter_mut().zip(&step.revisions) {
            needed.extend(revisions.iter().map(ToString::to_string));
        }
    }
    for (component, needed) in components.iter().zip(&mut needed) {
        needed.extend(progress.and_then(|progress| progress.previous_revisions.get(&component.name).cloned()));
        needed.remove(&component.wanted);
    }
    let mut stored: Vec<_> = context.revisions.iter().collect();
    stored.sort_by_key(|stored| std::cmp::Reverse(stored.number));
    let mut names = BTreeSet::new();
    for (component, needed) in components.iter().zip(&needed) {
        for wanted in needed {
            let mut newest = stored.iter();
            let newest = newest.find(|stored| revision_in(context, component, stored).as_ref() == Some(wanted));
            names.extend(newest.map(|stored| stored.name.clone()));
        }
    }
    names
}
