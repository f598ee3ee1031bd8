//! Who waits for whom, from positions in the template to the objects of one replica.

use crate::facts::SetFacts;
use crate::layout::{Parent, Place};

/// The cliques that the clique at `position`, standing at `place`, waits for.
///
/// In the base gang a parent inside a scaling group stands for its cliques in all base copies of that group. In a
/// scaled gang only parents in the same copy count: the rest of the replica is running before a scaled gang starts.
/// `base_copies` is the number of copies of each group in the base gang.
pub(crate) fn parents(
    facts: &SetFacts<'_>,
    replica: u32,
    position: usize,
    place: Place,
    base_copies: &[u32],
) -> Vec<Parent> {
    let name = facts.replica(replica);
    let scaled_copy = match place {
        Place::Member { group, copy } if copy >= base_copies[group] => Some((group, copy)),
        _ => None,
    };
    let mut expanded = Vec::new();
    for &parent in &facts.cliques[position].parents {
        let clique = &facts.cliques[parent];
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
