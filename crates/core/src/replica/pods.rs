//! The pods of a replica: as many as each clique asks for, each with an index of its own.
//!
//! Indices are the lowest that no counting pod has, so host names stay stable. A pod that ended is replaced at its index,
//! however long it is kept ([`ended`]). A clique gets no pods while pods of an earlier object of its name are left, while
//! it is being terminated, while a claim that they share is missing, and in the plan that rewrites its template.

use std::collections::{BTreeMap, BTreeSet};

use super::{CliqueState, Draft, Replica, ended, weight};
use crate::command::{Command, Kind};
use crate::health::terminating::Terminating;
use crate::layout::CliqueLayout;
use crate::objects::{self, PodIdentity};
use crate::reasons::Reason;
use crate::snapshot::{PodFacts, target_of};
use crate::update::Rolling;

/// Pods that are read again in one plan at most. One that exists is enough to stop the plan.
const MOST_CONFIRMED: usize = 500;

/// The names of each clique's pods, those that are about to be created included, by name of the clique.
pub(crate) type PodNames = BTreeMap<String, Vec<String>>;

pub(crate) fn plan(
    replica: &Replica<'_>,
    terminating: &Terminating,
    rolling: &Rolling,
    waiting: &BTreeSet<usize>,
    draft: &mut Draft,
) -> PodNames {
    let mut names = PodNames::new();
    for (index, (clique, state)) in replica.layout.cliques.iter().zip(&replica.cliques).enumerate() {
        let held = rolling.rewritten.contains(&index) || waiting.contains(&index);
        let of_clique = names.entry(clique.name.clone()).or_default();
        of_clique.extend(state.active.iter().map(|pod| pod.name.clone()));
        if terminating.contains(index) {
            continue;
        }
        // The attempt is stored before the first pod is named after it, and a second patch of the clique would be refused.
        let uid = state.stored.and_then(|stored| stored.metadata.uid.as_deref());
        let unstored = state.attempt.is_raised() && draft.patches(uid);
        let incomplete = !replica.layout.gang_of(clique).complete;
        let ended = ended::plan(replica, state, draft);
        let blocked = await_orphans(clique, state, draft) || held || unstored || incomplete;
        let missing = free_indices(state);
        let stored = state
            .stored
            .filter(|_| state.alive() && !blocked && !missing.is_empty());
        let bytes = stored.map_or(0, |stored| weight(stored.as_ref()));
        if let Some(stored) = stored.filter(|_| state.attempt.unconfirmed) {
            draft.children.push(Command::Confirm {
                target: target_of(Kind::PodClique, &stored.metadata),
                names: invisible(replica, clique).take(MOST_CONFIRMED).collect(),
            });
        }
        let token = state.attempt.token();
        for pod_index in missing {
            of_clique.push(state.attempt.pod_name(&clique.name, pod_index));
            if let Some(stored) = stored.filter(|_| draft.room.is_left()) {
                let identity = PodIdentity {
                    index: pod_index,
                    token: &token,
                };
                let pod = objects::pod(
                    &replica.context.facts,
                    replica.context.settings,
                    &replica.layout,
                    clique,
                    stored,
                    identity,
                );
                draft.room.take(bytes);
                draft.pods.push(Command::Create(pod));
                if let Some((pod, kept_until)) = ended.get(&pod_index) {
                    draft.statuses.extend(ended::replaced(state, pod, *kept_until));
                }
            }
        }
        for pod in surplus(state) {
            draft.delete(pod.target());
        }
    }
    names
}

/// Deletes pods of an earlier object of the same name. Returns whether new pods have to wait for them.
fn await_orphans(clique: &CliqueLayout, state: &CliqueState<'_>, draft: &mut Draft) -> bool {
    for pod in state.orphans.iter().filter(|pod| !pod.deleting) {
        draft.delete(pod.target());
    }
    if state.orphans.is_empty() {
        return false;
    }
    let message = "pods of an earlier PodClique of this name are not gone yet; new ones follow them".to_owned();
    draft.wait(&clique.name, Reason::WaitingForOldPods, message);
    true
}

/// Pods of a clique that its gang lists and that are not there.
fn invisible<'a>(replica: &'a Replica<'_>, clique: &'a CliqueLayout) -> impl Iterator<Item = String> + 'a {
    let gangs = replica.snapshot.gangs.values();
    let groups = gangs.flat_map(|gang| &gang.spec.pod_groups);
    let listed = groups.filter(|group| group.name == clique.name);
    let names = listed.flat_map(|group| group.pod_references.iter().map(|pod| &pod.name));
    names.filter(|name| !replica.snapshot.pods.contains_key(*name)).cloned()
}

/// The lowest indices that no counting pod has, as many as pods are missing.
pub(super) fn free_indices(state: &CliqueState<'_>) -> Vec<u32> {
    let taken: BTreeSet<u32> = state.active.iter().filter_map(|pod| pod.index).collect();
    let present = u32::try_from(distinct(state).len()).unwrap_or(u32::MAX);
    let missing = if state.held {
        0
    } else {
        state.replicas.saturating_sub(present)
    };
    (0..)
        .filter(|index| !taken.contains(index))
        .take(missing as usize)
        .collect()
}

/// The counting pods, one for each index: of two with the same index the one that serves, else the older, stays.
fn distinct<'a>(state: &CliqueState<'a>) -> Vec<&'a PodFacts> {
    let mut kept: BTreeMap<(Option<u32>, &str), &'a PodFacts> = BTreeMap::new();
    for pod in &state.active {
        let pod: &'a PodFacts = pod;
        // A pod without an index is nobody's twin.
        let key = (pod.index, if pod.index.is_none() { pod.name.as_str() } else { "" });
        let best = kept.entry(key).or_insert(pod);
        if (!pod.ready, pod.created) < (!best.ready, best.created) {
            *best = pod;
        }
    }
    kept.into_values().collect()
}

/// Pods that are too many: twins of an index, then by how little is lost: without a node, not ready, with an old
/// template, with a high index, young.
fn surplus<'a>(state: &CliqueState<'a>) -> Vec<&'a PodFacts> {
    let mut kept = distinct(state);
    let pods: Vec<&'a PodFacts> = state.active.iter().map(|pod| &***pod).collect();
    let mut gone: Vec<&'a PodFacts> = pods
        .into_iter()
        .filter(|pod| !kept.iter().any(|kept| kept.uid == pod.uid))
        .collect();
    kept.sort_by_key(|pod| {
        let worth = (pod.scheduled, pod.ready, state.has_template(pod));
        (worth, std::cmp::Reverse(pod.index), std::cmp::Reverse(pod.created))
    });
    let excess = kept.len().saturating_sub(state.replicas as usize);
    gone.extend(kept.into_iter().take(excess));
    gone
}
