//! The loads of a round: creates, status patches, and events to many watchers (`fan_out`). Each is prepared, then released at
//! once and timed as a whole; CPU time is read before and after for the server's processes and for this one.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::client::{Connection, Endpoint, Prepared};
use crate::fan_out::{self, FanOut, Watched, Window};
use crate::objects;
use crate::server::Server;
use coppice_bench::process;

/// How much is sent.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Sizes {
    /// Pods per round.
    pub(crate) pods: usize,
    /// Connections that send requests.
    pub(crate) connections: usize,
    /// Open watches.
    pub(crate) watchers: usize,
    /// Events that every watch is to receive.
    pub(crate) events: usize,
    /// How many events may be ahead of the slowest watch: each of these is tried, from the least.
    pub(crate) ahead: Vec<usize>,
}

/// One timed load.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Measured {
    /// Requests answered or events delivered.
    pub(crate) count: usize,
    /// From the first to the last of them, in seconds.
    pub(crate) seconds: f64,
    /// CPU seconds of the server's processes.
    pub(crate) server_cpu_seconds: f64,
    /// CPU seconds of the client.
    pub(crate) client_cpu_seconds: f64,
}

impl Measured {
    /// Requests or deliveries per second.
    pub(crate) fn per_second(&self) -> f64 {
        self.count as f64 / self.seconds
    }

    /// CPU microseconds of the server per request or delivery.
    pub(crate) fn server_micros(&self) -> f64 {
        self.server_cpu_seconds * 1e6 / self.count as f64
    }

    /// CPU microseconds of the client per request or delivery.
    pub(crate) fn client_micros(&self) -> f64 {
        self.client_cpu_seconds * 1e6 / self.count as f64
    }
}

/// All loads of one round on one server.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Round {
    /// Pods created.
    pub(crate) creates: Measured,
    /// Pod statuses patched from pending to running.
    pub(crate) patches: Measured,
    /// Events of pods delivered to watchers, with more and more of them ahead of the slowest watch.
    pub(crate) pod_events: Vec<FanOut>,
    /// The same with events of endpoint slices.
    pub(crate) slice_events: Vec<FanOut>,
}

/// Runs the loads in a fresh namespace and removes what they made.
pub(crate) async fn round(server: &Server, sizes: &Sizes, number: usize) -> anyhow::Result<Round> {
    let endpoint = &server.endpoint;
    let namespace = format!("round-{number}");
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    endpoint.once(&Prepared::create("/api/v1/namespaces", &object)).await?;
    let pods = format!("/api/v1/namespaces/{namespace}/pods");
    let creates = (0..sizes.pods).map(|index| {
        let name = pod_name(index);
        Prepared::create(&pods, &objects::pod(&namespace, &name, index))
    });
    let creates = requests(server, sizes.connections, creates.collect()).await?;
    let patches = (0..sizes.pods).map(|index| running_patch(&namespace, index));
    let patches = requests(server, sizes.connections, patches.collect()).await?;
    let pod_events = fan_out::rising(server, sizes, &watched_pods(&pods, sizes.events)).await?;
    let slices = format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices");
    for index in 0..sizes.events {
        let slice = objects::endpoint_slice(&namespace, &slice_name(index), index);
        endpoint.once(&Prepared::create(&slices, &slice)).await?;
    }
    let slice_events = fan_out::rising(server, sizes, &watched_slices(&slices, &namespace, sizes.events)).await?;
    for collection in [pods, slices] {
        let mut removal = Prepared::get(format!("{collection}?gracePeriodSeconds=0"));
        removal.method = http::Method::DELETE;
        endpoint.once(&removal).await?;
    }
    Ok(Round {
        creates,
        patches,
        pod_events,
        slice_events,
    })
}

/// Pods whose readiness probes fail and succeed.
fn watched_pods(pods: &str, events: usize) -> Watched {
    let changes = |change: Value| {
        (0..events)
            .map(|index| Prepared::patch(format!("{pods}/{}/status", pod_name(index)), &change))
            .collect()
    };
    Watched {
        collection: pods.to_owned(),
        there: changes(objects::unready()),
        back: changes(objects::ready()),
    }
}

/// Endpoint slices in which the same is told to every node.
fn watched_slices(slices: &str, namespace: &str, events: usize) -> Watched {
    let changes = |ready: bool| {
        (0..events)
            .map(|index| {
                let change = json!({"endpoints": objects::endpoints(namespace, index, ready)});
                Prepared::patch(format!("{slices}/{}", slice_name(index)), &change)
            })
            .collect()
    };
    Watched {
        collection: slices.to_owned(),
        there: changes(false),
        back: changes(true),
    }
}

fn slice_name(index: usize) -> String {
    format!("serving-{index}-x7k2p")
}

/// The name of a pod by its number.
pub(crate) fn pod_name(index: usize) -> String {
    format!("serving-{}-decode-{index:06}", index / 32)
}

/// The patch that reports a pod as running.
pub(crate) fn running_patch(namespace: &str, index: usize) -> Prepared {
    let path = format!("/api/v1/namespaces/{namespace}/pods/{}/status", pod_name(index));
    Prepared::patch(path, &objects::running(index))
}

/// Sends all requests over `connections`, each one as soon as the one before it on its connection is answered.
pub(crate) async fn requests(server: &Server, connections: usize, requests: Vec<Prepared>) -> anyhow::Result<Measured> {
    let connections = connect(&server.endpoint, connections).await?;
    let count = requests.len();
    let clock = Clock::start(server)?;
    send_all(connections, requests, None).await?;
    clock.stop(server, count)
}

/// Sends all requests, each when the window lets it go and its connection is free.
pub(crate) async fn send_all(
    connections: Vec<Connection>,
    requests: Vec<Prepared>,
    window: Option<&Arc<Window>>,
) -> anyhow::Result<()> {
    let (requests, next) = (Arc::new(requests), Arc::new(AtomicUsize::new(0)));
    let mut senders = JoinSet::new();
    for mut connection in connections {
        let (requests, next, window) = (requests.clone(), next.clone(), window.cloned());
        senders.spawn(async move {
            while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Some(window) = &window {
                    window.wait().await?;
                }
                connection.send(request).await?;
            }
            anyhow::Ok(())
        });
    }
    finish(senders).await?;
    Ok(())
}

/// Opens so many connections.
pub(crate) async fn connect(endpoint: &Endpoint, count: usize) -> anyhow::Result<Vec<Connection>> {
    let mut connections = Vec::with_capacity(count);
    for _ in 0..count {
        connections.push(endpoint.connect().await?);
    }
    Ok(connections)
}

/// Waits for all tasks, and fails with the first that fails.
pub(crate) async fn finish<T: 'static>(mut tasks: JoinSet<anyhow::Result<T>>) -> anyhow::Result<Vec<T>> {
    let mut results = Vec::with_capacity(tasks.len());
    while let Some(result) = tasks.join_next().await {
        results.push(result??);
    }
    Ok(results)
}

/// Reads times when a load begins and when it ends.
pub(crate) struct Clock {
    server_cpu: Duration,
    client_cpu: Duration,
    start: Instant,
}

impl Clock {
    pub(crate) fn start(server: &Server) -> anyhow::Result<Self> {
        Ok(Self {
            server_cpu: process::cpu(&server.processes)?,
            client_cpu: process::cpu(&[std::process::id()])?,
            start: Instant::now(),
        })
    }

    pub(crate) fn stop(self, server: &Server, count: usize) -> anyhow::Result<Measured> {
        let seconds = self.start.elapsed().as_secs_f64();
        let server_cpu = process::cpu(&server.processes)? - self.server_cpu;
        let client_cpu = process::cpu(&[std::process::id()])? - self.client_cpu;
        Ok(Measured {
            count,
            seconds,
            server_cpu_seconds: server_cpu.as_secs_f64(),
            client_cpu_seconds: client_cpu.as_secs_f64(),
        })
    }
}
