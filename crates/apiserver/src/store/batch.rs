//! What watchers are told at once, made once for all that are told the same.
//!
//! Watchers that keep up stand at one of a few positions, and most of them ask for the same: a thousand informers of one
//! resource take the same commits. The newest batches are therefore kept, by where they begin and end and for whom they were
//! selected, and the lines of a batch are joined once. What one more watcher costs is then independent of how many
//! events it is told.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::selector::Selection;

use super::history::{Change, Commit, EventType, Ring};
use super::object::{LINE_OVERHEAD, Object};

/// How many commits a watcher takes at once; few in tests, so that they meet batches that are full.
const MOST_COMMITS: usize = if cfg!(test) { 4 } else { 256 };
/// Lines are joined up to this size; beyond it, copying costs more than it saves.
const MOST_JOINED: usize = 256 * 1024;
/// How many batches are kept.
const KEPT: usize = 16;

/// One thing to tell a watcher.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// What to call it.
    pub event: EventType,
    /// The change behind it.
    pub commit: Arc<Commit>,
}

impl Delivery {
    /// The object to show.
    pub fn object(&self) -> &Arc<Object> {
        self.commit.shown(self.event)
    }
}

/// The deliveries that follow from consecutive commits of one resource for one selection.
#[derive(Debug)]
pub struct Batch {
    resource: Arc<str>,
    selection: Arc<Selection>,
    after: u64,
    newest: u64,
    /// The revision of the last commit, if more had been committed than fit.
    cut_at: Option<u64>,
    deliveries: Vec<Delivery>,
    /// All lines in one piece, unless they are long together: what is kept for others must stay small.
    joined: OnceLock<Option<Bytes>>,
}

impl Batch {
    fn new(resource: Arc<str>, selection: Arc<Selection>, history: &Ring, after: u64) -> Self {
        let mut commits = history.after(after);
        let mut last = None;
        let deliveries = commits
            .by_ref()
            .take(MOST_COMMITS)
            .inspect(|commit| last = Some(commit.revision()))
            .filter_map(|commit| {
                let event = concerns(&selection, commit)?;
                let commit = commit.clone();
                Some(Delivery { event, commit })
            })
            .collect();
        Self {
            resource,
            selection,
            after,
            newest: history.newest(),
            cut_at: last.filter(|_| commits.next().is_some()),
            deliveries,
            joined: OnceLock::new(),
        }
    }

    /// What to tell, in order.
    pub fn deliveries(&self) -> &[Delivery] {
        &self.deliveries
    }

    /// The same as lines of JSON: all in one piece, or one by one when they are long together.
    pub fn lines(&self) -> impl Iterator<Item = Bytes> {
        let joined = self.joined.get_or_init(|| self.join()).clone();
        let apart: &[Delivery] = if joined.is_some() { &[] } else { &self.deliveries };
        joined
            .into_iter()
            .chain(apart.iter().map(|delivery| delivery.commit.frame(delivery.event)))
    }

    fn join(&self) -> Option<Bytes> {
        let size: usize = self.deliveries.iter().map(line_size).sum();
        if self.deliveries.len() < 2 || size > MOST_JOINED {
            return None;
        }
        let mut joined = Vec::with_capacity(size);
        for delivery in &self.deliveries {
            joined.extend_from_slice(&delivery.commit.frame(delivery.event));
        }
        Some(joined.into())
    }

    /// The revision of the last commit, if a watcher has to come back for more.
    pub(super) fn cut_at(&self) -> Option<u64> {
        self.cut_at
    }
}

/// At least as much as the line of a delivery takes.
fn line_size(delivery: &Delivery) -> usize {
    delivery.object().size() + LINE_OVERHEAD
}

/// The newest batches of all resources.
#[derive(Debug, Default)]
pub(super) struct Batches {
    kept: VecDeque<Arc<Batch>>,
}

impl Batches {
    /// What follows `after` in the history of a resource.
    pub(super) fn take(
        &mut self,
        resource: &Arc<str>,
        selection: &Arc<Selection>,
        history: &Ring,
        after: u64,
    ) -> Arc<Batch> {
        let newest = history.newest();
        let known = self.kept.iter().rev().find(|batch| {
            (batch.after, batch.newest) == (after, newest)
                && batch.resource == *resource
                && batch.selection == *selection
        });
        if let Some(known) = known {
            return known.clone();
        }
        let batch = Arc::new(Batch::new(resource.clone(), selection.clone(), history, after));
        if self.kept.len() == KEPT {
            self.kept.pop_front();
        }
        self.kept.push_back(batch.clone());
        batch
    }
}

/// What a watcher with this selection is told about a commit: an object that starts to match is added, one that
/// stops to match is deleted.
pub(super) fn concerns(selection: &Selection, commit: &Commit) -> Option<EventType> {
    let before = commit.previous().is_some_and(|previous| selection.matches(previous));
    let after = commit.change() != Change::Deleted && selection.matches(commit.object());
    match (before, after) {
        (false, true) => Some(EventType::Added),
        (true, true) => Some(EventType::Modified),
        (true, false) => Some(EventType::Deleted),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Draft, Key, Texts};
    use super::*;

    const PODS: &str = "pods";

    fn history(lines: usize, padding: usize) -> Ring {
        let mut history = Ring::default();
        for revision in 1..=lines as u64 {
            let object = json!({"kind": "Pod", "padding": "x".repeat(padding)});
            let object = Draft::new(&object, Texts::default()).stamp(Key::new("", "a"), revision);
            let commit = Commit::new(PODS.into(), Change::Created, Arc::new(object), None);
            history.push(Arc::new(commit), usize::MAX);
        }
        history
    }

    fn everything() -> Arc<Selection> {
        Arc::new(Selection::everything())
    }

    #[test]
    fn watchers_that_are_told_the_same_share_it() {
        let (mut batches, history, resource) = (Batches::default(), history(3, 0), PODS.into());
        let first = batches.take(&resource, &everything(), &history, 1);
        assert!(Arc::ptr_eq(
            &first,
            &batches.take(&resource, &everything(), &history, 1)
        ));
        let piece = || first.lines().next().unwrap();
        assert_eq!(piece().as_ptr(), piece().as_ptr());
        let others = [
            batches.take(&resource, &everything(), &history, 2),
            batches.take(&resource, &Arc::new(Selection::namespace("b")), &history, 1),
            batches.take(&"nodes".into(), &everything(), &history, 1),
        ];
        let told = others.each_ref().map(|batch| batch.deliveries().len());
        assert_eq!((first.deliveries().len(), told), (2, [1, 0, 2]));
    }

    #[test]
    fn a_batch_is_not_shared_once_more_is_committed() {
        let (mut batches, resource) = (Batches::default(), PODS.into());
        assert_eq!(
            batches
                .take(&resource, &everything(), &history(2, 0), 0)
                .deliveries()
                .len(),
            2
        );
        assert_eq!(
            batches
                .take(&resource, &everything(), &history(3, 0), 0)
                .deliveries()
                .len(),
            3
        );
    }

    #[test]
    fn only_so_many_are_kept() {
        let (mut batches, history, resource) = (Batches::default(), history(KEPT + 1, 0), PODS.into());
        let first = batches.take(&resource, &everything(), &history, 0);
        for after in 1..=KEPT as u64 {
            batches.take(&resource, &everything(), &history, after);
        }
        assert_eq!(batches.kept.len(), KEPT);
        assert!(!Arc::ptr_eq(
            &first,
            &batches.take(&resource, &everything(), &history, 0)
        ));
    }

    #[test]
    fn short_lines_go_together_and_long_ones_alone() {
        for (padding, pieces, kept) in [(10, 1, true), (MOST_JOINED / 2, 3, false)] {
            let batch = Batches::default().take(&PODS.into(), &everything(), &history(3, padding), 0);
            let single = |delivery: &Delivery| delivery.commit.frame(delivery.event);
            let expected: Vec<Bytes> = batch.deliveries().iter().map(single).collect();
            let lines: Vec<Bytes> = batch.lines().collect();
            assert_eq!(lines.concat(), expected.concat());
            assert_eq!(lines.len(), pieces);
            assert_eq!(batch.joined.get().is_some_and(Option::is_some), kept);
        }
    }

    #[test]
    fn a_full_batch_tells_where_it_was_cut() {
        let take = |commits| Batches::default().take(&PODS.into(), &everything(), &history(commits, 0), 0);
        assert_eq!(take(MOST_COMMITS).cut_at(), None);
        assert_eq!(take(MOST_COMMITS + 1).cut_at(), Some(MOST_COMMITS as u64));
    }
}
