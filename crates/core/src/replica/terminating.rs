//! Gang termination: a replica, or a copy of a scaling group, that has had too few pods for too long is replaced as a
//! whole.
//!
//! The clock is the transition time of the `MinAvailableBreached` condition, so it survives a restart of the operator.
//! A mark on each clique (`GangTerminationInProgress`) is written before its pods are deleted; while it stands, no pod
//! is created, and it is taken away when the last old pod is gone. Cliques keep their size and template throughout.

use std::collections::BTreeSet;

use coppice_api::duration::Duration;
use coppice_api::types::PodCliqueStatus;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::clique_state::BREACHED;
use super::{CliqueState, Draft, Replica, clique_status};
use crate::conditions;
use crate::reasons;

/// The condition that marks a clique whose pods are being replaced.
pub(crate) const IN_PROGRESS: &str = "GangTerminationInProgress";

const DEFAULT_DELAY: SignedDuration = SignedDuration::from_hours(4);

/// Cliques that are being terminated, by position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terminating {
    /// Cliques whose pods must go, and that get no new ones yet.
    pub(crate) cliques: BTreeSet<usize>,
    /// Cliques whose mark goes away in this plan: their old pods are gone.
    pub(crate) finished: BTreeSet<usize>,
}

impl Terminating {
    pub(crate) fn contains(&self, clique: usize) -> bool {
        self.cliques.contains(&clique)
    }
}

/// Decides what is being terminated, and deletes its pods.
pub(crate) fn plan(replica: &Replica<'_>, draft: &mut Draft) -> Terminating {
    let mut terminating = marked(replica);
    let delay = delay(replica);
    let members = |wanted: &dyn Fn(&CliqueState<'_>) -> bool| -> Vec<usize> {
        (0..replica.cliques.len())
            .filter(|index| wanted(&replica.cliques[*index]))
            .collect()
    };
    for (unit, since) in breaches(replica, &terminating) {
        let due = since.saturating_add(delay).unwrap_or(Timestamp::MAX);
        if due > replica.now {
            draft.wake_at(due);
            continue;
        }
        terminating.cliques.extend(match unit {
            Unit::Replica => members(&|_| true),
            Unit::Copy { group, copy } => members(&|state| state.copy_of(group) == Some(copy)),
        });
    }
    terminating
        .finished
        .retain(|index| !terminating.cliques.contains(index));
    for &index in &terminating.cliques {
        for pod in &replica.cliques[index].active {
            draft.delete(pod.target());
        }
        let clique = &replica.layout.cliques[index];
        let message = "all pods of the gang are being replaced; new ones follow when the old ones are gone".to_owned();
        draft.wait(&clique.name, reasons::WAITING_FOR_OLD_PODS, message);
    }
    terminating
}

/// Cliques that carry the mark. While any marked clique has pods, all of them wait.
fn marked(replica: &Replica<'_>) -> Terminating {
    let marked: BTreeSet<usize> = (0..replica.cliques.len())
        .filter(|index| is_marked(&replica.cliques[*index]))
        .collect();
    let has_pods = |index: &usize| {
        let state = &replica.cliques[*index];
        !(state.active.is_empty() && state.leaving.is_empty() && state.orphans.is_empty())
    };
    if marked.iter().any(has_pods) {
        Terminating {
            cliques: marked,
            finished: BTreeSet::new(),
        }
    } else {
        Terminating {
            cliques: BTreeSet::new(),
            finished: marked,
        }
    }
}

fn is_marked(state: &CliqueState<'_>) -> bool {
    status(state).is_some_and(|status| conditions::is_true(&status.conditions, IN_PROGRESS))
}

fn status<'a>(state: &CliqueState<'a>) -> Option<&'a PodCliqueStatus> {
    state.stored.and_then(|stored| stored.status.as_ref())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Replica,
    Copy { group: usize, copy: u32 },
}

/// What has had too few pods, and since when. A clique on its own, or a group below its minimum, brings down the
/// replica; a copy of a group that still has its minimum brings down only itself.
fn breaches(replica: &Replica<'_>, terminating: &Terminating) -> Vec<(Unit, Timestamp)> {
    let since = |index: usize| -> Option<Timestamp> {
        let state = &replica.cliques[index];
        let condition = conditions::find(&status(state)?.conditions, BREACHED)?;
        let breached_now = clique_status::breach(state, false, replica.context.settings).status == Some(true);
        (breached_now && !terminating.contains(index))
            .then(|| started(condition))
            .flatten()
    };
    let mut found = Vec::new();
    for index in (0..replica.cliques.len()).filter(|index| replica.cliques[*index].standalone()) {
        found.extend(since(index).map(|at| (Unit::Replica, at)));
    }
    for (group, layout) in replica.layout.groups.iter().enumerate() {
        let stored = replica
            .snapshot
            .groups
            .get(&layout.name)
            .and_then(|stored| stored.status.as_ref());
        let whole = stored
            .and_then(|status| conditions::find(&status.conditions, BREACHED))
            .and_then(started);
        let copies: Vec<(u32, Timestamp)> = (0..layout.copies)
            .filter_map(|copy| {
                let of_copy =
                    (0..replica.cliques.len()).filter(|index| replica.cliques[*index].copy_of(group) == Some(copy));
                Some((copy, of_copy.filter_map(since).min()?))
            })
            .collect();
        match whole {
            Some(at) if !copies.is_empty() => found.push((Unit::Replica, at)),
            _ => found.extend(copies.into_iter().map(|(copy, at)| (Unit::Copy { group, copy }, at))),
        }
    }
    found
}

fn started(condition: &Condition) -> Option<Timestamp> {
    (condition.status == "True").then_some(condition.last_transition_time.0)
}

fn delay(replica: &Replica<'_>) -> SignedDuration {
    let text = replica.context.facts.set.spec.template.termination_delay.as_deref();
    let parsed = text.and_then(|text| text.parse::<Duration>().ok());
    parsed.map_or(DEFAULT_DELAY, |delay| SignedDuration::from_nanos(delay.nanoseconds()))
}
