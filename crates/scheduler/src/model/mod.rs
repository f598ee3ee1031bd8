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
mod copies;
mod demands;
mod forgetting;
mod gangs;
mod intake;
mod nodes;
mod objects;
mod pods;
mod question;
mod rebuild;
mod replica;
#[cfg(test)]
mod replica_tests;
mod running;
mod spread;
mod stored_plan;
#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;
pub mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coppice_placement::ClusterState;
use coppice_placement::predicates::Node;
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
    storage: volumes::Storage,
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
    capacity: u64,
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
            storage: volumes::Storage::default(),
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
            capacity: 0,
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

    /// A number that grows whenever nodes come or change.
    #[must_use]
    pub fn capacity(&self) -> u64 {
        self.capacity
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

    /// Whether waiting pods of a gang have volumes that come from claims.
    #[must_use]
    pub fn has_volumes(&self, id: &GangId) -> bool {
        self.waiting_pods(id).any(|pod| !pod.volumes.is_empty())
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
}
