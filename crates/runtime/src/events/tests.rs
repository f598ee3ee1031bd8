use std::sync::Arc;

use super::*;
use crate::{
    clock::TokioClock,
    layers::{self, Fault},
    testing::Store,
};

pub(super) fn note(object: &str, message: &str) -> Note {
    Note {
        object: reference(object),
        kind: EventKind::Warning,
        reason: "Testing".into(),
        message: message.into(),
    }
}

fn reference(name: &str) -> ObjectReference {
    ObjectReference {
        api_version: "v1".into(),
        kind: "Pod".into(),
        namespace: Some("n".into()),
        name: name.into(),
        uid: format!("uid-{name}"),
    }
}

struct Bench {
    store: Store,
    recorder: Recorder,
    metrics: Metrics,
    stop: CancellationToken,
    sink: Option<Sink>,
}

impl Bench {
    fn new() -> Self {
        let metrics = Metrics::default();
        let clock = Arc::new(TokioClock::new("2026-01-01T00:00:00Z".parse().unwrap()));
        let (recorder, sink) = recorder("tester", clock, &metrics);
        Self {
            store: Store::default(),
            recorder,
            metrics,
            stop: CancellationToken::new(),
            sink: Some(sink),
        }
    }

    fn start(&mut self, options: &layers::Options) -> tokio::task::JoinHandle<()> {
        let sink = self.sink.take().unwrap();
        tokio::spawn(sink.run(self.store.client(options), self.stop.clone()))
    }

    fn events(&self) -> Vec<serde_json::Value> {
        self.store.contents.lock().objects.values().cloned().collect()
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_says_what_kubectl_shows() {
    let mut bench = Bench::new();
    let task = bench.start(&layers::Options::default());
    bench
        .recorder
        .record(&reference("a"), EventKind::Warning, "Broken", "it broke");
    bench.stop.cancel();
    task.await.unwrap();
    let event = &bench.events()[0];
    assert_eq!(event["involvedObject"]["uid"], "uid-a");
    assert_eq!(
        (&event["type"], &event["reason"], &event["message"]),
        (&"Warning".into(), &"Broken".into(), &"it broke".into())
    );
    assert_eq!(
        (&event["count"], &event["source"]["component"]),
        (&1.into(), &"tester".into())
    );
    assert_eq!(event["lastTimestamp"], "2026-01-01T00:00:00Z");
}

#[tokio::test(start_paused = true)]
async fn a_series_costs_one_write_a_minute_and_survives_a_restart() {
    let mut bench = Bench::new();
    bench.start(&layers::Options::default());
    for _ in 0..10 {
        bench
            .recorder
            .record(&reference("a"), EventKind::Normal, "Again", "and again");
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(bench.store.contents.lock().calls.len(), 2);
    assert_eq!(bench.events()[0]["count"], 10);

    let mut restarted = Bench {
        store: bench.store.clone(),
        ..Bench::new()
    };
    let task = restarted.start(&layers::Options::default());
    restarted
        .recorder
        .record(&reference("a"), EventKind::Normal, "Again", "and again");
    restarted.stop.cancel();
    task.await.unwrap();
    assert_eq!(
        (restarted.events().len(), &restarted.events()[0]["count"]),
        (1, &11.into())
    );
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_event_is_made_anew() {
    let mut bench = Bench::new();
    bench.start(&layers::Options::default());
    bench
        .recorder
        .record(&reference("a"), EventKind::Normal, "Again", "and again");
    tokio::time::sleep(Duration::from_secs(1)).await;
    bench.store.contents.lock().objects.clear();
    bench
        .recorder
        .record(&reference("a"), EventKind::Normal, "Again", "and again");
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(bench.events()[0]["count"], 2);
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_drops_and_counts() {
    let bench = Bench::new();
    for number in 0..WAITING + 5 {
        bench
            .recorder
            .record(&reference("a"), EventKind::Normal, "Flood", &number.to_string());
    }
    assert!(
        bench
            .metrics
            .render()
            .contains("events_total{result=\"dropped_queue_full\"} 5")
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_costs_the_event_and_nothing_else() {
    let mut bench = Bench::new();
    let faults = |_: &layers::Call| Fault::FailBefore;
    bench.start(&layers::Options {
        faults: Some(Arc::new(faults)),
        ..layers::Options::default()
    });
    bench
        .recorder
        .record(&reference("a"), EventKind::Normal, "Lost", "in vain");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(bench.metrics.render().contains("events_total{result=\"failed\"} 1"));
}
