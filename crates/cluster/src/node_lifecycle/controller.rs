//! The shell around the judge of nodes.
//!
//! Owns caches of nodes, leases and bound pods, and the requests that follow from the verdicts. Silence is measured by
//! the local clock from the moment a change of the lease was seen, so clocks that differ do no harm.

use super::HealthSignal;
use super::eviction::{Fate, fate};
use super::health::{Verdict, judge, unknown_patch, wanted_taints};
use super::requests::{
    BoundPod, NodePatch, Outcome, PodObject, collect_orphan, disrupt, patch_node, patch_pod, taint_patch,
};
use crate::clock::{Clock, later, whole_second};
use crate::engine::queue::Queue;
use crate::engine::watch::{Change, Listing, changes};
use crate::engine::{self, Action, Controller};
use crate::kubelet::pod::PodKey;
use crate::node_life::LEASE_NAMESPACE;
use crate::node_view::{Node, NodeObject};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::Api;
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How the judge judges.
#[derive(Clone, Debug)]
pub(crate) struct LifecycleOptions {
    pub(crate) signal: HealthSignal,
    /// How long pods stay on dead nodes if they say nothing about it.
    pub(crate) default_stay: Duration,
    /// How long pods of a node that does not exist are kept, in case it is about to be created.
    pub(crate) orphan_grace: Duration,
    pub(crate) concurrency: usize,
}

/// Judges nodes until told to stop.
pub(crate) async fn run(client: Client, options: LifecycleOptions, clock: Arc<dyn Clock>, stop: CancellationToken) {
    let config = watcher::Config::default;
    let nodes = changes(Api::<NodeObject>::all(client.clone()), config(), Node::from_object).map(Observed::Node);
    let pods = changes(
        Api::<PodObject>::all(client.clone()),
        config().fields("spec.nodeName!="),
        BoundPod::from,
    )
    .map(Observed::Pod);
    let mut streams = vec![nodes.boxed(), pods.boxed()];
    if matches!(options.signal, HealthSignal::Lease { .. }) {
        let leases = changes(
            Api::<Lease>::namespaced(client.clone(), LEASE_NAMESPACE),
            config(),
            |lease| {
                let renewed = lease
                    .spec
                    .as_ref()
                    .and_then(|spec| spec.renew_time.as_ref())
                    .map(|time| time.0);
                (lease.name_any(), renewed)
            },
        );
        streams.push(leases.map(Observed::Lease).boxed());
    }
    let concurrency = options.concurrency;
    let judge = Judge::new(client, options);
    engine::run(
        judge,
        futures::stream::select_all(streams).boxed(),
        clock,
        concurrency,
        stop,
    )
    .await;
}

enum Observed {
    Node(Change<Node>),
    Lease(Change<(String, Option<Timestamp>)>),
    Pod(Change<BoundPod>),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Node(String),
    Pod(PodKey),
}

struct LeaseEntry {
    renewed: Option<Timestamp>,
    seen_at: Timestamp,
}

struct NodeEntry {
    node: Node,
    seen_at: Timestamp,
    dark_since: Option<Timestamp>,
}

struct Judge {
    client: Client,
    options: LifecycleOptions,
    nodes: BTreeMap<String, NodeEntry>,
    node_listing: Listing<String>,
    leases: BTreeMap<String, LeaseEntry>,
    lease_listing: Listing<String>,
    pods: BTreeMap<PodKey, BoundPod>,
    pod_listing: Listing<PodKey>,
    pods_of: BTreeMap<String, BTreeSet<PodKey>>,
    /// Nodes that pods name and that do not exist, and since when that is known.
    missing: BTreeMap<String, Timestamp>,
}

impl Judge {
    fn new(client: Client, options: LifecycleOptions) -> Self {
        Self {
            client,
            options,
            nodes: BTreeMap::new(),
            node_listing: Listing::default(),
            leases: BTreeMap::new(),
            lease_listing: Listing::default(),
            pods: BTreeMap::new(),
            pod_listing: Listing::default(),
            pods_of: BTreeMap::new(),
            missing: BTreeMap::new(),
        }
    }

    fn mark_pods(&self, node: &str, queue: &mut Queue<Key>) {
        for key in self.pods_of.get(node).into_iter().flatten() {
            queue.mark(Key::Pod(key.clone()));
        }
    }

    fn node_applied(&mut self, node: Node, now: Timestamp, queue: &mut Queue<Key>) {
        let name = node.name.clone();
        self.missing.remove(&name);
        let known = self.nodes.get(&name).filter(|known| known.node.uid == node.uid);
        if known.is_some_and(|known| node.version() <= known.node.version()) {
            return;
        }
        let pods_concerned =
            known.is_none_or(|known| known.node.taints != node.taints || status_of(&known.node) != status_of(&node));
        // A node that has just said it is ready lives, even if the news of its lease are still on their way.
        let recovered = known.is_some_and(|known| status_of(&known.node) != "True") && status_of(&node) == "True";
        let seen_at = known.filter(|_| !recovered).map_or(now, |known| known.seen_at);
        let dark_since = (!node.powered).then(|| known.and_then(|known| known.dark_since).unwrap_or(now));
        self.nodes.insert(
            name.clone(),
            NodeEntry {
                node,
                seen_at,
                dark_since,
            },
        );
        if pods_concerned {
            self.mark_pods(&name, queue);
        }
        queue.mark(Key::Node(name));
    }

    fn node_gone(&mut self, name: &str, queue: &mut Queue<Key>) {
        self.nodes.remove(name);
        queue.forget(&Key::Node(name.to_owned()));
        self.mark_pods(name, queue);
    }

    fn pod_applied(&mut self, pod: BoundPod, queue: &mut Queue<Key>) {
        let known = self.pods.get(&pod.key);
        if known.is_some_and(|known| known.uid == pod.uid && pod.version <= known.version) {
            return;
        }
        if let Some(known) = known
            && known.node != pod.node
        {
            self.pod_gone(&pod.key, queue);
        }
        self.pods_of
            .entry(pod.node.clone())
            .or_default()
            .insert(pod.key.clone());
        queue.mark(Key::Pod(pod.key.clone()));
        self.pods.insert(pod.key.clone(), pod);
    }

    fn pod_gone(&mut self, key: &PodKey, queue: &mut Queue<Key>) {
        let Some(pod) = self.pods.remove(key) else { return };
        if let Some(keys) = self.pods_of.get_mut(&pod.node) {
            keys.remove(key);
            if keys.is_empty() {
                self.pods_of.remove(&pod.node);
                self.missing.remove(&pod.node);
            }
        }
        queue.forget(&Key::Pod(key.clone()));
    }

    /// The last sign of life and the grace that applies to it.
    fn last_sign(&self, entry: &NodeEntry) -> (Option<Timestamp>, Duration) {
        match self.options.signal {
            // Its heartbeats may be late because this machine is busy; only its power says whether it lives.
            HealthSignal::Lease { grace } if entry.node.simulated && entry.node.powered => (None, grace),
            HealthSignal::Lease { grace } => {
                let lease = self.leases.get(&entry.node.name).map(|lease| lease.seen_at);
                (Some(lease.map_or(entry.seen_at, |seen| seen.max(entry.seen_at))), grace)
            }
            HealthSignal::Power { grace } => (entry.dark_since, grace),
        }
    }

    fn begin_node(&mut self, name: &str, now: Timestamp, queue: &mut Queue<Key>) -> Option<Action<Outcome>> {
        let entry = self.nodes.get(name).filter(|entry| !entry.node.deleting)?;
        let (last_sign, grace) = self.last_sign(entry);
        let status = match judge(last_sign, grace, now) {
            Verdict::Silent => unknown_patch(&entry.node, now),
            Verdict::Alive { check_again } => {
                if let Some(moment) = check_again {
                    queue.wake_at(Key::Node(name.to_owned()), moment);
                }
                None
            }
        };
        if let Some(patch) = status {
            return Some(patch_node(
                self.client.clone(),
                name.to_owned(),
                NodePatch::Status(patch),
            ));
        }
        let taints = wanted_taints(&entry.node, now)?;
        let patch = taint_patch(&entry.node, &taints);
        Some(patch_node(self.client.clone(), name.to_owned(), NodePatch::Spec(patch)))
    }

    fn begin_pod(&mut self, key: &PodKey, now: Timestamp, queue: &mut Queue<Key>) -> Option<Action<Outcome>> {
        let pod = self.pods.get(key)?;
        let Some(entry) = self.nodes.get(&pod.node) else {
            if !self.node_listing.is_complete() {
                return None;
            }
            let since = *self.missing.entry(pod.node.clone()).or_insert(now);
            let end = later(since, self.options.orphan_grace);
            if now < end {
                queue.wake_at(Key::Pod(key.clone()), end);
                return None;
            }
            return Some(collect_orphan(self.client.clone(), pod, now));
        };
        if pod.deleting || pod.terminal {
            return None;
        }
        if let Fate::LeavesAt(moment) = fate(
            &entry.node.taints,
            &pod.tolerations,
            self.options.default_stay,
            entry.seen_at,
        ) {
            if moment <= now {
                let message = "Taint manager: deleting due to NoExecute taint";
                return Some(disrupt(
                    self.client.clone(),
                    pod,
                    "DeletionByTaintManager",
                    message,
                    None,
                    now,
                ));
            }
            queue.wake_at(Key::Pod(key.clone()), moment);
        }
        if pod.ready && ["Unknown", "False"].contains(&status_of(&entry.node)) {
            let condition = json!({
                "type": "Ready", "status": "False", "reason": "NodeNotReady",
                "message": "Node is not ready", "lastTransitionTime": whole_second(now),
            });
            return Some(patch_pod(self.client.clone(), pod, json!({"conditions": [condition]})));
        }
        None
    }
}

fn status_of(node: &Node) -> &str {
    node.condition("Ready")
        .map_or("", |condition| condition.status.as_str())
}

impl Controller for Judge {
    type Key = Key;
    type Event = Observed;
    type Outcome = Outcome;
    const NAME: &'static str = "node lifecycle";

    fn observe(&mut self, event: Observed, now: Timestamp, queue: &mut Queue<Key>) {
        match event {
            Observed::Node(Change::ListStarted) => self.node_listing.start(),
            Observed::Node(Change::Applied(node)) => {
                self.node_listing.saw(&node.name);
                self.node_applied(node, now, queue);
            }
            Observed::Node(Change::Deleted(node)) => self.node_gone(&node.name, queue),
            Observed::Node(Change::ListDone) => {
                for name in self.node_listing.finish(self.nodes.keys()) {
                    self.node_gone(&name, queue);
                }
                // Pods whose node was missing could not be judged before the list was complete.
                let homeless: Vec<String> = self
                    .pods_of
                    .keys()
                    .filter(|node| !self.nodes.contains_key(*node))
                    .cloned()
                    .collect();
                for node in homeless {
                    self.mark_pods(&node, queue);
                }
            }
            Observed::Lease(Change::ListStarted) => self.lease_listing.start(),
            Observed::Lease(Change::Applied((name, renewed))) => {
                self.lease_listing.saw(&name);
                if self.leases.get(&name).is_none_or(|known| known.renewed != renewed) {
                    self.leases.insert(name.clone(), LeaseEntry { renewed, seen_at: now });
                    // A later deadline needs no work now: the earlier one recomputes it.
                    if self
                        .nodes
                        .get(&name)
                        .is_some_and(|entry| status_of(&entry.node) != "True")
                    {
                        queue.mark(Key::Node(name));
                    }
                }
            }
            Observed::Lease(Change::Deleted((name, _))) => {
                self.leases.remove(&name);
            }
            Observed::Lease(Change::ListDone) => {
                for name in self.lease_listing.finish(self.leases.keys()) {
                    self.leases.remove(&name);
                }
            }
            Observed::Pod(Change::ListStarted) => self.pod_listing.start(),
            Observed::Pod(Change::Applied(pod)) => {
                self.pod_listing.saw(&pod.key);
                self.pod_applied(pod, queue);
            }
            Observed::Pod(Change::Deleted(pod)) => {
                if self.pods.get(&pod.key).is_some_and(|known| known.uid == pod.uid) {
                    self.pod_gone(&pod.key, queue);
                }
            }
            Observed::Pod(Change::ListDone) => {
                for key in self.pod_listing.finish(self.pods.keys()) {
                    self.pod_gone(&key, queue);
                }
            }
        }
    }

    fn begin(&mut self, key: &Key, now: Timestamp, queue: &mut Queue<Key>) -> Option<Action<Outcome>> {
        match key {
            Key::Node(name) => self.begin_node(name, now, queue),
            Key::Pod(pod) => self.begin_pod(pod, now, queue),
        }
    }

    fn finish(&mut self, _key: &Key, outcome: Outcome, now: Timestamp, queue: &mut Queue<Key>) {
        if let Outcome::Node(node) = outcome {
            self.node_applied(*node, now, queue);
        }
    }
}
