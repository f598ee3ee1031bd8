//! What the queue knows: which keys are due, running or waiting, and who is next. Pure; time is given.
//!
//! Assumes that a key is finished exactly once after it was handed out. Never hands out a key that is running.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

/// Who goes first among the keys that are due.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Something happened.
    High,
    /// Nothing is known to have happened: start-up, resync, deadlines.
    Low,
}

/// So many keys of high priority go first at most before one of low priority that waits.
const HIGH_IN_A_ROW: u32 = 16;

/// How a run ended, in the queue's own terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Well, and it wants to run again at this time, if any.
    Well(Option<Instant>),
    /// Badly; it runs again at this time.
    Badly(Instant),
}

#[derive(Debug)]
enum Phase {
    /// Not due; a wake-up may be set.
    Idle { wake: Option<Instant> },
    Due {
        priority: Priority,
        order: u64,
        since: Instant,
    },
    /// Handed out. What came in meanwhile is kept for afterwards.
    Running {
        marked: Option<Priority>,
        wake: Option<Instant>,
    },
}

#[derive(Debug)]
struct Entry {
    phase: Phase,
    failures: u32,
}

/// The state of a queue of keys `K`.
#[derive(Debug)]
pub(super) struct State<K> {
    entries: BTreeMap<K, Entry>,
    due: BTreeMap<(Priority, u64), K>,
    wakes: BTreeSet<(Instant, u64, K)>,
    wake_of: BTreeMap<K, (Instant, u64)>,
    next_order: u64,
    high_in_a_row: u32,
    running: usize,
}

impl<K: Ord + Clone> State<K> {
    pub(super) fn new() -> Self {
        Self {
            entries: BTreeMap::new(),
            due: BTreeMap::new(),
            wakes: BTreeSet::new(),
            wake_of: BTreeMap::new(),
            next_order: 0,
            high_in_a_row: 0,
            running: 0,
        }
    }

    /// The key is to run as soon as possible, once more if it is running.
    pub(super) fn mark(&mut self, key: &K, priority: Priority, now: Instant) {
        let order = self.take_order();
        let entry = self.entry(key);
        match &mut entry.phase {
            Phase::Idle { .. } => {
                entry.phase = Phase::Due {
                    priority,
                    order,
                    since: now,
                };
                self.due.insert((priority, order), key.clone());
                self.clear_wake(key);
            }
            Phase::Due {
                priority: old, order, ..
            } if priority < *old => {
                let (previous, order) = (*old, *order);
                *old = priority;
                self.due.remove(&(previous, order));
                self.due.insert((priority, order), key.clone());
            }
            Phase::Due { .. } => {}
            Phase::Running { marked, .. } => *marked = Some(marked.map_or(priority, |old| old.min(priority))),
        }
    }

    /// The key is to run at `when` at the latest.
    pub(super) fn mark_at(&mut self, key: &K, when: Instant) {
        match &mut self.entry(key).phase {
            Phase::Idle { wake: Some(wake) } if *wake <= when => {}
            Phase::Idle { .. } => self.set_wake(key, when),
            Phase::Due { .. } => {}
            Phase::Running { wake, .. } => *wake = Some(wake.map_or(when, |old| old.min(when))),
        }
    }

    /// Makes the keys due whose time has come.
    pub(super) fn wake(&mut self, now: Instant) {
        while let Some((when, _, key)) = self.wakes.first().filter(|(when, _, _)| *when <= now).cloned() {
            self.clear_wake(&key);
            self.mark(&key, Priority::Low, when);
        }
    }

    /// The next key to run and since when it was due.
    pub(super) fn take(&mut self) -> Option<(K, Instant)> {
        let low = self.due.range((Priority::Low, 0)..).next().map(|(place, _)| *place);
        let first = *self.due.first_key_value()?.0;
        let place = match low {
            Some(low) if self.high_in_a_row >= HIGH_IN_A_ROW => low,
            _ => first,
        };
        self.high_in_a_row = if place.0 == Priority::High {
            self.high_in_a_row + 1
        } else {
            0
        };
        let key = self.due.remove(&place)?;
        self.running += 1;
        let entry = self.entry(&key);
        let Phase::Due { since, .. } = entry.phase else {
            unreachable!("only due keys are in the due set")
        };
        entry.phase = Phase::Running {
            marked: None,
            wake: None,
        };
        Some((key, since))
    }

    /// A run has ended.
    pub(super) fn finish(&mut self, key: &K, ended: Ended, now: Instant) {
        self.running -= 1;
        let entry = self.entry(key);
        let Phase::Running { marked, wake } = entry.phase else {
            unreachable!("a key is finished once per run")
        };
        let again = match ended {
            Ended::Well(at) => {
                entry.failures = 0;
                at
            }
            Ended::Badly(at) => {
                entry.failures += 1;
                Some(at)
            }
        };
        entry.phase = Phase::Idle { wake: None };
        if let Some(when) = again.into_iter().chain(wake).min() {
            self.set_wake(key, when);
        }
        if let Some(priority) = marked {
            self.mark(key, priority, now);
        } else if again.is_none() && wake.is_none() && self.entry(key).failures == 0 {
            self.entries.remove(key);
        }
    }

    /// Failures in a row of a key.
    pub(super) fn failures(&self, key: &K) -> u32 {
        self.entries.get(key).map_or(0, |entry| entry.failures)
    }

    /// When the next key becomes due by itself.
    pub(super) fn next_wake(&self) -> Option<Instant> {
        self.wakes.first().map(|(when, _, _)| *when)
    }

    /// How many keys are due.
    pub(super) fn depth(&self) -> usize {
        self.due.len()
    }

    /// Whether a key of high priority is due.
    pub(super) fn has_urgent(&self) -> bool {
        let first = self.due.first_key_value();
        first.is_some_and(|((priority, _), _)| *priority == Priority::High)
    }

    /// How many keys run.
    pub(super) fn running(&self) -> usize {
        self.running
    }

    fn take_order(&mut self) -> u64 {
        self.next_order += 1;
        self.next_order
    }

    fn entry(&mut self, key: &K) -> &mut Entry {
        if !self.entries.contains_key(key) {
            self.entries.insert(
                key.clone(),
                Entry {
                    phase: Phase::Idle { wake: None },
                    failures: 0,
                },
            );
        }
        self.entries.get_mut(key).expect("it was just inserted")
    }

    fn set_wake(&mut self, key: &K, when: Instant) {
        self.clear_wake(key);
        let order = self.take_order();
        self.wakes.insert((when, order, key.clone()));
        self.wake_of.insert(key.clone(), (when, order));
        self.entry(key).phase = Phase::Idle { wake: Some(when) };
    }

    fn clear_wake(&mut self, key: &K) {
        let Some((when, order)) = self.wake_of.remove(key) else {
            return;
        };
        self.wakes.remove(&(when, order, key.clone()));
        if let Phase::Idle { wake } = &mut self.entry(key).phase {
            *wake = None;
        }
    }
}
