//! PodGangMap objects.

use coppice_api::names::{annotations, label_sets::gang_map_labels};
use coppice_api::types::PodGangMapSpec;
use serde_json::{Value, json};

use super::Owner;
use crate::facts::SetFacts;
use crate::gang_map::MadeFrom;

/// The PodGangMap of a replica.
pub fn gang_map(facts: &SetFacts<'_>, index: u32, spec: &PodGangMapSpec, made_from: &MadeFrom) -> Value {
    let replica = facts.replica(index);
    json!({
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodGangMap",
        "metadata": {
            "name": replica.gang_map_name(),
            "namespace": facts.namespace(),
            "labels": gang_map_labels(replica),
            "annotations": {annotations::MADE_FROM_GENERATIONS: made_from.to_text()},
            "ownerReferences": Owner::set(facts.set).reference(),
        },
        "spec": spec,
    })
}
