//! A node without GPUs, its API server, and what the scheduler, the controller and a daemon would do.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use coppice_apiserver::ApiServer;
use coppice_domain_plugin::hardware::NodeProbe;
use coppice_domain_plugin::wire::Claim;
use coppice_domain_plugin::{PluginError, Running, Settings, start};
use coppice_domains::api::{AllocationMode, ClaimParameters, Clique, ComputeDomain, crd, names};
use coppice_domains::decide::daemon::readiness::{NotReady, Report};
use coppice_runtime::clock::SystemClock;
use coppice_runtime::layers::{self, Call, Fault};
use coppice_runtime::supervise::Supervisor;
use k8s_openapi::api::core::v1::{Namespace, Node};
use k8s_openapi::api::resource::v1::{ResourceClaim, ResourceSlice};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt as _};
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt as _;
use tokio::net::UnixListener;
use tokio::sync::watch;

pub const NODE: &str = "node-a";
pub const TEAM: &str = "team";
pub const DRIVER: &str = "nvidia-dra-driver-gpu";
pub const CLIQUE: &str = "7a8e0c5e-3f9b-4a33-8f4e-cc8a6a1f2b0d.32766";
const FABRIC: &str = "<fabric><state>Completed</state><status>Success</status><cliqueId>32766</cliqueId>\
                      <clusterUuid>7a8e0c5e-3f9b-4a33-8f4e-cc8a6a1f2b0d</clusterUuid></fabric>";

pub struct Stage {
    server: ApiServer,
    client: Client,
    pub directory: tempfile::TempDir,
    pub settings: Settings,
    reads: Arc<Mutex<BTreeMap<String, usize>>>,
}

async fn create<K>(api: &Api<K>, object: Value) -> K
where
    K: Resource + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
{
    let object = serde_json::from_value(object).unwrap();
    api.create(&PostParams::default(), &object).await.unwrap()
}

impl Stage {
    pub async fn start() -> Self {
        let server = ApiServer::builder().seed(1).build();
        let client = layers::client_of_service(server.service(), "default", &layers::Options::default());
        for definition in crd::all() {
            create::<CustomResourceDefinition>(&Api::all(client.clone()), definition).await;
        }
        for namespace in [DRIVER, TEAM, "other"] {
            create::<Namespace>(&Api::all(client.clone()), json!({"metadata": {"name": namespace}})).await;
        }
        create::<Node>(&Api::all(client.clone()), json!({"metadata": {"name": NODE}})).await;
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        let settings = Settings {
            node: NODE.into(),
            plugins: at("plugins"),
            registry: at("registry"),
            cdi: at("cdi"),
            proc: at("proc"),
            ..Settings::default()
        };
        let files = [
            ("proc/sys/kernel/random/boot_id", "a-boot\n"),
            (
                "proc/devices",
                "Character devices:\n234 nvidia-caps-imex-channels\n235 nvidia-caps\n\nBlock devices:\n",
            ),
            (
                "proc/driver/nvidia/capabilities/fabric-imex-mgmt",
                "DeviceFileMinor: 1\nDeviceFileMode: 256\n",
            ),
        ];
        for (name, content) in files {
            std::fs::create_dir_all(at(name).parent().unwrap()).unwrap();
            std::fs::write(at(name), content).unwrap();
        }
        let stage = Self {
            server,
            client,
            directory,
            settings,
            reads: Arc::default(),
        };
        stage.hardware("580.65.06", FABRIC);
        stage
    }

    /// What `nvidia-smi -q -x` says.
    pub fn hardware(&self, driver: &str, fabric: &str) {
        let gpu = format!("<gpu>{fabric}</gpu>").repeat(4);
        let output = format!("<nvidia_smi_log><driver_version>{driver}</driver_version>{gpu}</nvidia_smi_log>");
        std::fs::write(self.directory.path().join("smi.xml"), output).unwrap();
    }

    pub async fn plugin(&self) -> Result<Running, PluginError> {
        let probe = NodeProbe {
            smi_output: Some(self.directory.path().join("smi.xml")),
            proc: self.settings.proc.clone(),
            ..NodeProbe::default()
        };
        let reads = self.reads.clone();
        let hook = move |call: &Call| {
            if call.verb == "watch" {
                *reads.lock().entry(format!("watch {}", call.resource)).or_default() += 1;
            } else if !call.is_write() {
                *reads.lock().entry(call.name.clone().unwrap_or_default()).or_default() += 1;
            }
            Fault::Pass
        };
        let options = layers::Options {
            faults: Some(Arc::new(hook)),
            ..layers::Options::default()
        };
        let client = layers::client_of_service(self.server.service(), "default", &options);
        let supervisor = Supervisor::default();
        start(
            client,
            self.settings.clone(),
            Arc::new(probe),
            Arc::new(SystemClock),
            &supervisor,
        )
        .await
    }

    /// What the plugin watches or has watched.
    pub fn watched(&self) -> Vec<String> {
        let reads = self.reads.lock();
        reads
            .keys()
            .filter_map(|read| read.strip_prefix("watch "))
            .map(str::to_owned)
            .collect()
    }

    /// How often the plugin has read a claim.
    pub fn reads_of(&self, claim: &Claim) -> usize {
        self.reads.lock().get(&claim.name).copied().unwrap_or_default()
    }

    fn api<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), namespace)
    }

    pub async fn add_domain(&self, name: &str) -> String {
        let spec = json!({"channel": {"resourceClaimTemplate": {"name": name}}});
        let api: Api<ComputeDomain> = Api::namespaced(self.client.clone(), TEAM);
        create(&api, json!({"metadata": {"name": name}, "spec": spec}))
            .await
            .uid()
            .to_owned()
    }

    async fn claim(
        &self,
        namespace: &str,
        name: &str,
        request: &str,
        device: &str,
        parameters: &ClaimParameters,
    ) -> Claim {
        let claim = self.new_claim(namespace, name).await;
        let allocation = json!({"devices": {
            "results": [{"driver": names::DRIVER, "device": device, "pool": NODE, "request": request}],
            "config": [{"source": "FromClaim", "requests": [request],
                "opaque": {"driver": names::DRIVER, "parameters": parameters.encode()}}],
        }});
        let patch = Patch::Merge(json!({"status": {"allocation": allocation}}));
        let api: Api<ResourceClaim> = self.api(namespace);
        api.patch_status(name, &PatchParams::default(), &patch).await.unwrap();
        claim
    }

    async fn new_claim(&self, namespace: &str, name: &str) -> Claim {
        let requests = json!([{"name": "x", "exactly": {"deviceClassName": names::CHANNEL_CLASS}}]);
        let object = json!({"metadata": {"name": name}, "spec": {"devices": {"requests": requests}}});
        let created = create(&self.api::<ResourceClaim>(namespace), object).await;
        Claim {
            namespace: namespace.into(),
            uid: created.uid().unwrap(),
            name: name.into(),
        }
    }

    pub async fn unallocated_claim(&self, name: &str) -> Claim {
        self.new_claim(TEAM, name).await
    }

    pub async fn channel_claim(&self, name: &str, domain: &str) -> Claim {
        self.channel_claim_in(TEAM, name, domain).await
    }

    pub async fn channel_claim_in(&self, namespace: &str, name: &str, domain: &str) -> Claim {
        let parameters = ClaimParameters::Channel {
            domain_uid: domain.into(),
            mode: AllocationMode::Single,
        };
        self.claim(namespace, name, "channel", "channel-0", &parameters).await
    }

    pub async fn daemon_claim(&self, name: &str, domain: &str) -> Claim {
        let parameters = ClaimParameters::Daemon {
            domain_uid: domain.into(),
        };
        self.claim(DRIVER, name, "daemon", "daemon-0", &parameters).await
    }

    pub async fn delete_claim(&self, claim: &Claim) {
        let api: Api<ResourceClaim> = self.api(&claim.namespace);
        api.delete(&claim.name, &DeleteParams::default()).await.unwrap();
    }

    pub async fn store_row(&self, domain: &str, index: i64) {
        self.row(
            domain,
            json!({"nodeName": NODE, "ipAddress": "", "cliqueID": CLIQUE, "index": index}),
        )
        .await;
    }

    pub async fn store_ready_row(&self, domain: &str, index: i64) {
        let row = json!({"nodeName": NODE, "ipAddress": "10.0.0.1", "cliqueID": CLIQUE, "index": index,
            "status": "Ready"});
        self.row(domain, row).await;
    }

    async fn row(&self, domain: &str, row: Value) {
        let object = json!({"metadata": {"name": names::clique(domain, CLIQUE)}, "daemons": [row]});
        create::<Clique>(&Api::namespaced(self.client.clone(), DRIVER), object).await;
    }

    pub async fn label(&self) -> Option<String> {
        let node = Api::<Node>::all(self.client.clone()).get(NODE).await.unwrap();
        node.labels().get(names::DOMAIN_LABEL).cloned()
    }

    pub async fn slices(&self) -> Vec<ResourceSlice> {
        let api: Api<ResourceSlice> = Api::all(self.client.clone());
        api.list(&ListParams::default()).await.unwrap().items
    }

    pub async fn add_slice(&self, name: &str, devices: Value) {
        let pool = json!({"name": NODE, "generation": 1, "resourceSliceCount": 1});
        let spec = json!({"driver": names::DRIVER, "nodeName": NODE, "pool": pool, "devices": devices});
        let object = json!({"metadata": {"name": name}, "spec": spec});
        create::<ResourceSlice>(&Api::all(self.client.clone()), object).await;
    }

    pub async fn delete_slice(&self, name: &str) {
        let api: Api<ResourceSlice> = Api::all(self.client.clone());
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// The CDI document of a claim.
    pub fn cdi(&self, claim: &Claim) -> Option<Value> {
        let name = format!("k8s.compute-domain.nvidia.com-claim_{}.json", claim.uid);
        let text = std::fs::read_to_string(self.settings.cdi.join(name)).ok()?;
        Some(serde_json::from_str(&text).unwrap())
    }
}

/// The socket of a daemon.
pub struct Daemon {
    reports: watch::Sender<String>,
}

impl Daemon {
    pub fn bind(directory: &Path) -> Self {
        let listener = UnixListener::bind(directory.join("ready.sock")).unwrap();
        let (reports, _) = watch::channel(String::new());
        let sender = reports.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut reports = sender.subscribe();
                tokio::spawn(async move {
                    loop {
                        let line = reports.borrow_and_update().clone();
                        if stream.write_all(line.as_bytes()).await.is_err() || reports.changed().await.is_err() {
                            return;
                        }
                    }
                });
            }
        });
        Self { reports }
    }

    pub fn says(&self, domain: &str, not_ready: Option<NotReady>) {
        let report = Report {
            domain_uid: domain.into(),
            pod_uid: "p".into(),
            index: Some(0),
            not_ready,
        };
        self.reports.send_replace(report.to_line());
    }
}

/// Waits for a condition; a minute is long enough for anything here.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting)
        .await
        .unwrap_or_else(|_| panic!("never came true: {what}"));
}
