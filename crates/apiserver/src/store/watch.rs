//! Watches: readers of the history, each with its own position.
//!
//! A watcher buffers nothing. A commit that concerns it sets a flag and has it woken, in its turn when many are
//! concerned ([`Wakes`]); it then takes its commits from the ring itself, as a [`Batch`] that it may share with others. A watcher that is not concerned is moved along with the
//! commit, so only one that is truly slow falls out of the ring, and learns it as [`WatchError::Expired`]. Each watcher
//! therefore sees exactly the committed history that its selection admits, in order, or an error, and never a gap.

use std::sync::Arc;

use tokio::sync::Notify;

use crate::selector::Selection;

use super::batch::{Batch, concerns};
use super::history::Commit;
use super::object::Object;
use super::snapshot::{PageRequest, in_namespace};
use super::wakes::Wakes;
use super::{Collection, Inner, Store};

/// Where a watch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartFrom {
    /// The current state as events, then what follows.
    CurrentState,
    /// Only what is committed after this revision.
    Revision(u64),
}

/// Why a watch cannot start or go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// The position is forgotten; list and watch anew.
    #[error("too old resource version: {position} ({floor})")]
    Expired {
        /// Where the watcher was.
        position: u64,
        /// The oldest revision that can be continued from.
        floor: u64,
    },
    /// The position has not happened yet.
    #[error("too large resource version: {position}, current: {current}")]
    Future {
        /// What was asked for.
        position: u64,
        /// Where the store is.
        current: u64,
    },
}

pub(super) struct Registration {
    position: u64,
    pending: bool,
    selection: Arc<Selection>,
    wake: Arc<Notify>,
}

/// A running watch. Dropping it ends it.
pub struct Watch {
    store: Store,
    resource: Arc<str>,
    id: u64,
    selection: Arc<Selection>,
    wake: Arc<Notify>,
    initial: Vec<Arc<Object>>,
    started_at: u64,
}

impl Store {
    /// Starts a watch on the objects of `resource` that `selection` admits.
    pub fn watch(&self, resource: &str, selection: Selection, start: StartFrom) -> Result<Watch, WatchError> {
        let selection = Arc::new(selection);
        let wake = Arc::new(Notify::new());
        let mut inner = self.inner.lock();
        let current = inner.revision;
        inner.next_watch += 1;
        let id = inner.next_watch;
        let collection = inner.collection(resource);
        let position = match start {
            StartFrom::CurrentState => current,
            StartFrom::Revision(position) if position > current => {
                return Err(WatchError::Future { position, current });
            }
            StartFrom::Revision(position) if position < collection.history.floor() => {
                return Err(WatchError::Expired {
                    position,
                    floor: collection.history.floor(),
                });
            }
            StartFrom::Revision(position) => position,
        };
        let initial = match start {
            StartFrom::CurrentState => in_namespace(&collection.objects, &selection.namespace, None)
                .map(|(_, object)| object)
                .filter(|object| selection.matches(object))
                .cloned()
                .collect(),
            StartFrom::Revision(_) => Vec::new(),
        };
        let registration = Registration {
            position,
            pending: position < current,
            selection: selection.clone(),
            wake: wake.clone(),
        };
        collection.watches.insert(id, registration);
        drop(inner);
        Ok(Watch {
            store: self.clone(),
            resource: resource.into(),
            id,
            selection,
            wake,
            initial,
            started_at: position,
        })
    }

    /// How many watches are open on a resource.
    pub fn watch_count(&self, resource: &str) -> usize {
        self.inner
            .lock()
            .collections
            .get(resource)
            .map_or(0, |collection| collection.watches.len())
    }

    /// All objects of a resource at this moment together with the revision of the moment.
    pub fn current(&self, resource: &str) -> (u64, Vec<Arc<Object>>) {
        let page = self
            .list(resource, &Selection::everything(), &PageRequest::default())
            .expect("a list of the present is always possible");
        (page.revision, page.objects)
    }
}

impl Watch {
    /// The state at the start, for [`StartFrom::CurrentState`]; empty when taken before.
    pub fn take_initial(&mut self) -> Vec<Arc<Object>> {
        std::mem::take(&mut self.initial)
    }

    /// The revision the watch started after.
    pub fn started_at(&self) -> u64 {
        self.started_at
    }

    /// Everything up to this revision has been delivered, as long as nothing is waiting.
    pub fn position(&self) -> u64 {
        let inner = self.store.inner.lock();
        let registration = inner
            .collections
            .get(&self.resource)
            .and_then(|known| known.watches.get(&self.id));
        match registration {
            Some(registration) if !registration.pending => inner.revision,
            Some(registration) => registration.position,
            None => inner.revision,
        }
    }

    /// Waits for what comes next. Cancel-safe: what is not returned is not lost.
    pub async fn next(&mut self) -> Result<Arc<Batch>, WatchError> {
        loop {
            if let Some(batch) = self.ready()? {
                return Ok(batch);
            }
            self.wake.notified().await;
        }
    }

    /// What is there already.
    pub fn ready(&mut self) -> Result<Option<Arc<Batch>>, WatchError> {
        loop {
            match self.take()? {
                Some(batch) if batch.deliveries().is_empty() => {}
                taken => return Ok(taken),
            }
        }
    }

    fn take(&self) -> Result<Option<Arc<Batch>>, WatchError> {
        let mut inner = self.store.inner.lock();
        let Inner {
            revision,
            collections,
            batches,
            ..
        } = &mut *inner;
        let Some(collection) = collections.get_mut(&self.resource) else {
            return Ok(None);
        };
        let Some(registration) = collection.watches.get_mut(&self.id).filter(|known| known.pending) else {
            return Ok(None);
        };
        let (position, floor) = (registration.position, collection.history.floor());
        if position < floor {
            return Err(WatchError::Expired { position, floor });
        }
        let batch = batches.take(&self.resource, &self.selection, &collection.history, position);
        registration.pending = batch.cut_at().is_some();
        registration.position = batch.cut_at().unwrap_or(*revision);
        Ok(Some(batch))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.store
            .inner
            .lock()
            .collection(&self.resource)
            .watches
            .remove(&self.id);
    }
}

impl Registration {
    /// Notes a commit. Returns whom to wake if this is the first one of concern since the watcher last took its commits.
    fn hear(&mut self, commit: &Commit) -> Option<&Arc<Notify>> {
        if self.pending {
            return None;
        }
        if concerns(&self.selection, commit).is_none() {
            self.position = commit.revision();
            return None;
        }
        self.pending = true;
        Some(&self.wake)
    }
}

impl Collection {
    pub(super) fn announce(&mut self, commit: &Arc<Commit>, wakes: &Wakes) {
        let watches = self.watches.values_mut();
        wakes.wake(watches.filter_map(|registration| registration.hear(commit)));
    }

    pub(super) fn wake_if_behind(&mut self) {
        let floor = self.history.floor();
        for registration in self.watches.values_mut() {
            if registration.pending {
                registration.wake.notify_one();
            } else {
                registration.position = registration.position.max(floor);
            }
        }
    }
}
