//! Who waits for whom, from positions in the template to the objects of one replica.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::facts::SetFacts;
use crate::layout::{GroupLayout, Parent, Place};

/// Lists of parents while a replica is laid out. In the base gang all copies of a clique wait for the same ones, so they
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
        base_copies: &[u32],
    ) -> Arc<[Parent]> {
        if matches!(place, Place::Member { group, copy } if copy >= base_copies[group]) {
            return parents(facts, replica, position, place, base_copies).into();
        }
        let list = || parents(facts, replica, position, place, base_copies).into();
        self.in_base.entry(position).or_insert_with(list).clone()
    }
}

/// How many entries the lists of all cliques in the base gang have together.
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
/// In the base gang a parent inside a scaling group stands for its cliques in all base copies of that group. In a
/// scaled gang only parents in the same copy count: the rest of the replica is running before a scaled gang starts.
/// `base_copies` is the number of copies of each group in the base gang.
fn parents(facts: &SetFacts<'_>, replica: u32, position: usize, place: Place, base_copies: &[u32]) -> Vec<Parent> {
    let name = facts.replica(replica);
    let scaled_copy = match place {
        Place::Member { group, copy } if copy >= base_copies[group] => Some((group, copy)),
        _ => None,
    };
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
                expanded.extend((0..base_copies[group]).map(|copy| Parent {
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
