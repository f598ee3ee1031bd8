//! Committed changes and the bounded ring that remembers the last of them.
//!
//! A change is made a line of JSON for watchers at most once per event type, however many watchers there are, as long as it is
//! one of the newest changes of the store; those are what watchers who keep up read. Older changes are kept packed only,
//! and a watcher that asks for one gets a line of its own. The ring is the only buffer between writers and watchers: a reader
//! whose position has left the ring is told so (410) and lists again.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

use super::object::Object;

/// What a committed write did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The object did not exist before.
    Created,
    /// The object existed and has a new state.
    Updated,
    /// The object is gone.
    Deleted,
}

/// What a watcher is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventType {
    /// An object came into view.
    Added,
    /// An object in view changed.
    Modified,
    /// An object left the view.
    Deleted,
}

impl EventType {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
        }
    }
}

/// One committed change of one object.
#[derive(Debug)]
pub struct Commit {
    revision: u64,
    resource: Arc<str>,
    change: Change,
    object: Arc<Object>,
    previous: Option<Arc<Object>>,
    departed: OnceLock<Arc<Object>>,
    /// Lines by event type while the commit is warm.
    frames: Mutex<Option<[Option<Bytes>; 3]>>,
}

impl Commit {
    pub(super) fn new(resource: Arc<str>, change: Change, object: Arc<Object>, previous: Option<Arc<Object>>) -> Self {
        Self {
            revision: object.revision(),
            resource,
            change,
            object,
            previous,
            departed: OnceLock::new(),
            frames: Mutex::new(Some([const { None }; 3])),
        }
    }

    /// The revision of the change.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// The resource (`pods`, `deployments.apps`) that changed.
    pub fn resource(&self) -> &str {
        &self.resource
    }

    /// What happened.
    pub fn change(&self) -> Change {
        self.change
    }

    /// The new state; for a deletion the last state, under the revision of the deletion.
    pub fn object(&self) -> &Arc<Object> {
        &self.object
    }

    /// The state before, absent for a creation.
    pub fn previous(&self) -> Option<&Arc<Object>> {
        self.previous.as_ref()
    }

    /// The object to show in an event of type `event`: when the object left the view, its last state in view under this
    /// revision.
    pub fn shown(&self, event: EventType) -> &Arc<Object> {
        match (&self.previous, event, self.change) {
            (Some(previous), EventType::Deleted, Change::Updated) => self
                .departed
                .get_or_init(|| Arc::new(previous.restamped(self.revision))),
            _ => &self.object,
        }
    }

    /// The watch event as one line of JSON, made once and shared while the commit is warm.
    pub fn frame(&self, event: EventType) -> Bytes {
        let line = || self.shown(event).frame(event.as_str());
        match &mut *self.frames.lock() {
            Some(frames) => frames[event as usize].get_or_insert_with(line).clone(),
            None => line(),
        }
    }

    /// Forgets the lines, for good.
    fn cool(&self) {
        *self.frames.lock() = None;
    }
}

/// The newest commits of all resources, as many as their lines may take memory. Does not keep them from being forgotten.
#[derive(Debug, Default)]
pub(super) struct Warm {
    commits: VecDeque<(Weak<Commit>, usize)>,
    bytes: usize,
}

impl Warm {
    /// What the lines of warm commits may take together, one line each.
    const LIMIT: usize = 16 * 1024 * 1024;

    pub(super) fn push(&mut self, commit: &Arc<Commit>) {
        let size = commit.object.size();
        self.bytes += size;
        self.commits.push_back((Arc::downgrade(commit), size));
        while self.bytes > Self::LIMIT
            && let Some((oldest, size)) = self.commits.pop_front()
        {
            self.bytes -= size;
            if let Some(oldest) = oldest.upgrade() {
                oldest.cool();
            }
        }
    }
}

/// The last commits of one resource, oldest first.
#[derive(Debug, Default)]
pub(super) struct Ring {
    commits: VecDeque<Arc<Commit>>,
    floor: u64,
}

impl Ring {
    pub(super) fn push(&mut self, commit: Arc<Commit>, limit: usize) {
        self.commits.push_back(commit);
        while self.commits.len() > limit {
            self.drop_oldest();
        }
    }

    /// The newest revision that has been forgotten; whoever has seen less than this cannot continue.
    pub(super) fn floor(&self) -> u64 {
        self.floor
    }

    /// The revision of the last commit that is remembered; the floor if there is none.
    pub(super) fn newest(&self) -> u64 {
        self.commits.back().map_or(self.floor, |commit| commit.revision())
    }

    /// Forgets everything up to and including `revision`.
    pub(super) fn compact(&mut self, revision: u64) {
        while self.commits.front().is_some_and(|oldest| oldest.revision() <= revision) {
            self.drop_oldest();
        }
        self.floor = self.floor.max(revision);
    }

    fn drop_oldest(&mut self) {
        if let Some(oldest) = self.commits.pop_front() {
            self.floor = oldest.revision();
        }
    }

    /// The commits after `revision`, oldest first.
    pub(super) fn after(&self, revision: u64) -> impl Iterator<Item = &Arc<Commit>> {
        let start = self.commits.partition_point(|commit| commit.revision() <= revision);
        self.commits.range(start..)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Draft, Key, Texts};
    use super::*;

    fn commit(revision: u64, padding: usize) -> Arc<Commit> {
        let object = json!({"kind": "Pod", "padding": "x".repeat(padding)});
        let object = Draft::new(&object, Texts::default()).stamp(Key::new("", "a"), revision);
        Arc::new(Commit::new("pods".into(), Change::Updated, Arc::new(object), None))
    }

    #[test]
    fn watchers_share_the_line_of_a_warm_commit() {
        let commit = commit(7, 10);
        let first = commit.frame(EventType::Modified);
        assert_eq!(first.as_ptr(), commit.frame(EventType::Modified).as_ptr());
        commit.cool();
        let later = commit.frame(EventType::Modified);
        assert_eq!(first, later);
        assert_ne!(first.as_ptr(), later.as_ptr());
        assert_ne!(later.as_ptr(), commit.frame(EventType::Modified).as_ptr());
    }

    #[test]
    fn lines_are_kept_of_the_newest_commits_only() {
        let mut warm = Warm::default();
        let commits: Vec<_> = (1..=6).map(|revision| commit(revision, Warm::LIMIT / 4)).collect();
        for commit in &commits {
            warm.push(commit);
        }
        let is_warm = commits.iter().map(|commit| commit.frames.lock().is_some());
        assert_eq!(is_warm.collect::<Vec<_>>(), [false, false, false, true, true, true]);
        // A commit that is too large by itself is not kept either.
        warm.push(&commit(7, 2 * Warm::LIMIT));
        assert_eq!((warm.commits.len(), warm.bytes), (0, 0));
    }
}
