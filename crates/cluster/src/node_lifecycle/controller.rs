//! The shell around the judge of nodes.
//!
//! Owns caches of nodes, leases and bound pods, and the requests that follow from the verdicts. Silence is measured by
//! the local clock from the moment a change of the lease was seen, so clocks that differ do no harm.

use super::HealthSignal;
use super::eviction::{Fate, fate};
use super::health::{Verdict, judge, unknown_patch, wanted_taints};
use super::requests::{BoundPod, BoundPods, MANAGER, Requests};
use crate::controller::{Action, Controller, Shell, writer};
use crate::node_life::LEASE_NAMESPACE;
use crate::node_view::{Node, Nodes};
use crate::view::{Reduced, resource};
use coppice_runtime::cache::reflect::{self, reflect};
use coppice_runtime::cache::{Cache, Change, Index, Kind, ObjectKey};
use coppice_runtime::clock::{SharedClock, later, whole_second};
use coppice_runtime::queue::{Priority, Queue};
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::Client;
use serde::Deserialize;
use serde_json::json;
use std::collections::BTreeMap;
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
pub(crate) fn run(
    client: Client,
    nodes: &Nodes,
    options: LifecycleOptions,
    clock: &SharedClock,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let cache = Cache::default();
    let pods: BoundPods = cache.kind(resource::<Pod>(), Reduced::new(BoundPod::from_object));
    let leases: Leases = Cache::default().kind(
        resource::<Lease>(),
        Reduced::new(|_, lease: LeaseObject, _| lease.spec.renew_time.map(|time| time.0)),
    );
    let (concurrency, has_leases) = (
        options.concurrency,
        matches!(options.signal, HealthSignal::Lease { .. }),
    );
    let judge = Judge {
        requests: Requests {
            writer: writer(client.clone(), MANAGER, concurrency),
            client: client.clone(),
            nodes: nodes.clone(),
            pods: pods.clone(),
        },
        options,
        nodes: BTreeMap::new(),
        nodes_are_known: false,
        watched_leases: leases.clone(),
        leases: BTreeMap::new(),
        pods_of: pods.index(|pod: &BoundPod, emit| emit(pod.node.clone())),
        cache,
        missing: BTreeMap::new(),
    };
    let shell = Shell::new(judge, concurrency, clock);
    shell.follow(nodes, Judge::node_changed);
    shell.follow(&pods, Judge::pod_changed);
    shell.follow(&leases, Judge::lease_changed);
    let bound = reflect::Options {
        field_selector: Some("spec.nodeName!=".to_owned()),
        ..reflect::Options::default()
    };
    let in_namespace = reflect::Options {
        namespace: Some(LEASE_NAMESPACE.to_owned()),
        ..reflect::Options::default()
    };
    let watch_pods = reflect(client.clone(), pods, bound, stop.clone());
    let watch_leases = match has_leases {
        true => reflect(client, leases, in_namespace, stop.clone()).boxed(),
        false => async {}.boxed(),
    };
    let (nodes, known) = (nodes.clone(), Arc::clone(&shell));
    let nodes_known = async move {
        nodes.wait_synced().await;
        known.with(|judge, _, queue| judge.nodes_known(queue));
    };
    let watches = async move {
        tokio::join!(watch_pods, watch_leases, nodes_known);
    };
    shell.run(watches, stop)
}

#[derive(Deserialize)]
struct LeaseObject {
    #[serde(default)]
    spec: LeaseSpec,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct LeaseSpec {
    renew_time: Option<MicroTime>,
}

/// When each node lease was renewed, by the clock of the node.
type Leases = Kind<Reduced<LeaseObject, Option<Timestamp>>>;

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Node(Arc<str>),
    Pod(ObjectKey),
}

struct LeaseEntry {
    renewed: Option<Timestamp>,
    seen_at: Timestamp,
}

struct NodeEntry {
    node: Arc<Node>,
    seen_at: Timestamp,
    dark_since: Option<Timestamp>,
}

struct Judge {
    requests: Requests,
    options: LifecycleOptions,
    nodes: BTreeMap<Arc<str>, NodeEntry>,
    /// Whether all nodes have been listed once.
    nodes_are_known: bool,
    watched_leases: Leases,
    leases: BTreeMap<Arc<str>, LeaseEntry>,
    cache: Cache,
    pods_of: Index<BoundPod, ObjectKey>,
    /// Nodes that pods name and that do not exist, and since when that is known.
    missing: BTreeMap<Arc<str>, Timestamp>,
}

impl Judge {
    fn mark_pods(&self, node: &ObjectKey, queue: &Queue<Key>) {
        for pod in self.pods_of.get(&self.cache.moment(), node) {
            queue.mark(Key::Pod(pod.meta.key.clone()), Priority::High);
        }
    }

    fn node_changed(&mut self, change: &Change<Node>, now: Timestamp, queue: &Queue<Key>) {
        match self.requests.nodes.latest(&change.key) {
            Some(node) => self.node_applied(node, now, queue),
            None => {
                self.nodes.remove(&change.key.name);
                self.mark_pods(&change.key, queue);
            }
        }
    }

    fn node_applied(&mut self, node: Arc<Node>, now: Timestamp, queue: &Queue<Key>) {
        let key = node.meta.key.clone();
        self.missing.remove(&key.name);
        let known = self.nodes.get(&key.name);
        let known = known.filter(|known| known.node.meta.uid == node.meta.uid);
        let pods_concerned =
            known.is_none_or(|known| known.node.taints != node.taints || status_of(&known.node) != status_of(&node));
        // A node that has just said it is ready lives, even if the news of its lease are still on their way.
        let recovered = known.is_some_and(|known| status_of(&known.node) != "True") && status_of(&node) == "True";
        let seen_at = known.filter(|_| !recovered).map_or(now, |known| known.seen_at);
        let dark_since = (!node.powered).then(|| known.and_then(|known| known.dark_since).unwrap_or(now));
        self.nodes.insert(
            key.name.clone(),
            NodeEntry {
                node,
                seen_at,
                dark_since,
            },
        );
        if pods_concerned {
            self.mark_pods(&key, queue);
        }
        queue.mark(Key::Node(key.name), Priority::High);
    }

    /// Pods whose node was missing could not be judged before all nodes were listed.
    fn nodes_known(&mut self, queue: &Queue<Key>) {
        self.nodes_are_known = true;
        for node in self.pods_of.keys(&self.cache.moment()) {
            if !self.nodes.contains_key(&node.name) {
                self.mark_pods(&node, queue);
            }
        }
    }

    fn pod_changed(&mut self, change: &Change<BoundPod>, _now: Timestamp, queue: &Queue<Key>) {
        if change.new.is_some() {
            queue.mark(Key::Pod(change.key.clone()), Priority::High);
        }
        if let Some(old) = &change.old
            && self.pods_of.count(&self.cache.moment(), &old.node) == 0
        {
            self.missing.remove(&old.node.name);
        }
    }

    fn lease_changed(&mut self, change: &Change<Option<Timestamp>>, now: Timestamp, queue: &Queue<Key>) {
        let name = &change.key.name;
        let Some(renewed) = self.watched_leases.latest(&change.key) else {
            self.leases.remove(name);
            return;
        };
        if self.leases.get(name).is_some_and(|known| known.renewed == *renewed) {
            return;
        }
        let entry = LeaseEntry {
            renewed: *renewed,
            seen_at: now,
        };
        self.leases.insert(name.clone(), entry);
        // A later deadline needs no work now: the earlier one recomputes it.
        let node = self.nodes.get(name);
        if node.is_some_and(|entry| status_of(&entry.node) != "True") {
            queue.mark(Key::Node(name.clone()), Priority::High);
        }
    }

    /// The last sign of life and the grace that applies to it.
    fn last_sign(&self, entry: &NodeEntry) -> (Option<Timestamp>, Duration) {
        match self.options.signal {
            // Its heartbeats may be late because this machine is busy; only its power says whether it lives.
            HealthSignal::Lease { grace } if entry.node.simulated && entry.node.powered => (None, grace),
            HealthSignal::Lease { grace } => {
                let lease = self.leases.get(entry.node.name()).map(|lease| lease.seen_at);
                (Some(lease.map_or(entry.seen_at, |seen| seen.max(entry.seen_at))), grace)
            }
            HealthSignal::Power { grace } => (entry.dark_since, grace),
        }
    }

    fn begin_node(&mut self, name: &Arc<str>, now: Timestamp, queue: &Queue<Key>) -> Option<Action<()>> {
        let entry = self.nodes.get(name).filter(|entry| !entry.node.deleting)?;
        let (last_sign, grace) = self.last_sign(entry);
        let status = match judge(last_sign, grace, now) {
            Verdict::Silent => unknown_patch(&entry.node, now),
            Verdict::Alive { check_again } => {
                if let Some(moment) = check_again {
                    queue.mark_at(Key::Node(name.clone()), moment);
                }
                None
            }
        };
        let node = Arc::clone(&entry.node);
        if let Some(patch) = status {
            return Some(self.requests.patch_node_status(node, patch));
        }
        let taints = wanted_taints(&node, now)?;
        Some(self.requests.taint(node, &taints))
    }

    fn begin_pod(&mut self, key: &ObjectKey, now: Timestamp, queue: &Queue<Key>) -> Option<Action<()>> {
        let pod = self.requests.pods.latest(key)?;
        let Some(entry) = self.nodes.get(&pod.node.name) else {
            if !self.nodes_are_known {
                return None;
            }
            let since = *self.missing.entry(pod.node.name.clone()).or_insert(now);
            let end = later(since, self.options.orphan_grace);
            if now < end {
                queue.mark_at(Key::Pod(key.clone()), end);
                return None;
            }
            return Some(self.requests.collect_orphan(pod, now));
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
                return Some(self.requests.disrupt(pod, "DeletionByTaintManager", message, None, now));
            }
            queue.mark_at(Key::Pod(key.clone()), moment);
        }
        if pod.ready && ["Unknown", "False"].contains(&status_of(&entry.node)) {
            let condition = json!({
                "type": "Ready", "status": "False", "reason": "NodeNotReady",
                "message": "Node is not ready", "lastTransitionTime": whole_second(now),
            });
            return Some(self.requests.patch_pod(pod, json!({"conditions": [condition]})));
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
    type Outcome = ();
    const NAME: &'static str = "node lifecycle";

    fn begin(&mut self, key: &Key, now: Timestamp, queue: &Queue<Key>) -> Option<Action<()>> {
        match key {
            Key::Node(name) => self.begin_node(name, now, queue),
            Key::Pod(pod) => self.begin_pod(pod, now, queue),
        }
    }
}
