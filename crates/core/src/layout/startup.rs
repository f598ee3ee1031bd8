//! Who waits for whom, from positions in the template to the objects of one replica.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{GroupLayout, Parent, Place};
use crate::facts::SetFacts;

/// Lists of parents while a replica is laid out. In the anchor gang all copies of a clique wait for the same ones, so they
/// share one list.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    in_base: BTreeMap<usize, Arc<[Parent]>>,
}

impl Shared {
    /// The cliques that the clique at `position`, standing at `place`, waits for.
    pub(crate) fn parents(
        &mut self,
        facts: &SetFacts<'_>,
        replica: u32,
        position: usize,
        place: Place,
        groups: &[GroupLayout],
    ) -> Arc<[Parent]> {
        if own_gang(place, groups).is_some() {
            return parents(facts, replica, position, place, groups).into();
        }
        let list = || parents(facts, replica, position, place, groups).into();
        self.in_base.entry(position).or_insert_with(list).clone()
    }
}

/// The group and copy of a clique whose copy has a gang of its own.
fn own_gang(place: Place, groups: &[GroupLayout]) -> Option<(usize, u32)> {
    match place {
        Place::Member { group, copy } if groups[group].anchored.binary_search(&copy).is_err() => Some((group, copy)),
        _ => None,
    }
}

/// How many entries the lists of all cliques in the anchor gang have together.
pub(crate) fn predecessors(facts: &SetFacts<'_>, groups: &[GroupLayout]) -> u64 {
    let in_base = |position: usize| {
        let group = facts.cliques[position].group;
        group.map_or(1, |group| u64::from(groups[group].base_copies))
    };
    let of_clique = |(position, clique): (usize, &crate::facts::CliqueFacts<'_>)| {
        let each = clique.parents.iter().map(|parent| in_base(*parent));
        each.fold(0, u64::saturating_add).saturating_mul(in_base(position))
    };
    let all = facts.cliques.iter().enumerate().map(of_clique);
    all.fold(0, u64::saturating_add)
}

/// The cliques that the clique at `position`, standing at `place`, waits for.
///
/// In the anchor gang a parent inside a scaling group stands for its cliques in all copies of that group there. In the
/// gang of a copy only parents in the same copy count: the rest of the replica is running before it starts.
fn parents(facts: &SetFacts<'_>, replica: u32, position: usize, place: Place, groups: &[GroupLayout]) -> Vec<Parent> {
    let name = facts.replica(replica);
    let scaled_copy = own_gang(place, groups);
    let mut expanded = Vec::new();
    for &parent in &facts.cliques[position].parents {
        let clique = &facts.cliques[parent];
        // What is idle by the template never becomes ready, and is not waited for.
        if clique.replicas == 0 || clique.group.is_some_and(|group| facts.groups[group].replicas == 0) {
            continue;
        }
        let minimum = clique.min_available;
        let clique_name = clique.template.name.as_str();
        match (clique.group, scaled_copy) {
            (Some(group), Some((own_group, copy))) if group == own_group => {
                let scaling_group = name.scaling_group(&facts.groups[group].config.name);
                expanded.push(Parent {
                    clique: scaling_group.clique_name(copy, clique_name),
                    minimum,
                });
            }
            (_, Some(_)) => {}
            (Some(group), None) => {
                let scaling_group = name.scaling_group(&facts.groups[group].config.name);
                expanded.extend(groups[group].anchored.iter().map(|&copy| Parent {
                    clique: scaling_group.clique_name(copy, clique_name),
                    minimum,
                }));
            }
            (None, None) => expanded.push(Parent {
                clique: name.clique_name(clique_name),
                minimum,
            }),
        }
    }
    expanded
}
