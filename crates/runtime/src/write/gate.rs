//! A gate that lets a bounded number through at a time, the most urgent first, and the eldest of those.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::sync::oneshot;

#[derive(Debug, Default)]
struct State {
    free: usize,
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
    state: Arc<Mutex<State>>,
}

impl Gate {
    /// A gate for `size` at a time, at least one.
    #[must_use]
    pub fn new(size: usize) -> Self {
        Self {
            state: Arc::new(Mutex::new(State {
                free: size.max(1),
                ..State::default()
            })),
        }
    }

    /// Waits for the right to enter. Lower ranks go first. Dropping the future gives the place in the queue up.
    pub async fn enter(&self, rank: u8) -> Pass {
        let receiver = {
            let mut state = self.state.lock();
            if state.free > 0 {
                state.free -= 1;
                return Pass {
                    state: self.state.clone(),
                };
            }
            let (sender, receiver) = oneshot::channel();
            let place = (rank, state.next);
            state.next += 1;
            state.waiting.insert(place, sender);
            receiver
        };
        receiver.await.expect("a waiting sender is removed only to send")
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
}

impl Drop for Pass {
    fn drop(&mut self) {
        let mut state = self.state.lock();
        state.free += 1;
        while state.free > 0 {
            let Some((_, sender)) = state.waiting.pop_first() else {
                return;
            };
            // Whoever gave up waiting is passed over. (A pass that is sent and never received comes back by its drop,
            // which takes the lock, so it must not be dropped in here.)
            if sender.is_closed() {
                continue;
            }
            state.free -= 1;
            let pass = Pass {
                state: self.state.clone(),
            };
            drop(state);
            // On a race with a receiver that is dropped now, the pass is dropped here and the turn goes on from there.
            let _ = sender.send(pass);
            return;
        }
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
