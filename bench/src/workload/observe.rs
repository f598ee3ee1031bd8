//! What becomes of the pods of a namespace and of the set, seen by one watch each. Times are those of the watch events,
//! counted from the last [`Pods::begin`]. Assumes that nobody else makes pods in the namespace.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DynamicObject, ObjectMeta};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::{self, Event};
use kube::{Client, Resource};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::shapes::SET;

/// What is decoded of a pod.
#[derive(Clone, Debug, Serialize, Deserialize, kube::Resource)]
#[resource(inherit = Pod)]
struct SeenPod {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    node_name: String,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
struct Status {
    conditions: Vec<Condition>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// How many pods there are now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Now {
    /// All, those that are being deleted included.
    pub(crate) there: usize,
    /// Being deleted.
    pub(crate) leaving: usize,
    /// Ready and not being deleted.
    pub(crate) ready: usize,
}

/// When things happened since the beginning, in seconds, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Times {
    /// Pods that appeared.
    pub(crate) created: Vec<f64>,
    /// Pods that got a node.
    pub(crate) scheduled: Vec<f64>,
    /// Pods that became ready.
    pub(crate) ready: Vec<f64>,
    /// Pods that went.
    pub(crate) gone: Vec<f64>,
}

#[derive(Clone, Copy, Default)]
struct Stage {
    scheduled: bool,
    ready: bool,
    leaving: bool,
}

struct State {
    begun: Instant,
    pods: HashMap<String, Stage>,
    /// What a list that is under way has named so far.
    listed: HashSet<String>,
    now: Now,
    times: Times,
}

impl State {
    fn applied(&mut self, pod: &SeenPod) {
        let at = self.begun.elapsed().as_secs_f64();
        let Some(uid) = pod.metadata.uid.clone() else { return };
        let times = &mut self.times;
        let before = self.pods.get(&uid).copied();
        if before.is_none() {
            times.created.push(at);
            self.now.there += 1;
        }
        let before = before.unwrap_or_default();
        let is_ready = |condition: &Condition| condition.kind == "Ready" && condition.status == "True";
        let leaving = pod.metadata.deletion_timestamp.is_some();
        let stage = Stage {
            scheduled: !pod.spec.node_name.is_empty(),
            ready: !leaving && pod.status.conditions.iter().any(is_ready),
            leaving,
        };
        if stage.scheduled && !before.scheduled {
            times.scheduled.push(at);
        }
        if stage.ready && !before.ready {
            times.ready.push(at);
        }
        self.now.ready = self.now.ready + usize::from(stage.ready) - usize::from(before.ready);
        self.now.leaving = self.now.leaving + usize::from(stage.leaving) - usize::from(before.leaving);
        self.pods.insert(uid, stage);
    }

    fn event(&mut self, event: Event<SeenPod>) {
        match event {
            Event::Apply(pod) => self.applied(&pod),
            Event::Delete(pod) => pod.metadata.uid.iter().for_each(|uid| self.gone(uid)),
            Event::Init => self.listed.clear(),
            Event::InitApply(pod) => {
                self.listed.extend(pod.metadata.uid.clone());
                self.applied(&pod);
            }
            Event::InitDone => {
                let missed = self.pods.keys().filter(|uid| !self.listed.contains(*uid));
                for uid in missed.cloned().collect::<Vec<_>>() {
                    self.gone(&uid);
                }
            }
        }
    }

    fn gone(&mut self, uid: &str) {
        if let Some(stage) = self.pods.remove(uid) {
            self.times.gone.push(self.begun.elapsed().as_secs_f64());
            self.now.there -= 1;
            self.now.ready -= usize::from(stage.ready);
            self.now.leaving -= usize::from(stage.leaving);
        }
    }
}

/// The pods of a namespace; watched until dropped.
pub(crate) struct Pods {
    state: Arc<Mutex<State>>,
    changed: watch::Receiver<()>,
    task: JoinHandle<()>,
}

impl Pods {
    /// Starts to watch. Returns once the watch is open.
    pub(crate) async fn watch(client: &Client, namespace: &str) -> anyhow::Result<Self> {
        let state = Arc::new(Mutex::new(State {
            begun: Instant::now(),
            pods: HashMap::new(),
            listed: HashSet::new(),
            now: Now::default(),
            times: Times::default(),
        }));
        let (tick, mut changed) = watch::channel(());
        let api: Api<SeenPod> = Api::namespaced(client.clone(), namespace);
        let shared = state.clone();
        let task = tokio::spawn(async move {
            let mut events = watcher::watcher(api, watcher::Config::default()).boxed();
            while let Some(event) = events.next().await {
                // A watch that breaks is opened again and lists what it missed.
                let Ok(event) = event else { continue };
                lock(&shared).event(event);
                // Nobody may be waiting at the moment.
                let _ = tick.send(());
            }
        });
        changed.changed().await.context("the watch of pods ended")?;
        Ok(Self { state, changed, task })
    }

    /// Forgets times and counts them from now on.
    pub(crate) fn begin(&self) {
        let mut state = lock(&self.state);
        state.begun = Instant::now();
        state.times = Times::default();
    }

    /// Seconds since the beginning.
    pub(crate) fn elapsed(&self) -> f64 {
        lock(&self.state).begun.elapsed().as_secs_f64()
    }

    /// What happened since.
    pub(crate) fn times(&self) -> Times {
        lock(&self.state).times.clone()
    }

    /// Waits for a state of the pods, for `limit` at most.
    pub(crate) async fn until(
        &self,
        what: &str,
        limit: Duration,
        mut reached: impl FnMut(Now, &Times) -> bool,
    ) -> anyhow::Result<()> {
        let mut changed = self.changed.clone();
        let waited = tokio::time::timeout(limit, async {
            loop {
                changed.mark_unchanged();
                let done = {
                    let state = lock(&self.state);
                    reached(state.now, &state.times)
                };
                if done {
                    return anyhow::Ok(());
                }
                changed.changed().await.context("the watch of pods ended")?;
            }
        });
        match waited.await {
            Ok(done) => done,
            Err(_) => {
                let (now, times) = (lock(&self.state).now, self.times());
                anyhow::bail!(
                    "not reached within {limit:?}: {what}; {} pods created, {} scheduled, {} ready, {} gone, {} there now; \
                     --limit allows more time",
                    times.created.len(),
                    times.scheduled.len(),
                    times.ready.len(),
                    times.gone.len(),
                    now.there,
                )
            }
        }
    }
}

impl Drop for Pods {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The resource of sets.
pub(crate) fn sets(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("grove.io", "v1alpha1", "PodCliqueSet"));
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// Waits until the set says of itself that so many replicas are there and available, or until it is gone (`None`).
pub(crate) async fn until_set(
    client: &Client,
    namespace: &str,
    available: Option<u32>,
    limit: Duration,
) -> anyhow::Result<()> {
    let mut last = Value::Null;
    let waited = tokio::time::timeout(limit, async {
        let mut changes = watcher::watch_object(sets(client, namespace), SET).boxed();
        while let Some(change) = changes.next().await {
            let Ok(set) = change else { continue };
            last = set.as_ref().map_or(Value::Null, |set| set.data["status"].clone());
            let reached = match (available, &set) {
                (None, None) => true,
                (Some(wanted), Some(set)) => {
                    let status = &set.data["status"];
                    let count = |field: &str| status[field].as_u64().unwrap_or(0);
                    let current = status["observedGeneration"].as_i64() == set.meta().generation;
                    current && count("availableReplicas") == u64::from(wanted) && count("replicas") == u64::from(wanted)
                }
                _ => false,
            };
            if reached {
                return;
            }
        }
    });
    match waited.await {
        Ok(()) => Ok(()),
        Err(_) => {
            anyhow::bail!("the set is not as wanted within {limit:?} (available: {available:?}); its status: {last}")
        }
    }
}
