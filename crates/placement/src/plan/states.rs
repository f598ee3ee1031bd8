//! Exact packing of pods onto the nodes of their domains.
//!
//! Every rule of a node (room, ports, anti-affinity) concerns that node alone, so nodes are taken one after the other and the
//! only thing to remember is how many pods of each kind are placed: a table of states, one per vector of counts.
//! Placing more is never worse, so the last kind on a node always takes all it can. Exact; the number of states is the
//! product of the counts, so callers must expect [`Exhausted`] for large gangs.

use crate::budget::Exhausted;
use crate::state::NodeId;
use crate::topology::DomainId;

use super::table::{Placed, Table};

/// Pods that are interchangeable here: one shape, one domain, floor or extra.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) local: usize,
    pub(super) domain: DomainId,
    pub(super) count: u32,
    pub(super) extra: bool,
    /// Which groups they belong to, and how many of each.
    pub(super) groups: Vec<(usize, u32)>,
}

const STATES: usize = 1 << 16;
const CELLS: usize = 1 << 21;
const UNREACHED: u32 = u32::MAX;

/// Places all floors and as many extras as possible; nothing if the floors do not fit.
pub(super) fn pack(table: &mut Table<'_>, kinds: &[Kind]) -> Result<Option<Vec<Placed>>, Exhausted> {
    let mut strides = Vec::with_capacity(kinds.len());
    let mut total = 1_usize;
    for kind in kinds {
        strides.push(total);
        total = total.saturating_mul(kind.count as usize + 1);
    }
    let nodes = nodes_of(table, kinds)?;
    if total > STATES || total.saturating_mul(nodes.len() + 1) > CELLS {
        return Err(Exhausted);
    }
    let mut layers: Vec<Vec<u32>> = vec![vec![UNREACHED; total]];
    layers[0][0] = 0;
    let mut reached = vec![0_usize];
    for node in &nodes {
        let mut next = vec![UNREACHED; total];
        let mut found = Vec::new();
        let present = present_on(table, kinds, *node);
        for state in &reached {
            let mut walk = Walk {
                table,
                kinds,
                strides: &strides,
                node: *node,
                present: &present,
                from: *state as u32,
                next: &mut next,
                found: &mut found,
            };
            walk.extend(0, *state)?;
        }
        layers.push(next);
        reached = found;
        if reached.contains(&(total - 1)) {
            return Ok(Some(trace(kinds, &strides, &nodes, &layers, total - 1)));
        }
    }
    let decode = |state: usize, kind: usize| (state / strides[kind]) as u32 % (kinds[kind].count + 1);
    let complete = reached.iter().copied().filter(|state| {
        let floors = kinds.iter().enumerate().filter(|(_, kind)| !kind.extra);
        floors.into_iter().all(|(at, kind)| decode(*state, at) == kind.count)
    });
    let extras = |state: &usize| -> u32 {
        let extra = kinds.iter().enumerate().filter(|(_, kind)| kind.extra);
        extra.map(|(at, _)| decode(*state, at)).sum()
    };
    let best = complete.max_by_key(|state| (extras(state), std::cmp::Reverse(*state)));
    Ok(best.map(|state| trace(kinds, &strides, &nodes, &layers, state)))
}

fn nodes_of(table: &mut Table<'_>, kinds: &[Kind]) -> Result<Vec<NodeId>, Exhausted> {
    let view = table.state.view(table.view);
    let ranges = kinds.iter().map(|kind| view.domain(kind.domain));
    let (start, end) = ranges.fold((usize::MAX, 0), |range, domain| {
        (range.0.min(domain.start), range.1.max(domain.end))
    });
    table.steps.spend(end.saturating_sub(start))?;
    let all = view.nodes_in(DomainId::ROOT).get(start..end).unwrap_or_default();
    let wanted = |node: &NodeId| {
        kinds
            .iter()
            .any(|kind| view.holds(kind.domain, *node) && table.slots(kind.local, *node) > 0)
    };
    Ok(all.iter().copied().filter(wanted).collect())
}

fn present_on(table: &Table<'_>, kinds: &[Kind], node: NodeId) -> Vec<usize> {
    let here = |kind: &Kind| table.view().holds(kind.domain, node) && table.slots(kind.local, node) > 0;
    (0..kinds.len()).filter(|at| here(&kinds[*at])).collect()
}

struct Walk<'t, 's, 'w> {
    table: &'t mut Table<'s>,
    kinds: &'w [Kind],
    strides: &'w [usize],
    node: NodeId,
    present: &'w [usize],
    from: u32,
    next: &'w mut [u32],
    found: &'w mut Vec<usize>,
}

impl Walk<'_, '_, '_> {
    /// Takes every useful number of pods of the `index`-th kind present on the node.
    fn extend(&mut self, index: usize, state: usize) -> Result<(), Exhausted> {
        self.table.steps.spend(1)?;
        let Some(at) = self.present.get(index).copied() else {
            if self.next[state] == UNREACHED {
                self.next[state] = self.from;
                self.found.push(state);
            }
            return Ok(());
        };
        let kind = &self.kinds[at];
        let have = (state / self.strides[at]) as u32 % (kind.count + 1);
        let shape = self.table.shapes[kind.local];
        let most = self.table.state.room(self.node, shape).min(kind.count - have);
        let least = if index + 1 == self.present.len() { most } else { 0 };
        for count in (least..=most).rev() {
            let mark = self.table.state.mark();
            if count > 0 {
                self.table.state.place(self.node, shape, count);
            }
            let result = self.extend(index + 1, state + count as usize * self.strides[at]);
            self.table.state.rollback(mark);
            result?;
        }
        Ok(())
    }
}

/// Follows the states back and shares the pods of each kind out to its groups.
fn trace(kinds: &[Kind], strides: &[usize], nodes: &[NodeId], layers: &[Vec<u32>], last: usize) -> Vec<Placed> {
    let mut owed: Vec<Vec<(usize, u32)>> = kinds.iter().map(|kind| kind.groups.clone()).collect();
    let mut placed = Vec::new();
    let mut state = last;
    for layer in (1..layers.len()).rev() {
        let before = layers[layer][state] as usize;
        for (at, kind) in kinds.iter().enumerate() {
            let digit = |state: usize| (state / strides[at]) as u32 % (kind.count + 1);
            let mut count = digit(state) - digit(before);
            while count > 0 {
                let (group, left) = owed[at].last_mut().expect("no more pods are placed than owed");
                let share = count.min(*left);
                if share > 0 {
                    placed.push(Placed {
                        group: *group,
                        node: nodes[layer - 1],
                        count: share,
                        extra: kind.extra,
                    });
                }
                *left -= share;
                count -= share;
                if *left == 0 {
                    owed[at].pop();
                }
            }
        }
        state = before;
    }
    placed
}
