//! The servers under measurement, each in processes of its own: the embedded one as a child that runs this very program,
//! the real one through the test harness's launcher. Both end with this process.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use coppice_bench::child::Running;
use serde::Deserialize;

use crate::client::Endpoint;
use crate::report::RealServer;

/// A running server.
pub(crate) struct Server {
    /// How to reach it.
    pub(crate) endpoint: Endpoint,
    /// The processes whose CPU time is the server's.
    pub(crate) processes: Vec<u32>,
    _running: Running,
}

/// What the launcher of the real control plane prints.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Launched {
    kubeconfig: PathBuf,
    processes: Vec<u32>,
    kube_apiserver: String,
    etcd: String,
    start_milliseconds: f64,
}

impl Server {
    /// Starts the embedded server. Returns once it listens.
    pub(crate) fn embedded() -> anyhow::Result<Self> {
        let (running, kubeconfig) = Running::embedded()?;
        Ok(Self {
            endpoint: Endpoint::from_kubeconfig(&kubeconfig)?,
            processes: vec![running.id()],
            _running: running,
        })
    }

    /// Starts a real kube-apiserver and etcd through the test harness. Returns once they are ready. The harness is built
    /// without optimisation: it only starts the programs.
    pub(crate) fn real(flush_to_disk: bool) -> anyhow::Result<(Self, RealServer)> {
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command.args(["run", "--quiet", "--locked", "-p", "coppice-harness"]);
        command.args(["--bin", "real-control-plane", "--"]);
        command.args(flush_to_disk.then_some("--flush"));
        let (running, mut lines) = Running::start(&mut command)?;
        let line = lines.next().context("the real control plane did not start")??;
        let launched: Launched = serde_json::from_str(&line)?;
        let kubeconfig = std::fs::read_to_string(&launched.kubeconfig)?;
        let server = Self {
            endpoint: Endpoint::from_kubeconfig(&kubeconfig)?,
            processes: launched.processes,
            _running: running,
        };
        let about = RealServer {
            kube_apiserver: launched.kube_apiserver,
            etcd: launched.etcd,
            etcd_flushes_to_disk: flush_to_disk,
            start_milliseconds: launched.start_milliseconds,
        };
        Ok((server, about))
    }
}
