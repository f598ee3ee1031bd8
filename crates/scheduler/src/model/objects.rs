//! A model from lists of objects as the API returns them: for questions about a snapshot.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_api::types::{ClusterTopologyBinding, PodGang};
use coppice_placement::predicates::Node;
use coppice_runtime::cache::{DecodeError, Head, Interner, Projection};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass};
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::to_raw_value;

use super::volumes::{CapacityRecord, ClaimRecord, ClassRecord, NodeDrivers, VolumeRecord, minds_capacity};
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
    /// PersistentVolumeClaims of all namespaces.
    pub claims: Vec<Value>,
    /// PersistentVolumes.
    pub volumes: Vec<Value>,
    /// StorageClasses.
    pub storage_classes: Vec<Value>,
    /// CSIDrivers.
    pub storage_drivers: Vec<Value>,
    /// CSINodes.
    pub node_drivers: Vec<Value>,
    /// CSIStorageCapacities of all namespaces.
    pub storage_capacities: Vec<Value>,
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
        model.put_storage(objects)?;
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

impl Model {
    fn put_storage(&mut self, objects: &Objects) -> Result<(), ObjectError> {
        for object in &objects.storage_classes {
            let class: StorageClass = typed("StorageClass", object)?;
            if let Some(record) = ClassRecord::of(&class) {
                self.set_storage_class(&record.meta.key.name.clone(), Some(Arc::new(record)));
            }
        }
        for object in &objects.storage_drivers {
            let driver: CSIDriver = typed("CSIDriver", object)?;
            self.set_minds_capacity(
                driver.metadata.name.as_deref().unwrap_or_default(),
                minds_capacity(&driver),
            );
        }
        for object in &objects.storage_capacities {
            let capacity: CSIStorageCapacity = typed("CSIStorageCapacity", object)?;
            if let Some(record) = CapacityRecord::of(&capacity) {
                self.set_capacity(&record.meta.key.clone(), Some(Arc::new(record)));
            }
        }
        let mut drivers = Vec::new();
        for object in &objects.node_drivers {
            let node: CSINode = typed("CSINode", object)?;
            let name = node.metadata.name.clone().unwrap_or_default();
            drivers.push((Arc::from(name.as_str()), Some(NodeDrivers::of(&node))));
        }
        self.set_node_drivers(drivers);
        for object in &objects.volumes {
            let volume: PersistentVolume = typed("PersistentVolume", object)?;
            if let Some(record) = VolumeRecord::of(&volume) {
                self.put_volume(Arc::new(record));
            }
        }
        for object in &objects.claims {
            let claim: PersistentVolumeClaim = typed("PersistentVolumeClaim", object)?;
            if let Some(record) = ClaimRecord::of(&claim) {
                self.put_claim(Arc::new(record));
            }
        }
        Ok(())
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
