//! What a client's copy of the objects must survive, as a script for any client: watches that end, servers that stop
//! and come back, forgotten history, long silences.
//!
//! The script writes to an embedded server over TLS and asks an [`Observer`] what it has seen. After each phase its
//! copy must equal the server's list. Where nothing was forgotten its events must be exactly the commits; where the
//! client had to start over, every state it saw must have been committed and the events must add up to the copy.

pub(crate) mod stage;
pub(crate) mod watcher;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use serde::Deserialize;

use stage::{RESOURCES, Stage};

/// A copy of the objects of one resource: `uid@resourceVersion` by name.
pub(crate) type Objects = BTreeMap<String, String>;

/// One change that an observer was told.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) event: String,
    pub(crate) name: String,
    pub(crate) state: String,
    /// False for a deletion that was only noticed by listing anew.
    pub(crate) r#final: bool,
}

/// What an observer saw of one resource, and what it asked the server.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Record {
    pub(crate) events: Vec<Event>,
    /// Events that do not fit what was seen before.
    pub(crate) broken: Vec<String>,
    pub(crate) lists: usize,
    pub(crate) streams: usize,
    pub(crate) watches: usize,
    pub(crate) refused_start: usize,
    pub(crate) error_events: usize,
}

/// The answer to [`Observer::await_objects`].
#[derive(Debug, Deserialize)]
pub(crate) struct Seen {
    /// The copy that users of the client would read.
    pub(crate) objects: Objects,
    /// How many events there were until then.
    pub(crate) events: usize,
}

/// A client that keeps copies of the pods and widgets of a server.
pub(crate) trait Observer {
    /// Waits until the events add up to `objects`.
    async fn await_objects(&mut self, resource: &str, objects: &Objects) -> Seen;
    /// Waits for a bookmark of at least `version`.
    async fn await_bookmark(&mut self, resource: &str, version: u64);
    /// What happened so far.
    async fn report(&mut self) -> BTreeMap<String, Record>;
}

/// How an observer is started.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Habits {
    /// It gets the first objects as a stream of events instead of a list.
    pub(crate) streaming: bool,
    /// It asks the server to end each watch after this time.
    pub(crate) watch_seconds: Option<u32>,
}

/// Longer than any phase takes (client-go waits up to a minute before it starts over); what is not there by then never
/// comes.
const NEVER: Duration = Duration::from_secs(240);

/// How the events of a phase relate to the commits.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Continuity {
    /// One event for each commit.
    Exact,
    /// Commits may be missing, because the client had to start over.
    Restarted,
}

struct Script<'a, O> {
    stage: &'a mut Stage,
    observer: O,
    marks: BTreeMap<&'static str, (usize, usize)>,
}

impl<O: Observer> Script<'_, O> {
    /// Waits until the observer has caught up, and compares.
    async fn settle(&mut self, phase: &str, continuity: Continuity) {
        for resource in RESOURCES {
            let expected = self.stage.objects(resource).await;
            let seen = tokio::time::timeout(NEVER, self.observer.await_objects(resource, &expected)).await;
            let Ok(seen) = seen else {
                let report = self.observer.report().await;
                panic!(
                    "{phase}: {resource} never became {expected:#?}: {:#?}",
                    report[resource]
                );
            };
            assert_eq!(seen.objects, expected, "{phase}: the copy of {resource}");
            let record = self.observer.report().await.remove(resource).expect("a record of each");
            assert_eq!(record.broken, Vec::<String>::new(), "{phase}: {resource}");
            let commits = self.stage.commits(resource);
            let (events_before, commits_before) = self.marks.get(resource).copied().unwrap_or_default();
            let (events, made) = (&record.events[events_before..], &commits[commits_before..]);
            match continuity {
                Continuity::Exact => assert_eq!(events, made, "{phase}: {resource}"),
                Continuity::Restarted => all_committed(phase, events, &commits),
            }
            assert_eq!(fold(&record.events), expected, "{phase}: the events of {resource}");
            assert_eq!(
                seen.events,
                record.events.len(),
                "{phase}: events after the last change of {resource}"
            );
            self.marks.insert(resource, (record.events.len(), commits.len()));
        }
    }

    /// Makes sure that a watch is open: what changes now reaches an observer that is up to date in no other way.
    async fn open_watch(&mut self, phase: &str) {
        self.stage.churn().await;
        self.settle(phase, Continuity::Exact).await;
    }

    async fn record(&mut self, resource: &str) -> Record {
        self.observer.report().await.remove(resource).expect("a record of each")
    }

    /// Asserts that the observer neither listed nor streamed anew since `before`.
    async fn went_on(&mut self, phase: &str, before: &BTreeMap<String, Record>) {
        for resource in RESOURCES {
            let (now, before) = (self.record(resource).await, &before[resource]);
            let begun = |record: &Record| (record.lists, record.streams);
            assert_eq!(begun(&now), begun(before), "{phase}: {resource} started over: {now:#?}");
            assert!(now.watches > before.watches, "{phase}: {resource} did not reconnect");
        }
    }
}

/// Every state was committed, and states of one object come in order.
fn all_committed(phase: &str, events: &[Event], commits: &[Event]) {
    let states: BTreeSet<(&str, &str)> = commits.iter().map(|made| (&*made.name, &*made.state)).collect();
    for event in events {
        assert!(
            states.contains(&(&*event.name, &*event.state)),
            "{phase}: {event:?} was never committed"
        );
    }
}

fn fold(events: &[Event]) -> Objects {
    let mut objects = Objects::new();
    for event in events {
        match event.event.as_str() {
            "delete" => objects.remove(&event.name),
            _ => objects.insert(event.name.clone(), event.state.clone()),
        };
    }
    objects
}

/// Stops, forgotten history and silence, one after the other.
pub(crate) async fn keeps_in_step<O: Observer>(habits: Habits, observe: impl AsyncFnOnce(&Stage, Habits) -> O) {
    let mut stage = Stage::new().await;
    stage.churn().await;
    let observer = observe(&stage, habits).await;
    let stage = &mut stage;
    let mut script = Script {
        stage,
        observer,
        marks: BTreeMap::new(),
    };
    script.settle("the first objects", Continuity::Restarted).await;
    script.open_watch("changes").await;

    let before = script.observer.report().await;
    script.stage.stop().await;
    script.stage.start().await;
    script.stage.churn().await;
    script.settle("connections closed", Continuity::Exact).await;
    script.went_on("connections closed", &before).await;

    script.open_watch("before the restart").await;
    let before = script.observer.report().await;
    script.stage.stop().await;
    script.stage.churn().await;
    script.stage.start().await;
    script.settle("server restarted", Continuity::Exact).await;
    script.went_on("server restarted", &before).await;

    script.open_watch("before forgetting").await;
    let before = script.observer.report().await;
    script.stage.stop().await;
    script.stage.churn().await;
    script.stage.forget();
    script.stage.start().await;
    script
        .settle("history forgotten while away", Continuity::Restarted)
        .await;
    script.expect_expiry("history forgotten while away", &before).await;

    script.open_watch("before falling behind").await;
    let before = script.observer.report().await;
    script.stage.change_and_forget_at_once();
    script
        .settle("history forgotten under the watch", Continuity::Restarted)
        .await;
    script.expect_expiry("history forgotten under the watch", &before).await;

    script.open_watch("before the silence").await;
    script.stage.pass_a_minute_of_silence().await;
    let version = script.stage.revision();
    for resource in RESOURCES {
        let bookmark = script.observer.await_bookmark(resource, version);
        tokio::time::timeout(NEVER, bookmark).await.expect("a bookmark comes");
    }
    let before = script.observer.report().await;
    script.stage.stop().await;
    script.stage.forget();
    script.stage.start().await;
    script.stage.churn().await;
    script.settle("after a bookmark", Continuity::Exact).await;
    script.went_on("after a bookmark", &before).await;

    for resource in RESOURCES {
        let record = script.record(resource).await;
        if habits.streaming {
            assert_eq!(record.lists, 0, "{resource} was listed: {record:#?}");
            assert!(record.streams >= 3, "{record:#?}");
        } else {
            assert_eq!(record.streams, 0, "{resource} was streamed: {record:#?}");
            assert!(record.lists >= 3, "{record:#?}");
        }
    }
}

impl<O: Observer> Script<'_, O> {
    /// The observer was told that its position is forgotten, in the stream and not by a refusal, as a real server does.
    async fn expect_expiry(&mut self, phase: &str, before: &BTreeMap<String, Record>) {
        for resource in RESOURCES {
            let (now, before) = (self.record(resource).await, &before[resource]);
            assert_eq!(now.refused_start, before.refused_start, "{phase}: {resource}: {now:#?}");
            assert!(now.error_events > before.error_events, "{phase}: {resource}: {now:#?}");
        }
    }
}

/// Watches that the server ends in time, again and again.
pub(crate) async fn survives_short_watches<O: Observer>(
    habits: Habits,
    observe: impl AsyncFnOnce(&Stage, Habits) -> O,
) {
    let mut stage = Stage::new().await;
    stage.churn().await;
    let observer = observe(&stage, habits).await;
    let mut script = Script {
        stage: &mut stage,
        observer,
        marks: BTreeMap::new(),
    };
    script.settle("the first objects", Continuity::Restarted).await;
    script.open_watch("changes").await;
    let before = script.observer.report().await;
    for round in 1..=3 {
        let watches = RESOURCES.map(|resource| script.stage.watches_begun(resource));
        script.stage.churn().await;
        script.settle(&format!("round {round}"), Continuity::Exact).await;
        for (resource, known) in RESOURCES.into_iter().zip(watches) {
            let next = script.stage.next_watch(resource, known);
            tokio::time::timeout(NEVER, next)
                .await
                .expect("the watch ends and another begins");
        }
    }
    script.stage.churn().await;
    script.settle("after the last round", Continuity::Exact).await;
    script.went_on("short watches", &before).await;
}
