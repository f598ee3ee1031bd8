//! Kubernetes objects as questions to the placement engine: the pure half of the scheduler.
//!
//! A [`Model`] holds nodes, pods, gangs, topologies and disruption budgets, keeps the engine's [`ClusterState`] in step with them
//! object by object, and answers what to ask the engine about a gang ([`Model::question`]) and who could be evicted
//! ([`Model::running`]). No client, no clock. The result does not depend on the order in which objects came; a property
//! test compares it with a model built from scratch.
//!
//! How to use it, for instance to explain a gang:
//!
//! ```
//! use coppice_placement::{Options, explain::explain};
//! use coppice_runtime::cache::ObjectKey;
//! use coppice_scheduler::model::{GangId, Model, Objects};
//! use serde_json::json;
//!
//! // Objects as the API lists them.
//! let pod = json!({
//!     "metadata": {"name": "a", "namespace": "n", "uid": "1", "resourceVersion": "1"},
//!     "spec": {"schedulerName": "coppice", "containers": [{"resources": {"requests": {"cpu": "1"}}}]},
//! });
//! let mut model = Model::from_objects(["coppice"], &Objects { pods: vec![pod], ..Objects::default() }).unwrap();
//! let question = model.question(&GangId::Pod(ObjectKey::new("n", "a"))).unwrap();
//! let options = Options { scheduled: question.scheduled.clone(), ..Options::default() };
//! let running = model.running();
//! let explanation = explain(model.state(), &question.gang, &running, &options);
//! assert_eq!(explanation.reasons[0].code.as_str(), "PodExceedsEveryNode");
//! ```
//!
//! Where to look: [`node`], [`pod`], [`demands`](mod@self) and [`gang`] read objects; `question` puts gangs together.

pub mod gang;
pub mod node;
pub mod pod;

mod budgets;
mod demands;
mod forgetting;
mod intake;
mod objects;
mod question;
mod running;
mod spread;
mod stored_plan;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coppice_placement::ClusterState;
use coppice_placement::predicates::Node;
use coppice_placement::shape::{PodDemands, ShapeId};
use coppice_runtime::cache::ObjectKey;

pub use budgets::BudgetRecord;
pub use gang::{GangId, GangRecord, GroupRecord, PLACED, ReplicaKey, Standing};
pub use intake::Rejected;
pub use node::NodeProjection;
pub(crate) use objects::levels as topology_levels;
pub use objects::{ObjectError, Objects};
pub use pod::{PodRecord, PodRecords};
pub use question::Question;
pub use running::Changes;
pub use stored_plan::{StoredPlan, UnfinishedPlan};

/// The cluster as the scheduler sees it. See the module for how to use it.
#[derive(Debug, Clone)]
pub struct Model {
    /// Pods of these schedulers are ours to place.
    ours: BTreeSet<String>,
    state: ClusterState,
    nodes: BTreeMap<String, Node>,
    pods: BTreeMap<ObjectKey, Arc<PodRecord>>,
    gangs: BTreeMap<ObjectKey, Arc<GangRecord>>,
    topologies: BTreeMap<String, Vec<String>>,
    budgets: BTreeMap<ObjectKey, Arc<BudgetRecord>>,
    /// Nodes of pods that are being bound.
    assumed: BTreeMap<ObjectKey, Arc<str>>,
    /// Label keys that some anti-affinity looks at; others do not tell pods apart.
    mentioned: BTreeSet<String>,
    /// Pods that take room, by node, whether the node is known or not.
    by_node: BTreeMap<Arc<str>, BTreeSet<ObjectKey>>,
    /// Pods by the gang they name.
    members: BTreeMap<ObjectKey, BTreeSet<ObjectKey>>,
    /// Pods of ours that could be placed now, by what they are placed with.
    waiting: BTreeMap<GangId, BTreeSet<ObjectKey>>,
    /// Pods that are being deleted and still take room.
    leaving: BTreeSet<ObjectKey>,
    replicas: BTreeMap<ReplicaKey, BTreeSet<ObjectKey>>,
    /// Gangs that do not say that they are placed.
    unplaced: BTreeSet<ObjectKey>,
    changes: Changes,
    room: u64,
    version: u64,
    /// What the shapes may grow to before those in use are counted.
    limits: forgetting::Limits,
    /// A change has begun and not ended.
    torn: bool,
    rejected: Vec<Rejected>,
    /// Pods that make the model panic.
    #[cfg(test)]
    pub(crate) faulty: BTreeSet<ObjectKey>,
}

impl Model {
    /// An empty cluster, seen by the scheduler with these names.
    pub fn new<S: Into<String>>(ours: impl IntoIterator<Item = S>) -> Self {
        Self {
            ours: ours.into_iter().map(Into::into).collect(),
            state: ClusterState::default(),
            nodes: BTreeMap::new(),
            pods: BTreeMap::new(),
            gangs: BTreeMap::new(),
            topologies: BTreeMap::new(),
            budgets: BTreeMap::new(),
            assumed: BTreeMap::new(),
            mentioned: BTreeSet::new(),
            by_node: BTreeMap::new(),
            members: BTreeMap::new(),
            waiting: BTreeMap::new(),
            leaving: BTreeSet::new(),
            replicas: BTreeMap::new(),
            unplaced: BTreeSet::new(),
            changes: Changes::default(),
            room: 0,
            version: 0,
            limits: forgetting::Limits::default(),
            torn: false,
            rejected: Vec::new(),
            #[cfg(test)]
            faulty: BTreeSet::new(),
        }
    }

    /// The engine's view. Pods are named `namespace/name` there.
    #[must_use]
    pub fn state(&self) -> &ClusterState {
        &self.state
    }

    /// The engine's view, as scratch space for planning: whatever is placed tentatively must be rolled back.
    pub fn state_mut(&mut self) -> &mut ClusterState {
        &mut self.state
    }

    /// A number that grows whenever something happened that may make room: a gang that did not fit before can only fit
    /// after it has grown.
    #[must_use]
    pub fn room(&self) -> u64 {
        self.room
    }

    /// A number that changes whenever pods come to nodes or leave them, or nodes change.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version.wrapping_add(self.room)
    }

    /// Something happened beside the objects that may make room.
    pub(crate) fn note_room(&mut self) {
        self.room += 1;
    }

    /// What has pods of ours that could be placed now.
    pub fn waiting(&self) -> impl Iterator<Item = &GangId> {
        self.waiting.keys()
    }

    /// The waiting pods of a gang.
    pub fn waiting_pods(&self, id: &GangId) -> impl Iterator<Item = &Arc<PodRecord>> {
        let keys = self.waiting.get(id).into_iter().flatten();
        keys.filter_map(|key| self.pods.get(key))
    }

    /// Pods that are being deleted and still take room.
    pub fn leaving(&self) -> impl Iterator<Item = &ObjectKey> {
        self.leaving.iter()
    }

    /// A pod.
    #[must_use]
    pub fn pod(&self, key: &ObjectKey) -> Option<&Arc<PodRecord>> {
        self.pods.get(key)
    }

    /// All pods.
    pub fn pods(&self) -> impl Iterator<Item = &Arc<PodRecord>> {
        self.pods.values()
    }

    /// A gang.
    #[must_use]
    pub fn gang(&self, key: &ObjectKey) -> Option<&Arc<GangRecord>> {
        self.gangs.get(key)
    }

    /// All gangs.
    pub fn gangs(&self) -> impl Iterator<Item = &Arc<GangRecord>> {
        self.gangs.values()
    }

    /// Gangs that do not say that they are placed.
    pub fn unplaced(&self) -> impl Iterator<Item = &ObjectKey> {
        self.unplaced.iter()
    }

    /// Whether we are to place the pod.
    #[must_use]
    pub fn is_ours(&self, pod: &PodRecord) -> bool {
        self.ours.contains(&*pod.scheduler)
    }

    /// Adds or replaces nodes. Those that did not change cost nothing.
    pub fn put_nodes(&mut self, nodes: impl IntoIterator<Item = Node>) {
        let changed: Vec<Node> = nodes
            .into_iter()
            .filter(|node| self.nodes.get(&node.name) != Some(node))
            .collect();
        if changed.is_empty() {
            return;
        }
        self.room += 1;
        let mut new = Vec::new();
        for node in &changed {
            if self.nodes.insert(node.name.clone(), node.clone()).is_none() {
                new.push(node.name.clone());
            }
        }
        self.state.put_nodes(changed);
        if !new.is_empty() {
            self.changes = Changes::All;
        }
        for name in new {
            let pods = self.by_node.get(name.as_str()).into_iter().flatten().cloned();
            for key in pods.collect::<Vec<_>>() {
                self.settle(&key);
            }
        }
    }

    /// Removes nodes. Pods on them are remembered for when they come back.
    pub fn remove_nodes<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        let gone: Vec<&str> = names
            .into_iter()
            .filter(|name| self.nodes.remove(*name).is_some())
            .collect();
        if !gone.is_empty() {
            // Pods on a node that is gone no longer pin their gang to its domain.
            self.room += 1;
            self.changes = Changes::All;
            self.state.remove_nodes(gone);
        }
    }

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

    /// Adds or replaces a gang.
    pub fn put_gang(&mut self, record: Arc<GangRecord>) {
        let key = record.meta.key.clone();
        self.remove_gang(&key);
        if let Some(replica) = &record.replica {
            self.replicas.entry(replica.clone()).or_default().insert(key.clone());
        }
        if !record.standing.as_ref().is_some_and(|standing| standing.holds) {
            self.unplaced.insert(key.clone());
        }
        self.changes.note(GangId::Gang(key.clone()));
        self.gangs.insert(key, record);
    }

    /// Removes a gang. Its pods stay, and wait.
    pub fn remove_gang(&mut self, key: &ObjectKey) {
        self.unplaced.remove(key);
        self.changes.note(GangId::Gang(key.clone()));
        let replica = self.gangs.remove(key).and_then(|old| old.replica.clone());
        if let Some(replica) = replica
            && let Some(gangs) = self.replicas.get_mut(&replica)
        {
            gangs.remove(key);
            if gangs.is_empty() {
                self.replicas.remove(&replica);
            }
        }
    }

    /// Replaces the topologies: label keys by name, broadest first.
    pub fn set_topologies(&mut self, topologies: BTreeMap<String, Vec<String>>) {
        if topologies != self.topologies {
            self.topologies = topologies;
            self.room += 1;
            let list: Vec<_> = self.topologies.clone().into_iter().collect();
            self.state.set_topologies(&list);
        }
    }

    /// The same model built from its objects at once; it answers like this one unless there is a bug.
    #[must_use]
    pub fn rebuilt(&self) -> Self {
        self.rebuilt_noting(&mut None)
    }

    /// The same; `current` is the pod that is being put in.
    fn rebuilt_noting(&self, current: &mut Option<ObjectKey>) -> Self {
        let mut other = Self::new(self.ours.iter().cloned());
        // A key that was mentioned once stays: looking at one label too many harms nobody.
        other.mentioned.clone_from(&self.mentioned);
        other.set_topologies(self.topologies.clone());
        other.budgets.clone_from(&self.budgets);
        other.put_nodes(self.nodes.values().cloned());
        self.gangs.values().for_each(|gang| other.put_gang(gang.clone()));
        #[cfg(test)]
        other.faulty.clone_from(&self.faulty);
        for (key, pod) in &self.pods {
            *current = Some(key.clone());
            other.put_pod(pod);
        }
        for (key, node) in &self.assumed {
            *current = Some(key.clone());
            other.assume(key, node);
        }
        *current = None;
        other
    }

    fn rebuild(&mut self) {
        let topologies: Vec<_> = self.topologies.clone().into_iter().collect();
        self.state = ClusterState::new(&topologies);
        self.state.put_nodes(self.nodes.values().cloned());
        self.changes = Changes::All;
        self.room += 1;
        for key in self.pods.keys().cloned().collect::<Vec<_>>() {
            self.settle(&key);
        }
    }

    /// What a pod is placed with; nothing when it is not ours to place.
    fn placed_with(&self, pod: &PodRecord) -> Option<GangId> {
        let own = || GangId::Pod(pod.meta.key.clone());
        self.is_ours(pod).then(|| pod.gang().map_or_else(own, GangId::Gang))
    }

    fn node_of(&self, pod: &PodRecord) -> Option<Arc<str>> {
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
        if let Some(id) = self.placed_with(pod) {
            take(&mut self.waiting, &id, key);
        }
    }

    /// Puts a pod into the engine's state where it takes room, and nowhere else.
    fn settle(&mut self, key: &ObjectKey) {
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

    fn shape(&mut self, pod: &PodRecord) -> ShapeId {
        if self.mentioned.is_empty() {
            return self.state.shared_shape(&pod.demands);
        }
        let seen = pod.labels.iter().filter(|(key, _)| self.mentioned.contains(&**key));
        let demands = PodDemands {
            namespace: pod.meta.key.namespace.to_string(),
            labels: seen.map(|(key, value)| (key.to_string(), value.to_string())).collect(),
            ..(*pod.demands).clone()
        };
        self.state.shape(&demands)
    }
}
