//! Which topology a set refers to, and which levels of it: its packing constraints and the spread of its replicas, read
//! together. Whether those levels exist is decided elsewhere.

use std::collections::BTreeSet;

use coppice_api::spread::Spread;
use coppice_api::types::{PodCliqueSet, TopologyConstraint};

fn constraints(set: &PodCliqueSet) -> impl Iterator<Item = &TopologyConstraint> {
    let template = &set.spec.template;
    let groups = template
        .pod_clique_scaling_groups
        .iter()
        .map(|group| &group.topology_constraint);
    let cliques = template.cliques.iter().map(|clique| &clique.topology_constraint);
    std::iter::once(&template.topology_constraint)
        .chain(groups)
        .chain(cliques)
        .flatten()
}

/// The domains that the constraints of a set name, and the one that its replicas spread over.
pub(crate) fn referenced_domains(set: &PodCliqueSet) -> BTreeSet<String> {
    let domains = constraints(set).flat_map(|constraint| [constraint.required(), constraint.preferred()]);
    let spread = Spread::of(set.metadata.annotations.as_ref()).and_then(Spread::level);
    domains.flatten().chain(spread).map(str::to_owned).collect()
}

/// The topology that a set refers to, by the first of its constraints that names one.
pub fn topology_name(set: &PodCliqueSet) -> Option<&str> {
    constraints(set)
        .find_map(|constraint| constraint.topology_name.as_deref())
        .filter(|name| !name.is_empty())
}
