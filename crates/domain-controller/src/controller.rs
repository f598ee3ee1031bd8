//! Starting and stopping the controller, its keys, and which change marks which key.
//!
//! Changes of nodes, pods and cliques come in bursts; they gather for a moment before the domain is planned. Never polls:
//! every run is caused by a change, by a time that a decider named, or by a failure.

use std::sync::Arc;
use std::time::Duration;

use coppice_domains::api::names;
use coppice_domains::decide::render::RenderSettings;
use coppice_runtime::cache::{Cache, Change, ObjectKey};
use coppice_runtime::clock::{SharedClock, SystemClock, later};
use coppice_runtime::events;
use coppice_runtime::lease::Leadership;
use coppice_runtime::metrics::Metrics;
use coppice_runtime::queue::{self, Outcome, Priority, Queue};
use coppice_runtime::supervise::{Group, Supervisor};
use coppice_runtime::write::{self, WriteError, Writer};
use kube::{Client, Resource};
use tracing::info;

use crate::actions::Actions;
use crate::state::States;
use crate::views::{DaemonPodView, ObjectView};
use crate::world::World;

/// How the controller runs.
#[derive(Clone)]
pub struct Options {
    /// What it renders, and the namespace of the driver.
    pub settings: RenderSettings,
    /// Further namespaces whose DaemonSets and cliques are managed: those of earlier installations.
    pub additional_namespaces: Vec<String>,
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
            settings: RenderSettings::default(),
            additional_namespaces: Vec::new(),
            workers: 48,
            concurrent_writes: 32,
            clock: Arc::new(SystemClock),
            leadership: Leadership::always(),
            metrics: Metrics::default(),
            supervisor: Supervisor::default(),
        }
    }
}

/// What is worked on, by UID of the domain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    /// Objects and status of a domain.
    Domain(String),
    /// The rows of its cliques.
    Rows(String),
    /// A write or read of one clique.
    Write(String, String),
    /// Live reads for one clique.
    Check(String, String),
    /// What deleted domains left behind.
    Leftovers,
}

/// How long changes gather.
const GATHERING: Duration = Duration::from_millis(20);
/// How long the tasks have to end: running work has its own grace period in the queue.
const GRACE: Duration = Duration::from_secs(40);

pub(crate) struct Controller {
    pub(crate) client: Client,
    pub(crate) world: World,
    pub(crate) actions: Actions,
    pub(crate) settings: RenderSettings,
    pub(crate) clock: SharedClock,
    pub(crate) queue: Queue<Key>,
    pub(crate) states: States,
}

impl Controller {
    async fn work(self: Arc<Self>, key: Key) -> Outcome<WriteError> {
        match &key {
            Key::Domain(uid) => self.reconcile(uid).await,
            Key::Rows(uid) => self.plan_rows(uid),
            Key::Write(uid, clique) => self.write_rows(uid, clique).await,
            Key::Check(uid, clique) => self.check_rows(uid, clique).await,
            Key::Leftovers => self.remove_leftovers().await,
        }
    }

    fn soon(&self, uid: &str) {
        let at = later(self.clock.now(), GATHERING);
        self.queue.mark_at(Key::Rows(uid.to_owned()), at);
        self.queue.mark_at(Key::Domain(uid.to_owned()), at);
    }

    /// Something that names a domain has changed. Whether the domain exists is looked at when the key runs.
    fn touched(&self, uid: &str) {
        self.soon(uid);
        if self.world.domain(&self.world.cache.moment(), uid).is_none() {
            self.queue.mark_at(Key::Leftovers, later(self.clock.now(), GATHERING));
        }
    }

    fn object_changed(&self, change: &Change<ObjectView>) {
        for view in change.old.iter().chain(&change.new) {
            view.existing.domain_uid.iter().for_each(|uid| self.touched(uid));
        }
    }

    fn pod_changed(&self, change: &Change<DaemonPodView>) {
        let replaced = |old: &DaemonPodView| change.new.as_ref().is_none_or(|new| new.facts.uid != old.facts.uid);
        if let Some(old) = change.old.as_ref().filter(|old| replaced(old))
            && let Some(uid) = &old.domain_uid
        {
            self.states
                .with_existing(uid, |state| state.deleted_pods.insert(old.facts.uid.clone()));
        }
        for uid in change
            .old
            .iter()
            .chain(&change.new)
            .filter_map(|pod| pod.domain_uid.as_ref())
        {
            self.soon(uid);
        }
    }

    /// Marks the keys of whatever a change concerns.
    fn listen(self: &Arc<Self>) {
        let this = self.clone();
        self.world.domains.on_change(move |change| {
            for domain in change.old.iter().chain(&change.new) {
                this.queue.mark(Key::Domain(domain.uid().to_owned()), Priority::High);
                this.queue.mark(Key::Rows(domain.uid().to_owned()), Priority::High);
            }
        });
        let this = self.clone();
        self.world.nodes.on_change(move |change| {
            for uid in change
                .old
                .iter()
                .chain(&change.new)
                .filter_map(|node| node.domain_uid.as_ref())
            {
                this.touched(uid);
            }
        });
        let this = self.clone();
        self.world.slices.on_change(move |change| {
            for slice in change.old.iter().chain(&change.new) {
                let uid = this.world.domain_of_node(&slice.node);
                uid.iter().for_each(|uid| this.soon(uid));
            }
        });
        let this = self.clone();
        self.world.templates.on_change(move |change| {
            this.object_changed(change);
            // The name that a domain wants may be free now, or taken.
            this.wanted_template_changed(&change.key);
        });
        for managed in &self.world.managed {
            let this = self.clone();
            managed.daemon_sets.on_change(move |change| this.object_changed(change));
            let this = self.clone();
            managed.pods.on_change(move |change| this.pod_changed(change));
            let this = self.clone();
            managed.cliques.on_change(move |change| {
                for clique in change.old.iter().chain(&change.new) {
                    let labels = clique.meta().labels.as_ref();
                    if let Some(uid) = labels.and_then(|labels| labels.get(names::DOMAIN_LABEL)) {
                        this.soon(uid);
                    }
                }
            });
        }
    }

    fn wanted_template_changed(&self, key: &ObjectKey) {
        let moment = self.world.cache.moment();
        for domain in self.world.domains_wanting(&moment, key) {
            self.queue.mark(Key::Domain(domain.uid().to_owned()), Priority::High);
        }
    }
}

/// A running controller.
pub struct DomainController {
    group: Group,
    queue: Queue<Key>,
}

impl DomainController {
    /// Starts watching, waits until everything was listed once, and begins to work when it leads.
    pub async fn start(client: Client, options: Options) -> Self {
        let group = options.supervisor.group("compute-domain-controller");
        let mut namespaces = vec![options.settings.namespace.clone()];
        for namespace in options.additional_namespaces {
            if !namespace.is_empty() && !namespaces.contains(&namespace) {
                namespaces.push(namespace);
            }
        }
        let world = World::new(Cache::new(options.metrics.clone()), &namespaces);
        let name = "compute-domain-controller";
        let (recorder, sink) = events::recorder(name, options.clock.clone(), &options.metrics);
        let writer = Writer::new(
            client.clone(),
            options.leadership.clone(),
            write::Options {
                concurrency: options.concurrent_writes,
                manager: name.to_owned(),
                metrics: options.metrics.clone(),
                ..write::Options::default()
            },
        );
        let queue = Queue::new(
            queue::Options {
                workers: options.workers,
                metrics: options.metrics.clone(),
                ..queue::Options::named(name)
            },
            options.clock.clone(),
        );
        let actions = Actions {
            world: world.clone(),
            writer,
            recorder,
        };
        let controller = Arc::new(Controller {
            client: client.clone(),
            world,
            actions,
            settings: options.settings,
            clock: options.clock,
            queue: queue.clone(),
            states: States::default(),
        });
        controller.listen();
        controller.world.watch(&client, &group);
        group.spawn("events", sink.run(client, group.stopping()));
        controller.world.cache.wait_synced().await;
        options.leadership.wait_leading().await;
        info!(?namespaces, "the compute-domain controller is working");
        let work = queue
            .clone()
            .run(group.stopping(), move |key| controller.clone().work(key));
        group.spawn("queue", async move {
            work.await;
        });
        Self { group, queue }
    }

    /// Waits until nothing is due or running. What waits for a time does not count.
    pub async fn wait_idle(&self) {
        self.queue.wait_idle().await;
    }

    /// Ends it at once, as a crash would: no running work ends, no answer is awaited.
    pub fn abort(self) {
        self.group.abort();
    }

    /// Stops, and lets running work end.
    pub async fn stop(self) {
        self.group.stop(GRACE).await;
    }
}
