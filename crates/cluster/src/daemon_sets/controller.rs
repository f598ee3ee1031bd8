//! The shell of the DaemonSet controller.
//!
//! Owns its caches and requests. Decides nothing before DaemonSets, pods and nodes have been listed once; its own writes are in
//! the cache when it decides again, so a node never gets a second pod.

use super::decide::{Plan, eligibility, plan};
use super::pod::{Pod, Pods};
use super::template;
use super::view::{DaemonSet, DaemonSets};
use crate::controller::{Action, Controller, Shell, unless_changed, writer};
use crate::node_view::{Node, Nodes};
use crate::view::{Reduced, resource};
use coppice_runtime::cache::reflect::{self, reflect};
use coppice_runtime::cache::{Cache, Change, Index, ObjectKey};
use coppice_runtime::clock::SharedClock;
use coppice_runtime::queue::{Priority, Queue};
use coppice_runtime::write::{DeleteOptions, Patch, Precondition, WriteError, Writer};
use futures::FutureExt;
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::DaemonSet as ApiDaemonSet;
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::Client;
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const MANAGER: &str = "coppice-daemon-sets";

/// Reconciles the pods of DaemonSets until it is stopped.
pub(crate) fn run(
    client: Client,
    nodes: &Nodes,
    concurrency: usize,
    clock: &SharedClock,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let cache = Cache::default();
    let sets: DaemonSets = cache.kind(resource::<ApiDaemonSet>(), Reduced::new(DaemonSet::from_object));
    let pods: Pods = cache.kind(resource::<ApiPod>(), Reduced::new(Pod::from_object));
    let keeper = Keeper {
        pods_of: pods.index(|pod: &Option<Pod>, emit| {
            if let Some(pod) = pod {
                emit(pod.owner.clone());
            }
        }),
        set_of: sets.index(|set: &DaemonSet, emit| emit(set.meta.uid.clone())),
        requests: Requests {
            writer: writer(client.clone(), MANAGER, concurrency),
            sets: sets.clone(),
            pods: pods.clone(),
        },
        cache,
        nodes: nodes.clone(),
        knows_all: false,
    };
    let shell = Shell::new(keeper, concurrency, clock);
    shell.follow(&sets, |_, change, _, queue| {
        queue.mark(change.key.clone(), Priority::High);
    });
    shell.follow(&pods, |keeper, change, _, queue| keeper.pod_changed(change, queue));
    shell.follow(nodes, |keeper, change, _, queue| keeper.node_changed(change, queue));
    let watch_sets = reflect(client.clone(), sets.clone(), reflect::Options::default(), stop.clone());
    let watch_pods = reflect(client, pods.clone(), reflect::Options::default(), stop.clone());
    let (nodes, known) = (nodes.clone(), Arc::clone(&shell));
    let all_known = async move {
        tokio::join!(nodes.wait_synced(), sets.wait_synced(), pods.wait_synced());
        known.with(|keeper, _, queue| keeper.all_known(queue));
    };
    let watches = async move {
        tokio::join!(watch_sets, watch_pods, all_known);
    };
    shell.run(watches, stop)
}

struct Keeper {
    requests: Requests,
    cache: Cache,
    nodes: Nodes,
    pods_of: Index<Option<Pod>, Arc<str>>,
    set_of: Index<DaemonSet, Arc<str>>,
    /// Whether everything has been listed once.
    knows_all: bool,
}

impl Keeper {
    fn all_known(&mut self, queue: &Queue<ObjectKey>) {
        self.knows_all = true;
        for key in self.requests.sets.keys(&self.cache.moment()) {
            queue.mark(key, Priority::High);
        }
    }

    fn pod_changed(&self, change: &Change<Option<Pod>>, queue: &Queue<ObjectKey>) {
        let moment = self.cache.moment();
        let views = change.old.iter().chain(&change.new);
        for pod in views.filter_map(|view| view.as_ref().as_ref()) {
            for set in self.set_of.get(&moment, &pod.owner) {
                queue.mark(set.meta.key.clone(), Priority::High);
            }
        }
    }

    /// Marks the sets that the node has become eligible for, or is no longer.
    fn node_changed(&self, change: &Change<Node>, queue: &Queue<ObjectKey>) {
        let same = |old: &Node, new: &Node| {
            old.labels == new.labels && old.taints == new.taints && old.meta.uid == new.meta.uid
        };
        if let (Some(old), Some(new)) = (&change.old, &change.new)
            && same(old, new)
        {
            return;
        }
        for set in self.requests.sets.all(&self.cache.moment()) {
            let view = |node: &Option<Arc<Node>>| node.as_ref().map(|node| eligibility(&set, node));
            if view(&change.old) != view(&change.new) {
                queue.mark(set.meta.key.clone(), Priority::High);
            }
        }
    }
}

impl Controller for Keeper {
    type Key = ObjectKey;
    type Outcome = ();
    const NAME: &'static str = "daemon sets";

    fn begin(&mut self, key: &ObjectKey, now: Timestamp, queue: &Queue<ObjectKey>) -> Option<Action<()>> {
        let set = self
            .requests
            .sets
            .latest(key)
            .filter(|set| self.knows_all && !set.deleting)?;
        let pods = self.pods_of.get(&self.cache.moment(), &set.meta.uid);
        let nodes = self.nodes.all(&self.cache.moment());
        let plan = plan(&set, &nodes, &pods, now);
        if let Some(moment) = plan.wake {
            queue.mark_at(key.clone(), moment);
        }
        let idle = plan.create.is_empty() && plan.delete.is_empty() && plan.status == set.status;
        (!idle).then(|| self.requests.carry_out(set, plan))
    }
}

/// What requests are made with.
#[derive(Clone)]
struct Requests {
    writer: Writer,
    sets: DaemonSets,
    pods: Pods,
}

impl Requests {
    fn carry_out(&self, set: Arc<DaemonSet>, plan: Plan) -> Action<()> {
        let Self { writer, sets, pods } = self.clone();
        async move {
            let namespace = Some(&*set.meta.key.namespace);
            let deletions = plan.delete.iter().map(|known| async {
                let deleted = writer.delete(&pods, known, DeleteOptions::default()).await;
                unless_changed(deleted).map(drop)
            });
            let creations = plan.create.iter().map(|node| {
                let pod = template::pod(&set, node);
                let (writer, pods) = (&writer, &pods);
                // A name that is taken belongs to a pod that is about to be known, or to someone else: tried again later.
                async move { writer.create(pods, namespace, &pod).await.map(drop) }
            });
            let (deleted, created) = tokio::join!(join_all(deletions), join_all(creations));
            let results = || deleted.iter().chain(&created);
            let changed = results().any(Result::is_ok);
            let failure = deleted.iter().chain(&created).position(Result::is_err);
            // What was just changed is counted when its change comes back, which is at once.
            if !changed && plan.status != set.status {
                let patch = Patch::Merge(json!({"status": plan.status}));
                let known = Precondition::uid(&set.meta);
                unless_changed(writer.patch_status(&sets, &set.meta.key, &known, patch).await)?;
            }
            match failure {
                Some(position) => deleted.into_iter().chain(created).nth(position).unwrap_or(Ok(())),
                None => Ok::<(), WriteError>(()),
            }
        }
        .boxed()
    }
}
