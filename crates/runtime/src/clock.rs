//! The clock port: the only place that asks what time it is.
//!
//! Owns wall time. Waiting and measuring go through tokio's time everywhere in this crate, so a paused runtime
//! controls both. Never sleeps itself.
//!
//! ```
//! use coppice_runtime::clock::{Clock, TokioClock};
//! # #[tokio::main(flavor = "current_thread", start_paused = true)] async fn main() {
//! let clock = TokioClock::new("2026-01-01T00:00:00Z".parse().unwrap());
//! tokio::time::advance(std::time::Duration::from_secs(60)).await;
//! assert_eq!(clock.now().to_string(), "2026-01-01T00:01:00Z");
//! # }
//! ```

use std::sync::Arc;

use jiff::Timestamp;
use tokio::time::{Duration, Instant};

/// Wall time, as a port.
pub trait Clock: Send + Sync + 'static {
    /// The wall time now.
    fn now(&self) -> Timestamp;
}

/// A clock that is handed around.
pub type SharedClock = Arc<dyn Clock>;

/// The machine's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Wall time derived from a start stamp and tokio's time, for tests and simulation.
///
/// Two actors with different start stamps have skewed clocks.
#[derive(Debug, Clone, Copy)]
pub struct TokioClock {
    start: Timestamp,
    origin: Instant,
}

impl TokioClock {
    /// A clock that shows `start` now and advances with tokio's time.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self {
            start,
            origin: Instant::now(),
        }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        later(self.start, self.origin.elapsed())
    }
}

/// `start` plus `delay`, at most the end of time.
#[must_use]
pub fn later(start: Timestamp, delay: Duration) -> Timestamp {
    start.checked_add(delay).unwrap_or(Timestamp::MAX)
}

/// The time as Kubernetes stores it: without a fraction of a second.
#[must_use]
pub fn whole_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// The instant of tokio's time at which the wall clock will show `when`; now when that has passed.
///
/// A step of the wall clock after the call is not followed: whoever wakes up asks the clock again.
#[must_use]
pub fn instant_of(clock: &dyn Clock, when: Timestamp) -> Instant {
    let ahead = Duration::try_from(when.duration_since(clock.now())).unwrap_or(Duration::ZERO);
    // Far deadlines are clamped, because adding them could overflow the monotonic clock of the platform.
    Instant::now() + ahead.min(Duration::from_secs(365 * 24 * 3600))
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;

    use super::*;

    #[test]
    fn time_arithmetic_saturates_and_stored_times_have_no_fraction() {
        assert_eq!(later(Timestamp::MAX, Duration::from_secs(1)), Timestamp::MAX);
        let fraction = Timestamp::from_millisecond(1999).unwrap();
        assert_eq!(whole_second(fraction).as_millisecond(), 1000);
    }

    #[tokio::test(start_paused = true)]
    async fn wall_time_follows_tokio_time() {
        let start: Timestamp = "2026-11-15T00:00:00Z".parse().unwrap();
        let clock = TokioClock::new(start);
        assert_eq!(clock.now(), start);
        tokio::time::sleep(Duration::from_millis(1500)).await;
        assert_eq!(clock.now().duration_since(start), SignedDuration::from_millis(1500));
    }

    #[tokio::test(start_paused = true)]
    async fn an_instant_of_the_past_is_now() {
        let clock = TokioClock::new("2026-11-15T00:00:00Z".parse().unwrap());
        assert_eq!(
            instant_of(&clock, "2020-01-01T00:00:00Z".parse().unwrap()),
            Instant::now()
        );
        let ahead = instant_of(&clock, "2026-11-15T00:00:05Z".parse().unwrap());
        assert_eq!(ahead.duration_since(Instant::now()), Duration::from_secs(5));
    }
}
