//! The shell around the kubelet's deciders.
//!
//! Owns the cache of pods and nodes and the requests. Its own writes are folded into the cache at once, and older
//! watch events are held back, so that it never reports from a stale view. It never lists in a loop and never writes
//! what is stored already.

use super::addresses::AddressPool;
use super::containers::PodRuntime;
use super::lifecycle::{self, Surroundings};
use super::pod::{Pod, Projection};
use super::report::report;
use super::requests::{MANAGER, Outcome, Requests};
use super::status;
use crate::behaviour::{BehaviourError, PodBehaviour};
use crate::controller::{Action, Controller, Shell, writer};
use crate::init_wait::{WaitIndex, WaitRule, WaitState};
use crate::node_agent::{ClaimOnNode, NodeAgent, PodOnNode, Preparation};
use crate::node_view::{Node, NodeSelection, Nodes};
use crate::resource_claims::{Claim, Devices};
use crate::view::resource;
use coppice_runtime::cache::reflect::{self, reflect};
use coppice_runtime::cache::{Cache, Change, Index, ObjectKey};
use coppice_runtime::clock::SharedClock;
use coppice_runtime::queue::{Priority, Queue};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::Client;
use serde_json::Value;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What the kubelets need to know.
#[derive(Clone)]
pub(crate) struct KubeletOptions {
    pub(crate) nodes: NodeSelection,
    pub(crate) defaults: PodBehaviour,
    pub(crate) wait_rules: Vec<WaitRule>,
    pub(crate) concurrency: usize,
    pub(crate) agent: Option<Arc<dyn NodeAgent>>,
}

/// Runs the kubelets of all selected nodes until told to stop.
pub(crate) fn run(
    client: Client,
    nodes: &Nodes,
    devices: &Devices,
    options: KubeletOptions,
    clock: &SharedClock,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let rules = &options.wait_rules;
    let projection = Projection {
        labels: rules
            .iter()
            .flat_map(|rule| rule.labels)
            .map(|label| (*label).to_owned())
            .chain(options.agent.as_ref().map(|agent| agent.label().to_owned()))
            .collect(),
        init_containers: rules.iter().map(|rule| rule.container_name.to_owned()).collect(),
    };
    let cache = Cache::default();
    let pods = cache.kind(resource::<ApiPod>(), projection.reduced());
    let concurrency = options.concurrency;
    let kubelets = Kubelets {
        pods_of: pods.index(|pod: &Pod, emit| emit(pod.node.clone())),
        waits: WaitIndex::new(options.wait_rules.clone()),
        requests: Requests {
            client: client.clone(),
            writer: writer(client.clone(), MANAGER, concurrency),
            pods: pods.clone(),
        },
        devices: devices.clone(),
        options,
        cache,
        nodes: nodes.clone(),
        entries: BTreeMap::new(),
        addresses: AddressPool::default(),
    };
    let shell = Shell::new(kubelets, concurrency, clock);
    shell.follow(nodes, Kubelets::node_changed);
    shell.follow(&pods, Kubelets::pod_changed);
    shell.follow(&devices.claims, |_, change, _, queue| mark_users(change, queue));
    shell.with(|kubelets, _, _| {
        if let Some(agent) = &kubelets.options.agent {
            agent.wake_with(Box::new(shell.marker()));
        }
    });
    let bound = reflect::Options {
        field_selector: Some("spec.nodeName!=".to_owned()),
        ..reflect::Options::default()
    };
    shell.run(reflect(client, pods, bound, stop.clone()), stop)
}

struct Entry {
    pod: Arc<Pod>,
    behaviour: PodBehaviour,
    /// Annotation errors that no event has been written for.
    unreported: Vec<BehaviourError>,
    runtime: Option<PodRuntime>,
    refused: Option<Value>,
    delete_sent: bool,
    /// UIDs of claims that were handed to the node's agent.
    prepared: BTreeSet<Arc<str>>,
}

struct Kubelets {
    requests: Requests,
    options: KubeletOptions,
    devices: Devices,
    cache: Cache,
    nodes: Nodes,
    pods_of: Index<Pod, ObjectKey>,
    entries: BTreeMap<ObjectKey, Entry>,
    waits: WaitIndex,
    addresses: AddressPool,
}

impl Kubelets {
    fn node_changed(&mut self, change: &Change<Node>, now: Timestamp, queue: &Queue<ObjectKey>) {
        let ours = |node: &&Arc<Node>| self.options.nodes.includes(node);
        let Some(node) = change.new.as_ref().filter(ours) else {
            return;
        };
        let old = change.old.as_ref().filter(ours);
        let came_back = node.powered && old.is_some_and(|old| !old.powered);
        if old.is_some_and(|old| old.powered == node.powered && old.address == node.address) {
            return;
        }
        for pod in self.pods_of.get(&self.cache.moment(), &change.key) {
            let key = &pod.meta.key;
            if let Some(runtime) = self.entries.get_mut(key).and_then(|entry| entry.runtime.as_mut())
                && came_back
            {
                runtime.power_cycle(now);
            }
            queue.mark(key.clone(), Priority::High);
        }
    }

    fn pod_changed(&mut self, change: &Change<Pod>, _now: Timestamp, queue: &Queue<ObjectKey>) {
        let (key, pod) = (&change.key, self.requests.pods.latest(&change.key));
        let known = self.entries.get(key).map(|entry| &entry.pod.meta.uid);
        if known.is_some_and(|known| pod.as_ref().is_none_or(|pod| pod.meta.uid != *known)) {
            self.pod_gone(key, queue);
        }
        if let Some(pod) = pod {
            self.pod_applied(pod, queue);
        }
    }

    fn pod_applied(&mut self, pod: Arc<Pod>, queue: &Queue<ObjectKey>) {
        let key = pod.meta.key.clone();
        for waiter in self.waits.note(&pod) {
            queue.mark(waiter, Priority::High);
        }
        match self.entries.get_mut(&key) {
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
                    prepared: BTreeSet::new(),
                };
                self.entries.insert(key.clone(), entry);
            }
        }
        queue.mark(key, Priority::High);
    }

    fn pod_gone(&mut self, key: &ObjectKey, queue: &Queue<ObjectKey>) {
        let Some(entry) = self.entries.remove(key) else { return };
        if let Some(agent) = &self.options.agent {
            for claim in &entry.prepared {
                agent.unprepare(&entry.pod.node.name, claim);
            }
            if entry.pod.labels.contains_key(agent.label()) {
                agent.forget(&entry.pod.meta.uid);
            }
        }
        let address = entry
            .runtime
            .and_then(|runtime| runtime.address)
            .or_else(|| own_address(&entry.pod));
        if let Some(address) = address {
            self.addresses.release(address);
        }
        for waiter in self.waits.forget(key) {
            queue.mark(waiter, Priority::High);
        }
    }
}

impl Kubelets {
    /// What the containers of a pod wait for before they may start, and the claims that the agent knows of now.
    fn held(&self, pod: &Pod) -> (Option<String>, Vec<Arc<str>>) {
        let claims = match pod.claims.resolve(&pod.meta.key.namespace, &self.devices) {
            Ok(claims) => claims,
            Err(missing) => return (Some(missing), Vec::new()),
        };
        let mut asked = Vec::new();
        for claim in claims {
            let name = &claim.meta.key.name;
            let Some(allocation) = &claim.allocation else {
                return (Some(format!("ResourceClaim {name} is not allocated")), asked);
            };
            if !claim.is_reserved_for(&pod.meta.uid) {
                return (Some(format!("ResourceClaim {name} is not reserved for the pod")), asked);
            }
            let Some(agent) = &self.options.agent else { continue };
            asked.push(claim.meta.uid.clone());
            let request = ClaimOnNode {
                node: &pod.node.name,
                pod: &pod.meta.key,
                claim: &claim.meta.key,
                uid: &claim.meta.uid,
                allocation,
            };
            if let Preparation::Waiting(reason) = agent.prepare(request) {
                return (Some(reason), asked);
            }
        }
        (None, asked)
    }

    /// Whether the node's agent keeps a pod from being ready.
    fn is_kept_unready(&self, pod: &Pod, address: Option<Ipv4Addr>) -> bool {
        let Some(agent) = &self.options.agent else { return false };
        let Some(label) = pod.labels.get(agent.label()) else {
            return false;
        };
        let request = PodOnNode {
            node: &pod.node.name,
            pod: &pod.meta.key,
            uid: &pod.meta.uid,
            label: Some(label),
            address: &address.map(|address| address.to_string()).unwrap_or_default(),
        };
        agent.unready(request).is_some()
    }
}

impl Controller for Kubelets {
    type Key = ObjectKey;
    type Outcome = Outcome;
    const NAME: &'static str = "kubelet";

    fn begin(&mut self, key: &ObjectKey, now: Timestamp, queue: &Queue<ObjectKey>) -> Option<Action<Outcome>> {
        let pod = Arc::clone(&self.entries.get(key)?.pod);
        let included = |node: &Arc<Node>| self.options.nodes.includes(node) && node.powered;
        let node = self.nodes.latest(&pod.node).filter(included)?;
        let (held, asked) = match pod.claims.is_empty() || pod.status.is_terminal() || pod.deletion_grace.is_some() {
            true => (None, Vec::new()),
            false => self.held(&pod),
        };
        let address = self
            .entries
            .get(key)?
            .runtime
            .as_ref()
            .and_then(|runtime| runtime.address);
        let kept_unready = self.is_kept_unready(&pod, address);
        let entry = self.entries.get_mut(key)?;
        entry.prepared.extend(asked);
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
        runtime.held = held;
        let unready;
        let behaviour = match kept_unready {
            true => {
                unready = PodBehaviour {
                    never_ready: true,
                    ..behaviour.clone()
                };
                &unready
            }
            false => &*behaviour,
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
            queue.mark_at(key.clone(), moment);
        }
        self.waits.wait_for(key, missing.into_inner());

        if (runtime.stopped || pod.status.is_terminal())
            && let Some(agent) = &self.options.agent
        {
            for claim in std::mem::take(&mut entry.prepared) {
                agent.unprepare(&pod.node.name, &claim);
            }
        }
        let stopped_by_deletion = runtime.stopped && pod.deletion_grace.is_some();
        let desired = report(pod, runtime, behaviour, node.address.as_deref(), now);
        let patch = status::patch(&pod.status, &desired)
            .filter(|patch| entry.refused.as_ref() != Some(patch))
            // A pod that is about to vanish needs no last status, unless a finalizer keeps it for others to read.
            .filter(|_| !stopped_by_deletion || entry.pod.has_finalizers);
        let errors = std::mem::take(&mut entry.unreported);
        let pod = Arc::clone(&entry.pod);
        if patch.is_none() && stopped_by_deletion && pod.deletion_grace != Some(0) && !entry.delete_sent {
            return Some(self.requests.final_delete(pod));
        }
        if patch.is_none() && errors.is_empty() {
            return None;
        }
        Some(self.requests.write_status(pod, patch, &errors, now))
    }

    fn finish(&mut self, key: &ObjectKey, outcome: Outcome, _now: Timestamp, _queue: &Queue<ObjectKey>) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        match outcome {
            Outcome::Refused(patch) => entry.refused = Some(patch),
            Outcome::Deleted(uid) => entry.delete_sent |= entry.pod.meta.uid == uid,
            Outcome::Settled => {}
        }
    }
}

/// Marks the pods that a claim is reserved for.
fn mark_users(change: &Change<Claim>, queue: &Queue<ObjectKey>) {
    let consumers = change.new.iter().flat_map(|claim| &claim.reserved_for);
    for consumer in consumers.filter(|consumer| consumer.is_pod()) {
        let key = ObjectKey::new(change.key.namespace.clone(), consumer.name.as_str());
        queue.mark(key, Priority::High);
    }
}

fn own_address(pod: &Pod) -> Option<Ipv4Addr> {
    if pod.host_network {
        return None;
    }
    pod.status.pod_ip.as_deref().and_then(|address| address.parse().ok())
}
