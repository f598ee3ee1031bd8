//! A gate that lets a bounded number through at a time, the most urgent first, and the eldest of those.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::oneshot;

#[derive(Debug, Default)]
struct State {
    size: usize,
    inside: usize,
    waiting: BTreeMap<(u8, u64), oneshot::Sender<Pass>>,
    next: u64,
}

/// The gate. Clones share.
#[derive(Debug, Clone)]
pub struct Gate {
    state: Arc<Mutex<State>>,
}

/// The right to be inside; ends when dropped.
#[derive(Debug)]
pub struct Pass {
    gate: Gate,
}

impl Gate {
    /// A gate for `size` at a time, at least one.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self {
            state: Arc::new(Mutex::new(State {
                size: size.max(1),
                ..State::default()
            })),
        }
    }

    /// Waits for the right to enter. Lower ranks go first. Dropping the future gives the place in the queue up.
    pub async fn enter(&self, rank: u8) -> Pass {
        let receiver = {
            let mut state = self.state.lock();
            if state.inside < state.size {
                state.inside += 1;
                return Pass { gate: self.clone() };
            }
            let (sender, receiver) = oneshot::channel();
            let place = (rank, state.next);
            state.next += 1;
            state.waiting.insert(place, sender);
            receiver
        };
        receiver.await.expect("a waiting sender is removed only to send")
    }

    /// Changes how many may be inside. Those that are stay.
    pub fn resize(&self, size: usize) {
        self.state.lock().size = size.max(1);
        self.admit();
    }

    /// How many are inside.
    #[must_use]
    pub fn inside(&self) -> usize {
        self.state.lock().inside
    }

    /// How many wait.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.state
            .lock()
            .waiting
            .values()
            .filter(|sender| !sender.is_closed())
            .count()
    }

    /// Lets in those whose turn it is.
    fn admit(&self) {
        loop {
            let mut state = self.state.lock();
            if state.inside >= state.size {
                return;
            }
            let Some((_, sender)) = state.waiting.pop_first() else {
                return;
            };
            // A future that was dropped is passed over.
            if sender.is_closed() {
                continue;
            }
            state.inside += 1;
            // A pass takes the lock when it is dropped, so it must not be dropped while the lock is held.
            drop(state);
            // On a race with a receiver that is dropped now, the pass is dropped here and the turn goes on from there.
            let _ = sender.send(Pass { gate: self.clone() });
        }
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.state.lock().inside -= 1;
        self.gate.admit();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_urgent_go_first_and_never_too_many() {
        let gate = Gate::new(2);
        let log = Arc::new(Mutex::new((Vec::new(), 0, 0)));
        let mut tasks = tokio::task::JoinSet::new();
        for (name, rank) in [("a", 1), ("b", 1), ("c", 2), ("d", 1), ("e", 0), ("f", 1)] {
            let (gate, log) = (gate.clone(), log.clone());
            tasks.spawn(async move {
                let _pass = gate.enter(rank).await;
                {
                    let mut log = log.lock();
                    log.0.push(name);
                    log.1 += 1;
                    log.2 = log.1.max(log.2);
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
                log.lock().1 -= 1;
            });
        }
        tasks.join_all().await;
        let log = log.lock();
        assert_eq!(
            (log.0.as_slice(), log.2),
            (["a", "b", "e", "d", "f", "c"].as_slice(), 2)
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_larger_gate_lets_in_who_waits_and_a_smaller_one_lets_out_first() {
        let gate = Gate::new(1);
        let first = gate.enter(0).await;
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                let gate = gate.clone();
                tokio::spawn(async move { gate.enter(0).await })
            })
            .collect();
        while gate.waiting() < 3 {
            tokio::task::yield_now().await;
        }
        gate.resize(3);
        assert_eq!((gate.inside(), gate.waiting()), (3, 1));
        gate.resize(1);
        drop(first);
        assert_eq!((gate.inside(), gate.waiting()), (2, 1), "two are inside, one may be");
        for waiting in waiting {
            drop(waiting.await.unwrap());
        }
        assert_eq!((gate.inside(), gate.waiting()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn who_gives_up_waiting_blocks_nobody() {
        let gate = Gate::new(1);
        let pass = gate.enter(0).await;
        let impatient = tokio::time::timeout(Duration::from_secs(1), gate.enter(0)).await;
        assert!(impatient.is_err());
        assert_eq!(gate.waiting(), 0);
        drop(pass);
        let _again = gate.enter(0).await;
    }
}
