//! Writing to the API server: bounded, fenced, classified, and folded into the cache.
//!
//! Owns the last step before a write leaves: a place in the priority gate, then the leader's fence, then the time
//! limit. How many writes are in flight follows how quickly the server answers (`congestion.rs`). The answer is folded into the [`Kind`] it belongs to before the caller sees it. Never retries, because only
//! the planner knows whether the write is still wanted; errors say what may be done ([`WriteError`]).
//!
//! ```no_run
//! # async fn example(client: kube::Client, pods: coppice_runtime::cache::Kind<coppice_runtime::cache::PodProjection>) {
//! use coppice_runtime::{lease::Leadership, write::{DeleteOptions, Options, Patch, Precondition, WriteError, Writer}};
//! let writer = Writer::new(client, Leadership::always(), Options::default());
//! let pod = serde_json::json!({"metadata": {"name": "a"}, "spec": {"containers": []}});
//! let view = match writer.create(&pods, Some("n"), &pod).await {
//!     Ok(view) => view,
//!     Err(WriteError::Invalid { causes, .. }) => panic!("rejected: {causes:?}"),
//!     Err(_) => return, // Planned again by the queue.
//! };
//! let label = Patch::Merge(serde_json::json!({"metadata": {"labels": {"x": "y"}}}));
//! let view = writer.patch(&pods, &view.meta.key, &Precondition::version(&view.meta), label).await.unwrap();
//! writer.delete(&pods, &view.meta, DeleteOptions::default()).await.unwrap();
//! # }
//! ```

mod congestion;
mod error;
mod gate;
mod own_part;

use std::{sync::Arc, time::Duration};

use http::Request as HttpRequest;
use kube::{
    Client,
    api::{DeleteParams, GetParams, Patch as WirePatch, PatchParams, PostParams, Preconditions, PropagationPolicy},
    core::{DynamicObject, Request, Resource},
};
use parking_lot::Mutex;
use serde::Serialize;
use serde_json::{Value, json, value::RawValue};
use tokio::time::Instant;

use self::congestion::{Answer, CongestionWindow};
pub use self::{
    error::{Cause, WriteError},
    gate::{Gate, Pass},
    own_part::OwnPart,
};
use crate::{
    cache::{Kind, Meta, ObjectKey, Projection, Version},
    lease::Leadership,
    metrics::Metrics,
};

/// Who goes first when more writes wait than may be in flight: lower ranks do.
#[derive(Debug, Clone, Copy)]
pub struct Ranks {
    /// Creations.
    pub create: u8,
    /// Updates and patches.
    pub update: u8,
    /// Deletions.
    pub delete: u8,
    /// Writes of the status.
    pub status: u8,
}

impl Default for Ranks {
    fn default() -> Self {
        // Deletions early, because they are few and free what creations wait for; status last, because few wait for it. What
        // goes before everything is written by `Writer::ahead`.
        Self {
            delete: 1,
            create: 2,
            update: 2,
            status: 3,
        }
    }
}

/// How a writer works.
#[derive(Clone)]
pub struct Options {
    /// Writes in flight at most. There are fewer while the server is busy.
    pub concurrency: usize,
    /// Writes that may always be in flight, however busy the server is.
    pub least_concurrency: usize,
    /// How long to wait for an answer.
    pub timeout: Duration,
    /// Who goes first.
    pub ranks: Ranks,
    /// The field manager.
    pub manager: String,
    /// Where to count.
    pub metrics: Metrics,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            concurrency: 32,
            least_concurrency: 4,
            timeout: Duration::from_secs(30),
            ranks: Ranks::default(),
            manager: "coppice".to_owned(),
            metrics: Metrics::default(),
        }
    }
}

/// What the server must find for a patch to be applied.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Precondition {
    uid: Option<Arc<str>>,
    version: Option<Version>,
}

impl Precondition {
    /// The object is this one, in whatever version. Servers do not enforce it for the status of custom resources,
    /// whose metadata they ignore except for the version.
    #[must_use]
    pub fn uid(known: &Meta) -> Self {
        Self {
            uid: Some(known.uid.clone()),
            version: None,
        }
    }

    /// The object is this one, in this version.
    #[must_use]
    pub fn version(known: &Meta) -> Self {
        Self {
            uid: Some(known.uid.clone()),
            version: Some(known.version),
        }
    }
}

/// How an object is to be changed.
#[derive(Debug, Clone, PartialEq)]
pub enum Patch {
    /// A JSON merge patch.
    Merge(Value),
    /// A strategic merge patch, which knows the lists of built-in kinds: a pod's conditions merge by type.
    Strategic(Value),
    /// JSON patch operations. Preconditions become tests; a test that fails is a conflict.
    Json(Vec<Value>),
    /// A server-side apply of these fields, taking them over from others when `force` is set.
    Apply {
        /// The fields, with `apiVersion` and `kind`.
        fields: Value,
        /// Whether to take fields over.
        force: bool,
    },
}

/// How an object is to be deleted. The uid is always a precondition.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DeleteOptions {
    /// Also demand the known version.
    pub only_known_version: bool,
    /// The grace period; the object's own when `None`.
    pub grace_seconds: Option<u32>,
    /// What happens to dependents; the server's default when `None`.
    pub propagation: Option<PropagationPolicy>,
}

/// Writes objects. Clones share the gate.
#[derive(Clone)]
pub struct Writer {
    client: Client,
    leadership: Leadership,
    gate: Gate,
    congestion: Arc<Mutex<CongestionWindow>>,
    options: Options,
}

impl Writer {
    /// A writer that asks `leadership` before each write.
    #[must_use]
    pub fn new(client: Client, leadership: Leadership, options: Options) -> Self {
        let congestion = CongestionWindow::new(options.least_concurrency, options.concurrency);
        Self {
            client,
            leadership,
            gate: Gate::new(congestion.size()),
            congestion: Arc::new(Mutex::new(congestion)),
            options,
        }
    }

    /// The same writer for writes that go before all others that wait, whatever they do.
    #[must_use]
    pub fn ahead(&self) -> Self {
        let mut ahead = self.clone();
        ahead.options.ranks = Ranks {
            create: 0,
            update: 0,
            delete: 0,
            status: 0,
        };
        ahead
    }

    /// Creates an object.
    ///
    /// # Errors
    /// As classified.
    pub async fn create<P: Projection>(
        &self,
        kind: &Kind<P>,
        namespace: Option<&str>,
        object: &(impl Serialize + Sync),
    ) -> Result<Arc<P::View>, WriteError> {
        let params = PostParams {
            field_manager: Some(self.options.manager.clone()),
            ..PostParams::default()
        };
        let request = Request::new(DynamicObject::url_path(kind.resource(), namespace));
        let request = request.create(&params, body(object)?).map_err(bad_request)?;
        self.send_and_fold(kind, "create", self.options.ranks.create, request)
            .await
    }

    /// Patches an object.
    ///
    /// # Errors
    /// As classified; [`WriteError::Conflict`] when the precondition does not hold.
    pub async fn patch<P: Projection>(
        &self,
        kind: &Kind<P>,
        key: &ObjectKey,
        precondition: &Precondition,
        patch: Patch,
    ) -> Result<Arc<P::View>, WriteError> {
        let (params, patch) = self.patch_of(precondition, patch);
        let request = request_of(kind, key)
            .patch(&key.name, &params, &patch)
            .map_err(bad_request)?;
        self.send_and_fold(kind, "patch", self.options.ranks.update, request)
            .await
    }

    /// Patches the status of an object.
    ///
    /// # Errors
    /// As classified; [`WriteError::Conflict`] when the precondition does not hold.
    pub async fn patch_status<P: Projection>(
        &self,
        kind: &Kind<P>,
        key: &ObjectKey,
        precondition: &Precondition,
        patch: Patch,
    ) -> Result<Arc<P::View>, WriteError> {
        let tests = matches!(patch, Patch::Json(_));
        let (params, patch) = self.patch_of(precondition, patch);
        let request = request_of(kind, key)
            .patch_subresource("status", &key.name, &params, &patch)
            .map_err(bad_request)?;
        let done = self.send_and_fold(kind, "patch_status", self.options.ranks.status, request);
        match done.await {
            // This is how a server answers when a test fails: it names no field.
            Err(WriteError::Invalid { message, causes })
                if tests && causes.iter().all(|cause| cause.field.is_empty()) =>
            {
                Err(WriteError::Conflict(message))
            }
            other => other,
        }
    }

    /// Deletes the object known as `known`, and no other of its name.
    ///
    /// # Errors
    /// As classified; [`WriteError::Conflict`] when the object is another one by now.
    pub async fn delete<P: Projection>(
        &self,
        kind: &Kind<P>,
        known: &Meta,
        options: DeleteOptions,
    ) -> Result<(), WriteError> {
        let preconditions = Preconditions {
            uid: Some(known.uid.to_string()),
            resource_version: options.only_known_version.then(|| known.version.to_string()),
        };
        let params = DeleteParams {
            grace_period_seconds: options.grace_seconds,
            propagation_policy: options.propagation,
            preconditions: Some(preconditions),
            ..DeleteParams::default()
        };
        let request = request_of(kind, &known.key)
            .delete(&known.key.name, &params)
            .map_err(bad_request)?;
        let answer = self.send(kind, "delete", self.options.ranks.delete, request).await?;
        kind.fold_delete(known, &answer)
            .map_err(|error| WriteError::OutcomeUnknown(error.to_string()))
    }

    /// Posts to a subresource that answers with something else than the object: binding, eviction. The effect reaches
    /// the cache by the watch.
    ///
    /// # Errors
    /// As classified.
    pub async fn post_subresource<P: Projection>(
        &self,
        kind: &Kind<P>,
        key: &ObjectKey,
        subresource: &str,
        object: &(impl Serialize + Sync),
    ) -> Result<Box<RawValue>, WriteError> {
        let params = PostParams {
            field_manager: Some(self.options.manager.clone()),
            ..PostParams::default()
        };
        let request = request_of(kind, key)
            .create_subresource(subresource, &key.name, &params, body(object)?)
            .map_err(bad_request)?;
        self.send(kind, subresource, self.options.ranks.create, request).await
    }

    /// Reads an object from the server itself and folds it in: for what a lost answer left open, and for kinds that are
    /// not watched. Neither fenced nor counted as a write.
    ///
    /// # Errors
    /// As classified.
    pub async fn read<P: Projection>(&self, kind: &Kind<P>, key: &ObjectKey) -> Result<Arc<P::View>, WriteError> {
        let request = request_of(kind, key)
            .get(&key.name, &GetParams::default())
            .map_err(bad_request)?;
        let answer = raw(self.ask(request).await?)?;
        kind.fold_write(&answer)
            .map_err(|error| WriteError::OutcomeUnknown(error.to_string()))
    }

    fn patch_of(&self, precondition: &Precondition, patch: Patch) -> (PatchParams, WirePatch<Value>) {
        let demand = |mut fields: Value| {
            if let Some(uid) = &precondition.uid {
                fields["metadata"]["uid"] = json!(&**uid);
            }
            if let Some(version) = precondition.version {
                fields["metadata"]["resourceVersion"] = json!(version.to_string());
            }
            fields
        };
        match patch {
            Patch::Json(operations) => {
                let test = |path: &str, value: String| json!({"op": "test", "path": path, "value": value});
                let uid = precondition
                    .uid
                    .iter()
                    .map(|uid| test("/metadata/uid", uid.to_string()));
                let version = precondition.version.iter();
                let version = version.map(|version| test("/metadata/resourceVersion", version.to_string()));
                let all: Vec<Value> = uid.chain(version).chain(operations).collect();
                let params = PatchParams {
                    field_manager: Some(self.options.manager.clone()),
                    ..PatchParams::default()
                };
                // Operations that cannot be read are refused by the server, with its reason.
                let all = serde_json::from_value(Value::Array(all)).unwrap_or_default();
                (params, WirePatch::Json(all))
            }
            Patch::Merge(fields) => {
                let params = PatchParams {
                    field_manager: Some(self.options.manager.clone()),
                    ..PatchParams::default()
                };
                (params, WirePatch::Merge(demand(fields)))
            }
            Patch::Strategic(fields) => {
                let params = PatchParams {
                    field_manager: Some(self.options.manager.clone()),
                    ..PatchParams::default()
                };
                (params, WirePatch::Strategic(demand(fields)))
            }
            Patch::Apply { fields, force } => {
                let params = PatchParams::apply(&self.options.manager);
                (
                    if force { params.force() } else { params },
                    WirePatch::Apply(demand(fields)),
                )
            }
        }
    }

    async fn send_and_fold<P: Projection>(
        &self,
        kind: &Kind<P>,
        verb: &str,
        rank: u8,
        request: HttpRequest<Vec<u8>>,
    ) -> Result<Arc<P::View>, WriteError> {
        let answer = self.send(kind, verb, rank, request).await?;
        // The write has happened; it is the answer that nobody understands.
        kind.fold_write(&answer)
            .map_err(|error| WriteError::OutcomeUnknown(error.to_string()))
    }

    async fn send<P: Projection>(
        &self,
        kind: &Kind<P>,
        verb: &str,
        rank: u8,
        request: HttpRequest<Vec<u8>>,
    ) -> Result<Box<RawValue>, WriteError> {
        let result = async {
            let _pass = self.gate.enter(rank).await;
            // After the wait, not before it: the lease may have lapsed meanwhile.
            self.leadership.check()?;
            let (began, in_flight) = (Instant::now(), self.gate.inside());
            let answer = self.ask(request).await.and_then(raw);
            let class = (verb, kind.resource().plural.as_str());
            self.adapt(class, began, in_flight, answer.as_ref().err());
            answer
        };
        let result = result.await;
        let class = result.as_ref().map_or_else(WriteError::class, |_| "ok");
        let resource = kind.resource().plural.as_str();
        let writes = self
            .options
            .metrics
            .counter("writes", "Writes by resource, verb and result");
        writes
            .with(&[("resource", resource), ("verb", verb), ("result", class)])
            .inc();
        result
    }

    /// Adapts the number of writes in flight to an answer.
    fn adapt(&self, class: (&str, &str), began: Instant, in_flight: usize, error: Option<&WriteError>) {
        let now = Instant::now();
        let mut congestion = self.congestion.lock();
        let before = congestion.size();
        let answer = Answer {
            class,
            took: now.saturating_duration_since(began),
            in_flight,
            refused: error.is_some_and(|error| {
                matches!(
                    error,
                    WriteError::Throttled { .. } | WriteError::Unavailable(_) | WriteError::OutcomeUnknown(_)
                )
            }),
        };
        congestion.answered(answer, now);
        let size = congestion.size();
        drop(congestion);
        if size != before {
            self.gate.resize(size);
            let limit = self.options.metrics.gauge(
                "writes_in_flight_limit",
                "Writes that may be in flight; fewer while the API server is busy",
            );
            limit.with(&[]).set(i64::try_from(size).unwrap_or(i64::MAX));
        }
    }

    async fn ask(&self, request: HttpRequest<Vec<u8>>) -> Result<String, WriteError> {
        match tokio::time::timeout(self.options.timeout, self.client.request_text(request)).await {
            Ok(answer) => Ok(answer?),
            Err(_elapsed) => Err(WriteError::OutcomeUnknown(format!(
                "no answer in {:?}",
                self.options.timeout
            ))),
        }
    }
}

fn request_of<P: Projection>(kind: &Kind<P>, key: &ObjectKey) -> Request {
    let namespace = Some(&*key.namespace).filter(|namespace| !namespace.is_empty());
    Request::new(DynamicObject::url_path(kind.resource(), namespace))
}

fn body(object: &impl Serialize) -> Result<Vec<u8>, WriteError> {
    serde_json::to_vec(object).map_err(bad_request)
}

fn raw(text: String) -> Result<Box<RawValue>, WriteError> {
    RawValue::from_string(text).map_err(|error| WriteError::OutcomeUnknown(error.to_string()))
}

fn bad_request(error: impl std::fmt::Display) -> WriteError {
    WriteError::BadRequest {
        code: 0,
        message: error.to_string(),
    }
}

#[cfg(test)]
mod tests;
