//! The three loads: creates, status patches, and events to many watchers. Each is prepared, then released at once and
//! timed as a whole; CPU time is read before and after for the server's processes and for this one.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::client::{Connection, Endpoint, Prepared};
use crate::events::Events;
use crate::objects;
use crate::server::Server;
use coppice_bench::process;

/// How much is sent.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Sizes {
    /// Pods per round.
    pub(crate) pods: usize,
    /// Connections that send requests.
    pub(crate) connections: usize,
    /// Open watches.
    pub(crate) watchers: usize,
    /// Events that every watch is to receive.
    pub(crate) events: usize,
    /// How many events may be ahead of the slowest watch.
    pub(crate) ahead: usize,
    /// How many may be ahead when a server that bears it is measured once more.
    pub(crate) further_ahead: usize,
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
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Round {
    /// Pods created.
    pub(crate) creates: Measured,
    /// Pod statuses patched from pending to running.
    pub(crate) patches: Measured,
    /// Events delivered to watchers.
    pub(crate) fan_out: Measured,
    /// The same with more events ahead of the slowest watch, unless the server would end watches then.
    pub(crate) further_fan_out: Option<Measured>,
}

/// How far a server lets its watchers fall behind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Patience {
    /// It ends a watch that is a few events behind.
    Short,
    /// It remembers for them.
    Long,
}

/// Runs the loads in a fresh namespace and removes what they made.
pub(crate) async fn round(server: &Server, patience: Patience, sizes: Sizes, number: usize) -> anyhow::Result<Round> {
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
    let first = fan_out(server, sizes, &pods, objects::unready()).await?;
    let further_fan_out = match patience {
        Patience::Short => None,
        Patience::Long => {
            let ahead = sizes.further_ahead;
            Some(fan_out(server, Sizes { ahead, ..sizes }, &pods, objects::ready()).await?)
        }
    };
    let mut removal = Prepared::get(format!("{pods}?gracePeriodSeconds=0"));
    removal.method = http::Method::DELETE;
    endpoint.once(&removal).await?;
    Ok(Round {
        creates,
        patches,
        fan_out: first,
        further_fan_out,
    })
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

async fn send_all(
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
    finish(senders).await
}

/// Opens the watches on the pods of one namespace, then changes pods, and waits until every watch has told every change.
async fn fan_out(server: &Server, sizes: Sizes, pods: &str, change: Value) -> anyhow::Result<Measured> {
    let endpoint = &server.endpoint;
    let list = endpoint.once(&Prepared::get(format!("{pods}?limit=1"))).await?;
    let list: Value = serde_json::from_slice(&list)?;
    let revision = list["metadata"]["resourceVersion"]
        .as_str()
        .context("the list has no resourceVersion")?;
    let watch = format!("{pods}?watch=true&resourceVersion={revision}&timeoutSeconds=3000");
    let mut watches: Vec<Events> = Vec::with_capacity(sizes.watchers);
    for _ in 0..sizes.watchers {
        watches.push(endpoint.watch(&watch).await?);
    }
    let changes = (0..sizes.events)
        .map(|index| Prepared::patch(format!("{pods}/{}/status", pod_name(index)), &change))
        .collect();
    let connections = connect(endpoint, sizes.connections).await?;

    let window = Arc::new(Window::new(sizes));
    let clock = Clock::start(server)?;
    let mut readers = JoinSet::new();
    for mut events in watches {
        let window = window.clone();
        readers.spawn(async move { events.read(sizes.events, |events| window.told(events)).await });
    }
    // Together: a watch that ends too early would let the changes wait for ever.
    tokio::try_join!(send_all(connections, changes, Some(&window)), finish(readers))?;
    clock.stop(server, sizes.watchers * sizes.events)
}

/// Lets a change go when every watch has told the one that is so many before it. Without that, the senders outrun the watches,
/// and a real server ends those that are further behind than its buffer for them, which holds ten events at least.
struct Window {
    /// How many watches have told the first event, the second, and so on.
    told: Vec<AtomicUsize>,
    watchers: usize,
    permits: Semaphore,
}

impl Window {
    fn new(sizes: Sizes) -> Self {
        Self {
            told: (0..sizes.events).map(|_| AtomicUsize::new(0)).collect(),
            watchers: sizes.watchers,
            permits: Semaphore::new(sizes.ahead),
        }
    }

    async fn wait(&self) -> anyhow::Result<()> {
        self.permits.acquire().await?.forget();
        Ok(())
    }

    fn told(&self, events: Range<usize>) {
        for count in &self.told[events] {
            if count.fetch_add(1, Ordering::Relaxed) + 1 == self.watchers {
                self.permits.add_permits(1);
            }
        }
    }
}

async fn connect(endpoint: &Endpoint, count: usize) -> anyhow::Result<Vec<Connection>> {
    let mut connections = Vec::with_capacity(count);
    for _ in 0..count {
        connections.push(endpoint.connect().await?);
    }
    Ok(connections)
}

async fn finish(mut tasks: JoinSet<anyhow::Result<()>>) -> anyhow::Result<()> {
    while let Some(result) = tasks.join_next().await {
        result??;
    }
    Ok(())
}

struct Clock {
    server_cpu: Duration,
    client_cpu: Duration,
    start: Instant,
}

impl Clock {
    fn start(server: &Server) -> anyhow::Result<Self> {
        Ok(Self {
            server_cpu: process::cpu(&server.processes)?,
            client_cpu: process::cpu(&[std::process::id()])?,
            start: Instant::now(),
        })
    }

    fn stop(self, server: &Server, count: usize) -> anyhow::Result<Measured> {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_wait_for_the_slowest_watch() {
        let window = Window::new(Sizes {
            pods: 0,
            connections: 0,
            watchers: 2,
            events: 5,
            ahead: 2,
            further_ahead: 2,
        });
        window.told(0..3);
        assert_eq!(window.permits.available_permits(), 2);
        window.told(0..1);
        assert_eq!(window.permits.available_permits(), 3);
        window.told(1..5);
        assert_eq!(window.permits.available_permits(), 5);
    }
}
