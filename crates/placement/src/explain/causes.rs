//! What stands in the way beside rules: sizes, scattered room, packing that nothing could satisfy, rank.
//!
//! Each cause is proven by the planner or by a count before it is named.

use std::cmp::Reverse;

use crate::gang::Gang;
use crate::plan::survey::Level;
use crate::plan::{Options, plan};
use crate::preempt::{self, Running, Verdict};
use crate::reasons::{Reason, ReasonCode};
use crate::state::ClusterState;

use super::remedies::{Scene, shortest};
use super::words::few;
use super::{RemedyCode, remedies::Trial};

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
    let of = |name: &str| running.iter().find(|gang| gang.name == name);
    let mut blocking: Vec<&Running> = answer.victims.iter().filter_map(|victim| of(&victim.gang)).collect();
    // Those that rank decides about come first.
    blocking.sort_by_key(|gang| (Reverse(gang.priority), gang.name.clone()));
    let (own, highest) = (gang.priority, blocking.first()?.priority);
    let names: Vec<String> = blocking
        .iter()
        .filter(|gang| highest < own || gang.priority >= own)
        .map(|gang| format!("{} (priority {})", gang.name, gang.priority))
        .collect();
    let budgeted = |gang: &&Running| {
        let mut pods = gang.groups.iter().flat_map(|group| &group.pods);
        pods.any(|pod| !pod.budgets.is_empty())
    };
    let why = if highest > own {
        format!("priority {own} cannot preempt higher priority")
    } else if highest == own {
        "equal priority cannot preempt".to_owned()
    } else if gang.never_preempts {
        "a pod of this gang has preemptionPolicy Never".to_owned()
    } else if blocking.iter().any(budgeted) {
        "protected by PodDisruptionBudgets".to_owned()
    } else {
        "their pods are being bound, and cannot be preempted until then".to_owned()
    };
    let message = format!("blocked by {}: {why}", few(&names));
    Some(Reason::new(ReasonCode::Outranked, message))
}
