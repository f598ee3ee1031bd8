//! The control plane under the workload: a real kube-apiserver with etcd, or the embedded server as a process of its
//! own. Beside either run the same simulated nodes, stand-in scheduler and garbage collector, in this process and as
//! ordinary clients, so that operator and floor client meet the same cluster.

use std::path::{Path, PathBuf};

use clap::ValueEnum;
use coppice_bench::child::Running as Child;
use coppice_cluster::profile::NodeProfile;
use coppice_cluster::{Controllers, Options as ClusterOptions, SimulatedCluster};
use coppice_harness::control_plane::{ControlPlane, Options as ControlPlaneOptions};
use coppice_runtime::layers::{self, Limits};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::{Deserialize, Serialize};

use crate::requests::DRIVER;

const POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "ResponseStarted"],
 "rules": [{"level": "None", "nonResourceURLs": ["*"]}, {"level": "Metadata"}]}"#;

/// Which control plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    /// A real kube-apiserver with etcd.
    Real,
    /// The embedded one.
    Embedded,
}

enum Running {
    Real(Box<ControlPlane>),
    Embedded(Child),
}

/// A running control plane with simulated nodes.
pub(crate) struct Plane {
    /// Which one.
    pub(crate) kind: Kind,
    /// What it consists of.
    pub(crate) versions: String,
    /// A client for this program.
    pub(crate) client: Client,
    /// A kubeconfig file with full rights.
    pub(crate) kubeconfig: PathBuf,
    /// Where the API server logs requests, if it does.
    pub(crate) audit: Option<PathBuf>,
    /// The process of the API server.
    pub(crate) api_server: u32,
    /// The process of etcd.
    pub(crate) etcd: Option<u32>,
    /// For files of this run.
    pub(crate) directory: tempfile::TempDir,
    cluster: Option<SimulatedCluster>,
    _running: Running,
}

impl Plane {
    /// Starts a control plane with so many nodes. `flush`: whether etcd writes to disk before it answers.
    pub(crate) async fn start(kind: Kind, nodes: u32, flush: bool) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("coppice-workload-").tempdir()?;
        let (running, versions, kubeconfig) = match kind {
            Kind::Real => {
                let plane = real(directory.path(), flush).await?;
                let versions = plane.versions();
                let words = format!("kube-apiserver {}, etcd {}", versions.kube_apiserver, versions.etcd);
                let kubeconfig = plane.kubeconfig().to_owned();
                (Running::Real(Box::new(plane)), words, kubeconfig)
            }
            Kind::Embedded => {
                let (child, text) = Child::embedded()?;
                let kubeconfig = directory.path().join("kubeconfig");
                std::fs::write(&kubeconfig, text)?;
                let words = concat!("embedded API server ", env!("CARGO_PKG_VERSION")).to_owned();
                (Running::Embedded(child), words, kubeconfig)
            }
        };
        let client = client(&kubeconfig, DRIVER).await?;
        let options = ClusterOptions::default()
            .nodes(NodeProfile::Small, nodes)
            .heartbeats(None)
            .controllers(Controllers::all());
        let cluster = SimulatedCluster::start(client.clone(), options).await?;
        let (etcd, api_server) = match &running {
            Running::Real(plane) => match plane.processes()[..] {
                [etcd, api_server] => (Some(etcd), api_server),
                _ => anyhow::bail!("the API server has ended"),
            },
            Running::Embedded(child) => (None, child.id()),
        };
        let audit = (kind == Kind::Real).then(|| directory.path().join("audit.log"));
        Ok(Self {
            kind,
            versions,
            client,
            kubeconfig,
            audit,
            api_server,
            etcd,
            directory,
            cluster: Some(cluster),
            _running: running,
        })
    }

    /// Stops everything, clients first.
    pub(crate) async fn stop(mut self) {
        if let Some(cluster) = self.cluster.take() {
            cluster.stop().await;
        }
    }
}

/// A client that calls itself `agent`, without a limit of requests that anybody here could reach.
pub(crate) async fn client(kubeconfig: &Path, agent: &str) -> anyhow::Result<Client> {
    let kubeconfig = Kubeconfig::read_from(kubeconfig)?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let options = layers::Options {
        user_agent: Some(agent.to_owned()),
        limits: Limits {
            in_flight: 256,
            rate: None,
        },
        ..layers::Options::default()
    };
    Ok(layers::client(config, &options)?)
}

async fn real(directory: &Path, flush: bool) -> anyhow::Result<ControlPlane> {
    let policy = directory.join("audit-policy.json");
    std::fs::write(&policy, POLICY)?;
    let options = ControlPlaneOptions {
        flush_to_disk: flush,
        api_server_flags: vec![
            format!("--audit-policy-file={}", policy.display()),
            format!("--audit-log-path={}", directory.join("audit.log").display()),
            // In one file to the end.
            "--audit-log-maxsize=100000".to_owned(),
        ],
        ..ControlPlaneOptions::default()
    };
    Ok(ControlPlane::start(&options).await?)
}
