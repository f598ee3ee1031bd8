//! The single manifest on a real kube-apiserver: applied as it is, with the operator and the scheduler running as the
//! service accounts that it makes, under RBAC, until a serving system is ready. A request that is denied fails the test.
//!
//! No kubelet runs the Deployments here: the test starts the two programs with the arguments and the configuration that the
//! manifest gives them, and an EndpointSlice leads the webhooks' Service to this machine.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and tells what it saw"
)]

mod accounts;

use std::collections::BTreeMap;
use std::net::{IpAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use accounts::kubeconfig_of;
use coppice_cluster::profile::NodeProfile;
use coppice_cluster::{Options as ClusterOptions, SimulatedCluster};
use coppice_harness::control_plane::{Assets, ControlPlane, Options};
use coppice_operator::webhooks::Endpoint;
use coppice_operator::webhooks::configurations::{Address, configuration};
use futures::StreamExt as _;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{ListParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

const NAMESPACE: &str = "coppice-system";
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
                // Services are reached by their endpoints: nothing here routes their addresses.
                "--enable-aggregator-routing=true".to_owned(),
            ],
            ..Options::default()
        };
        let control_plane = ControlPlane::start(&options).await.unwrap();
        Self {
            control_plane,
            directory,
            audit_log,
        }
    }

    async fn kubectl(&self, arguments: &[&str]) -> Output {
        let kubectl = Assets::from_environment().unwrap().program("kubectl").unwrap();
        let run = Command::new(kubectl)
            .arg("--kubeconfig")
            .arg(self.control_plane.kubeconfig())
            .args(arguments)
            .current_dir(root())
            .output();
        tokio::time::timeout(PATIENCE, run)
            .await
            .expect("kubectl ends")
            .unwrap()
    }

    async fn kubectl_succeeds(&self, arguments: &[&str]) {
        let output = self.kubectl(arguments).await;
        assert!(
            output.status.success(),
            "kubectl {arguments:?}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }

    /// A file with the kubeconfig of a service account of the manifest.
    async fn account(&self, name: &str) -> PathBuf {
        let file = self.directory.path().join(name);
        std::fs::write(&file, kubeconfig_of(&self.control_plane, NAMESPACE, name).await).unwrap();
        file
    }

    /// The operator's configuration from the manifest, on ports that are free here, and with the authorizer.
    async fn configuration(&self, webhooks: u16) -> PathBuf {
        let maps: Api<ConfigMap> = Api::namespaced(self.control_plane.client(), NAMESPACE);
        let selector = ListParams::default().labels("app.kubernetes.io/component=operator-configmap");
        let map = maps.list(&selector).await.unwrap().items.remove(0);
        let text = &map.data.unwrap()["config.yaml"];
        let mut configuration: Value = serde_saphyr::from_str(text).unwrap();
        let server = &mut configuration["server"];
        server["webhooks"]["port"] = json!(webhooks);
        server["healthProbes"]["port"] = json!(free_port());
        server["metrics"]["port"] = json!(free_port());
        configuration["authorizer"]["enabled"] = json!(true);
        let file = self.directory.path().join("config.json");
        std::fs::write(&file, configuration.to_string()).unwrap();
        file
    }

    /// Leads the Service of the webhooks to a port of this machine.
    async fn endpoints(&self, port: u16) {
        let services: Api<Service> = Api::namespaced(self.control_plane.client(), NAMESPACE);
        services
            .get("grove-operator")
            .await
            .expect("the manifest has the Service");
        let slices: Api<EndpointSlice> = Api::namespaced(self.control_plane.client(), NAMESPACE);
        let address = own_address();
        let family = if address.is_ipv4() { "IPv4" } else { "IPv6" };
        let slice = json!({
            "metadata": {"name": "grove-operator-here", "labels": {"kubernetes.io/service-name": "grove-operator"}},
            "addressType": family,
            "ports": [{"name": "webhooks", "port": port, "protocol": "TCP"}],
            "endpoints": [{"addresses": [address.to_string()], "conditions": {"ready": true}}],
        });
        let slice = serde_json::from_value(slice).unwrap();
        slices.create(&PostParams::default(), &slice).await.unwrap();
    }

    /// Guards managed objects, as the chart does where `config.authorizer.enabled` is set.
    async fn guard(&self) {
        let all: Api<ValidatingWebhookConfiguration> = Api::all(self.control_plane.client());
        let beside = all.get("podcliqueset-validating-webhook").await.unwrap();
        let service = beside.webhooks.unwrap().remove(0).client_config.service.unwrap();
        let address = Address::Service {
            namespace: service.namespace,
            name: service.name,
            port: u16::try_from(service.port.unwrap_or(443)).unwrap(),
        };
        let guard = serde_json::from_value(configuration(Endpoint::Authorize, &address)).unwrap();
        all.create(&PostParams::default(), &guard).await.unwrap();
    }

    /// Waits until the operator has put its CA into a webhook configuration.
    async fn trusted(&self, configuration: &str) {
        let all: Api<ValidatingWebhookConfiguration> = Api::all(self.control_plane.client());
        let config = watcher::Config::default().fields(&format!("metadata.name={configuration}"));
        let mut changes = Box::pin(watcher(all, config).default_backoff().applied_objects());
        let waiting = async {
            while let Some(found) = changes.next().await {
                let mut webhooks = found.unwrap().webhooks.unwrap_or_default().into_iter();
                if webhooks.all(|webhook| {
                    webhook
                        .client_config
                        .ca_bundle
                        .is_some_and(|bundle| !bundle.0.is_empty())
                }) {
                    return;
                }
            }
            panic!("the watch ended");
        };
        tokio::time::timeout(PATIENCE, waiting)
            .await
            .expect("the CA is patched in");
    }

    /// `coppice doctor` finds nothing to do about it.
    async fn is_healthy(&self) {
        let doctor = Command::new(env!("CARGO_BIN_EXE_coppice"))
            .args(["doctor", "--kubeconfig"])
            .arg(self.control_plane.kubeconfig())
            .output();
        let output = doctor.await.unwrap();
        let findings = String::from_utf8_lossy(&output.stdout);
        println!("{findings}");
        assert!(
            output.status.success() && findings.contains("0 warnings, 0 failed"),
            "{findings}"
        );
    }

    /// Requests by verb and resource of a service account, and those that were denied.
    fn requests_of(&self, account: &str) -> (BTreeMap<String, usize>, Vec<String>) {
        let user = format!("system:serviceaccount:{NAMESPACE}:{account}");
        let (mut made, mut denied) = (BTreeMap::new(), Vec::new());
        for line in std::fs::read_to_string(&self.audit_log).unwrap().lines() {
            let Ok(event) = serde_json::from_str::<Value>(line) else {
                continue;
            };
            if event["user"]["username"] != user.as_str() {
                continue;
            }
            let reference = &event["objectRef"];
            let subresource = reference["subresource"]
                .as_str()
                .map(|name| format!("/{name}"))
                .unwrap_or_default();
            let what = format!(
                "{} {}{subresource}",
                event["verb"].as_str().unwrap_or_default(),
                reference["resource"].as_str().unwrap_or_default()
            );
            if event["responseStatus"]["code"] == 403 {
                denied.push(format!("{what}: {}", event["requestURI"]));
            }
            *made.entry(what).or_default() += 1;
        }
        (made, denied)
    }
}

/// An address of this machine that an EndpointSlice may hold: loopback ones are refused.
fn own_address() -> IpAddr {
    // Connecting a datagram socket sends nothing; it only chooses the address to send from.
    let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
    socket
        .connect("192.0.2.1:9")
        .expect("this test needs a network interface besides loopback");
    socket.local_addr().unwrap().ip()
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("0.0.0.0:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

fn coppice(arguments: &[&str], kubeconfig: &Path, log: &Path) -> Child {
    let log = std::fs::File::create(log).unwrap();
    Command::new(env!("CARGO_BIN_EXE_coppice"))
        .args(arguments)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .env("POD_NAMESPACE", NAMESPACE)
        .env("GROVE_OPERATOR_SERVICE_ACCOUNT_NAME", "grove-operator")
        .env("COPPICE_WAITER_IMAGE", "coppice:test")
        .stdout(Stdio::null())
        .stderr(log)
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_manifest_is_enough_for_a_serving_system_and_no_request_is_denied() {
    let install = Install::start().await;
    install
        .kubectl_succeeds(&["apply", "--server-side", "-f", "deploy/install.yaml"])
        .await;
    install
        .kubectl_succeeds(&["wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"])
        .await;
    // Simulated nodes would run the Deployments too, and stand behind the Service as endpoints that do not answer.
    install
        .kubectl_succeeds(&["-n", NAMESPACE, "scale", "deployment", "--all", "--replicas=0"])
        .await;
    let nodes = ClusterOptions::default().nodes(NodeProfile::Gb200Nvl72, 36);
    let cluster = SimulatedCluster::start(install.control_plane.client(), nodes)
        .await
        .unwrap();

    install.guard().await;
    let port = free_port();
    install.endpoints(port).await;
    let configuration = install.configuration(port).await;
    let logs = [
        install.directory.path().join("operator.log"),
        install.directory.path().join("scheduler.log"),
    ];
    let operator = coppice(
        &["operator", "--config", configuration.to_str().unwrap()],
        &install.account("grove-operator").await,
        &logs[0],
    );
    let scheduler = coppice(
        &[
            "scheduler",
            "--scheduler-name=coppice",
            &format!("--leader-election-namespace={NAMESPACE}"),
        ],
        &install.account("coppice-scheduler").await,
        &logs[1],
    );
    let told = || {
        logs.iter()
            .map(|log| std::fs::read_to_string(log).unwrap_or_default())
            .collect::<String>()
    };
    install.trusted("podcliqueset-validating-webhook").await;
    install.trusted("authorizer-webhook").await;

    install
        .kubectl_succeeds(&["create", "-f", "examples/topology.yaml"])
        .await;

    // Admission is at work: a mistake is refused with its field.
    let example = std::fs::read_to_string(root().join("examples/disaggregated.yaml")).unwrap();
    let mistaken = install.directory.path().join("mistaken.yaml");
    std::fs::write(
        &mistaken,
        example.replace("startsAfter: [router]", "startsAfter: [nobody]"),
    )
    .unwrap();
    let refused = install.kubectl(&["create", "-f", mistaken.to_str().unwrap()]).await;
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && message.contains("startsAfter"),
        "{message}\n{}",
        told()
    );

    install
        .kubectl_succeeds(&["create", "-f", "examples/disaggregated.yaml"])
        .await;
    let ready = ["wait", "podcliqueset/llm", "--for=condition=Ready", "--timeout=120s"];
    let waited = install.kubectl(&ready).await;
    assert!(
        waited.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&waited.stderr),
        told()
    );
    // What the operator manages is its own, also from administrators; sizes are everybody's.
    let refused = install.kubectl(&["delete", "podclique/llm-0-router"]).await;
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(
        !refused.status.success() && message.contains("is managed by PodCliqueSet \"llm\""),
        "{message}"
    );
    install
        .kubectl_succeeds(&["scale", "podcliquescalinggroup/llm-0-decode", "--replicas=2"])
        .await;
    let available = "--for=jsonpath={.status.availableReplicas}=2";
    install
        .kubectl_succeeds(&[
            "wait",
            "podcliquescalinggroup/llm-0-decode",
            available,
            "--timeout=120s",
        ])
        .await;
    install.is_healthy().await;
    install
        .kubectl_succeeds(&["delete", "podcliqueset/llm", "--wait", "--timeout=120s"])
        .await;

    drop((operator, scheduler));
    cluster.stop().await;
    for account in ["grove-operator", "coppice-scheduler"] {
        let (made, denied) = install.requests_of(account);
        println!("{account}: {made:?}");
        assert!(made.values().sum::<usize>() > 0, "{account} made no request");
        assert!(denied.is_empty(), "{account} was denied: {denied:#?}");
    }
}
