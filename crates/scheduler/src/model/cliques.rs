//! PodCliques: what their pods will demand, before these exist.
//!
//! Owns the selection of fields. Only the choice of a domain looks at it; pods are placed by what they themselves demand.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_api::names::labels as keys;
use coppice_api::names::parsing::parse_index;
use coppice_placement::shape::{PodDemands, ShapeId};
use coppice_placement::{Reason, ReasonCode};
use coppice_runtime::cache::{Interner, Labels, Meta, ObjectKey, Projection, labels};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::demands::{self, Spec};
use super::{GangRecord, Model, PodRecords, ReplicaKey};
use crate::caught::decoded;

/// A PodClique, as the scheduler sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliqueRecord {
    /// Identity and version.
    pub meta: Meta,
    labels: Labels,
    demands: Arc<PodDemands>,
}

impl CliqueRecord {
    fn label(&self, key: &str) -> Option<&Arc<str>> {
        let found = self.labels.iter().find(|(label, _)| **label == *key);
        found.map(|(_, value)| value)
    }

    fn replica(&self) -> Option<ReplicaKey> {
        let index = parse_index(self.label(keys::SET_REPLICA_INDEX)?)?;
        let set = self.label(keys::PART_OF)?;
        Some((ObjectKey::new(self.meta.key.namespace.clone(), set.clone()), index))
    }
}

/// The projection of PodCliques. Equal demands are shared with those of pods.
#[derive(Debug, Clone)]
pub struct CliqueRecords(pub PodRecords);

#[derive(Deserialize)]
struct Wire {
    metadata: Metadata,
    #[serde(default)]
    spec: CliqueSpec,
}

#[derive(Deserialize)]
struct Metadata {
    labels: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase")]
struct CliqueSpec {
    #[serde(default)]
    pod_spec: Spec,
}

impl Projection for CliqueRecords {
    type View = CliqueRecord;

    fn project(&self, meta: &Meta, object: &RawValue, names: &Interner) -> Result<CliqueRecord, serde_json::Error> {
        decoded(|| {
            let Wire { metadata, spec } = serde_json::from_str(object.get())?;
            Ok(CliqueRecord {
                meta: meta.clone(),
                labels: metadata.labels.map(|wire| labels(&wire, names)).unwrap_or_default(),
                demands: self.0.share(demands::waiting(&spec.pod_spec)),
            })
        })
    }
}

impl Model {
    /// Adds or replaces a clique.
    pub fn put_clique(&mut self, record: Arc<CliqueRecord>) {
        let key = record.meta.key.clone();
        self.remove_clique(&key);
        if let Some(replica) = record.replica() {
            self.cliques_of.entry(replica).or_default().insert(key.clone());
        }
        self.cliques.insert(key, record);
    }

    /// Removes a clique.
    pub fn remove_clique(&mut self, key: &ObjectKey) {
        let replica = self.cliques.remove(key).and_then(|old| old.replica());
        if let Some(replica) = replica
            && let Some(cliques) = self.cliques_of.get_mut(&replica)
        {
            cliques.remove(key);
            if cliques.is_empty() {
                self.cliques_of.remove(&replica);
            }
        }
    }

    /// What pods of a clique will demand.
    pub(super) fn shape_of_clique(&mut self, key: &ObjectKey) -> Option<ShapeId> {
        let clique = self.cliques.get(key)?.clone();
        Some(self.shape_of(&key.namespace, &clique.labels, &clique.demands))
    }

    /// A clique of the replica of a gang whose own gang is not known yet: it is created before its pods, but watches of
    /// different kinds are not ordered.
    pub(super) fn unknown_sibling(&self, record: &GangRecord) -> Option<Reason> {
        let cliques = self.cliques_of.get(record.replica.as_ref()?)?;
        let unknown = cliques
            .iter()
            .filter_map(|key| self.cliques.get(key))
            .find_map(|clique| {
                let gang = ObjectKey::new(clique.meta.key.namespace.clone(), clique.label(keys::POD_GANG)?.clone());
                (!self.gangs.contains_key(&gang)).then_some(gang)
            })?;
        let message = format!("PodGang {unknown} of the same replica is not known yet");
        Some(Reason::new(ReasonCode::WaitingForPods, message))
    }
}
