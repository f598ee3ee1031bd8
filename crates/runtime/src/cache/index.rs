//! Ordered secondary indexes of a kind: by owner, by label value, by anything computed from a view.
//!
//! Owns the map from index key and object key to the view. Changed only by its kind, under the cache's lock; read
//! through a [`Moment`]. Never scans more than the asked range.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::RwLock;

use super::{Change, Moment, ObjectKey};

type Extract<V, K> = dyn Fn(&V, &mut dyn FnMut(K)) + Send + Sync;

struct Shared<V, K> {
    extract: Box<Extract<V, K>>,
    entries: RwLock<BTreeMap<(K, ObjectKey), Arc<V>>>,
    lowest: ObjectKey,
}

/// A handle of one index. Clones are handles of the same index.
pub struct Index<V, K> {
    shared: Arc<Shared<V, K>>,
}

impl<V, K> Clone for Index<V, K> {
    fn clone(&self) -> Self {
        Self {
            shared: self.shared.clone(),
        }
    }
}

/// What a kind needs of its indexes, whatever their key types.
pub(super) trait Maintained<V>: Send + Sync {
    fn changed(&self, change: &Change<V>);
}

impl<V, K> Index<V, K>
where
    V: Send + Sync + 'static,
    K: Ord + Clone + Send + Sync + 'static,
{
    pub(super) fn new(extract: impl Fn(&V, &mut dyn FnMut(K)) + Send + Sync + 'static) -> Self {
        let shared = Shared {
            extract: Box::new(extract),
            entries: RwLock::new(BTreeMap::new()),
            lowest: ObjectKey::new("", ""),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// Everything under one index key, ordered by object key.
    #[must_use]
    pub fn get(&self, _moment: &Moment<'_>, key: &K) -> Vec<Arc<V>> {
        let entries = self.shared.entries.read();
        entries
            .range((key.clone(), self.shared.lowest.clone())..)
            .take_while(|((entry, _), _)| entry == key)
            .map(|(_, view)| view.clone())
            .collect()
    }

    /// Everything from index key `first` on, as long as `within` holds: for composite keys, everything that shares
    /// their first parts. Ordered by index key, then object key.
    #[must_use]
    pub fn range(&self, _moment: &Moment<'_>, first: &K, within: impl Fn(&K) -> bool) -> Vec<Arc<V>> {
        let entries = self.shared.entries.read();
        entries
            .range((first.clone(), self.shared.lowest.clone())..)
            .take_while(|((key, _), _)| within(key))
            .map(|(_, view)| view.clone())
            .collect()
    }

    /// How many objects are under one index key.
    #[must_use]
    pub fn count(&self, _moment: &Moment<'_>, key: &K) -> usize {
        let entries = self.shared.entries.read();
        entries
            .range((key.clone(), self.shared.lowest.clone())..)
            .take_while(|((entry, _), _)| entry == key)
            .count()
    }

    /// All index keys under which there is something, in order.
    #[must_use]
    pub fn keys(&self, _moment: &Moment<'_>) -> Vec<K> {
        let mut keys: Vec<K> = Vec::new();
        for (key, _) in self.shared.entries.read().keys() {
            if keys.last() != Some(key) {
                keys.push(key.clone());
            }
        }
        keys
    }

    /// Calls `visit` with each index key of a view, whether or not it is in the cache: what a change handler uses to
    /// find the keys to mark.
    pub fn keys_of(&self, view: &V, mut visit: impl FnMut(K)) {
        (self.shared.extract)(view, &mut visit);
    }
}

impl<V, K> Index<V, K>
where
    V: Send + Sync + 'static,
    K: Ord + Clone + Send + Sync + 'static,
{
    pub(super) fn insert(&self, key: &ObjectKey, view: &Arc<V>) {
        let mut entries = self.shared.entries.write();
        (self.shared.extract)(view, &mut |entry| {
            entries.insert((entry, key.clone()), view.clone());
        });
    }

    fn remove(&self, key: &ObjectKey, view: &V) {
        let mut entries = self.shared.entries.write();
        (self.shared.extract)(view, &mut |entry| {
            entries.remove(&(entry, key.clone()));
        });
    }
}

impl<V, K> Maintained<V> for Index<V, K>
where
    V: Send + Sync + 'static,
    K: Ord + Clone + Send + Sync + 'static,
{
    fn changed(&self, change: &Change<V>) {
        change.old.iter().for_each(|old| self.remove(&change.key, old));
        change.new.iter().for_each(|new| self.insert(&change.key, new));
    }
}
