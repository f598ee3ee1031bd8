//! Which keys want work, and when.
//!
//! Owns the marks, deadlines and retry delays of one controller. A key is never handed out while it is being worked
//! on: marks that arrive meanwhile are kept for afterwards. It knows no clock; `now` is given.

use crate::clock::later;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

const FIRST_RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// The work of one controller.
#[derive(Debug)]
pub(crate) struct Queue<K> {
    order: VecDeque<K>,
    marked: BTreeSet<K>,
    busy: BTreeSet<K>,
    deadlines: BTreeSet<(Timestamp, K)>,
    deadline_of: BTreeMap<K, Timestamp>,
    failures: BTreeMap<K, u32>,
}

impl<K> Default for Queue<K> {
    fn default() -> Self {
        Self {
            order: VecDeque::new(),
            marked: BTreeSet::new(),
            busy: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            deadline_of: BTreeMap::new(),
            failures: BTreeMap::new(),
        }
    }
}

impl<K: Ord + Clone> Queue<K> {
    /// The key wants work as soon as possible.
    pub(crate) fn mark(&mut self, key: K) {
        if self.marked.insert(key.clone()) && !self.busy.contains(&key) {
            self.order.push_back(key);
        }
    }

    /// The key wants work at `moment`, or earlier if that was asked for before.
    pub(crate) fn wake_at(&mut self, key: K, moment: Timestamp) {
        if let Some(earlier) = self.deadline_of.get(&key).copied() {
            if earlier <= moment {
                return;
            }
            self.deadlines.remove(&(earlier, key.clone()));
        }
        self.deadlines.insert((moment, key.clone()));
        self.deadline_of.insert(key, moment);
    }

    /// The key does not exist any more.
    pub(crate) fn forget(&mut self, key: &K) {
        self.clear_deadline(key);
        self.failures.remove(key);
    }

    /// The next key to work on. Its deadline is cleared: whoever works on it sets a new one.
    pub(crate) fn take(&mut self, now: Timestamp) -> Option<K> {
        while let Some((moment, _)) = self.deadlines.first() {
            if *moment > now {
                break;
            }
            if let Some((_, key)) = self.deadlines.pop_first() {
                self.deadline_of.remove(&key);
                self.mark(key);
            }
        }
        let key = self.order.pop_front()?;
        self.marked.remove(&key);
        self.clear_deadline(&key);
        self.busy.insert(key.clone());
        Some(key)
    }

    /// The moment at which a key becomes due without any event.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadlines.first().map(|(moment, _)| *moment)
    }

    /// Work on the key has ended without a request.
    pub(crate) fn done(&mut self, key: &K) {
        self.busy.remove(key);
        if self.marked.contains(key) {
            self.order.push_back(key.clone());
        }
    }

    /// Work on the key has succeeded.
    pub(crate) fn succeeded(&mut self, key: &K) {
        self.failures.remove(key);
        self.done(key);
    }

    /// Work on the key has failed; it is due again after the returned delay.
    pub(crate) fn failed(&mut self, key: &K, now: Timestamp) -> Duration {
        let failures = self.failures.entry(key.clone()).or_insert(0);
        let delay = FIRST_RETRY
            .saturating_mul(2_u32.saturating_pow(*failures))
            .min(LONGEST_RETRY);
        *failures += 1;
        self.done(key);
        self.wake_at(key.clone(), later(now, delay));
        delay
    }

    fn clear_deadline(&mut self, key: &K) {
        if let Some(moment) = self.deadline_of.remove(key) {
            self.deadlines.remove(&(moment, key.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn a_key_is_handed_out_once_and_again_after_it_was_marked_meanwhile() {
        let mut queue = Queue::default();
        queue.mark("a");
        queue.mark("b");
        queue.mark("a");
        assert_eq!(queue.take(at(0)), Some("a"));
        queue.mark("a");
        assert_eq!(queue.take(at(0)), Some("b"));
        assert_eq!(queue.take(at(0)), None, "a is busy");
        queue.succeeded(&"a");
        assert_eq!(queue.take(at(0)), Some("a"));
        queue.done(&"a");
        assert_eq!(queue.take(at(0)), None);
    }

    #[test]
    fn the_earliest_deadline_wins_and_work_clears_it() {
        let mut queue = Queue::default();
        queue.wake_at("a", at(20));
        queue.wake_at("a", at(10));
        queue.wake_at("a", at(30));
        assert_eq!(queue.next_deadline(), Some(at(10)));
        assert_eq!(queue.take(at(9)), None);
        assert_eq!(queue.take(at(10)), Some("a"));
        assert_eq!(queue.next_deadline(), None);
    }

    #[test]
    fn failures_wait_longer_each_time_up_to_a_bound_and_success_resets() {
        let mut queue = Queue::default();
        let mut delays = Vec::new();
        for _ in 0..12 {
            queue.mark("a");
            assert_eq!(queue.take(at(0)), Some("a"));
            delays.push(queue.failed(&"a", at(0)));
        }
        assert_eq!(delays[0], Duration::from_millis(100));
        assert_eq!(delays[1], Duration::from_millis(200));
        assert_eq!(delays[11], LONGEST_RETRY);
        queue.mark("a");
        queue.take(at(0));
        queue.succeeded(&"a");
        queue.mark("a");
        queue.take(at(0));
        assert_eq!(queue.failed(&"a", at(0)), FIRST_RETRY);
    }

    #[test]
    fn a_forgotten_key_has_no_deadline() {
        let mut queue = Queue::default();
        queue.wake_at("a", at(1));
        queue.forget(&"a");
        assert_eq!(queue.take(at(5)), None);
    }
}
