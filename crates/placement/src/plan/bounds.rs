//! Upper bounds: how many copies of a subtree a domain could hold.
//!
//! For every kind of scope and every domain: the number of copies allowed by slots per shape, by sums per resource, and by
//! the copies of its children, each counted at the level the child requires. Siblings are counted, not assigned, so the
//! whole table costs O(kinds x domains). Zero copies prove that a domain (or, at the root, the cluster) cannot hold the
//! subtree; a positive number proves nothing.

use std::collections::BTreeMap;

use crate::budget::Exhausted;
use crate::topology::DomainId;

use super::scopes::{Scope, Scopes};
use super::table::Table;

pub(super) struct Bounds {
    /// Copies a domain could hold if the subtree had to lie in it, by kind and domain.
    copies: Vec<Vec<u32>>,
    /// Copies within a domain, each in a domain of the level the kind prefers, by kind and domain.
    preferred: Vec<Vec<u32>>,
    /// Kinds of the children of a kind, and how many there are of each.
    children: Vec<Vec<(usize, u32)>>,
}

impl Bounds {
    pub(super) fn compute(table: &mut Table<'_>, scopes: &Scopes) -> Result<Self, Exhausted> {
        let domains = table.view().domains().len();
        let inside = table.view().numbers_inside(table.root);
        table.steps.spend(scopes.kinds.len() * inside.len())?;
        let mut copies: Vec<Vec<u32>> = Vec::with_capacity(scopes.kinds.len());
        let mut available: Vec<Vec<u32>> = Vec::with_capacity(scopes.kinds.len());
        let mut preferred: Vec<Vec<u32>> = Vec::with_capacity(scopes.kinds.len());
        let mut counted: Vec<Vec<(usize, u32)>> = Vec::with_capacity(scopes.kinds.len());
        // Kinds are numbered children first, so the tables of children exist when a parent needs them.
        for at in &scopes.kinds {
            let scope = &scopes.scopes[*at];
            let children = count_children(scopes, scope);
            let own: Vec<u32> = (0..domains)
                .map(|domain| {
                    if !inside.contains(&domain) {
                        return 0;
                    }
                    let nested = children
                        .iter()
                        .map(|(kind, count)| available[*kind][domain] / count)
                        .min();
                    alone(table, scope, DomainId(domain as u32)).min(nested.unwrap_or(u32::MAX))
                })
                .collect();
            let required = if scope.pinned.is_some() { None } else { scope.required };
            available.push(at_level(table, &own, required));
            let wished = if scope.split { None } else { scope.preferred };
            preferred.push(if wished.is_some() {
                at_level(table, &own, wished)
            } else {
                Vec::new()
            });
            copies.push(own);
            counted.push(children);
        }
        Ok(Self {
            copies,
            preferred,
            children: counted,
        })
    }

    /// Whether a domain might hold the scope.
    pub(super) fn viable(&self, scope: &Scope, domain: DomainId) -> bool {
        self.copies[scope.kind][domain.index()] > 0
    }

    /// How many children of the scope could not have their wish inside the domain.
    pub(super) fn disappointed(&self, scope: &Scope, domain: DomainId) -> u32 {
        let missing =
            self.children[scope.kind]
                .iter()
                .map(|(kind, count)| match self.preferred[*kind].get(domain.index()) {
                    Some(possible) => count.saturating_sub(*possible),
                    None => 0,
                });
        missing.sum()
    }
}

/// Children with floors by kind, and how many there are of each.
fn count_children(scopes: &Scopes, scope: &Scope) -> Vec<(usize, u32)> {
    let mut counted: BTreeMap<usize, u32> = BTreeMap::new();
    let children = scope.children.iter().map(|child| &scopes.scopes[*child]);
    for child in children.filter(|child| !child.idle()) {
        *counted.entry(child.kind).or_default() += 1;
    }
    counted.into_iter().collect()
}

fn alone(table: &Table<'_>, scope: &Scope, domain: DomainId) -> u32 {
    let mut most = u64::from(u32::MAX);
    let mut shapes = 0;
    for (local, need) in scope.need.iter().enumerate().filter(|(_, need)| **need > 0) {
        most = most.min(table.sum(local, domain) / u64::from(*need));
        shapes += 1;
    }
    // With one shape slots say it all; with several, what they ask together may be more than there is.
    if shapes > 1 && most > 0 {
        for column in 0..table.state.columns().len() {
            let (mut asked, mut free) = (0_i64, 0_i64);
            for (local, need) in scope.need.iter().enumerate().filter(|(_, need)| **need > 0) {
                let requests = &table.state.shape_of(table.shapes[local]).requests;
                if let Some((at, request)) = requests.iter().find(|(at, _)| at.index() == column) {
                    asked = asked.saturating_add(request.saturating_mul(i64::from(*need)));
                    free = table.state.free_in(table.view, domain, *at);
                }
            }
            if asked > 0 {
                most = most.min(u64::try_from(free / asked).unwrap_or(0));
            }
        }
    }
    u32::try_from(most).unwrap_or(u32::MAX)
}

/// Sums copies over the domains of one depth, seen from every broader domain; a deeper domain counts for itself.
fn at_level(table: &Table<'_>, own: &[u32], depth: Option<usize>) -> Vec<u32> {
    let Some(depth) = depth else { return own.to_vec() };
    let view = table.view();
    let mut sums = vec![0_u32; own.len()];
    for at in view.numbers_inside(table.root) {
        let domain = &view.domains()[at];
        let id = DomainId(at as u32);
        if domain.depth > depth && view.ancestor_at(id, depth).is_some() {
            sums[at] = own[at];
        }
        if domain.depth == depth {
            let mut up = id;
            sums[at] = own[at];
            while up != DomainId::ROOT {
                up = view.domain(up).parent;
                sums[up.index()] = sums[up.index()].saturating_add(own[at]);
            }
        }
    }
    sums
}
