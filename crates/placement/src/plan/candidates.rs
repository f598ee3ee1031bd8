//! Which domains a scope may take, best first.
//!
//! Levels are walked from the preferred one outward to the required one (or to the domain of the parent). Within a level the
//! order is: children's wishes that can be met; pods that fit, extras and later siblings included; the domain used before;
//! fewest other replicas of the set; nearest to what is placed of the gang and its siblings; tightest; a domain whose
//! surroundings are already in use; position.

use std::cmp::Reverse;

use crate::gang::Gang;
use crate::topology::{DomainId, View};

use super::bounds::Bounds;
use super::dive::Choice;
use super::extras;
use super::scopes::{Scope, Scopes};
use super::table::Table;

/// A domain and how many levels outward of the preferred one it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate {
    pub(super) domain: DomainId,
    pub(super) distance: u32,
}

/// Where a scope has to choose: inside the domain its parent chose, or, with nothing but extras to place, anywhere the
/// required levels above allow.
pub(super) fn outer(view: &View, scopes: &Scopes, choice: &Choice, root: DomainId, scope: usize) -> DomainId {
    let parent = scopes.scopes[scope].parent;
    if scope == 0 {
        root
    } else if scopes.scopes[scope].idle() {
        extras::outermost(view, scopes, choice, root, parent)
    } else {
        choice.domains[scopes.owner_of(parent)]
    }
}

/// Every domain the scope may take inside `outer`, by level only.
pub(super) fn domains(view: &View, scope: &Scope, outer: DomainId) -> Vec<Candidate> {
    let mut outer = outer;
    if let Some(pinned) = scope.pinned {
        if view.contains(outer, pinned) {
            outer = pinned;
        } else if !view.contains(pinned, outer) {
            return Vec::new();
        }
    }
    let depth = view.domain(outer).depth;
    if let Some(required) = scope.required
        && required <= depth
        && view.ancestor_at(outer, required).is_none()
    {
        return Vec::new();
    }
    let base = scope.required.unwrap_or(0).max(depth);
    let mut found = Vec::new();
    if let Some(preferred) = scope.preferred {
        for level in (base + 1..=preferred).rev() {
            let distance = (preferred - level) as u32;
            let named = |id: &&DomainId| {
                scope
                    .required
                    .is_none_or(|required| view.ancestor_at(**id, required).is_some())
            };
            let level = view.inside(outer, level).iter().filter(named);
            found.extend(level.map(|domain| Candidate {
                domain: *domain,
                distance,
            }));
        }
    }
    let reached = |domain: DomainId| match scope.preferred {
        None => 0,
        Some(preferred) => {
            let mut at = domain;
            while view.domain(at).depth > preferred {
                at = view.domain(at).parent;
            }
            (preferred - view.domain(at).depth) as u32
        }
    };
    let last: &[DomainId] = if base == depth {
        &[outer]
    } else {
        view.inside(outer, base)
    };
    found.extend(last.iter().map(|domain| Candidate {
        domain: *domain,
        distance: reached(*domain),
    }));
    keep_near_bound(view, scope, outer, &mut found);
    found
}

/// New pods join those already bound: only domains that hold them all (if split: some of them) are left.
fn keep_near_bound(view: &View, scope: &Scope, outer: DomainId, found: &mut Vec<Candidate>) {
    if scope.bound.is_empty() {
        return;
    }
    let holds = |domain: DomainId, node| view.holds(domain, node);
    found.retain(|candidate| {
        let domain = candidate.domain;
        let near = if scope.split && candidate.distance == 0 {
            scope.bound.iter().any(|node| holds(domain, *node))
        } else {
            scope.bound.iter().all(|node| holds(domain, *node))
        };
        domain == outer || near
    });
}

/// The viable candidates in the order in which they should be tried.
pub(super) fn ordered(
    table: &Table<'_>,
    bounds: &Bounds,
    gang: &Gang,
    scope: &Scope,
    outer: DomainId,
) -> Vec<Candidate> {
    let view = table.view();
    let previous = gang.previous.as_ref().and_then(|path| view.find(path));
    let mut keyed: Vec<_> = domains(view, scope, outer)
        .into_iter()
        .filter(|candidate| bounds.viable(scope, candidate.domain))
        .map(|candidate| {
            let domain = candidate.domain;
            let (mut fit, mut room) = (0_u64, 0_u64);
            for local in 0..scope.want.len() {
                let wanted = u64::from(scope.want[local]) + u64::from(scope.ahead[local]);
                let slots = if wanted == 0 { 0 } else { table.sum(local, domain) };
                fit += slots.min(wanted);
                room += slots;
            }
            let members = scope.bound.iter().filter(|node| view.holds(domain, **node)).count();
            let known =
                previous.is_some_and(|previous| view.contains(previous, domain) || view.contains(domain, previous));
            let untouched = table.state.pods_in(table.view, view.domain(domain).parent) == 0;
            let key = (
                candidate.distance,
                bounds.disappointed(scope, domain),
                Reverse(if scope.split { members } else { 0 }),
                Reverse(fit),
                !known,
                taken(view, gang, domain),
                table.remoteness(domain),
                room,
                untouched,
                domain,
            );
            (key, candidate)
        })
        .collect();
    keyed.sort_unstable_by_key(|row| row.0);
    if keyed.is_empty() && scope.idle() {
        return vec![Candidate {
            domain: DomainId::NOWHERE,
            distance: 0,
        }];
    }
    let cost = |candidate: Candidate| Candidate {
        distance: if scope.idle() { 0 } else { candidate.distance },
        ..candidate
    };
    keyed.into_iter().map(|(_, candidate)| cost(candidate)).collect()
}

/// How many other replicas of the set the domain's surroundings hold.
fn taken(view: &View, gang: &Gang, domain: DomainId) -> u32 {
    let Some(spread) = &gang.spread else { return 0 };
    let around = view
        .depth_of(&spread.key)
        .and_then(|depth| view.ancestor_at(domain, depth));
    around
        .and_then(|around| spread.taken.get(&view.domain(around).path))
        .copied()
        .unwrap_or(0)
}
