//! Which shared resource claims a pod uses.

use coppice_api::names::object_names::{replica_claim_name, shared_claim_name};
use coppice_api::types::{ResourceSharing, ResourceSharingScope};

use crate::facts::SetFacts;
use crate::layout::{CliqueLayout, Place};

/// A claim that a pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The ResourceClaim; also the name by which the pod refers to it.
    pub name: String,
}

/// The claims of one pod: of the set, of its scaling group, of its clique; claims for all before claims for one.
pub fn claims_of_pod(facts: &SetFacts<'_>, replica: u32, clique: &CliqueLayout, pod_index: u32) -> Vec<Claim> {
    let template = facts.cliques[clique.position].template;
    let group = match clique.place {
        Place::Standalone => None,
        Place::Member { group, copy } => Some((&facts.groups[group], copy)),
    };
    let mut claims = Vec::new();
    let of_set = facts.set.spec.template.resource_sharing.iter().filter(|sharing| {
        sharing.filter.as_ref().is_none_or(|filter| {
            let listed = |name: &String| {
                filter.child_clique_names.contains(name) || filter.child_scaling_group_names.contains(name)
            };
            listed(&template.name) || group.is_some_and(|(group, _)| listed(&group.config.name))
        })
    });
    collect(of_set, facts.name(), replica, &mut claims);
    if let Some((group, copy)) = group {
        let owner = facts.replica(replica).scaling_group(&group.config.name).to_string();
        let of_group = group.config.resource_sharing.iter().filter(|sharing| {
            sharing
                .filter
                .as_ref()
                .is_none_or(|filter| filter.child_clique_names.contains(&template.name))
        });
        collect(of_group, &owner, copy, &mut claims);
    }
    collect(template.resource_sharing.iter(), &clique.name, pod_index, &mut claims);
    claims
}

fn collect<'a>(
    sharing: impl Iterator<Item = &'a ResourceSharing> + Clone,
    owner: &str,
    index: u32,
    claims: &mut Vec<Claim>,
) {
    let all = sharing
        .clone()
        .filter(|entry| entry.scope == ResourceSharingScope::AllReplicas);
    claims.extend(all.map(|entry| Claim {
        name: shared_claim_name(owner, &entry.name),
    }));
    let each = sharing.filter(|entry| entry.scope == ResourceSharingScope::PerReplica);
    claims.extend(each.map(|entry| Claim {
        name: replica_claim_name(owner, index, &entry.name),
    }));
}
