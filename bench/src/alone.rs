//! What is measured on the embedded server alone: its memory when it holds a large cluster, and the time it takes to start.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;
use serde_json::json;

use crate::client::Prepared;
use crate::load::{pod_name, requests, running_patch};
use crate::objects;
use crate::server::Server;
use coppice_bench::process;

/// Requests are made and sent in portions, so that the client stays small.
const PORTION: usize = 5_000;
const NAMESPACE: &str = "fleet";

/// The memory of a server that holds a cluster.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Memory {
    /// Pods held, each created and then patched to running.
    pub(crate) pods: usize,
    /// Nodes held.
    pub(crate) nodes: usize,
    /// The JSON of all pods and nodes together, in bytes.
    pub(crate) json_bytes: u64,
    /// Resident memory at the end.
    pub(crate) resident_bytes: u64,
    /// The most resident memory at any time.
    pub(crate) peak_bytes: u64,
}

/// Fills a fresh server through its API while one client watches all pods, and reads its memory.
pub(crate) async fn memory(pods: usize, nodes: usize, connections: usize) -> anyhow::Result<Memory> {
    let server = Server::embedded()?;
    let process = server.processes[0];
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    server
        .endpoint
        .once(&Prepared::create("/api/v1/namespaces", &namespace))
        .await?;
    let mut events = server
        .endpoint
        .watch("/api/v1/pods?watch=true&timeoutSeconds=3000")
        .await?;
    let watcher = tokio::spawn(async move { events.read(2 * pods, |_| ()).await });

    send(&server, connections, nodes, |index| {
        Prepared::create("/api/v1/nodes", &objects::node(index))
    })
    .await?;
    let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
    send(&server, connections, pods, |index| {
        Prepared::create(&path, &objects::pod(NAMESPACE, &pod_name(index), index))
    })
    .await?;
    send(&server, connections, pods, |index| running_patch(NAMESPACE, index)).await?;
    watcher.await??;

    let resident_bytes = process::memory(process, "VmRSS")?;
    let peak_bytes = process::memory(process, "VmHWM")?;
    // After reading: lists of everything are large answers of their own.
    let mut json_bytes = 0;
    for path in ["/api/v1/pods", "/api/v1/nodes"] {
        json_bytes += server.endpoint.once(&Prepared::get(path)).await?.len() as u64;
    }
    Ok(Memory {
        pods,
        nodes,
        json_bytes,
        resident_bytes,
        peak_bytes,
    })
}

async fn send(
    server: &Server,
    connections: usize,
    count: usize,
    prepare: impl Fn(usize) -> Prepared,
) -> anyhow::Result<()> {
    for start in (0..count).step_by(PORTION) {
        let portion = (start..count.min(start + PORTION)).map(&prepare).collect();
        requests(server, connections, portion).await?;
    }
    Ok(())
}

/// How long fresh servers take from the start of their process until `/readyz` answers "ok", one after the other.
pub(crate) async fn starts(count: usize) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        let server = Server::embedded()?;
        let answer = server
            .endpoint
            .once(&Prepared::get("/readyz"))
            .await
            .context("readyz")?;
        times.push(start.elapsed());
        ensure!(&*answer == b"ok", "/readyz answered {answer:?}");
    }
    Ok(times)
}
