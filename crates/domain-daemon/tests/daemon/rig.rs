//! A daemon on an embedded API server with a stand-in `nvidia-imex`: a program of ours that records what happens to it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use coppice_apiserver::ApiServer;
use coppice_domain_daemon::{DaemonError, Paths, Settings, run, socket};
use coppice_domains::api::{Clique, DaemonRow, crd, names};
use coppice_runtime::clock::{SharedClock, SystemClock};
use coppice_runtime::layers::{self, Call, Fault};
use coppice_runtime::supervise::{Group, Supervisor};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub const DOMAIN: &str = "0b5e0a0c-1ad6-4c3c-9c5e-0d5e4f0a9b11";
pub const CLIQUE: &str = "7a8e0c5e.1";

/// An API server with the definitions.
pub struct Cluster {
    server: ApiServer,
    pub client: Client,
}

impl Cluster {
    pub async fn start() -> Self {
        let server = ApiServer::builder().seed(1).build();
        let client = layers::client_of_service(server.service(), "default", &layers::Options::default());
        let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
        for definition in crd::all() {
            let definition = serde_json::from_value(definition).unwrap();
            definitions.create(&PostParams::default(), &definition).await.unwrap();
        }
        Self { server, client }
    }

    pub fn cliques(&self) -> Api<Clique> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// What a controller does: stores the rows.
    pub async fn store(&self, rows: &[DaemonRow]) {
        let name = names::clique(DOMAIN, CLIQUE);
        let cliques = self.cliques();
        if cliques.get_opt(&name).await.unwrap().is_none() {
            let labels = json!({names::DOMAIN_LABEL: DOMAIN, names::CLIQUE_LABEL: CLIQUE});
            let clique = json!({"metadata": {"name": name, "labels": labels}, "daemons": rows});
            let clique = serde_json::from_value(clique).unwrap();
            cliques.create(&PostParams::default(), &clique).await.unwrap();
            return;
        }
        let patch = Patch::Merge(json!({"daemons": rows}));
        cliques.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    }

    pub async fn rows(&self) -> Vec<DaemonRow> {
        let clique = self.cliques().get_opt(&names::clique(DOMAIN, CLIQUE)).await.unwrap();
        clique.map(|clique| clique.daemons).unwrap_or_default()
    }
}

pub fn row(node: &str, index: i64, address: &str, pod: Option<&str>) -> DaemonRow {
    DaemonRow {
        node_name: node.into(),
        ip_address: address.into(),
        clique_id: CLIQUE.into(),
        index: Some(index),
        pod_uid: pod.map(str::to_owned),
        ..DaemonRow::default()
    }
}

/// A daemon as a task, its files and its stand-in.
pub struct Daemon {
    pub directory: tempfile::TempDir,
    pub settings: Settings,
    pub writes: Arc<AtomicUsize>,
    stop: CancellationToken,
    task: JoinHandle<Result<(), DaemonError>>,
    group: Group,
}

fn program(path: &Path, text: &str) -> PathBuf {
    fs::write(path, text).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    path.to_owned()
}

/// Records its starts and signals; ends at once with a complaint while `in-use` exists; ignores SIGTERM while `stubborn` does.
const IMEX: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
echo "start $$" >> log
if [ -e in-use ]; then echo "imex session: NV_ERR_IN_USE" >&2; exit 1; fi
trap 'echo usr1 >> log' USR1
if [ -e stubborn ]; then
  trap 'echo term >> log' TERM
else
  trap 'echo term >> log; rm -f up; kill $waiting; exit 0' TERM
fi
touch up
while :; do sleep 20 & waiting=$!; wait $waiting; kill $waiting 2>/dev/null; done
"#;

const CONTROL: &str = r#"#!/bin/sh
cd "$(dirname "$0")"
if [ -e up ]; then echo READY; else echo UNAVAILABLE; fi
"#;

impl Daemon {
    pub fn start(cluster: &Cluster, node: &str, address: &str, pod: &str) -> Self {
        Self::start_with(cluster, node, address, pod, CLIQUE, Arc::new(SystemClock), &[])
    }

    pub fn start_with(
        cluster: &Cluster,
        node: &str,
        address: &str,
        pod: &str,
        clique: &str,
        clock: SharedClock,
        switches: &[&str],
    ) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        for switch in switches {
            fs::write(at(switch), "").unwrap();
        }
        fs::write(at("hosts"), "127.0.0.1\tlocalhost\n").unwrap();
        fs::write(at("imexd.cfg.tmpl"), "BIND={{ .IMEXCmdBindInterfaceIP }}\n").unwrap();
        let paths = Paths {
            directory: directory.path().to_owned(),
            hosts: at("hosts"),
            imex: program(&at("nvidia-imex"), IMEX),
            imex_ctl: program(&at("nvidia-imex-ctl"), CONTROL),
        };
        let variable = |name: &str| {
            let value = match name {
                "COMPUTE_DOMAIN_UUID" => DOMAIN,
                "CLIQUE_ID" => clique,
                "NODE_NAME" => node,
                "POD_IP" => address,
                "POD_UID" | "POD_NAME" => pod,
                "POD_NAMESPACE" => "default",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let settings = Settings::read(variable, paths).unwrap();
        let writes = Arc::new(AtomicUsize::new(0));
        let counted = writes.clone();
        let hook = move |call: &Call| {
            if call.is_write() {
                counted.fetch_add(1, Ordering::Relaxed);
            }
            Fault::Pass
        };
        let options = layers::Options {
            faults: Some(Arc::new(hook)),
            ..layers::Options::default()
        };
        let client = layers::client_of_service(cluster.server.service(), "default", &options);
        let group = Supervisor::default().group("daemon");
        let stop = CancellationToken::new();
        let task = tokio::spawn({
            let (settings, group, stop) = (settings.clone(), group.clone(), stop.clone());
            async move { run(client, settings, clock, &group, stop).await }
        });
        Self {
            directory,
            settings,
            writes,
            stop,
            task,
            group,
        }
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.directory.path().join(name)).unwrap_or_default()
    }

    /// What happened to the stand-in, in order, without process ids.
    pub fn log(&self) -> Vec<String> {
        let log = self.read("log");
        log.lines()
            .filter_map(|line| line.split(' ').next().map(str::to_owned))
            .collect()
    }

    /// The id of the process that was started last.
    pub fn process(&self) -> Option<i32> {
        let log = self.read("log");
        let start = log.lines().filter_map(|line| line.strip_prefix("start ")).next_back()?;
        start.parse().ok()
    }

    pub async fn check(&self) -> Result<(), String> {
        socket::check(&self.settings.paths.socket(), DOMAIN).await
    }

    pub async fn ready(&self) {
        until("the daemon is ready", async || self.check().await.is_ok()).await;
    }

    pub async fn not_ready(&self, words: &str) {
        until(words, async || {
            self.check().await.is_err_and(|problem| problem.contains(words))
        })
        .await;
    }

    /// Asks it to end and waits for it.
    pub async fn end(self) -> tempfile::TempDir {
        self.stop.cancel();
        self.task.await.unwrap().unwrap();
        self.group.stop(Duration::from_secs(5)).await;
        self.directory
    }
}

/// Waits for a condition; a minute is long enough for anything here.
pub async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let waiting = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), waiting)
        .await
        .unwrap_or_else(|_| panic!("never came true: {what}"));
}
