//! PodClique objects.

use coppice_api::names::label_sets::{Member, member_clique_labels, standalone_clique_labels};
use coppice_api::names::{annotations, environment, finalizers, labels};
use serde_json::{Value, json};

use super::Owner;
use super::environment::{from_label, prepend, variable};
use crate::facts::SetFacts;
use crate::layout::{CliqueLayout, Place, ReplicaLayout};
use crate::mnnvl;

/// The PodClique at `clique`, owned by the set or by its scaling group.
///
/// Its pod specification is the template's; in a scaling group its containers are told where they stand in it.
pub fn pod_clique(
    facts: &SetFacts<'_>,
    layout: &ReplicaLayout,
    clique: &CliqueLayout,
    template_hash: &str,
    owner: &Owner,
) -> Value {
    let template = facts.cliques[clique.position].template;
    let replica = facts.replica(layout.index);
    let gang = layout.gang_of(clique);
    let mut pod_spec = template.spec.pod_spec.as_map().clone();
    let labels = match clique.place {
        Place::Standalone => standalone_clique_labels(&template.labels, replica, &template.name, template_hash),
        Place::Member { group, copy } => {
            let scaling_group = replica.scaling_group(&facts.groups[group].config.name);
            prepend(
                &mut pod_spec,
                &[
                    from_label(environment::SCALING_GROUP_NAME, labels::SCALING_GROUP),
                    variable(
                        environment::SCALING_GROUP_TEMPLATE_PODS,
                        facts.template_pods(group).to_string(),
                    ),
                    from_label(environment::SCALING_GROUP_INDEX, labels::SCALING_GROUP_REPLICA_INDEX),
                ],
            );
            let member = Member {
                group: scaling_group,
                index: copy,
                clique: &template.name,
                gang: &gang.name,
            };
            member_clique_labels(&template.labels, member, template_hash)
        }
    };
    mnnvl::add_claim(facts, clique.position, layout.index, &mut pod_spec);
    let mut annotations = template.annotations.clone();
    annotations.remove(annotations::TOPOLOGY_NAME);

    let mut spec = json!({
        "roleName": template.spec.role_name,
        "replicas": clique.replicas,
        "minAvailable": facts.cliques[clique.position].min_available,
        "podSpec": pod_spec,
    });
    if !clique.parents.is_empty() {
        spec["startsAfter"] = clique.parents.iter().map(|parent| parent.clique.as_str()).collect();
    }
    if let Some(scaling) = &template.spec.auto_scaling_config {
        spec["autoScalingConfig"] = json!(scaling);
    }
    json!({
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodClique",
        "metadata": {
            "name": clique.name,
            "namespace": facts.namespace(),
            "labels": labels,
            "annotations": annotations,
            "finalizers": [finalizers::POD_CLIQUE],
            "ownerReferences": owner.reference(),
        },
        "spec": spec,
    })
}
