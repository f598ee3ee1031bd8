//! The loop that every controller of this crate runs in.
//!
//! Owns the order of things: watch events change a controller's state, marked keys are worked off with bounded
//! concurrency, results come back into the same state, deadlines wake keys. One task owns a controller's state, so
//! there are no locks and the order of decisions follows from the order of events. A failed action is tried again
//! with growing delay. The engine never decides anything about the cluster and never polls.

pub(crate) mod queue;
pub(crate) mod requests;
pub(crate) mod watch;

use crate::clock::{Clock, until};
use futures::future::BoxFuture;
use futures::stream::{BoxStream, FuturesUnordered, StreamExt};
use jiff::Timestamp;
use queue::Queue;
use std::fmt::Debug;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// What a controller does for one key: requests to the API server.
pub(crate) type Action<Outcome> = BoxFuture<'static, Result<Outcome, kube::Error>>;

/// A controller as the engine sees it. Only actions do I/O; everything else is synchronous.
pub(crate) trait Controller: Send + 'static {
    /// What is worked on at most once at a time.
    type Key: Ord + Clone + Debug + Send + 'static;
    /// What the watches of this controller report.
    type Event: Send + 'static;
    /// What an action brings back.
    type Outcome: Send + 'static;
    /// For log lines.
    const NAME: &'static str;

    /// Folds an event into the state and marks the keys it concerns.
    fn observe(&mut self, event: Self::Event, now: Timestamp, queue: &mut Queue<Self::Key>);

    /// Decides what to do for a key now. A deadline goes to the queue.
    fn begin(&mut self, key: &Self::Key, now: Timestamp, queue: &mut Queue<Self::Key>)
    -> Option<Action<Self::Outcome>>;

    /// Folds the result of an action into the state. The key is marked again by the engine only if it changed meanwhile.
    fn finish(&mut self, key: &Self::Key, outcome: Self::Outcome, now: Timestamp, queue: &mut Queue<Self::Key>);

    /// Takes back what `begin` assumed about an action that failed. The engine tries the key again later.
    fn failed(&mut self, _key: &Self::Key) {}
}

/// Runs a controller until it is told to stop; actions in flight are then dropped.
pub(crate) async fn run<C: Controller>(
    mut controller: C,
    mut events: BoxStream<'static, C::Event>,
    clock: Arc<dyn Clock>,
    concurrency: usize,
    stop: CancellationToken,
) {
    let mut queue: Queue<C::Key> = Queue::default();
    let mut in_flight = FuturesUnordered::new();
    loop {
        while in_flight.len() < concurrency {
            let now = clock.now();
            let Some(key) = queue.take(now) else { break };
            match controller.begin(&key, now, &mut queue) {
                Some(action) => in_flight.push(async move { (key, action.await) }),
                None => queue.done(&key),
            }
        }
        let wake = queue.next_deadline().filter(|_| in_flight.len() < concurrency);
        let pause = wake.map(|moment| until(clock.now(), moment));
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            Some((key, result)) = in_flight.next(), if !in_flight.is_empty() => {
                let now = clock.now();
                match result {
                    Ok(outcome) => {
                        queue.succeeded(&key);
                        controller.finish(&key, outcome, now, &mut queue);
                    }
                    Err(error) => {
                        let delay = queue.failed(&key, now);
                        controller.failed(&key);
                        tracing::debug!(controller = C::NAME, ?key, %error, ?delay, "request failed, will try again");
                    }
                }
            }
            event = events.next() => match event {
                Some(event) => controller.observe(event, clock.now(), &mut queue),
                // Watches end only when their controller is being stopped.
                None => return,
            },
            () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::TokioClock;
    use crate::clock::later;
    use futures::FutureExt;
    use std::time::Duration;
    use tokio::sync::mpsc;

    /// Marks what it is told, fails twice per key, reports the virtual second of each attempt.
    struct Probe {
        attempts: mpsc::UnboundedSender<(u32, i64)>,
        left_to_fail: u32,
    }

    impl Controller for Probe {
        type Key = u32;
        type Event = u32;
        type Outcome = ();
        const NAME: &'static str = "probe";

        fn observe(&mut self, event: u32, now: Timestamp, queue: &mut Queue<u32>) {
            queue.wake_at(event, later(now, Duration::from_secs(u64::from(event))));
        }

        fn begin(&mut self, key: &u32, now: Timestamp, _: &mut Queue<u32>) -> Option<Action<()>> {
            self.attempts.send((*key, now.as_second())).unwrap();
            if self.left_to_fail > 0 {
                self.left_to_fail -= 1;
                return Some(async { Err(kube::Error::LinesCodecMaxLineLengthExceeded) }.boxed());
            }
            Some(async { Ok(()) }.boxed())
        }

        fn finish(&mut self, _: &u32, (): (), _: Timestamp, _: &mut Queue<u32>) {}
    }

    #[tokio::test(start_paused = true)]
    async fn deadlines_wake_keys_and_failures_are_tried_again() {
        let (attempts, mut seen) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let events = futures::stream::iter([30, 10])
            .chain(futures::stream::pending())
            .boxed();
        let clock = Arc::new(TokioClock::starting_at(Timestamp::UNIX_EPOCH));
        let task = tokio::spawn(run(
            Probe {
                attempts,
                left_to_fail: 1,
            },
            events,
            clock,
            4,
            stop.clone(),
        ));
        assert_eq!(seen.recv().await, Some((10, 10)), "the earlier deadline first");
        assert_eq!(seen.recv().await.unwrap().0, 10, "tried again");
        assert_eq!(seen.recv().await, Some((30, 30)));
        stop.cancel();
        task.await.unwrap();
        assert_eq!(seen.recv().await, None);
    }
}
