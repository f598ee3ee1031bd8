//! Live reads of what preparing a claim depends on: the claim, its domain, the row of this node.
//!
//! Nothing of this is watched: a node prepares a few claims in its life, and a watch on every node would have each status of
//! each domain sent to all of them. A domain is looked up by name where it is known, and confirmed by its UID.

use std::time::Duration;

use coppice_domains::api::{Clique, ComputeDomain, limits, names};
use coppice_domains::decide::plugin::claim::Claim;
use coppice_domains::decide::plugin::prepare::DomainLookup;
use k8s_openapi::api::resource::v1::ResourceClaim;
use kube::api::ListParams;
use kube::{Api, Client};

use crate::wire;

/// How long one read may take.
const TIMEOUT: Duration = Duration::from_secs(10);
const PAGE: u32 = 500;

/// Why something could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ReadError {
    /// It is not there, and will not be.
    Gone(String),
    /// It may succeed next time.
    Failed(String),
}

#[derive(Clone)]
pub(crate) struct Reads {
    pub(crate) client: Client,
    /// The namespace of the driver.
    pub(crate) namespace: String,
}

async fn within<T>(what: &str, read: impl Future<Output = Result<T, kube::Error>>) -> Result<T, ReadError> {
    match tokio::time::timeout(TIMEOUT, read).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(ReadError::Failed(format!("cannot read {what}: {error}"))),
        Err(_elapsed) => Err(ReadError::Failed(format!(
            "cannot read {what}: no answer from the API server after {} s",
            TIMEOUT.as_secs()
        ))),
    }
}

impl Reads {
    /// The claim that the kubelet means, and where its domain is said to be.
    pub(crate) async fn claim(&self, wanted: &wire::Claim) -> Result<(Claim, Option<String>), ReadError> {
        let id = format!("{}/{}", wanted.namespace, wanted.name);
        let api: Api<ResourceClaim> = Api::namespaced(self.client.clone(), &wanted.namespace);
        let found = within(&format!("ResourceClaim {id}"), api.get_opt(&wanted.name)).await?;
        let found = found.filter(|claim| claim.metadata.uid.as_deref() == Some(&wanted.uid));
        let claim = found.ok_or_else(|| {
            ReadError::Gone(format!(
                "ResourceClaim {id} with UID {} does not exist any more",
                wanted.uid
            ))
        })?;
        let allocation = claim.status.and_then(|status| status.allocation);
        let hint = claim
            .metadata
            .annotations
            .and_then(|mut annotations| annotations.remove(names::DOMAIN_ANNOTATION));
        let claim = Claim {
            uid: wanted.uid.clone(),
            name: wanted.name.clone(),
            namespace: wanted.namespace.clone(),
            allocation: allocation.and_then(|allocation| serde_json::to_value(allocation).ok()),
        };
        Ok((claim, hint))
    }

    /// Whether a claim of an earlier request still exists.
    pub(crate) async fn claim_exists(&self, namespace: &str, name: &str, uid: &str) -> Result<bool, ReadError> {
        let wanted = wire::Claim {
            namespace: namespace.to_owned(),
            uid: uid.to_owned(),
            name: name.to_owned(),
        };
        match self.claim(&wanted).await {
            Ok(_) => Ok(true),
            Err(ReadError::Gone(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The domain with this UID: where the hint says, in the namespace of the claim, or anywhere.
    pub(crate) async fn domain(
        &self,
        uid: &str,
        claim_namespace: &str,
        hint: Option<&str>,
    ) -> Result<DomainLookup, ReadError> {
        if let Some((namespace, name)) = hint.and_then(|hint| hint.split_once('/'))
            && !namespace.is_empty()
            && !name.is_empty()
        {
            let api: Api<ComputeDomain> = Api::namespaced(self.client.clone(), namespace);
            let found = within("the ComputeDomain", api.get_metadata_opt(name)).await?;
            if found.is_some_and(|domain| domain.metadata.uid.as_deref() == Some(uid)) {
                return Ok(DomainLookup::Found {
                    name: name.to_owned(),
                    namespace: namespace.to_owned(),
                });
            }
        }
        let near: Api<ComputeDomain> = Api::namespaced(self.client.clone(), claim_namespace);
        if let Some(found) = find(near, uid).await? {
            return Ok(found);
        }
        let anywhere = find(Api::all(self.client.clone()), uid).await?;
        Ok(anywhere.unwrap_or(DomainLookup::Gone))
    }

    /// The index of a node in its clique.
    pub(crate) async fn index(&self, domain_uid: &str, clique_id: &str, node: &str) -> Option<u32> {
        if clique_id.is_empty() {
            return None;
        }
        let api: Api<Clique> = Api::namespaced(self.client.clone(), &self.namespace);
        let clique = within("the clique", api.get_opt(&names::clique(domain_uid, clique_id))).await;
        let rows = clique.ok()??.daemons;
        rows.iter()
            .find(|row| row.node_name == node)?
            .bounded_index(limits::MAX_NODES)
    }

    /// UIDs of all domains.
    pub(crate) async fn domain_uids(&self) -> Result<Vec<String>, ReadError> {
        let mut uids = Vec::new();
        let api: Api<ComputeDomain> = Api::all(self.client.clone());
        each(api, |metadata| uids.extend(metadata.uid.clone())).await?;
        Ok(uids)
    }
}

async fn find(api: Api<ComputeDomain>, uid: &str) -> Result<Option<DomainLookup>, ReadError> {
    let mut found = None;
    each(api, |metadata| {
        if metadata.uid.as_deref() == Some(uid) {
            found = Some(DomainLookup::Found {
                name: metadata.name.clone().unwrap_or_default(),
                namespace: metadata.namespace.clone().unwrap_or_default(),
            });
        }
    })
    .await?;
    Ok(found)
}

/// Visits the metadata of domains, page by page.
async fn each(
    api: Api<ComputeDomain>,
    mut visit: impl FnMut(&k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta),
) -> Result<(), ReadError> {
    let mut params = ListParams::default().limit(PAGE);
    loop {
        let page = within("ComputeDomains", api.list_metadata(&params)).await?;
        page.items.iter().for_each(|domain| visit(&domain.metadata));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => return Ok(()),
        }
    }
}
