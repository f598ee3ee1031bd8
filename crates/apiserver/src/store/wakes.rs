//! Wakes watchers, a few at a time when they are many.
//!
//! A thousand watchers that are woken at once stand in the executor's queue before every request that comes in after
//! them: a burst of ten writes would be told to most of them one by one, and each write would wait until all of them
//! were told the one before. So a few are woken at once, and the rest in growing groups, with everything else that is ready
//! let through between two groups. Those who come later take the whole burst together.
//!
//! Nobody waits for a watcher here: one that does not do anything with its wake-up holds up no other. Groups are woken by
//! a task on the executor of the writer, which is assumed to be run on, or to be dropped, after the write.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::task::yield_now;

/// How many are woken at once.
const FIRST: usize = 8;
/// How large the groups grow: as many as may stand before a request that comes in meanwhile.
const MOST: usize = 128;

/// The watchers that are still to be woken.
#[derive(Clone, Default)]
pub(super) struct Wakes {
    line: Arc<Mutex<Line>>,
}

#[derive(Default)]
struct Line {
    waiting: VecDeque<Arc<Notify>>,
    /// Whether a task wakes them.
    moving: bool,
}

impl Wakes {
    /// Wakes these watchers, after those who are still waiting.
    pub(super) fn wake<'a>(&self, watchers: impl IntoIterator<Item = &'a Arc<Notify>>) {
        let mut line = self.line.lock();
        let mut watchers = watchers.into_iter();
        if line.waiting.is_empty() {
            watchers.by_ref().take(FIRST).for_each(|watcher| watcher.notify_one());
        }
        line.waiting.extend(watchers.cloned());
        if line.moving || line.waiting.is_empty() {
            return;
        }
        line.moving = true;
        drop(line);
        let moving = Moving(self.clone());
        // Without an executor there is nothing to let through, and dropping `moving` wakes all.
        if let Ok(executor) = Handle::try_current() {
            executor.spawn(moving.wake_in_groups());
        }
    }

    /// Wakes so many. Returns whether more are waiting.
    fn wake_next(&self, most: usize) -> bool {
        let mut line = self.line.lock();
        let count = most.min(line.waiting.len());
        line.waiting.drain(..count).for_each(|watcher| watcher.notify_one());
        !line.waiting.is_empty()
    }
}

/// Held by the task that wakes the waiting. Whenever it ends, be it with its executor, nobody is left waiting.
struct Moving(Wakes);

impl Moving {
    async fn wake_in_groups(self) {
        let mut most = FIRST;
        loop {
            // Everything that is ready goes first, and what has come in from sockets meanwhile.
            yield_now().await;
            if !self.0.wake_next(most) {
                return;
            }
            most = (2 * most).min(MOST);
        }
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        let mut line = self.0.line.lock();
        line.moving = false;
        line.waiting.drain(..).for_each(|watcher| watcher.notify_one());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::FutureExt;

    use super::*;

    const MANY: usize = 1000;

    fn watchers() -> Vec<Arc<Notify>> {
        (0..MANY).map(|_| Arc::new(Notify::new())).collect()
    }

    fn count_woken(watchers: &[Arc<Notify>]) -> usize {
        let woken = |watcher: &&Arc<Notify>| watcher.notified().now_or_never().is_some();
        watchers.iter().filter(woken).count()
    }

    #[tokio::test]
    async fn few_are_woken_at_once_and_the_rest_in_growing_groups() {
        let (wakes, watchers) = (Wakes::default(), watchers());
        wakes.wake(&watchers[..FIRST]);
        assert_eq!(count_woken(&watchers), FIRST);
        assert!(!wakes.line.lock().moving, "no task for a few");

        wakes.wake(&watchers);
        let mut groups = vec![count_woken(&watchers)];
        while wakes.line.lock().moving {
            yield_now().await;
            groups.push(count_woken(&watchers));
        }
        groups.retain(|woken| *woken > 0);
        assert_eq!(groups[..6], [FIRST, FIRST, 2 * FIRST, 4 * FIRST, 8 * FIRST, MOST]);
        assert_eq!(groups.iter().sum::<usize>(), MANY);
        assert_eq!(groups.iter().max(), Some(&MOST));
    }

    #[tokio::test]
    async fn other_tasks_run_between_two_groups() {
        let (wakes, watchers, turns) = (Wakes::default(), watchers(), Arc::new(AtomicUsize::new(0)));
        let counted = turns.clone();
        let other = tokio::spawn(async move {
            loop {
                counted.fetch_add(1, Ordering::Relaxed);
                yield_now().await;
            }
        });
        wakes.wake(&watchers);
        while wakes.line.lock().moving {
            yield_now().await;
        }
        other.abort();
        let groups = MANY / MOST;
        assert!(
            turns.load(Ordering::Relaxed) >= groups,
            "{turns:?} turns in {groups} groups"
        );
    }

    #[tokio::test]
    async fn those_who_come_later_wait_behind_the_others() {
        let (wakes, first, second) = (Wakes::default(), watchers(), watchers());
        wakes.wake(&first);
        wakes.wake(&second);
        assert_eq!((count_woken(&first), count_woken(&second)), (FIRST, 0));
        let mut left = MANY - FIRST;
        while wakes.line.lock().moving {
            yield_now().await;
            left -= count_woken(&first);
            assert!(left == 0 || count_woken(&second) == 0);
        }
        assert_eq!(left, 0);
    }

    #[test]
    fn all_are_woken_where_there_is_no_executor_or_it_ends() {
        let (wakes, watchers) = (Wakes::default(), watchers());
        wakes.wake(&watchers);
        assert_eq!(count_woken(&watchers), MANY);

        let executor = tokio::runtime::Builder::new_current_thread().build().unwrap();
        executor.block_on(async { wakes.wake(&watchers) });
        drop(executor);
        assert_eq!(count_woken(&watchers), MANY);
        wakes.wake(&watchers);
        assert_eq!(count_woken(&watchers), MANY);
    }
}
