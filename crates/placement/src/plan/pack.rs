//! Leaf packing: pods onto the nodes of one domain, greedily.
//!
//! All groups that share a domain are packed together, the shape with the fewest slots first, each onto the nodes that
//! are liked most, as many at once as fit. Among nodes that are liked alike, those near each other and near the rest of the gang and its
//! siblings come first (`nearness`), then those with the fewest slots left; if that does not work out, the fewest slots alone
//! decide. Exact for one shape, and for several when one resource binds and sizes divide each other; otherwise a heuristic, with
//! [`super::exact`] behind it.

use crate::budget::Exhausted;
use crate::state::NodeId;
use crate::topology::DomainId;

use super::nearness;
use super::table::{Placed, Table};

/// Pods of one group to place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) group: usize,
    pub(super) local: usize,
    pub(super) count: u32,
}

/// Places all loads in the domain, or leaves some of them placed and returns false (the caller goes back).
pub(super) fn pack(table: &mut Table<'_>, domain: DomainId, loads: &[Load]) -> Result<bool, Exhausted> {
    let start = table.point();
    if pack_by(table, domain, loads, true)? {
        return Ok(true);
    }
    // For one shape the order of nodes makes no difference to what fits.
    let flat = table.view().numbers_inside(domain).len() < 3;
    if flat || loads.iter().all(|load| load.local == loads[0].local) {
        return Ok(false);
    }
    table.back(start);
    pack_by(table, domain, loads, false)
}

fn pack_by(table: &mut Table<'_>, domain: DomainId, loads: &[Load], near: bool) -> Result<bool, Exhausted> {
    let mut order: Vec<Load> = loads.iter().copied().filter(|load| load.count > 0).collect();
    order.sort_by_key(|load| (table.sum(load.local, domain), load.local));
    let mut need = vec![0_u32; table.shapes.len()];
    for load in &order {
        need[load.local] = need[load.local].saturating_add(load.count);
    }
    for load in order {
        if table.sum(load.local, domain) < u64::from(load.count) {
            return Ok(false);
        }
        let mut left = load.count;
        for node in best_first(table, domain, load.local, near.then_some(need.as_slice()))? {
            // Slots of other nodes do not change while one shape is placed, so the order stays right.
            let count = table.slots(load.local, node).min(left);
            let placed = Placed {
                group: load.group,
                node,
                count,
                extra: false,
            };
            table.steps.spend(table.effort())?;
            table.place(load.local, placed);
            left -= count;
            if left == 0 {
                break;
            }
        }
        if left > 0 {
            return Ok(false);
        }
        need[load.local] = need[load.local].saturating_sub(load.count);
    }
    Ok(true)
}

/// Nodes with room for the shape, in packing order. With `need`, the pods of each shape still to place, nodes near each
/// other come one after the other.
pub(super) fn best_first(
    table: &mut Table<'_>,
    domain: DomainId,
    local: usize,
    need: Option<&[u32]>,
) -> Result<Vec<NodeId>, Exhausted> {
    let ranks = match need {
        Some(need) => nearness::ranks(table, domain, local, need)?,
        None => nearness::Ranks::none(),
    };
    let nodes = table.state.view(table.view).nodes_in(domain);
    table.steps.spend(nodes.len())?;
    let mut keyed: Vec<(i64, u32, u32, usize, NodeId)> = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let slots = table.slots(local, *node);
        if slots > 0 {
            let rank = ranks.of(table.state.view(table.view), *node);
            keyed.push((-table.like(local, *node), rank, slots, at, *node));
        }
    }
    keyed.sort_unstable();
    Ok(keyed.into_iter().map(|(_, _, _, _, node)| node).collect())
}
