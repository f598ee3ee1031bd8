//! A cluster inside a test: the embedded API server, every component, virtual time, and a log of all writes.

use coppice_apiserver::ApiServer;
use coppice_cluster::profile::NodeProfile;
use coppice_cluster::{Options, SimulatedCluster};
use coppice_runtime::clock::{Clock, TokioClock};
use futures::StreamExt;
use http::{Method, Request};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::client::Body;
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tower::{BoxError, ServiceExt};

/// Virtual time after which a condition counts as never met.
const PATIENCE: Duration = Duration::from_secs(3600);

/// What happens to a request of the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// It never reaches the server.
    NotDelivered,
    /// It is carried out, but nobody learns of it.
    AnswerLost,
}

/// A running cluster and what it wrote.
pub(crate) struct World {
    /// For the test itself; its writes are not logged.
    pub(crate) client: Client,
    pub(crate) cluster: SimulatedCluster,
    writes: Arc<Mutex<Vec<String>>>,
    watches: Arc<Mutex<Vec<String>>>,
}

impl World {
    /// Starts a cluster with the given number of small nodes.
    pub(crate) async fn start(nodes: u32, adjust: impl FnOnce(Options) -> Options) -> Self {
        Self::start_with_faults(nodes, adjust, |_| Fault::None).await
    }

    /// Starts a cluster whose n-th write suffers the fault that is chosen for it.
    pub(crate) async fn start_with_faults(
        nodes: u32,
        adjust: impl FnOnce(Options) -> Options,
        fault_of: fn(usize) -> Fault,
    ) -> Self {
        // Fails harmlessly in all but the first test of a run.
        let _ = tracing_subscriber::fmt()
            .with_env_filter(tracing_subscriber::EnvFilter::from_default_env())
            .with_test_writer()
            .try_init();
        let clock = TokioClock::new("2026-01-01T00:00:00Z".parse().unwrap());
        let server = ApiServer::builder().seed(1).clock(move || clock.now()).build();
        let writes = Arc::new(Mutex::new(Vec::new()));
        let watches = Arc::new(Mutex::new(Vec::new()));
        let (log, watched, inner) = (Arc::clone(&writes), Arc::clone(&watches), server.service());
        let count = Arc::new(AtomicUsize::new(0));
        let observed = tower::service_fn(move |request: Request<Body>| {
            let mut fault = Fault::None;
            if request.uri().query().is_some_and(|query| query.contains("watch=true")) {
                watched.lock().unwrap().push(request.uri().path().to_owned());
            }
            if request.method() != Method::GET {
                log.lock()
                    .unwrap()
                    .push(format!("{} {}", request.method(), request.uri().path()));
                fault = fault_of(count.fetch_add(1, Ordering::Relaxed));
            }
            let inner = inner.clone();
            async move {
                if fault == Fault::NotDelivered {
                    return Err(BoxError::from("injected: the request was lost"));
                }
                let response = inner.oneshot(request).await.map_err(BoxError::from)?;
                match fault {
                    Fault::AnswerLost => Err(BoxError::from("injected: the answer was lost")),
                    Fault::None | Fault::NotDelivered => Ok(response),
                }
            }
        });
        let options = Options::default()
            .nodes(NodeProfile::Small, nodes)
            .clock(Arc::new(clock));
        let cluster = SimulatedCluster::start(Client::new(observed, "default"), adjust(options))
            .await
            .unwrap();
        Self {
            client: Client::new(server.service(), "default"),
            cluster,
            writes,
            watches,
        }
    }

    /// Everything written by the cluster since the last call.
    pub(crate) fn take_writes(&self) -> Vec<String> {
        std::mem::take(&mut *self.writes.lock().unwrap())
    }

    /// How often the cluster has begun to watch a resource.
    pub(crate) fn watches_of(&self, path: &str) -> usize {
        let watches = self.watches.lock().unwrap();
        watches.iter().filter(|watched| *watched == path).count()
    }

    /// Creates an object.
    pub(crate) async fn create<K>(&self, value: Value) -> K
    where
        K: Resource<Scope = kube::core::NamespaceResourceScope, DynamicType = ()>
            + Serialize
            + DeserializeOwned
            + Clone
            + Debug,
    {
        let object: K = serde_json::from_value(value).unwrap();
        let namespace = object.meta().namespace.clone().unwrap_or_else(|| "default".to_owned());
        Api::namespaced(self.client.clone(), &namespace)
            .create(&PostParams::default(), &object)
            .await
            .unwrap()
    }

    /// Creates a pod with one container and the given metadata and spec on top.
    pub(crate) async fn pod(&self, name: &str, metadata: Value, spec: Value) -> Pod {
        let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "main", "image": "web:1"}]}});
        for (section, given) in [("metadata", metadata), ("spec", spec)] {
            for (key, value) in given.as_object().unwrap() {
                pod[section][key] = value.clone();
            }
        }
        self.create(pod).await
    }

    /// Creates a pod that is bound to the first node already.
    pub(crate) async fn bound_pod(&self, name: &str, metadata: Value, mut spec: Value) -> Pod {
        spec["nodeName"] = json!("node-00000");
        self.pod(name, metadata, spec).await
    }

    /// Waits until a pod of the default namespace is as expected; `None` means that it is gone.
    pub(crate) async fn until_pod(&self, name: &str, expected: impl Fn(Option<&Pod>) -> bool) -> Option<Pod> {
        until(Api::<Pod>::namespaced(self.client.clone(), "default"), name, expected).await
    }
}

/// Waits until an object is as expected; `None` means that it is gone.
pub(crate) async fn until<K>(api: Api<K>, name: &str, expected: impl Fn(Option<&K>) -> bool) -> Option<K>
where
    K: Resource + Clone + DeserializeOwned + Debug + Send + 'static,
{
    let mut last: Option<K> = None;
    let mut changes = watcher::watch_object(api, name).boxed();
    let search = async {
        loop {
            let found = changes.next().await.unwrap().unwrap();
            if expected(found.as_ref()) {
                return found;
            }
            last = found;
        }
    };
    match tokio::time::timeout(PATIENCE, search).await {
        Ok(found) => found,
        Err(_) => panic!("{name} never became as expected; last seen as {last:#?}"),
    }
}

/// The status of a condition of a pod.
pub(crate) fn condition<'a>(pod: &'a Pod, kind: &str) -> &'a str {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions
        .and_then(|conditions| conditions.iter().find(|condition| condition.type_ == kind))
        .map_or("", |condition| condition.status.as_str())
}

/// Whether a pod is ready.
pub(crate) fn is_ready(pod: Option<&Pod>) -> bool {
    pod.is_some_and(|pod| condition(pod, "Ready") == "True")
}

/// The restarts of a pod's first container.
pub(crate) fn restarts(pod: &Pod) -> i32 {
    pod.status
        .as_ref()
        .and_then(|status| status.container_statuses.as_ref())
        .map_or(0, |all| all[0].restart_count)
}

/// A duration.
pub(crate) fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Expects that an object is gone.
pub(crate) fn gone<K>(object: Option<&K>) -> bool {
    object.is_none()
}

/// Sets an annotation of a pod.
pub(crate) async fn annotate_pod(world: &World, name: &str, annotation: &str, value: &str) {
    let pods: Api<Pod> = Api::default_namespaced(world.client.clone());
    let patch = json!({"metadata": {"annotations": {annotation: value}}});
    pods.patch(name, &PatchParams::default(), &Patch::Merge(&patch))
        .await
        .unwrap();
}

/// A config map and a secret of the same name that it owns.
pub(crate) async fn owner_and_dependent(world: &World, name: &str) {
    let owner: ConfigMap = world.create(json!({"metadata": {"name": name}})).await;
    let reference = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner.uid(), "blockOwnerDeletion": true,
    }]);
    let _: Secret = world
        .create(json!({"metadata": {"name": name, "ownerReferences": reference}}))
        .await;
}
