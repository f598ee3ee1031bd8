//! The event recorder: telling users what happened to an object, without ever slowing down who tells.
//!
//! Owns deduplication, series, the rate per object and a bounded queue that drops and counts. Events are core/v1,
//! because `kubectl describe` shows their counts and times best. Names are made from the content, so a restarted
//! process continues the series of its predecessor. Never blocks, never retries: events are hints, not state.
//!
//! ```
//! use coppice_runtime::{events::{self, EventKind, ObjectReference}, clock::SystemClock, metrics::Metrics};
//! let (recorder, _sink) = events::recorder("coppice", std::sync::Arc::new(SystemClock), &Metrics::default());
//! let pod = ObjectReference {
//!     api_version: "v1".into(), kind: "Pod".into(), namespace: Some("n".into()), name: "a".into(), uid: "u".into(),
//! };
//! recorder.record(&pod, EventKind::Warning, "Unschedulable", "no node has 8 GPUs free");
//! // In the process: tokio::spawn(sink.run(client, stop));
//! ```

mod correlate;

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Event, EventSource, ObjectReference as WireReference},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use prometheus_client::metrics::counter::Counter;
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use self::correlate::{Correlator, Write};
use crate::{clock::SharedClock, metrics::Metrics};

/// The object that an event is about.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ObjectReference {
    /// Its API version.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; `None` for cluster-scoped objects, whose events go to `default`.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
}

/// How serious an event is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// As it should be.
    Normal,
    /// Worth a look.
    Warning,
}

impl EventKind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Normal => "Normal",
            Self::Warning => "Warning",
        }
    }
}

/// How much is told.
#[derive(Debug, Clone, Copy)]
struct Rates {
    /// New series per object: per second, and in a burst.
    per_object: (f64, u32),
    /// How long between two writes of a series.
    series_interval: Duration,
    /// After how long without a note a series begins anew.
    forget_after: Duration,
    /// How many series and objects are remembered.
    remembered: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Note {
    object: ObjectReference,
    kind: EventKind,
    reason: String,
    message: String,
}

/// Where events are told. Clones share.
#[derive(Clone)]
pub struct Recorder {
    notes: mpsc::Sender<(Note, Timestamp)>,
    clock: SharedClock,
    dropped: Counter,
}

/// What writes the events; see [`Sink::run`].
pub struct Sink {
    notes: mpsc::Receiver<(Note, Timestamp)>,
    component: String,
    written: Counter,
    dropped_by_rate: Counter,
    failed: Counter,
}

/// How many notes wait at most.
const WAITING: usize = 1024;
/// The longest message that the API server takes.
const LONGEST_MESSAGE: usize = 1024;

/// A recorder and the sink that writes for it, under the name `component`.
#[must_use]
pub fn recorder(component: &str, clock: SharedClock, metrics: &Metrics) -> (Recorder, Sink) {
    let (sender, receiver) = mpsc::channel(WAITING);
    let counter = metrics.counter("events", "Events by what became of them");
    let of = |result| counter.with(&[("result", result)]);
    let recorder = Recorder {
        notes: sender,
        clock,
        dropped: of("dropped_queue_full"),
    };
    let sink = Sink {
        notes: receiver,
        component: component.to_owned(),
        written: of("written"),
        dropped_by_rate: of("dropped_by_rate"),
        failed: of("failed"),
    };
    (recorder, sink)
}

impl Recorder {
    /// Tells of something that happened to `object`. Returns at once; when too much waits already, the note is dropped
    /// and counted.
    pub fn record(&self, object: &ObjectReference, kind: EventKind, reason: &str, message: &str) {
        let message = message.chars().take(LONGEST_MESSAGE).collect();
        let note = Note {
            object: object.clone(),
            kind,
            reason: reason.to_owned(),
            message,
        };
        if self.notes.try_send((note, self.clock.now())).is_err() {
            self.dropped.inc();
        }
    }
}

impl Sink {
    /// Writes events until `stop` is cancelled or all recorders are gone; what waits is then written, within reason.
    pub async fn run(mut self, client: Client, stop: CancellationToken) {
        let mut correlator = Correlator::new(Rates::default());
        loop {
            let due = correlator.next_due();
            let write = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                note = self.notes.recv() => match note {
                    Some((note, at)) => self.correlate(&mut correlator, note, at),
                    None => break,
                },
                () = until(due) => correlator.due(Instant::now()),
            };
            if let Some(write) = write {
                self.write(&client, write).await;
            }
        }
        let last_words = async {
            while let Ok((note, at)) = self.notes.try_recv() {
                if let Some(write) = self.correlate(&mut correlator, note, at) {
                    self.write(&client, write).await;
                }
            }
            for write in correlator.rest() {
                self.write(&client, write).await;
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(3), last_words).await;
    }

    fn correlate(&self, correlator: &mut Correlator, note: Note, at: Timestamp) -> Option<Write> {
        correlator.take(note, at, Instant::now()).unwrap_or_else(|()| {
            self.dropped_by_rate.inc();
            None
        })
    }

    async fn write(&self, client: &Client, write: Write) {
        let result = match write {
            Write::Create { name, note, at } => self.create(client, &name, &note, at, at, 1).await,
            Write::Count {
                name,
                note,
                first,
                last,
                count,
            } => {
                let api: Api<Event> = Api::namespaced(client.clone(), namespace_of(&note));
                let patch = serde_json::json!({"count": count, "lastTimestamp": Time(last)});
                match api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await {
                    // The server has forgotten the event; the series goes on as a new one.
                    Err(kube::Error::Api(status)) if status.code == 404 => {
                        self.create(client, &name, &note, first, last, count).await
                    }
                    other => other.map(|_| ()),
                }
            }
        };
        match result {
            Ok(()) => self.written.inc(),
            Err(error) => {
                debug!(%error, "an event was not written");
                self.failed.inc()
            }
        };
    }

    async fn create(
        &self,
        client: &Client,
        name: &str,
        note: &Note,
        first: Timestamp,
        last: Timestamp,
        count: i32,
    ) -> Result<(), kube::Error> {
        let api: Api<Event> = Api::namespaced(client.clone(), namespace_of(note));
        let event = self.event(name, note, first, last, count);
        match api.create(&PostParams::default(), &event).await {
            // A predecessor told the same: its series goes on.
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let before = api.get(name).await?;
                let count = before.count.unwrap_or(1).saturating_add(count);
                let patch = serde_json::json!({"count": count, "lastTimestamp": Time(last)});
                api.patch(name, &PatchParams::default(), &Patch::Merge(patch))
                    .await
                    .map(|_| ())
            }
            other => other.map(|_| ()),
        }
    }

    fn event(&self, name: &str, note: &Note, first: Timestamp, last: Timestamp, count: i32) -> Event {
        Event {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace_of(note).to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: WireReference {
                api_version: Some(note.object.api_version.clone()),
                kind: Some(note.object.kind.clone()),
                name: Some(note.object.name.clone()),
                namespace: note.object.namespace.clone(),
                uid: Some(note.object.uid.clone()),
                ..WireReference::default()
            },
            type_: Some(note.kind.as_str().to_owned()),
            reason: Some(note.reason.clone()),
            message: Some(note.message.clone()),
            count: Some(count),
            first_timestamp: Some(Time(first)),
            last_timestamp: Some(Time(last)),
            source: Some(EventSource {
                component: Some(self.component.clone()),
                host: None,
            }),
            reporting_component: Some(self.component.clone()),
            ..Event::default()
        }
    }
}

fn namespace_of(note: &Note) -> &str {
    note.object.namespace.as_deref().unwrap_or("default")
}

async fn until(when: Option<Instant>) {
    match when {
        Some(when) => tokio::time::sleep_until(when).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
