use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use rand::RngExt;

use super::*;
use crate::{
    clock::TokioClock,
    layers::{self, Call, Fault},
    testing::Store,
};

const PATH: &str = "/apis/coordination.k8s.io/v1/namespaces/n/leases/l";

struct Candidate {
    leadership: Leadership,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
    metrics: Metrics,
}

fn candidate(
    store: &Store,
    identity: &str,
    skew_hours: i64,
    faults: impl Fn(&Call) -> Fault + Send + Sync + 'static,
) -> Candidate {
    let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let clock = TokioClock::new(start + jiff::SignedDuration::from_hours(skew_hours));
    let client = store.client(&layers::Options {
        faults: Some(Arc::new(faults)),
        ..layers::Options::default()
    });
    let seed = identity.bytes().map(u64::from).sum();
    let options = Options {
        seed,
        ..Options::new("n", "l", identity)
    };
    let metrics = options.metrics.clone();
    let elector = Elector::new(client, options, Arc::new(clock)).unwrap();
    let (leadership, stop) = (elector.leadership(), CancellationToken::new());
    let task = tokio::spawn(elector.run(stop.clone()));
    Candidate {
        leadership,
        stop,
        task,
        metrics,
    }
}

fn pass(_: &Call) -> Fault {
    Fault::Pass
}

fn holder(store: &Store) -> String {
    store
        .get(PATH)
        .map(|lease| lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned())
        .unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn one_leads_and_the_other_follows_when_it_releases() {
    let store = Store::default();
    let one = candidate(&store, "one", 0, pass);
    one.leadership.wait_leading().await;
    let two = candidate(&store, "two", 0, pass);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((one.leadership.check(), two.leadership.check()), (Ok(()), Err(Fenced)));
    assert!(one.metrics.render().contains("leader{lease=\"l\"} 1"));
    one.stop.cancel();
    one.task.await.unwrap();
    assert_eq!((one.leadership.check(), holder(&store)), (Err(Fenced), String::new()));
    let released = Instant::now();
    two.leadership.wait_leading().await;
    assert!(
        released.elapsed() < Duration::from_secs(3),
        "a released lease needs no waiting out"
    );
    let lease = store.get(PATH).unwrap();
    assert_eq!(
        (holder(&store).as_str(), &lease["spec"]["leaseTransitions"]),
        ("two", &1.into())
    );
    assert!(one.metrics.render().contains("leader_transitions_total{lease=\"l\"} 2"));
}

#[tokio::test(start_paused = true)]
async fn transitions_are_told_as_events() {
    let (store, stop) = (Store::default(), CancellationToken::new());
    let clock: SharedClock = Arc::new(TokioClock::new(Timestamp::UNIX_EPOCH));
    let client = store.client(&layers::Options::default());
    let (recorder, sink) = crate::events::recorder("tester", clock.clone(), &Metrics::default());
    let telling = tokio::spawn(sink.run(client.clone(), CancellationToken::new()));
    let options = Options {
        recorder: Some(recorder),
        ..Options::new("n", "l", "me")
    };
    let elector = Elector::new(client, options, clock).unwrap();
    let leadership = elector.leadership();
    let task = tokio::spawn(elector.run(stop.clone()));
    leadership.wait_leading().await;
    stop.cancel();
    task.await.unwrap();
    // All recorders are gone with the elector, so the sink ends when everything is told.
    telling.await.unwrap();
    let contents = store.contents.lock();
    let mut told: Vec<&str> = contents
        .objects
        .values()
        .filter_map(|object| object["message"].as_str())
        .collect();
    told.sort_unstable();
    assert_eq!(told, ["me became leader", "me stopped leading"]);
}

#[tokio::test(start_paused = true)]
async fn a_crashed_leader_is_followed_after_its_lease_whatever_the_clocks_show() {
    for skew in [-500, 0, 500] {
        let store = Store::default();
        let one = candidate(&store, "one", 0, pass);
        one.leadership.wait_leading().await;
        let two = candidate(&store, "two", skew, pass);
        tokio::time::sleep(Duration::from_secs(10)).await;
        one.task.abort();
        let crashed = Instant::now();
        two.leadership.wait_leading().await;
        let waited = crashed.elapsed().as_secs();
        assert!(
            (13..=17).contains(&waited),
            "{waited} seconds with a skew of {skew} hours"
        );
        assert_eq!(
            one.leadership.check(),
            Err(Fenced),
            "the fence lapsed without its elector"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_leader_cut_off_is_fenced_before_another_leads() {
    let store = Store::default();
    let cut_off = Arc::new(Mutex::new(false));
    let one = candidate(&store, "one", 0, {
        let cut_off = cut_off.clone();
        move |_| {
            if *cut_off.lock() {
                Fault::FailBefore
            } else {
                Fault::Pass
            }
        }
    });
    one.leadership.wait_leading().await;
    let two = candidate(&store, "two", 3, pass);
    tokio::time::sleep(Duration::from_secs(7)).await;
    *cut_off.lock() = true;
    one.leadership.wait_lost().await;
    assert_eq!(
        (one.leadership.check(), two.leadership.check()),
        (Err(Fenced), Err(Fenced))
    );
    two.leadership.wait_leading().await;
    *cut_off.lock() = false;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!((one.leadership.check(), two.leadership.check()), (Err(Fenced), Ok(())));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_sorted_out() {
    let store = Store::default();
    let one = candidate(&store, "one", 0, |call| match call.number {
        // The creation and a later renewal have their effect, but nobody hears of it.
        2 | 6 => Fault::LoseResponse,
        _ => Fault::Pass,
    });
    one.leadership.wait_leading().await;
    for _ in 0..300 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert_eq!(one.leadership.check(), Ok(()));
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_acquired_while_stopping_is_released() {
    let store = Store::default();
    let one = candidate(&store, "one", 0, |call| match call.number {
        // The creation has its effect at once; its answer takes a while.
        2 => Fault::DelayBody(Duration::from_secs(1)),
        _ => Fault::Pass,
    });
    while holder(&store) != "one" {
        tokio::task::yield_now().await;
    }
    one.stop.cancel();
    one.task.await.unwrap();
    assert_eq!(holder(&store), "");
    assert!(store.get(PATH).is_some());
}

#[tokio::test(start_paused = true)]
async fn never_two_that_may_write_under_any_faults() {
    for seed in 0..8 {
        let store = Store::default();
        let faults = |stream: u64| {
            let random = Mutex::new(ChaCha8Rng::seed_from_u64(seed * 10 + stream));
            // Bad times last for a while, so that leases really lapse.
            let bad_until = Mutex::new(Instant::now());
            move |_: &Call| {
                let random = &mut *random.lock();
                let now = Instant::now();
                if random.random_bool(0.05) {
                    *bad_until.lock() = now + Duration::from_secs(random.random_range(1..40));
                }
                if now >= *bad_until.lock() {
                    return Fault::Pass;
                }
                let delay = Duration::from_millis(random.random_range(0..9000));
                match random.random_range(0..4) {
                    0 => Fault::FailBefore,
                    1 => Fault::LoseResponse,
                    2 => Fault::Delay(delay, Box::new(Fault::LoseResponse)),
                    _ => Fault::Delay(delay, Box::new(Fault::Pass)),
                }
            }
        };
        let candidates = [
            candidate(&store, "a", 0, faults(1)),
            candidate(&store, "b", 7, faults(2)),
            candidate(&store, "c", -9, faults(3)),
        ];
        let mut led = [0_u32; 3];
        for _ in 0..900 {
            tokio::time::sleep(Duration::from_millis(700)).await;
            let leaders: Vec<usize> = (0..3)
                .filter(|who| candidates[*who].leadership.check().is_ok())
                .collect();
            assert!(leaders.len() <= 1, "seed {seed}: {leaders:?}");
            leaders.iter().for_each(|who| led[*who] += 1);
        }
        assert!(
            led.iter().sum::<u32>() > 300,
            "seed {seed}: somebody leads most of the time: {led:?}"
        );
        assert!(
            led.iter().filter(|times| **times > 0).count() > 1,
            "seed {seed}: leaders change: {led:?}"
        );
    }
}

#[tokio::test]
async fn times_that_could_make_two_leaders_are_refused() {
    let client = Store::default().client(&layers::Options::default());
    let clock: SharedClock = Arc::new(TokioClock::new(Timestamp::UNIX_EPOCH));
    let refused = |change: fn(&mut Options)| {
        let mut options = Options::new("n", "l", "me");
        change(&mut options);
        Elector::new(client.clone(), options, clock.clone()).err()
    };
    assert!(matches!(
        refused(|options| options.renew_deadline = options.lease_duration),
        Some(OptionsError::DeadlineTooLong(..))
    ));
    assert!(matches!(
        refused(|options| options.retry_period = Duration::from_secs(5)),
        Some(OptionsError::PeriodTooLong(..))
    ));
    assert!(matches!(
        refused(|options| options.identity.clear()),
        Some(OptionsError::Unstorable(..))
    ));
    assert_eq!(refused(|_| ()), None);
}
