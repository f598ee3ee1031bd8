//! Storage objects, reduced to what placement depends on.
//!
//! Owns the reading of claims, volumes, storage classes, node drivers, drivers and capacities. What cannot be read counts
//! as nothing: it can only keep pods away.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coppice_api::quantity::Quantity as Amount;
use coppice_placement::predicates::{Expression, Labels, NodeSelector, NodeTerm, Operator};
use coppice_runtime::cache::{Meta, ObjectKey};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::model::demands::{expressions, selector};

/// The annotation by which a scheduler says for which node a claim is to be provisioned.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const NO_PROVISIONER: &str = "kubernetes.io/no-provisioner";
/// Labels by which a volume says in which zone or region it is.
const ZONES: [&str; 4] = [
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
];

fn units(quantity: Option<&Quantity>) -> Option<i64> {
    let text = serde_json::Value::String(quantity?.0.clone());
    Amount::from_json(&text).ok()?.units()
}

/// A PersistentVolumeClaim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClaimRecord {
    /// Identity and version.
    pub meta: Meta,
    /// It is being deleted.
    pub deleting: bool,
    /// Its volume is gone.
    pub lost: bool,
    /// The volume that it names.
    pub volume: Option<Arc<str>>,
    /// Whether claim and volume name each other.
    pub bound: bool,
    /// The node that it is to be provisioned for.
    pub selected_node: Option<Arc<str>>,
    /// The pod that it was made for, by UID.
    pub pod: Option<Arc<str>>,
    pub(super) class: Option<String>,
    pub(super) size: Option<i64>,
    pub(super) modes: BTreeSet<String>,
    pub(super) block: bool,
    pub(super) selector: Vec<Expression>,
}

impl ClaimRecord {
    /// Reads a claim; nothing when it was never stored.
    #[must_use]
    pub fn of(claim: &PersistentVolumeClaim) -> Option<Self> {
        let spec = claim.spec.clone().unwrap_or_default();
        let annotation = |key: &str| claim.metadata.annotations.as_ref()?.get(key).map(String::as_str);
        let volume = spec.volume_name.filter(|name| !name.is_empty());
        let owners = claim.metadata.owner_references.iter().flatten();
        let pod = owners
            .into_iter()
            .find(|owner| owner.controller == Some(true) && owner.kind == "Pod");
        let requests = spec
            .resources
            .as_ref()
            .and_then(|resources| resources.requests.as_ref());
        let phase = claim.status.as_ref().and_then(|status| status.phase.as_deref());
        Some(Self {
            meta: Meta::of(claim)?,
            deleting: claim.metadata.deletion_timestamp.is_some(),
            lost: phase == Some("Lost"),
            bound: volume.is_some() && annotation(BIND_COMPLETED).is_some(),
            volume: volume.map(Into::into),
            selected_node: annotation(SELECTED_NODE)
                .filter(|node| !node.is_empty())
                .map(Into::into),
            pod: pod.map(|owner| owner.uid.as_str().into()),
            class: spec.storage_class_name.filter(|name| !name.is_empty()),
            size: units(requests.and_then(|requests| requests.get("storage"))),
            modes: spec.access_modes.into_iter().flatten().collect(),
            block: spec.volume_mode.as_deref() == Some("Block"),
            selector: spec.selector.as_ref().map(expressions).unwrap_or_default(),
        })
    }

    /// Only one pod of the cluster may use it at a time.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.modes.contains("ReadWriteOncePod")
    }

    /// Nodes cannot share it.
    pub(super) fn is_of_one_node(&self) -> bool {
        let one = |mode: &String| ["ReadWriteOnce", "ReadWriteOncePod"].contains(&mode.as_str());
        self.modes.iter().all(one)
    }
}

/// A PersistentVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeRecord {
    /// Identity and version.
    pub meta: Meta,
    /// The claim that it is for, and the UID if it says one.
    pub claim: Option<(ObjectKey, Option<Arc<str>>)>,
    pub(super) class: Option<String>,
    pub(super) size: i64,
    modes: BTreeSet<String>,
    block: bool,
    available: bool,
    labels: Labels,
    /// The nodes that can use it; none means all.
    pub(super) nodes: Option<NodeSelector>,
    /// Where its labels say that it is.
    pub(super) zone: Option<NodeSelector>,
    /// Its driver, and what the driver calls it.
    pub(super) driver: Option<(String, String)>,
}

impl VolumeRecord {
    /// Reads a volume; nothing when it was never stored.
    #[must_use]
    pub fn of(volume: &PersistentVolume) -> Option<Self> {
        let meta = Meta::of(volume)?;
        let spec = volume.spec.clone().unwrap_or_default();
        let claim = spec.claim_ref.and_then(|claim| {
            let key = ObjectKey::new(claim.namespace?, claim.name?);
            Some((key, claim.uid.filter(|uid| !uid.is_empty()).map(Into::into)))
        });
        let labels = volume.metadata.labels.clone().unwrap_or_default();
        let phase = volume.status.as_ref().and_then(|status| status.phase.as_deref());
        let required = spec.node_affinity.and_then(|affinity| affinity.required);
        Some(Self {
            claim,
            class: spec.storage_class_name.filter(|name| !name.is_empty()),
            size: units(spec.capacity.as_ref().and_then(|capacity| capacity.get("storage"))).unwrap_or(0),
            modes: spec.access_modes.into_iter().flatten().collect(),
            block: spec.volume_mode.as_deref() == Some("Block"),
            available: phase == Some("Available") && volume.metadata.deletion_timestamp.is_none(),
            nodes: required.as_ref().map(selector),
            zone: zone(&labels),
            driver: spec.csi.map(|csi| (csi.driver, csi.volume_handle)),
            labels,
            meta,
        })
    }

    /// Whether it could be given to a claim.
    pub(super) fn suits(&self, claim: &ClaimRecord) -> bool {
        let reserved = self
            .claim
            .as_ref()
            .map(|(key, uid)| *key == claim.meta.key && uid.as_ref().is_none_or(|uid| *uid == claim.meta.uid));
        let free = reserved.unwrap_or(self.available && self.class == claim.class);
        free && self.block == claim.block
            && claim.modes.is_subset(&self.modes)
            && claim.size.is_none_or(|size| size <= self.size)
            && (reserved.is_some() || claim.selector.iter().all(|expression| expression.matches(&self.labels)))
    }
}

/// Nodes that say of a zone or region what the labels say, or say nothing of either.
fn zone(labels: &Labels) -> Option<NodeSelector> {
    let expression = |key: &str, operator, values| Expression {
        key: key.to_owned(),
        operator,
        values,
    };
    let said = ZONES.iter().filter_map(|key| {
        let values = labels.get(*key)?.split("__").map(str::to_owned).collect();
        Some(expression(key, Operator::In, values))
    });
    let said: Vec<Expression> = said.collect();
    if said.is_empty() {
        return None;
    }
    let silent = ZONES
        .iter()
        .map(|key| expression(key, Operator::DoesNotExist, Vec::new()));
    let term = |expressions| NodeTerm {
        expressions,
        ..NodeTerm::default()
    };
    Some(NodeSelector {
        terms: vec![term(said), term(silent.collect())],
    })
}

/// A StorageClass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassRecord {
    /// Identity and version.
    pub meta: Meta,
    /// The driver that makes volumes; none for volumes that exist beforehand.
    pub(super) provisioner: Option<String>,
    /// Claims are bound when a pod that uses them is placed.
    pub(super) waits: bool,
    /// Where volumes can be made; none means everywhere.
    pub(super) nodes: Option<NodeSelector>,
}

impl ClassRecord {
    /// Reads a class; nothing when it was never stored.
    #[must_use]
    pub fn of(class: &StorageClass) -> Option<Self> {
        let terms = class.allowed_topologies.iter().flatten().map(|topology| NodeTerm {
            expressions: (topology.match_label_expressions.iter().flatten())
                .map(|wire| Expression {
                    key: wire.key.clone(),
                    operator: Operator::In,
                    values: wire.values.clone(),
                })
                .collect(),
            ..NodeTerm::default()
        });
        let terms: Vec<NodeTerm> = terms.collect();
        let provisioner = Some(class.provisioner.clone());
        Some(Self {
            meta: Meta::of(class)?,
            provisioner: provisioner.filter(|name| !name.is_empty() && name != NO_PROVISIONER),
            waits: class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            nodes: (!terms.is_empty()).then_some(NodeSelector { terms }),
        })
    }
}

/// A CSINode: the drivers of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeDrivers {
    /// By driver: how many volumes it can attach, and the labels that tell its places apart.
    pub(super) drivers: BTreeMap<String, (Option<i64>, Vec<String>)>,
}

impl NodeDrivers {
    /// Reads the drivers of a node.
    #[must_use]
    pub fn of(node: &CSINode) -> Self {
        let drivers = node.spec.drivers.iter().map(|driver| {
            let limit = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count);
            let mut keys = driver.topology_keys.clone().unwrap_or_default();
            keys.sort();
            (driver.name.clone(), (limit.map(i64::from), keys))
        });
        Self {
            drivers: drivers.collect(),
        }
    }
}

/// Whether a CSIDriver wants its capacities to be looked at.
#[must_use]
pub fn minds_capacity(driver: &CSIDriver) -> bool {
    driver.spec.storage_capacity == Some(true)
}

/// A CSIStorageCapacity: how large a volume can be made for some nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacityRecord {
    /// Identity and version.
    pub meta: Meta,
    pub(super) class: String,
    pub(super) largest: Option<i64>,
    /// The nodes; without expressions all, and none where the object names none.
    pub(super) nodes: Option<Vec<Expression>>,
}

impl CapacityRecord {
    /// Reads a capacity; nothing when it was never stored.
    #[must_use]
    pub fn of(capacity: &CSIStorageCapacity) -> Option<Self> {
        let largest = capacity.maximum_volume_size.as_ref().or(capacity.capacity.as_ref());
        Some(Self {
            meta: Meta::of(capacity)?,
            class: capacity.storage_class_name.clone(),
            largest: units(largest),
            nodes: capacity.node_topology.as_ref().map(expressions),
        })
    }
}
