//! Extras: pods above the floors, as many as there is room for.
//!
//! Taken one at a time from the group that lacks most, first in the domain its floor went to, then anywhere inside the
//! required domains around it. Never moves a floor pod and never breaks a required packing; leaving an extra out is not
//! a failure.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::budget::Exhausted;
use crate::gang::Gang;
use crate::state::NodeId;
use crate::topology::{DomainId, View};

use super::dive::Choice;
use super::pack;
use super::scopes::Scopes;
use super::table::{Placed, Table};

/// Where extras of a scope may go: the narrowest required domain around the domain it chose.
pub(super) fn outermost(view: &View, scopes: &Scopes, choice: &Choice, root: DomainId, scope: usize) -> DomainId {
    let mut widest = root;
    let mut path = vec![scope];
    while let Some(last) = path.last()
        && *last != 0
    {
        path.push(scopes.scopes[*last].parent);
    }
    for at in path.into_iter().rev() {
        let here = &scopes.scopes[at];
        if choice.domains[at] == DomainId::NOWHERE {
            return DomainId::NOWHERE;
        }
        let pinned = here.pinned;
        let required = here
            .required
            .and_then(|depth| view.ancestor_at(choice.domains[at], depth));
        for bound in [pinned, required].into_iter().flatten() {
            if view.contains(widest, bound) {
                widest = bound;
            }
        }
    }
    widest
}

struct Queue {
    group: usize,
    local: usize,
    left: u32,
    nodes: Vec<NodeId>,
    at: usize,
    wider: Option<DomainId>,
}

fn best_first(table: &mut Table<'_>, domain: DomainId, local: usize, count: u32) -> Result<Vec<NodeId>, Exhausted> {
    let mut need = vec![0; table.shapes.len()];
    need[local] = count;
    pack::best_first(table, domain, local, Some(&need))
}

/// Places extras into the table.
pub(super) fn place(table: &mut Table<'_>, scopes: &Scopes, gang: &Gang, choice: &Choice) -> Result<(), Exhausted> {
    let mut queues: Vec<Queue> = Vec::new();
    for (at, scope) in scopes.scopes.iter().enumerate() {
        let Some(group) = scope.group else { continue };
        let extras = gang.groups[group].extras();
        if extras == 0 {
            continue;
        }
        let local = scopes.local(gang.groups[group].shape);
        let near = choice.domains[at];
        let wider = outermost(table.view(), scopes, choice, table.root, at);
        queues.push(Queue {
            group,
            local,
            left: extras,
            nodes: best_first(table, near, local, extras)?,
            at: 0,
            wider: (wider != near).then_some(wider),
        });
    }
    let mut open: BinaryHeap<(u32, Reverse<usize>)> = BinaryHeap::new();
    open.extend(queues.iter().enumerate().map(|(at, queue)| (queue.left, Reverse(at))));
    while let Some((_, Reverse(next))) = open.peek().copied() {
        let queue = &mut queues[next];
        table.steps.spend(1)?;
        let Some(node) = queue.nodes.get(queue.at).copied() else {
            match queue.wider.take() {
                Some(domain) => {
                    queue.nodes = best_first(table, domain, queue.local, queue.left)?;
                    queue.at = 0;
                }
                None => drop(open.pop()),
            }
            continue;
        };
        if table.slots(queue.local, node) == 0 {
            queue.at += 1;
            continue;
        }
        let placed = Placed {
            group: queue.group,
            node,
            count: 1,
            extra: true,
        };
        queue.left -= 1;
        open.pop();
        if queue.left > 0 {
            open.push((queue.left, Reverse(next)));
        }
        table.steps.spend(table.effort())?;
        table.place(queue.local, placed);
    }
    Ok(())
}
