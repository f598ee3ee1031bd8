//! A model from lists of objects as the API returns them: for questions about a snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_api::types::{ClusterTopologyBinding, PodGang};
use coppice_placement::predicates::Node;
use coppice_runtime::cache::{DecodeError, Head, Interner, Projection};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::to_raw_value;

use super::{BudgetRecord, GangRecord, Model, NodeProjection, PodRecords};

/// Objects of a cluster, as the API lists them.
#[derive(Debug, Clone, Default)]
pub struct Objects {
    /// Nodes.
    pub nodes: Vec<Value>,
    /// Pods of all namespaces.
    pub pods: Vec<Value>,
    /// PodGangs of all namespaces.
    pub gangs: Vec<Value>,
    /// ClusterTopologyBindings.
    pub topologies: Vec<Value>,
    /// PodDisruptionBudgets of all namespaces.
    pub disruption_budgets: Vec<Value>,
}

/// Why an object cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ObjectError {
    /// It has no identity, or not the shape of its kind.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// It does not have the shape of its kind.
    #[error("{kind}: {reason}")]
    Shape {
        /// The kind it should have.
        kind: &'static str,
        /// What is wrong with it.
        reason: serde_json::Error,
    },
}

impl Model {
    /// The model of these objects, seen by the scheduler with these names.
    ///
    /// # Errors
    /// When an object does not have the shape of its kind.
    pub fn from_objects<S: Into<String>>(
        ours: impl IntoIterator<Item = S>,
        objects: &Objects,
    ) -> Result<Self, ObjectError> {
        let mut model = Self::new(ours);
        let mut topologies = BTreeMap::new();
        for object in &objects.topologies {
            let binding: ClusterTopologyBinding = typed("ClusterTopologyBinding", object)?;
            let (name, levels) = levels(&binding);
            topologies.insert(name, levels);
        }
        model.set_topologies(topologies);
        for object in &objects.disruption_budgets {
            let budget: PodDisruptionBudget = typed("PodDisruptionBudget", object)?;
            if let Some(record) = BudgetRecord::of(&budget) {
                model.put_budget(Arc::new(record));
            }
        }
        let names = Interner::default();
        let nodes: Result<Vec<Node>, ObjectError> = objects
            .nodes
            .iter()
            .map(|object| projected(&NodeProjection, object, &names))
            .collect();
        model.put_nodes(nodes?);
        for object in &objects.gangs {
            let gang: PodGang = typed("PodGang", object)?;
            if let Some(record) = GangRecord::of(&gang) {
                model.put_gang(Arc::new(record));
            }
        }
        let records = PodRecords::default();
        for object in &objects.pods {
            model.put_pod(&Arc::new(projected(&records, object, &names)?));
        }
        Ok(model)
    }
}

/// The name of a topology and its label keys, broadest first.
pub(crate) fn levels(binding: &ClusterTopologyBinding) -> (String, Vec<String>) {
    let keys = binding.spec.levels.iter().map(|level| level.key.clone()).collect();
    (binding.metadata.name.clone().unwrap_or_default(), keys)
}

fn typed<K: DeserializeOwned>(kind: &'static str, object: &Value) -> Result<K, ObjectError> {
    K::deserialize(object).map_err(|reason| ObjectError::Shape { kind, reason })
}

fn projected<P: Projection>(projection: &P, object: &Value, names: &Interner) -> Result<P::View, ObjectError> {
    let raw = to_raw_value(object).map_err(|reason| ObjectError::Shape { kind: "object", reason })?;
    let head = Head::read(&raw, names)?;
    let view = projection.project(&head.meta, &raw, names);
    view.map_err(|error| {
        DecodeError::Shape {
            key: head.meta.key.clone(),
            version: head.meta.version,
            reason: error.to_string(),
        }
        .into()
    })
}
