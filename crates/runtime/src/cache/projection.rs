//! From the object on the wire to the small, shared view that the cache holds.
//!
//! Owns the trait and the plain case ([`Typed`]: the whole object without its managed fields). A projection is pure and
//! is given the raw JSON, so that it decodes only what it keeps. Never sees two objects at once.

use std::{collections::BTreeMap, marker::PhantomData, sync::Arc};

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::{Interner, Meta};

/// How objects of one kind become views.
pub trait Projection: Send + Sync + 'static {
    /// What the cache holds and shares.
    type View: Send + Sync + 'static;

    /// Makes a view of an object whose identity was read already. Strings that many objects share go through `names`.
    ///
    /// # Errors
    /// When the object does not have the expected shape. It is then reported and skipped.
    fn project(&self, meta: &Meta, object: &RawValue, names: &Interner) -> Result<Self::View, serde_json::Error>;
}

/// The projection that keeps the whole typed object, without its managed fields. For kinds of which there are few, and
/// whose specification is needed.
#[derive(Debug)]
pub struct Typed<K>(PhantomData<fn() -> K>);

impl<K> Default for Typed<K> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<K> Projection for Typed<K>
where
    K: kube::Resource + DeserializeOwned + Send + Sync + 'static,
{
    type View = K;

    fn project(&self, _meta: &Meta, object: &RawValue, _names: &Interner) -> Result<K, serde_json::Error> {
        let mut typed: K = serde_json::from_str(object.get())?;
        typed.meta_mut().managed_fields = None;
        Ok(typed)
    }
}

/// Labels in the order of their keys, each string shared.
pub type Labels = Box<[(Arc<str>, Arc<str>)]>;

/// Interns the labels of an object.
#[must_use]
pub fn labels(wire: &BTreeMap<String, String>, names: &Interner) -> Labels {
    wire.iter()
        .map(|(key, value)| (names.intern(key), names.intern(value)))
        .collect()
}
