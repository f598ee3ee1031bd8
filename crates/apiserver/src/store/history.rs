//! Committed changes and the bounded ring that remembers the last of them.
//!
//! A change is serialised for watchers at most once per event type, however many watchers there are, and for those who
//! watched before, the line is the stored object itself. The ring is the
//! only buffer between writers and watchers: a reader whose position has left the ring is told so (410) and lists again.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::object::{Object, frame};

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
    frames: [OnceLock<Bytes>; 3],
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
            frames: [const { OnceLock::new() }; 3],
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

    /// The watch event as one line of JSON, made once and shared.
    pub fn frame(&self, event: EventType) -> Bytes {
        let shown = self.shown(event);
        shown.frame(event).unwrap_or_else(|| {
            self.frames[event as usize]
                .get_or_init(|| frame(event.as_str(), shown.json_text()))
                .clone()
        })
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
