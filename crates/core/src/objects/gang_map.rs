//! PodGangMap objects.

use std::collections::BTreeMap;

use coppice_api::names::{annotations, label_sets::gang_map_labels};
use coppice_api::types::PodGangMapSpec;

use crate::facts::SetFacts;
use crate::gang_map::MadeFrom;
use crate::kind::Kind;
use crate::object::{Body, Metadata, NewObject, Owner};

/// The PodGangMap of a replica.
pub fn gang_map(facts: &SetFacts<'_>, index: u32, spec: &PodGangMapSpec, made_from: &MadeFrom) -> NewObject {
    let replica = facts.replica(index);
    NewObject {
        kind: Kind::PodGangMap,
        metadata: Metadata {
            name: replica.gang_map_name(),
            namespace: facts.namespace().to_owned(),
            labels: gang_map_labels(replica),
            annotations: BTreeMap::from([(annotations::MADE_FROM_GENERATIONS.to_owned(), made_from.to_text())]),
            ..Metadata::default()
        },
        owner: Some(Owner::set(facts.set)),
        body: Body::spec(spec),
    }
}
