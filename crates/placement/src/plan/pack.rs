//! Leaf packing: pods onto the nodes of one domain, greedily.
//!
//! All groups that share a domain are packed together, the shape with the fewest slots first, each onto the nodes that
//! are liked most and have the fewest slots left, as many at once as fit. Exact for one shape, and for several when one
//! resource binds and sizes divide each other; otherwise a heuristic, with [`super::exact`] behind it.

use crate::budget::Exhausted;
use crate::state::NodeId;
use crate::topology::DomainId;

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
    let mut order: Vec<Load> = loads.iter().copied().filter(|load| load.count > 0).collect();
    order.sort_by_key(|load| (table.sum(load.local, domain), load.local));
    for load in order {
        if table.sum(load.local, domain) < u64::from(load.count) {
            return Ok(false);
        }
        let mut left = load.count;
        for node in best_first(table, domain, load.local)? {
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
    }
    Ok(true)
}

/// Nodes with room for the shape, in packing order.
pub(super) fn best_first(table: &mut Table<'_>, domain: DomainId, local: usize) -> Result<Vec<NodeId>, Exhausted> {
    let nodes = table.state.view(table.view).nodes_in(domain);
    table.steps.spend(nodes.len())?;
    let mut keyed: Vec<(i64, u32, usize, NodeId)> = Vec::new();
    for (at, node) in nodes.iter().enumerate() {
        let slots = table.slots(local, *node);
        if slots > 0 {
            keyed.push((-table.like(local, *node), slots, at, *node));
        }
    }
    keyed.sort_unstable();
    Ok(keyed.into_iter().map(|(_, _, _, node)| node).collect())
}
