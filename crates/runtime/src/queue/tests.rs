use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::clock::{Clock, TokioClock};

type Log = Arc<Mutex<Vec<(u64, &'static str)>>>;

struct Bench {
    queue: Queue<&'static str>,
    clock: Arc<TokioClock>,
    begun: Instant,
    log: Log,
    stop: CancellationToken,
}

impl Bench {
    fn new(workers: usize) -> Self {
        let clock = Arc::new(TokioClock::new("2026-01-01T00:00:00Z".parse().unwrap()));
        let backoff = Backoff {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(10),
            jitter: 0.0,
        };
        let options = Options {
            workers,
            backoff,
            ..Options::named("test")
        };
        Self {
            queue: Queue::new(options, clock.clone()),
            clock,
            begun: Instant::now(),
            log: Log::default(),
            stop: CancellationToken::new(),
        }
    }

    fn at(&self, seconds: i64) -> Timestamp {
        self.clock.now() + jiff::SignedDuration::from_secs(seconds)
    }

    /// Runs `outcome` for each key, after a second of work, and logs when each began.
    fn start(
        &self,
        outcome: impl Fn(&'static str, u32) -> Outcome<&'static str> + Send + Sync + 'static,
    ) -> tokio::task::JoinHandle<Summary> {
        let (log, begun) = (self.log.clone(), self.begun);
        let outcome = Arc::new(outcome);
        let runs = Arc::new(AtomicU32::new(0));
        tokio::spawn(self.queue.clone().run(self.stop.clone(), move |key| {
            log.lock().push((begun.elapsed().as_secs(), key));
            let (outcome, runs) = (outcome.clone(), runs.clone());
            async move {
                tokio::time::sleep(Duration::from_secs(1)).await;
                outcome(key, runs.fetch_add(1, Ordering::SeqCst))
            }
        }))
    }

    fn log(&self) -> Vec<(u64, &'static str)> {
        self.log.lock().clone()
    }
}

async fn pass(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn marks_coalesce_and_a_mark_during_a_run_makes_one_more() {
    let bench = Bench::new(4);
    (0..3).for_each(|_| bench.queue.mark("a", Priority::High));
    bench.start(|_, _| Outcome::Done);
    tokio::time::sleep(Duration::from_millis(500)).await;
    (0..3).for_each(|_| bench.queue.mark("a", Priority::High));
    bench.queue.wait_idle().await;
    assert_eq!(bench.log(), [(0, "a"), (1, "a")]);
    assert!(bench.queue.with(|state| state.next_wake().is_none()));
}

#[tokio::test(start_paused = true)]
async fn order_is_by_priority_then_by_age_and_low_is_not_starved() {
    let bench = Bench::new(1);
    bench.queue.mark("low", Priority::Low);
    bench.queue.mark("b", Priority::High);
    bench.queue.mark("raised", Priority::Low);
    bench.queue.mark("a", Priority::High);
    bench.queue.mark("raised", Priority::High);
    bench.start(|_, _| Outcome::Done);
    bench.queue.wait_idle().await;
    assert_eq!(bench.log(), [(0, "b"), (1, "raised"), (2, "a"), (3, "low")]);

    let bench = Bench::new(1);
    bench.queue.mark("low", Priority::Low);
    bench.queue.mark("busy", Priority::High);
    let queue = bench.queue.clone();
    bench.start(move |key, _| {
        if key == "busy" {
            queue.mark("busy", Priority::High);
        }
        Outcome::Done
    });
    pass(30).await;
    assert!(bench.log().iter().any(|(_, key)| *key == "low"));
}

#[tokio::test(start_paused = true)]
async fn workers_are_bounded() {
    let bench = Bench::new(2);
    ["a", "b", "c"]
        .into_iter()
        .for_each(|key| bench.queue.mark(key, Priority::High));
    bench.start(|_, _| Outcome::Done);
    bench.queue.wait_idle().await;
    assert_eq!(bench.log(), [(0, "a"), (0, "b"), (1, "c")]);
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_and_success_forgets_them() {
    let bench = Bench::new(1);
    bench.queue.mark("a", Priority::High);
    bench.start(|_, run| match run {
        0 | 1 | 2 | 4 => Outcome::Retry("no"),
        _ => Outcome::Done,
    });
    pass(20).await;
    // Each run takes a second: 0, then waits of 1, 2 and 4 seconds.
    assert_eq!(bench.log(), [(0, "a"), (2, "a"), (5, "a"), (10, "a")]);
    bench.queue.mark("a", Priority::High);
    pass(20).await;
    assert_eq!(bench.log()[4..], [(20, "a"), (22, "a")]);
}

#[tokio::test(start_paused = true)]
async fn a_server_may_ask_for_a_longer_wait() {
    let bench = Bench::new(1);
    bench.queue.mark("a", Priority::High);
    bench.start(|_, run| {
        if run == 0 {
            Outcome::RetryAfter("busy", Duration::from_secs(7))
        } else {
            Outcome::Done
        }
    });
    pass(20).await;
    assert_eq!(bench.log(), [(0, "a"), (8, "a")]);
}

#[tokio::test(start_paused = true)]
async fn the_nearer_deadline_counts_and_a_mark_overtakes_it() {
    let bench = Bench::new(1);
    bench.queue.mark_at("a", bench.at(100));
    bench.queue.mark_at("a", bench.at(10));
    bench.queue.mark_at("a", bench.at(50));
    let later = bench.at(60);
    bench.start(move |_, run| {
        if run < 2 {
            Outcome::RequeueAt(later)
        } else {
            Outcome::Done
        }
    });
    pass(20).await;
    assert_eq!(bench.log(), [(10, "a")]);
    bench.queue.mark("a", Priority::High);
    pass(100).await;
    assert_eq!(bench.log(), [(10, "a"), (20, "a"), (60, "a")]);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_given_during_a_run_is_kept() {
    let bench = Bench::new(1);
    bench.queue.mark("a", Priority::High);
    let (far, near) = (bench.at(100), bench.at(30));
    bench.start(move |_, run| {
        if run == 0 {
            Outcome::RequeueAt(far)
        } else {
            Outcome::Done
        }
    });
    tokio::time::sleep(Duration::from_millis(500)).await;
    bench.queue.mark_at("a", near);
    pass(200).await;
    assert_eq!(bench.log(), [(0, "a"), (30, "a")]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_counted_and_retried() {
    let bench = Bench::new(1);
    bench.queue.mark("a", Priority::High);
    bench.queue.mark("b", Priority::High);
    let task = bench.start(|key, run| {
        assert!(!(key == "a" && run == 0), "as the test wants");
        Outcome::Done
    });
    pass(20).await;
    assert_eq!(bench.log(), [(0, "a"), (1, "b"), (2, "a")]);
    assert_eq!(bench.queue.shared.counters.panics.get(), 1);
    bench.stop.cancel();
    assert_eq!(task.await.unwrap(), Summary { runs: 3, dropped: 0 });
}

#[tokio::test(start_paused = true)]
async fn a_drain_lets_running_keys_end_and_begins_none() {
    let bench = Bench::new(1);
    bench.queue.mark("a", Priority::High);
    bench.queue.mark("b", Priority::High);
    let task = bench.start(|_, _| Outcome::Done);
    tokio::time::sleep(Duration::from_millis(500)).await;
    bench.stop.cancel();
    assert_eq!(task.await.unwrap(), Summary { runs: 1, dropped: 0 });
    assert_eq!(bench.queue.with(|state| state.depth()), 1);
}

#[tokio::test(start_paused = true)]
async fn metrics_tell_depth_and_age() {
    let bench = Bench::new(1);
    bench.queue.mark("a", Priority::High);
    bench.queue.mark("b", Priority::High);
    let metrics = &bench.queue.shared.options.metrics;
    assert!(metrics.render().contains("queue_depth{queue=\"test\"} 2"));
    bench.start(|_, _| Outcome::Done);
    bench.queue.wait_idle().await;
    let text = metrics.render();
    assert!(text.contains("queue_depth{queue=\"test\"} 0"));
    assert!(text.contains("queue_wait_seconds_sum{queue=\"test\"} 1.0"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_due_while_all_workers_are_busy_makes_no_spin() {
    let bench = Bench::new(1);
    let stop = bench.stop.clone();
    let work = |_: &'static str| async {
        pass(10).await;
        Outcome::<&'static str>::Done
    };
    bench.queue.mark("long", Priority::High);
    bench.queue.mark_at("due", bench.at(1));
    let mut run = Box::pin(bench.queue.clone().run(stop, work));
    let mut polls = 0;
    let counted = std::future::poll_fn(|context| {
        polls += 1;
        // More than ever needed: paused time stands still for as long as anything is ready, so a spin would not end.
        assert!(polls < 1000, "the queue spins");
        run.as_mut().poll(context).map(|_| ())
    });
    tokio::select! {
        () = counted => unreachable!("nothing stops it"),
        () = pass(60) => {}
    }
    assert!(bench.queue.is_idle());
}
