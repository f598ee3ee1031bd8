//! What the scheduler watches, and how changes reach the model.
//!
//! Owns the kinds and the list of keys that changed since the model was last brought up to date. Handlers only note keys:
//! what counts is what the cache shows when the model looks, so that the order of handlers does not matter.

use std::collections::BTreeSet;
use std::sync::Arc;

use coppice_api::types::{ClusterTopologyBinding, PodGang};
use coppice_runtime::cache::{Cache, Kind, Moment, ObjectKey, Projection, Typed, reflect};
use coppice_runtime::supervise::Group;
use k8s_openapi::api::core::v1::{Node, PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass};
use kube::core::ApiResource;
use kube::{Client, Resource};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use crate::model::volumes::{CapacityRecord, ClaimRecord, ClassRecord, NodeDrivers, VolumeRecord, minds_capacity};
use crate::model::{BudgetRecord, GangRecord, Model, NodeProjection, PodRecords, topology_levels};

/// Keys that changed.
#[derive(Debug, Default)]
struct Changed {
    nodes: BTreeSet<ObjectKey>,
    pods: BTreeSet<ObjectKey>,
    gangs: BTreeSet<ObjectKey>,
    topologies: bool,
    budgets: BTreeSet<ObjectKey>,
    claims: BTreeSet<ObjectKey>,
    volumes: BTreeSet<ObjectKey>,
    classes: BTreeSet<ObjectKey>,
    drivers: BTreeSet<ObjectKey>,
    node_drivers: BTreeSet<ObjectKey>,
    capacities: BTreeSet<ObjectKey>,
}

impl Changed {
    /// The lists of keys.
    fn lists(&self) -> [&BTreeSet<ObjectKey>; 10] {
        [
            &self.nodes,
            &self.pods,
            &self.gangs,
            &self.budgets,
            &self.claims,
            &self.volumes,
            &self.classes,
            &self.drivers,
            &self.node_drivers,
            &self.capacities,
        ]
    }
}

/// The kinds that the scheduler watches.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) cache: Cache,
    pub(crate) nodes: Kind<NodeProjection>,
    pub(crate) pods: Kind<PodRecords>,
    records: PodRecords,
    pub(crate) gangs: Kind<Typed<PodGang>>,
    topologies: Kind<Typed<ClusterTopologyBinding>>,
    budgets: Kind<Typed<PodDisruptionBudget>>,
    pub(crate) claims: Kind<Typed<PersistentVolumeClaim>>,
    pub(crate) volumes: Kind<Typed<PersistentVolume>>,
    classes: Kind<Typed<StorageClass>>,
    drivers: Kind<Typed<CSIDriver>>,
    node_drivers: Kind<Typed<CSINode>>,
    capacities: Kind<Typed<CSIStorageCapacity>>,
    /// Counts what gangs that wait for their volumes look at: changes of claims and volumes, and pods that go.
    pub(crate) storage: Arc<watch::Sender<u64>>,
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
            claims: cache.kind(resource::<PersistentVolumeClaim>(), Typed::default()),
            volumes: cache.kind(resource::<PersistentVolume>(), Typed::default()),
            classes: cache.kind(resource::<StorageClass>(), Typed::default()),
            drivers: cache.kind(resource::<CSIDriver>(), Typed::default()),
            node_drivers: cache.kind(resource::<CSINode>(), Typed::default()),
            capacities: cache.kind(resource::<CSIStorageCapacity>(), Typed::default()),
            storage: Arc::new(watch::channel(0).0),
            changed: Arc::default(),
            bell: Arc::default(),
            cache,
        };
        world.listen(&world.nodes, |changed, key| changed.nodes.extend([key]));
        world.listen(&world.pods, |changed, key| changed.pods.extend([key]));
        world.listen(&world.gangs, |changed, key| changed.gangs.extend([key]));
        world.listen(&world.topologies, |changed, _| changed.topologies = true);
        world.listen(&world.budgets, |changed, key| changed.budgets.extend([key]));
        world.listen(&world.claims, |changed, key| changed.claims.extend([key]));
        world.listen(&world.volumes, |changed, key| changed.volumes.extend([key]));
        world.listen(&world.classes, |changed, key| changed.classes.extend([key]));
        world.listen(&world.drivers, |changed, key| changed.drivers.extend([key]));
        world.listen(&world.node_drivers, |changed, key| changed.node_drivers.extend([key]));
        world.listen(&world.capacities, |changed, key| changed.capacities.extend([key]));
        let count = || {
            let storage = world.storage.clone();
            move || storage.send_modify(|count| *count = count.wrapping_add(1))
        };
        let (claim, volume, pod) = (count(), count(), count());
        world.claims.on_change(move |_| claim());
        world.volumes.on_change(move |_| volume());
        world.pods.on_change(move |change| {
            if change
                .new
                .as_ref()
                .is_none_or(|new| new.deleting && !new.volumes.is_empty())
            {
                pod();
            }
        });
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
        start(client, &self.claims, group);
        start(client, &self.volumes, group);
        start(client, &self.classes, group);
        start(client, &self.drivers, group);
        start(client, &self.node_drivers, group);
        start(client, &self.capacities, group);
    }

    /// Whether something changed that no model knows.
    pub(crate) fn has_changed(&self) -> bool {
        let changed = self.changed.lock();
        changed.topologies || changed.lists().iter().any(|keys| !keys.is_empty())
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
        self.update_storage(&changed, &moment, model);
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

    fn update_storage(&self, changed: &Changed, moment: &Moment<'_>, model: &mut Model) {
        for key in &changed.classes {
            let class = self.classes.get(moment, key);
            let record = class.and_then(|class| ClassRecord::of(&class)).map(Arc::new);
            model.set_storage_class(&key.name, record);
        }
        for key in &changed.drivers {
            let minds = self
                .drivers
                .get(moment, key)
                .is_some_and(|driver| minds_capacity(&driver));
            model.set_minds_capacity(&key.name, minds);
        }
        for key in &changed.capacities {
            let capacity = self.capacities.get(moment, key);
            let record = capacity.and_then(|capacity| CapacityRecord::of(&capacity));
            model.set_capacity(key, record.map(Arc::new));
        }
        let node_drivers = changed.node_drivers.iter().map(|key| {
            let drivers = self.node_drivers.get(moment, key);
            (key.name.clone(), drivers.map(|node| NodeDrivers::of(&node)))
        });
        model.set_node_drivers(node_drivers);
        for key in &changed.volumes {
            let volume = self.volumes.get(moment, key);
            match volume.and_then(|volume| VolumeRecord::of(&volume)) {
                Some(record) => model.put_volume(Arc::new(record)),
                None => model.remove_volume(&key.name),
            }
        }
        for key in &changed.claims {
            let claim = self.claims.get(moment, key);
            match claim.and_then(|claim| ClaimRecord::of(&claim)) {
                Some(record) => model.put_claim(Arc::new(record)),
                None => model.remove_claim(key),
            }
        }
    }
}
