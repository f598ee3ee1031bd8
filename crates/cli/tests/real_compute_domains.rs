//! ComputeDomains on a real kube-apiserver: the definitions and the manifest applied as they are, controller and kubelet plugin
//! running as their service accounts under RBAC and the admission policy. A request that is denied fails the test.
//!
//! The real DaemonSet controller makes the daemon pods. No kubelet runs here: the test labels nodes, which plugins do, and
//! reports pods as running and ready.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and tells what it saw"
)]

mod accounts;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use accounts::{kubeconfig_of, kubeconfig_of_pod};
use coppice_domains::api::{Clique, ComputeDomain, DaemonRow, Readiness, names};
use coppice_harness::control_plane::{Assets, ControlPlane, Options};
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::resource::v1::ResourceSlice;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

const DRIVER: &str = "nvidia-dra-driver-gpu";
const CLIQUE: &str = "7a8e0c5e-3f9b-4a33-8f4e-cc8a6a1f2b0d.1";
const NODES: usize = 18;
/// Only to end a test that hangs.
const PATIENCE: Duration = Duration::from_secs(180);

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

struct Install {
    control_plane: ControlPlane,
    directory: tempfile::TempDir,
    audit_log: PathBuf,
}

impl Install {
    async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let audit_log = directory.path().join("audit.log");
        let policy = directory.path().join("policy.yaml");
        let text = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived, ResponseStarted]\nrules: [{level: Metadata}]\n";
        std::fs::write(&policy, text).unwrap();
        let options = Options {
            controller_manager: true,
            api_server_flags: vec![
                format!("--audit-log-path={}", audit_log.display()),
                format!("--audit-policy-file={}", policy.display()),
            ],
            ..Options::default()
        };
        let control_plane = ControlPlane::start(&options).await.unwrap();
        let install = Self {
            control_plane,
            directory,
            audit_log,
        };
        install
            .kubectl(&["apply", "--server-side", "-f", "deploy/compute-domains/crds.json"])
            .await;
        install
            .kubectl(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"])
            .await;
        install
            .kubectl(&["apply", "--server-side", "-f", "deploy/compute-domains/install.yaml"])
            .await;
        install
    }

    async fn kubectl(&self, arguments: &[&str]) {
        let kubectl = Assets::from_environment().unwrap().program("kubectl").unwrap();
        let run = Command::new(kubectl)
            .arg("--kubeconfig")
            .arg(self.control_plane.kubeconfig())
            .args(arguments)
            .current_dir(root())
            .output();
        let output = tokio::time::timeout(PATIENCE, run).await.unwrap().unwrap();
        assert!(
            output.status.success(),
            "kubectl {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    fn all<K: Resource<DynamicType = ()>>(&self) -> Api<K> {
        Api::all(self.control_plane.client())
    }

    fn namespaced<K>(&self, namespace: &str) -> Api<K>
    where
        K: Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>,
    {
        Api::namespaced(self.control_plane.client(), namespace)
    }

    fn domains(&self) -> Api<ComputeDomain> {
        Api::namespaced(self.control_plane.client(), "default")
    }

    fn cliques(&self) -> Api<Clique> {
        Api::namespaced(self.control_plane.client(), DRIVER)
    }

    async fn create<K>(&self, api: &Api<K>, object: Value) -> K
    where
        K: Resource + Clone + DeserializeOwned + Serialize + std::fmt::Debug,
    {
        let object = serde_json::from_value(object).unwrap();
        api.create(&PostParams::default(), &object).await.unwrap()
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }

    /// Starts the program under the name of a manifest.
    fn program(&self, name: &str, arguments: &[String], kubeconfig: &Path, node: Option<&str>) -> Child {
        let log = std::fs::File::create(self.directory.path().join(format!("{name}.log"))).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_coppice"));
        command.arg(name).args(arguments).arg("--kubeconfig").arg(kubeconfig);
        command.envs(node.map(|node| ("NODE_NAME", node)));
        command
            .stdout(Stdio::null())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }

    async fn controller(&self) -> Child {
        let kubeconfig = kubeconfig_of(&self.control_plane, DRIVER, "compute-domain-controller").await;
        let kubeconfig = self.file("controller.kubeconfig", &kubeconfig);
        let arguments = [
            "--daemon-image=daemon:1".to_owned(),
            format!("--leader-election-namespace={DRIVER}"),
        ];
        self.program("compute-domain-controller", &arguments, &kubeconfig, None)
    }

    /// Requests by verb and resource of an account, and those that were denied.
    fn requests_of(&self, account: &str) -> (BTreeMap<String, usize>, Vec<String>) {
        let user = format!("system:serviceaccount:{DRIVER}:{account}");
        let (mut made, mut denied) = (BTreeMap::new(), Vec::new());
        for line in std::fs::read_to_string(&self.audit_log).unwrap().lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            if event["user"]["username"] != user.as_str() {
                continue;
            }
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let reference = &event["objectRef"];
            let mut what = format!("{} {}", text(&event["verb"]), text(&reference["resource"]));
            if let Some(subresource) = reference["subresource"].as_str() {
                what.push_str(&format!("/{subresource}"));
            }
            if event["responseStatus"]["code"] == 403 {
                denied.push(format!("{what}: {}", event["requestURI"]));
            }
            *made.entry(what).or_default() += 1;
        }
        (made, denied)
    }
}

fn node_name(number: usize) -> String {
    format!("node-{number:02}")
}

/// Waits for a condition.
async fn until(what: &str, said: impl Fn() -> String, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let came = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(came.is_ok(), "never came true: {what}\n{}", said());
}

async fn add_nodes(install: &Install) {
    for number in 0..NODES {
        let node = json!({"metadata": {"name": node_name(number), "labels": {"nvidia.com/gpu.clique": CLIQUE}}});
        install.create::<Node>(&install.all(), node).await;
    }
}

async fn add_domain(install: &Install, name: &str) -> String {
    let spec = json!({"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": format!("{name}-channel")}}});
    let domain = json!({"metadata": {"name": name}, "spec": spec});
    install
        .create::<ComputeDomain>(&install.domains(), domain)
        .await
        .uid()
        .to_owned()
}

/// Labels a node, as the kubelet plugin does.
async fn label(install: &Install, number: usize, uid: &str) {
    let patch = Patch::Merge(json!({"metadata": {"labels": {names::DOMAIN_LABEL: uid}}}));
    let nodes: Api<Node> = install.all();
    nodes
        .patch(&node_name(number), &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Reports the daemon pods that the DaemonSet controller has made as running and ready.
async fn run_daemons(install: &Install, uid: &str) {
    let pods: Api<Pod> = install.namespaced(DRIVER);
    let ours = ListParams::default().labels(&format!("{}={uid}", names::DOMAIN_LABEL));
    until(
        "a daemon pod on each node",
        || install.log("compute-domain-controller.log"),
        async || pods.list(&ours).await.unwrap().items.len() == NODES,
    )
    .await;
    for (number, pod) in pods.list(&ours).await.unwrap().items.into_iter().enumerate() {
        let name = pod.metadata.name.clone().unwrap();
        // The real DaemonSet controller names the node by affinity; the scheduler would bind the pod.
        let terms = &serde_json::to_value(&pod).unwrap()["spec"]["affinity"]["nodeAffinity"];
        let terms = &terms["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"];
        let node = terms[0]["matchFields"][0]["values"][0].as_str().unwrap().to_owned();
        let binding = json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": node}});
        let request = kube::core::Request::new(Pod::url_path(&(), Some(DRIVER)));
        let body = serde_json::to_vec(&binding).unwrap();
        let request = request
            .create_subresource("binding", &name, &PostParams::default(), body)
            .unwrap();
        let _: Value = install.control_plane.client().request(request).await.unwrap();
        let address = format!("10.0.0.{}", number + 1);
        let patch = Patch::Merge(
            json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}]}}),
        );
        pods.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rack_forms_with_few_writes_and_no_request_of_the_controller_is_denied() {
    let install = Install::start().await;
    add_nodes(&install).await;
    let controller = install.controller().await;
    let said = || install.log("compute-domain-controller.log");
    let uid = add_domain(&install, "imex").await;
    until("the objects of the domain", said, async || {
        install.log("compute-domain-controller.log").contains("forbidden")
            || install
                .namespaced::<k8s_openapi::api::apps::v1::DaemonSet>(DRIVER)
                .get_opt(&names::daemon_set(&uid))
                .await
                .unwrap()
                .is_some()
    })
    .await;
    join_all((0..NODES).map(|number| label(&install, number, &uid))).await;
    run_daemons(&install, &uid).await;
    let status = async || install.domains().get("imex").await.unwrap().status.unwrap_or_default();
    until("the domain is ready", said, async || {
        let status = status().await;
        status.status == Readiness::Ready && status.nodes.len() == NODES
    })
    .await;
    let clique = install.cliques().get(&names::clique(&uid, CLIQUE)).await.unwrap();
    let mut rows: Vec<(i64, &str)> = clique
        .daemons
        .iter()
        .map(|row| (row.index.unwrap(), &*row.node_name))
        .collect();
    rows.sort_unstable();
    let indices: Vec<i64> = rows.iter().map(|(index, _)| *index).collect();
    assert_eq!(indices, (0..18).collect::<Vec<_>>(), "dense and unique: {rows:?}");
    let (made, denied) = install.requests_of("compute-domain-controller");
    println!("requests of the controller: {made:#?}");
    let writes: usize = ["create", "patch", "update"]
        .iter()
        .filter_map(|verb| made.get(&format!("{verb} computedomaincliques")))
        .sum();
    println!("writes of the clique: {writes}");
    assert!(
        writes <= 12,
        "{writes} writes of the clique; pods were reported one by one, as slowly as this machine does it"
    );
    assert_eq!(denied, Vec::<String>::new());
    // The domain goes, and nothing of it stays.
    install
        .kubectl(&["delete", "computedomain", "imex", "--timeout=120s"])
        .await;
    let labelled = ListParams::default().labels(names::DOMAIN_LABEL);
    assert_eq!(install.all::<Node>().list(&labelled).await.unwrap().items.len(), 0);
    let (_, denied) = install.requests_of("compute-domain-controller");
    assert_eq!(denied, Vec::<String>::new());
    drop(controller);
}

/// The rules of the definitions, against a writer that is not ours.
#[tokio::test(flavor = "multi_thread")]
async fn no_writer_can_store_two_rows_with_one_index() {
    let install = Install::start().await;
    let row = |node: &str, index: i64| json!({"nodeName": node, "ipAddress": "", "cliqueID": CLIQUE, "index": index});
    let name = names::clique("0b5e0a0c-1ad6-4c3c-9c5e-0d5e4f0a9b11", CLIQUE);
    let object = |rows: &[Value]| {
        let object = json!({"metadata": {"name": name}, "daemons": rows});
        serde_json::from_value::<Clique>(object).unwrap()
    };
    let cliques = install.cliques();
    let refused = cliques
        .create(&PostParams::default(), &object(&[row("a", 0), row("b", 0)]))
        .await;
    assert!(refused.is_err_and(|error| error.to_string().contains("index")));
    assert!(
        cliques
            .create(&PostParams::default(), &object(&[row("a", -1)]))
            .await
            .is_err()
    );
    assert!(
        cliques
            .create(&PostParams::default(), &object(&[row("a", 256)]))
            .await
            .is_err()
    );
    let mut stored = cliques
        .create(&PostParams::default(), &object(&[row("a", 0)]))
        .await
        .unwrap();
    stored
        .daemons
        .push(serde_json::from_value::<DaemonRow>(row("b", 0)).unwrap());
    let refused = cliques.replace(&name, &PostParams::default(), &stored).await;
    assert!(refused.is_err(), "a full update, as NVIDIA's daemons send it");
    stored.daemons.truncate(1);
    stored.daemons[0].index = Some(3);
    assert!(
        cliques.replace(&name, &PostParams::default(), &stored).await.is_err(),
        "an index never moves"
    );
}

/// Rows of daemons of NVIDIA's driver (v0.4, v0.5) that run: adopted as they are.
#[tokio::test(flavor = "multi_thread")]
async fn rows_of_nvidias_daemons_are_adopted_and_no_index_changes() {
    let install = Install::start().await;
    add_nodes(&install).await;
    let uid = add_domain(&install, "imex").await;
    // Their pods: without our label, with their clique label; not of ours to make.
    let pods: Api<Pod> = install.namespaced(DRIVER);
    let mut rows = Vec::new();
    for (number, index) in [(0, 2), (1, 0), (2, 1)] {
        label(&install, number, &uid).await;
        let (name, address) = (format!("theirs-{number}"), format!("10.0.1.{number}"));
        let labels = json!({names::DOMAIN_LABEL: uid, names::CLIQUE_LABEL: CLIQUE});
        let spec =
            json!({"nodeName": node_name(number), "containers": [{"name": "compute-domain-daemon", "image": "i"}]});
        install
            .create::<Pod>(
                &pods,
                json!({"metadata": {"name": name, "labels": labels}, "spec": spec}),
            )
            .await;
        let patch = Patch::Merge(
            json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}],
            "conditions": [{"type": "Ready", "status": "True"}]}}),
        );
        pods.patch_status(&name, &PatchParams::default(), &patch).await.unwrap();
        rows.push(
            json!({"nodeName": node_name(number), "ipAddress": address, "cliqueID": CLIQUE, "index": index,
            "status": "Ready"}),
        );
    }
    let labels = json!({names::DOMAIN_LABEL: uid, names::CLIQUE_LABEL: CLIQUE});
    let name = names::clique(&uid, CLIQUE);
    install
        .create::<Clique>(
            &install.cliques(),
            json!({"metadata": {"name": name, "labels": labels}, "daemons": rows}),
        )
        .await;
    let _controller = install.controller().await;
    let said = || install.log("compute-domain-controller.log");
    until("the domain is ready with their rows", said, async || {
        let status = install.domains().get("imex").await.unwrap().status.unwrap_or_default();
        status.status == Readiness::Ready && status.nodes.len() == 3
    })
    .await;
    // A node that joins gets the lowest free index beside them.
    label(&install, 3, &uid).await;
    until("the row of the newcomer", said, async || {
        install.cliques().get(&name).await.unwrap().daemons.len() == 4
    })
    .await;
    let mut indices: Vec<(String, i64)> = Vec::new();
    for row in install.cliques().get(&name).await.unwrap().daemons {
        indices.push((row.node_name, row.index.unwrap()));
    }
    indices.sort();
    let expected: Vec<(String, i64)> = [2, 0, 1, 3]
        .into_iter()
        .enumerate()
        .map(|(number, index)| (node_name(number), index))
        .collect();
    assert_eq!(indices, expected);
}

/// The plugin under its rights: it may change its node and its slices, and no others.
#[tokio::test(flavor = "multi_thread")]
async fn the_plugin_publishes_its_node_and_may_touch_no_other() {
    let install = Install::start().await;
    for name in ["node-a", "node-b"] {
        install
            .create::<Node>(&install.all(), json!({"metadata": {"name": name}}))
            .await;
    }
    let kubeconfig = kubeconfig_of_pod(
        &install.control_plane,
        DRIVER,
        "compute-domain-kubelet-plugin",
        "node-a",
    )
    .await;
    let kubeconfig = install.file("plugin.kubeconfig", &kubeconfig);
    let fabric = "<fabric><state>Completed</state><status>Success</status><cliqueId>1</cliqueId>\
                  <clusterUuid>7a8e0c5e-3f9b-4a33-8f4e-cc8a6a1f2b0d</clusterUuid></fabric>";
    let smi = install.file(
        "smi.xml",
        &format!("<log><driver_version>580.65.06</driver_version><gpu>{fabric}</gpu></log>"),
    );
    let devices = install.file(
        "devices",
        "Character devices:\n234 nvidia-caps-imex-channels\n\nBlock devices:\n",
    );
    let at = |name: &str| install.directory.path().join(name).display().to_string();
    let arguments = [
        format!("--alt-nvidia-smi-output-path={}", smi.display()),
        format!("--alt-proc-devices-path={}", devices.display()),
        format!("--cdi-root={}", at("cdi")),
        format!("--kubelet-plugins-directory-path={}", at("plugins")),
        format!("--kubelet-registrar-directory-path={}", at("registry")),
        "--container-driver-root=/nonexistent".to_owned(),
    ];
    let plugin = install.program("compute-domain-kubelet-plugin", &arguments, &kubeconfig, Some("node-a"));
    let said = || install.log("compute-domain-kubelet-plugin.log");
    let slices: Api<ResourceSlice> = install.all();
    until("the slice", said, async || {
        slices.list(&ListParams::default()).await.unwrap().items.len() == 1
    })
    .await;
    let slice = slices.list(&ListParams::default()).await.unwrap().items.remove(0);
    assert_eq!(slice.spec.node_name.as_deref(), Some("node-a"));
    let (made, denied) = install.requests_of("compute-domain-kubelet-plugin");
    assert!(made.contains_key("create resourceslices"), "{made:?}");
    assert_eq!(denied, Vec::<String>::new());
    drop(plugin);

    // With its token: another node and another node's slice.
    let config = kube::Config::from_custom_kubeconfig(
        serde_saphyr::from_str(&std::fs::read_to_string(&kubeconfig).unwrap()).unwrap(),
        &kube::config::KubeConfigOptions::default(),
    )
    .await
    .unwrap();
    let client = kube::Client::try_from(config).unwrap();
    let nodes: Api<Node> = Api::all(client.clone());
    let labelled = Patch::Merge(json!({"metadata": {"labels": {names::DOMAIN_LABEL: "x"}}}));
    nodes.patch("node-a", &PatchParams::default(), &labelled).await.unwrap();
    // A policy is at work some time after it was created.
    let refused = async || nodes.patch("node-b", &PatchParams::default(), &labelled).await.err();
    until("the policy refuses another node", said, async || {
        refused().await.is_some()
    })
    .await;
    let refused = refused().await.unwrap().to_string();
    assert!(
        refused.contains("may change that node and its own ResourceSlices only"),
        "{refused}"
    );
    let cordoned = Patch::Merge(json!({"spec": {"unschedulable": true}}));
    assert!(nodes.patch("node-a", &PatchParams::default(), &cordoned).await.is_err());
    let foreign = json!({"metadata": {"name": "foreign"}, "spec": {"driver": names::DRIVER, "nodeName": "node-b",
        "pool": {"name": "node-b", "generation": 1, "resourceSliceCount": 1}, "devices": []}});
    let foreign: ResourceSlice = serde_json::from_value(foreign).unwrap();
    let created = Api::<ResourceSlice>::all(client)
        .create(&PostParams::default(), &foreign)
        .await;
    assert!(created.is_err());
    let _: Namespace = install.all::<Namespace>().get(DRIVER).await.unwrap();
}
