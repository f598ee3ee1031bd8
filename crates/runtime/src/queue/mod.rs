//! The keyed work queue: each key runs on one worker at a time, and as rarely as its events allow.
//!
//! Owns when a key runs. Marks coalesce on the leading edge: a mark runs at once, marks during a run make one more run
//! after it. A run ends with [`Outcome`]: done, again at a computed time, or failed and to be retried with exponential
//! backoff. A nearer time replaces a farther one, a mark overtakes both. Panics are caught, counted and retried.
//!
//! Order is deterministic: by priority, then by when a key became due. Works under paused time. Never polls.
//!
//! ```
//! use coppice_runtime::{clock::TokioClock, queue::{Options, Outcome, Priority, Queue}};
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
//! let clock = std::sync::Arc::new(TokioClock::new("2026-01-01T00:00:00Z".parse().unwrap()));
//! let queue = Queue::new(Options::named("example"), clock);
//! let stop = tokio_util::sync::CancellationToken::new();
//! queue.mark("a", Priority::High);
//! queue.mark("a", Priority::High);
//! let worker = tokio::spawn(queue.clone().run(stop.clone(), |key| async move {
//!     assert_eq!(key, "a");
//!     Outcome::<std::convert::Infallible>::Done
//! }));
//! queue.wait_idle().await;
//! stop.cancel();
//! assert_eq!(worker.await.unwrap().runs, 1);
//! # }
//! ```

mod state;

use std::{fmt::Display, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::metrics::{counter::Counter, gauge::Gauge, histogram::Histogram};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tokio::{sync::Notify, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::{error, warn};

pub use self::state::Priority;
use self::state::{Ended, State};
use crate::{
    backoff::Backoff,
    clock::{SharedClock, instant_of},
    metrics::{Metrics, SECONDS},
    supervise::panic_message,
};

/// How a run of a key ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome<E> {
    /// Nothing more to do until something changes.
    Done,
    /// Nothing more to do until something changes or this time comes.
    RequeueAt(Timestamp),
    /// It failed: try again after a backoff.
    Retry(E),
    /// It failed, and whoever refused said how long to wait at least.
    RetryAfter(E, Duration),
}

/// What a run brought: its outcome, or what it panicked with.
type Ran<E> = Result<Outcome<E>, Box<dyn std::any::Any + Send>>;

/// How a queue works.
#[derive(Clone)]
pub struct Options {
    /// The name in logs and metrics.
    pub name: String,
    /// How many keys run at the same time.
    pub workers: usize,
    /// The waits after failures.
    pub backoff: Backoff,
    /// The seed of their jitter.
    pub seed: u64,
    /// How long a drain waits for running keys before it drops them.
    pub grace: Duration,
    /// Where to count.
    pub metrics: Metrics,
}

impl Options {
    /// The usual options.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            workers: 8,
            backoff: Backoff::default(),
            seed: 0,
            grace: Duration::from_secs(30),
            metrics: Metrics::default(),
        }
    }
}

/// What a queue has done until it was stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Runs begun.
    pub runs: u64,
    /// Runs that were still going when the grace period ended, and were dropped.
    pub dropped: usize,
}

struct Counters {
    depth: Gauge,
    running: Gauge,
    waited: Histogram,
    took: Histogram,
    runs: Counter,
    retries: Counter,
    panics: Counter,
}

struct Shared<K> {
    options: Options,
    clock: SharedClock,
    state: Mutex<(State<K>, ChaCha8Rng)>,
    changed: Notify,
    idle: Notify,
    counters: Counters,
}

/// A queue of keys. Clones share.
pub struct Queue<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<K> Queue<K>
where
    K: Ord + Clone + std::fmt::Debug + Send + Sync + 'static,
{
    /// An empty queue.
    #[must_use]
    pub fn new(options: Options, clock: SharedClock) -> Self {
        let label = [("queue", options.name.as_str())];
        let metrics = &options.metrics;
        let counters = Counters {
            depth: metrics.gauge("queue_depth", "Keys that are due").with(&label),
            running: metrics.gauge("queue_running", "Keys that run").with(&label),
            waited: metrics
                .histogram("queue_wait_seconds", "Time from due to running", SECONDS)
                .with(&label),
            took: metrics
                .histogram("queue_run_seconds", "Time of a run", SECONDS)
                .with(&label),
            runs: metrics.counter("queue_runs", "Runs begun").with(&label),
            retries: metrics
                .counter("queue_retries", "Runs that failed and are retried")
                .with(&label),
            panics: metrics.counter("queue_panics", "Runs that panicked").with(&label),
        };
        let random = ChaCha8Rng::seed_from_u64(options.seed);
        let shared = Shared {
            options,
            clock,
            state: Mutex::new((State::new(), random)),
            changed: Notify::new(),
            idle: Notify::new(),
            counters,
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Something happened to `key`: it runs as soon as a worker is free, once more if it is running.
    #[expect(clippy::needless_pass_by_value, reason = "a key is a small thing, made for the call")]
    pub fn mark(&self, key: K, priority: Priority) {
        self.with(|state| state.mark(&key, priority, Instant::now()));
        self.shared.changed.notify_one();
    }

    /// `key` runs at `when` at the latest.
    #[expect(clippy::needless_pass_by_value, reason = "a key is a small thing, made for the call")]
    pub fn mark_at(&self, key: K, when: Timestamp) {
        let when = instant_of(&*self.shared.clock, when);
        self.with(|state| state.mark_at(&key, when));
        self.shared.changed.notify_one();
    }

    /// Waits until no key is due or running. Keys that wait for a time do not count.
    pub async fn wait_idle(&self) {
        loop {
            let idle = self.shared.idle.notified();
            if self.is_idle() {
                return;
            }
            idle.await;
        }
    }

    /// Whether no key is due or running.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.with(|state| {
            state.wake(Instant::now());
            state.depth() == 0 && state.running() == 0
        })
    }

    /// Whether keys are due that no worker is free for.
    #[must_use]
    pub fn is_backlogged(&self) -> bool {
        self.with(|state| state.depth() > 0 && state.running() >= self.shared.options.workers)
    }

    /// Whether keys of high priority are due that no worker is free for.
    #[must_use]
    pub fn is_pressed(&self) -> bool {
        self.with(|state| state.has_urgent() && state.running() >= self.shared.options.workers)
    }

    /// When the next waiting key becomes due.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        self.with(|state| state.next_wake())
    }

    /// Runs keys through `work` until `stop` is cancelled; then lets the running ones end.
    pub async fn run<W, F, E>(self, stop: CancellationToken, work: W) -> Summary
    where
        W: Fn(K) -> F,
        F: Future<Output = Outcome<E>> + Send + 'static,
        E: Display + Send + 'static,
    {
        let mut tasks: JoinSet<(K, Instant, Ran<E>)> = JoinSet::new();
        let mut summary = Summary::default();
        loop {
            // Registered before looking, so that no mark in between is missed.
            let changed = self.shared.changed.notified();
            while tasks.len() < self.shared.options.workers && !stop.is_cancelled() {
                let Some(key) = self.take() else { break };
                summary.runs += 1;
                let begun = Instant::now();
                // The closure itself may panic too, before there is a future.
                let future = std::panic::catch_unwind(AssertUnwindSafe(|| work(key.clone())));
                tasks.spawn(async move {
                    let ran = match future {
                        Ok(future) => AssertUnwindSafe(future).catch_unwind().await,
                        Err(panic) => Err(panic),
                    };
                    (key, begun, ran)
                });
            }
            // While all workers are busy, a key that is due cannot be taken: waiting for its time, which has passed, would
            // spin. A worker that ends comes back here.
            let free = tasks.len() < self.shared.options.workers;
            let wake = self.with(|state| state.next_wake()).filter(|_| free);
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Some(ended) = tasks.join_next() => self.ended(ended),
                () = changed => {}
                () = sleep_until(wake) => {}
            }
        }
        summary.dropped = self.drain(tasks).await;
        summary
    }

    async fn drain<E: Display + Send + 'static>(&self, mut tasks: JoinSet<(K, Instant, Ran<E>)>) -> usize {
        let until = Instant::now() + self.shared.options.grace;
        while let Ok(Some(ended)) = tokio::time::timeout_at(until, tasks.join_next()).await {
            self.ended(ended);
        }
        let dropped = tasks.len();
        tasks.shutdown().await;
        dropped
    }

    fn take(&self) -> Option<K> {
        let now = Instant::now();
        let (key, since) = self.with(|state| {
            state.wake(now);
            state.take()
        })?;
        self.shared.counters.runs.inc();
        self.shared
            .counters
            .waited
            .observe(now.duration_since(since).as_secs_f64());
        Some(key)
    }

    fn ended<E: Display>(&self, ended: Result<(K, Instant, Ran<E>), tokio::task::JoinError>) {
        // The task catches panics, and is aborted only by a drain that no longer listens.
        let Ok((key, begun, ran)) = ended else { return };
        let counters = &self.shared.counters;
        counters.took.observe(begun.elapsed().as_secs_f64());
        let queue = &self.shared.options.name;
        let mut least = Duration::ZERO;
        let ended = match ran {
            Ok(Outcome::Done) => Some(Ended::Well(None)),
            Ok(Outcome::RequeueAt(when)) => Some(Ended::Well(Some(instant_of(&*self.shared.clock, when)))),
            Ok(Outcome::Retry(error)) => {
                warn!(queue, ?key, %error, "will retry");
                None
            }
            Ok(Outcome::RetryAfter(error, wait)) => {
                warn!(queue, ?key, %error, ?wait, "will retry");
                least = wait;
                None
            }
            Err(panic) => {
                error!(queue, ?key, message = panic_message(&*panic), "panicked, will retry");
                counters.panics.inc();
                None
            }
        };
        let now = Instant::now();
        let mut guard = self.shared.state.lock();
        let (state, random) = &mut *guard;
        let ended = ended.unwrap_or_else(|| {
            counters.retries.inc();
            let delay = self.shared.options.backoff.delay(state.failures(&key) + 1, random);
            Ended::Badly(now + delay.max(least))
        });
        state.finish(&key, ended, now);
        self.publish(state);
        drop(guard);
        // Workers may be free now; and whoever waits for idleness looks again.
        self.shared.idle.notify_waiters();
    }

    fn with<R>(&self, act: impl FnOnce(&mut State<K>) -> R) -> R {
        let mut guard = self.shared.state.lock();
        let result = act(&mut guard.0);
        self.publish(&guard.0);
        result
    }

    fn publish(&self, state: &State<K>) {
        self.shared
            .counters
            .depth
            .set(i64::try_from(state.depth()).unwrap_or(i64::MAX));
        self.shared
            .counters
            .running
            .set(i64::try_from(state.running()).unwrap_or(i64::MAX));
    }
}

async fn sleep_until(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
