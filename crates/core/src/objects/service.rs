//! The headless service of a replica.

use coppice_api::names::label_sets::headless_service_labels;
use coppice_api::names::selectors::headless_service_selector;
use serde_json::json;

use crate::facts::SetFacts;
use crate::kind::Kind;
use crate::object::{Body, Metadata, NewObject, Owner};

/// The headless Service through which the pods of one replica find each other.
pub fn headless_service(facts: &SetFacts<'_>, replica: u32) -> NewObject {
    let name = facts.replica(replica);
    let config = facts
        .set
        .spec
        .template
        .headless_service_config
        .clone()
        .unwrap_or_default();
    NewObject {
        kind: Kind::Service,
        metadata: Metadata {
            name: name.headless_service_name(),
            namespace: facts.namespace().to_owned(),
            labels: headless_service_labels(name),
            ..Metadata::default()
        },
        owner: Some(Owner::set(facts.set)),
        body: Body::spec(&json!({
            "clusterIP": "None",
            "selector": headless_service_selector(facts.name(), replica),
            "publishNotReadyAddresses": config.publish_not_ready_addresses,
        })),
    }
}
