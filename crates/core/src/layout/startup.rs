//! Who waits for whom, from positions in the template to the objects of one replica: always pods of the same gang.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{GroupLayout, Parent, ReplicaLayout};
use crate::facts::SetFacts;

/// Lists of parents while a replica is laid out. In an anchor all copies of a clique wait for the same ones, so they
/// share one list.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    in_anchors: BTreeMap<(usize, usize), Arc<[Parent]>>,
}

impl Shared {
    /// The cliques that pods of the clique at `position` wait for in the gang at `gang`.
    pub(crate) fn parents(
        &mut self,
        facts: &SetFacts<'_>,
        layout: &ReplicaLayout,
        position: usize,
        gang: usize,
    ) -> Arc<[Parent]> {
        if layout.gangs[gang].scaled.is_some() {
            return parents(facts, layout, position, gang).into();
        }
        let list = || parents(facts, layout, position, gang).into();
        self.in_anchors.entry((position, gang)).or_insert_with(list).clone()
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

/// The cliques that pods of the clique at `position` wait for in the gang at `gang`.
///
/// In an anchor a parent inside a scaling group stands for its cliques in all copies of that group there. In the
/// gang of a copy only parents in the same copy count: the rest of the replica is running before it starts. Where a
/// replica has several anchors, a parent without pods in this one is not waited for: those of another version would say
/// nothing about this one.
fn parents(facts: &SetFacts<'_>, layout: &ReplicaLayout, position: usize, gang: usize) -> Vec<Parent> {
    let name = facts.replica(layout.index);
    let here = &layout.gangs[gang];
    let alone = layout.gangs.iter().filter(|gang| gang.scaled.is_none()).count() == 1;
    let mut expanded = Vec::new();
    for &parent in &facts.cliques[position].parents {
        let clique = &facts.cliques[parent];
        // What is idle by the template never becomes ready, and is not waited for.
        if clique.replicas == 0 || clique.group.is_some_and(|group| facts.groups[group].replicas == 0) {
            continue;
        }
        let minimum = clique.min_available;
        let clique_name = clique.template.name.as_str();
        match (clique.group, here.scaled) {
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
                let copies = layout.copies_in(here, group);
                expanded.extend(copies.into_iter().map(|copy| Parent {
                    clique: scaling_group.clique_name(copy, clique_name),
                    minimum,
                }));
            }
            (None, None) => {
                let pods = here
                    .entry
                    .map_or(0, |entry| layout.map.entries[entry].pods(clique_name));
                let minimum = if alone { minimum } else { minimum.min(pods) };
                if minimum > 0 {
                    expanded.push(Parent {
                        clique: name.clique_name(clique_name),
                        minimum,
                    });
                }
            }
        }
    }
    expanded
}
