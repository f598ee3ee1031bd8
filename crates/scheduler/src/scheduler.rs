//! Starting and stopping the scheduler, and its loop: changes in, decisions out.
//!
//! Owns the one task that touches the engine. It wakes when a watched object changed, when an action ended, or when the
//! engine asked for it; lets changes gather for a moment; decides; and starts what was decided beside itself. Never polls.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use coppice_runtime::cache::{Cache, ObjectKey};
use coppice_runtime::clock::{SharedClock, SystemClock, instant_of};
use coppice_runtime::lease::Leadership;
use coppice_runtime::metrics::Metrics;
use coppice_runtime::supervise::{Group, Supervisor, panic_message};
use coppice_runtime::write::{self, Writer};
use coppice_runtime::{events, metrics};
use futures::FutureExt;
use kube::Client;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::info;

use crate::actions::Actions;
use crate::engine::{Decision, Engine, Settings};
use crate::model::{GangId, Model};
use crate::world::World;

/// The name of the scheduler when none is given.
pub const DEFAULT_NAME: &str = "coppice";

/// How the scheduler runs.
#[derive(Clone)]
pub struct Options {
    /// Pods that name one of these schedulers are placed.
    pub names: Vec<String>,
    /// How to decide.
    pub settings: Settings,
    /// How long changes gather before a decision.
    pub window: Duration,
    /// Writes in flight at most.
    pub concurrent_writes: usize,
    /// How long claims on volumes may take to be bound before their gang gives its room back.
    pub volume_wait: Duration,
    /// Where time comes from.
    pub clock: SharedClock,
    /// Whether this process may write.
    pub leadership: Leadership,
    /// Where to count.
    pub metrics: Metrics,
    /// Where a task that ends unexpectedly is reported.
    pub supervisor: Supervisor,
}

/// How long a gang is set aside after an action for it panicked.
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(10);
/// How long the tasks have to end; a request has its own, shorter limit.
const GRACE: Duration = Duration::from_secs(40);

impl Default for Options {
    fn default() -> Self {
        Self {
            names: vec![DEFAULT_NAME.to_owned()],
            settings: Settings::default(),
            window: Duration::from_millis(10),
            concurrent_writes: 64,
            volume_wait: Duration::from_mins(10),
            clock: Arc::new(SystemClock),
            leadership: Leadership::always(),
            metrics: Metrics::default(),
            supervisor: Supervisor::default(),
        }
    }
}

/// A running scheduler.
pub struct Scheduler {
    group: Group,
    idle: watch::Receiver<bool>,
}

impl Scheduler {
    /// Starts watching, waits until everything was listed once, and begins to work when it leads.
    pub async fn start(client: Client, options: Options) -> Self {
        let group = options.supervisor.group("scheduler");
        let world = World::new(Cache::new(options.metrics.clone()));
        let (recorder, sink) = events::recorder("coppice-scheduler", options.clock.clone(), &options.metrics);
        let writer = Writer::new(
            client.clone(),
            options.leadership.clone(),
            write::Options {
                concurrency: options.concurrent_writes,
                manager: "coppice-scheduler".to_owned(),
                metrics: options.metrics.clone(),
                ..write::Options::default()
            },
        );
        world.watch(&client, &group);
        group.spawn("events", sink.run(client, group.stopping()));
        world.cache.wait_synced().await;
        options.leadership.wait_leading().await;
        info!(names = ?options.names, "the scheduler is working");
        let (told, idle) = watch::channel(false);
        let (ended, ends) = mpsc::unbounded_channel();
        let decisions = options.metrics.histogram(
            "scheduler_decision_seconds",
            "How long a decision about all waiting gangs takes",
            metrics::SECONDS,
        );
        let panics = options.metrics.counter(
            "scheduler_panics",
            "Panics that were caught, by what panicked: an action, a decision (its gang is set aside for a while), or the intake of an object",
        );
        let work = Work {
            actions: Actions::new(
                world.clone(),
                writer,
                recorder,
                options.clock.clone(),
                options.volume_wait,
            ),
            engine: Engine::new(Model::new(options.names), options.settings),
            world,
            clock: options.clock,
            window: options.window,
            tasks: TaskTracker::new(),
            under_way: 0,
            ended,
            ends,
            idle: told,
            took: decisions.with(&[]),
            action_panics: panics.with(&[("in", "action")]),
            decision_panics: panics.with(&[("in", "decision")]),
            intake_panics: panics.with(&[("in", "intake")]),
        };
        group.spawn("decisions", work.run(group.stopping()));
        Self { group, idle }
    }

    /// Waits until nothing is to be decided and nothing is under way. What waits for a time, or for room, does not count.
    pub async fn wait_idle(&self) {
        let mut idle = self.idle.clone();
        // The sender lives in the worker; one that has ended has nothing to do.
        let _ = idle.wait_for(|idle| *idle).await;
    }

    /// Stops, and lets what is under way end.
    pub async fn stop(self) {
        self.group.stop(GRACE).await;
    }
}

/// What became of something under way.
struct Ended {
    gang: Option<GangId>,
    not_bound: Vec<ObjectKey>,
    /// Why its claims were not bound.
    volumes: Option<String>,
    /// Whether the gang says that it is placed, where it was to be told so.
    confirmed: Option<bool>,
}

impl Ended {
    fn of(gang: Option<GangId>) -> Self {
        Self {
            gang,
            not_bound: Vec::new(),
            volumes: None,
            confirmed: None,
        }
    }
}

struct Work {
    world: World,
    engine: Engine,
    actions: Actions,
    clock: SharedClock,
    window: Duration,
    tasks: TaskTracker,
    under_way: usize,
    ended: mpsc::UnboundedSender<Ended>,
    ends: mpsc::UnboundedReceiver<Ended>,
    idle: watch::Sender<bool>,
    took: Histogram,
    action_panics: Counter,
    decision_panics: Counter,
    intake_panics: Counter,
}

impl Work {
    async fn run(mut self, stop: CancellationToken) {
        let mut wake = None;
        loop {
            // Ends first: what an action wrote is in the cache before it ends, so the model never lags behind it.
            while let Ok(ended) = self.ends.try_recv() {
                self.take_in(&ended);
            }
            self.world.update(&mut self.engine.model);
            let began = tokio::time::Instant::now();
            let now = self.clock.now();
            let decision = self.engine.decide(now);
            for rejected in self.engine.model.take_rejected() {
                self.intake_panics.inc();
                self.actions.rejected(&rejected);
            }
            self.took.observe(began.elapsed().as_secs_f64());
            wake = decision.wake.or(wake.filter(|at| *at > now));
            self.begin(decision);
            let quiet = self.under_way == 0 && !self.world.has_changed();
            self.idle.send_replace(quiet);
            let alarm = async {
                match wake {
                    Some(at) => tokio::time::sleep_until(instant_of(&*self.clock, at)).await,
                    None => std::future::pending().await,
                }
            };
            let ended = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                ended = self.ends.recv() => ended,
                () = self.world.bell.notified() => None,
                () = alarm => None,
            };
            self.idle.send_replace(false);
            if let Some(ended) = ended {
                self.take_in(&ended);
            }
            tokio::time::sleep(self.window).await;
        }
        self.tasks.close();
        self.tasks.wait().await;
    }

    fn take_in(&mut self, ended: &Ended) {
        self.under_way -= 1;
        for pod in &ended.not_bound {
            self.engine.not_bound(pod);
        }
        if let Some(gang) = &ended.gang {
            self.engine.done(gang);
            if let Some(problem) = &ended.volumes {
                self.engine.volumes_failed(gang, problem.clone(), self.clock.now());
            }
        }
        if let (Some(GangId::Gang(key)), Some(told)) = (&ended.gang, ended.confirmed) {
            self.engine.confirmed(key, told, self.clock.now());
        }
    }

    fn begin(&mut self, decision: Decision) {
        for aside in &decision.set_aside {
            self.decision_panics.inc();
            self.actions
                .panicked(Some(&aside.gang), "deciding about", &aside.message);
        }
        for commit in decision.commits {
            let pods = commit.bindings.iter().map(|bind| bind.pod.key.clone());
            let given_up = Ended {
                not_bound: pods.collect(),
                ..Ended::of(Some(commit.gang.clone()))
            };
            self.start(given_up, |actions| async move {
                let (not_bound, volumes) = actions.commit(&commit).await;
                Ended {
                    not_bound,
                    volumes,
                    ..Ended::of(Some(commit.gang))
                }
            });
        }
        for eviction in decision.evictions {
            let given_up = Ended::of(Some(eviction.gang.clone()));
            self.start(given_up, |actions| async move {
                actions.evict(&eviction).await;
                Ended::of(Some(eviction.gang))
            });
        }
        for release in decision.releases {
            let given_up = Ended::of(Some(release.gang.clone()));
            self.start(given_up, |actions| async move {
                actions.release(&release).await;
                Ended::of(Some(release.gang))
            });
        }
        for report in decision.reports {
            let given_up = Ended::of(report.whole.then(|| report.gang.clone()));
            self.start(given_up, |actions| async move {
                actions.report(&report).await;
                Ended::of(report.whole.then_some(report.gang))
            });
        }
        for confirmation in decision.confirmations {
            let given_up = Ended {
                confirmed: Some(false),
                ..Ended::of(Some(GangId::Gang(confirmation.gang.clone())))
            };
            self.start(given_up, |actions| async move {
                let told = actions.confirm(&confirmation).await;
                Ended {
                    confirmed: Some(told),
                    ..Ended::of(Some(GangId::Gang(confirmation.gang)))
                }
            });
        }
    }

    /// Carries something out beside the loop. An action that panics sets its gang aside for a while: `given_up` is what
    /// becomes of it then.
    fn start<F>(&mut self, given_up: Ended, act: impl FnOnce(Actions) -> F)
    where
        F: Future<Output = Ended> + Send + 'static,
    {
        self.under_way += 1;
        let (actions, panics, ended) = (self.actions.clone(), self.action_panics.clone(), self.ended.clone());
        let action = AssertUnwindSafe(act(actions.clone())).catch_unwind();
        self.tasks.spawn(async move {
            let done = match action.await {
                Ok(done) => done,
                Err(panic) => {
                    panics.inc();
                    actions.panicked(given_up.gang.as_ref(), "acting on", panic_message(&*panic));
                    tokio::time::sleep(PAUSE_AFTER_PANIC).await;
                    given_up
                }
            };
            // The receiver is gone only when the scheduler has stopped.
            let _ = ended.send(done);
        });
    }
}
