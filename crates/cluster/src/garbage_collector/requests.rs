//! The requests of the collector, besides deletions.
//!
//! Owns questions about owners that no watch has reported, and changes of metadata: each reads the object as it is now
//! and is conditional on what it read.

use super::graph::Owner;
use crate::controller::Action;
use crate::kinds::AnyMeta;
use coppice_runtime::cache::Meta;
use coppice_runtime::write::WriteError;
use futures::FutureExt;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

pub(super) const MANAGER: &str = "coppice-garbage-collector";

/// What a request brought back.
pub(super) enum Outcome {
    Done,
    /// What was found out about owners: UID, namespace, and whether it exists.
    Verified(Vec<(Arc<str>, Arc<str>, bool)>),
}

/// Asks the API server whether owners exist.
pub(super) fn verify(questions: Vec<(Api<AnyMeta>, Owner, Arc<str>)>) -> Action<Outcome> {
    async move {
        let mut findings = Vec::new();
        for (api, owner, namespace) in questions {
            let found = api.get_opt(&owner.name).await?;
            let exists = found.is_some_and(|found| found.metadata.uid.as_deref() == Some(&*owner.uid));
            findings.push((owner.uid, namespace, exists));
        }
        Ok(Outcome::Verified(findings))
    }
    .boxed()
}

/// An action that brings nothing back.
pub(super) fn done(work: impl Future<Output = Result<(), WriteError>> + Send + 'static) -> Action<Outcome> {
    async move { work.await.map(|()| Outcome::Done) }.boxed()
}

/// One incarnation of an object, to be changed.
pub(super) struct Target {
    pub(super) api: Api<AnyMeta>,
    pub(super) meta: Meta,
}

impl Target {
    pub(super) async fn drop_owners(&self, uids: &BTreeSet<Arc<str>>) -> Result<(), WriteError> {
        self.edit(|metadata| {
            let owners: &Vec<OwnerReference> = metadata.owner_references.as_ref()?;
            let kept: Vec<&OwnerReference> = owners
                .iter()
                .filter(|owner| !uids.contains(owner.uid.as_str()))
                .collect();
            (kept.len() < owners.len()).then(|| json!({"ownerReferences": kept}))
        })
        .await
    }

    pub(super) async fn unblock(&self) -> Result<(), WriteError> {
        self.edit(|metadata| {
            let mut owners = metadata.owner_references.clone()?;
            for owner in &mut owners {
                owner.block_owner_deletion = Some(false);
            }
            Some(json!({"ownerReferences": owners}))
        })
        .await
    }

    pub(super) async fn remove_finalizer(&self, finalizer: &str) -> Result<(), WriteError> {
        self.edit(|metadata| {
            let finalizers = metadata.finalizers.as_ref()?;
            let kept: Vec<&String> = finalizers.iter().filter(|name| *name != finalizer).collect();
            (kept.len() < finalizers.len()).then(|| json!({"finalizers": kept}))
        })
        .await
    }

    /// Changes metadata as it is now; nothing happens if the object is gone or needs no change.
    async fn edit(
        &self,
        change: impl FnOnce(&kube::api::ObjectMeta) -> Option<Value> + Send,
    ) -> Result<(), WriteError> {
        let Some(current) = self.api.get_opt(&self.meta.key.name).await? else {
            return Ok(());
        };
        if current.metadata.uid.as_deref() != Some(&*self.meta.uid) {
            return Ok(());
        }
        let Some(mut metadata) = change(&current.metadata) else {
            return Ok(());
        };
        metadata["uid"] = json!(&*self.meta.uid);
        metadata["resourceVersion"] = json!(current.metadata.resource_version);
        let patch = json!({"metadata": metadata});
        let params = PatchParams::apply(MANAGER);
        let patched = self
            .api
            .patch(&self.meta.key.name, &params, &Patch::Merge(&patch))
            .await;
        match patched.map_err(WriteError::from) {
            Err(WriteError::NotFound(_)) => Ok(()),
            // A conflict is an error here: it is tried again with what is there then.
            patched => patched.map(drop),
        }
    }
}
