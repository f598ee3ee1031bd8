//! Feeds a kind from the API server: list, watch from there, resume where the watch broke off, list again when the
//! server has forgotten that version.
//!
//! Owns the protocol and its waits. Hand-written over kube's client instead of `kube::runtime::watcher`, for two
//! reasons: the barrier needs the version of a list and of bookmarks, which `watcher` keeps to itself; and `watcher`
//! repeats a watch whose start is answered with HTTP 410 for ever instead of listing again. Never decides what is newer
//! (the barrier does), never ends on its own.
//!
//! ```no_run
//! # async fn example(client: kube::Client) {
//! use coppice_runtime::cache::{Cache, PodProjection, reflect};
//! let cache = Cache::default();
//! let pods = cache.kind(kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::Pod>(&()), PodProjection::default());
//! let stop = tokio_util::sync::CancellationToken::new();
//! tokio::spawn(reflect::reflect(client, pods, reflect::Options::default(), stop));
//! cache.wait_synced().await;
//! # }
//! ```

use std::{borrow::Cow, time::Duration};

use futures::{AsyncBufRead, AsyncBufReadExt};
use kube::{
    Client,
    api::{ListParams, WatchParams},
    core::{DynamicObject, Request, Resource, Status},
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{DecodeError, Kind, Projection, Version};
use crate::backoff::Backoff;

/// How the first state is fetched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ListStrategy {
    /// A consistent list in pages.
    #[default]
    Paged,
    /// A watch that begins with the present objects, consistent. Falls back to pages when the server refuses.
    Streaming,
    /// The same, from whatever the answering server has cached: cheapest, may go back in time.
    StreamingFromCache,
}

/// What to watch, and how.
#[derive(Debug, Clone)]
pub struct Options {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only objects that this label selector selects.
    pub label_selector: Option<String>,
    /// Only objects that this field selector selects.
    pub field_selector: Option<String>,
    /// How the first state is fetched.
    pub strategy: ListStrategy,
    /// Objects per page.
    pub page_size: u32,
    /// After how many seconds the server ends a watch, to be resumed.
    pub watch_seconds: u32,
    /// The waits after failures.
    pub backoff: Backoff,
    /// The seed of their jitter.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        let backoff = Backoff {
            first: Duration::from_millis(500),
            longest: Duration::from_secs(30),
            ..Backoff::default()
        };
        Self {
            namespace: None,
            label_selector: None,
            field_selector: None,
            strategy: ListStrategy::default(),
            page_size: 500,
            watch_seconds: 290,
            backoff,
            seed: 0,
        }
    }
}

/// How much later than the server should have ended a silent watch it is given up as dead.
const SILENCE_MARGIN: Duration = Duration::from_secs(5);

/// A watch that lasted so long was a good one.
const STEADY: Duration = Duration::from_secs(1);

enum Interrupted {
    /// The server no longer knows the version we stand at.
    Expired,
    /// The server does not offer what was asked.
    Refused(String),
    /// Anything that may be better next time.
    Failed(String),
}

/// Feeds `kind` until `stop` is cancelled.
pub async fn reflect<P: Projection>(client: Client, kind: Kind<P>, options: Options, stop: CancellationToken) {
    let random = ChaCha8Rng::seed_from_u64(options.seed);
    let reflector = Reflector {
        request: Request::new(DynamicObject::url_path(kind.resource(), options.namespace.as_deref())),
        client,
        kind,
        options,
        random,
        failures: 0,
        listed: false,
    };
    stop.run_until_cancelled_owned(reflector.run()).await;
}

struct Reflector<P: Projection> {
    request: Request,
    client: Client,
    kind: Kind<P>,
    options: Options,
    random: ChaCha8Rng,
    failures: u32,
    /// Whether there is a state to watch from.
    listed: bool,
}

impl<P: Projection> Reflector<P> {
    async fn run(mut self) {
        loop {
            let (resuming, begun) = (self.listed, Instant::now());
            let result = if resuming {
                self.stream(StreamFrom::Here).await
            } else {
                self.first_state().await
            };
            let steady = begun.elapsed() >= STEADY;
            if resuming && steady {
                self.failures = 0;
            }
            match result {
                // A server that ends each watch at once must not be asked again without a pause.
                Ok(()) if resuming && !steady => self.pause().await,
                Ok(()) => {}
                Err(Interrupted::Expired) => {
                    debug!(resource = self.resource(), "the watch expired, listing again");
                    self.kind.count("relists");
                    self.listed = false;
                    // At once when the watch was steady before; a watch that expires again and again is paused.
                    if self.failures == 0 {
                        self.failures = 1;
                    } else {
                        self.pause().await;
                    }
                }
                Err(Interrupted::Refused(reason)) => {
                    warn!(resource = self.resource(), reason, "refused, listing in pages");
                    if self.options.strategy == ListStrategy::Paged {
                        self.pause().await;
                    }
                    self.options.strategy = ListStrategy::Paged;
                }
                Err(Interrupted::Failed(reason)) => {
                    warn!(resource = self.resource(), reason, "list or watch interrupted");
                    self.kind.count("errors");
                    self.pause().await;
                }
            }
        }
    }

    fn resource(&self) -> String {
        self.kind.resource().plural.clone()
    }

    async fn pause(&mut self) {
        self.failures += 1;
        tokio::time::sleep(self.options.backoff.delay(self.failures, &mut self.random)).await;
    }

    async fn first_state(&mut self) -> Result<(), Interrupted> {
        match self.options.strategy {
            ListStrategy::Paged => self.list().await,
            ListStrategy::Streaming => {
                self.stream(StreamFrom::Start {
                    version: "",
                    consistent: true,
                })
                .await
            }
            ListStrategy::StreamingFromCache => {
                self.stream(StreamFrom::Start {
                    version: "0",
                    consistent: false,
                })
                .await
            }
        }
    }

    async fn list(&mut self) -> Result<(), Interrupted> {
        self.kind.begin_list();
        let mut params = ListParams {
            label_selector: self.options.label_selector.clone(),
            field_selector: self.options.field_selector.clone(),
            limit: Some(self.options.page_size),
            ..ListParams::default()
        };
        loop {
            let request = self
                .request
                .list(&params)
                .map_err(|error| Interrupted::Failed(error.to_string()))?;
            let text = self.client.request_text(request).await.map_err(interruption)?;
            let page: Page<'_> =
                serde_json::from_str(&text).map_err(|error| Interrupted::Failed(format!("list: {error}")))?;
            for item in page.items.iter().flatten() {
                self.report(self.kind.list(item));
            }
            match page.metadata.next.filter(|token| !token.is_empty()) {
                Some(token) => params.continue_token = Some(token.into_owned()),
                None => return self.finish(&page.metadata.resource_version, true),
            }
        }
    }

    /// One watch request to its end. An end is normal: the caller resumes.
    async fn stream(&mut self, from: StreamFrom) -> Result<(), Interrupted> {
        let (version, mut starting) = match from {
            StreamFrom::Here => (self.kind.status().passed.to_string(), None),
            StreamFrom::Start { version, consistent } => (version.to_owned(), Some(consistent)),
        };
        let params = WatchParams {
            label_selector: self.options.label_selector.clone(),
            field_selector: self.options.field_selector.clone(),
            timeout: Some(self.options.watch_seconds),
            bookmarks: true,
            send_initial_events: starting.is_some(),
        };
        let request = self
            .request
            .watch(&params, &version)
            .map_err(|error| Interrupted::Failed(error.to_string()))?;
        let mut body =
            Box::pin(
                self.client
                    .request_stream(request)
                    .await
                    .map_err(|error| match interruption(error) {
                        Interrupted::Refused(reason) if starting.is_none() => Interrupted::Failed(reason),
                        other => other,
                    })?,
            );
        if starting.is_some() {
            self.kind.begin_list();
        }
        let patience = Duration::from_secs(u64::from(self.options.watch_seconds)) + SILENCE_MARGIN;
        let mut line = Vec::new();
        while let Some(()) = next_line(&mut body, &mut line, patience).await? {
            let event: Event<'_> =
                serde_json::from_slice(&line).map_err(|error| Interrupted::Failed(format!("watch event: {error}")))?;
            match (&*event.kind, starting) {
                ("ADDED" | "MODIFIED", Some(_)) => self.report(self.kind.list(event.object)),
                ("ADDED" | "MODIFIED", None) => self.report(self.kind.observe(event.object)),
                ("DELETED", None) => self.report(self.kind.observe_deleted(event.object)),
                ("BOOKMARK", _) => {
                    let mark: Bookmark<'_> = serde_json::from_str(event.object.get())
                        .map_err(|error| Interrupted::Failed(format!("bookmark: {error}")))?;
                    match starting.filter(|_| mark.ends_initial_events()) {
                        Some(consistent) => {
                            self.finish(&mark.metadata.resource_version, consistent)?;
                            starting = None;
                        }
                        None if starting.is_none() => self.kind.observe_version(version_of(&mark.metadata)?),
                        None => {}
                    }
                }
                ("ERROR", _) => return Err(status_interruption(event.object)),
                (other, _) => return Err(Interrupted::Failed(format!("unexpected watch event type {other:?}"))),
            }
            if starting.is_none() {
                self.failures = 0;
            }
        }
        match starting {
            None => Ok(()),
            Some(_) => Err(Interrupted::Failed(
                "the stream ended before the first state was complete".to_owned(),
            )),
        }
    }

    fn finish(&mut self, version: &str, consistent: bool) -> Result<(), Interrupted> {
        let version =
            Version::parse(version).ok_or_else(|| Interrupted::Failed(format!("list at version {version:?}")))?;
        self.kind.finish_list(version, consistent).map_err(|error| {
            warn!(resource = self.resource(), %error, "the server's store was set back, starting afresh");
            Interrupted::Expired
        })?;
        self.listed = true;
        Ok(())
    }

    fn report(&self, result: Result<(), DecodeError>) {
        self.kind.count("events");
        if let Err(error) = result {
            warn!(resource = self.resource(), %error, "skipped a malformed object");
        }
    }
}

#[derive(Clone, Copy)]
enum StreamFrom {
    /// Where the watch broke off.
    Here,
    /// From a first state that the stream begins with.
    Start { version: &'static str, consistent: bool },
}

/// Reads a line without its end. `None` at the end of the body and when the server is silent for too long.
async fn next_line(
    body: &mut (impl AsyncBufRead + Unpin),
    line: &mut Vec<u8>,
    patience: Duration,
) -> Result<Option<()>, Interrupted> {
    line.clear();
    match tokio::time::timeout(patience, body.read_until(b'\n', line)).await {
        Err(_silent) => Ok(None),
        Ok(Err(error)) => Err(Interrupted::Failed(format!("watch body: {error}"))),
        // A line without its end was cut off in the middle.
        Ok(Ok(_)) if line.last() != Some(&b'\n') => Ok(None),
        Ok(Ok(_)) => Ok(Some(())),
    }
}

fn interruption(error: kube::Error) -> Interrupted {
    match error {
        kube::Error::Api(status) => classify(&status),
        other => Interrupted::Failed(other.to_string()),
    }
}

fn status_interruption(object: &RawValue) -> Interrupted {
    match serde_json::from_str::<Status>(object.get()) {
        Ok(status) => classify(&status),
        Err(error) => Interrupted::Failed(format!("watch error event: {error}")),
    }
}

fn classify(status: &Status) -> Interrupted {
    let too_large = status.details.iter().flat_map(|details| &details.causes).any(|cause| {
        // The version is beyond the server's newest: a lagging replica, or a store that was set back. A consistent
        // list tells which.
        cause.reason == "ResourceVersionTooLarge"
    });
    match status.code {
        410 => Interrupted::Expired,
        _ if too_large => Interrupted::Expired,
        400 | 422 => Interrupted::Refused(status.message.clone()),
        403 => Interrupted::Failed(format!(
            "403 {}: {}; a role with the verbs list and watch on this resource is missing",
            status.reason, status.message
        )),
        code => Interrupted::Failed(format!("{code} {}: {}", status.reason, status.message)),
    }
}

fn version_of(metadata: &ListMetadata<'_>) -> Result<Version, Interrupted> {
    Version::parse(&metadata.resource_version)
        .ok_or_else(|| Interrupted::Failed(format!("bookmark at version {:?}", metadata.resource_version)))
}

#[derive(Deserialize)]
struct Page<'text> {
    #[serde(borrow)]
    metadata: ListMetadata<'text>,
    #[serde(borrow)]
    items: Option<Vec<&'text RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata<'text> {
    #[serde(default, borrow)]
    resource_version: Cow<'text, str>,
    #[serde(default, borrow, rename = "continue")]
    next: Option<Cow<'text, str>>,
    #[serde(default)]
    annotations: Option<std::collections::BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct Event<'text> {
    #[serde(rename = "type", borrow)]
    kind: Cow<'text, str>,
    #[serde(borrow)]
    object: &'text RawValue,
}

#[derive(Deserialize)]
struct Bookmark<'text> {
    #[serde(borrow)]
    metadata: ListMetadata<'text>,
}

impl Bookmark<'_> {
    fn ends_initial_events(&self) -> bool {
        self.metadata
            .annotations
            .iter()
            .any(|annotations| annotations.contains_key("k8s.io/initial-events-end"))
    }
}
