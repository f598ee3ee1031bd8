//! What the scheduler watches, and how changes reach the model.
//!
//! Owns the kinds and the list of keys that changed since the model was last brought up to date. Handlers only note keys:
//! what counts is what the cache shows when the model looks, so that the order of handlers does not matter.

use std::collections::BTreeSet;
use std::sync::Arc;

use coppice_api::types::{ClusterTopologyBinding, PodGang};
use coppice_runtime::cache::{Cache, Kind, ObjectKey, Projection, Typed, reflect};
use coppice_runtime::supervise::Group;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::core::ApiResource;
use kube::{Client, Resource};
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::model::{BudgetRecord, GangRecord, Model, NodeProjection, PodRecords, topology_levels};

/// Keys that changed.
#[derive(Debug, Default)]
struct Changed {
    nodes: BTreeSet<ObjectKey>,
    pods: BTreeSet<ObjectKey>,
    gangs: BTreeSet<ObjectKey>,
    topologies: bool,
    budgets: BTreeSet<ObjectKey>,
}

/// The kinds that the scheduler watches.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) cache: Cache,
    nodes: Kind<NodeProjection>,
    pub(crate) pods: Kind<PodRecords>,
    records: PodRecords,
    pub(crate) gangs: Kind<Typed<PodGang>>,
    topologies: Kind<Typed<ClusterTopologyBinding>>,
    budgets: Kind<Typed<PodDisruptionBudget>>,
    changed: Arc<Mutex<Changed>>,
    /// Rung when something changed.
    pub(crate) bell: Arc<Notify>,
}

fn resource<K: Resource<DynamicType = ()>>() -> ApiResource {
    ApiResource::erase::<K>(&())
}

impl World {
    pub(crate) fn new(cache: Cache) -> Self {
        let records = PodRecords::default();
        let world = Self {
            records: records.clone(),
            nodes: cache.kind(resource::<Node>(), NodeProjection),
            pods: cache.kind(resource::<Pod>(), records),
            gangs: cache.kind(resource::<PodGang>(), Typed::default()),
            topologies: cache.kind(resource::<ClusterTopologyBinding>(), Typed::default()),
            budgets: cache.kind(resource::<PodDisruptionBudget>(), Typed::default()),
            changed: Arc::default(),
            bell: Arc::default(),
            cache,
        };
        world.listen(&world.nodes, |changed, key| changed.nodes.extend([key]));
        world.listen(&world.pods, |changed, key| changed.pods.extend([key]));
        world.listen(&world.gangs, |changed, key| changed.gangs.extend([key]));
        world.listen(&world.topologies, |changed, _| changed.topologies = true);
        world.listen(&world.budgets, |changed, key| changed.budgets.extend([key]));
        world
    }

    fn listen<P: Projection>(&self, kind: &Kind<P>, note: impl Fn(&mut Changed, ObjectKey) + Send + Sync + 'static) {
        let (changed, bell) = (self.changed.clone(), self.bell.clone());
        kind.on_change(move |change| {
            note(&mut changed.lock(), change.key.clone());
            bell.notify_one();
        });
    }

    /// Starts watching everything.
    pub(crate) fn watch(&self, client: &Client, group: &Group) {
        fn start<P: Projection>(client: &Client, kind: &Kind<P>, group: &Group) {
            let options = reflect::Options::default();
            let reflector = reflect::reflect(client.clone(), kind.clone(), options, group.stopping());
            group.spawn(&format!("watch of {}", kind.resource().plural), reflector);
        }
        start(client, &self.nodes, group);
        start(client, &self.pods, group);
        start(client, &self.gangs, group);
        start(client, &self.topologies, group);
        start(client, &self.budgets, group);
    }

    /// Whether something changed that no model knows.
    pub(crate) fn has_changed(&self) -> bool {
        let changed = self.changed.lock();
        let keys = changed.nodes.len() + changed.pods.len() + changed.gangs.len() + changed.budgets.len();
        keys > 0 || changed.topologies
    }

    /// Brings a model up to date.
    pub(crate) fn update(&self, model: &mut Model) {
        let changed = std::mem::take(&mut *self.changed.lock());
        let moment = self.cache.moment();
        if changed.topologies {
            let all = self.topologies.all(&moment);
            model.set_topologies(all.iter().map(|binding| topology_levels(binding)).collect());
        }
        for key in &changed.budgets {
            match self
                .budgets
                .get(&moment, key)
                .and_then(|budget| BudgetRecord::of(&budget))
            {
                Some(record) => model.put_budget(Arc::new(record)),
                None => model.remove_budget(key),
            }
        }
        let (there, gone): (Vec<_>, Vec<_>) = changed
            .nodes
            .iter()
            .map(|key| (key, self.nodes.get(&moment, key)))
            .partition(|(_, node)| node.is_some());
        model.remove_nodes(gone.iter().map(|(key, _)| &*key.name));
        let there = there.into_iter().filter_map(|(_, node)| Some((*node?).clone()));
        model.take_in_nodes(there.collect());
        for key in &changed.gangs {
            match self.gangs.get(&moment, key).and_then(|gang| GangRecord::of(&gang)) {
                Some(record) => model.take_in_gang(Arc::new(record)),
                None => model.remove_gang(key),
            }
        }
        let mut gone = 0;
        for key in &changed.pods {
            match self.pods.get(&moment, key) {
                Some(pod) => model.take_in_pod(&pod),
                None => {
                    gone += 1;
                    model.remove_pod(key);
                }
            }
        }
        if model.forget_unused() {
            self.records.forget_unused();
        }
        self.records.note_gone(gone);
    }
}
