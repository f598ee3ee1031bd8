//! Shared resource claims: which ones exist, which ones a pod uses.

use std::collections::BTreeSet;

use coppice_api::names::annotations;
use coppice_api::names::label_sets::{ClaimOwner, Labels, claim_labels};
use coppice_api::names::object_names::{replica_claim_name, shared_claim_name};
use coppice_api::types::{ResourceSharing, ResourceSharingScope};
use serde_json::Value;

use crate::context::SetContext;
use crate::facts::SetFacts;
use crate::kind::Kind;
use crate::layout::{CliqueLayout, Place};
use crate::object::{Body, Metadata, NewObject, Owner};

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

/// A shared claim that should exist.
#[derive(Clone, Debug)]
pub struct WantedClaim<'a> {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// The entry that asks for it.
    pub sharing: &'a ResourceSharing,
}

/// The claims of one owner: one for all its replicas, and one for each of `indices`.
pub fn wanted_claims<'a>(
    owner: ClaimOwner<'_>,
    sharing: &'a [ResourceSharing],
    indices: &BTreeSet<u32>,
) -> Vec<WantedClaim<'a>> {
    let (ClaimOwner::Set(name) | ClaimOwner::ScalingGroup(_, name) | ClaimOwner::Clique(_, name)) = owner;
    let mut wanted = Vec::new();
    for entry in sharing {
        let mut want = |name: String, index: Option<u32>| {
            wanted.push(WantedClaim {
                name,
                labels: claim_labels(owner, index),
                sharing: entry,
            });
        };
        match entry.scope {
            ResourceSharingScope::AllReplicas => want(shared_claim_name(name, &entry.name), None),
            ResourceSharingScope::PerReplica => {
                for &index in indices {
                    want(replica_claim_name(name, index, &entry.name), Some(index));
                }
            }
            ResourceSharingScope::Other(_) => {}
        }
    }
    wanted
}

/// What a shared claim asks for: the set's own template of that name, else a ResourceClaimTemplate object. None when
/// neither exists, or the object is in another namespace and not shared with that of the set.
pub fn claim_content<'a>(context: &'a SetContext<'_>, sharing: &ResourceSharing) -> Option<&'a Value> {
    let own = own_template(&context.facts, sharing).map(|template| &template["spec"]);
    own.or_else(|| {
        let template = context.claim_templates.get(&template_object(&context.facts, sharing))?;
        may_use(context.facts.namespace(), template).then(|| &template["spec"]["spec"])
    })
}

fn own_template<'a>(facts: &SetFacts<'a>, sharing: &ResourceSharing) -> Option<&'a Value> {
    if sharing
        .namespace
        .as_deref()
        .is_some_and(|namespace| !namespace.is_empty())
    {
        return None;
    }
    let templates = &facts.set.spec.template.resource_claim_templates;
    let own = templates.iter().find(|template| template.name == sharing.name)?;
    Some(&own.template_spec)
}

/// The ResourceClaimTemplate object that an entry refers to, by namespace and name.
pub fn template_object(facts: &SetFacts<'_>, sharing: &ResourceSharing) -> (String, String) {
    let named = sharing.namespace.as_deref().filter(|namespace| !namespace.is_empty());
    (named.unwrap_or(facts.namespace()).to_owned(), sharing.name.clone())
}

/// Whether sets of a namespace may use a ResourceClaimTemplate object. What a template asks for, opaque parameters of
/// drivers included, belongs to its namespace; a copy in another one needs the consent of whoever may write the template.
fn may_use(namespace: &str, template: &Value) -> bool {
    let metadata = &template["metadata"];
    let shared = metadata["annotations"][annotations::SHARED_WITH_NAMESPACES].as_str();
    let mut names = shared.unwrap_or_default().split(',').map(str::trim);
    metadata["namespace"] == *namespace || names.any(|name| name == annotations::EVERY_NAMESPACE || name == namespace)
}

/// The ResourceClaimTemplate objects that a set refers to, by namespace and name.
pub fn template_objects(facts: &SetFacts<'_>) -> BTreeSet<(String, String)> {
    let template = &facts.set.spec.template;
    let groups = template
        .pod_clique_scaling_groups
        .iter()
        .flat_map(|group| &group.resource_sharing);
    let cliques = template.cliques.iter().flat_map(|clique| &clique.resource_sharing);
    let all = template.resource_sharing.iter().chain(groups).chain(cliques);
    all.filter(|sharing| own_template(facts, sharing).is_none())
        .map(|sharing| template_object(facts, sharing))
        .collect()
}

/// A ResourceClaim.
pub fn resource_claim(facts: &SetFacts<'_>, wanted: &WantedClaim<'_>, owner: &Owner, content: &Value) -> NewObject {
    NewObject {
        kind: Kind::ResourceClaim,
        metadata: Metadata {
            name: wanted.name.clone(),
            namespace: facts.namespace().to_owned(),
            labels: wanted.labels.clone(),
            ..Metadata::default()
        },
        owner: Some(owner.clone()),
        body: Body::from_fields([("spec", content.clone())]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_template_of_another_namespace_needs_its_consent() {
        let shared = |with: Value| {
            let annotations = json!({"grove.io/shared-with-namespaces": with});
            json!({"metadata": {"namespace": "devices", "annotations": annotations}})
        };
        let allowed = |template: &Value| ["devices", "models", "web"].map(|user| may_use(user, template));
        assert_eq!(
            allowed(&json!({"metadata": {"namespace": "devices"}})),
            [true, false, false]
        );
        assert_eq!(allowed(&shared(json!(""))), [true, false, false]);
        assert_eq!(allowed(&shared(json!("other, models"))), [true, true, false]);
        assert_eq!(allowed(&shared(json!("*"))), [true, true, true]);
        assert_eq!(allowed(&shared(json!("model"))), [true, false, false]);
    }
}
