//! Pods in the model: their records, what they are placed with, and the room that they take.
//!
//! Owns the lists of pods by node, by gang and by what waits, and keeps the engine's state in step with them: a pod takes room
//! where it has a node or is about to get one, and nowhere else. Never decides where a pod goes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coppice_placement::shape::ShapeId;
use coppice_runtime::cache::ObjectKey;

use super::{GangId, Model, PodRecord};

impl Model {
    /// Adds or replaces a pod.
    pub fn put_pod(&mut self, record: &Arc<PodRecord>) {
        let key = record.meta.key.clone();
        let mentions = record.demands.keep_apart.iter().flat_map(|term| &term.selector);
        let before = self.mentioned.len();
        self.mentioned.extend(mentions.map(|expression| expression.key.clone()));
        let known = self.pods.get(&key);
        let was_ready = known.is_some_and(|old| old.meta.uid == record.meta.uid && old.has_been_ready);
        let record = &if was_ready && !record.has_been_ready {
            // Its status may not say so any more.
            Arc::new(PodRecord {
                has_been_ready: true,
                ..(**record).clone()
            })
        } else {
            record.clone()
        };
        let old = self.pods.insert(key.clone(), record.clone());
        if let Some(old) = old {
            self.unlist(&old);
            let same = old.meta.uid == record.meta.uid;
            if !same || record.node.is_some() || !record.counts() {
                self.assumed.remove(&key);
            }
            if same && old.demands == record.demands && !old.deleting && record.deleting {
                // Its room will come free; somebody may plan for that now.
                self.room += 1;
            }
        }
        self.list(record);
        if self.mentioned.len() == before {
            self.settle(&key);
        } else {
            self.rebuild();
        }
    }

    /// Removes a pod.
    pub fn remove_pod(&mut self, key: &ObjectKey) {
        if let Some(old) = self.pods.remove(key) {
            self.unlist(&old);
            self.assumed.remove(key);
            self.settle(key);
        }
    }

    /// Takes room for a pod that is about to be bound; without effect when it has a node or is gone.
    pub fn assume(&mut self, key: &ObjectKey, node: &str) {
        let Some(record) = self.pods.get(key).filter(|record| record.node.is_none()).cloned() else {
            return;
        };
        self.torn = true;
        self.unlist(&record);
        self.assumed.insert(key.clone(), node.into());
        self.list(&record);
        self.settle(key);
        self.torn = false;
    }

    /// Gives the room of a pod back that was not bound after all.
    pub fn forget(&mut self, key: &ObjectKey) {
        if self.assumed.contains_key(key)
            && let Some(record) = self.pods.get(key).cloned()
        {
            self.unlist(&record);
            self.assumed.remove(key);
            self.list(&record);
            self.settle(key);
        }
    }

    /// The same in a model that is torn and will recover.
    pub(crate) fn forget_after_recovery(&mut self, key: &ObjectKey) {
        self.assumed.remove(key);
    }

    /// Takes room for a pod tentatively, whether there is any or not; undone by rolling the state back.
    pub fn hold(&mut self, key: &ObjectKey, node: &str) {
        let pod = self.pods.get(key).cloned();
        if let Some((pod, node)) = pod.zip(self.state.node_id(node)) {
            let shape = self.shape(&pod);
            self.state.place(node, shape, 1);
        }
    }

    /// Gives room back that is held for a pod; undone by rolling the state back.
    pub fn unhold(&mut self, key: &ObjectKey, node: &str) {
        let pod = self.pods.get(key).cloned();
        if let Some((pod, node)) = pod.zip(self.state.node_id(node)) {
            let shape = self.shape(&pod);
            self.state.lift(node, shape, 1);
        }
    }

    /// Whether a pod of the gang has a node, or is about to get it.
    #[must_use]
    pub fn has_begun(&self, gang: &GangId) -> bool {
        let GangId::Gang(key) = gang else { return false };
        let pods = self.members.get(key).into_iter().flatten();
        let mut pods = pods.filter_map(|key| self.pods.get(key)).filter(|pod| pod.counts());
        pods.any(|pod| self.node_of(pod).is_some())
    }

    /// Whether the pod is being bound.
    #[must_use]
    pub fn is_assumed(&self, key: &ObjectKey) -> bool {
        self.assumed.contains_key(key)
    }

    /// What a pod is placed with; nothing when it is not ours to place.
    fn placed_with(&self, pod: &PodRecord) -> Option<GangId> {
        let own = || GangId::Pod(pod.meta.key.clone());
        self.is_ours(pod).then(|| pod.gang().map_or_else(own, GangId::Gang))
    }

    pub(super) fn node_of(&self, pod: &PodRecord) -> Option<Arc<str>> {
        match &pod.node {
            Some(node) => pod.takes_room().then(|| node.clone()),
            None => self.assumed.get(&pod.meta.key).cloned(),
        }
    }

    fn list(&mut self, pod: &PodRecord) {
        let key = &pod.meta.key;
        self.changes
            .note(pod.gang().map_or_else(|| GangId::Pod(key.clone()), GangId::Gang));
        if let Some(node) = self.node_of(pod) {
            self.by_node.entry(node).or_default().insert(key.clone());
            if pod.deleting {
                self.leaving.insert(key.clone());
            }
        }
        if let Some(gang) = pod.gang() {
            self.members.entry(gang).or_default().insert(key.clone());
        }
        self.list_volumes(pod);
        let placeable = pod.node.is_none() && !pod.gated && pod.counts() && !self.assumed.contains_key(key);
        if let Some(id) = self.placed_with(pod).filter(|_| placeable) {
            self.waiting.entry(id).or_default().insert(key.clone());
        }
    }

    fn unlist(&mut self, pod: &PodRecord) {
        fn take<K: Ord>(map: &mut BTreeMap<K, BTreeSet<ObjectKey>>, at: &K, key: &ObjectKey) {
            if let Some(keys) = map.get_mut(at) {
                keys.remove(key);
                if keys.is_empty() {
                    map.remove(at);
                }
            }
        }
        let key = &pod.meta.key;
        self.changes
            .note(pod.gang().map_or_else(|| GangId::Pod(key.clone()), GangId::Gang));
        self.leaving.remove(key);
        if let Some(node) = self.node_of(pod) {
            take(&mut self.by_node, &node, key);
        }
        if let Some(gang) = pod.gang() {
            take(&mut self.members, &gang, key);
        }
        self.unlist_volumes(pod);
        if let Some(id) = self.placed_with(pod) {
            take(&mut self.waiting, &id, key);
        }
    }

    /// Puts a pod into the engine's state where it takes room, and nowhere else.
    pub(super) fn settle(&mut self, key: &ObjectKey) {
        #[cfg(test)]
        assert!(!self.faulty.contains(key), "{key} is faulty");
        let name = key.to_string();
        let pod = self.pods.get(key).cloned();
        let wanted = pod
            .as_deref()
            .and_then(|pod| Some((self.node_of(pod)?, self.shape(pod))));
        let wanted = wanted.filter(|(node, _)| self.nodes.contains_key(&**node));
        if let Some(resident) = self.state.pod(&name) {
            let there = &self.state.node(resident.node).name;
            let same = wanted
                .as_ref()
                .filter(|(node, _)| **node == **there)
                .map(|(_, shape)| *shape);
            if same == Some(resident.shape) {
                return;
            }
            let requests = |shape| &self.state.shape_of(shape).requests;
            if same.is_none_or(|shape| requests(shape) != requests(resident.shape)) {
                self.room += 1;
            }
            self.state.remove_pod(&name);
        }
        if let Some((node, shape)) = wanted {
            self.version += 1;
            self.state
                .add_pod(&name, &node, shape)
                .expect("the node is known and the pod was removed");
        }
    }

    pub(super) fn shape(&mut self, pod: &PodRecord) -> ShapeId {
        if self.mentioned.is_empty() && pod.volumes.is_empty() {
            return self.state.shared_shape(&pod.demands);
        }
        let mut demands = (*pod.demands).clone();
        if !self.mentioned.is_empty() {
            let seen = pod.labels.iter().filter(|(key, _)| self.mentioned.contains(&**key));
            demands.namespace = pod.meta.key.namespace.to_string();
            demands.labels = seen.map(|(key, value)| (key.to_string(), value.to_string())).collect();
        }
        self.storage.dress(pod, &mut demands);
        self.state.shape(&demands)
    }
}
