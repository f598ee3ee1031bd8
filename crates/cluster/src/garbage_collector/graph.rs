//! Who owns whom.
//!
//! Owns the objects of the cluster as far as ownership goes, and the reverse index from owners to dependents. It
//! reports which objects a change concerns; what follows is decided elsewhere.

use crate::kinds::KindId;
use crate::view::{Metadata, Reduced};
use coppice_runtime::cache::{Interner, Kind, Meta};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The objects of one kind.
pub(crate) type Objects = Kind<Reduced<AnyObject, Object>>;

/// The wire form: what is decoded of an object of any kind.
#[derive(Deserialize)]
pub(crate) struct AnyObject {
    metadata: Metadata,
}

/// The finalizer of foreground deletion.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of orphaning deletion.
pub(crate) const ORPHAN: &str = "orphan";

/// One owner reference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) uid: Arc<str>,
    pub(crate) kind: KindId,
    pub(crate) name: Arc<str>,
    /// The owner's foreground deletion waits for the dependent.
    pub(crate) blocks: bool,
}

/// An object as the collector sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) meta: Meta,
    pub(crate) kind: KindId,
    pub(crate) owners: Vec<Owner>,
    pub(crate) deleting: bool,
    pub(crate) foreground: bool,
    pub(crate) orphan: bool,
}

impl Object {
    /// The projection of a kind.
    pub(crate) fn projection(kind: &KindId) -> Reduced<AnyObject, Object> {
        let kind = kind.clone();
        Reduced::new(move |meta, object: AnyObject, names| Self::from_metadata(&kind, meta, &object.metadata, names))
    }

    fn from_metadata(kind: &KindId, meta: &Meta, metadata: &Metadata, names: &Interner) -> Self {
        let owners = metadata.owner_references.iter().map(|owner| Owner {
            kind: KindId::of_reference(&owner.api_version, &owner.kind, names),
            uid: names.intern(&owner.uid),
            name: names.intern(&owner.name),
            blocks: owner.block_owner_deletion == Some(true),
        });
        let has_finalizer = |wanted: &str| metadata.finalizers.iter().any(|finalizer| finalizer == wanted);
        Self {
            meta: meta.clone(),
            kind: kind.clone(),
            owners: owners.collect(),
            deleting: metadata.is_deleting(),
            foreground: has_finalizer(FOREGROUND),
            orphan: has_finalizer(ORPHAN),
        }
    }

    /// The UID.
    pub(crate) fn uid(&self) -> &Arc<str> {
        &self.meta.uid
    }

    /// Whether it is being deleted and waits for its dependents.
    pub(crate) fn waits_for_dependents(&self) -> bool {
        self.deleting && self.foreground
    }
}

/// All objects by UID.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    objects: BTreeMap<Arc<str>, Arc<Object>>,
    dependents: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl Graph {
    pub(crate) fn get(&self, uid: &str) -> Option<&Arc<Object>> {
        self.objects.get(uid)
    }

    pub(crate) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Object> {
        self.dependents
            .get(uid)
            .into_iter()
            .flatten()
            .filter_map(|uid| self.objects.get(uid).map(|object| &**object))
    }

    /// The UIDs of all objects of a kind.
    pub(crate) fn of_kind(&self, kind: &KindId) -> Vec<Arc<str>> {
        let of_kind = self.objects.values().filter(|object| object.kind == *kind);
        of_kind.map(|object| object.uid().clone()).collect()
    }

    /// The UIDs of all objects that are being deleted.
    pub(crate) fn deleting(&self) -> impl Iterator<Item = &Arc<str>> {
        let deleting = self.objects.values().filter(|object| object.deleting);
        deleting.map(|object| object.uid())
    }

    /// Folds an object in. Returns the UIDs that have to be looked at.
    pub(crate) fn apply(&mut self, object: Arc<Object>) -> BTreeSet<Arc<str>> {
        let uid = object.uid().clone();
        let old = self.objects.get(&uid).cloned();
        let mut concerned = BTreeSet::new();
        if !object.owners.is_empty() || object.deleting {
            concerned.insert(uid.clone());
        }
        if object.waits_for_dependents() && !old.as_ref().is_some_and(|old| old.waits_for_dependents()) {
            concerned.extend(self.dependents(&uid).map(|dependent| dependent.uid().clone()));
        }
        let old_owners = old.as_ref().map_or(&[][..], |old| &old.owners);
        if old_owners != object.owners {
            // A former owner may have waited for this reference to go.
            concerned.extend(old_owners.iter().map(|owner| owner.uid.clone()));
            self.unlink(&uid, old_owners);
            for owner in &object.owners {
                self.dependents
                    .entry(owner.uid.clone())
                    .or_default()
                    .insert(uid.clone());
            }
        }
        self.objects.insert(uid, object);
        concerned
    }

    /// Forgets an object. Returns the UIDs that have to be looked at.
    pub(crate) fn remove(&mut self, uid: &str) -> BTreeSet<Arc<str>> {
        let Some(object) = self.objects.remove(uid) else {
            return BTreeSet::new();
        };
        self.unlink(uid, &object.owners);
        let dependents = self.dependents(uid).map(|dependent| dependent.uid().clone());
        dependents
            .chain(object.owners.iter().map(|owner| owner.uid.clone()))
            .collect()
    }

    fn unlink(&mut self, uid: &str, owners: &[Owner]) {
        for owner in owners {
            if let Some(dependents) = self.dependents.get_mut(&owner.uid) {
                dependents.remove(uid);
                if dependents.is_empty() {
                    self.dependents.remove(&owner.uid);
                }
            }
        }
    }
}
