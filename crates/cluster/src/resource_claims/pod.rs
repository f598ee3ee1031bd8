//! The claim controller's view of a pod, and what it decides.
//!
//! Owns the pure decisions: which claims of a pod are missing, and which reservations of a claim have no pod any more.

use super::reference::{ClaimStatus, PodClaim};
use super::view::{Claim, Consumer};
use crate::view::{Metadata, Reduced};
use coppice_runtime::cache::{Interner, Kind, Meta, ObjectKey};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// The annotation that says which of a pod's claims was made from a template.
pub(crate) const POD_CLAIM_NAME: &str = "resource.kubernetes.io/pod-claim-name";
const LONGEST_BASE: usize = 240;

/// All pods.
pub(crate) type Pods = Kind<Reduced<PodObject, Pod>>;

/// The wire form: what is decoded of a `Pod`.
#[derive(Deserialize)]
pub(crate) struct PodObject {
    metadata: Metadata,
    #[serde(default)]
    spec: SpecObject,
    #[serde(default)]
    status: StatusObject,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecObject {
    node_name: Option<String>,
    resource_claims: Vec<PodClaim>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct StatusObject {
    phase: String,
    resource_claim_statuses: Vec<ClaimStatus>,
}

/// A pod.
#[derive(Clone, Debug)]
pub(crate) struct Pod {
    pub(crate) meta: Meta,
    pub(crate) bound: bool,
    pub(crate) deleting: bool,
    pub(crate) ended: bool,
    pub(crate) claims: Vec<PodClaim>,
    pub(crate) statuses: Vec<ClaimStatus>,
}

impl Pod {
    pub(crate) fn from_object(meta: &Meta, object: PodObject, _names: &Interner) -> Self {
        let PodObject { metadata, spec, status } = object;
        Self {
            meta: meta.clone(),
            bound: spec.node_name.is_some_and(|name| !name.is_empty()),
            deleting: metadata.is_deleting(),
            ended: ["Succeeded", "Failed"].contains(&status.phase.as_str()),
            claims: spec.resource_claims,
            statuses: status.resource_claim_statuses,
        }
    }

    /// Whether claims are still made for it.
    fn needs_claims(&self) -> bool {
        !self.deleting && !self.ended
    }

    /// Whether it may still use what is reserved for it.
    fn uses_claims(&self) -> bool {
        !self.ended && (self.bound || !self.deleting)
    }
}

/// What a pod needs.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Needs {
    /// Claims to create.
    pub(crate) create: Vec<Value>,
    /// The statuses to write, when all claims exist and they are not written yet.
    pub(crate) statuses: Option<Vec<ClaimStatus>>,
    /// Allocated claims of a bound pod that are not reserved for it: something else than a scheduler bound it.
    pub(crate) reserve: Vec<ObjectKey>,
}

/// The claim that is made for an entry of a pod. The name follows from the pod, so that it is never made twice.
pub(crate) fn claim_key(pod: &Pod, entry: &str) -> ObjectKey {
    let base = format!("{}-{entry}", pod.meta.key.name);
    let base = base.get(..LONGEST_BASE).unwrap_or(&base);
    let suffix = crate::digest::digest(&[&pod.meta.uid, entry]);
    ObjectKey::new(pod.meta.key.namespace.clone(), format!("{base}-{suffix}"))
}

/// Decides for one pod. `template` finds `spec` of a template; a pod whose template is missing waits for it.
pub(crate) fn needs(
    pod: &Pod,
    claim: impl Fn(&ObjectKey) -> Option<Arc<Claim>>,
    template: impl Fn(&str) -> Option<Arc<Value>>,
) -> Needs {
    let mut needs = Needs::default();
    if pod.claims.is_empty() || !pod.needs_claims() {
        return needs;
    }
    let (mut statuses, mut complete) = (Vec::new(), true);
    for entry in &pod.claims {
        let key = match (&entry.resource_claim_name, &entry.resource_claim_template_name) {
            (Some(name), _) => ObjectKey::new(pod.meta.key.namespace.clone(), name.as_str()),
            (None, Some(_)) => {
                let known = pod.statuses.iter().find(|status| status.name == entry.name);
                match known.and_then(|status| status.resource_claim_name.as_deref()) {
                    Some(name) => ObjectKey::new(pod.meta.key.namespace.clone(), name),
                    None => claim_key(pod, &entry.name),
                }
            }
            (None, None) => continue,
        };
        let found = claim(&key);
        if let Some(template_name) = &entry.resource_claim_template_name {
            let own = found
                .as_ref()
                .is_some_and(|claim| claim.pod.as_ref() == Some(&pod.meta.uid));
            if !own {
                complete = false;
                needs
                    .create
                    .extend(template(template_name).map(|spec| from_template(pod, &entry.name, &key, &spec)));
            }
            statuses.push(ClaimStatus {
                name: entry.name.clone(),
                resource_claim_name: Some(key.name.to_string()),
            });
        }
        let unreserved = |claim: &&Arc<Claim>| claim.allocation.is_some() && !claim.is_reserved_for(&pod.meta.uid);
        if pod.bound && found.as_ref().filter(unreserved).is_some() {
            needs.reserve.push(key);
        }
    }
    if complete && statuses != pod.statuses {
        needs.statuses = Some(statuses);
    }
    needs
}

fn from_template(pod: &Pod, entry: &str, key: &ObjectKey, spec: &Value) -> Value {
    let given = &spec["metadata"];
    let mut metadata = json!({
        "name": &*key.name,
        "namespace": &*key.namespace,
        "ownerReferences": [{
            "apiVersion": "v1", "kind": "Pod", "name": &*pod.meta.key.name, "uid": &*pod.meta.uid,
            "controller": true, "blockOwnerDeletion": true,
        }],
    });
    for field in ["labels", "annotations"] {
        if !given[field].is_null() {
            metadata[field] = given[field].clone();
        }
    }
    metadata["annotations"][POD_CLAIM_NAME] = json!(entry);
    json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata, "spec": spec["spec"]})
}

/// What to do about a claim.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Tidying {
    Nothing,
    /// Keep only these consumers; with none left, the devices are free.
    Release(Vec<Consumer>),
    /// Its pod has ended: nobody will use it again.
    Delete,
}

/// Decides for one claim. `pod` finds a pod of the claim's namespace by name, `owner` is the pod that it was made for.
pub(crate) fn tidy(claim: &Claim, owner: Option<&Pod>, pod: impl Fn(&str) -> Option<Arc<Pod>>) -> Tidying {
    let uses = |consumer: &Consumer| {
        !consumer.is_pod() || pod(&consumer.name).is_some_and(|pod| *pod.meta.uid == *consumer.uid && pod.uses_claims())
    };
    let rest: Vec<Consumer> = claim.reserved_for.iter().filter(|one| uses(one)).cloned().collect();
    if rest.len() < claim.reserved_for.len() {
        return Tidying::Release(rest);
    }
    let spent = !claim.deleting && rest.is_empty() && owner.is_some_and(|pod| pod.ended);
    if spent { Tidying::Delete } else { Tidying::Nothing }
}

#[cfg(test)]
mod tests;
