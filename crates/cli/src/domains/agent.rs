//! What runs beside the simulated kubelets: the plugins and daemons of all nodes.
//!
//! Owns their state and the requests they make. Kubelets ask and are answered from the state at once; a queue by node and by
//! daemon brings the state forward when something changes: a claim, the node's label, a row, a daemon's readiness, or time.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_cluster::node_agent::{ClaimOnNode, NodeAgent, PodOnNode, Preparation, WakePod};
use coppice_domains::api::{Clique, ComputeDomain, limits, names};
use coppice_domains::decide::daemon::assignment::Myself;
use coppice_domains::decide::plugin::claim::Claim;
use coppice_domains::decide::plugin::devices::published;
use coppice_domains::decide::plugin::prepare::DomainLookup;
use coppice_domains::decide::plugin::slice::{SliceStep, next_step as slice_step};
use coppice_runtime::cache::{Cache, Index, Kind, Meta, ObjectKey, Typed, reflect};
use coppice_runtime::clock::{Clock as _, SystemClock};
use coppice_runtime::events::{self, EventKind, ObjectReference, Recorder};
use coppice_runtime::lease::Leadership;
use coppice_runtime::metrics::Metrics;
use coppice_runtime::queue::{self, Outcome, Priority, Queue};
use coppice_runtime::supervise::Group;
use coppice_runtime::write::{self, Patch, Precondition, WriteError, Writer};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::core::ApiResource;
use kube::{Client, ResourceExt as _};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::DRIVER_NAMESPACE;
use super::daemon::{ANNOTATION, Imex, SimulatedDaemon, has_address};
use super::node::{Next, Pending, SimulatedNode, Surroundings};

/// What is brought forward.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Node(Arc<str>),
    /// By the UID of its pod.
    Daemon(Arc<str>),
}

#[derive(Default)]
struct State {
    nodes: BTreeMap<Arc<str>, SimulatedNode>,
    daemons: BTreeMap<Arc<str>, (ObjectKey, SimulatedDaemon)>,
    wake: Option<Arc<WakePod>>,
}

/// The plugins and daemons of all simulated nodes.
#[derive(Clone)]
pub(crate) struct Fabric {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    queue: Queue<Key>,
    cache: Cache,
    nodes: Kind<Typed<Node>>,
    domains: Kind<Typed<ComputeDomain>>,
    domains_by_uid: Index<ComputeDomain, String>,
    cliques: Kind<Typed<Clique>>,
    slices: Kind<Typed<ResourceSlice>>,
    writer: Writer,
    recorder: Recorder,
}

fn kind<K>(cache: &Cache) -> Kind<Typed<K>>
where
    K: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned + Send + Sync + 'static,
{
    cache.kind(ApiResource::erase::<K>(&()), Typed::default())
}

/// The clique of a simulated node: its profile labels it, as GPU feature discovery would.
fn clique_of(node: &Node) -> Option<String> {
    let label = node.labels().get(names::GPU_CLIQUE_LABEL)?;
    limits::is_clique_id(label).then(|| label.clone())
}

fn label_of(node: &Node) -> Option<String> {
    node.labels().get(names::DOMAIN_LABEL).cloned()
}

impl Fabric {
    /// Starts it; its tasks are in `group`.
    pub(crate) fn start(client: &Client, group: &Group) -> Self {
        let cache = Cache::default();
        let domains: Kind<Typed<ComputeDomain>> = kind(&cache);
        let options = write::Options {
            manager: "compute-domain-kubelet-plugin".to_owned(),
            ..write::Options::default()
        };
        let (recorder, sink) = events::recorder("kubelet", Arc::new(SystemClock), &Metrics::default());
        group.spawn(
            "events of plugins and daemons",
            sink.run(client.clone(), group.stopping()),
        );
        let fabric = Self {
            shared: Arc::new(Shared {
                state: Mutex::default(),
                queue: Queue::new(queue::Options::named("simulated fabric"), Arc::new(SystemClock)),
                nodes: kind(&cache),
                domains_by_uid: domains.index(|domain: &ComputeDomain, emit| emit(domain.uid().to_owned())),
                cliques: kind(&cache),
                slices: kind(&cache),
                writer: Writer::new(client.clone(), Leadership::always(), options),
                recorder,
                domains,
                cache,
            }),
        };
        fabric.follow();
        let shared = &fabric.shared;
        let all = reflect::Options::default;
        group.spawn(
            "watch of nodes for plugins",
            reflect::reflect(client.clone(), shared.nodes.clone(), all(), group.stopping()),
        );
        group.spawn(
            "watch of domains for plugins",
            reflect::reflect(client.clone(), shared.domains.clone(), all(), group.stopping()),
        );
        group.spawn(
            "watch of cliques for daemons",
            reflect::reflect(client.clone(), shared.cliques.clone(), all(), group.stopping()),
        );
        let (worker, stop, ready) = (fabric.clone(), group.stopping(), shared.cache.clone());
        let slices = shared.slices.clone();
        let ours = reflect::Options {
            field_selector: Some(format!("spec.driver={}", names::DRIVER)),
            ..reflect::Options::default()
        };
        group.spawn(
            "watch of slices for plugins",
            reflect::reflect(client.clone(), slices, ours, group.stopping()),
        );
        group.spawn("plugins and daemons", async move {
            if stop.run_until_cancelled(ready.wait_synced()).await.is_some() {
                let queue = worker.shared.queue.clone();
                queue.run(stop, move |key| worker.clone().run(key)).await;
            }
        });
        fabric
    }

    /// Marks what a change concerns.
    fn follow(&self) {
        let queue = self.shared.queue.clone();
        self.shared
            .nodes
            .on_change(move |change| queue.mark(Key::Node(change.key.name.clone()), Priority::High));
        let weak = Arc::downgrade(&self.shared);
        self.shared.cliques.on_change(move |change| {
            if let Some(shared) = weak.upgrade() {
                let state = shared.state.lock();
                let reads = |daemon: &SimulatedDaemon| {
                    names::clique(&daemon.domain_uid, &daemon.me.clique_id) == *change.key.name
                };
                for (uid, _) in state.daemons.iter().filter(|(_, (_, daemon))| reads(daemon)) {
                    shared.queue.mark(Key::Daemon(uid.clone()), Priority::High);
                }
            }
        });
        let weak = Arc::downgrade(&self.shared);
        self.shared.domains.on_change(move |change| {
            // Its status is nothing that a plugin waits for.
            if change.old.is_some() && change.new.is_some() {
                return;
            }
            if let Some(shared) = weak.upgrade() {
                for (node, state) in &shared.state.lock().nodes {
                    if !state.pending.is_empty() {
                        shared.queue.mark(Key::Node(node.clone()), Priority::High);
                    }
                }
            }
        });
        let queue = self.shared.queue.clone();
        self.shared.slices.on_change(move |change| {
            let gone = change.old.as_ref().filter(|_| change.new.is_none());
            if let Some(node) = gone.and_then(|slice| slice.spec.node_name.as_deref()) {
                queue.mark(Key::Node(node.into()), Priority::High);
            }
        });
    }

    async fn run(self, key: Key) -> Outcome<WriteError> {
        let result = match &key {
            Key::Node(name) => self.bring_node_forward(name).await,
            Key::Daemon(uid) => return self.bring_daemon_forward(uid),
        };
        result.map_or_else(Outcome::Retry, |()| Outcome::Done)
    }

    async fn bring_node_forward(&self, name: &Arc<str>) -> Result<(), WriteError> {
        let shared = &*self.shared;
        loop {
            let key = ObjectKey::new("", name.clone());
            let Some(node) = shared.nodes.latest(&key) else {
                shared.state.lock().nodes.remove(name);
                return Ok(());
            };
            let Some(clique_id) = clique_of(&node) else {
                return Ok(());
            };
            self.publish(&node, &clique_id).await?;
            let next = self.next(name, &node, &clique_id);
            match next {
                Next::Rest => return Ok(()),
                Next::Wake(pod) => self.wake(&pod),
                Next::Label(value) => {
                    let Some(meta) = Meta::of(&*node) else { return Ok(()) };
                    let patch = Patch::Merge(json!({"metadata": {"labels": {names::DOMAIN_LABEL: value}}}));
                    let condition = Precondition::version(&meta);
                    match shared.writer.patch(&shared.nodes, &key, &condition, patch).await {
                        Ok(_) => {}
                        Err(WriteError::Conflict(_)) => drop(shared.writer.read(&shared.nodes, &key).await?),
                        Err(error) => return Err(error),
                    }
                }
            }
        }
    }

    fn next(&self, name: &Arc<str>, node: &Node, clique_id: &str) -> Next {
        let shared = &*self.shared;
        let domain = |uid: &str| {
            let found = shared.domains_by_uid.get(&shared.cache.moment(), &uid.to_owned());
            found.first().map_or(DomainLookup::Gone, |domain| DomainLookup::Found {
                name: domain.name_any(),
                namespace: domain.namespace().unwrap_or_default(),
            })
        };
        let mut state = shared.state.lock();
        let State { nodes, daemons, .. } = &mut *state;
        let not_ready = |uid: &str| {
            let mut here = daemons
                .values()
                .filter(|(_, daemon)| daemon.me.node == **name && daemon.domain_uid == uid);
            match here.next() {
                Some((_, daemon)) => daemon.not_ready().map(|reason| reason.message().to_owned()),
                None => Some(format!(
                    "its daemon pod does not run on this node yet: kubectl get pods -n {DRIVER_NAMESPACE} -l {}={uid}",
                    names::DOMAIN_LABEL
                )),
            }
        };
        let around = Surroundings {
            clique_id,
            label: label_of(node),
            resource_version: node.resource_version().unwrap_or_default(),
            domain: &domain,
            not_ready: &not_ready,
        };
        let node = nodes.entry(name.clone()).or_insert_with(|| SimulatedNode::new(name));
        node.next(&around, SystemClock.now())
    }

    /// Publishes the devices of a node while it has no slice.
    async fn publish(&self, node: &Node, clique_id: &str) -> Result<(), WriteError> {
        let shared = &*self.shared;
        let name = node.name_any();
        let key = ObjectKey::new("", format!("{name}-{}", names::DRIVER));
        if shared.slices.latest(&key).is_some() {
            return Ok(());
        }
        let devices: Vec<Value> = published(clique_id, false);
        let uid = node.uid().unwrap_or_default();
        let SliceStep::Create(slice) = slice_step(&name, &uid, &devices, &[]) else {
            return Ok(());
        };
        match shared.writer.create(&shared.slices, None, &slice).await {
            Ok(_) | Err(WriteError::AlreadyExists(_)) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn bring_daemon_forward(&self, uid: &Arc<str>) -> Outcome<WriteError> {
        let shared = &*self.shared;
        let (before, after, pod, node, wake) = {
            let mut state = shared.state.lock();
            let Some((pod, daemon)) = state.daemons.get_mut(uid) else {
                return Outcome::Done;
            };
            let name = names::clique(&daemon.domain_uid, &daemon.me.clique_id);
            let clique = shared.cliques.latest(&ObjectKey::new(DRIVER_NAMESPACE, name));
            let node = shared.nodes.latest(&ObjectKey::new("", daemon.me.node.as_str()));
            let annotation = node
                .as_ref()
                .and_then(|node| node.annotations().get(ANNOTATION).cloned());
            let before = daemon.not_ready();
            let rows = clique.as_ref().map(|clique| clique.daemons.as_slice());
            let imex = Imex::of(annotation.as_deref());
            let wake = daemon.step(rows, imex, limits::DEFAULT_MAX_NODES, SystemClock.now());
            (before, daemon.not_ready(), pod.clone(), daemon.me.node.clone(), wake)
        };
        if before != after {
            if let Some(reason) = after {
                self.report_unhealthy(&pod, uid, reason.message());
            }
            self.wake(&pod);
            shared.queue.mark(Key::Node(node.into()), Priority::High);
        }
        wake.map_or(Outcome::Done, Outcome::RequeueAt)
    }

    /// The event that a kubelet writes for a readiness probe that fails.
    fn report_unhealthy(&self, pod: &ObjectKey, uid: &str, problem: &str) {
        let reference = ObjectReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            namespace: Some(pod.namespace.to_string()),
            name: pod.name.to_string(),
            uid: uid.to_owned(),
        };
        let message = format!("Readiness probe failed: IMEX daemon not ready: {problem}");
        self.shared
            .recorder
            .record(&reference, EventKind::Warning, "Unhealthy", &message);
    }

    fn wake(&self, pod: &ObjectKey) {
        // Not while the state is locked: a kubelet holds its own lock while it asks.
        let wake = self.shared.state.lock().wake.clone();
        if let Some(wake) = wake {
            wake(pod.clone());
        }
    }
}

impl NodeAgent for Fabric {
    fn prepare(&self, request: ClaimOnNode<'_>) -> Preparation {
        let results = request.allocation["devices"]["results"].as_array();
        let ours = results.is_some_and(|results| results.iter().any(|result| result["driver"] == names::DRIVER));
        if !ours {
            return Preparation::Prepared;
        }
        let name: Arc<str> = request.node.into();
        let mut state = self.shared.state.lock();
        let node = state
            .nodes
            .entry(name.clone())
            .or_insert_with(|| SimulatedNode::new(&name));
        if node.is_prepared(request.uid) {
            return Preparation::Prepared;
        }
        let pending = node.pending.entry(request.uid.to_owned()).or_insert_with(|| {
            self.shared.queue.mark(Key::Node(name), Priority::High);
            Pending {
                pod: request.pod.clone(),
                claim: Claim {
                    uid: request.uid.to_owned(),
                    name: request.claim.name.to_string(),
                    namespace: request.claim.namespace.to_string(),
                    allocation: Some(request.allocation.clone()),
                },
                reason: "the kubelet plugin has not answered yet".to_owned(),
            }
        });
        Preparation::Waiting(pending.reason.clone())
    }

    fn unprepare(&self, node: &str, claim_uid: &str) {
        let mut state = self.shared.state.lock();
        if let Some(known) = state.nodes.get_mut(node) {
            known.unprepare(claim_uid);
            self.shared.queue.mark(Key::Node(node.into()), Priority::High);
        }
    }

    fn label(&self) -> &str {
        names::DOMAIN_LABEL
    }

    fn unready(&self, pod: PodOnNode<'_>) -> Option<String> {
        let domain_uid = pod.label?;
        let starting = Some("the daemon has not started".to_owned());
        let node = self.shared.nodes.latest(&ObjectKey::new("", pod.node));
        let clique_id = node.and_then(|node| clique_of(&node))?;
        let mut state = self.shared.state.lock();
        let State { nodes, daemons, .. } = &mut *state;
        let uid: Arc<str> = pod.uid.into();
        if let Some((_, daemon)) = daemons.get(&uid) {
            return daemon.not_ready().map(|reason| reason.message().to_owned());
        }
        let may_start = nodes
            .get(pod.node)
            .is_some_and(|node| node.has_daemon_claim(domain_uid));
        if !may_start || !has_address(pod.address) {
            return starting;
        }
        let me = Myself {
            node: pod.node.to_owned(),
            pod_uid: pod.uid.to_owned(),
            address: pod.address.to_owned(),
            clique_id,
        };
        daemons.insert(uid.clone(), (pod.pod.clone(), SimulatedDaemon::new(domain_uid, me)));
        self.shared.queue.mark(Key::Daemon(uid), Priority::High);
        starting
    }

    fn forget(&self, uid: &str) {
        let mut state = self.shared.state.lock();
        if let Some((_, daemon)) = state.daemons.remove(uid) {
            self.shared.queue.mark(Key::Node(daemon.me.node.into()), Priority::High);
        }
    }

    fn wake_with(&self, wake: WakePod) {
        self.shared.state.lock().wake = Some(Arc::new(wake));
    }
}
