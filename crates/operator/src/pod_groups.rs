//! The PodGroups of other schedulers: one kind for each of them, watched where the scheduler is enabled and the API server
//! serves it. Objects are found by their replica and kept as JSON, because each scheduler has fields of its own.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_core::command::Kind as CommandKind;
use coppice_runtime::cache::{Cache, Kind, Moment};
use serde_json::Value;

use crate::keys::SetKey;
use crate::world::{Document, ReplicaIndex, replica_of_document, resource};

/// The cached PodGroups.
#[derive(Clone)]
pub(crate) struct PodGroups {
    pub(crate) kai: Kind<Document>,
    pub(crate) volcano: Kind<Document>,
    pub(crate) native: Kind<Document>,
    by_replica: [(CommandKind, ReplicaIndex<Value>); 3],
}

impl PodGroups {
    pub(crate) fn new(cache: &Cache) -> Self {
        let kind = |of: CommandKind| cache.kind(resource(of), Document);
        let (kai, volcano, native) = (
            kind(CommandKind::KaiPodGroup),
            kind(CommandKind::VolcanoPodGroup),
            kind(CommandKind::NativePodGroup),
        );
        let by_replica =
            |kind: &Kind<Document>| kind.index(|object, emit| replica_of_document(object).into_iter().for_each(emit));
        Self {
            by_replica: [
                (CommandKind::KaiPodGroup, by_replica(&kai)),
                (CommandKind::VolcanoPodGroup, by_replica(&volcano)),
                (CommandKind::NativePodGroup, by_replica(&native)),
            ],
            kai,
            volcano,
            native,
        }
    }

    /// The kinds with their indexes.
    pub(crate) fn indexed(&self) -> impl Iterator<Item = (&Kind<Document>, &ReplicaIndex<Value>)> {
        let kinds = [&self.kai, &self.volcano, &self.native];
        kinds.into_iter().zip(self.by_replica.iter().map(|(_, index)| index))
    }

    /// Those of a replica, by kind and name.
    pub(crate) fn of_replica(
        &self,
        moment: &Moment<'_>,
        at: &(SetKey, u32),
    ) -> BTreeMap<(CommandKind, String), Arc<Value>> {
        let mut found = BTreeMap::new();
        for (kind, index) in &self.by_replica {
            for object in index.get(moment, at) {
                let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                found.insert((*kind, name), object);
            }
        }
        found
    }
}
