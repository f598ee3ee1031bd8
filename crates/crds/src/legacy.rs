//! The definition of a kind that this API had once: `ClusterTopology`, whose place ClusterTopologyBinding has taken.
//!
//! It is deleted when no object of it exists, so that nobody writes one that is never read. Objects are data of others:
//! while there is one, or nobody can tell, the definition stays, and an installation goes on either way.

use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Preconditions};
use kube::{Client, core::GroupVersionKind};

use crate::decision::Definition;

/// The definition that is removed.
pub const LEGACY: &str = "clustertopologies.grove.io";
const GROUP: &str = "grove.io";
const KIND: &str = "ClusterTopology";
const PLURAL: &str = "clustertopologies";

/// What became of the legacy definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Legacy {
    /// The cluster does not have it.
    Absent,
    /// It had no objects and was deleted.
    Deleted,
    /// It was kept, and why.
    Kept(String),
}

/// Deletes the legacy definition if it has no objects.
pub async fn remove(client: &Client) -> Legacy {
    match try_remove(client).await {
        Ok(outcome) => outcome,
        Err(error) => Legacy::Kept(format!("cannot tell whether it is in use: {error}")),
    }
}

async fn try_remove(client: &Client) -> Result<Legacy, kube::Error> {
    let definitions: Api<Definition> = Api::all(client.clone());
    let Some(found) = definitions.get_opt(LEGACY).await? else {
        return Ok(Legacy::Absent);
    };
    if found.metadata.deletion_timestamp.is_some() {
        return Ok(Legacy::Absent);
    }
    let Some(version) = found.spec.versions.first() else {
        return Ok(Legacy::Kept("it has no version".to_owned()));
    };
    let kind = GroupVersionKind::gvk(GROUP, &version.name, KIND);
    let objects: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk_with_plural(&kind, PLURAL));
    let first = objects.list(&ListParams::default().limit(1)).await?;
    if let Some(object) = first.items.first() {
        let name = object.metadata.name.as_deref().unwrap_or_default();
        return Ok(Legacy::Kept(format!(
            "objects of it exist, such as {name:?}; write ClusterTopologyBindings in their place and delete them"
        )));
    }
    let exactly_this = DeleteParams {
        preconditions: Some(Preconditions {
            uid: found.metadata.uid,
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match definitions.delete(LEGACY, &exactly_this).await {
        Ok(_) => Ok(Legacy::Deleted),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Legacy::Absent),
        Err(error) => Err(error),
    }
}
