//! The second search: complete within its budget.
//!
//! Enumerates the domains of all constrained scopes (branch and bound on the distances to what is preferred, identical
//! siblings in order, mirrored domains once, sums of resources as a cut) and packs each complete assignment exactly with [`super::states`]. If it
//! runs to its end, its answer is the best there is by (distances, outermost rank first; extras placed), and finding nothing
//! proves that there is nothing. Meant for small gangs or small domains; large ones run out of budget, which is reported.

use crate::budget::Exhausted;
use crate::gang::{Gang, Group};
use crate::resources::{Column, Sum};
use crate::topology::DomainId;

use super::bounds::Bounds;
use super::candidates::{self, Candidate};
use super::dive::{Choice, MIRRORS};
use super::extras;
use super::scopes::{RANKS, Scopes};
use super::states::{self, Kind};
use super::table::{Placed, Table};

/// More choices than this are not searched completely: it would neither end nor keep to the stack.
const DEEPEST: usize = 256;

/// A complete answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Solution {
    pub(super) choice: Choice,
    pub(super) placed: Vec<Placed>,
    /// Extras that found no place.
    pub(super) left_over: u32,
}

impl Solution {
    fn key(&self) -> ([u32; RANKS], u32) {
        (self.choice.distances, self.left_over)
    }
}

struct Search<'t, 's, 'g> {
    table: &'t mut Table<'s>,
    bounds: &'g Bounds,
    scopes: &'g Scopes,
    gang: &'g Gang,
    /// Scopes that choose, parents first.
    choosing: Vec<usize>,
    /// The last identical sibling before each of them.
    twins: Vec<Option<usize>>,
    lists: Vec<Vec<Candidate>>,
    taken: Vec<usize>,
    choice: Choice,
    /// Free resources by domain and column, less what is assigned below.
    room: Vec<Sum>,
    owned: Vec<Vec<(Column, Sum)>>,
    best: Option<Solution>,
    with_extras: bool,
}

/// Improves on `best` until nothing better exists. Out of budget, the best so far is in `best` all the same.
pub(super) fn improve(
    table: &mut Table<'_>,
    bounds: &Bounds,
    scopes: &Scopes,
    gang: &Gang,
    with_extras: bool,
    best: &mut Option<Solution>,
) -> Result<(), Exhausted> {
    let count = scopes.scopes.len();
    let choosing: Vec<usize> = (0..count)
        .filter(|at| *at == 0 || scopes.scopes[*at].constrained())
        .collect();
    if choosing.len() > DEEPEST {
        return Err(Exhausted);
    }
    let twins = choosing.iter().map(|at| twin_of(scopes, *at)).collect();
    let columns = table.state.columns().len();
    let domains = table.view().domains().len();
    table.steps.spend(domains)?;
    let mut room = Vec::with_capacity(domains * columns);
    let all: Vec<Column> = table.state.columns().all().collect();
    for domain in 0..domains {
        room.extend(
            all.iter()
                .map(|column| Sum::from(table.state.free_in(table.view, DomainId(domain as u32), *column))),
        );
    }
    let mut search = Search {
        owned: demands(table, scopes, gang),
        choosing,
        twins,
        lists: vec![Vec::new(); count],
        taken: vec![0; count],
        choice: Choice {
            domains: vec![table.root; count],
            distances: [0; RANKS],
        },
        room,
        best: best.take(),
        with_extras,
        table,
        bounds,
        scopes,
        gang,
    };
    let result = search.assign(0);
    *best = search.best;
    result
}

fn twin_of(scopes: &Scopes, at: usize) -> Option<usize> {
    let here = &scopes.scopes[at];
    if at == 0 {
        return None;
    }
    let siblings = &scopes.scopes[here.parent].children;
    siblings
        .iter()
        .copied()
        .rfind(|other| *other < at && scopes.scopes[*other].kind == here.kind)
}

/// What the floors owned by each scope ask for in sum.
fn demands(table: &Table<'_>, scopes: &Scopes, gang: &Gang) -> Vec<Vec<(Column, Sum)>> {
    let mut owned: Vec<Vec<(Column, Sum)>> = vec![Vec::new(); scopes.scopes.len()];
    for (at, scope) in scopes.scopes.iter().enumerate() {
        let Some(group) = scope.group else { continue };
        let count = Sum::from(gang.groups[group].missing());
        for (column, request) in &table.state.shape_of(gang.groups[group].shape).requests {
            let list = &mut owned[scopes.owner_of(at)];
            match list.iter_mut().find(|(known, _)| known == column) {
                Some((_, sum)) => *sum += Sum::from(*request) * count,
                None => list.push((*column, Sum::from(*request) * count)),
            }
        }
    }
    owned
}

impl Search<'_, '_, '_> {
    fn assign(&mut self, index: usize) -> Result<(), Exhausted> {
        let Some(scope) = self.choosing.get(index).copied() else {
            return self.evaluate();
        };
        let here = &self.scopes.scopes[scope];
        let outer = candidates::outer(self.table.view(), self.scopes, &self.choice, self.table.root, scope);
        let list = candidates::ordered(self.table, self.bounds, self.gang, here, outer);
        self.table.steps.spend((list.len() + 1) * self.table.shapes.len())?;
        // Twins choose from the same list in order; what the earlier one skipped is no use to the later one.
        let first = self.twins[index].map_or(0, |twin| self.taken[twin]);
        self.lists[scope] = list;
        let mut done: Vec<DomainId> = Vec::new();
        for at in first..self.lists[scope].len() {
            let candidate = self.lists[scope][at];
            self.table.steps.spend(1)?;
            if self.mirrors(index, candidate.domain, &done)? {
                continue;
            }
            done.push(candidate.domain);
            self.choice.distances[here.rank] += candidate.distance;
            if self.promising() {
                self.choice.domains[scope] = candidate.domain;
                self.taken[scope] = at;
                let fits = self.reserve(scope, candidate.domain, 1);
                let result = if fits { self.assign(index + 1) } else { Ok(()) };
                self.reserve(scope, candidate.domain, -1);
                result?;
            }
            self.choice.distances[here.rank] -= candidate.distance;
        }
        Ok(())
    }

    /// Whether the domain mirrors one that was searched, and nothing chosen so far tells them apart.
    fn mirrors(&mut self, index: usize, domain: DomainId, done: &[DomainId]) -> Result<bool, Exhausted> {
        for other in done.iter().rev().take(MIRRORS) {
            let view = self.table.view();
            let inside = |chosen: DomainId| view.contains(domain, chosen) || view.contains(*other, chosen);
            let chosen = self.choosing[..index].iter().map(|scope| self.choice.domains[*scope]);
            if chosen.into_iter().any(inside) {
                continue;
            }
            if self.table.alike(domain, *other, &self.scopes.scopes[0].bound)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether an answer with these distances could still be better than the best.
    fn promising(&self) -> bool {
        self.best
            .as_ref()
            .is_none_or(|best| (self.choice.distances, 0) < (best.choice.distances, best.left_over))
    }

    fn reserve(&mut self, scope: usize, domain: DomainId, sign: Sum) -> bool {
        let columns = self.table.state.columns().len();
        let mut fits = true;
        let mut at = domain;
        loop {
            for (column, amount) in &self.owned[scope] {
                let room = &mut self.room[at.index() * columns + column.index()];
                *room -= amount * sign;
                fits &= *room >= 0;
            }
            if at == DomainId::ROOT {
                return fits;
            }
            at = self.table.view().domain(at).parent;
        }
    }

    fn evaluate(&mut self) -> Result<(), Exhausted> {
        self.table.steps.spend(self.scopes.scopes.len())?;
        let mut choice = self.choice.clone();
        for scope in 1..self.scopes.scopes.len() {
            if !self.scopes.scopes[scope].constrained() {
                choice.domains[scope] = choice.domains[self.scopes.scopes[scope].parent];
            }
        }
        let (floors, extras) = self.kinds(&choice);
        let Some(plain) = states::pack(self.table, &floors)? else {
            return Ok(());
        };
        let wanted: u32 = if self.with_extras {
            self.gang.groups.iter().map(Group::extras).fold(0, u32::saturating_add)
        } else {
            0
        };
        self.offer(&choice, &plain, wanted);
        if wanted > 0 && !extras.is_empty() && self.promising() {
            let both: Vec<Kind> = floors.into_iter().chain(extras).collect();
            if let Some(full) = states::pack(self.table, &both)? {
                self.offer(&choice, &full, wanted);
            }
        }
        Ok(())
    }

    fn kinds(&self, choice: &Choice) -> (Vec<Kind>, Vec<Kind>) {
        let (mut floors, mut extras): (Vec<Kind>, Vec<Kind>) = (Vec::new(), Vec::new());
        let view = self.table.view();
        for (at, scope) in self.scopes.scopes.iter().enumerate() {
            let Some(group) = scope.group else { continue };
            let local = self.scopes.local(self.gang.groups[group].shape);
            let add = |list: &mut Vec<Kind>, domain: DomainId, count: u32, extra: bool| {
                if count == 0 || domain == DomainId::NOWHERE {
                    return;
                }
                match list
                    .iter_mut()
                    .find(|kind| kind.local == local && kind.domain == domain)
                {
                    Some(kind) => {
                        kind.count += count;
                        kind.groups.push((group, count));
                    }
                    None => list.push(Kind {
                        local,
                        domain,
                        count,
                        extra,
                        groups: vec![(group, count)],
                    }),
                }
            };
            add(
                &mut floors,
                choice.domains[at],
                self.gang.groups[group].missing(),
                false,
            );
            let wider = extras::outermost(view, self.scopes, choice, self.table.root, at);
            add(&mut extras, wider, self.gang.groups[group].extras(), true);
        }
        (floors, extras)
    }

    fn offer(&mut self, choice: &Choice, placed: &[Placed], wanted: u32) {
        let found: u32 = placed
            .iter()
            .filter(|placed| placed.extra)
            .map(|placed| placed.count)
            .sum();
        let solution = Solution {
            choice: choice.clone(),
            placed: placed.to_vec(),
            left_over: wanted.saturating_sub(found),
        };
        if self.best.as_ref().is_none_or(|best| solution.key() < best.key()) {
            self.best = Some(solution);
        }
    }
}
