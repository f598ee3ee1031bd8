//! The first search: choose domains, pack, and go back where it does not work out.
//!
//! The tree becomes a list of events: choose a domain for a constrained scope, then its constrained children (fewest
//! possible domains first), then pack what the scope owns itself. Each choice is committed before the next is made, so
//! a later sibling sees what is left; when an event fails, the nearest earlier choice tries its next domain. Identical
//! siblings share one list of candidates and never go back to an earlier one than their predecessor took, so k replicas are
//! a scan over domains, not k! assignments. A domain that mirrors one that failed is not tried.
//!
//! Finding nothing is a proof only if the gang has one shape (then packing is exact and nests); see [`Dive::Nothing`].

use std::rc::Rc;

use crate::budget::Exhausted;
use crate::gang::Gang;
use crate::topology::DomainId;

use super::bounds::Bounds;
use super::candidates::{self, Candidate};
use super::pack::{self, Load};
use super::scopes::{RANKS, Scopes};
use super::table::{Point, Table};

/// What the search came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Dive {
    /// Floors are placed in the table.
    Found,
    /// Every choice was tried.
    Nothing,
}

/// Domains by scope, and the sum of distances by rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) domains: Vec<DomainId>,
    pub(super) distances: [u32; RANKS],
}

#[derive(Debug, Clone, Copy)]
enum Event {
    Choose { scope: usize, twin: Option<usize> },
    Pack { scope: usize },
}

/// An event that was taken: what to undo when a later one fails.
#[derive(Debug)]
enum Frame {
    Packed {
        start: Point,
    },
    /// The domain is in the choice; those that failed before it are kept.
    Chosen {
        scope: usize,
        failed: Vec<DomainId>,
    },
}

/// Failures after which the dive gives way to the exact search.
const FAILURES: u32 = 1_000;

/// How many failed domains a new one is compared with.
pub(super) const MIRRORS: usize = 4;

struct Search<'t, 's, 'g> {
    table: &'t mut Table<'s>,
    bounds: &'g Bounds,
    scopes: &'g Scopes,
    gang: &'g Gang,
    events: Vec<Event>,
    owned: Vec<Vec<Load>>,
    lists: Vec<Rc<[Candidate]>>,
    taken: Vec<usize>,
    choice: Choice,
    failures: u32,
}

/// Searches; on [`Dive::Found`] the floors stay placed in the table.
pub(super) fn dive(
    table: &mut Table<'_>,
    bounds: &Bounds,
    scopes: &Scopes,
    gang: &Gang,
) -> Result<(Dive, Choice), Exhausted> {
    let count = scopes.scopes.len();
    let mut search = Search {
        events: Vec::with_capacity(count * 2),
        owned: owned(scopes, gang),
        lists: vec![Rc::from([]); count],
        taken: vec![0; count],
        choice: Choice {
            domains: vec![table.root; count],
            distances: [0; RANKS],
        },
        failures: 0,
        table,
        bounds,
        scopes,
        gang,
    };
    let mut possible = vec![None; scopes.kinds.len()];
    search.list_events(0, None, &mut possible);
    let start = search.table.point();
    match search.solve() {
        Ok(true) => {
            search.settle();
            Ok((Dive::Found, search.choice))
        }
        Ok(false) => Ok((Dive::Nothing, search.choice)),
        Err(exhausted) => {
            search.table.back(start);
            Err(exhausted)
        }
    }
}

/// The floors each scope packs itself: those of groups without a constrained scope in between.
fn owned(scopes: &Scopes, gang: &Gang) -> Vec<Vec<Load>> {
    let mut owned = vec![Vec::new(); scopes.scopes.len()];
    for (at, scope) in scopes.scopes.iter().enumerate() {
        if let Some(group) = scope.group {
            owned[scopes.owner_of(at)].push(Load {
                group,
                local: scopes.local(gang.groups[group].shape),
                count: gang.groups[group].missing(),
            });
        }
    }
    owned
}

impl Search<'_, '_, '_> {
    /// `known` has the number of possible domains by kind: what is alike is counted once.
    fn list_events(&mut self, scope: usize, twin: Option<usize>, known: &mut [Option<usize>]) {
        let here = &self.scopes.scopes[scope];
        let chooses = scope == 0 || here.constrained();
        if chooses {
            self.events.push(Event::Choose { scope, twin });
        }
        let view = self.table.view();
        let mut children: Vec<_> = here
            .children
            .iter()
            .map(|child| {
                let candidate = &self.scopes.scopes[*child];
                let possible = *known[candidate.kind].get_or_insert_with(|| {
                    let possible = candidates::domains(view, candidate, self.table.root);
                    let viable = possible.iter().filter(|c| self.bounds.viable(candidate, c.domain));
                    viable.count()
                });
                let size: u64 = candidate.need.iter().map(|need| u64::from(*need)).sum();
                (possible, std::cmp::Reverse(size), candidate.kind, *child)
            })
            .collect();
        children.sort_unstable();
        for at in 0..children.len() {
            let same = at > 0 && children[at - 1].2 == children[at].2;
            let twin = same.then(|| children[at - 1].3);
            self.list_events(children[at].3, twin, known);
        }
        if chooses && !self.owned[scope].is_empty() {
            self.events.push(Event::Pack { scope });
        }
    }

    /// Goes through the events, and back where one of them fails. One frame per event, kept here and not on the stack of the
    /// thread: a gang may have any number of groups.
    fn solve(&mut self) -> Result<bool, Exhausted> {
        let mut frames: Vec<Frame> = Vec::new();
        loop {
            let Some(event) = self.events.get(frames.len()).copied() else {
                return Ok(true);
            };
            if let Some(frame) = self.enter(event)? {
                frames.push(frame);
                continue;
            }
            loop {
                let Some(frame) = frames.pop() else {
                    return Ok(false);
                };
                if let Some(frame) = self.retry(frame)? {
                    frames.push(frame);
                    break;
                }
            }
        }
    }

    /// Takes an event for the first time; nothing if it fails.
    fn enter(&mut self, event: Event) -> Result<Option<Frame>, Exhausted> {
        match event {
            Event::Pack { scope } => {
                let start = self.table.point();
                let loads = std::mem::take(&mut self.owned[scope]);
                let packed = pack::pack(self.table, self.choice.domains[scope], &loads);
                self.owned[scope] = loads;
                if packed? {
                    Ok(Some(Frame::Packed { start }))
                } else {
                    self.retry(Frame::Packed { start })
                }
            }
            Event::Choose { scope, twin } => {
                let here = &self.scopes.scopes[scope];
                let outer = candidates::outer(self.table.view(), self.scopes, &self.choice, self.table.root, scope);
                let next = match twin {
                    Some(twin) => {
                        self.lists[scope] = self.lists[twin].clone();
                        self.taken[twin]
                    }
                    None => {
                        let list = candidates::ordered(self.table, self.bounds, self.gang, here, outer);
                        self.table.steps.spend((list.len() + 1) * self.table.shapes.len())?;
                        self.lists[scope] = list.into();
                        0
                    }
                };
                self.choose(scope, next, Vec::new())
            }
        }
    }

    /// Undoes an event and takes its next possibility; nothing if there is none.
    fn retry(&mut self, frame: Frame) -> Result<Option<Frame>, Exhausted> {
        match frame {
            Frame::Packed { start } => {
                self.table.back(start);
                self.fail()?;
                Ok(None)
            }
            Frame::Chosen { scope, mut failed } => {
                let index = self.taken[scope];
                let candidate = self.lists[scope][index];
                self.choice.distances[self.scopes.scopes[scope].rank] -= candidate.distance;
                failed.push(candidate.domain);
                self.choose(scope, index + 1, failed)
            }
        }
    }

    /// Takes the next domain of the list that might do.
    fn choose(&mut self, scope: usize, next: usize, failed: Vec<DomainId>) -> Result<Option<Frame>, Exhausted> {
        let here = &self.scopes.scopes[scope];
        for index in next..self.lists[scope].len() {
            let candidate = self.lists[scope][index];
            self.table.steps.spend(self.table.shapes.len())?;
            if !self.table.covers(candidate.domain, &here.need) || self.mirrors(candidate.domain, &failed)? {
                continue;
            }
            self.choice.domains[scope] = candidate.domain;
            self.choice.distances[here.rank] += candidate.distance;
            self.taken[scope] = index;
            return Ok(Some(Frame::Chosen { scope, failed }));
        }
        Ok(None)
    }

    /// Whether the domain is the mirror image of one that failed at the same place.
    fn mirrors(&mut self, domain: DomainId, failed: &[DomainId]) -> Result<bool, Exhausted> {
        for other in failed.iter().rev().take(MIRRORS) {
            if self.table.alike(domain, *other, &self.scopes.scopes[0].bound)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn fail(&mut self) -> Result<(), Exhausted> {
        self.failures += 1;
        if self.failures > FAILURES {
            Err(Exhausted)
        } else {
            Ok(())
        }
    }

    /// Scopes without a wish lie where their parents lie.
    fn settle(&mut self) {
        for scope in 1..self.scopes.scopes.len() {
            if !self.scopes.scopes[scope].constrained() {
                self.choice.domains[scope] = self.choice.domains[self.scopes.scopes[scope].parent];
            }
        }
    }
}
