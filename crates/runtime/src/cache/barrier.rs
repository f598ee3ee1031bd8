//! The read-your-writes barrier of one kind: which of two accounts of an object is the newer one.
//!
//! Owns the held objects, the position of the watch and what was folded in ahead of it. Pure: no lock, no clock, no
//! I/O. Assumes what [`super::object`] says of versions, and that a watch delivers every change of its scope in the
//! order of versions (Kubernetes does not drop or reorder within a stream). From that follow all rules below:
//!
//! * `passed` is the version up to which the watch has told everything. An object that is not held and whose version is
//!   not beyond `passed` was deleted since, so an account of it is old news. The position is the tombstone of all
//!   deletions the watch has told.
//! * A folded write is *ahead* of the watch until the watch passes its version. If the watch passes it without telling
//!   of it, the object is not in the watch's scope (selector, namespace) and is dropped.
//! * A folded delete leaves a tombstone until the watch has passed the deletion. It buries the object itself and all
//!   earlier objects of that name.
//! * A list at version L says of an absent object that it was gone at L. That beats what is held at or before L, and
//!   says nothing of what is held beyond L: the watch that starts at L will. So a list from a stale server, which goes
//!   back in time, does no harm.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::object::{Meta, ObjectKey, Version};

/// Who told the cache of a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A list or watch.
    Watch,
    /// The answer of an own request.
    OwnWrite,
}

/// One change of the held objects: `old` is `None` for an addition, `new` for a removal. Both are given when an object
/// changed, and when it was replaced by another one of the same name.
#[derive(Debug, Clone)]
pub struct Change<V> {
    /// Which object.
    pub key: ObjectKey,
    /// What was held before.
    pub old: Option<Arc<V>>,
    /// What is held now.
    pub new: Option<Arc<V>>,
    /// Who told.
    pub origin: Origin,
}

/// A consistent list was older than what the watch had told: the server's store was set back (restored from a backup).
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the server answered a consistent list at version {listed}, older than version {passed}, which it had already reported"
)]
pub struct WentBack {
    /// The version of the list.
    pub listed: Version,
    /// The version that the watch had passed.
    pub passed: Version,
}

#[derive(Debug)]
struct Held<V> {
    uid: Arc<str>,
    version: Version,
    view: Arc<V>,
}

#[derive(Debug)]
struct Tombstone {
    uid: Arc<str>,
    /// The newest version known of the deleted object.
    last: Version,
    /// The version of the deletion; `None` when the server did not say.
    gone_at: Option<Version>,
}

#[derive(Debug, Default)]
struct Listing {
    keys: BTreeSet<ObjectKey>,
    buried: BTreeSet<ObjectKey>,
}

/// The held objects of one kind, and the rules by which an account of one is taken or dropped.
#[derive(Debug)]
pub struct Barrier<V> {
    held: BTreeMap<ObjectKey, Held<V>>,
    passed: Version,
    ahead: BTreeSet<(Version, ObjectKey)>,
    tombstones: BTreeMap<ObjectKey, Tombstone>,
    listing: Option<Listing>,
    stale: u64,
}

impl<V> Default for Barrier<V> {
    fn default() -> Self {
        Self {
            held: BTreeMap::new(),
            passed: Version(0),
            ahead: BTreeSet::new(),
            tombstones: BTreeMap::new(),
            listing: None,
            stale: 0,
        }
    }
}

impl<V> Barrier<V> {
    /// The object under `key`.
    #[must_use]
    pub fn get(&self, key: &ObjectKey) -> Option<&Arc<V>> {
        self.held.get(key).map(|held| &held.view)
    }

    /// All objects, ordered by key.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Arc<V>)> {
        self.held.iter().map(|(key, held)| (key, &held.view))
    }

    /// How many objects are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// The version up to which the watch has told everything.
    #[must_use]
    pub fn passed(&self) -> Version {
        self.passed
    }

    /// How many accounts were dropped because something newer was known.
    #[must_use]
    pub fn stale(&self) -> u64 {
        self.stale
    }

    /// How many folded writes and deletes the watch has not passed yet.
    #[must_use]
    pub fn unconfirmed(&self) -> usize {
        self.ahead.len() + self.tombstones.len()
    }

    /// The watch told of an object that was added or modified.
    pub fn observe(&mut self, meta: Meta, view: Arc<V>, changes: &mut Vec<Change<V>>) {
        let version = meta.version;
        self.ahead.remove(&(version, meta.key.clone()));
        self.take(meta, view, Origin::Watch, changes);
        self.advance(version, changes);
    }

    /// The watch told of an object that was deleted or left its scope.
    pub fn observe_deleted(&mut self, meta: &Meta, changes: &mut Vec<Change<V>>) {
        if self.is_buried(meta) {
            self.tombstones.remove(&meta.key);
        }
        if self
            .held
            .get(&meta.key)
            .is_some_and(|held| held.version <= meta.version)
        {
            self.remove(&meta.key, Origin::Watch, changes);
        }
        self.advance(meta.version, changes);
    }

    /// The watch told of an object that cannot be decoded. The last good version of it stays, because to drop it would
    /// look like a deletion.
    pub fn observe_malformed(&mut self, meta: &Meta, changes: &mut Vec<Change<V>>) {
        self.ahead.remove(&(meta.version, meta.key.clone()));
        self.drop_predecessor(meta, changes);
        self.advance(meta.version, changes);
    }

    /// The watch has told everything up to `version`.
    pub fn advance(&mut self, version: Version, changes: &mut Vec<Change<V>>) {
        if version <= self.passed {
            return;
        }
        self.passed = version;
        while let Some((ahead, key)) = self.ahead.first().cloned().filter(|(ahead, _)| *ahead <= version) {
            self.ahead.remove(&(ahead, key.clone()));
            if self.held.get(&key).is_some_and(|held| held.version == ahead) {
                self.remove(&key, Origin::Watch, changes);
            }
        }
        self.tombstones
            .retain(|_, stone| stone.gone_at.is_none_or(|gone| gone > version));
    }

    /// A list begins. A list that was begun before and not finished is forgotten.
    pub fn begin_list(&mut self) {
        self.listing = Some(Listing::default());
    }

    /// The list contains this object.
    pub fn list(&mut self, meta: Meta, view: Arc<V>, changes: &mut Vec<Change<V>>) {
        self.note_listed(&meta);
        self.take(meta, view, Origin::Watch, changes);
    }

    /// The list contains this object, which cannot be decoded.
    pub fn list_malformed(&mut self, meta: &Meta, changes: &mut Vec<Change<V>>) {
        self.note_listed(meta);
        self.drop_predecessor(meta, changes);
    }

    /// The list is complete and stands at `version`. `consistent` says that the server promised not to answer from an
    /// old state.
    ///
    /// # Errors
    /// [`WentBack`] when a consistent list is older than what the watch had told. Nothing was changed; the caller
    /// calls [`Barrier::forget_versions`] and lists again.
    pub fn finish_list(
        &mut self,
        version: Version,
        consistent: bool,
        changes: &mut Vec<Change<V>>,
    ) -> Result<(), WentBack> {
        let listing = self.listing.take().unwrap_or_default();
        if consistent && version < self.passed {
            return Err(WentBack {
                listed: version,
                passed: self.passed,
            });
        }
        let absent: Vec<ObjectKey> = self
            .held
            .iter()
            .filter(|(key, held)| held.version <= version && !listing.keys.contains(*key))
            .map(|(key, _)| key.clone())
            .collect();
        for key in absent {
            self.remove(&key, Origin::Watch, changes);
        }
        // What is still held at or before the list's version was listed, so it is confirmed.
        self.ahead.retain(|(ahead, _)| *ahead > version);
        self.passed = self.passed.max(version);
        self.tombstones.retain(|key, stone| match stone.gone_at {
            Some(gone) => gone > self.passed,
            None => listing.buried.contains(key) || stone.last > version,
        });
        Ok(())
    }

    /// Folds in an object that the server returned from an own write or a quorum read.
    pub fn fold(&mut self, meta: Meta, view: Arc<V>, changes: &mut Vec<Change<V>>) {
        self.take(meta, view, Origin::OwnWrite, changes);
    }

    /// Folds in an own delete after which the object is gone. `known` is the newest version the caller knew of it;
    /// `gone_at` the version of the deletion, when the server said so.
    pub fn fold_deleted(&mut self, known: &Meta, gone_at: Option<Version>, changes: &mut Vec<Change<V>>) {
        let held = self
            .held
            .get(&known.key)
            .map(|held| (held.uid == known.uid, held.version));
        let last = match held {
            Some((true, version)) => version.max(known.version),
            _ => known.version,
        };
        match held {
            // An older object of that name must be gone too, or this one could not have been.
            Some((same, version)) if same || version < last => self.remove(&known.key, Origin::OwnWrite, changes),
            // The watch was faster and has told of the deletion already.
            _ if last <= self.passed => return,
            _ => {}
        }
        // Answers may be read in another order than they were given: the tombstone of the last of that name stays.
        let covered = self.tombstones.get(&known.key).is_some_and(|stone| stone.last > last);
        if !covered && gone_at.is_none_or(|gone| gone > self.passed) {
            let stone = Tombstone {
                uid: known.uid.clone(),
                last,
                gone_at,
            };
            self.tombstones.insert(known.key.clone(), stone);
        }
    }

    /// Forgets which versions were seen, but not the objects: the next list replaces them whatever its version.
    pub fn forget_versions(&mut self) {
        self.passed = Version(0);
        self.ahead.clear();
        self.tombstones.clear();
        self.listing = None;
        for held in self.held.values_mut() {
            held.version = Version(0);
        }
    }

    fn note_listed(&mut self, meta: &Meta) {
        let buried = self.is_buried(meta);
        let listing = self.listing.get_or_insert_default();
        listing.keys.insert(meta.key.clone());
        if buried {
            listing.buried.insert(meta.key.clone());
        }
    }

    fn is_buried(&self, meta: &Meta) -> bool {
        self.tombstones
            .get(&meta.key)
            .is_some_and(|stone| stone.uid == meta.uid)
    }

    fn take(&mut self, meta: Meta, view: Arc<V>, origin: Origin, changes: &mut Vec<Change<V>>) {
        let Meta { key, uid, version } = meta;
        let buried = self.tombstones.get(&key).is_some_and(|stone| {
            version <= stone.last || (uid == stone.uid && stone.gone_at.is_none_or(|gone| version <= gone))
        });
        let outdated = match self.held.get(&key) {
            Some(held) => version <= held.version && held.version > Version(0),
            None => version <= self.passed,
        };
        if buried || outdated {
            let repeated = self
                .held
                .get(&key)
                .is_some_and(|held| held.uid == uid && held.version == version);
            self.stale += u64::from(!repeated);
            return;
        }
        if origin == Origin::OwnWrite && version > self.passed {
            self.ahead.insert((version, key.clone()));
        }
        let old = self.held.insert(
            key.clone(),
            Held {
                uid,
                version,
                view: view.clone(),
            },
        );
        if let Some(old) = &old {
            self.ahead.remove(&(old.version, key.clone()));
        }
        changes.push(Change {
            key,
            old: old.map(|held| held.view),
            new: Some(view),
            origin,
        });
    }

    /// A newer object took the name, but cannot be shown: at least the one before it is no longer.
    fn drop_predecessor(&mut self, meta: &Meta, changes: &mut Vec<Change<V>>) {
        if self
            .held
            .get(&meta.key)
            .is_some_and(|held| held.uid != meta.uid && held.version < meta.version)
        {
            self.remove(&meta.key, Origin::Watch, changes);
        }
    }

    fn remove(&mut self, key: &ObjectKey, origin: Origin, changes: &mut Vec<Change<V>>) {
        if let Some(held) = self.held.remove(key) {
            self.ahead.remove(&(held.version, key.clone()));
            changes.push(Change {
                key: key.clone(),
                old: Some(held.view),
                new: None,
                origin,
            });
        }
    }
}

#[cfg(test)]
#[path = "barrier_tests.rs"]
mod tests;
