//! The shell of the stand-in scheduler.
//!
//! Owns the room that is taken on each node, including by bindings on their way, and the requests. It decides nothing
//! before it has seen all nodes and pods once. Pods that do not fit are tried again when room may have appeared, not
//! by time.

use super::fit::{Candidate, choose};
use super::pod::{Amounts, Pod, PodObject, add, subtract};
use crate::clock::{Clock, whole_second};
use crate::engine::queue::Queue;
use crate::engine::requests::{is_conflict, is_not_found, patch_as};
use crate::engine::watch::{Change, Listing, changes};
use crate::engine::{self, Action, Controller};
use crate::kubelet::pod::PodKey;
use crate::node_view::{Node, NodeObject};
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Binding, ObjectReference};
use kube::Client;
use kube::api::{Api, ObjectMeta, Patch, PostParams};
use kube::runtime::watcher;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const MANAGER: &str = "coppice-default-scheduler";

/// Binds pods until told to stop.
pub(crate) async fn run(client: Client, concurrency: usize, clock: Arc<dyn Clock>, stop: CancellationToken) {
    let config = watcher::Config::default;
    let nodes = changes(Api::<NodeObject>::all(client.clone()), config(), Node::from_object).map(Observed::Node);
    let pods = changes(Api::<PodObject>::all(client.clone()), config(), Pod::from)
        .map(|change| Observed::Pod(Box::new(change)));
    let scheduler = Scheduler {
        client,
        nodes: BTreeMap::new(),
        node_listing: Listing::default(),
        pods: BTreeMap::new(),
        pod_listing: Listing::default(),
        homeless: BTreeMap::new(),
        unplaced: BTreeSet::new(),
    };
    let events = futures::stream::select(nodes, pods).boxed();
    engine::run(scheduler, events, clock, concurrency, stop).await;
}

enum Observed {
    Node(Change<Node>),
    Pod(Box<Change<Pod>>),
}

struct Entry {
    pod: Pod,
    /// The node on which it takes room: where it is bound, or where it is about to be.
    placed: Option<String>,
}

struct Scheduler {
    client: Client,
    nodes: BTreeMap<String, Candidate>,
    node_listing: Listing<String>,
    pods: BTreeMap<PodKey, Entry>,
    pod_listing: Listing<PodKey>,
    /// Room taken on nodes that are not known yet.
    homeless: BTreeMap<String, Amounts>,
    unplaced: BTreeSet<PodKey>,
}

enum Outcome {
    Bound,
    /// The pod is gone, bound, or not what it was; its change is on its way here.
    Refused,
    Reported,
}

impl Scheduler {
    fn take(&mut self, node: &str, amounts: &Amounts) {
        match self.nodes.get_mut(node) {
            Some(candidate) => add(&mut candidate.taken, amounts),
            None => add(self.homeless.entry(node.to_owned()).or_default(), amounts),
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

    fn try_all(&self, queue: &mut Queue<PodKey>) {
        for key in &self.unplaced {
            queue.mark(key.clone());
        }
    }

    fn node_applied(&mut self, node: Node, queue: &mut Queue<PodKey>) {
        let name = node.name.clone();
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

    fn node_gone(&mut self, name: &str) {
        if let Some(candidate) = self.nodes.remove(name) {
            self.homeless.insert(name.to_owned(), candidate.taken);
        }
    }

    fn pod_applied(&mut self, pod: Pod, queue: &mut Queue<PodKey>) {
        let key = pod.key.clone();
        let known = self.pods.get(&key);
        if known.is_some_and(|known| known.pod.uid == pod.uid && pod.version <= known.pod.version) {
            return;
        }
        // A binding on its way keeps its room until the pod itself tells where it is.
        let pending = known
            .filter(|known| known.pod.uid == pod.uid)
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
        if pod.wants_node && placed.is_none() {
            self.unplaced.insert(key.clone());
            queue.mark(key.clone());
        }
        if freed && placed.is_none() {
            self.try_all(queue);
        }
        self.pods.insert(key, Entry { pod, placed });
    }

    /// Forgets a pod; returns whether it took room.
    fn forget(&mut self, key: &PodKey) -> bool {
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
    fn give_back(&mut self, key: &PodKey) {
        let Some(entry) = self.pods.get_mut(key).filter(|entry| entry.pod.node.is_none()) else {
            return;
        };
        if let Some(node) = entry.placed.take() {
            let requests = entry.pod.requests.clone();
            self.release(&node, &requests);
            self.unplaced.insert(key.clone());
        }
    }

    fn pod_gone(&mut self, key: &PodKey, queue: &mut Queue<PodKey>) {
        queue.forget(key);
        if self.forget(key) {
            self.try_all(queue);
        }
    }
}

impl Controller for Scheduler {
    type Key = PodKey;
    type Event = Observed;
    type Outcome = Outcome;
    const NAME: &'static str = "default scheduler";

    fn observe(&mut self, event: Observed, _now: Timestamp, queue: &mut Queue<PodKey>) {
        match event {
            Observed::Node(Change::ListStarted) => self.node_listing.start(),
            Observed::Node(Change::Applied(node)) => {
                self.node_listing.saw(&node.name);
                self.node_applied(node, queue);
            }
            Observed::Node(Change::Deleted(node)) => self.node_gone(&node.name),
            Observed::Node(Change::ListDone) => {
                for name in self.node_listing.finish(self.nodes.keys()) {
                    self.node_gone(&name);
                }
                self.try_all(queue);
            }
            Observed::Pod(change) => match *change {
                Change::ListStarted => self.pod_listing.start(),
                Change::Applied(pod) => {
                    self.pod_listing.saw(&pod.key);
                    self.pod_applied(pod, queue);
                }
                Change::Deleted(pod) => {
                    if self.pods.get(&pod.key).is_some_and(|known| known.pod.uid == pod.uid) {
                        self.pod_gone(&pod.key, queue);
                    }
                }
                Change::ListDone => {
                    for key in self.pod_listing.finish(self.pods.keys()) {
                        self.pod_gone(&key, queue);
                    }
                    self.try_all(queue);
                }
            },
        }
    }

    fn begin(&mut self, key: &PodKey, now: Timestamp, _queue: &mut Queue<PodKey>) -> Option<Action<Outcome>> {
        if !self.node_listing.is_complete() || !self.pod_listing.is_complete() {
            return None;
        }
        let entry = self
            .pods
            .get(key)
            .filter(|entry| entry.pod.wants_node && entry.placed.is_none())?;
        match choose(&entry.pod, self.nodes.values()).map(ToOwned::to_owned) {
            Ok(node) => {
                let requests = entry.pod.requests.clone();
                self.take(&node, &requests);
                self.unplaced.remove(key);
                let entry = self.pods.get_mut(key)?;
                entry.placed = Some(node.clone());
                Some(bind(self.client.clone(), &entry.pod, node))
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
                Some(report(self.client.clone(), &entry.pod, message, now))
            }
        }
    }

    fn finish(&mut self, key: &PodKey, outcome: Outcome, _now: Timestamp, _queue: &mut Queue<PodKey>) {
        if matches!(outcome, Outcome::Refused) {
            self.give_back(key);
        }
    }

    fn failed(&mut self, key: &PodKey) {
        self.give_back(key);
    }
}

fn bind(client: Client, pod: &Pod, node: String) -> Action<Outcome> {
    let (key, uid) = (pod.key.clone(), pod.uid.clone());
    async move {
        let pods: Api<PodObject> = Api::namespaced(client, &key.namespace);
        let binding = Binding {
            metadata: ObjectMeta {
                name: Some(key.name.clone()),
                namespace: Some(key.namespace.clone()),
                uid: Some(uid),
                ..ObjectMeta::default()
            },
            target: ObjectReference {
                api_version: Some("v1".to_owned()),
                kind: Some("Node".to_owned()),
                name: Some(node),
                ..ObjectReference::default()
            },
        };
        let answer: Result<serde_json::Value, kube::Error> = pods
            .create_subresource("binding", &key.name, &PostParams::default(), &binding)
            .await;
        match answer {
            Ok(_) => Ok(Outcome::Bound),
            Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(Outcome::Refused),
            Err(error) => Err(error),
        }
    }
    .boxed()
}

fn report(client: Client, pod: &Pod, message: String, now: Timestamp) -> Action<Outcome> {
    let (key, uid) = (pod.key.clone(), pod.uid.clone());
    let since = pod
        .scheduled
        .as_ref()
        .filter(|condition| condition.status == "False")
        .and_then(|condition| condition.last_transition_time)
        .unwrap_or(whole_second(now));
    async move {
        let pods: Api<PodObject> = Api::namespaced(client, &key.namespace);
        let patch = json!({
            "metadata": {"uid": uid},
            "status": {"conditions": [{
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message,
                "lastTransitionTime": since,
            }]},
        });
        match pods
            .patch_status(&key.name, &patch_as(MANAGER), &Patch::Strategic(&patch))
            .await
        {
            Ok(_) => Ok(Outcome::Reported),
            Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(Outcome::Reported),
            Err(error) => Err(error),
        }
    }
    .boxed()
}
