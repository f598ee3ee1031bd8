//! What the operator says of a PodGang: whether its pods exist, have nodes and are ready. Conditions of others, such
//! as a scheduler's, are kept.

use std::collections::BTreeMap;

use coppice_api::types::PodGangPhase;

use super::clique_status::report_wait;
use super::pod_groups::{self, PodGroupReports};
use super::pods::PodNames;
use super::{Draft, Replica, Wait};
use crate::command::{Command, Kind, Urgency, status_patch};
use crate::conditions::{self, ConditionType, Verdict};
use crate::layout::GangLayout;
use crate::reasons::Reason;
use crate::snapshot::{PodFacts, target_of};

/// The condition that Coppice's scheduler owns: whether the pods of a gang have places.
const PLACED: &str = "Placed";

/// Returns how far each gang is.
pub(crate) fn plan(
    replica: &Replica<'_>,
    pods: &PodNames,
    pod_groups: &PodGroupReports,
    draft: &mut Draft,
) -> Vec<(String, PodGangPhase)> {
    let mut phases = Vec::new();
    let waits = draft.foremost_waits();
    for (position, gang) in replica.layout.live_gangs() {
        let Some(stored) = replica.snapshot.gangs.get(&gang.name) else {
            continue;
        };
        if stored.metadata.deletion_timestamp.is_some() {
            continue;
        }
        let before = stored.status.clone().unwrap_or_default();
        let mut status = before.clone();
        let created = all_exist(replica, position, pods);
        let scheduled = lacking(replica, position, "on nodes", |pod| pod.scheduled);
        let ready = lacking(replica, position, "ready", |pod| pod.ready);
        status.phase = match (&scheduled, &ready) {
            (Some(_), _) => PodGangPhase::Pending,
            (None, Some(_)) => PodGangPhase::Starting,
            (None, None) => PodGangPhase::Running,
        };
        phases.push((gang.name.clone(), status.phase.clone()));
        let mut say = |kind, holds: bool, yes: Reason, no: Reason, message: String| {
            let verdict = Verdict {
                kind,
                status: Some(holds),
                reason: if holds { yes } else { no },
                message,
            };
            conditions::set(&mut status.conditions, verdict, stored.metadata.generation, replica.now);
        };
        // A gang stays initialized: that a pod of it is replaced later is not news to its scheduler.
        if created || !conditions::is_true(&before.conditions, ConditionType::Initialized) {
            let message = if created {
                "all pods exist"
            } else {
                "pods are being created"
            };
            say(
                ConditionType::Initialized,
                created,
                Reason::PodGangPodsCreated,
                Reason::PodGangPodsCreationPending,
                message.to_owned(),
            );
        }
        let whole = |missing: &Option<String>, done: &str| missing.clone().unwrap_or_else(|| done.to_owned());
        let report = pod_groups.get(&gang.name);
        // The scheduler knows why pods have no nodes; the pods only say that they have none.
        let scheduled = scheduled.map(|missing| match report.and_then(|report| report.waits_for.as_ref()) {
            Some(reason) => format!("{missing}: {reason}"),
            None => missing,
        });
        say(
            ConditionType::Scheduled,
            scheduled.is_none(),
            Reason::GangScheduled,
            Reason::GangNotScheduled,
            whole(&scheduled, "every clique has its minimum on nodes"),
        );
        say(
            ConditionType::Ready,
            ready.is_none(),
            Reason::GangReady,
            Reason::GangNotReady,
            whole(&ready, "every clique has its minimum ready"),
        );
        conditions::latch(&mut status.last_scheduled, &status.conditions, ConditionType::Scheduled);
        conditions::latch(&mut status.last_ready, &status.conditions, ConditionType::Ready);
        let of_gang = gang
            .cliques
            .iter()
            .filter_map(|&clique| waits.get(&replica.layout.cliques[clique].name));
        let wait = Wait::foremost(of_gang).map(|wait| Wait {
            message: format!("{}: {}", wait.about, wait.message),
            ..wait.clone()
        });
        let generation = stored.metadata.generation;
        report_wait(wait.as_ref(), &mut status.conditions, generation, replica.now);
        pod_groups::report_limits(report, &mut status.conditions, stored.metadata.generation, replica.now);
        let urgency = if status.phase == PodGangPhase::Running {
            Urgency::Settled
        } else {
            Urgency::Settling
        };
        if let Some(patch) = status_patch(stored.status.as_ref(), &status) {
            draft.statuses.push(Command::Status {
                target: target_of(Kind::PodGang, &stored.metadata),
                patch,
                urgency,
            });
        }
    }
    phases
}

/// Copies above the minimum of their group that have no nodes because their scheduler found no place for them: how many of
/// each group, and how many it should have.
pub(crate) fn unplaced(replica: &Replica<'_>, pod_groups: &PodGroupReports) -> BTreeMap<String, (u32, u32)> {
    let mut unplaced: BTreeMap<String, (u32, u32)> = BTreeMap::new();
    for (position, gang) in replica.layout.live_gangs() {
        let Some((group, _)) = gang.scaled else { continue };
        let waits = lacking(replica, position, "", |pod| pod.scheduled).is_some();
        if waits && is_refused(replica, gang, pod_groups) {
            let layout = &replica.layout.groups[group];
            let name = replica.context.facts.groups[layout.position].config.name.clone();
            unplaced.entry(name).or_insert((0, layout.wanted)).0 += 1;
        }
    }
    unplaced
}

/// Whether the scheduler of a gang says that it found no place for it.
fn is_refused(replica: &Replica<'_>, gang: &GangLayout, pod_groups: &PodGroupReports) -> bool {
    let stored = replica
        .snapshot
        .gangs
        .get(&gang.name)
        .and_then(|stored| stored.status.as_ref());
    let mut conditions = stored.into_iter().flat_map(|status| &status.conditions);
    let report = pod_groups.get(&gang.name);
    conditions.any(|condition| condition.type_ == PLACED && condition.status == "False")
        || report.is_some_and(|report| report.waits_for.is_some())
}

fn all_exist(replica: &Replica<'_>, position: usize, pods: &PodNames) -> bool {
    let gang = &replica.layout.gangs[position];
    let of_gang = pods.get(&gang.name);
    gang.cliques.iter().all(|&index| {
        let clique = &replica.layout.cliques[index];
        let names = of_gang.and_then(|pods| pods.get(&clique.name));
        let names = names.map(Vec::as_slice).unwrap_or_default();
        let wanted = clique.share_in(position).map_or(0, |share| share.pods);
        names.len() >= wanted as usize && names.iter().all(|name| replica.snapshot.pods.contains_key(name))
    })
}

/// Which clique lacks how many, in words.
fn lacking(replica: &Replica<'_>, position: usize, what: &str, has: impl Fn(&PodFacts) -> bool) -> Option<String> {
    replica.layout.gangs[position].cliques.iter().find_map(|&index| {
        let (minimum, count) = (
            replica.layout.minimum_in(position, index),
            replica.count_in(position, index, &has),
        );
        let name = &replica.layout.cliques[index].name;
        (count < minimum).then(|| format!("{name} has {count} of {minimum} needed pods {what}"))
    })
}
