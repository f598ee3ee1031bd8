//! A log of every write that had an effect, kept beside the API server, and the history of pods that follows from it.
//!
//! Owns the observation: it sits below every fault that a client meets, so a write whose answer was lost is in the log
//! and a write that never arrived is not. A write that reached the server is carried out to its end even if the client
//! that sent it is gone meanwhile.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coppice_runtime::layers::{Call, Transport};
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;
use tower::{BoxError, ServiceExt, service_fn, util::BoxCloneService};

/// One write.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Who sent it.
    pub who: String,
    /// What was asked.
    pub call: Call,
    /// The HTTP status of the answer.
    pub code: u16,
    /// The answer.
    pub answer: Value,
    /// When the answer was given.
    pub at: Instant,
}

impl Entry {
    /// Whether the write was carried out.
    pub fn succeeded(&self) -> bool {
        (200..300).contains(&self.code)
    }

    /// Verb and resource, such as `patch podcliques/status`.
    pub fn what(&self) -> String {
        match &self.call.subresource {
            Some(subresource) => format!("{} {}/{subresource}", self.call.verb, self.call.resource),
            None => format!("{} {}", self.call.verb, self.call.resource),
        }
    }
}

/// The log. Clones share.
#[derive(Clone, Default)]
pub struct Audit {
    entries: Arc<Mutex<Vec<Entry>>>,
}

/// The clique and index of a pod, by its labels.
pub type Seat = (String, String);

/// What happened to pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodHistory {
    /// How many pods were created for each seat.
    pub created: BTreeMap<Seat, usize>,
    /// How many pods of each seat were deleted.
    pub deleted: BTreeMap<Seat, usize>,
    /// Seats that had two live pods at some moment.
    pub doubles: BTreeSet<Seat>,
}

impl Audit {
    /// A transport that logs the writes of `who`.
    pub fn layer(&self, who: &str, inner: Transport) -> Transport {
        let (entries, who) = (self.entries.clone(), who.to_owned());
        BoxCloneService::new(service_fn(move |request: Request<Body>| {
            let call = Call::read(request.method(), request.uri());
            let (inner, entries, who) = (inner.clone(), entries.clone(), who.clone());
            async move {
                if !call.is_write() {
                    return inner.oneshot(request).await;
                }
                // A task of its own: a client that goes away does not take its request back.
                let carried_out = tokio::spawn(async move {
                    let (head, body) = inner.oneshot(request).await?.into_parts();
                    let bytes = body.collect().await?.to_bytes();
                    let entry = Entry {
                        who,
                        call,
                        code: head.status.as_u16(),
                        answer: serde_json::from_slice(&bytes).unwrap_or_default(),
                        at: Instant::now(),
                    };
                    entries.lock().push(entry);
                    let body = Full::new(bytes).map_err(|never| match never {}).boxed_unsync();
                    Ok::<_, BoxError>(Response::from_parts(head, body))
                });
                carried_out.await?
            }
        }))
    }

    /// Everything so far.
    pub fn entries(&self) -> Vec<Entry> {
        self.entries.lock().clone()
    }

    /// Forgets everything so far.
    pub fn clear(&self) {
        self.entries.lock().clear();
    }

    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.entries.lock().len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The writes of those whose name begins with `who`, since the entry with number `since`.
    pub fn of(&self, who: &str, since: usize) -> Vec<Entry> {
        let entries = self.entries.lock();
        entries
            .iter()
            .skip(since)
            .filter(|entry| entry.who.starts_with(who))
            .cloned()
            .collect()
    }

    /// The history of the pods of sets.
    pub fn pods(&self) -> PodHistory {
        let mut history = PodHistory::default();
        let mut seats: BTreeMap<String, Seat> = BTreeMap::new();
        let mut live: BTreeSet<String> = BTreeSet::new();
        for entry in self
            .entries
            .lock()
            .iter()
            .filter(|entry| entry.succeeded() && entry.call.resource == "pods" && entry.call.subresource.is_none())
        {
            let name = entry.answer["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            match entry.call.verb.as_str() {
                "create" => {
                    let Some(seat) = seat(&entry.answer) else { continue };
                    if live.iter().any(|other| seats.get(other) == Some(&seat)) {
                        history.doubles.insert(seat.clone());
                    }
                    *history.created.entry(seat.clone()).or_default() += 1;
                    live.insert(name.clone());
                    seats.insert(name, seat);
                }
                "delete" => {
                    let name = entry.call.name.clone().unwrap_or_default();
                    // The last step of a deletion, by a kubelet, is not another deletion.
                    if let Some(seat) = seats.get(&name).filter(|_| live.remove(&name)) {
                        *history.deleted.entry(seat.clone()).or_default() += 1;
                    }
                }
                _ => {}
            }
        }
        history
    }
}

fn seat(pod: &Value) -> Option<Seat> {
    let labels = &pod["metadata"]["labels"];
    let label = |key: &str| labels[key].as_str().map(str::to_owned);
    Some((label("grove.io/podclique")?, label("grove.io/podclique-pod-index")?))
}
