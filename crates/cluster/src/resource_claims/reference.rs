//! How a pod names its claims.

use super::view::{Claim, Devices};
use coppice_runtime::cache::ObjectKey;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// An entry of `spec.resourceClaims`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct PodClaim {
    pub(crate) name: String,
    pub(crate) resource_claim_name: Option<String>,
    pub(crate) resource_claim_template_name: Option<String>,
}

/// An entry of `status.resourceClaimStatuses`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ClaimStatus {
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) resource_claim_name: Option<String>,
}

/// The claims of a pod, as far as they are known by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ClaimReferences {
    claims: Vec<PodClaim>,
    statuses: Vec<ClaimStatus>,
}

impl ClaimReferences {
    pub(crate) fn new(claims: Vec<PodClaim>, statuses: Vec<ClaimStatus>) -> Self {
        Self { claims, statuses }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.claims.is_empty()
    }

    /// The claims themselves, or what the first one that does not exist waits for.
    pub(crate) fn resolve(&self, namespace: &Arc<str>, devices: &Devices) -> Result<Vec<Arc<Claim>>, String> {
        let mut found = Vec::new();
        for claim in &self.claims {
            let generated = self.statuses.iter().find(|status| status.name == claim.name);
            let name = match (&claim.resource_claim_name, generated) {
                (Some(name), _) => name.clone(),
                (None, Some(status)) => match &status.resource_claim_name {
                    Some(name) => name.clone(),
                    // The controller has decided that no claim is needed.
                    None => continue,
                },
                (None, None) => {
                    let template = claim.resource_claim_template_name.as_deref().unwrap_or_default();
                    return Err(format!(
                        "claim {:?} has not been created from ResourceClaimTemplate {template:?} yet",
                        claim.name
                    ));
                }
            };
            let key = ObjectKey::new(namespace.clone(), name.as_str());
            let live = devices.claims.latest(&key).filter(|claim| !claim.deleting);
            found.push(live.ok_or_else(|| format!("resourceclaim {name:?} not found"))?);
        }
        Ok(found)
    }
}
