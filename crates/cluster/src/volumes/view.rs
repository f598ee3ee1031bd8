//! What is held of claims, volumes, storage classes, and pods that use claims.

use crate::default_scheduler::quantity;
use crate::view::Metadata;
use coppice_runtime::cache::{Interner, Meta, ObjectKey};
use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::storage::v1::StorageClass;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The provisioner of simulated volumes.
pub const PROVISIONER: &str = "volumes.simulation.coppice.dev";
/// The parameter of a storage class that names the node label within which its volumes can be used; without it they can be
/// used everywhere.
pub const TOPOLOGY_KEY: &str = "topologyKey";
pub(super) const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
pub(super) const WANTED_FROM: &str = "volume.kubernetes.io/storage-provisioner";
pub(super) const MADE_BY: &str = "pv.kubernetes.io/provisioned-by";
pub(super) const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

#[derive(Deserialize)]
pub(super) struct ClaimObject {
    metadata: Metadata,
    #[serde(default)]
    spec: core::PersistentVolumeClaimSpec,
    #[serde(default)]
    status: Phase,
}

#[derive(Deserialize, Default)]
struct Phase {
    #[serde(default)]
    phase: String,
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug)]
pub(super) struct Claim {
    pub(super) meta: Meta,
    pub(super) deleting: bool,
    /// None means the default one, an empty name none at all.
    pub(super) class: Option<String>,
    pub(super) volume: Option<String>,
    pub(super) bound: bool,
    pub(super) selected_node: Option<String>,
    pub(super) wanted_from: Option<String>,
    pub(super) size: i128,
    pub(super) request: Value,
    pub(super) modes: BTreeSet<String>,
    pub(super) mode: String,
    pub(super) phase: String,
}

impl Claim {
    pub(super) fn from_object(meta: &Meta, object: ClaimObject, _: &Interner) -> Self {
        let ClaimObject { metadata, spec, status } = object;
        let annotation = |key: &str| metadata.annotations.get(key).filter(|value| !value.is_empty()).cloned();
        let requests = spec.resources.and_then(|resources| resources.requests);
        let request = requests.and_then(|mut requests| requests.remove("storage"));
        Self {
            deleting: metadata.is_deleting(),
            bound: annotation(BIND_COMPLETED).is_some(),
            selected_node: annotation(SELECTED_NODE),
            wanted_from: annotation(WANTED_FROM),
            class: spec.storage_class_name,
            volume: spec.volume_name.filter(|name| !name.is_empty()),
            size: request.as_ref().map_or(0, size),
            request: request.map_or(Value::from("0"), |request| Value::from(request.0)),
            modes: spec.access_modes.into_iter().flatten().collect(),
            mode: spec.volume_mode.unwrap_or_else(|| "Filesystem".to_owned()),
            phase: status.phase,
            meta: meta.clone(),
        }
    }
}

fn size(quantity: &k8s_openapi::apimachinery::pkg::api::resource::Quantity) -> i128 {
    quantity::milli(&quantity.0).unwrap_or(0)
}

#[derive(Deserialize)]
pub(super) struct VolumeObject {
    metadata: Metadata,
    #[serde(default)]
    spec: core::PersistentVolumeSpec,
    #[serde(default)]
    status: Phase,
}

/// A PersistentVolume.
#[derive(Clone, Debug)]
pub(super) struct Volume {
    pub(super) meta: Meta,
    pub(super) deleting: bool,
    pub(super) class: String,
    /// The claim that it is for, with its UID if it says one.
    pub(super) claim: Option<(ObjectKey, Option<String>)>,
    pub(super) size: i128,
    pub(super) capacity: Value,
    pub(super) modes: BTreeSet<String>,
    pub(super) mode: String,
    pub(super) phase: String,
    /// It is deleted when its claim is gone.
    pub(super) deletes: bool,
    pub(super) made_by: Option<String>,
}

impl Volume {
    pub(super) fn from_object(meta: &Meta, object: VolumeObject, _: &Interner) -> Self {
        let VolumeObject { metadata, spec, status } = object;
        let capacity = spec.capacity.and_then(|mut capacity| capacity.remove("storage"));
        let claim = spec.claim_ref.and_then(|claim| {
            let key = ObjectKey::new(claim.namespace?, claim.name?);
            Some((key, claim.uid.filter(|uid| !uid.is_empty())))
        });
        Self {
            deleting: metadata.is_deleting(),
            class: spec.storage_class_name.unwrap_or_default(),
            claim,
            size: capacity.as_ref().map_or(0, size),
            capacity: capacity.map_or(Value::from("0"), |capacity| Value::from(capacity.0)),
            modes: spec.access_modes.into_iter().flatten().collect(),
            mode: spec.volume_mode.unwrap_or_else(|| "Filesystem".to_owned()),
            phase: status.phase,
            deletes: spec.persistent_volume_reclaim_policy.as_deref() == Some("Delete"),
            made_by: metadata.annotations.get(MADE_BY).cloned(),
            meta: meta.clone(),
        }
    }
}

/// A StorageClass.
#[derive(Clone, Debug)]
pub(super) struct Class {
    pub(super) name: Arc<str>,
    pub(super) provisioner: String,
    /// Claims are bound when a pod is placed.
    pub(super) waits: bool,
    pub(super) is_default: bool,
    pub(super) reclaim: String,
    pub(super) topology_key: Option<String>,
}

impl Class {
    pub(super) fn from_object(meta: &Meta, object: StorageClass, _: &Interner) -> Self {
        let annotations = object.metadata.annotations.unwrap_or_default();
        let parameters = object.parameters.unwrap_or_default();
        Self {
            name: meta.key.name.clone(),
            provisioner: object.provisioner,
            waits: object.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer"),
            is_default: annotations.get(DEFAULT_CLASS).is_some_and(|value| value == "true"),
            reclaim: object.reclaim_policy.unwrap_or_else(|| "Delete".to_owned()),
            topology_key: parameters.get(TOPOLOGY_KEY).cloned(),
        }
    }
}

#[derive(Deserialize)]
pub(super) struct PodObject {
    metadata: Metadata,
    #[serde(default)]
    spec: PodSpec,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct PodSpec {
    node_name: Option<String>,
    volumes: Vec<core::Volume>,
}

/// A pod, as far as claims are concerned.
#[derive(Clone, Debug)]
pub(super) struct Pod {
    pub(super) meta: Meta,
    pub(super) deleting: bool,
    pub(super) node: Option<String>,
    /// The names of the claims it uses.
    pub(super) claims: Vec<Arc<str>>,
    /// Claims to make for it: name, and the object's metadata and specification.
    pub(super) ephemeral: Vec<(Arc<str>, Value)>,
}

impl Pod {
    pub(super) fn from_object(meta: &Meta, object: PodObject, _: &Interner) -> Self {
        let mut pod = Self {
            meta: meta.clone(),
            deleting: object.metadata.is_deleting(),
            node: object.spec.node_name.filter(|node| !node.is_empty()),
            claims: Vec::new(),
            ephemeral: Vec::new(),
        };
        for volume in object.spec.volumes {
            if let Some(reference) = volume.persistent_volume_claim {
                pod.claims.push(reference.claim_name.into());
            } else if let Some(template) = volume.ephemeral.and_then(|source| source.volume_claim_template) {
                let name: Arc<str> = format!("{}-{}", meta.key.name, volume.name).into();
                pod.claims.push(name.clone());
                pod.ephemeral
                    .push((name, serde_json::to_value(template).unwrap_or_default()));
            }
        }
        pod
    }
}
