//! What a PodCliqueSet says of itself. `Ready`, `Progressing` and `Degraded` follow the conventions that generic tools
//! understand: a set is done when it is Ready and its observed generation is its generation.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::admission::not_guaranteed;
use coppice_api::names::selectors::set_selector;
use coppice_api::types::{LastError, PodCliqueSetStatus, PodGangPhase, PodGangSummary};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::SetSnapshot;
use crate::conditions::{self, ConditionType, Verdict, whole_seconds};
use crate::context::SetContext;
use crate::draft::Wait;
use crate::packing::{referenced_domains, topology_name};
use crate::reasons::Reason;
use crate::replica::ReplicaSummary;
use crate::report;
use crate::update::in_progress;

/// The code of an error about a missing ResourceClaimTemplate.
pub(crate) const TEMPLATE_ERROR: &str = "ERR_GET_RESOURCECLAIMTEMPLATE";

/// Gangs that a status lists at most. Where there are more, those that run are left out.
const MOST_GANGS: usize = 256;

pub(crate) fn count(
    context: &SetContext<'_>,
    snapshot: &SetSnapshot,
    missing: &BTreeSet<String>,
    accepted: bool,
    now: Timestamp,
    status: &mut PodCliqueSetStatus,
) {
    let set = context.facts.set;
    let replicas = context.facts.replicas();
    let wanted: Vec<&ReplicaSummary> = snapshot
        .replicas
        .range(..replicas)
        .map(|(_, replica)| replica)
        .collect();
    let number = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
    // A generation is observed when every count of the same status speaks of it, and no status below claims to be
    // updated that is not: readers take the two together for "done".
    if accepted && wanted.iter().all(|replica| replica.truthful) {
        status.observed_generation = set.metadata.generation;
    }
    status.replicas = set.spec.replicas;
    status.available_replicas = number(wanted.iter().filter(|replica| replica.available).count());
    status.updated_replicas = number(
        wanted
            .iter()
            .filter(|replica| replica.available && replica.updated)
            .count(),
    );
    status.hpa_pod_selector = Some(set_selector(context.facts.name()));
    if let Some(progress) = status.update_progress.as_mut() {
        let sum = |part: fn(&ReplicaSummary) -> i32| wanted.iter().map(|replica| part(replica)).sum();
        progress.total_pod_cliques_count = sum(|replica| replica.cliques.0);
        progress.updated_pod_cliques_count = sum(|replica| replica.cliques.1);
        progress.total_pod_clique_scaling_groups_count = sum(|replica| replica.groups.0);
        progress.updated_pod_clique_scaling_groups_count = sum(|replica| replica.groups.1);
    }
    status.pod_gang_statuses = gangs(&wanted);
    let updating = status
        .update_progress
        .as_ref()
        .is_some_and(|progress| progress.update_ended_at.is_none());
    let breached: Vec<u32> = snapshot
        .replicas
        .iter()
        .filter(|(index, replica)| **index < replicas && replica.breached)
        .map(|(index, _)| *index)
        .collect();
    let of_set = report::last_errors(snapshot.failures.iter(), &status.last_errors);
    let lacking = missing_templates(missing, now);
    let excess = context.facts.too_many_replicas().then(|| {
        format!(
            "PodCliqueSet {} asks for {replicas} replicas, at most {} are possible",
            context.facts.name(),
            coppice_api::sizes::MOST_REPLICAS
        )
    });
    let too_large = report::too_large(excess.as_slice(), now);
    let errors = too_large
        .iter()
        .chain(&lacking)
        .chain(&of_set)
        .chain(snapshot.replicas.values().flat_map(|replica| &replica.errors));
    status.last_errors = report::combined(errors, &status.last_errors);
    for error in &mut status.last_errors {
        // A summary does not know when: it must not change because time passes.
        if error.observed_at.0 == Timestamp::UNIX_EPOCH {
            error.observed_at = Time(whole_seconds(now));
        }
    }
    let oversized = status.last_errors.iter().any(|error| error.code == report::TOO_LARGE);
    let why = if oversized {
        Reason::TooLarge
    } else if missing.is_empty() {
        Reason::WriteRefused
    } else {
        Reason::ResourceClaimTemplateNotFound
    };
    let first = status.last_errors.iter().find(|error| error.code == report::TOO_LARGE);
    let first = first.or(status.last_errors.first());
    let refused = first.map(|error| error.description.clone());
    let available = status.available_replicas;
    let all = available == set.spec.replicas;
    let generation = status.observed_generation;
    let mut say = |kind, holds: bool, reason, message| {
        conditions::set(
            &mut status.conditions,
            Verdict {
                kind,
                status: Some(holds),
                reason,
                message,
            },
            generation,
            now,
        );
    };
    let stuck = wanted.iter().flat_map(|replica| &replica.stuck);
    let stuck: Vec<&str> = stuck.map(String::as_str).collect();
    let stall = stall(snapshot, replicas).filter(|_| !all).unwrap_or_default();
    let message = format!(
        "{available} of {replicas} replicas are available{stall}{}",
        unplaced(&wanted)
    );
    say(
        ConditionType::Ready,
        all && !updating,
        match (all, updating) {
            (true, false) => Reason::AllReplicasAvailable,
            (true, true) => Reason::UpdateInProgress,
            (false, _) => Reason::ReplicasUnavailable,
        },
        if all && updating {
            format!("{message}; an update is in progress")
        } else {
            message
        },
    );
    let (reason, message) = if updating {
        let message = match in_progress::named(&stuck) {
            Some(stuck) => format!("an update is in progress; {stuck} made no progress within progressDeadline"),
            None => "an update is in progress".to_owned(),
        };
        (Reason::UpdateInProgress, message)
    } else if all {
        (Reason::AllReplicasAvailable, "everything is as asked for".to_owned())
    } else {
        (
            Reason::ReplicasUnavailable,
            format!("waiting for replicas to become available{stall}"),
        )
    };
    let stalled = super::coherent::stalled(context, snapshot).filter(|_| updating);
    match &stalled {
        Some((reason, message)) => say(ConditionType::Progressing, false, *reason, message.clone()),
        None => say(ConditionType::Progressing, updating || !all, reason, message),
    }
    let (degraded, reason, message) = match (breached.first(), refused) {
        (None, None) => (
            false,
            Reason::AllReplicasAvailable,
            "no replica has fallen below its minimum".to_owned(),
        ),
        (None, Some(refused)) => (true, why, refused),
        (Some(first), refused) => {
            let mut message = format!(
                "{} replicas have fallen below their minimum, the first is {first}",
                breached.len()
            );
            message.push_str(&stall);
            if let Some(refused) = refused {
                message.push_str(&format!("; besides: {refused}"));
            }
            (true, Reason::BelowMinAvailable, message)
        }
    };
    say(ConditionType::Degraded, degraded, reason, message);
    let updated = wanted.iter().filter(|replica| replica.updated).count();
    let verdict = in_progress::of_set(
        updating,
        context.paused(),
        (updated, replicas),
        &stuck,
        stalled.as_ref().map(|(_, message)| message.as_str()),
    );
    conditions::set(&mut status.conditions, verdict, generation, now);
    topology(context, now, status);
    guarantees(context, now, status);
    if wanted.len() == replicas as usize && wanted.iter().all(|replica| replica.mapped) {
        conditions::remove(&mut status.conditions, ConditionType::PodGangMigrationInProgress);
    }
}

/// Copies above the minimum of their groups that no scheduler found a place for, in words that follow a sentence.
fn unplaced(wanted: &[&ReplicaSummary]) -> String {
    let mut of_groups: BTreeMap<&str, (u32, u32)> = BTreeMap::new();
    for (group, (unplaced, copies)) in wanted.iter().flat_map(|replica| &replica.unplaced) {
        let (all_unplaced, all_copies) = of_groups.entry(group).or_default();
        *all_unplaced += unplaced;
        *all_copies += copies;
    }
    let words = of_groups.into_iter();
    words
        .map(|(group, (unplaced, all))| format!("; {unplaced} of {all} copies of {group} cannot be placed"))
        .collect()
}

/// What keeps a replica of the set from going on, in words that follow a sentence: the one that ends first.
fn stall(snapshot: &SetSnapshot, replicas: u32) -> Option<String> {
    let stalled = snapshot
        .replicas
        .range(..replicas)
        .filter_map(|(index, replica)| Some((index, replica.stall.as_ref()?)));
    let foremost = Wait::foremost(stalled.clone().map(|(_, wait)| wait))?;
    let (index, wait) = stalled.into_iter().find(|(_, wait)| *wait == foremost)?;
    Some(format!("; replica {index}, {}: {}", wait.about, wait.message))
}

/// Whether the scheduler of the set places gangs as wholes. What admission warned of stays readable.
fn guarantees(context: &SetContext<'_>, now: Timestamp, status: &mut PodCliqueSetStatus) {
    let set = context.facts.set;
    let lost = match context.backend().kind() {
        None => not_guaranteed(set, context.scheduler()),
        // What such a scheduler cannot express is a condition of the PodGang.
        Some(_) => Vec::new(),
    };
    if lost.is_empty() {
        conditions::remove(&mut status.conditions, ConditionType::GangsNotGuaranteed);
        return;
    }
    let verdict = Verdict {
        kind: ConditionType::GangsNotGuaranteed,
        status: Some(true),
        reason: Reason::PodsPlacedOneByOne,
        message: lost.join("; "),
    };
    conditions::set(&mut status.conditions, verdict, set.metadata.generation, now);
}

/// What is said of guarantees that the set does not have.
pub(super) fn told_guarantees(status: &PodCliqueSetStatus) -> Option<&str> {
    conditions::find(&status.conditions, ConditionType::GangsNotGuaranteed).map(|condition| condition.message.as_str())
}

/// How far the gangs are, in the order of replicas. Their conditions are on the PodGangs themselves.
fn gangs(wanted: &[&ReplicaSummary]) -> Vec<PodGangSummary> {
    let all = wanted.iter().flat_map(|replica| replica.gangs.iter());
    let few = wanted.iter().map(|replica| replica.gangs.len()).sum::<usize>() <= MOST_GANGS;
    all.filter(|(_, phase)| few || *phase != PodGangPhase::Running)
        .take(MOST_GANGS)
        .map(|(name, phase)| PodGangSummary {
            name: name.clone(),
            phase: phase.clone(),
            conditions: Vec::new(),
            unknown: Default::default(),
        })
        .collect()
}

/// Templates that are missing, as an error of the set.
fn missing_templates(missing: &BTreeSet<String>, now: Timestamp) -> Option<LastError> {
    let names: Vec<&str> = missing.iter().map(String::as_str).collect();
    (!names.is_empty()).then(|| LastError {
        code: TEMPLATE_ERROR.to_owned(),
        description: format!(
            "there is no ResourceClaimTemplate {}: pods that share its claims wait; create it",
            names.join(", ")
        ),
        observed_at: Time(whole_seconds(now)),
        unknown: Default::default(),
    })
}

/// Whether the levels that the set's constraints name exist.
fn topology(context: &SetContext<'_>, now: Timestamp, status: &mut PodCliqueSetStatus) {
    let domains = referenced_domains(context.facts.set);
    let verdict = |state, reason, message| Verdict {
        kind: ConditionType::TopologyLevelsUnavailable,
        status: state,
        reason,
        message,
    };
    let verdict = if !context.settings.topology_aware {
        if domains.is_empty() {
            conditions::remove(&mut status.conditions, ConditionType::TopologyLevelsUnavailable);
            return;
        }
        verdict(
            None,
            Reason::TopologyAwareSchedulingDisabled,
            "topology-aware scheduling is switched off; packing is not enforced".into(),
        )
    } else if domains.is_empty() {
        verdict(
            Some(false),
            Reason::AllClusterTopologyLevelsAvailable,
            "the set has no topology constraint".into(),
        )
    } else {
        match (topology_name(context.facts.set), context.topology) {
            (None, _) => verdict(
                None,
                Reason::TopologyNameMissing,
                "no topologyConstraint names a topology".into(),
            ),
            (Some(name), None) => verdict(
                None,
                Reason::ClusterTopologyNotFound,
                format!("there is no ClusterTopologyBinding {name}"),
            ),
            (Some(name), Some(topology)) => {
                let missing: Vec<&str> = domains
                    .iter()
                    .map(String::as_str)
                    .filter(|domain| !topology.keys.contains_key(*domain))
                    .collect();
                if missing.is_empty() {
                    verdict(
                        Some(false),
                        Reason::AllClusterTopologyLevelsAvailable,
                        format!("all levels exist in {name}"),
                    )
                } else {
                    let message = format!("{name} has no level {}", missing.join(", "));
                    verdict(Some(true), Reason::ClusterTopologyLevelsUnavailable, message)
                }
            }
        }
    };
    conditions::set(
        &mut status.conditions,
        verdict,
        context.facts.set.metadata.generation,
        now,
    );
}
