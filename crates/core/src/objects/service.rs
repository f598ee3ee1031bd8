//! The headless service of a replica.

use coppice_api::names::label_sets::headless_service_labels;
use coppice_api::names::selectors::headless_service_selector;
use serde_json::{Value, json};

use super::Owner;
use crate::facts::SetFacts;

/// The headless Service through which the pods of one replica find each other.
pub fn headless_service(facts: &SetFacts<'_>, replica: u32) -> Value {
    let name = facts.replica(replica);
    let config = facts
        .set
        .spec
        .template
        .headless_service_config
        .clone()
        .unwrap_or_default();
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {
            "name": name.headless_service_name(),
            "namespace": facts.namespace(),
            "labels": headless_service_labels(name),
            "ownerReferences": Owner::set(facts.set).reference(),
        },
        "spec": {
            "clusterIP": "None",
            "selector": headless_service_selector(facts.name(), replica),
            "publishNotReadyAddresses": config.publish_not_ready_addresses,
        },
    })
}
