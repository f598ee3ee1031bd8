//! An embedded API server in virtual time with a rack of nodes. The test plays what is around the controller: kubelet
//! plugins that publish slices and label nodes, the DaemonSet controller, and daemons that become ready.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use coppice_apiserver::ApiServer;
use coppice_domain_controller::{DomainController, Options};
use coppice_domains::api::{Clique, ComputeDomain, DaemonRow, crd, names};
use coppice_domains::decide::render::RenderSettings;
use coppice_runtime::clock::{Clock, TokioClock};
use coppice_runtime::layers::{self, Call, Fault, FaultHook};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::resource::v1::{ResourceClaimTemplate, ResourceSlice};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// The namespace of the driver.
pub const DRIVER: &str = "nvidia-dra-driver-gpu";
/// The namespace of the workload.
pub const TEAM: &str = "team";
/// The clique of the rack.
pub const CLIQUE: &str = "7a8e0c5e-3f9b-4a33-8f4e-cc8a6a1f2b0d.1";
/// Virtual time in which everything that was caused has happened.
pub const LONG: Duration = Duration::from_secs(120);

/// Counts writes of a client by verb and resource.
#[derive(Clone, Default)]
pub struct Writes(Arc<Mutex<BTreeMap<String, usize>>>);

impl Writes {
    /// A hook that counts and lets everything pass.
    pub fn hook(&self) -> impl FaultHook + use<> {
        let counts = self.0.clone();
        move |call: &Call| {
            if call.is_write() && call.resource != "events" {
                let status = call
                    .subresource
                    .as_ref()
                    .map(|name| format!("/{name}"))
                    .unwrap_or_default();
                *counts.lock().entry(format!("{}{status}", call.resource)).or_default() += 1;
            }
            Fault::Pass
        }
    }

    pub fn of(&self, resource: &str) -> usize {
        self.0.lock().get(resource).copied().unwrap_or_default()
    }

    pub fn total(&self) -> usize {
        self.0.lock().values().sum()
    }
}

pub struct Stage {
    server: ApiServer,
    clock: TokioClock,
    pub client: Client,
}

pub fn node_name(number: usize) -> String {
    format!("node-{number:02}")
}

impl Stage {
    pub async fn start() -> Self {
        Self::start_with(&crd::all()).await
    }

    /// With other definitions than ours, such as those of NVIDIA's driver.
    pub async fn start_with(definitions: &[Value]) -> Self {
        let clock = TokioClock::new("2026-01-01T00:00:00Z".parse().unwrap());
        let server = ApiServer::builder().seed(1).clock(move || clock.now()).build();
        let client = layers::client_of_service(server.service(), "default", &layers::Options::default());
        let stage = Self { server, clock, client };
        for definition in definitions {
            let api: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
            create(&api, definition.clone()).await;
        }
        for namespace in [DRIVER, TEAM] {
            let namespaces: Api<Namespace> = Api::all(stage.client.clone());
            create(&namespaces, json!({"metadata": {"name": namespace}})).await;
        }
        stage
    }

    pub fn client(&self, hook: impl FaultHook) -> Client {
        let options = layers::Options {
            faults: Some(Arc::new(hook)),
            ..layers::Options::default()
        };
        layers::client_of_service(self.server.service(), "default", &options)
    }

    pub fn options(&self) -> Options {
        let settings = RenderSettings {
            image: "coppice:test".to_owned(),
            ..RenderSettings::default()
        };
        Options {
            settings,
            clock: Arc::new(self.clock),
            ..Options::default()
        }
    }

    pub async fn controller(&self, hook: impl FaultHook) -> DomainController {
        DomainController::start(self.client(hook), self.options()).await
    }

    pub fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.client.clone())
    }

    pub fn namespaced<K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>>(
        &self,
        namespace: &str,
    ) -> Api<K> {
        Api::namespaced(self.client.clone(), namespace)
    }

    /// A node whose plugin publishes a clique; empty for a node without a fabric.
    pub async fn add_node(&self, name: &str, clique: &str) {
        create(&self.all::<Node>(), json!({"metadata": {"name": name}})).await;
        let devices = coppice_domains::decide::plugin::devices::published(clique, false);
        let slice = json!({"metadata": {"name": format!("slice-{name}")}, "spec": {
            "driver": names::DRIVER, "nodeName": name, "devices": devices,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
        }});
        create(&self.all::<ResourceSlice>(), slice).await;
    }

    /// Creates a domain and returns its UID.
    pub async fn add_domain(&self, name: &str) -> String {
        let domain = json!({"metadata": {"name": name}, "spec": {
            "numNodes": 0, "channel": {"resourceClaimTemplate": {"name": format!("{name}-channel")}},
        }});
        let domains: Api<ComputeDomain> = Api::namespaced(self.client.clone(), TEAM);
        create(&domains, domain).await.metadata.uid.unwrap()
    }

    pub async fn domain(&self, name: &str) -> Option<ComputeDomain> {
        let domains: Api<ComputeDomain> = Api::namespaced(self.client.clone(), TEAM);
        domains.get_opt(name).await.unwrap()
    }

    pub async fn label(&self, node: &str, uid: Option<&str>) {
        let patch = json!({"metadata": {"labels": {names::DOMAIN_LABEL: uid}}});
        let nodes = self.all::<Node>();
        nodes
            .patch(node, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    /// A daemon pod on a node, as the DaemonSet controller creates it.
    pub async fn add_pod(&self, name: &str, node: &str, uid: &str, managed: bool) {
        let mut labels = json!({names::DOMAIN_LABEL: uid});
        if managed {
            labels[names::MANAGED_ROWS_LABEL] = json!(names::MANAGED_ROWS);
        }
        let pod = json!({"metadata": {"name": name, "labels": labels}, "spec": {
            "nodeName": node, "containers": [{"name": "compute-domain-daemon", "image": "i"}],
        }});
        create(&self.namespaced::<Pod>(DRIVER), pod).await;
    }

    pub async fn set_pod(&self, name: &str, address: &str, ready: bool) {
        let ready = if ready { "True" } else { "False" };
        let patch = json!({"status": {
            "phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": ready}],
        }});
        let pods = self.namespaced::<Pod>(DRIVER);
        pods.patch_status(name, &PatchParams::default(), &Patch::Merge(patch))
            .await
            .unwrap();
    }

    pub async fn delete_pod(&self, name: &str) {
        let now = DeleteParams::default().grace_period(0);
        self.namespaced::<Pod>(DRIVER).delete(name, &now).await.unwrap();
    }

    /// A daemon that starts after some time and is ready a little later.
    pub async fn run_daemon(self: &Arc<Self>, number: usize, uid: &str) {
        let (name, node) = (format!("daemon-{number:02}"), node_name(number));
        self.add_pod(&name, &node, uid, true).await;
        tokio::time::sleep(Duration::from_millis(700 + 40 * number as u64)).await;
        self.set_pod(&name, &address(number), false).await;
        tokio::time::sleep(Duration::from_millis(1_500 + 30 * number as u64)).await;
        self.set_pod(&name, &address(number), true).await;
    }

    /// Labels nodes and runs their daemons, all side by side, until every daemon is ready.
    pub async fn join(self: &Arc<Self>, numbers: std::ops::Range<usize>, uid: &str) {
        let joining = numbers.map(|number| {
            let (stage, uid) = (self.clone(), uid.to_owned());
            tokio::spawn(async move {
                tokio::time::sleep(Duration::from_millis(11 * number as u64)).await;
                stage.label(&node_name(number), Some(&uid)).await;
                tokio::time::sleep(Duration::from_millis(900)).await;
                stage.run_daemon(number, &uid).await;
            })
        });
        for joined in joining.collect::<Vec<_>>() {
            joined.await.unwrap();
        }
    }

    pub async fn clique(&self, uid: &str) -> Option<Clique> {
        let cliques: Api<Clique> = Api::namespaced(self.client.clone(), DRIVER);
        cliques.get_opt(&names::clique(uid, CLIQUE)).await.unwrap()
    }

    pub async fn rows(&self, uid: &str) -> Vec<DaemonRow> {
        self.clique(uid).await.map(|clique| clique.daemons).unwrap_or_default()
    }

    /// What exists of a domain besides its cliques: kind and name.
    pub async fn objects(&self, uid: &str) -> Vec<String> {
        let selector = ListParams::default().labels(&format!("{}={uid}", names::DOMAIN_LABEL));
        let mut found = Vec::new();
        let sets = self.namespaced::<DaemonSet>(DRIVER).list(&selector).await.unwrap();
        found.extend(
            sets.items
                .into_iter()
                .map(|set| format!("DaemonSet {}", set.metadata.name.unwrap())),
        );
        let templates = self.all::<ResourceClaimTemplate>().list(&selector).await.unwrap();
        let template = |object: ResourceClaimTemplate| {
            let (namespace, name) = (object.metadata.namespace.unwrap(), object.metadata.name.unwrap());
            format!("ResourceClaimTemplate {namespace}/{name}")
        };
        found.extend(templates.items.into_iter().map(template));
        let nodes = self.all::<Node>().list(&selector).await.unwrap();
        found.extend(
            nodes
                .items
                .into_iter()
                .map(|node| format!("Node {}", node.metadata.name.unwrap())),
        );
        found
    }

    /// Reason and message of a condition of a domain.
    pub async fn condition(&self, name: &str, kind: &str) -> (String, String) {
        let status = self.domain(name).await.unwrap().status.unwrap_or_default();
        let found = status.conditions.into_iter().find(|condition| condition.type_ == kind);
        found.map(|found| (found.reason, found.message)).unwrap_or_default()
    }
}

pub fn address(number: usize) -> String {
    format!("10.0.0.{}", number + 1)
}

pub async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Resource<DynamicType = ()> + Serialize + DeserializeOwned + Clone + std::fmt::Debug,
{
    let object: K = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap()
}
