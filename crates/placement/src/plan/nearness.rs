//! The order of nodes in which pods without a narrower wish stay near each other.
//!
//! Every domain is ranked among those with the same parent: first those with room for all that is still to place, of these those
//! that hold pods of the gang or its siblings, then the tightest; where none has room for all, those that hold pods,
//! then the roomiest. Nodes follow their domains, outer levels first. It is an order only: it rules no node out.

use crate::budget::Exhausted;
use crate::state::NodeId;
use crate::topology::{DomainId, View};

use super::table::Table;

/// Ranks of the domains inside one domain.
pub(super) struct Ranks {
    /// The number of the first domain, and the ranks from there on; empty if all are alike.
    first: usize,
    ranks: Vec<u32>,
}

impl Ranks {
    /// All nodes are alike.
    pub(super) fn none() -> Self {
        Self {
            first: 0,
            ranks: Vec::new(),
        }
    }

    /// The rank of a node: that of the innermost domain around it.
    pub(super) fn of(&self, view: &View, node: NodeId) -> u32 {
        if self.ranks.is_empty() {
            return 0;
        }
        let innermost = view.chain_of(node).last().unwrap_or(DomainId::ROOT);
        let at = innermost.index().checked_sub(self.first);
        at.and_then(|at| self.ranks.get(at)).copied().unwrap_or(0)
    }
}

/// Ranks the domains inside `outer` for pods of one shape; `need` has the pods of every shape still to place.
pub(super) fn ranks(table: &mut Table<'_>, outer: DomainId, local: usize, need: &[u32]) -> Result<Ranks, Exhausted> {
    let numbers = table.view().numbers_inside(outer);
    if numbers.len() < 3 {
        return Ok(Ranks::none());
    }
    table.steps.spend(numbers.len())?;
    let first = numbers.start;
    let mut children: Vec<Vec<usize>> = vec![Vec::new(); numbers.len()];
    for number in numbers.clone().skip(1) {
        let parent = table.view().domains()[number].parent.index();
        if let Some(siblings) = parent.checked_sub(first).and_then(|at| children.get_mut(at)) {
            siblings.push(number);
        }
    }
    for siblings in &mut children {
        siblings.sort_by_cached_key(|number| {
            let domain = DomainId(*number as u32);
            let (covers, room) = (table.covers(domain, need), table.sum(local, domain));
            let by_room = if covers { room } else { u64::MAX - room };
            (!covers, !table.has_members(domain), by_room, *number)
        });
    }
    let mut ranks = vec![0; numbers.len()];
    let (mut open, mut next) = (vec![first], 0);
    while let Some(number) = open.pop() {
        ranks[number - first] = next;
        next += 1;
        open.extend(children[number - first].iter().rev());
    }
    Ok(Ranks { first, ranks })
}
