//! From a solution to a plan: pod names, domains, score.

use std::collections::BTreeMap;

use crate::gang::Gang;
use crate::reasons::Reason;
use crate::topology::{DomainId, DomainPath};

use super::exact::Solution;
use super::scopes::{RANKS, Scopes};
use super::table::{Placed, Table};

/// One pod to bind.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Binding {
    /// Index of the group in the gang.
    pub group: usize,
    /// The pod.
    pub pod: String,
    /// The node.
    pub node: String,
    /// Above the floor.
    pub extra: bool,
}

/// The domain a part of the gang went to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenDomain {
    /// The gang, config or group.
    pub scope: String,
    /// The label key of the level.
    pub key: String,
    /// The domain.
    pub domain: DomainPath,
    /// How many levels broader than preferred.
    pub distance: u32,
}

/// Where a claim that was not bound gets its volume from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChosenVolume {
    /// The volume that exists; one is to be made for the node if there is none.
    pub volume: Option<String>,
    /// The node of the first pod that uses it.
    pub node: String,
}

/// Where the pods of a gang go.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// Pods and nodes, in the order of groups, floors before extras.
    pub bindings: Vec<Binding>,
    /// The domains of all packed parts.
    pub domains: Vec<ChosenDomain>,
    /// The domain to store for the placement group, if it requires one.
    pub placement_group: Option<DomainPath>,
    /// Where claims that were not bound get their volumes from, by name.
    pub volumes: BTreeMap<String, ChosenVolume>,
    /// Levels lost against what is preferred, summed by rank: placement group, gang, configs, groups.
    pub distances: [u32; 4],
    /// Extras without a place.
    pub left_over: u32,
    /// 1 if every wish is met, 0 if none is.
    pub score: f64,
    /// Things worth telling.
    pub notes: Vec<Reason>,
    /// Steps the decision took.
    pub steps: u64,
}

/// Writes the plan down.
pub(super) fn make(table: &Table<'_>, scopes: &Scopes, gang: &Gang, solution: &Solution) -> Plan {
    let view = table.view();
    let mut bindings = Vec::new();
    let mut by_group: Vec<Vec<&Placed>> = vec![Vec::new(); gang.groups.len()];
    solution
        .placed
        .iter()
        .for_each(|placed| by_group[placed.group].push(placed));
    let own = gang.own_groups();
    for (at, group) in gang.groups.iter().enumerate().take(own) {
        let mut pods = group.pending.iter();
        for extra in [false, true] {
            let mut mine: Vec<_> = by_group[at]
                .iter()
                .filter(|placed| placed.extra == extra)
                .map(|placed| (table.state.node(placed.node).name.as_str(), placed.count))
                .collect();
            mine.sort_unstable();
            for (node, count) in mine {
                bindings.extend(pods.by_ref().take(count as usize).map(|pod| Binding {
                    group: at,
                    pod: pod.clone(),
                    node: node.to_owned(),
                    extra,
                }));
            }
        }
    }
    let mut domains = Vec::new();
    let (mut lost, mut wishes) = (0.0, 0_u32);
    let mut distances = [0; RANKS];
    for (at, scope) in scopes.scopes.iter().enumerate() {
        if !scope.constrained() || scope.of_companion {
            continue;
        }
        let domain = solution.choice.domains[at];
        let depth = view.domain(domain).depth;
        let distance = scope.preferred.map_or(0, |preferred| preferred.saturating_sub(depth));
        let worst = scope
            .preferred
            .map_or(1, |preferred| preferred - scope.required.unwrap_or(0).min(preferred));
        lost += distance as f64 / worst.max(1) as f64;
        if !scope.idle() {
            distances[scope.rank] += u32::try_from(distance).unwrap_or(u32::MAX);
        }
        wishes += 1;
        domains.push(ChosenDomain {
            scope: scope.name.clone(),
            key: view.key_of(depth).unwrap_or_default().to_owned(),
            domain: view.domain(domain).path.clone(),
            distance: u32::try_from(distance).unwrap_or(u32::MAX),
        });
    }
    let outer = &scopes.scopes[0];
    let stored = outer
        .required
        .and_then(|depth| view.ancestor_at(solution.choice.domains[0], depth));
    Plan {
        bindings,
        domains,
        placement_group: stored
            .filter(|id| *id != DomainId::ROOT)
            .map(|id| view.domain(id).path.clone()),
        volumes: BTreeMap::new(),
        distances: if gang.companions.is_empty() {
            solution.choice.distances
        } else {
            distances
        },
        left_over: solution.left_over,
        score: if wishes == 0 {
            1.0
        } else {
            1.0 - lost / f64::from(wishes)
        },
        notes: scopes.notes.clone(),
        steps: table.steps.used(),
    }
}
