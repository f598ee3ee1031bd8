//! The device claims of one pod, and what they mean for its node.
//!
//! Owns the question whether a node can serve all claims of a pod, and the allocation that follows from the answer.

use super::fit;
use super::pod::{NodeSelector, Pod};
use crate::node_view::Node;
use crate::resource_claims::{Claim, DeviceId, Devices, allocate};
use coppice_runtime::cache::ObjectKey;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A claim that is about to be given to a pod.
#[derive(Clone, Debug)]
pub(super) struct Grant {
    pub(super) claim: Arc<Claim>,
    /// None when it is allocated already.
    pub(super) allocation: Option<Value>,
}

/// The claims of a pod, and the devices that others have.
pub(super) struct PodClaims<'a> {
    devices: &'a Devices,
    claims: Vec<Arc<Claim>>,
    taken: BTreeSet<DeviceId>,
}

impl<'a> PodClaims<'a> {
    /// The claims of a pod; an error says which one does not exist yet. `promised` are devices of allocations on their way.
    pub(super) fn new(
        pod: &Pod,
        devices: &'a Devices,
        promised: impl Iterator<Item = DeviceId>,
    ) -> Result<Self, String> {
        let claims = pod.claims.resolve(&pod.meta.key.namespace, devices)?;
        let mut taken = BTreeSet::new();
        if claims.iter().any(|claim| claim.allocation.is_none()) {
            let all = devices.claims.all(&devices.cache.moment());
            taken.extend(
                all.iter()
                    .filter_map(|claim| claim.allocation.as_deref())
                    .flat_map(allocate::held),
            );
            taken.extend(promised);
        }
        Ok(Self { devices, claims, taken })
    }

    /// Whether any claim has no devices yet.
    pub(super) fn lack_devices(&self) -> bool {
        self.claims.iter().any(|claim| claim.allocation.is_none())
    }

    /// What the pod is given on a node, and the devices that nobody else may have; or why the node cannot serve it.
    pub(super) fn on(&self, node: &Node) -> Result<(Vec<Grant>, Vec<DeviceId>), String> {
        let slices = self.devices.of_node(&node.meta.key.name);
        let class = |name: &str| self.devices.classes.latest(&ObjectKey::new("", name));
        let (mut grants, mut devices, mut taken) = (Vec::new(), Vec::new(), self.taken.clone());
        for claim in &self.claims {
            let allocation = match &claim.allocation {
                Some(allocation) if reaches(allocation, node) => None,
                Some(_) => return Err("resourceclaim not available on the node".to_owned()),
                None => {
                    let (allocation, chosen) = allocate(claim, node.name(), &slices, class, &taken)?;
                    taken.extend(chosen.iter().cloned());
                    devices.extend(chosen);
                    Some(allocation)
                }
            };
            grants.push(Grant {
                claim: Arc::clone(claim),
                allocation,
            });
        }
        Ok((grants, devices))
    }
}

/// Whether an allocation can be used on a node.
fn reaches(allocation: &Value, node: &Node) -> bool {
    let selector = &allocation["nodeSelector"];
    selector.is_null() || NodeSelector::deserialize(selector).is_ok_and(|selector| fit::matches(&selector, node))
}
