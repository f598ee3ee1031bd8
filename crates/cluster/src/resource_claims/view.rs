//! The views of claims, slices and device classes, and their watches.

use crate::view::{Metadata, Reduced, resource};
use coppice_runtime::cache::reflect::{self, reflect};
use coppice_runtime::cache::{Cache, Interner, Kind, Meta};
use k8s_openapi::api::resource::v1::{DeviceClass as ApiDeviceClass, ResourceClaim, ResourceSlice};
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The wire form: what is decoded of a `ResourceClaim`.
#[derive(Deserialize)]
pub(crate) struct ClaimObject {
    metadata: Metadata,
    #[serde(default)]
    spec: Value,
    #[serde(default)]
    status: ClaimStatusObject,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct ClaimStatusObject {
    allocation: Option<Value>,
    reserved_for: Vec<Consumer>,
}

/// Who may use an allocated claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Consumer {
    #[serde(rename = "apiGroup")]
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) name: String,
    pub(crate) uid: String,
}

impl Consumer {
    pub(crate) fn is_pod(&self) -> bool {
        self.group.is_empty() && self.resource == "pods"
    }
}

/// Consumers on the wire.
pub(crate) fn consumers(all: &[Consumer]) -> Vec<Value> {
    let shown = all.iter().map(|consumer| {
        let mut shown = json!({"resource": consumer.resource, "name": consumer.name, "uid": consumer.uid});
        if !consumer.group.is_empty() {
            shown["apiGroup"] = json!(consumer.group);
        }
        shown
    });
    shown.collect()
}

/// A ResourceClaim.
#[derive(Clone, Debug)]
pub(crate) struct Claim {
    pub(crate) meta: Meta,
    pub(crate) deleting: bool,
    /// UID of the pod that it was made for.
    pub(crate) pod: Option<Arc<str>>,
    /// `spec.devices`.
    pub(crate) wanted: Value,
    pub(crate) allocation: Option<Arc<Value>>,
    pub(crate) reserved_for: Vec<Consumer>,
}

impl Claim {
    fn from_object(meta: &Meta, object: ClaimObject, names: &Interner) -> Self {
        let ClaimObject {
            metadata,
            mut spec,
            status,
        } = object;
        Self {
            meta: meta.clone(),
            deleting: metadata.is_deleting(),
            pod: metadata.controller("Pod").map(|uid| names.intern(uid)),
            wanted: spec["devices"].take(),
            allocation: status.allocation.map(Arc::new),
            reserved_for: status.reserved_for,
        }
    }

    pub(crate) fn is_reserved_for(&self, pod_uid: &str) -> bool {
        self.reserved_for.iter().any(|consumer| consumer.uid == pod_uid)
    }
}

#[derive(Deserialize)]
pub(crate) struct SliceObject {
    spec: SliceSpec,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct SliceSpec {
    driver: String,
    pool: Pool,
    node_name: Option<String>,
    #[serde(default)]
    devices: Vec<Device>,
}

#[derive(Deserialize)]
struct Pool {
    name: String,
    #[serde(default)]
    generation: i64,
}

/// A device of a slice.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Device {
    pub(crate) name: String,
    pub(crate) attributes: BTreeMap<String, Value>,
    pub(crate) capacity: BTreeMap<String, Value>,
    pub(crate) taints: Vec<Value>,
}

/// A ResourceSlice of one node.
#[derive(Clone, Debug)]
pub(crate) struct Slice {
    pub(crate) driver: String,
    pub(crate) pool: String,
    pub(crate) generation: i64,
    /// None for devices that are not of one node; they are not allocated here.
    pub(crate) node: Option<Arc<str>>,
    pub(crate) devices: Vec<Device>,
}

impl Slice {
    fn from_object(_meta: &Meta, object: SliceObject, names: &Interner) -> Self {
        let SliceSpec {
            driver,
            pool,
            node_name,
            devices,
        } = object.spec;
        Self {
            driver,
            pool: pool.name,
            generation: pool.generation,
            node: node_name.map(|name| names.intern(&name)),
            devices,
        }
    }
}

#[derive(Deserialize)]
pub(crate) struct ClassObject {
    #[serde(default)]
    spec: ClassSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ClassSpec {
    selectors: Vec<Value>,
    config: Vec<Value>,
}

/// A DeviceClass.
#[derive(Clone, Debug)]
pub(crate) struct DeviceClass {
    pub(crate) selectors: Vec<Value>,
    pub(crate) config: Vec<Value>,
}

pub(crate) type Claims = Kind<Reduced<ClaimObject, Claim>>;
pub(crate) type Slices = Kind<Reduced<SliceObject, Slice>>;
pub(crate) type DeviceClasses = Kind<Reduced<ClassObject, DeviceClass>>;

/// Claims and what can be claimed, watched once for all components.
#[derive(Clone)]
pub(crate) struct Devices {
    pub(crate) cache: Cache,
    pub(crate) claims: Claims,
    pub(crate) slices: Slices,
    pub(crate) classes: DeviceClasses,
    slices_of: coppice_runtime::cache::Index<Slice, Arc<str>>,
}

impl Devices {
    /// Caches that are empty until they are fed.
    pub(crate) fn new() -> Self {
        let cache = Cache::default();
        let slices: Slices = cache.kind(resource::<ResourceSlice>(), Reduced::new(Slice::from_object));
        Self {
            claims: cache.kind(resource::<ResourceClaim>(), Reduced::new(Claim::from_object)),
            slices_of: slices.index(|slice: &Slice, emit| slice.node.iter().for_each(|node| emit(node.clone()))),
            slices,
            classes: cache.kind(
                resource::<ApiDeviceClass>(),
                Reduced::new(|_: &Meta, object: ClassObject, _: &Interner| DeviceClass {
                    selectors: object.spec.selectors,
                    config: object.spec.config,
                }),
            ),
            cache,
        }
    }

    /// The slices of a node, of each pool the newest generation.
    pub(crate) fn of_node(&self, node: &Arc<str>) -> Vec<Arc<Slice>> {
        let mut slices = self.slices_of.get(&self.cache.moment(), node);
        let newest = |slice: &Slice| {
            let same = slices
                .iter()
                .filter(|other| (&other.driver, &other.pool) == (&slice.driver, &slice.pool));
            same.map(|other| other.generation).max() == Some(slice.generation)
        };
        let keep: Vec<bool> = slices.iter().map(|slice| newest(slice)).collect();
        let mut keep = keep.into_iter();
        slices.retain(|_| keep.next().unwrap_or(false));
        slices
    }

    /// Feeds the caches until told to stop.
    pub(crate) fn watch(&self, client: &Client, stop: &CancellationToken) -> impl Future<Output = ()> + Send + use<> {
        let options = reflect::Options::default;
        let claims = reflect(client.clone(), self.claims.clone(), options(), stop.clone());
        let slices = reflect(client.clone(), self.slices.clone(), options(), stop.clone());
        let classes = reflect(client.clone(), self.classes.clone(), options(), stop.clone());
        async move {
            tokio::join!(claims, slices, classes);
        }
    }
}
