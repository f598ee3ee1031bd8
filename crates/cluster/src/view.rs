//! From objects on the wire to the small views that controllers hold.
//!
//! Owns the projection that decodes only what a view needs, and the metadata that views have in common. Identity (name,
//! UID, version) is read by the cache.

use coppice_runtime::cache::{Interner, Meta, Projection};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::core::ApiResource;
use serde::Deserialize;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// What is decoded of an object's metadata.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    pub(crate) labels: BTreeMap<String, String>,
    pub(crate) annotations: BTreeMap<String, String>,
    pub(crate) finalizers: Vec<String>,
    pub(crate) owner_references: Vec<OwnerReference>,
    pub(crate) creation_timestamp: Option<Timestamp>,
    pub(crate) generation: i64,
    deletion_timestamp: Option<IgnoredAny>,
    deletion_grace_period_seconds: Option<i64>,
}

impl Metadata {
    /// Whether the object is being deleted.
    pub(crate) fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// The UID of the controller of this kind that owns the object.
    pub(crate) fn controller(&self, kind: &str) -> Option<&str> {
        let owner = self
            .owner_references
            .iter()
            .find(|owner| owner.controller == Some(true))?;
        (owner.kind == kind).then_some(owner.uid.as_str())
    }

    /// Seconds of grace if the object is being deleted.
    pub(crate) fn deletion_grace(&self) -> Option<u32> {
        let seconds = self.deletion_grace_period_seconds.unwrap_or(0);
        self.is_deleting().then(|| u32::try_from(seconds).unwrap_or(0))
    }
}

type Reduce<O, V> = dyn Fn(&Meta, O, &Interner) -> V + Send + Sync;

/// The projection that decodes `O` and reduces it to the view `V`.
pub(crate) struct Reduced<O, V>(Box<Reduce<O, V>>);

impl<O, V> Reduced<O, V> {
    pub(crate) fn new(reduce: impl Fn(&Meta, O, &Interner) -> V + Send + Sync + 'static) -> Self {
        Self(Box::new(reduce))
    }
}

impl<O, V> Projection for Reduced<O, V>
where
    O: DeserializeOwned + 'static,
    V: Send + Sync + 'static,
{
    type View = V;

    fn project(&self, meta: &Meta, object: &RawValue, names: &Interner) -> Result<V, serde_json::Error> {
        Ok((self.0)(meta, serde_json::from_str(object.get())?, names))
    }
}

/// The resource of a built-in kind.
pub(crate) fn resource<K: kube::Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The view of an object, as the cache would make it.
    #[expect(
        clippy::needless_pass_by_value,
        reason = "a literal reads better without a reference"
    )]
    pub(crate) fn view<O, V>(projection: &Reduced<O, V>, object: serde_json::Value) -> V
    where
        O: DeserializeOwned + 'static,
        V: Send + Sync + 'static,
    {
        let raw = RawValue::from_string(object.to_string()).unwrap();
        let names = Interner::default();
        let head = coppice_runtime::cache::Head::read(&raw, &names).unwrap();
        projection.project(&head.meta, &raw, &names).unwrap()
    }
}
