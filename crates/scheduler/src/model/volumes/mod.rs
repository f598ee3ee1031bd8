//! Volumes of pods: where they can be used, what has to be decided about them, and why a pod waits for one.
//!
//! Owns the storage objects of the model and the list of pods by the claims that they name. A claim that is bound restricts
//! nodes by its volume; one that is bound when its pod is placed ("WaitForFirstConsumer") is a question to the engine, with
//! the volumes that would do and the places where one could be made; anything else makes its pods wait, with a reason. The
//! rules are those of kube-scheduler; what a claim is promised to while a gang is being bound is remembered here.

mod demands;
mod obstacles;
mod progress;
mod records;
mod settle;
#[cfg(test)]
pub(crate) mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coppice_placement::predicates::NodeSelector;
use coppice_runtime::cache::ObjectKey;

pub use records::{CapacityRecord, ClaimRecord, ClassRecord, NodeDrivers, SELECTED_NODE, VolumeRecord, minds_capacity};

pub(crate) use progress::{Step, next_step};

/// A volume of a pod that comes from a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodVolume {
    /// The name of the volume in the pod.
    pub name: Arc<str>,
    /// The name of the claim.
    pub claim: Arc<str>,
    /// The claim is made for the pod and goes with it.
    pub ephemeral: bool,
}

/// What a claim is promised to while the gang that it is for is being bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promise {
    /// A volume that exists; one is made otherwise.
    pub volume: Option<Arc<str>>,
    /// For this node.
    pub node: Arc<str>,
}

/// A claim for which something has to be done before the pods that use it are bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provision {
    /// The claim.
    pub claim: ObjectKey,
    /// Its UID.
    pub uid: Arc<str>,
    /// What it is, for people.
    pub what: String,
    /// What it is to get.
    pub promise: Promise,
}

/// The storage objects.
#[derive(Debug, Clone, Default)]
pub(super) struct Storage {
    claims: BTreeMap<ObjectKey, Arc<ClaimRecord>>,
    volumes: BTreeMap<Arc<str>, Arc<VolumeRecord>>,
    classes: BTreeMap<Arc<str>, Arc<ClassRecord>>,
    nodes: BTreeMap<Arc<str>, NodeDrivers>,
    /// Drivers that want their capacities to be looked at.
    minding: BTreeSet<Arc<str>>,
    capacities: BTreeMap<ObjectKey, Arc<CapacityRecord>>,
    promises: BTreeMap<ObjectKey, Promise>,
    /// Pods by claim.
    users: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Volumes that name no claim, or one that does not name them yet, by class.
    free: BTreeMap<Option<String>, BTreeSet<Arc<str>>>,
    /// Drivers of which some node limits the volumes, and how many nodes do.
    limited: BTreeMap<String, u32>,
}

impl Storage {
    /// The same objects without the pods that use them.
    pub(super) fn without_users(&self) -> Self {
        Self {
            users: BTreeMap::new(),
            ..self.clone()
        }
    }

    /// The labels that tell the places of a driver apart; none when no node has the driver.
    fn keys_of(&self, driver: &str) -> Option<&[String]> {
        let mut nodes = self.nodes.values();
        nodes.find_map(|node| node.drivers.get(driver).map(|(_, keys)| keys.as_slice()))
    }

    fn class_of(&self, claim: &ClaimRecord) -> Option<&Arc<ClassRecord>> {
        self.classes.get(claim.class.as_deref()?)
    }

    /// Whether a claim is bound when its pod is placed, and not before.
    fn waits(&self, claim: &ClaimRecord) -> bool {
        !claim.bound && claim.volume.is_none() && self.class_of(claim).is_some_and(|class| class.waits)
    }

    /// Where volumes of a class are large enough for a claim; nothing when that does not matter.
    fn with_capacity(&self, class: &ClassRecord, claim: &ClaimRecord) -> Option<NodeSelector> {
        let provisioner = class.provisioner.as_deref()?;
        let size = claim.size?;
        if !self.minding.contains(provisioner) {
            return None;
        }
        let mut terms = Vec::new();
        for capacity in self.capacities.values() {
            let enough = capacity.largest.is_some_and(|largest| largest >= size);
            if *capacity.class != *class.meta.key.name || !enough {
                continue;
            }
            match &capacity.nodes {
                None => {}
                Some(expressions) if expressions.is_empty() => return None,
                Some(expressions) => terms.push(coppice_placement::predicates::NodeTerm {
                    expressions: expressions.clone(),
                    ..Default::default()
                }),
            }
        }
        Some(NodeSelector { terms })
    }
}
