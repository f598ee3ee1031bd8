//! The shell of the stand-in scheduler.
//!
//! Owns the room that is taken on each node, including by bindings on their way, and the requests. It decides nothing
//! before it has seen all nodes and pods once. Pods that do not fit are tried again when room may have appeared, not
//! by time.

use super::claims::{Grant, PodClaims};
use super::fit::{Candidate, choose};
use super::pod::{Amounts, Pod, Pods, add, subtract};
use crate::controller::{Action, Controller, Shell, unless_changed, writer};
use crate::node_view::{Node, Nodes};
use crate::resource_claims::{Claim, DeviceId, Devices, consumers};
use crate::view::{Reduced, resource};
use coppice_runtime::cache::reflect::{self, reflect};
use coppice_runtime::cache::{Cache, Change, ObjectKey};
use coppice_runtime::clock::{SharedClock, whole_second};
use coppice_runtime::queue::{Priority, Queue};
use coppice_runtime::write::{Patch, Precondition, WriteError, Writer};
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Binding, ObjectReference, Pod as ApiPod};
use kube::Client;
use kube::api::ObjectMeta;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const MANAGER: &str = "coppice-default-scheduler";

/// Binds pods until told to stop.
pub(crate) fn run(
    client: Client,
    nodes: &Nodes,
    devices: &Devices,
    concurrency: usize,
    clock: &SharedClock,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let pods: Pods = Cache::default().kind(resource::<ApiPod>(), Reduced::new(Pod::from_object));
    let scheduler = Scheduler {
        requests: Requests {
            writer: writer(client.clone(), MANAGER, concurrency),
            pods: pods.clone(),
            devices: devices.clone(),
        },
        promised: BTreeMap::new(),
        watched_nodes: nodes.clone(),
        nodes: BTreeMap::new(),
        pods: BTreeMap::new(),
        knows_all: false,
        homeless: BTreeMap::new(),
        unplaced: BTreeSet::new(),
    };
    let shell = Shell::new(scheduler, concurrency, clock);
    shell.follow(nodes, Scheduler::node_changed);
    shell.follow(&pods, Scheduler::pod_changed);
    shell.follow(&devices.claims, |scheduler, change, _, queue| {
        if Scheduler::claim_matters(change) {
            scheduler.try_all(queue);
        }
    });
    shell.follow(&devices.slices, |scheduler, _, _, queue| scheduler.try_all(queue));
    shell.follow(&devices.classes, |scheduler, _, _, queue| scheduler.try_all(queue));
    let watch = reflect(client, pods.clone(), reflect::Options::default(), stop.clone());
    let (nodes, devices, known) = (nodes.clone(), devices.clone(), Arc::clone(&shell));
    let all_known = async move {
        tokio::join!(nodes.wait_synced(), pods.wait_synced(), devices.cache.wait_synced());
        known.with(|scheduler, _, queue| {
            scheduler.knows_all = true;
            scheduler.try_all(queue);
        });
    };
    let watches = async move {
        tokio::join!(watch, all_known);
    };
    shell.run(watches, stop)
}

struct Entry {
    pod: Arc<Pod>,
    /// The node on which it takes room: where it is bound, or where it is about to be.
    placed: Option<Arc<str>>,
}

struct Scheduler {
    requests: Requests,
    watched_nodes: Nodes,
    nodes: BTreeMap<Arc<str>, Candidate>,
    pods: BTreeMap<ObjectKey, Entry>,
    /// Whether all nodes and pods have been listed once.
    knows_all: bool,
    /// Room taken on nodes that are not known yet.
    homeless: BTreeMap<Arc<str>, Amounts>,
    unplaced: BTreeSet<ObjectKey>,
    /// Devices of allocations on their way, by pod.
    promised: BTreeMap<ObjectKey, Vec<DeviceId>>,
}

enum Outcome {
    Bound,
    /// The pod is gone, bound, or not what it was; its change is on its way here.
    Refused,
    Reported,
}

impl Scheduler {
    fn take(&mut self, node: &Arc<str>, amounts: &Amounts) {
        match self.nodes.get_mut(node) {
            Some(candidate) => add(&mut candidate.taken, amounts),
            None => add(self.homeless.entry(node.clone()).or_default(), amounts),
        }
    }

    fn release(&mut self, node: &str, amounts: &Amounts) {
        match self.nodes.get_mut(node) {
            Some(candidate) => subtract(&mut candidate.taken, amounts),
            None => {
                if let Some(taken) = self.homeless.get_mut(node) {
                    subtract(taken, amounts);
                }
            }
        }
    }

    /// Whether a change of a claim may let a pod go on: it has appeared, or its devices are free.
    fn claim_matters(change: &Change<Claim>) -> bool {
        let has_devices = |claim: &Option<Arc<Claim>>| claim.as_ref().is_some_and(|claim| claim.allocation.is_some());
        change.old.is_none() || (has_devices(&change.old) && !has_devices(&change.new))
    }

    fn try_all(&self, queue: &Queue<ObjectKey>) {
        for key in &self.unplaced {
            queue.mark(key.clone(), Priority::High);
        }
    }

    fn node_changed(&mut self, change: &Change<Node>, _now: Timestamp, queue: &Queue<ObjectKey>) {
        match self.watched_nodes.latest(&change.key) {
            Some(node) => self.node_applied(node, queue),
            None => {
                if let Some(candidate) = self.nodes.remove(&change.key.name) {
                    self.homeless.insert(change.key.name.clone(), candidate.taken);
                }
            }
        }
    }

    fn node_applied(&mut self, node: Arc<Node>, queue: &Queue<ObjectKey>) {
        let name = node.meta.key.name.clone();
        let (same, taken) = match self.nodes.remove(&name) {
            Some(old) => {
                let same = old.node.labels == node.labels
                    && old.node.taints == node.taints
                    && old.node.allocatable == node.allocatable
                    && old.node.unschedulable == node.unschedulable;
                (same, old.taken)
            }
            None => (false, self.homeless.remove(&name).unwrap_or_default()),
        };
        self.nodes.insert(name, Candidate::new(node, taken));
        if !same {
            self.try_all(queue);
        }
    }

    fn pod_changed(&mut self, change: &Change<Pod>, _now: Timestamp, queue: &Queue<ObjectKey>) {
        match self.requests.pods.latest(&change.key) {
            Some(pod) => self.pod_applied(pod, queue),
            None => {
                if self.forget(&change.key) {
                    self.try_all(queue);
                }
            }
        }
    }

    fn pod_applied(&mut self, pod: Arc<Pod>, queue: &Queue<ObjectKey>) {
        let key = pod.meta.key.clone();
        let known = self.pods.get(&key);
        // A binding on its way keeps its room until the pod itself tells where it is.
        let pending = known
            .filter(|known| known.pod.meta.uid == pod.meta.uid)
            .and_then(|known| known.placed.clone());
        let placed = if pod.terminal {
            None
        } else {
            pod.node.clone().or(pending)
        };
        let freed = self.forget(&key);
        if let Some(node) = &placed {
            self.take(node, &pod.requests);
        }
        let bound_with_claims = pod.node.is_some() && !pod.terminal && !pod.claims.is_empty();
        if (pod.wants_node && placed.is_none()) || bound_with_claims {
            self.unplaced.insert(key.clone());
            queue.mark(key.clone(), Priority::High);
        }
        if freed && placed.is_none() {
            self.try_all(queue);
        }
        self.pods.insert(key, Entry { pod, placed });
    }

    /// Forgets a pod; returns whether it took room.
    fn forget(&mut self, key: &ObjectKey) -> bool {
        self.unplaced.remove(key);
        let Some(entry) = self.pods.remove(key) else {
            return false;
        };
        if let Some(node) = &entry.placed {
            self.release(node, &entry.pod.requests);
        }
        entry.placed.is_some()
    }

    /// Takes back the room of a binding that did not come about.
    fn give_back(&mut self, key: &ObjectKey) {
        let Some(entry) = self.pods.get_mut(key).filter(|entry| entry.pod.node.is_none()) else {
            return;
        };
        if let Some(node) = entry.placed.take() {
            let requests = entry.pod.requests.clone();
            self.release(&node, &requests);
            self.unplaced.insert(key.clone());
        }
    }
}

impl Controller for Scheduler {
    type Key = ObjectKey;
    type Outcome = Outcome;
    const NAME: &'static str = "default scheduler";

    fn begin(&mut self, key: &ObjectKey, now: Timestamp, _queue: &Queue<ObjectKey>) -> Option<Action<Outcome>> {
        if !self.knows_all {
            return None;
        }
        let entry = self.pods.get(key)?;
        let bound = entry.pod.node.is_some();
        let waits = entry.pod.wants_node && entry.placed.is_none();
        if !bound && !waits {
            return None;
        }
        let promised = self.promised.values().flatten().cloned();
        let claims = PodClaims::new(&entry.pod, &self.requests.devices, promised);
        if bound {
            // Another client bound it and left the claims to us; what cannot be allocated waits for devices to become free.
            let claims = claims.ok().filter(PodClaims::lack_devices)?;
            let node = self.nodes.get(entry.pod.node.as_ref()?)?;
            let (grants, devices) = claims.on(&node.node).ok()?;
            let pod = Arc::clone(&entry.pod);
            self.promised.insert(key.clone(), devices);
            return Some(self.requests.allocate(pod, grants));
        }
        let chosen = claims.and_then(|claims| {
            let node = choose(&entry.pod, self.nodes.values(), |node| claims.on(node).err())?;
            let (grants, devices) = claims.on(&self.nodes[node].node)?;
            Ok((Arc::<str>::from(node), grants, devices))
        });
        match chosen {
            Ok((node, grants, devices)) => {
                let requests = entry.pod.requests.clone();
                self.take(&node, &requests);
                self.unplaced.remove(key);
                self.promised.insert(key.clone(), devices);
                let entry = self.pods.get_mut(key)?;
                entry.placed = Some(node.clone());
                Some(self.requests.bind(Arc::clone(&entry.pod), &node, grants))
            }
            Err(message) => {
                let reported = entry.pod.scheduled.as_ref().is_some_and(|condition| {
                    condition.status == "False"
                        && condition.reason.as_deref() == Some("Unschedulable")
                        && condition.message.as_deref() == Some(message.as_str())
                });
                if reported {
                    return None;
                }
                Some(self.requests.report(Arc::clone(&entry.pod), &message, now))
            }
        }
    }

    fn finish(&mut self, key: &ObjectKey, outcome: Outcome, _now: Timestamp, _queue: &Queue<ObjectKey>) {
        self.promised.remove(key);
        if matches!(outcome, Outcome::Refused) {
            self.give_back(key);
        }
    }

    fn failed(&mut self, key: &ObjectKey) {
        self.promised.remove(key);
        self.give_back(key);
    }
}

/// What requests are made with.
#[derive(Clone)]
struct Requests {
    writer: Writer,
    pods: Pods,
    devices: Devices,
}

impl Requests {
    /// Gives claims to a pod. Returns whether all of them were as they were known.
    async fn grant(&self, pod: &Pod, grants: Vec<Grant>) -> Result<bool, WriteError> {
        for Grant { claim, allocation } in grants {
            if claim.is_reserved_for(&pod.meta.uid) {
                continue;
            }
            let mut status = json!({"reservedFor": consumers(&claim.reserved_for)});
            let consumer = json!({"resource": "pods", "name": &*pod.meta.key.name, "uid": &*pod.meta.uid});
            if let Some(consumers) = status["reservedFor"].as_array_mut() {
                consumers.push(consumer);
            }
            if let Some(allocation) = allocation {
                status["allocation"] = allocation;
            }
            let known = Precondition::version(&claim.meta);
            let patch = Patch::Merge(json!({"status": status}));
            let written = self
                .writer
                .patch_status(&self.devices.claims, &claim.meta.key, &known, patch);
            if unless_changed(written.await)?.is_none() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn allocate(&self, pod: Arc<Pod>, grants: Vec<Grant>) -> Action<Outcome> {
        let requests = self.clone();
        async move {
            requests.grant(&pod, grants).await?;
            Ok(Outcome::Reported)
        }
        .boxed()
    }

    fn bind(&self, pod: Arc<Pod>, node: &str, grants: Vec<Grant>) -> Action<Outcome> {
        let requests = self.clone();
        let (writer, pods) = (self.writer.clone(), self.pods.clone());
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(pod.meta.key.name.to_string()),
                namespace: Some(pod.meta.key.namespace.to_string()),
                uid: Some(pod.meta.uid.to_string()),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(node.to_owned()),
                ..ObjectReference::default()
            },
        };
        async move {
            if !requests.grant(&pod, grants).await? {
                // Its change is on its way here, and the pod is tried again with it.
                return Ok(Outcome::Refused);
            }
            let answer = writer.post_subresource(&pods, &pod.meta.key, "binding", &binding);
            match unless_changed(answer.await)? {
                Some(_) => Ok(Outcome::Bound),
                None => Ok(Outcome::Refused),
            }
        }
        .boxed()
    }

    fn report(&self, pod: Arc<Pod>, message: &str, now: Timestamp) -> Action<Outcome> {
        let (writer, pods) = (self.writer.clone(), self.pods.clone());
        let since = pod
            .scheduled
            .as_ref()
            .filter(|condition| condition.status == "False")
            .and_then(|condition| condition.last_transition_time)
            .unwrap_or(whole_second(now));
        let patch = Patch::Strategic(json!({"status": {"conditions": [{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
            "lastTransitionTime": since,
        }]}}));
        async move {
            let known = Precondition::uid(&pod.meta);
            unless_changed(writer.patch_status(&pods, &pod.meta.key, &known, patch).await)?;
            Ok(Outcome::Reported)
        }
        .boxed()
    }
}
