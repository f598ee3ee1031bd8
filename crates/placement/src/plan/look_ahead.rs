//! A gang that fits is placed where its siblings will fit too.
//!
//! The packing of a replica holds across its gangs, so the first of them decides for all. It is planned together with its
//! siblings, each with its own packing, and keeps its own part of that plan: the rest of the plan shows that the siblings
//! have room beside it. Where not all of them have, as many of the first ones as possible count. Never makes a gang wait: what was found
//! for it alone stands if there is nothing better.

use crate::budget::Steps;
use crate::gang::{Companion, Gang, Group, GroupConfig, Pack, Sibling};
use crate::reasons::{Reason, ReasonCode};
use crate::state::ClusterState;

use super::{Options, Outcome, Plan, plan_counted};

/// The plan for a gang that leaves room for as many siblings as possible; `alone` is the one that looks at itself only.
pub(super) fn beside_siblings(
    state: &mut ClusterState,
    gang: &Gang,
    options: &Options,
    alone: Plan,
    steps: &mut Steps,
) -> Plan {
    let Some(outer) = gang.placement_group.as_ref() else {
        return alone;
    };
    if outer.siblings.is_empty() || outer.pack == Pack::none() || gang.is_scheduled() {
        return alone;
    }
    let all = outer.siblings.len();
    let mut together = |gang: &Gang, count: usize| {
        let joint = joined(gang, &outer.siblings[..count]);
        let mut share = Steps::new(steps.left() / 2);
        let outcome = plan_counted(state, &joint, options, &mut share);
        // What is not left here is not left for the next try either.
        let _exhausted = steps.spend(usize::try_from(share.used()).unwrap_or(usize::MAX));
        outcome
    };
    if gang.groups.iter().any(|group| group.extras() > 0)
        && let Outcome::Placed(mut plan) = together(&with_extras_needed(gang), all)
        && plan.distances == alone.distances
    {
        mark_extras(gang, &mut plan);
        return plan;
    }
    let first = together(gang, all);
    if let Outcome::Placed(plan) = first {
        return plan;
    }
    // Fewer siblings are never harder to place, so the largest number is found by halving.
    let (mut fits, mut fails, mut best) = (0, all, alone);
    while fails - fits > 1 {
        let middle = fits + (fails - fits) / 2;
        match together(gang, middle) {
            Outcome::Placed(plan) => (fits, best) = (middle, plan),
            _ => fails = middle,
        }
    }
    if let Outcome::Infeasible(_) = first {
        let message = format!(
            "no domain has room for the whole replica now: beside this gang there is room for {fits} of {all} further gangs, \
             the others wait until more comes free where this one is"
        );
        best.notes.push(Reason::new(ReasonCode::ReplicaFitsInPart, message));
    }
    best.steps = steps.used();
    best
}

/// The same gang, if its extras were floors.
fn with_extras_needed(gang: &Gang) -> Gang {
    let mut whole = gang.clone();
    for group in &mut whole.groups {
        group.floor = group.floor.saturating_add(group.extras());
    }
    whole
}

/// Says of the pods of such a plan which of them are extras.
fn mark_extras(gang: &Gang, plan: &mut Plan) {
    let mut floors: Vec<u32> = gang.groups.iter().map(Group::missing).collect();
    for binding in &mut plan.bindings {
        let left = &mut floors[binding.group];
        binding.extra = *left == 0;
        *left = left.saturating_sub(1);
    }
}

/// The gang together with siblings.
fn joined(gang: &Gang, siblings: &[Sibling]) -> Gang {
    let mut joint = gang.clone();
    if let Some(outer) = joint.placement_group.as_mut() {
        outer.siblings.clear();
    }
    for sibling in siblings {
        let (groups, configs) = (joint.groups.len(), joint.configs.len());
        joint.groups.extend(sibling.groups.iter().cloned());
        joint.configs.extend(sibling.configs.iter().map(|config| GroupConfig {
            groups: config.groups.iter().map(|at| at + groups).collect(),
            ..config.clone()
        }));
        joint.companions.push(Companion {
            name: sibling.name.clone(),
            pack: sibling.pack.clone(),
            groups: groups..joint.groups.len(),
            configs: configs..joint.configs.len(),
        });
    }
    joint
}
