//! Who owns whom.
//!
//! Owns the objects of the cluster as far as ownership goes, and the reverse index from owners to dependents. It
//! reports which objects a change concerns; what follows is decided elsewhere.

use crate::engine::requests::version_number;
use crate::kinds::KindId;
use kube::api::ObjectMeta;
use std::collections::{BTreeMap, BTreeSet};

/// The finalizer of foreground deletion.
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
/// The finalizer of orphaning deletion.
pub(crate) const ORPHAN: &str = "orphan";

/// One owner reference.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Owner {
    pub(crate) uid: String,
    pub(crate) kind: KindId,
    pub(crate) name: String,
    /// The owner's foreground deletion waits for the dependent.
    pub(crate) blocks: bool,
}

/// An object as the collector sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) uid: String,
    pub(crate) kind: KindId,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) resource_version: String,
    pub(crate) owners: Vec<Owner>,
    pub(crate) deleting: bool,
    pub(crate) foreground: bool,
    pub(crate) orphan: bool,
}

impl Object {
    pub(crate) fn from_metadata(kind: &KindId, metadata: ObjectMeta) -> Self {
        let finalizers = metadata.finalizers.unwrap_or_default();
        let owners = metadata.owner_references.unwrap_or_default();
        Self {
            uid: metadata.uid.unwrap_or_default(),
            kind: kind.clone(),
            namespace: metadata.namespace.unwrap_or_default(),
            name: metadata.name.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            owners: owners
                .into_iter()
                .map(|owner| Owner {
                    kind: KindId::of_reference(&owner.api_version, &owner.kind),
                    uid: owner.uid,
                    name: owner.name,
                    blocks: owner.block_owner_deletion == Some(true),
                })
                .collect(),
            deleting: metadata.deletion_timestamp.is_some(),
            foreground: finalizers.iter().any(|finalizer| finalizer == FOREGROUND),
            orphan: finalizers.iter().any(|finalizer| finalizer == ORPHAN),
        }
    }

    /// Whether it is being deleted and waits for its dependents.
    pub(crate) fn waits_for_dependents(&self) -> bool {
        self.deleting && self.foreground
    }
}

/// All objects by UID.
#[derive(Debug, Default)]
pub(crate) struct Graph {
    objects: BTreeMap<String, Object>,
    dependents: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    pub(crate) fn get(&self, uid: &str) -> Option<&Object> {
        self.objects.get(uid)
    }

    pub(crate) fn dependents(&self, uid: &str) -> impl Iterator<Item = &Object> {
        self.dependents
            .get(uid)
            .into_iter()
            .flatten()
            .filter_map(|uid| self.objects.get(uid))
    }

    /// The UIDs of all objects of a kind.
    pub(crate) fn of_kind<'a>(&'a self, kind: &'a KindId) -> impl Iterator<Item = &'a String> + 'a {
        self.objects
            .iter()
            .filter(move |(_, object)| object.kind == *kind)
            .map(|(uid, _)| uid)
    }

    /// The UIDs of all objects that are being deleted.
    pub(crate) fn deleting(&self) -> impl Iterator<Item = &String> {
        self.objects
            .iter()
            .filter(|(_, object)| object.deleting)
            .map(|(uid, _)| uid)
    }

    /// Folds an object in. Returns the UIDs that have to be looked at.
    pub(crate) fn apply(&mut self, object: Object) -> BTreeSet<String> {
        let old = self.objects.get(&object.uid);
        let newer =
            |old: &Object| version_number(Some(&object.resource_version)) > version_number(Some(&old.resource_version));
        if old.is_some_and(|old| !newer(old)) {
            return BTreeSet::new();
        }
        let mut concerned = BTreeSet::new();
        if !object.owners.is_empty() || object.deleting {
            concerned.insert(object.uid.clone());
        }
        if object.waits_for_dependents() && !old.is_some_and(Object::waits_for_dependents) {
            concerned.extend(self.dependents(&object.uid).map(|dependent| dependent.uid.clone()));
        }
        let old_owners = self
            .objects
            .get(&object.uid)
            .map(|old| old.owners.clone())
            .unwrap_or_default();
        if old_owners != object.owners {
            // A former owner may have waited for this reference to go.
            concerned.extend(old_owners.iter().map(|owner| owner.uid.clone()));
            self.unlink(&object.uid, &old_owners);
            for owner in &object.owners {
                self.dependents
                    .entry(owner.uid.clone())
                    .or_default()
                    .insert(object.uid.clone());
            }
        }
        self.objects.insert(object.uid.clone(), object);
        concerned
    }

    /// Forgets an object. Returns the UIDs that have to be looked at.
    pub(crate) fn remove(&mut self, uid: &str) -> BTreeSet<String> {
        let Some(object) = self.objects.remove(uid) else {
            return BTreeSet::new();
        };
        self.unlink(uid, &object.owners);
        let dependents = self.dependents(uid).map(|dependent| dependent.uid.clone());
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
