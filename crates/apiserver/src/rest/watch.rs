//! Watches over HTTP: one line of JSON per event, bookmarks, an end.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use serde_json::{Value, json};
use tokio::time::{Instant, Sleep, sleep_until};

use super::list::partial;
use super::query::revision;
use super::{Call, Form, Reply, view};
use crate::selector::FieldSelector;
use crate::status::ApiError;
use crate::store::{Batch, Delivery, EventType, Object, StartFrom, Watch, WatchError, frame};
use crate::table;

/// A watch without `timeoutSeconds` ends after this.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(45 * 60);
/// How often a watcher that allows it learns the current revision.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);

impl Call {
    /// GET with `watch`.
    pub(super) fn watch(self) -> Result<Reply, ApiError> {
        let mut selection = self.selection()?;
        if !self.path.name.is_empty() {
            selection.fields = FieldSelector::name(&self.path.name);
        }
        let (start, initial) = self.watch_start()?;
        let opened = self.core.store.watch(&self.served.id, selection, start);
        let mut watch = match opened {
            Ok(watch) => watch,
            // A real server answers from its watch cache, which tells this within the stream; kube's watcher would
            // try the same forgotten position for ever if it were refused.
            Err(error @ WatchError::Expired { .. }) => {
                let line = line_of("ERROR", &watch_error(&error).to_value());
                return Ok(Reply::stream(Full::new(line).boxed_unsync()));
            }
            Err(error @ WatchError::Future { .. }) => return Err(watch_error(&error)),
        };
        let mut lines = VecDeque::new();
        let mut shaper = Shaper { headers: true };
        if initial != Initial::None {
            for object in watch.take_initial() {
                lines.push_back(shaper.line(&self, EventType::Added, &object));
            }
        }
        if initial == Initial::EventsThenBookmark && self.options.allow_watch_bookmarks {
            lines.push_back(self.bookmark(watch.started_at(), true));
        }
        let timeout = self
            .options
            .timeout_seconds
            .map_or(DEFAULT_TIMEOUT, Duration::from_secs);
        let now = Instant::now();
        let state = Running {
            call: self,
            watch,
            shaper,
            lines,
            deadline: Box::pin(sleep_until(now + timeout)),
            next_bookmark: Box::pin(sleep_until(now + BOOKMARK_INTERVAL)),
            ended: false,
        };
        let events = stream::unfold(state, |mut state| async move {
            let line = state.next_chunk().await?;
            Some((Ok::<_, Infallible>(Frame::data(line)), state))
        });
        Ok(Reply::stream(StreamBody::new(events).boxed_unsync()))
    }

    /// Where the watch begins and what it tells first.
    fn watch_start(&self) -> Result<(StartFrom, Initial), ApiError> {
        let wanted = revision(&self.options.resource_version).map_err(|_| {
            let text = &self.options.resource_version;
            let message = format!(
                "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
            );
            ApiError::new(http::StatusCode::INTERNAL_SERVER_ERROR, "", message)
        })?;
        match (self.options.send_initial_events, wanted) {
            (Some(true), wanted) => {
                let current = self.core.store.revision();
                match wanted {
                    Some(wanted) if wanted > current => Err(ApiError::revision_too_large(wanted, current)),
                    _ => Ok((StartFrom::CurrentState, Initial::EventsThenBookmark)),
                }
            }
            (_, Some(wanted)) => Ok((StartFrom::Revision(wanted), Initial::None)),
            (Some(false), None) => Ok((StartFrom::CurrentState, Initial::None)),
            (None, None) => Ok((StartFrom::CurrentState, Initial::Events)),
        }
    }

    fn bookmark(&self, revision: u64, initial_events_end: bool) -> Bytes {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_events_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.answer.form {
            Form::Metadata => {
                json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": metadata})
            }
            _ => json!({"kind": &*self.served.kind, "apiVersion": self.served.api_version(), "metadata": metadata}),
        };
        line_of("BOOKMARK", &object)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Initial {
    None,
    Events,
    EventsThenBookmark,
}

/// Gives events the form the client asked for.
struct Shaper {
    /// Whether the next table still needs its columns.
    headers: bool,
}

impl Shaper {
    fn line(&mut self, call: &Call, event: EventType, object: &Object) -> Bytes {
        match call.answer.form {
            Form::Table => {
                let value = view::shown_value(&call.served, object);
                let metadata = json!({"resourceVersion": object.revision().to_string()});
                let options = table::TableOptions {
                    headers: self.headers,
                    ..call.table_options()
                };
                self.headers = false;
                let table = table::table(&call.served, std::slice::from_ref(&value), &metadata, &options);
                line_of(event.as_str(), &table)
            }
            Form::Metadata => line_of(event.as_str(), &partial(view::shown_value(&call.served, object))),
            _ => frame(event.as_str(), &view::shown(&call.served, object)),
        }
    }

    fn batch(&mut self, call: &Call, batch: &Batch, lines: &mut VecDeque<Bytes>) {
        let oldest = batch.deliveries().first().map(|delivery| delivery.commit.revision());
        let as_stored = call.answer.form == Form::Whole
            && view::is_storage_view(&call.served)
            && oldest >= Some(call.served.rules.defaults_changed_at());
        if as_stored {
            lines.extend(batch.lines());
            return;
        }
        let shaped = |delivery: &Delivery| self.line(call, delivery.event, delivery.object());
        lines.extend(batch.deliveries().iter().map(shaped));
    }
}

struct Running {
    call: Call,
    watch: Watch,
    shaper: Shaper,
    lines: VecDeque<Bytes>,
    // Kept between events: a timer that is made anew for each of them costs more than the event.
    deadline: Pin<Box<Sleep>>,
    next_bookmark: Pin<Box<Sleep>>,
    ended: bool,
}

impl Running {
    /// The next piece of the stream; `None` at its end.
    async fn next_chunk(&mut self) -> Option<Bytes> {
        loop {
            if let Some(line) = self.lines.pop_front() {
                return Some(line);
            }
            if self.ended {
                return None;
            }
            tokio::select! {
                biased;
                () = &mut self.deadline => return None,
                batch = self.watch.next() => self.take(batch),
                () = &mut self.next_bookmark, if self.call.options.allow_watch_bookmarks => {
                    let next = self.next_bookmark.deadline() + BOOKMARK_INTERVAL;
                    self.next_bookmark.as_mut().reset(next);
                    return Some(self.call.bookmark(self.watch.position(), false));
                }
            }
        }
    }

    fn take(&mut self, batch: Result<Arc<Batch>, WatchError>) {
        match batch {
            Ok(batch) => self.shaper.batch(&self.call, &batch, &mut self.lines),
            Err(error) => {
                self.lines.push_back(line_of("ERROR", &watch_error(&error).to_value()));
                self.ended = true;
            }
        }
    }
}

fn line_of(event: &str, object: &Value) -> Bytes {
    let object = serde_json::to_vec(object).expect("trees always serialise");
    frame(event, &object)
}

fn watch_error(error: &WatchError) -> ApiError {
    match *error {
        WatchError::Expired { .. } => ApiError::expired(error.to_string()),
        WatchError::Future { position, current } => ApiError::revision_too_large(position, current),
    }
}
