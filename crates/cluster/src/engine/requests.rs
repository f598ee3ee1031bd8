//! Requests that several controllers make, and how their refusals are read.
//!
//! Owns the client constructor without retries and deletes that name the UID they mean. Clients handed to this
//! crate must not repeat requests by themselves: the engine tries again, with what it knows by then.

use kube::api::{DeleteParams, PatchParams, Preconditions, PropagationPolicy};
use kube::{Api, Client, Config, Resource};
use serde::de::DeserializeOwned;
use std::fmt::Debug;

/// A client that never repeats a request by itself, as all components here expect it.
pub fn client_without_retries(mut config: Config) -> Result<Client, kube::Error> {
    config.default_retry = false;
    Client::try_from(config)
}

fn has_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}

/// The object is not there.
pub(crate) fn is_not_found(error: &kube::Error) -> bool {
    has_code(error, 404)
}

/// The object exists already, or is not what the request took it for.
pub(crate) fn is_conflict(error: &kube::Error) -> bool {
    has_code(error, 409)
}

/// The server will never accept this request as it is.
pub(crate) fn is_invalid(error: &kube::Error) -> bool {
    has_code(error, 422) || has_code(error, 400)
}

/// Parameters of a patch in the name of one component of the cluster.
pub(crate) fn patch_as(manager: &str) -> PatchParams {
    PatchParams {
        field_manager: Some(manager.to_owned()),
        ..PatchParams::default()
    }
}

/// How an object is to be deleted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deletion {
    /// Only this incarnation.
    pub(crate) uid: String,
    /// Only if it has not changed since it was read.
    pub(crate) resource_version: Option<String>,
    /// Seconds; none means what the object says.
    pub(crate) grace: Option<u32>,
    /// None means what the object's finalizers and kind say.
    pub(crate) propagation: Option<PropagationPolicy>,
}

/// Deletes one incarnation of an object. That it is gone already counts as success.
pub(crate) async fn delete<K>(api: &Api<K>, name: &str, deletion: Deletion) -> Result<(), kube::Error>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let only_uid = deletion.resource_version.is_none();
    let params = DeleteParams {
        grace_period_seconds: deletion.grace,
        propagation_policy: deletion.propagation,
        preconditions: Some(Preconditions {
            uid: Some(deletion.uid),
            resource_version: deletion.resource_version,
        }),
        ..DeleteParams::default()
    };
    match api.delete(name, &params).await {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        // With the UID as the only condition, a conflict means another incarnation has taken the name.
        Err(error) if only_uid && is_conflict(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The number in a resource version; zero if it has none. Versions of one kind are comparable.
pub(crate) fn version_number(resource_version: Option<&str>) -> u64 {
    resource_version.and_then(|version| version.parse().ok()).unwrap_or(0)
}
