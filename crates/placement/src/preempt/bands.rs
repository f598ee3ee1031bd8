//! A lower bound of the harm in every candidate domain, from sums by priority band.
//!
//! One pass over the nodes: how many slots each shape has now, and how many it would have if everything below a band were
//! gone. Optimistic on purpose (shapes do not compete, conflicts vanish with the first victim), so a domain that is ruled
//! out here is impossible, and one whose bound is not better than an answer at hand need not be searched.

use std::collections::BTreeSet;

use crate::budget::{Exhausted, Steps};
use crate::gang::Gang;
use crate::plan::{Options, excluded};
use crate::resources::{Sum, narrowed};
use crate::shape::ShapeId;
use crate::state::{ClusterState, NodeId};
use crate::topology::DomainId;

use super::{Harm, Incumbents};

/// Shapes of the gang and how many pods of each must be placed.
pub(super) fn needs(gang: &Gang) -> Vec<(ShapeId, u32)> {
    let mut needs: Vec<(ShapeId, u32)> = Vec::new();
    for group in gang.groups.iter().filter(|group| group.missing() > 0) {
        match needs.iter_mut().find(|(shape, _)| *shape == group.shape) {
            Some((_, count)) => *count = count.saturating_add(group.missing()),
            None => needs.push((group.shape, group.missing())),
        }
    }
    needs
}

/// Slots of a shape on a node with this much free, conflicts aside.
pub(super) fn slots(state: &ClusterState, shape: ShapeId, free: &[Sum]) -> u32 {
    let asked = state.shape_of(shape);
    if asked.unoffered.count > 0 {
        return 0;
    }
    let most = asked
        .requests
        .iter()
        .map(|(column, request)| narrowed(free[column.index()]) / request);
    let most = u32::try_from(most.min().unwrap_or(0).max(0)).unwrap_or(u32::MAX);
    if asked.exclusive { most.min(1) } else { most }
}

/// What is free on a node, by column.
pub(super) fn free_on(state: &ClusterState, node: NodeId) -> Vec<Sum> {
    state
        .columns()
        .all()
        .map(|column| Sum::from(state.free_on(node, column)))
        .collect()
}

/// Possible domains with their least harm, least first; positions are those in `domains`.
pub(super) fn outlook(
    state: &ClusterState,
    gang: &Gang,
    incumbents: &Incumbents,
    options: &Options,
    domains: &[DomainId],
    steps: &mut Steps,
) -> Result<Vec<(Harm, usize)>, Exhausted> {
    let Some(at) = state.view_named(&gang.topology) else {
        return Ok(Vec::new());
    };
    let needs = needs(gang);
    let excluded = excluded(state, at, gang, options);
    let mut found = Vec::new();
    for (number, domain) in domains.iter().enumerate() {
        let nodes = state.view(at).nodes_in(*domain);
        steps.spend(nodes.len() * needs.len().max(1))?;
        let mut least: Option<Harm> = Some((i32::MIN, 0, 0));
        for (shape, need) in &needs {
            let bound = shape_bound(state, incumbents, gang.priority, nodes, &excluded, *shape, *need);
            least = least.zip(bound).map(|(least, (priority, hit))| {
                let largest = incumbents.largest().max(1);
                let (gangs, pods) = (hit.div_ceil(largest), hit);
                (least.0.max(priority), least.1.max(gangs), least.2.max(pods))
            });
        }
        found.extend(least.map(|least| (least, number)));
    }
    found.sort_unstable();
    Ok(found)
}

/// The highest priority that must be touched, and the number of nodes on which somebody must go; nothing if even that is not
/// enough.
fn shape_bound(
    state: &ClusterState,
    incumbents: &Incumbents,
    priority: i32,
    nodes: &[NodeId],
    excluded: &[bool],
    shape: ShapeId,
    need: u32,
) -> Option<(i32, usize)> {
    let demands = &state.shape_of(shape).demands.node;
    let need = u64::from(need);
    let mut now = 0_u64;
    let mut gained: std::collections::BTreeMap<i32, u64> = std::collections::BTreeMap::new();
    let mut gains: Vec<u64> = Vec::new();
    for node in nodes {
        if excluded[node.index()] || demands.ruled_out(state.node(*node)).is_some() {
            continue;
        }
        let mut have = u64::from(state.room(*node, shape));
        let before = have;
        now += have;
        let mut free = None;
        for (band, amounts) in incumbents.bands(*node).take_while(|(band, _)| *band < priority) {
            let free = free.get_or_insert_with(|| free_on(state, *node));
            free.iter_mut().zip(amounts).for_each(|(free, amount)| *free += amount);
            let then = u64::from(slots(state, shape, free)).max(have);
            if then > have {
                *gained.entry(band).or_default() += then - have;
            }
            have = then;
        }
        if have > before {
            gains.push(have - before);
        }
    }
    if now >= need {
        return Some((i32::MIN, 0));
    }
    let mut sum = now;
    let highest = gained.iter().find_map(|(band, gain)| {
        sum += gain;
        (sum >= need).then_some(*band)
    })?;
    gains.sort_unstable();
    let mut lacking = need - now;
    let hit = gains.iter().rev().take_while(|gain| {
        let open = lacking > 0;
        lacking = lacking.saturating_sub(**gain);
        open
    });
    Some((highest, hit.count()))
}

/// Columns that could be short on a node if everything below a priority were gone: nothing else is worth an eviction there.
pub(super) fn short(
    state: &ClusterState,
    incumbents: &Incumbents,
    priority: i32,
    needs: &[(ShapeId, u32)],
    node: NodeId,
) -> BTreeSet<usize> {
    let free = free_on(state, node);
    let mut most = free.clone();
    for (_, amounts) in incumbents.bands(node).take_while(|(band, _)| *band < priority) {
        most.iter_mut().zip(amounts).for_each(|(free, amount)| *free += amount);
    }
    let mut useful: Vec<Sum> = vec![0; free.len()];
    for (shape, need) in needs {
        let count = Sum::from(slots(state, *shape, &most).min(*need));
        for (column, request) in &state.shape_of(*shape).requests {
            useful[column.index()] += count * Sum::from(*request);
        }
    }
    (0..free.len())
        .filter(|column| free[*column] < useful[*column])
        .collect()
}
