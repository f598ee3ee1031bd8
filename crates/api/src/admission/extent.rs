//! What the numbers of a set come to together.

use crate::types::{CliqueStartupType, PodCliqueSet};

/// What a set would come to by its template.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Extent {
    /// Pods of all replicas.
    pub(super) pods: u64,
    /// Pods of the largest gang.
    pub(super) gang_pods: u64,
    /// Entries of `startsAfter` in one base gang.
    pub(super) predecessors: u64,
}

fn size(number: i32) -> u64 {
    u64::try_from(number).unwrap_or(0)
}

impl Extent {
    /// What a set comes to. Saturates; unknown clique names count for nothing.
    pub(super) fn of(set: &PodCliqueSet) -> Self {
        let template = &set.spec.template;
        let pods = |name: &str| {
            let clique = template.cliques.iter().find(|clique| clique.name == name);
            clique.map_or(0, |clique| size(clique.spec.replicas))
        };
        let group_of = |name: &str| {
            let mut groups = template.pod_clique_scaling_groups.iter();
            groups.find(|group| group.clique_names.iter().any(|member| member == name))
        };
        let copies = |replicas: Option<i32>| size(replicas.unwrap_or(1));
        let standalone = template
            .cliques
            .iter()
            .filter(|clique| group_of(&clique.name).is_none());
        let mut base = sum(standalone.map(|clique| size(clique.spec.replicas)));
        let (mut replica, mut largest) = (base, 0);
        for group in &template.pod_clique_scaling_groups {
            let copy = sum(group.clique_names.iter().map(|name| pods(name)));
            let in_base = copies(group.replicas).min(copies(group.min_available));
            base = base.saturating_add(copy.saturating_mul(in_base));
            replica = replica.saturating_add(copy.saturating_mul(copies(group.replicas)));
            largest = largest.max(copy);
        }
        let in_base =
            |name: &str| group_of(name).map_or(1, |group| copies(group.replicas).min(copies(group.min_available)));
        let predecessors = template.cliques.iter().enumerate().map(|(position, clique)| {
            let before: Vec<&str> = match template.clique_startup_type {
                Some(CliqueStartupType::InOrder) => {
                    let previous = position.checked_sub(1).map(|previous| &template.cliques[previous]);
                    previous.map(|clique| clique.name.as_str()).into_iter().collect()
                }
                Some(CliqueStartupType::Explicit) => clique.spec.starts_after.iter().map(String::as_str).collect(),
                _ => Vec::new(),
            };
            let each = sum(before.into_iter().map(in_base));
            each.saturating_mul(in_base(&clique.name))
        });
        Self {
            pods: replica.saturating_mul(size(set.spec.replicas)),
            gang_pods: base.max(largest),
            predecessors: sum(predecessors),
        }
    }
}

fn sum(numbers: impl Iterator<Item = u64>) -> u64 {
    numbers.fold(0, u64::saturating_add)
}
