//! HorizontalPodAutoscalers of a replica.

use coppice_api::names::label_sets::autoscaler_labels;
use coppice_api::names::labels;
use coppice_api::names::object_names::autoscaler_name;
use coppice_api::types::AutoScalingConfig;
use serde_json::json;

use crate::facts::SetFacts;
use crate::kind::Kind;
use crate::object::{Body, Metadata, NewObject, Owner};

/// The autoscalers of one replica: one for each standalone clique and each scaling group that asks for it.
pub fn autoscalers(facts: &SetFacts<'_>, replica: u32) -> Vec<NewObject> {
    let name = facts.replica(replica);
    let cliques = facts
        .cliques
        .iter()
        .filter(|clique| clique.group.is_none())
        .filter_map(|clique| {
            let config = clique.template.spec.auto_scaling_config.as_ref()?;
            Some(autoscaler(
                facts,
                replica,
                Kind::PodClique,
                &name.clique_name(&clique.template.name),
                config,
            ))
        });
    let groups = facts.groups.iter().filter_map(|group| {
        let config = group.config.scale_config.as_ref()?;
        Some(autoscaler(
            facts,
            replica,
            Kind::PodCliqueScalingGroup,
            &name.scaling_group(&group.config.name).to_string(),
            config,
        ))
    });
    cliques.chain(groups).collect()
}

fn autoscaler(facts: &SetFacts<'_>, replica: u32, kind: Kind, target: &str, config: &AutoScalingConfig) -> NewObject {
    let mut spec = json!({
        "scaleTargetRef": {"apiVersion": kind.api_version(), "kind": kind.as_str(), "name": target},
        "maxReplicas": config.max_replicas,
    });
    if let Some(minimum) = config.min_replicas {
        spec["minReplicas"] = minimum.into();
    }
    if !config.metrics.is_empty() {
        spec["metrics"] = config.metrics.clone().into();
    }
    let mut labels = autoscaler_labels(facts.name(), target);
    labels.insert(labels::SET_REPLICA_INDEX.to_owned(), replica.to_string());
    NewObject {
        kind: Kind::HorizontalPodAutoscaler,
        metadata: Metadata {
            name: autoscaler_name(target),
            namespace: facts.namespace().to_owned(),
            labels,
            ..Metadata::default()
        },
        owner: Some(Owner::set(facts.set)),
        body: Body::spec(&spec),
    }
}
