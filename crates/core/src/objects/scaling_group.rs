//! PodCliqueScalingGroup objects.

use coppice_api::names::label_sets::scaling_group_labels;
use coppice_api::names::{annotations, finalizers};
use serde_json::json;

use crate::facts::SetFacts;
use crate::kind::Kind;
use crate::layout::{GroupLayout, ReplicaLayout};
use crate::object::{Body, Metadata, NewObject, Owner};

/// The PodCliqueScalingGroup at `group`.
pub fn scaling_group(facts: &SetFacts<'_>, layout: &ReplicaLayout, group: &GroupLayout) -> NewObject {
    let config = &facts.groups[group.position];
    let name = facts.replica(layout.index).scaling_group(&config.config.name);
    let mut annotations = config.config.annotations.clone();
    // The set's NVLink group reaches the members through the group object, unless the group names its own.
    if let Some(of_set) = facts
        .set
        .metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(annotations::MNNVL_GROUP))
    {
        annotations
            .entry(annotations::MNNVL_GROUP.to_owned())
            .or_insert_with(|| of_set.clone());
    }
    NewObject {
        kind: Kind::PodCliqueScalingGroup,
        metadata: Metadata {
            name: group.name.clone(),
            namespace: facts.namespace().to_owned(),
            labels: scaling_group_labels(name),
            annotations,
            finalizers: vec![finalizers::POD_CLIQUE_SCALING_GROUP],
        },
        owner: Some(Owner::set(facts.set)),
        body: Body::spec(&json!({
            "replicas": group.wanted,
            "minAvailable": config.min_available,
            "cliqueNames": config.config.clique_names,
        })),
    }
}
