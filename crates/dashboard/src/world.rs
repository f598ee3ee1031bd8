//! What the dashboard knows of the cluster: caches that watches feed, and a bounded history of what happened.
//!
//! Owns the kinds, what is left out of their objects (nobody looks at environments and images here), and a revision that
//! grows with every change. Objects are shared, so that a picture of everything costs a list of pointers. Never writes.

use std::sync::Arc;

use coppice_api::types::{ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang};
use coppice_runtime::cache::{Cache, Change, Interner, Kind, Meta, Projection, reflect};
use coppice_runtime::clock::SharedClock;
use coppice_runtime::metrics::Metrics;
use coppice_runtime::supervise::Group;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::core::ApiResource;
use kube::{Client, Resource};
use parking_lot::Mutex;
use serde_json::value::RawValue;
use tokio::sync::watch;

use crate::access::{Reach, Scope, probe};
use crate::model::timeline::{self, Entry, History};

/// A typed object without what no page shows.
pub struct Slim<K>(fn(&mut K));

impl<K> Projection for Slim<K>
where
    K: Resource + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    type View = K;

    fn project(&self, _meta: &Meta, object: &RawValue, _names: &Interner) -> Result<K, serde_json::Error> {
        let mut typed: K = serde_json::from_str(object.get())?;
        typed.meta_mut().managed_fields = None;
        self.0(&mut typed);
        Ok(typed)
    }
}

/// What every page is made from: all objects at one instant.
#[derive(Clone, Default)]
pub struct Picture {
    /// Grows with every change.
    pub revision: u64,
    /// PodCliqueSets.
    pub sets: Vec<Arc<PodCliqueSet>>,
    /// PodCliques.
    pub cliques: Vec<Arc<PodClique>>,
    /// PodCliqueScalingGroups.
    pub groups: Vec<Arc<PodCliqueScalingGroup>>,
    /// PodGangs.
    pub gangs: Vec<Arc<PodGang>>,
    /// Pods of all workloads: they take room.
    pub pods: Vec<Arc<Pod>>,
    /// Nodes.
    pub nodes: Vec<Arc<Node>>,
    /// ClusterTopologyBindings.
    pub topologies: Vec<Arc<ClusterTopologyBinding>>,
    /// PodDisruptionBudgets.
    pub budgets: Vec<Arc<PodDisruptionBudget>>,
    /// Events.
    pub events: Vec<Arc<Event>>,
    /// What cannot be shown, and why.
    pub notices: Vec<String>,
    /// Kinds that have not been listed yet.
    pub loading: Vec<String>,
}

struct Kinds {
    sets: Kind<Slim<PodCliqueSet>>,
    cliques: Kind<Slim<PodClique>>,
    groups: Kind<Slim<PodCliqueScalingGroup>>,
    gangs: Kind<Slim<PodGang>>,
    pods: Kind<Slim<Pod>>,
    nodes: Kind<Slim<Node>>,
    topologies: Kind<Slim<ClusterTopologyBinding>>,
    budgets: Kind<Slim<PodDisruptionBudget>>,
    events: Kind<Slim<Event>>,
}

/// The caches. Clones share.
#[derive(Clone)]
pub struct World {
    cache: Cache,
    kinds: Arc<Kinds>,
    history: Arc<Mutex<History>>,
    revision: watch::Sender<u64>,
    notices: Arc<Mutex<Vec<String>>>,
    denied: Arc<Mutex<Vec<String>>>,
    last: Arc<Mutex<Option<Arc<Picture>>>>,
    clock: SharedClock,
}

fn kind<K>(cache: &Cache, slim: fn(&mut K)) -> Kind<Slim<K>>
where
    K: Resource<DynamicType = ()> + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    cache.kind(ApiResource::erase::<K>(&()), Slim(slim))
}

fn as_it_is<K>(_object: &mut K) {}

/// Programs and their environments are most of a pod, and nothing of it decides where it goes.
fn slim_pod(pod: &mut Pod) {
    pod.metadata.annotations = None;
    let Some(spec) = &mut pod.spec else { return };
    let containers = spec
        .containers
        .iter_mut()
        .chain(spec.init_containers.iter_mut().flatten());
    for container in containers {
        container.env = None;
        container.env_from = None;
        container.command = None;
        container.args = None;
        container.volume_mounts = None;
        container.liveness_probe = None;
        container.readiness_probe = None;
        container.startup_probe = None;
        container.lifecycle = None;
    }
}

fn slim_node(node: &mut Node) {
    node.metadata.annotations = None;
    if let Some(status) = &mut node.status {
        status.images = None;
        status.volumes_in_use = None;
        status.volumes_attached = None;
    }
}

impl World {
    /// Caches with nothing in them.
    #[must_use]
    pub fn new(clock: SharedClock) -> Self {
        let cache = Cache::new(Metrics::default());
        let kinds = Kinds {
            sets: kind(&cache, as_it_is),
            cliques: kind(&cache, as_it_is),
            groups: kind(&cache, as_it_is),
            gangs: kind(&cache, as_it_is),
            pods: kind(&cache, slim_pod),
            nodes: kind(&cache, slim_node),
            topologies: kind(&cache, as_it_is),
            budgets: kind(&cache, as_it_is),
            events: kind(&cache, as_it_is),
        };
        let world = Self {
            cache,
            kinds: Arc::new(kinds),
            history: Arc::default(),
            revision: watch::Sender::new(0),
            notices: Arc::default(),
            denied: Arc::default(),
            last: Arc::default(),
            clock,
        };
        world.listen(&world.kinds.sets, timeline::of_set);
        world.listen(&world.kinds.cliques, |_, _, _| Vec::new());
        world.listen(&world.kinds.groups, |_, _, _| Vec::new());
        world.listen(&world.kinds.gangs, timeline::of_gang);
        world.listen(&world.kinds.pods, timeline::of_pod);
        world.listen(&world.kinds.nodes, timeline::of_node);
        world.listen(&world.kinds.topologies, |_, _, _| Vec::new());
        world.listen(&world.kinds.budgets, |_, _, _| Vec::new());
        world.listen(&world.kinds.events, timeline::of_event);
        world
    }

    fn listen<K>(&self, kind: &Kind<Slim<K>>, entries: fn(Option<&K>, Option<&K>, Timestamp) -> Vec<Entry>)
    where
        K: Resource + serde::de::DeserializeOwned + Send + Sync + 'static,
    {
        let (history, revision, clock) = (self.history.clone(), self.revision.clone(), self.clock.clone());
        let source = kind.clone();
        kind.on_change(move |change: &Change<K>| {
            // What a first list holds did not happen now; events say themselves when they did.
            let first = !source.status().synced;
            let mut found = entries(change.old.as_deref(), change.new.as_deref(), clock.now());
            found.retain(|entry| !first || entry.reported);
            if !found.is_empty() {
                history.lock().extend(found);
            }
            revision.send_modify(|revision| *revision += 1);
        });
    }

    /// Starts to watch what the user may read: everything, or one namespace and what has none.
    pub async fn watch(&self, client: &Client, only: Option<&str>, own: &str, group: &Group) {
        let kinds = &self.kinds;
        futures::join!(
            self.start(client, &kinds.sets, Reach::Namespaced, only, own, group),
            self.start(client, &kinds.cliques, Reach::Namespaced, only, own, group),
            self.start(client, &kinds.groups, Reach::Namespaced, only, own, group),
            self.start(client, &kinds.gangs, Reach::Namespaced, only, own, group),
            // Pods of other namespaces take room, too.
            self.start(client, &kinds.pods, Reach::Namespaced, None, only.unwrap_or(own), group),
            self.start(client, &kinds.nodes, Reach::ClusterWide, only, own, group),
            self.start(client, &kinds.topologies, Reach::ClusterWide, only, own, group),
            self.start(client, &kinds.budgets, Reach::Namespaced, only, own, group),
            self.start(client, &kinds.events, Reach::Namespaced, only, own, group),
        );
    }

    async fn start<K>(
        &self,
        client: &Client,
        kind: &Kind<Slim<K>>,
        reach: Reach,
        only: Option<&str>,
        own: &str,
        group: &Group,
    ) where
        K: Resource + serde::de::DeserializeOwned + Send + Sync + 'static,
    {
        let resource = kind.resource().clone();
        let scope = probe(client, &resource, reach, only, own).await;
        let namespace = match scope {
            Scope::Cluster => None,
            Scope::Namespace(namespace) => {
                if only.is_none() {
                    let notice = format!(
                        "{} of all namespaces may not be listed: only those of namespace {namespace} are shown",
                        resource.plural
                    );
                    self.notices.lock().push(notice);
                }
                Some(namespace)
            }
            Scope::Nothing(why) => {
                self.notices.lock().push(why);
                self.denied.lock().push(resource.plural.clone());
                return;
            }
        };
        let options = reflect::Options {
            namespace,
            ..reflect::Options::default()
        };
        let reflector = reflect::reflect(client.clone(), kind.clone(), options, group.stopping());
        group.spawn(&format!("watch of {}", resource.plural), reflector);
        let (revision, synced) = (self.revision.clone(), kind.clone());
        let stop = group.stopping();
        // A first list that is empty changes nothing but that it is known to be empty.
        group.spawn(&format!("first list of {}", resource.plural), async move {
            if stop.run_until_cancelled(synced.wait_synced()).await.is_some() {
                revision.send_modify(|revision| *revision += 1);
                stop.cancelled().await;
            }
        });
    }

    /// Sees the revision grow.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// What happened, the newest first.
    #[must_use]
    pub fn history(&self) -> Vec<Entry> {
        self.history.lock().newest_first()
    }

    /// Everything at one instant; the same picture until something changes.
    #[must_use]
    pub fn picture(&self) -> Arc<Picture> {
        let revision = *self.revision.borrow();
        let mut last = self.last.lock();
        if let Some(known) = last.as_ref().filter(|known| known.revision == revision) {
            return known.clone();
        }
        let denied = self.denied.lock().clone();
        let mut loading = self.cache.unsynced();
        loading.retain(|plural| !denied.contains(plural));
        let kinds = &self.kinds;
        let moment = self.cache.moment();
        let picture = Arc::new(Picture {
            revision,
            sets: kinds.sets.all(&moment),
            cliques: kinds.cliques.all(&moment),
            groups: kinds.groups.all(&moment),
            gangs: kinds.gangs.all(&moment),
            pods: kinds.pods.all(&moment),
            nodes: kinds.nodes.all(&moment),
            topologies: kinds.topologies.all(&moment),
            budgets: kinds.budgets.all(&moment),
            events: kinds.events.all(&moment),
            notices: self.notices.lock().clone(),
            loading,
        });
        *last = Some(picture.clone());
        picture
    }
}
