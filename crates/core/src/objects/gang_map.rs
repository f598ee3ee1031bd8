//! PodGangMap objects.

use coppice_api::names::label_sets::gang_map_labels;
use coppice_api::types::PodGangMapSpec;
use serde_json::{Value, json};

use super::Owner;
use crate::facts::SetFacts;

/// The PodGangMap of a replica.
pub fn gang_map(facts: &SetFacts<'_>, index: u32, spec: &PodGangMapSpec) -> Value {
    let replica = facts.replica(index);
    json!({
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodGangMap",
        "metadata": {
            "name": replica.gang_map_name(),
            "namespace": facts.namespace(),
            "labels": gang_map_labels(replica),
            "ownerReferences": Owner::set(facts.set).reference(),
        },
        "spec": spec,
    })
}
