//! A filled embedded cluster: nodes of eight GPUs, gangs of one-GPU pods that must lie in one rack, and nobody who runs them.
//!
//! Owns what is in it, how its bindings are seen (one watch on all pods), and the bindings of a client that knows every node
//! beforehand. There are no kubelets and no operator: only binding is measured.

use std::pin::pin;

use anyhow::{Context, ensure};
use coppice_apiserver::ApiServer;
use coppice_cluster::profile::NodeProfile;
use coppice_crds::{InstallOptions, install};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use kube::Client;
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const NAMESPACE: &str = "fleet";
const TOPOLOGY: &str = "racks";
const RACK: &str = "topology.kubernetes.io/rack";
const GPUS_PER_NODE: usize = 8;
const NODES_PER_RACK: usize = 4;

/// How much there is to bind.
#[derive(Clone, Copy)]
pub(crate) struct Size {
    pub(crate) gangs: usize,
    pub(crate) pods_per_gang: usize,
}

impl Size {
    /// All pods.
    pub(crate) fn pods(self) -> usize {
        self.gangs * self.pods_per_gang
    }

    /// A rack for each gang and a tenth more, so that the last gang has a choice too.
    pub(crate) fn nodes(self) -> u32 {
        let racks = self.gangs + self.gangs / 10 + 1;
        u32::try_from(racks * NODES_PER_RACK).unwrap_or(u32::MAX)
    }
}

/// A filled cluster in this process.
pub(crate) struct Cluster {
    client: Client,
    size: Size,
}

impl Cluster {
    /// Starts and fills one.
    pub(crate) async fn start(size: Size) -> anyhow::Result<Self> {
        let rack = GPUS_PER_NODE * NODES_PER_RACK;
        ensure!(
            (1..=rack).contains(&size.pods_per_gang),
            "a gang has 1 to {rack} pods: as many GPUs as a rack has"
        );
        let client = Client::new(ApiServer::builder().build().service(), "default");
        install(client.clone(), &InstallOptions::default(), |_| {}).await?;
        let cluster = Self { client, size };
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": NAMESPACE}}))?;
        Api::all(cluster.client())
            .create(&PostParams::default(), &namespace)
            .await?;
        let nodes = Api::<Node>::all(cluster.client());
        for node in NodeProfile::H100.nodes(size.nodes()) {
            let made = nodes.create(&PostParams::default(), &node).await?;
            let mut status = serde_json::to_value(&node.status)?;
            status["conditions"] = json!([{"type": "Ready", "status": "True"}]);
            let patch = Patch::Merge(json!({"status": status}));
            let name = made.metadata.name.unwrap_or_default();
            nodes.patch_status(&name, &PatchParams::default(), &patch).await?;
        }
        let levels = json!([{"domain": "rack", "key": RACK}]);
        let binding = json!({"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding",
            "metadata": {"name": TOPOLOGY}, "spec": {"levels": levels}});
        cluster
            .create("grove.io", "ClusterTopologyBinding", None, binding)
            .await?;
        let pods = Api::<Pod>::namespaced(cluster.client(), NAMESPACE);
        for gang in 0..size.gangs {
            cluster
                .create("scheduler.grove.io", "PodGang", Some(NAMESPACE), cluster.gang(gang))
                .await?;
            for pod in 0..size.pods_per_gang {
                let pod: Pod = serde_json::from_value(pod_of(gang, pod))?;
                pods.create(&PostParams::default(), &pod).await?;
            }
        }
        Ok(cluster)
    }

    /// A client of it.
    pub(crate) fn client(&self) -> Client {
        self.client.clone()
    }

    async fn create(&self, group: &str, kind: &str, namespace: Option<&str>, object: Value) -> anyhow::Result<()> {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "v1alpha1", kind));
        let api = match namespace {
            Some(namespace) => Api::<DynamicObject>::namespaced_with(self.client(), namespace, &resource),
            None => Api::all_with(self.client(), &resource),
        };
        api.create(&PostParams::default(), &serde_json::from_value(object)?)
            .await?;
        Ok(())
    }

    fn gang(&self, gang: usize) -> Value {
        let reference = |pod| json!({"namespace": NAMESPACE, "name": pod_name(gang, pod)});
        let references: Vec<Value> = (0..self.size.pods_per_gang).map(reference).collect();
        json!({"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang",
        "metadata": {"name": gang_name(gang), "annotations": {"grove.io/topology-name": TOPOLOGY}},
        "spec": {
            "podgroups": [{"name": "worker", "podReferences": references, "minReplicas": self.size.pods_per_gang}],
            "topologyConstraint": {"packConstraint": {"required": RACK}},
        }})
    }

    /// Begins to watch pods being bound.
    pub(crate) async fn watch(&self) -> anyhow::Result<Bindings> {
        let pods = Api::<Pod>::namespaced(self.client(), NAMESPACE);
        let list = pods.list_metadata(&ListParams::default()).await?;
        let version = list.metadata.resource_version.context("a list has a version")?;
        let wanted = self.size.pods();
        let counting = tokio::spawn(async move {
            let events = pods.watch(&WatchParams::default().timeout(290), &version).await?;
            let mut events = pin!(events);
            let mut bound = std::collections::BTreeSet::new();
            while bound.len() < wanted {
                let event = events
                    .try_next()
                    .await?
                    .context("the watch ended before every pod was bound")?;
                if let WatchEvent::Modified(pod) = event
                    && pod.spec.is_some_and(|spec| spec.node_name.is_some())
                {
                    bound.extend(pod.metadata.name);
                }
            }
            Ok(())
        });
        Ok(Bindings { counting })
    }

    /// Posts a binding for every pod, so many at once, each gang to a rack of its own.
    pub(crate) async fn bind_all(&self, concurrency: usize) -> anyhow::Result<()> {
        let pods = Api::<Pod>::namespaced(self.client(), NAMESPACE);
        let all = (0..self.size.gangs).flat_map(|gang| (0..self.size.pods_per_gang).map(move |pod| (gang, pod)));
        let posts = all.map(|(gang, pod)| {
            let pods = pods.clone();
            async move {
                let node = gang * NODES_PER_RACK + pod / GPUS_PER_NODE;
                let node = coppice_cluster::profile::node_name(u32::try_from(node)?);
                let name = pod_name(gang, pod);
                let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name},
                    "target": {"apiVersion": "v1", "kind": "Node", "name": node}});
                let params = PostParams::default();
                let _: Value = pods.create_subresource("binding", &name, &params, &binding).await?;
                anyhow::Ok(())
            }
        });
        let mut posts = stream::iter(posts).buffer_unordered(concurrency);
        while let Some(posted) = posts.next().await {
            posted?;
        }
        Ok(())
    }
}

/// A watch that counts bound pods.
pub(crate) struct Bindings {
    counting: JoinHandle<anyhow::Result<()>>,
}

impl Bindings {
    /// Waits until all are bound.
    pub(crate) async fn all_bound(self) -> anyhow::Result<()> {
        self.counting.await?
    }
}

fn gang_name(gang: usize) -> String {
    format!("gang-{gang}")
}

fn pod_name(gang: usize, pod: usize) -> String {
    format!("gang-{gang}-worker-{pod}")
}

fn pod_of(gang: usize, pod: usize) -> Value {
    json!({
        "metadata": {"name": pod_name(gang, pod),
            "labels": {"grove.io/podgang": gang_name(gang), "grove.io/podclique": "worker"}},
        // Nobody takes away the taint that a node is born with.
        "spec": {"schedulerName": "coppice", "tolerations": [{"operator": "Exists"}], "containers": [{"name": "main", "image": "registry.example/main",
            "resources": {"limits": {"cpu": "1", "nvidia.com/gpu": "1"}}}]},
    })
}
