//! The handle by which writers ask whether they may still write.
//!
//! Owns the fence: the time until which the lease is certainly held, counted from *before* the request that renewed it
//! was sent. It lapses by itself, also when the elector's task does not run. Both the monotonic and the wall clock must
//! be before it, because a machine that was suspended may have stopped the former.

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::{sync::watch, time::Instant};

use crate::clock::SharedClock;

/// The lease is not, or no longer certainly, held: nothing may be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the leader: the lease is not held")]
pub struct Fenced;

#[derive(Debug, Clone, Copy)]
pub(super) struct Fence {
    pub(super) until: Instant,
    pub(super) wall_until: Timestamp,
}

struct Shared {
    /// `None` for a process that runs without election.
    election: Option<(SharedClock, Mutex<Option<Fence>>)>,
    leading: watch::Sender<bool>,
}

/// Whether this process leads. Clones share.
#[derive(Clone)]
pub struct Leadership {
    shared: Arc<Shared>,
}

impl Leadership {
    /// The leadership of a process that runs without election: always held.
    #[must_use]
    pub fn always() -> Self {
        Self {
            shared: Arc::new(Shared {
                election: None,
                leading: watch::Sender::new(true),
            }),
        }
    }

    pub(super) fn elected(clock: SharedClock) -> Self {
        let election = Some((clock, Mutex::new(None)));
        Self {
            shared: Arc::new(Shared {
                election,
                leading: watch::Sender::new(false),
            }),
        }
    }

    /// Whether a write may leave now.
    ///
    /// # Errors
    /// [`Fenced`] when the lease is not certainly held.
    pub fn check(&self) -> Result<(), Fenced> {
        let Some((clock, fence)) = &self.shared.election else {
            return Ok(());
        };
        let fence = (*fence.lock()).ok_or(Fenced)?;
        if Instant::now() < fence.until && clock.now() < fence.wall_until {
            Ok(())
        } else {
            Err(Fenced)
        }
    }

    /// Waits until this process leads.
    pub async fn wait_leading(&self) {
        let mut leading = self.shared.leading.subscribe();
        // The sender lives as long as `self`.
        let _ = leading.wait_for(|leading| *leading).await;
    }

    /// Waits until this process leads no longer.
    pub async fn wait_lost(&self) {
        let mut leading = self.shared.leading.subscribe();
        let _ = leading.wait_for(|leading| !*leading).await;
    }

    /// Moves the fence; `None` closes it. Returns whether that changed who leads.
    pub(super) fn set(&self, fence: Option<Fence>) -> bool {
        if let Some((_, slot)) = &self.shared.election {
            *slot.lock() = fence;
        }
        self.shared
            .leading
            .send_if_modified(|leading| std::mem::replace(leading, fence.is_some()) != fence.is_some())
    }

    pub(super) fn fence(&self) -> Option<Fence> {
        self.shared.election.as_ref().and_then(|(_, slot)| *slot.lock())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::TokioClock;

    #[tokio::test(start_paused = true)]
    async fn the_fence_lapses_by_itself() {
        let clock = TokioClock::new("2026-01-01T00:00:00Z".parse().unwrap());
        let leadership = Leadership::elected(Arc::new(clock));
        assert_eq!(leadership.check(), Err(Fenced));
        let until = Instant::now() + Duration::from_secs(10);
        leadership.set(Some(Fence {
            until,
            wall_until: Timestamp::MAX,
        }));
        assert_eq!(leadership.check(), Ok(()));
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(leadership.check(), Err(Fenced));
    }

    #[tokio::test(start_paused = true)]
    async fn the_wall_clock_alone_closes_the_fence_too() {
        let clock = TokioClock::new("2026-01-01T00:00:00Z".parse().unwrap());
        let leadership = Leadership::elected(Arc::new(clock));
        let until = Instant::now() + Duration::from_secs(100);
        leadership.set(Some(Fence {
            until,
            wall_until: "2025-12-31T23:59:59Z".parse().unwrap(),
        }));
        assert_eq!(leadership.check(), Err(Fenced));
    }

    #[test]
    fn without_election_everyone_leads() {
        assert_eq!(Leadership::always().check(), Ok(()));
    }
}
