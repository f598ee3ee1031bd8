//! Starting and stopping the operator. Its tasks are essential: the supervisor in its options reports the first that ends.

use std::sync::Arc;
use std::time::Duration;

use coppice_core::settings::Settings;
use coppice_runtime::backoff::Backoff;
use coppice_runtime::cache::Cache;
use coppice_runtime::clock::{SharedClock, SystemClock};
use coppice_runtime::lease::Leadership;
use coppice_runtime::metrics::Metrics;
use coppice_runtime::queue::{self, Queue};
use coppice_runtime::supervise::{Group, Supervisor};
use coppice_runtime::write::{self, Writer};
use coppice_runtime::{events, queue::Summary};
use kube::Client;
use tokio::sync::oneshot;
use tracing::{error, info};

use crate::actions::Actions;
use crate::controller::Controller;
use crate::keys::Key;
use crate::world::{Served, World};

/// How the operator runs.
#[derive(Clone)]
pub struct Options {
    /// What planners are told.
    pub settings: Settings,
    /// Keys that are worked on at the same time.
    pub workers: usize,
    /// Writes in flight at most.
    pub concurrent_writes: usize,
    /// Where time comes from.
    pub clock: SharedClock,
    /// Whether this process may write.
    pub leadership: Leadership,
    /// Where to count.
    pub metrics: Metrics,
    /// Where a task that ends unexpectedly is reported.
    pub supervisor: Supervisor,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            settings: Settings::default(),
            workers: 16,
            concurrent_writes: 32,
            clock: Arc::new(SystemClock),
            leadership: Leadership::always(),
            metrics: Metrics::default(),
            supervisor: Supervisor::default(),
        }
    }
}

/// Which of the kinds that the API server serves are used by the settings. A cluster without a scheduler need not let us
/// read its objects; gangs are not written for a scheduler of Kubernetes that does not know them.
fn enabled(mut served: Served, settings: &mut Settings) -> Served {
    if settings.auto_mnnvl && !served.compute_domains {
        error!(
            "NVLink groups are switched on, but the API server has no ComputeDomains (resource.nvidia.com/v1beta1): \
             install NVIDIA's DRA driver, then restart the operator"
        );
    }
    let lacks = |scheduler: &str, kind: &str| {
        error!(
            "{scheduler} is one of the schedulers, but the API server has no {kind}: install {scheduler}, then restart the \
             operator"
        );
    };
    if settings.kai && !served.kai_topologies {
        lacks("KAI", "Topologies (kai.scheduler/v1alpha1)");
    }
    if settings.kai && !served.kai_pod_groups {
        lacks("KAI", "PodGroups (scheduling.run.ai/v2alpha2)");
    }
    if settings.volcano && !served.volcano_pod_groups {
        lacks("Volcano", "PodGroups (scheduling.volcano.sh/v1beta1)");
    }
    if settings.native_gangs && !served.native_pod_groups {
        error!(
            "gang scheduling of default-scheduler is switched on, but the API server has no PodGroups \
             (scheduling.k8s.io/v1alpha2): enable the feature gates GenericWorkload and GangScheduling and that version, then \
             restart the operator"
        );
        settings.native_gangs = false;
    }
    served.kai_topologies &= settings.kai;
    served.kai_pod_groups &= settings.kai;
    served.volcano_pod_groups &= settings.volcano;
    served.native_pod_groups &= settings.native_gangs;
    served
}

/// Asks which kinds there are, until the API server answers.
async fn served(client: &Client) -> Served {
    let backoff = Backoff {
        longest: Duration::from_secs(5),
        ..Backoff::default()
    };
    backoff.until_ok("discovery", || Served::discover(client)).await
}

/// A running operator.
pub struct Operator {
    group: Group,
    queue: Queue<Key>,
    summary: oneshot::Receiver<Summary>,
}

/// How long the tasks have to end: running work has its own grace period in the queue, the last events have theirs.
const GRACE: Duration = Duration::from_secs(40);

impl Operator {
    /// Starts watching, waits until everything was listed once, and begins to work when it leads.
    pub async fn start(client: Client, options: Options) -> Self {
        let world = World::new(Cache::new(options.metrics.clone()));
        Self::start_on(world, client, options).await
    }

    /// The same on a world that others read, such as the webhooks. It must be new: an operator fills and listens to it.
    pub async fn start_on(world: World, client: Client, options: Options) -> Self {
        let group = options.supervisor.group("operator");
        let (recorder, sink) = events::recorder("coppice-operator", options.clock.clone(), &options.metrics);
        let writer = Writer::new(
            client.clone(),
            options.leadership.clone(),
            write::Options {
                concurrency: options.concurrent_writes,
                manager: "coppice-operator".to_owned(),
                metrics: options.metrics.clone(),
                ..write::Options::default()
            },
        );
        let queue = Queue::new(
            queue::Options {
                workers: options.workers,
                metrics: options.metrics.clone(),
                ..queue::Options::named("operator")
            },
            options.clock.clone(),
        );
        let mut settings = options.settings;
        let served = enabled(served(&client).await, &mut settings);
        let actions = Actions::new(world.clone(), writer, recorder);
        let controller = Arc::new(Controller::new(world, actions, settings, options.clock, queue.clone()));
        controller.listen();
        controller.serves(served);
        controller.world.watch(&client, &served, &group);
        group.spawn("events", sink.run(client, group.stopping()));
        controller.world.cache.wait_synced().await;
        options.leadership.wait_leading().await;
        info!("the operator is working");
        let (done, summary) = oneshot::channel();
        let work = queue
            .clone()
            .run(group.stopping(), move |key| controller.clone().work(key));
        group.spawn("queue", async move {
            // Not received when nothing waits for the summary.
            let _ = done.send(work.await);
        });
        Self { group, queue, summary }
    }

    /// Waits until nothing is due or running. What waits for a time does not count.
    pub async fn wait_idle(&self) {
        self.queue.wait_idle().await;
    }

    /// Ends it at once, as a crash would: no running work ends, no answer is awaited.
    pub fn abort(self) {
        self.group.abort();
    }

    /// Stops, and lets running work end. Returns what was done.
    pub async fn stop(self) -> Summary {
        self.group.stop(GRACE).await;
        // A queue that ended by a panic or an abort has none.
        self.summary.await.unwrap_or_default()
    }
}
