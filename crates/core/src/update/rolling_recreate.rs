//! RollingRecreate: pods are deleted and come back with the new template.
//!
//! In a clique of its own, pods that serve nothing go at once, ready ones as far as the budget allows. In a scaling group
//! whole copies go: those that serve nothing at once, available ones as far as the budget allows. Whatever is not ready,
//! for whichever reason, counts against the budget, so our own hand never leaves more than `maxUnavailable` missing; and
//! because old units that serve nothing are always taken, none of them can use the budget up for good. The minimum is no
//! bound. An update ends when the last replacement is ready.

use std::sync::Arc;

use super::budget::Budget;
use super::{Rolling, template};
use crate::draft::Draft;
use crate::health::terminating::Terminating;
use crate::snapshot::PodFacts;
use crate::state::{CliqueState, Replica};

pub(super) fn plan(replica: &Replica<'_>, terminating: &Terminating, draft: &mut Draft) -> Rolling {
    let mut rolling = Rolling::default();
    for index in 0..replica.cliques.len() {
        if replica.cliques[index].standalone() && !terminating.contains(index) {
            standalone(replica, index, &mut rolling, draft);
        }
    }
    for group in 0..replica.layout.groups.len() {
        copies(replica, group, terminating, &mut rolling, draft);
    }
    rolling
}

fn standalone(replica: &Replica<'_>, index: usize, rolling: &mut Rolling, draft: &mut Draft) {
    let state = &replica.cliques[index];
    if !state.alive() {
        return;
    }
    if !state.current {
        draft.children.extend(template::patch(replica, index));
        rolling.rewritten.insert(index);
        rolling.cliques.insert(index);
        return;
    }
    let old: Vec<&Arc<PodFacts>> = state
        .active
        .iter()
        .copied()
        .filter(|pod| !state.has_template(pod))
        .collect();
    if old.is_empty() {
        if unfinished(replica, index) {
            rolling.cliques.insert(index);
        }
        return;
    }
    rolling.cliques.insert(index);
    let (ready, idle): (Vec<&Arc<PodFacts>>, Vec<&Arc<PodFacts>>) = old.into_iter().partition(|pod| pod.ready);
    for pod in &idle {
        draft.delete(pod.target());
    }
    let position = replica.layout.cliques[index].position;
    let budget = Budget::of(replica.context.facts.cliques[position].template.rolling_update.as_ref());
    let allowed = budget.allowance(state.desired(), state.ready());
    let mut oldest = ready;
    oldest.sort_by_key(|pod| (pod.created, pod.index));
    for pod in oldest.into_iter().take(allowed as usize) {
        draft.delete(pod.target());
    }
}

/// Whether a clique whose old pods are gone is still being updated, because a replacement is not ready yet.
fn unfinished(replica: &Replica<'_>, index: usize) -> bool {
    let state = &replica.cliques[index];
    let target = replica.context.identities[replica.layout.cliques[index].position].label();
    let status = state.stored.and_then(|stored| stored.status.as_ref());
    let open = status
        .and_then(|status| status.update_progress.as_ref())
        .is_some_and(|progress| progress.pod_template_hash == target && progress.update_ended_at.is_none());
    // A copy of a group is a unit, and serves with its minimum; a clique of its own has its pods as units.
    let all_ready = !state.standalone() || state.ready() >= state.desired();
    open && !(state.updated() && all_ready)
}

/// One copy of a scaling group during an update.
struct Copy {
    members: Vec<usize>,
    old: bool,
    available: bool,
    rewritten: bool,
}

fn copies(replica: &Replica<'_>, group: usize, terminating: &Terminating, rolling: &mut Rolling, draft: &mut Draft) {
    let layout = &replica.layout.groups[group];
    let copies: Vec<Copy> = layout
        .copies
        .iter()
        .filter_map(|&copy| read(replica, group, copy, terminating))
        .collect();
    let awaited: Vec<usize> = copies
        .iter()
        .flat_map(|copy| copy.members.iter().copied())
        .filter(|index| unfinished(replica, *index))
        .collect();
    let all_new = copies.iter().all(|copy| !copy.old);
    if all_new && awaited.is_empty() {
        return;
    }
    rolling.groups.insert(group);
    rolling.cliques.extend(awaited);
    if all_new {
        return;
    }
    rolling.cliques.extend(
        copies
            .iter()
            .filter(|copy| copy.old)
            .flat_map(|copy| copy.members.iter().copied()),
    );
    for copy in copies.iter().filter(|copy| copy.old && !copy.available) {
        recreate(replica, copy, rolling, draft);
    }
    let available = u32::try_from(copies.iter().filter(|copy| copy.available).count()).unwrap_or(0);
    let budget = Budget::of(replica.context.facts.groups[group].config.rolling_update.as_ref());
    let allowed = budget.allowance(layout.count(), available);
    let mut candidates: Vec<&Copy> = copies.iter().filter(|copy| copy.old && copy.available).collect();
    // A copy whose template was written before, but whose pods were not deleted yet, is finished first.
    candidates.sort_by_key(|copy| !copy.rewritten);
    for copy in candidates.into_iter().take(allowed as usize) {
        recreate(replica, copy, rolling, draft);
    }
}

fn read(replica: &Replica<'_>, group: usize, copy: u32, terminating: &Terminating) -> Option<Copy> {
    let members: Vec<usize> = replica.layout.groups[group].members(copy).collect();
    if members
        .iter()
        .any(|index| terminating.contains(*index) || !replica.cliques[*index].alive())
    {
        return None;
    }
    let states: Vec<&CliqueState<'_>> = members.iter().map(|index| &replica.cliques[*index]).collect();
    let old_pods = |state: &CliqueState<'_>| state.active.iter().any(|pod| !state.has_template(pod));
    Some(Copy {
        old: states.iter().any(|state| !state.current || old_pods(state)),
        available: states.iter().all(|state| state.available()),
        rewritten: states.iter().all(|state| state.current),
        members,
    })
}

/// Gives a copy the new template; once all its cliques have it, takes the pods that have the old one.
fn recreate(replica: &Replica<'_>, copy: &Copy, rolling: &mut Rolling, draft: &mut Draft) {
    for &index in copy.members.iter().filter(|index| !replica.cliques[**index].current) {
        draft.children.extend(template::patch(replica, index));
        rolling.rewritten.insert(index);
    }
    if !copy.rewritten {
        return;
    }
    for &index in &copy.members {
        let state = &replica.cliques[index];
        for pod in state.active.iter().filter(|pod| !state.has_template(pod)) {
            draft.delete(pod.target());
        }
    }
}
