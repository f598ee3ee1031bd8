//! Storage objects into the model, and what follows for pods and nodes.

use std::collections::BTreeSet;
use std::sync::Arc;

use coppice_runtime::cache::ObjectKey;

use super::{CapacityRecord, ClaimRecord, ClassRecord, NodeDrivers, Promise, VolumeRecord};
use crate::model::{Model, PodRecord};

impl Model {
    /// Adds or replaces a claim.
    pub fn put_claim(&mut self, record: Arc<ClaimRecord>) {
        let key = record.meta.key.clone();
        if record.bound {
            self.storage.promises.remove(&key);
        }
        self.storage.claims.insert(key.clone(), record);
        self.settle_users(&key);
    }

    /// Removes a claim.
    pub fn remove_claim(&mut self, key: &ObjectKey) {
        if self.storage.claims.remove(key).is_some() {
            self.storage.promises.remove(key);
            self.settle_users(key);
        }
    }

    /// Adds or replaces a volume.
    pub fn put_volume(&mut self, record: Arc<VolumeRecord>) {
        let name = record.meta.key.name.clone();
        self.forget_volume(&name);
        self.storage
            .free
            .entry(record.class.clone())
            .or_default()
            .insert(name.clone());
        let claim = record.claim.as_ref().map(|(key, _)| key.clone());
        self.storage.volumes.insert(name, record);
        match claim {
            Some(claim) => self.settle_users(&claim),
            None => self.room += 1,
        }
    }

    /// Removes a volume.
    pub fn remove_volume(&mut self, name: &str) {
        if let Some(claim) = self.forget_volume(name) {
            self.settle_users(&claim);
        }
    }

    fn forget_volume(&mut self, name: &str) -> Option<ObjectKey> {
        let old = self.storage.volumes.remove(name)?;
        if let Some(names) = self.storage.free.get_mut(&old.class) {
            names.remove(name);
            if names.is_empty() {
                self.storage.free.remove(&old.class);
            }
        }
        old.claim.as_ref().map(|(key, _)| key.clone())
    }

    /// Adds, replaces or removes a storage class.
    pub fn set_storage_class(&mut self, name: &str, record: Option<Arc<ClassRecord>>) {
        match record {
            Some(record) => drop(self.storage.classes.insert(name.into(), record)),
            None => drop(self.storage.classes.remove(name)),
        }
        self.settle_all_users();
    }

    /// Notes whether a driver wants its capacities to be looked at.
    pub fn set_minds_capacity(&mut self, driver: &str, minds: bool) {
        let changed = match minds {
            true => self.storage.minding.insert(driver.into()),
            false => self.storage.minding.remove(driver),
        };
        self.room += u64::from(changed);
    }

    /// Adds, replaces or removes what a driver says of its capacity.
    pub fn set_capacity(&mut self, key: &ObjectKey, record: Option<Arc<CapacityRecord>>) {
        match record {
            Some(record) => drop(self.storage.capacities.insert(key.clone(), record)),
            None => drop(self.storage.capacities.remove(key)),
        }
        self.room += 1;
    }

    /// Replaces what is known of the drivers of nodes.
    pub fn set_node_drivers(&mut self, changes: impl IntoIterator<Item = (Arc<str>, Option<NodeDrivers>)>) {
        let before: BTreeSet<String> = self.storage.limited.keys().cloned().collect();
        let mut nodes = BTreeSet::new();
        for (name, drivers) in changes {
            let old = match drivers.clone() {
                Some(drivers) => self.storage.nodes.insert(name.clone(), drivers),
                None => self.storage.nodes.remove(&name),
            };
            if old == drivers {
                continue;
            }
            for driver in limits(drivers.as_ref()) {
                *self.storage.limited.entry(driver.clone()).or_default() += 1;
            }
            for driver in limits(old.as_ref()) {
                if let Some(count) = self.storage.limited.get_mut(driver) {
                    *count -= 1;
                }
            }
            nodes.insert(name);
        }
        if nodes.is_empty() {
            return;
        }
        self.storage.limited.retain(|_, nodes| *nodes > 0);
        let same = self.storage.limited.keys().eq(before.iter());
        let concerned = |name: &String| !same || nodes.contains(name.as_str());
        let concerned = self.nodes.iter().filter(|(name, _)| concerned(name));
        let dressed: Vec<_> = concerned
            .map(|(_, node)| self.storage.with_limits(node.clone()))
            .collect();
        self.state.put_nodes(dressed);
        self.room += 1;
        if !same {
            self.settle_all_users();
        }
    }

    /// Notes what a claim is promised to while its gang is being bound.
    pub(crate) fn promise(&mut self, claim: &ObjectKey, promise: Promise) {
        if self.storage.claims.contains_key(claim) {
            self.storage.promises.insert(claim.clone(), promise);
        }
    }

    /// Takes a promise back, whether it was kept or not.
    pub(crate) fn end_promise(&mut self, claim: &ObjectKey) {
        if self.storage.promises.remove(claim).is_some() {
            self.room += 1;
        }
    }

    pub(in crate::model) fn list_volumes(&mut self, pod: &PodRecord) {
        for volume in pod.volumes.iter().filter(|_| !pod.finished) {
            let users = self.storage.users.entry(volume.claim_of(pod)).or_default();
            users.insert(pod.meta.key.clone());
        }
    }

    pub(in crate::model) fn unlist_volumes(&mut self, pod: &PodRecord) {
        for volume in &pod.volumes {
            let claim = volume.claim_of(pod);
            if let Some(users) = self.storage.users.get_mut(&claim) {
                users.remove(&pod.meta.key);
                if users.is_empty() {
                    self.storage.users.remove(&claim);
                }
            }
        }
    }

    /// A claim has changed: pods that use it may be placed elsewhere now, and those on nodes may take something else there.
    fn settle_users(&mut self, claim: &ObjectKey) {
        self.room += 1;
        let users: Vec<ObjectKey> = self.storage.users.get(claim).into_iter().flatten().cloned().collect();
        for key in users {
            self.settle(&key);
        }
    }

    fn settle_all_users(&mut self) {
        self.room += 1;
        let users: BTreeSet<ObjectKey> = self.storage.users.values().flatten().cloned().collect();
        for key in users {
            self.settle(&key);
        }
    }
}

/// The drivers whose volumes a node limits.
fn limits(node: Option<&NodeDrivers>) -> impl Iterator<Item = &String> {
    let drivers = node.into_iter().flat_map(|node| &node.drivers);
    drivers
        .filter(|(_, (limit, _))| limit.is_some())
        .map(|(driver, _)| driver)
}
