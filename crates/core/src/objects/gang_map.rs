//! PodGangMap objects.

use coppice_api::names::label_sets::gang_map_labels;
use coppice_api::types::PodGangMapSpec;

use crate::facts::SetFacts;
use crate::kind::Kind;
use crate::object::{Body, Metadata, NewObject, Owner};

/// The PodGangMap of a replica.
pub fn gang_map(facts: &SetFacts<'_>, index: u32, spec: &PodGangMapSpec) -> NewObject {
    let replica = facts.replica(index);
    NewObject {
        kind: Kind::PodGangMap,
        metadata: Metadata {
            name: replica.gang_map_name(),
            namespace: facts.namespace().to_owned(),
            labels: gang_map_labels(replica),
            ..Metadata::default()
        },
        owner: Some(Owner::set(facts.set)),
        body: Body::spec(spec),
    }
}
