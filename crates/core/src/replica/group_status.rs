//! What a PodCliqueScalingGroup says of itself: how many of its copies are scheduled, available and updated.

use coppice_api::names::selectors::scaling_group_selector;
use coppice_api::types::{PodCliqueScalingGroup, PodCliqueScalingGroupStatus, PodCliqueScalingGroupUpdateProgress};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{CliqueState, Draft, Replica};
use crate::command::{Command, Kind, Urgency, status_patch};
use crate::conditions::{self, ConditionType, Verdict, whole_seconds};
use crate::health::breach;
use crate::health::terminating::Terminating;
use crate::reasons::Reason;
use crate::snapshot::target_of;
use crate::update::Rolling;
use crate::update::budget::Budget;
use crate::update::in_progress::{self, Open};

/// Copies of one group, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GroupCounts {
    pub(crate) scheduled: u32,
    pub(crate) available: u32,
    pub(crate) updated: u32,
    pub(crate) updated_cliques: u32,
    pub(crate) total_cliques: u32,
    /// Whether at least the minimum of copies is available.
    pub(crate) available_enough: bool,
    /// Whether all copies are updated.
    pub(crate) updated_all: bool,
    /// Whether the group has fallen below its minimum of copies.
    pub(crate) breached: bool,
    /// Whether it is being updated and makes no progress.
    pub(crate) stuck: bool,
    /// Whether the stored status could be read as "updated" by more copies than are.
    pub(crate) overstated: bool,
}

pub(crate) fn plan(
    replica: &Replica<'_>,
    rolling: &Rolling,
    terminating: &Terminating,
    draft: &mut Draft,
) -> Vec<GroupCounts> {
    (0..replica.layout.groups.len())
        .map(|group| {
            let mut counts = count(replica, group);
            let name = &replica.layout.groups[group].name;
            if let Some(stored) = replica
                .snapshot
                .groups
                .get(name)
                .filter(|group| group.metadata.deletion_timestamp.is_none())
            {
                let updating = rolling.groups.contains(&group);
                write(
                    replica,
                    group,
                    stored,
                    &mut counts,
                    (updating, rolling.excuses_group(group)),
                    terminating,
                    draft,
                );
            }
            counts
        })
        .collect()
}

fn count(replica: &Replica<'_>, group: usize) -> GroupCounts {
    let layout = &replica.layout.groups[group];
    let mut counts = GroupCounts::default();
    for copy in layout.permanent() {
        let members: Vec<&CliqueState<'_>> = replica.cliques[layout.members(copy)].iter().collect();
        let updated = members.iter().filter(|state| state.updated()).count();
        counts.total_cliques += u32::try_from(members.len()).unwrap_or(0);
        counts.updated_cliques += u32::try_from(updated).unwrap_or(0);
        let scheduled = members
            .iter()
            .all(|state| state.alive() && state.scheduled() >= state.min_available);
        let available = scheduled && members.iter().all(|state| state.available());
        counts.scheduled += u32::from(scheduled);
        counts.available += u32::from(available);
        counts.updated += u32::from(available && updated == members.len());
    }
    let minimum = replica.context.facts.groups[group].min_available.min(layout.wanted);
    counts.available_enough = counts.available >= minimum;
    counts.updated_all = counts.updated == layout.wanted;
    counts
}

fn write(
    replica: &Replica<'_>,
    group: usize,
    stored: &PodCliqueScalingGroup,
    counts: &mut GroupCounts,
    (updating, excused): (bool, bool),
    terminating: &Terminating,
    draft: &mut Draft,
) {
    let layout = &replica.layout.groups[group];
    let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    let before = stored.status.clone().unwrap_or_default();
    let says = u32::try_from(before.updated_replicas).unwrap_or(0);
    counts.overstated = before.observed_generation == stored.metadata.generation && says > counts.updated;
    let mut status = before.clone();
    status.observed_generation = stored.metadata.generation;
    status.last_errors = replica.errors_of(&stored.metadata, &before.last_errors);
    status.replicas = number(layout.wanted);
    status.scheduled_replicas = number(counts.scheduled);
    status.available_replicas = number(counts.available);
    status.updated_replicas = number(counts.updated);
    status.selector = Some(scaling_group_selector(replica.context.facts.name(), &layout.name));
    if counts.updated_all && !updating {
        status.current_pod_clique_set_generation_hash = Some(replica.context.generation_hash());
    }
    progress(replica, counts, updating, before.updated_replicas, &mut status);
    counts.stuck = report_update(replica, group, counts, updating, &mut status, draft);
    let verdict = breach::of_group(replica, group, counts.available, excused);
    counts.breached = verdict.status == Some(true);
    breach::record(&mut status.conditions, verdict, stored.metadata.generation, replica);
    let terminated = (0..replica.cliques.len())
        .any(|index| terminating.contains(index) && replica.cliques[index].copy_of(group).is_some());
    if terminated {
        let verdict = Verdict {
            kind: ConditionType::GangTerminationInProgress,
            status: Some(true),
            reason: Reason::GangTerminationActive,
            message: "pods of the group are being replaced as a whole".to_owned(),
        };
        conditions::set(&mut status.conditions, verdict, stored.metadata.generation, replica.now);
    } else {
        conditions::remove(&mut status.conditions, ConditionType::GangTerminationInProgress);
    }
    let lost_all = before.scheduled_replicas > 0 && counts.scheduled == 0 && layout.wanted > 0;
    if lost_all && !updating && !terminated {
        draft.statuses.push(Command::Event {
            target: target_of(Kind::PodCliqueScalingGroup, &stored.metadata),
            warning: true,
            reason: Reason::AllScheduledReplicasLost,
            message: "the last copy of the group that had its minimum on nodes has fallen below it".to_owned(),
        });
    }
    let flipped = conditions::is_true(&before.conditions, ConditionType::MinAvailableBreached) != counts.breached;
    let settled = counts.available == layout.wanted;
    let target = |status: &PodCliqueScalingGroupStatus| {
        let progress = status.update_progress.as_ref();
        progress.map(|progress| progress.pod_clique_set_generation_hash.clone())
    };
    let begun = target(&before) != target(&status);
    let news = before.last_errors != status.last_errors || counts.overstated;
    let urgency = if flipped || begun || news {
        Urgency::Now
    } else if settled {
        Urgency::Settled
    } else {
        Urgency::Settling
    };
    if let Some(patch) = status_patch(stored.status.as_ref(), &status) {
        let command = Command::Status {
            target: target_of(Kind::PodCliqueScalingGroup, &stored.metadata),
            patch,
            urgency,
        };
        // That an update has begun is written before pods go: whoever takes over half-way must know of it.
        if begun {
            draft.gangs.push(command);
        } else {
            draft.statuses.push(command);
        }
    }
}

fn progress(
    replica: &Replica<'_>,
    counts: &GroupCounts,
    updating: bool,
    updated_before: i32,
    status: &mut PodCliqueScalingGroupStatus,
) {
    let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    let now = Time(whole_seconds(replica.now));
    let generation = replica.context.generation_hash();
    let begun = status
        .update_progress
        .as_ref()
        .is_some_and(|progress| progress.pod_clique_set_generation_hash == generation);
    if updating && !begun {
        status.update_progress = Some(PodCliqueScalingGroupUpdateProgress {
            update_started_at: now.clone(),
            update_ended_at: None,
            last_progressed_at: Some(now.clone()),
            pod_clique_set_generation_hash: generation,
            updated_pod_cliques_count: 0,
            total_pod_cliques_count: 0,
            ready_replica_indices_selected_to_update: None,
            unknown: Default::default(),
        });
    }
    if let Some(progress) = status.update_progress.as_mut() {
        progress.updated_pod_cliques_count = number(counts.updated_cliques);
        progress.total_pod_cliques_count = number(counts.total_cliques);
        if progress.update_ended_at.is_some() {
            return;
        }
        if !updating && (counts.updated_all || replica.context.on_delete()) {
            progress.update_ended_at = Some(now);
            progress.last_progressed_at = None;
            progress.ready_replica_indices_selected_to_update = None;
        } else if status.updated_replicas > updated_before || progress.last_progressed_at.is_none() {
            progress.last_progressed_at = Some(now);
        }
    }
}

/// Says whether the group is being updated. Returns whether it makes no progress.
fn report_update(
    replica: &Replica<'_>,
    group: usize,
    counts: &GroupCounts,
    updating: bool,
    status: &mut PodCliqueScalingGroupStatus,
    draft: &mut Draft,
) -> bool {
    let budget = Budget::of(replica.context.facts.groups[group].config.rolling_update.as_ref());
    let progress = status.update_progress.as_ref();
    let open = progress.filter(|progress| progress.update_ended_at.is_none());
    let open = open.map(|progress| Open {
        updated: counts.updated,
        desired: replica.layout.groups[group].wanted,
        last_progress: progress.last_progressed_at.as_ref().map_or(replica.now, |time| time.0),
        budget: updating.then_some(budget),
    });
    let report = in_progress::report(open, "copies", replica.now);
    if let Some(at) = report.wake_at {
        draft.wake_at(at);
    }
    conditions::set(
        &mut status.conditions,
        report.verdict,
        status.observed_generation,
        replica.now,
    );
    report.stuck
}
