//! How a controller of this crate meets the cache and the queue of `coppice-runtime`.
//!
//! Owns one lock per controller: changes of watched objects, decisions and results of requests are folded into its state
//! one after the other. A key is worked on by one request at a time and as rarely as its events allow; a failed request
//! is tried again after a back-off. It decides nothing about the cluster and never polls.

use coppice_runtime::backoff::Backoff;
use coppice_runtime::cache::{Change, Kind, Projection};
use coppice_runtime::clock::SharedClock;
use coppice_runtime::lease::Leadership;
use coppice_runtime::queue::{self, Outcome, Priority, Queue};
use coppice_runtime::write::{self, WriteError, Writer};
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What a controller does for one key: requests to the API server.
pub(crate) type Action<Outcome> = BoxFuture<'static, Result<Outcome, WriteError>>;

/// The decisions of a controller. Only actions do I/O; everything else is synchronous.
pub(crate) trait Controller: Send + 'static {
    /// What is worked on at most once at a time.
    type Key: Ord + Clone + Debug + Send + Sync + 'static;
    /// What an action brings back.
    type Outcome: Send + 'static;
    /// For log lines.
    const NAME: &'static str;

    /// Decides what to do for a key now. A deadline goes to the queue.
    fn begin(&mut self, key: &Self::Key, now: Timestamp, queue: &Queue<Self::Key>) -> Option<Action<Self::Outcome>>;

    /// Folds the result of an action into the state.
    fn finish(&mut self, _key: &Self::Key, _outcome: Self::Outcome, _now: Timestamp, _queue: &Queue<Self::Key>) {}

    /// Takes back what `begin` assumed about an action that failed. The key is tried again later.
    fn failed(&mut self, _key: &Self::Key) {}
}

/// A controller with its queue.
pub(crate) struct Shell<C: Controller> {
    controller: Mutex<C>,
    queue: Queue<C::Key>,
    clock: SharedClock,
}

impl<C: Controller> Shell<C> {
    /// A controller that has at most `concurrency` actions under way.
    pub(crate) fn new(controller: C, concurrency: usize, clock: &SharedClock) -> Arc<Self> {
        let options = queue::Options {
            workers: concurrency,
            backoff: Backoff {
                longest: Duration::from_secs(30),
                ..Backoff::default()
            },
            // Actions may wait for other components, which are stopped too.
            grace: Duration::ZERO,
            ..queue::Options::named(C::NAME)
        };
        Arc::new(Self {
            controller: Mutex::new(controller),
            queue: Queue::new(options, Arc::clone(clock)),
            clock: Arc::clone(clock),
        })
    }

    /// Calls `changed` after every change of a kind. When several threads fold writes, it may be called in another order
    /// than the changes happened in, so it looks at [`Kind::latest`].
    pub(crate) fn follow<P: Projection>(
        self: &Arc<Self>,
        kind: &Kind<P>,
        changed: impl Fn(&mut C, &Change<P::View>, Timestamp, &Queue<C::Key>) + Send + Sync + 'static,
    ) {
        // Weak, because the controller holds the kind.
        let shell = Arc::downgrade(self);
        kind.on_change(move |change| {
            if let Some(shell) = shell.upgrade() {
                shell.with(|controller, now, queue| changed(controller, change, now, queue));
            }
        });
    }

    /// Changes the state outside of the usual course.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut C, Timestamp, &Queue<C::Key>) -> R) -> R {
        act(&mut self.controller.lock(), self.clock.now(), &self.queue)
    }

    /// A way to mark keys from outside.
    pub(crate) fn marker(&self) -> impl Fn(C::Key) + Send + Sync + use<C> {
        let queue = self.queue.clone();
        move |key| queue.mark(key, Priority::High)
    }

    /// Works on marked keys, with `watches` beside it, until told to stop; everything under way is then dropped.
    pub(crate) async fn run(self: Arc<Self>, watches: impl Future<Output = ()> + Send, stop: CancellationToken) {
        let work = |key: C::Key| {
            let action = self.with(|controller, now, queue| controller.begin(&key, now, queue));
            let shell = Arc::clone(&self);
            async move {
                let Some(action) = action else { return Outcome::Done };
                match action.await {
                    Ok(outcome) => {
                        shell.with(|controller, now, queue| controller.finish(&key, outcome, now, queue));
                        Outcome::Done
                    }
                    Err(error) => {
                        shell.with(|controller, _, _| controller.failed(&key));
                        match error.retry_after() {
                            Some(wait) => Outcome::RetryAfter(error, wait),
                            None => Outcome::Retry(error),
                        }
                    }
                }
            }
        };
        tokio::select! {
            biased;
            _ = self.queue.clone().run(stop, work) => {}
            () = async { watches.await; std::future::pending().await } => {}
        }
    }
}

/// A writer in the name of one component. Simulated nodes stand for many clients, so it does not slow down for the
/// others when the API server is busy.
pub(crate) fn writer(client: Client, manager: &str, concurrency: usize) -> Writer {
    let options = write::Options {
        concurrency,
        least_concurrency: concurrency,
        manager: manager.to_owned(),
        ..write::Options::default()
    };
    Writer::new(client, Leadership::always(), options)
}

/// What is gone or was changed by others is left to the watch, which reports it.
pub(crate) fn unless_changed<T>(answer: Result<T, WriteError>) -> Result<Option<T>, WriteError> {
    match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(WriteError::NotFound(_) | WriteError::Conflict(_) | WriteError::AlreadyExists(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Reduced, resource};
    use coppice_runtime::cache::{Cache, ObjectKey};
    use coppice_runtime::clock::{TokioClock, later};
    use futures::FutureExt;
    use k8s_openapi::api::core::v1::ConfigMap;
    use serde::de::IgnoredAny;
    use serde_json::value::RawValue;
    use tokio::sync::mpsc;

    type Maps = Kind<Reduced<IgnoredAny, u64>>;

    /// Reports the second of each attempt; the first attempt fails.
    struct Probe {
        attempts: mpsc::UnboundedSender<(ObjectKey, i64)>,
        failed: u32,
        maps: Maps,
        seen: Vec<Option<u64>>,
    }

    impl Controller for Probe {
        type Key = ObjectKey;
        type Outcome = ();
        const NAME: &'static str = "probe";

        fn begin(&mut self, key: &ObjectKey, now: Timestamp, _: &Queue<ObjectKey>) -> Option<Action<()>> {
            self.attempts.send((key.clone(), now.as_second())).unwrap();
            let answer = match self.failed {
                0 => Err(WriteError::Unavailable("injected".to_owned())),
                _ => Ok(()),
            };
            Some(async { answer }.boxed())
        }

        fn failed(&mut self, _: &ObjectKey) {
            self.failed += 1;
        }
    }

    fn probe() -> (Arc<Shell<Probe>>, mpsc::UnboundedReceiver<(ObjectKey, i64)>, Maps) {
        let (attempts, seen) = mpsc::unbounded_channel();
        let projection = Reduced::new(|meta: &coppice_runtime::cache::Meta, _: IgnoredAny, _: &_| meta.version.0);
        let maps = Cache::default().kind(resource::<ConfigMap>(), projection);
        let probe = Probe {
            attempts,
            failed: 0,
            maps: maps.clone(),
            seen: Vec::new(),
        };
        let clock: SharedClock = Arc::new(TokioClock::new(Timestamp::UNIX_EPOCH));
        (Shell::new(probe, 4, &clock), seen, maps)
    }

    fn map(version: u64) -> Box<RawValue> {
        let metadata = format!(r#"{{"namespace":"n","name":"a","uid":"u","resourceVersion":"{version}"}}"#);
        RawValue::from_string(format!(r#"{{"metadata":{metadata}}}"#)).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn deadlines_wake_keys_and_failures_are_tried_again() {
        let (shell, mut attempts, _) = probe();
        let key = |seconds: u64| ObjectKey::new("n", seconds.to_string());
        shell.with(|_, now, queue| {
            for seconds in [30, 10] {
                queue.mark_at(key(seconds), later(now, Duration::from_secs(seconds)));
            }
        });
        let stop = CancellationToken::new();
        let running = tokio::spawn(Arc::clone(&shell).run(async {}, stop.clone()));
        assert_eq!(attempts.recv().await, Some((key(10), 10)), "the earlier deadline first");
        assert_eq!(attempts.recv().await.unwrap().0, key(10), "tried again");
        assert_eq!(attempts.recv().await, Some((key(30), 30)));
        assert_eq!(shell.with(|probe, _, _| probe.failed), 1);
        stop.cancel();
        running.await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn changes_reach_the_controller_and_its_kinds_do_not_keep_it_alive() {
        let (shell, _attempts, maps) = probe();
        shell.follow(&maps, |probe, change, _, queue| {
            let latest = probe.maps.latest(&change.key);
            probe.seen.push(latest.map(|version| *version));
            queue.mark(change.key.clone(), Priority::High);
        });
        maps.observe(&map(1)).unwrap();
        maps.observe(&map(2)).unwrap();
        maps.observe_deleted(&map(3)).unwrap();
        assert_eq!(shell.with(|probe, _, _| probe.seen.clone()), [Some(1), Some(2), None]);
        assert!(!shell.with(|_, _, queue| queue.is_idle()));
        let gone = Arc::downgrade(&shell);
        drop(shell);
        assert!(gone.upgrade().is_none());
        maps.observe(&map(4)).unwrap();
    }
}
