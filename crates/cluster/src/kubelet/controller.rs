//! The shell around the kubelet's deciders.
//!
//! Owns the cache of pods and nodes and the requests. Its own writes are folded into the cache at once, and older
//! watch events are held back, so that it never reports from a stale view. It never lists in a loop and never writes
//! what is stored already.

use super::addresses::AddressPool;
use super::containers::PodRuntime;
use super::lifecycle::{self, Surroundings};
use super::pod::{Pod, PodKey, PodObject, Projection};
use super::report::report;
use super::requests::{Outcome, final_delete, write_status};
use super::status;
use crate::behaviour::{BehaviourError, PodBehaviour};
use crate::clock::Clock;
use crate::engine::queue::Queue;
use crate::engine::watch::{Change, Listing, changes};
use crate::engine::{self, Action, Controller};
use crate::init_wait::{WaitIndex, WaitRule, WaitState};
use crate::node_view::{Node, NodeObject, NodeSelection};
use futures::stream::StreamExt;
use jiff::Timestamp;
use kube::Client;
use kube::api::Api;
use kube::runtime::watcher;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What the kubelets need to know.
#[derive(Clone, Debug)]
pub(crate) struct KubeletOptions {
    pub(crate) nodes: NodeSelection,
    pub(crate) defaults: PodBehaviour,
    pub(crate) wait_rules: Vec<WaitRule>,
    pub(crate) concurrency: usize,
}

/// Runs the kubelets of all selected nodes until told to stop.
pub(crate) async fn run(client: Client, options: KubeletOptions, clock: Arc<dyn Clock>, stop: CancellationToken) {
    let projection = Projection {
        labels: options
            .wait_rules
            .iter()
            .flat_map(|rule| rule.labels)
            .map(|label| (*label).to_owned())
            .collect(),
        init_containers: options
            .wait_rules
            .iter()
            .map(|rule| rule.container_name.to_owned())
            .collect(),
    };
    let nodes = changes(
        Api::<NodeObject>::all(client.clone()),
        watcher::Config::default(),
        Node::from_object,
    );
    let bound = watcher::Config::default().fields("spec.nodeName!=");
    let project = projection.clone();
    let pods = changes(Api::<PodObject>::all(client.clone()), bound, move |object| {
        project.pod(object)
    });
    let events = futures::stream::select(
        nodes.map(Observed::Node),
        pods.map(|change| Observed::Pod(Box::new(change))),
    );
    let concurrency = options.concurrency;
    let kubelets = Kubelets::new(client, options, projection);
    engine::run(kubelets, events.boxed(), clock, concurrency, stop).await;
}

pub(crate) enum Observed {
    Node(Change<Node>),
    Pod(Box<Change<Pod>>),
}

struct Entry {
    pod: Pod,
    behaviour: PodBehaviour,
    /// Annotation errors that no event has been written for.
    unreported: Vec<BehaviourError>,
    runtime: Option<PodRuntime>,
    refused: Option<Value>,
    delete_sent: bool,
}

struct NodeEntry {
    powered: bool,
    address: Option<String>,
}

struct Kubelets {
    client: Client,
    options: KubeletOptions,
    projection: Projection,
    nodes: BTreeMap<String, NodeEntry>,
    node_listing: Listing<String>,
    pods: BTreeMap<PodKey, Entry>,
    pod_listing: Listing<PodKey>,
    pods_of: BTreeMap<String, BTreeSet<PodKey>>,
    waits: WaitIndex,
    addresses: AddressPool,
}

impl Kubelets {
    fn new(client: Client, options: KubeletOptions, projection: Projection) -> Self {
        Self {
            waits: WaitIndex::new(options.wait_rules.clone()),
            client,
            options,
            projection,
            nodes: BTreeMap::new(),
            node_listing: Listing::default(),
            pods: BTreeMap::new(),
            pod_listing: Listing::default(),
            pods_of: BTreeMap::new(),
            addresses: AddressPool::default(),
        }
    }

    fn node_applied(&mut self, node: &Node, now: Timestamp, queue: &mut Queue<PodKey>) {
        if !self.options.nodes.includes(node) {
            self.nodes.remove(&node.name);
            return;
        }
        let entry = NodeEntry {
            powered: node.powered,
            address: node.address.clone(),
        };
        let old = self.nodes.insert(node.name.clone(), entry);
        let came_back = node.powered && old.as_ref().is_some_and(|old| !old.powered);
        if old.is_some_and(|old| old.powered == node.powered && old.address == node.address) {
            return;
        }
        for key in self.pods_of.get(&node.name).into_iter().flatten() {
            if let Some(runtime) = self.pods.get_mut(key).and_then(|entry| entry.runtime.as_mut())
                && came_back
            {
                runtime.power_cycle(now);
            }
            queue.mark(key.clone());
        }
    }

    fn pod_applied(&mut self, pod: Pod, queue: &mut Queue<PodKey>) {
        let key = pod.key.clone();
        if let Some(known) = self.pods.get(&key) {
            if known.pod.uid != pod.uid {
                self.pod_gone(&key, queue);
            } else if pod.version <= known.pod.version {
                return;
            }
        }
        for waiter in self.waits.note(&pod) {
            queue.mark(waiter);
        }
        self.pods_of.entry(pod.node.clone()).or_default().insert(key.clone());
        match self.pods.get_mut(&key) {
            Some(entry) => {
                if entry.pod.annotations != pod.annotations {
                    (entry.behaviour, entry.unreported) =
                        PodBehaviour::from_annotations(&pod.annotations, &self.options.defaults);
                }
                entry.pod = pod;
            }
            None => {
                let (behaviour, unreported) = PodBehaviour::from_annotations(&pod.annotations, &self.options.defaults);
                if let Some(address) = own_address(&pod) {
                    self.addresses.adopt(address);
                }
                let entry = Entry {
                    pod,
                    behaviour,
                    unreported,
                    runtime: None,
                    refused: None,
                    delete_sent: false,
                };
                self.pods.insert(key.clone(), entry);
            }
        }
        queue.mark(key);
    }

    fn pod_gone(&mut self, key: &PodKey, queue: &mut Queue<PodKey>) {
        let Some(entry) = self.pods.remove(key) else { return };
        if let Some(keys) = self.pods_of.get_mut(&entry.pod.node) {
            keys.remove(key);
            if keys.is_empty() {
                self.pods_of.remove(&entry.pod.node);
            }
        }
        let address = entry
            .runtime
            .and_then(|runtime| runtime.address)
            .or_else(|| own_address(&entry.pod));
        if let Some(address) = address {
            self.addresses.release(address);
        }
        queue.forget(key);
        for waiter in self.waits.forget(key) {
            queue.mark(waiter);
        }
    }
}

impl Controller for Kubelets {
    type Key = PodKey;
    type Event = Observed;
    type Outcome = Outcome;
    const NAME: &'static str = "kubelet";

    fn observe(&mut self, event: Observed, now: Timestamp, queue: &mut Queue<PodKey>) {
        match event {
            Observed::Node(Change::ListStarted) => self.node_listing.start(),
            Observed::Node(Change::Applied(node)) => {
                self.node_listing.saw(&node.name);
                self.node_applied(&node, now, queue);
            }
            Observed::Node(Change::Deleted(node)) => {
                self.nodes.remove(&node.name);
            }
            Observed::Node(Change::ListDone) => {
                for name in self.node_listing.finish(self.nodes.keys()) {
                    self.nodes.remove(&name);
                }
            }
            Observed::Pod(change) => match *change {
                Change::ListStarted => self.pod_listing.start(),
                Change::Applied(pod) => {
                    self.pod_listing.saw(&pod.key);
                    self.pod_applied(pod, queue);
                }
                Change::Deleted(pod) => {
                    if self.pods.get(&pod.key).is_some_and(|entry| entry.pod.uid == pod.uid) {
                        self.pod_gone(&pod.key, queue);
                    }
                }
                Change::ListDone => {
                    for key in self.pod_listing.finish(self.pods.keys()) {
                        self.pod_gone(&key, queue);
                    }
                }
            },
        }
    }

    fn begin(&mut self, key: &PodKey, now: Timestamp, queue: &mut Queue<PodKey>) -> Option<Action<Outcome>> {
        let entry = self.pods.get_mut(key)?;
        let node = self.nodes.get(&entry.pod.node).filter(|node| node.powered)?;
        let Entry {
            pod,
            behaviour,
            runtime,
            ..
        } = entry;
        let runtime = match runtime {
            Some(runtime) => runtime,
            None => {
                let address = match (pod.host_network, own_address(pod)) {
                    (true, _) => None,
                    (false, Some(address)) => Some(address),
                    (false, None) => self.addresses.take(),
                };
                runtime.insert(PodRuntime::adopt(pod, address, behaviour.kill.as_deref(), now))
            }
        };
        let missing = RefCell::new(BTreeSet::new());
        let wait = |container: &super::pod::Container| -> WaitState {
            let (state, groups) = self.waits.check(pod, &container.name, &container.args);
            *missing.borrow_mut() = groups;
            state
        };
        let deadline = lifecycle::advance(
            pod,
            runtime,
            &Surroundings {
                now,
                behaviour,
                wait: &wait,
            },
        );
        if let Some(moment) = deadline {
            queue.wake_at(key.clone(), moment);
        }
        self.waits.wait_for(key, missing.into_inner());

        let stopped_by_deletion = runtime.stopped && pod.deletion_grace.is_some();
        let desired = report(pod, runtime, behaviour, node.address.as_deref(), now);
        let patch = status::patch(&pod.uid, &pod.status, &desired)
            .filter(|patch| entry.refused.as_ref() != Some(patch))
            // A pod that is about to vanish needs no last status, unless a finalizer keeps it for others to read.
            .filter(|_| !stopped_by_deletion || entry.pod.has_finalizers);
        let errors = std::mem::take(&mut entry.unreported);
        let entry = self.pods.get_mut(key)?;
        if patch.is_none() && stopped_by_deletion && entry.pod.deletion_grace != Some(0) && !entry.delete_sent {
            return Some(final_delete(self.client.clone(), key.clone(), entry.pod.uid.clone()));
        }
        if patch.is_none() && errors.is_empty() {
            return None;
        }
        let entry = self.pods.get(key)?;
        Some(write_status(self.client.clone(), &entry.pod, patch, &errors, now))
    }

    fn finish(&mut self, key: &PodKey, outcome: Outcome, _now: Timestamp, queue: &mut Queue<PodKey>) {
        match outcome {
            Outcome::Written(object) => {
                let pod = self.projection.pod(*object);
                self.pod_applied(pod, queue);
            }
            Outcome::Refused(patch) => {
                if let Some(entry) = self.pods.get_mut(key) {
                    entry.refused = Some(patch);
                }
            }
            Outcome::Deleted => {
                if let Some(entry) = self.pods.get_mut(key) {
                    entry.delete_sent = true;
                }
            }
            Outcome::Settled => {}
        }
    }
}

fn own_address(pod: &Pod) -> Option<Ipv4Addr> {
    if pod.host_network {
        return None;
    }
    pod.status.pod_ip.as_deref().and_then(|address| address.parse().ok())
}
