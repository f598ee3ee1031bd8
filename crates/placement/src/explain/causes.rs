//! What stands in the way beside rules: sizes, scattered room, packing that nothing could satisfy, rank.
//!
//! Each cause is proven by the planner or by a count before it is named.

use crate::gang::Gang;
use crate::plan::refuse::unoffered;
use crate::plan::survey::Level;
use crate::plan::{Options, plan};
use crate::preempt::{self, Running, Verdict};
use crate::reasons::{Reason, ReasonCode};
use crate::state::ClusterState;
use crate::topology::DomainId;

use super::remedies::{Scene, shortest};
use super::words::few;
use super::{RemedyCode, remedies::Trial};

/// Pods that would not even fit the largest node if it were empty.
pub(super) fn too_large(state: &ClusterState, gang: &Gang) -> Vec<Reason> {
    let view = state.view(0);
    let mut reasons = unoffered(state, gang);
    for group in gang.groups.iter().filter(|group| group.missing() > 0) {
        for (column, request) in &state.shape_of(group.shape).requests {
            let nodes = view.nodes_in(DomainId::ROOT).iter();
            let most = nodes
                .map(|node| state.allocatable_on(*node, *column))
                .max()
                .unwrap_or(0);
            if most < *request {
                let name = state.columns().name(*column);
                let message = if most == 0 {
                    format!("{}: a pod asks for {request} of {name}, which no node has", group.name)
                } else {
                    format!(
                        "{}: a pod asks for {request} of {name}, the largest node has {most}",
                        group.name
                    )
                };
                reasons.push(Reason::new(ReasonCode::PodExceedsEveryNode, message));
            }
        }
    }
    reasons
}

/// Causes that lie in the room itself, unless a rule is the cause; `found` are the remedies that work.
pub(super) fn of_room(scene: &mut Scene<'_>, found: &[Trial]) -> Option<Reason> {
    if ruled(found) {
        return None;
    }
    let relaxed = found.iter().find(|trial| trial.remedy.code == RemedyCode::RelaxPacking);
    let narrow = relaxed.and_then(|relaxed| too_narrow(scene, &relaxed.remedy.text));
    narrow.or_else(|| scattered(scene))
}

/// Who holds the room, if he may not be evicted.
pub(super) fn of_rank(scene: &mut Scene<'_>, found: &[Trial]) -> Option<Reason> {
    let evicts = |trial: &Trial| trial.remedy.code == RemedyCode::Preempt;
    if ruled(found) || found.iter().any(evicts) {
        return None;
    }
    outranked(scene.state, scene.gang, scene.running, scene.options)
}

fn ruled(found: &[Trial]) -> bool {
    found.iter().any(|trial| trial.cause.is_some())
}

/// Not even the idle cluster has a domain that is large enough.
fn too_narrow(scene: &mut Scene<'_>, relaxed: &str) -> Option<Reason> {
    let options = Options {
        extras: false,
        ..scene.options.clone()
    };
    let mark = scene.state.mark();
    let pods: Vec<_> = scene.state.pods().map(|(_, pod)| pod).collect();
    for pod in pods {
        scene.state.lift(pod.node, pod.shape, 1);
    }
    let idle = plan(scene.state, scene.gang, &options).plan().is_some();
    scene.state.rollback(mark);
    if idle {
        return None;
    }
    let level = shortest(scene.survey)?;
    let view = scene.state.view(scene.state.view_named(&scene.gang.topology)?);
    let key = view.key_of(level.depth).unwrap_or("cluster");
    let message = format!(
        "no {key} is large enough for {} even if it were empty; {relaxed}",
        level.scope
    );
    Some(Reason::new(ReasonCode::PackingTooNarrow, message))
}

/// Room enough in sum, but on too many nodes.
fn scattered(scene: &Scene<'_>) -> Option<Reason> {
    let scattered = |level: &&Level| level.scattered.is_some();
    let levels = &scene.survey.levels;
    let level = levels.iter().filter(|level| level.required).find(scattered);
    let whole = || levels.iter().filter(|level| level.depth == 0).find(scattered);
    let level = level.or_else(whole)?;
    let found = level.scattered.as_ref()?;
    let view = scene.state.view(scene.state.view_named(&scene.gang.topology)?);
    let message = format!(
        "{}: {} has {} of {} free, which is enough, but scattered: a pod of {} needs {} on one node, and only {} of {} pods find that",
        level.scope,
        view.describe(found.domain),
        found.free,
        found.resource,
        found.group,
        found.request,
        found.have,
        found.need
    );
    Some(Reason::new(ReasonCode::Scattered, message))
}

/// The room is held by gangs that may not be evicted.
fn outranked(state: &mut ClusterState, gang: &Gang, running: &[Running], options: &Options) -> Option<Reason> {
    let mut urgent = gang.clone();
    (urgent.priority, urgent.never_preempts) = (i32::MAX, false);
    let mut everybody = running.to_vec();
    for gang in &mut everybody {
        gang.protected = false;
        let pods = gang.groups.iter_mut().flat_map(|group| &mut group.pods);
        pods.for_each(|pod| pod.budgets.clear());
    }
    let Verdict::Possible(answer) = preempt::preempt(state, &urgent, &everybody, options) else {
        return None;
    };
    let names: Vec<String> = answer.victims.iter().map(|victim| victim.gang.clone()).collect();
    let of = |name: &String| running.iter().find(|gang| gang.name == *name);
    let highest = names.iter().filter_map(of).map(|gang| gang.priority).max()?;
    let own = gang.priority;
    let budgeted = |gang: &Running| {
        let mut pods = gang.groups.iter().flat_map(|group| &group.pods);
        pods.any(|pod| !pod.budgets.is_empty())
    };
    let message = if highest < own && gang.never_preempts {
        format!(
            "the room is held by {}; a pod of this gang has preemptionPolicy Never",
            few(&names)
        )
    } else if highest < own && names.iter().filter_map(of).any(budgeted) {
        format!("the room is held by {}, protected by PodDisruptionBudgets", few(&names))
    } else if highest < own {
        format!("the room is held by {}, protected for now", few(&names))
    } else {
        format!(
            "the room is held by {} with priority {highest}; a gang with priority {own} cannot evict them",
            few(&names)
        )
    };
    Some(Reason::new(ReasonCode::Outranked, message))
}
