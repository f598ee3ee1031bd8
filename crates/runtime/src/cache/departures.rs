//! What left an index: views of objects that were under an index key and are not any more.
//!
//! Owns the last view of each object that was deleted, or that changed so that its key is another one. Changed by its kind
//! under the cache's lock, so a [`Moment`] in which an object is missing shows it here, unless it went before the cache
//! first listed the kind. Never forgets by itself: the reader says what it still needs, and everything else goes.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;

use super::{Change, Moment, index::Maintained};

type Extract<V, K> = dyn Fn(&V) -> Option<K> + Send + Sync;

struct Shared<V, K> {
    extract: Box<Extract<V, K>>,
    is_same: fn(&V, &V) -> bool,
    entries: Mutex<BTreeMap<K, Vec<Arc<V>>>>,
}

/// A handle of what left an index. Clones are handles of the same one.
pub struct Departures<V, K> {
    shared: Arc<Shared<V, K>>,
}

impl<V, K> Clone for Departures<V, K> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

impl<V, K> Departures<V, K>
where
    V: Send + Sync + 'static,
    K: Ord + Clone + Send + Sync + 'static,
{
    pub(super) fn new(extract: impl Fn(&V) -> Option<K> + Send + Sync + 'static, is_same: fn(&V, &V) -> bool) -> Self {
        let shared = Shared {
            extract: Box::new(extract),
            is_same,
            entries: Mutex::new(BTreeMap::new()),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// What left an index key and is still needed. What is not needed is forgotten.
    #[must_use]
    pub fn retain(&self, _moment: &Moment<'_>, key: &K, is_needed: impl Fn(&V) -> bool) -> Vec<Arc<V>> {
        let mut entries = self.shared.entries.lock();
        let Some(views) = entries.get_mut(key) else {
            return Vec::new();
        };
        views.retain(|view| is_needed(view));
        let kept = views.clone();
        if kept.is_empty() {
            entries.remove(key);
        }
        kept
    }
}

impl<V, K> Maintained<V> for Departures<V, K>
where
    V: Send + Sync + 'static,
    K: Ord + Clone + Send + Sync + 'static,
{
    fn changed(&self, change: &Change<V>) {
        let Some(old) = &change.old else { return };
        let Some(key) = (self.shared.extract)(old) else { return };
        let stays = change
            .new
            .as_deref()
            .is_some_and(|new| (self.shared.is_same)(old, new) && (self.shared.extract)(new).as_ref() == Some(&key));
        if !stays {
            self.shared.entries.lock().entry(key).or_default().push(old.clone());
        }
    }
}
