//! The multi-version store: every object of every resource, one revision counter, and the recent past.
//!
//! Owns the order of writes. A write names the state it was decided on ([`Expect`]) and is refused when another came
//! first, so callers read, decide without a lock, commit, and decide again on refusal. One mutex guards everything but
//! the line of watchers still to be woken; nothing is awaited, parsed or serialised under it. The store knows neither
//! kinds nor schemas, and never changes an object beyond its `resourceVersion`.

mod batch;
mod history;
mod object;
mod snapshot;
#[cfg(test)]
mod tests;
mod texts;
mod wakes;
mod watch;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

pub use batch::{Batch, Delivery};
pub use history::{Change, Commit, EventType};
pub use object::{Draft, Facts, Key, Object, frame};
pub use snapshot::{ListError, Page, PageRequest};
pub use texts::Texts;
pub use watch::{StartFrom, Watch, WatchError};

use batch::Batches;
use history::{Ring, Warm};
use wakes::Wakes;
use watch::Registration;

/// Revisions start here, so that no object ever has the resourceVersion "0" (which means "any" to clients).
const FIRST_REVISION: u64 = 1;
/// How many commits of each resource are remembered unless the builder says otherwise.
pub const DEFAULT_HISTORY_LIMIT: usize = 16_384;

/// What a writer believes about the object it writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// There is no such object.
    Absent,
    /// The object's last state has this revision.
    Revision(u64),
}

/// A refused write: the object is not in the state the writer expected. Read `current` and decide again.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the object changed since it was read")]
pub struct Refused {
    /// The state found instead.
    pub current: Option<Arc<Object>>,
}

type Observer = Box<dyn Fn(&Commit) + Send + Sync>;

/// A shared handle to the store.
#[derive(Clone)]
pub struct Store {
    inner: Arc<Mutex<Inner>>,
}

struct Inner {
    revision: u64,
    history_limit: usize,
    collections: BTreeMap<Arc<str>, Collection>,
    warm: Warm,
    batches: Batches,
    observers: Vec<Observer>,
    next_watch: u64,
    wakes: Wakes,
}

#[derive(Default)]
struct Collection {
    objects: BTreeMap<Key, Arc<Object>>,
    history: Ring,
    watches: BTreeMap<u64, Registration>,
}

impl Default for Store {
    fn default() -> Self {
        Self::new(DEFAULT_HISTORY_LIMIT)
    }
}

impl Store {
    /// An empty store that remembers `history_limit` commits per resource.
    pub fn new(history_limit: usize) -> Self {
        let inner = Inner {
            revision: FIRST_REVISION,
            history_limit: history_limit.max(1),
            collections: BTreeMap::new(),
            warm: Warm::default(),
            batches: Batches::default(),
            observers: Vec::new(),
            next_watch: 0,
            wakes: Wakes::default(),
        };
        Self {
            inner: Arc::new(Mutex::new(inner)),
        }
    }

    /// The revision of the last commit.
    pub fn revision(&self) -> u64 {
        self.inner.lock().revision
    }

    /// Calls `observer` on every commit, in order, before the writer gets its answer. It runs under the store's lock:
    /// it must be quick and must not call the store.
    pub fn observe(&self, observer: impl Fn(&Commit) + Send + Sync + 'static) {
        self.inner.lock().observers.push(Box::new(observer));
    }

    /// The current state of one object.
    pub fn get(&self, resource: &str, key: &Key) -> Option<Arc<Object>> {
        self.inner.lock().collections.get(resource)?.objects.get(key).cloned()
    }

    /// The current objects of a resource, in key order; an empty namespace means all.
    pub fn all(&self, resource: &str, namespace: &str) -> Vec<Arc<Object>> {
        let inner = self.inner.lock();
        let Some(collection) = inner.collections.get(resource) else {
            return Vec::new();
        };
        snapshot::in_namespace(&collection.objects, namespace, None)
            .map(|(_, object)| object.clone())
            .collect()
    }

    /// How many objects a resource has.
    pub fn count(&self, resource: &str) -> usize {
        self.inner
            .lock()
            .collections
            .get(resource)
            .map_or(0, |collection| collection.objects.len())
    }

    /// The resources that have objects, and how many.
    pub fn counts(&self) -> Vec<(Arc<str>, usize)> {
        let inner = self.inner.lock();
        inner
            .collections
            .iter()
            .map(|(resource, collection)| (resource.clone(), collection.objects.len()))
            .collect()
    }

    /// Writes a new state of the object at `key`.
    pub fn put(&self, resource: &str, key: &Key, expect: Expect, draft: Draft) -> Result<Arc<Object>, Refused> {
        let mut inner = self.inner.lock();
        let previous = inner.check(resource, key, expect)?;
        inner.revision += 1;
        let change = if previous.is_some() {
            Change::Updated
        } else {
            Change::Created
        };
        let object = Arc::new(draft.stamp(key.clone(), inner.revision));
        inner.commit(resource, change, object.clone(), previous);
        Ok(object)
    }

    /// Removes the object at `key`, which must be at `revision`. Returns its last state under the deletion's revision.
    pub fn remove(&self, resource: &str, key: &Key, revision: u64) -> Result<Arc<Object>, Refused> {
        let mut inner = self.inner.lock();
        let previous = inner.check(resource, key, Expect::Revision(revision))?;
        let Some(last) = previous else {
            return Err(Refused { current: None });
        };
        inner.revision += 1;
        let object = Arc::new(last.restamped(inner.revision));
        inner.commit(resource, Change::Deleted, object.clone(), Some(last));
        Ok(object)
    }

    /// Forgets the history of every resource up to and including `revision`.
    pub fn compact(&self, revision: u64) {
        let mut inner = self.inner.lock();
        let revision = revision.min(inner.revision);
        for collection in inner.collections.values_mut() {
            collection.history.compact(revision);
            collection.wake_if_behind();
        }
    }
}

impl Inner {
    fn collection(&mut self, resource: &str) -> &mut Collection {
        if !self.collections.contains_key(resource) {
            self.collections.insert(resource.into(), Collection::default());
        }
        self.collections.get_mut(resource).expect("inserted above")
    }

    fn check(&self, resource: &str, key: &Key, expect: Expect) -> Result<Option<Arc<Object>>, Refused> {
        let current = self
            .collections
            .get(resource)
            .and_then(|collection| collection.objects.get(key))
            .cloned();
        let found = current.as_ref().map(|object| object.revision());
        match (expect, found) {
            (Expect::Absent, None) => Ok(None),
            (Expect::Revision(expected), Some(found)) if expected == found => Ok(current),
            _ => Err(Refused { current }),
        }
    }

    fn commit(&mut self, resource: &str, change: Change, object: Arc<Object>, previous: Option<Arc<Object>>) {
        let (limit, wakes) = (self.history_limit, self.wakes.clone());
        let resource: Arc<str> = match self.collections.get_key_value(resource) {
            Some((known, _)) => known.clone(),
            None => resource.into(),
        };
        let collection = self.collection(&resource);
        match change {
            Change::Deleted => collection.objects.remove(object.key()),
            Change::Created | Change::Updated => collection.objects.insert(object.key().clone(), object.clone()),
        };
        let commit = Arc::new(Commit::new(resource, change, object, previous));
        collection.history.push(commit.clone(), limit);
        collection.announce(&commit, &wakes);
        self.warm.push(&commit);
        for observer in &self.observers {
            observer(&commit);
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Store")
            .field("revision", &self.revision())
            .finish_non_exhaustive()
    }
}
