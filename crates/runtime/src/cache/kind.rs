//! The cache of several kinds under one lock, and the handle of one kind.
//!
//! Owns the lock order: the gate first, then the parts of a kind. Writers hold the gate alone, readers share it through
//! a [`Moment`], which therefore shows all kinds at the same instant. Handlers are called after the gate was left, so
//! they may read; when several threads fold writes, they may be called in another order than the changes happened in,
//! so they only mark what to look at. Never does I/O.

use std::{collections::BTreeMap, sync::Arc};

use kube::core::ApiResource;
use parking_lot::{Mutex, RwLock, RwLockReadGuard};
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::sync::watch;

use super::{
    Barrier, Change, DecodeError, Departures, Head, Index, Interner, Meta, ObjectKey, Projection, Version, WentBack,
    index::Maintained,
};
use crate::metrics::Metrics;

#[derive(Default)]
struct CacheShared {
    gate: RwLock<()>,
    names: Interner,
    metrics: Metrics,
    synced: Mutex<Vec<(String, watch::Receiver<bool>)>>,
}

/// The cache of a controller. Clones share.
#[derive(Clone, Default)]
pub struct Cache {
    shared: Arc<CacheShared>,
}

/// An instant of the cache: as long as it is held, nothing changes. Take what is needed and drop it; it is not `Send`,
/// so that no task holds it across an await.
pub struct Moment<'cache> {
    _guard: RwLockReadGuard<'cache, ()>,
}

impl Cache {
    /// A cache that counts in `metrics`.
    #[must_use]
    pub fn new(metrics: Metrics) -> Self {
        Self {
            shared: Arc::new(CacheShared {
                metrics,
                ..CacheShared::default()
            }),
        }
    }

    /// Adds a kind.
    pub fn kind<P: Projection>(&self, resource: ApiResource, projection: P) -> Kind<P> {
        let (synced, receiver) = watch::channel(false);
        self.shared.synced.lock().push((resource.plural.clone(), receiver));
        let label = [("resource", resource.plural.as_str())];
        let metrics = &self.shared.metrics;
        let shared = KindShared {
            objects: metrics.gauge("cache_objects", "Objects held, by resource").with(&label),
            stale: metrics
                .counter("cache_stale_accounts", "Accounts dropped as older than what is held")
                .with(&label),
            malformed_count: metrics
                .gauge("cache_malformed_objects", "Objects that cannot be decoded")
                .with(&label),
            cache: self.shared.clone(),
            resource,
            projection,
            barrier: RwLock::new(Barrier::default()),
            indexes: RwLock::new(Vec::new()),
            handlers: RwLock::new(Vec::new()),
            malformed: Mutex::new(BTreeMap::new()),
            synced,
        };
        Kind {
            shared: Arc::new(shared),
        }
    }

    /// Holds the cache still for reading.
    #[must_use]
    pub fn moment(&self) -> Moment<'_> {
        // Recursive, so that a second moment on the same thread cannot wait for a writer that waits for the first.
        Moment {
            _guard: self.shared.gate.read_recursive(),
        }
    }

    /// Waits until every kind added so far has been listed once.
    pub async fn wait_synced(&self) {
        let receivers: Vec<_> = self
            .shared
            .synced
            .lock()
            .iter()
            .map(|(_, receiver)| receiver.clone())
            .collect();
        for mut receiver in receivers {
            // The sender lives in the kind; a kind that was dropped has nothing to wait for.
            let _ = receiver.wait_for(|synced| *synced).await;
        }
    }

    /// The resources that have not been listed yet.
    #[must_use]
    pub fn unsynced(&self) -> Vec<String> {
        let synced = self.shared.synced.lock();
        synced
            .iter()
            .filter(|(_, receiver)| !*receiver.borrow())
            .map(|(resource, _)| resource.clone())
            .collect()
    }
}

type Handler<V> = dyn Fn(&Change<V>) + Send + Sync;

struct KindShared<P: Projection> {
    cache: Arc<CacheShared>,
    resource: ApiResource,
    projection: P,
    barrier: RwLock<Barrier<P::View>>,
    indexes: RwLock<Vec<Box<dyn Maintained<P::View>>>>,
    handlers: RwLock<Vec<Arc<Handler<P::View>>>>,
    malformed: Mutex<BTreeMap<ObjectKey, String>>,
    synced: watch::Sender<bool>,
    objects: Gauge,
    stale: Counter,
    malformed_count: Gauge,
}

/// The handle of one kind in the cache. Clones share.
pub struct Kind<P: Projection> {
    shared: Arc<KindShared<P>>,
}

impl<P: Projection> Clone for Kind<P> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

/// How a kind stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KindStatus {
    /// Whether it was listed once.
    pub synced: bool,
    /// How many objects are held.
    pub objects: usize,
    /// The version up to which the watch has told everything.
    pub passed: Version,
    /// Own writes that the watch has not passed yet.
    pub unconfirmed: usize,
    /// Objects of which the newest version cannot be decoded, and why.
    pub malformed: BTreeMap<ObjectKey, String>,
}

impl<P: Projection> Kind<P> {
    /// The resource that is cached.
    #[must_use]
    pub fn resource(&self) -> &ApiResource {
        &self.shared.resource
    }

    /// Adds an index: `extract`, a pure function, calls its second argument with each index key of a view. What is
    /// held is indexed at once.
    pub fn index<K>(&self, extract: impl Fn(&P::View, &mut dyn FnMut(K)) + Send + Sync + 'static) -> Index<P::View, K>
    where
        K: Ord + Clone + Send + Sync + 'static,
    {
        let index = Index::new(extract);
        let _gate = self.shared.cache.gate.write();
        for (key, view) in self.shared.barrier.read().iter() {
            index.insert(key, view);
        }
        self.shared.indexes.write().push(Box::new(index.clone()));
        index
    }

    /// Remembers what leaves an index key from now on: `extract`, a pure function, gives the key of a view, and `is_same`
    /// says whether two views under one name are of the same object.
    pub fn departures<K>(
        &self,
        extract: impl Fn(&P::View) -> Option<K> + Send + Sync + 'static,
        is_same: fn(&P::View, &P::View) -> bool,
    ) -> Departures<P::View, K>
    where
        K: Ord + Clone + Send + Sync + 'static,
    {
        let departures = Departures::new(extract, is_same);
        self.shared.indexes.write().push(Box::new(departures.clone()));
        departures
    }

    /// Calls `handler` with every later change.
    pub fn on_change(&self, handler: impl Fn(&Change<P::View>) + Send + Sync + 'static) {
        self.shared.handlers.write().push(Arc::new(handler));
    }

    /// The object under `key`.
    #[must_use]
    pub fn get(&self, _moment: &Moment<'_>, key: &ObjectKey) -> Option<Arc<P::View>> {
        self.shared.barrier.read().get(key).cloned()
    }

    /// The object under `key` as it is held right now: for a handler, which may be called later than a newer change was
    /// made.
    #[must_use]
    pub fn latest(&self, key: &ObjectKey) -> Option<Arc<P::View>> {
        self.shared.barrier.read().get(key).cloned()
    }

    /// All objects, ordered by key.
    #[must_use]
    pub fn all(&self, _moment: &Moment<'_>) -> Vec<Arc<P::View>> {
        self.shared
            .barrier
            .read()
            .iter()
            .map(|(_, view)| view.clone())
            .collect()
    }

    /// Waits until the kind has been listed once.
    pub async fn wait_synced(&self) {
        // The sender lives as long as this handle.
        let _ = self.shared.synced.subscribe().wait_for(|synced| *synced).await;
    }

    /// The keys of all objects, in order.
    #[must_use]
    pub fn keys(&self, _moment: &Moment<'_>) -> Vec<ObjectKey> {
        self.shared.barrier.read().iter().map(|(key, _)| key.clone()).collect()
    }

    /// How the kind stands.
    #[must_use]
    pub fn status(&self) -> KindStatus {
        let barrier = self.shared.barrier.read();
        KindStatus {
            synced: *self.shared.synced.borrow(),
            objects: barrier.len(),
            passed: barrier.passed(),
            unconfirmed: barrier.unconfirmed(),
            malformed: self.shared.malformed.lock().clone(),
        }
    }

    /// Folds in an object that the server returned from a write or a quorum read, and returns its view. A write that took
    /// away the last thing that held a deleted object has made an end of it: the answer shows the object as it was, in its
    /// old version, and the object is gone.
    ///
    /// # Errors
    /// When the object cannot be decoded; the cache is then unchanged.
    pub fn fold_write(&self, object: &RawValue) -> Result<Arc<P::View>, DecodeError> {
        let head = Head::read(object, &self.shared.cache.names)?;
        let view = self.project(&head.meta, object)?;
        // What holds a namespace is in its specification.
        let ended = head.terminating && head.unheld && self.resource().kind != "Namespace";
        self.change(|barrier, changes| match ended {
            true => barrier.fold_deleted(&head.meta, None, changes),
            false => barrier.fold(head.meta, view.clone(), changes),
        });
        Ok(view)
    }

    /// Folds in the answer of an own delete of the object known as `known`: an object that is still held (finalizers,
    /// grace period) is shown terminating, otherwise it is gone.
    ///
    /// # Errors
    /// When the answer cannot be decoded; the cache is then unchanged.
    pub fn fold_delete(&self, known: &Meta, answer: &RawValue) -> Result<(), DecodeError> {
        #[derive(Deserialize)]
        struct Kinded {
            kind: Option<String>,
        }
        let kinded: Kinded =
            serde_json::from_str(answer.get()).map_err(|error| DecodeError::Metadata(error.to_string()))?;
        let gone_at = if kinded.kind.as_deref() == Some("Status") {
            None
        } else {
            let head = Head::read(answer, &self.shared.cache.names)?;
            // What holds a namespace is in its specification, and is always there at first.
            if !head.unheld || kinded.kind.as_deref() == Some("Namespace") {
                return self.fold_write(answer).map(|_| ());
            }
            Some(head.meta.version)
        };
        self.change(|barrier, changes| barrier.fold_deleted(known, gone_at, changes));
        Ok(())
    }

    /// The watch told of an object that was added or modified.
    ///
    /// # Errors
    /// When the object was skipped because it cannot be decoded.
    pub fn observe(&self, object: &RawValue) -> Result<(), DecodeError> {
        self.take(object, Barrier::observe, Barrier::observe_malformed)
    }

    /// The watch told of an object that was deleted.
    ///
    /// # Errors
    /// When the object was skipped because it cannot be identified.
    pub fn observe_deleted(&self, object: &RawValue) -> Result<(), DecodeError> {
        let head = Head::read(object, &self.shared.cache.names)?;
        self.note_malformed(&head.meta.key, None);
        self.change(|barrier, changes| barrier.observe_deleted(&head.meta, changes));
        Ok(())
    }

    /// The watch has told everything up to `version`.
    pub fn observe_version(&self, version: Version) {
        self.change(|barrier, changes| barrier.advance(version, changes));
    }

    /// A list begins.
    pub fn begin_list(&self) {
        self.shared.barrier.write().begin_list();
    }

    /// The list contains this object.
    ///
    /// # Errors
    /// When the object was skipped because it cannot be decoded.
    pub fn list(&self, object: &RawValue) -> Result<(), DecodeError> {
        self.take(object, Barrier::list, Barrier::list_malformed)
    }

    /// The list is complete and stands at `version`.
    ///
    /// # Errors
    /// [`WentBack`] when a consistent list is older than what was told before; versions are then forgotten, and the
    /// caller lists again.
    pub fn finish_list(&self, version: Version, consistent: bool) -> Result<(), WentBack> {
        let result = self.change(|barrier, changes| {
            let result = barrier.finish_list(version, consistent, changes);
            if result.is_err() {
                barrier.forget_versions();
            }
            result
        });
        if result.is_ok() {
            self.shared.synced.send_replace(true);
        }
        result
    }

    /// Counts what the reflector did.
    pub(super) fn count(&self, what: &str) {
        let counter = self
            .shared
            .cache
            .metrics
            .counter("cache_reflector", "Watch events, errors and relists");
        counter
            .with(&[("resource", &self.shared.resource.plural), ("what", what)])
            .inc();
    }

    fn take(
        &self,
        object: &RawValue,
        good: impl FnOnce(&mut Barrier<P::View>, Meta, Arc<P::View>, &mut Vec<Change<P::View>>),
        malformed: impl FnOnce(&mut Barrier<P::View>, &Meta, &mut Vec<Change<P::View>>),
    ) -> Result<(), DecodeError> {
        let head = Head::read(object, &self.shared.cache.names)?;
        match self.project(&head.meta, object) {
            Ok(view) => {
                self.note_malformed(&head.meta.key, None);
                self.change(|barrier, changes| good(barrier, head.meta, view, changes));
                Ok(())
            }
            Err(error) => {
                self.note_malformed(&head.meta.key, Some(error.to_string()));
                self.change(|barrier, changes| malformed(barrier, &head.meta, changes));
                Err(error)
            }
        }
    }

    fn project(&self, meta: &Meta, object: &RawValue) -> Result<Arc<P::View>, DecodeError> {
        let view = self.shared.projection.project(meta, object, &self.shared.cache.names);
        view.map(Arc::new).map_err(|error| DecodeError::Shape {
            key: meta.key.clone(),
            version: meta.version,
            reason: error.to_string(),
        })
    }

    fn note_malformed(&self, key: &ObjectKey, reason: Option<String>) {
        let mut malformed = self.shared.malformed.lock();
        match reason {
            Some(reason) => malformed.insert(key.clone(), reason),
            None => malformed.remove(key),
        };
        self.shared
            .malformed_count
            .set(i64::try_from(malformed.len()).unwrap_or(i64::MAX));
    }

    fn change<R>(&self, act: impl FnOnce(&mut Barrier<P::View>, &mut Vec<Change<P::View>>) -> R) -> R {
        let mut changes = Vec::new();
        let result = {
            let _gate = self.shared.cache.gate.write();
            let mut barrier = self.shared.barrier.write();
            let stale_before = barrier.stale();
            let result = act(&mut barrier, &mut changes);
            let indexes = self.shared.indexes.read();
            for change in &changes {
                indexes.iter().for_each(|index| index.changed(change));
            }
            self.shared.stale.inc_by(barrier.stale() - stale_before);
            self.shared
                .objects
                .set(i64::try_from(barrier.len()).unwrap_or(i64::MAX));
            result
        };
        if !changes.is_empty() {
            let handlers = self.shared.handlers.read().clone();
            for change in &changes {
                handlers.iter().for_each(|handler| handler(change));
            }
        }
        result
    }
}

#[cfg(test)]
#[path = "kind_tests.rs"]
mod tests;
