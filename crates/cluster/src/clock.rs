//! The time port of the crate.
//!
//! Owns the one way in which simulated components learn the time. Deciders never ask a clock: the shells read it
//! once per step and hand `now` over. A test or a simulation uses [`TokioClock`], which follows tokio's time and so
//! stands still and jumps with a paused runtime. It never sleeps; deadlines are the business of the engine.

use jiff::Timestamp;
use std::fmt::Debug;
use std::time::Duration;

/// Where the present moment comes from.
pub trait Clock: Debug + Send + Sync + 'static {
    /// The present moment. It must not go backwards by more than a clock correction.
    fn now(&self) -> Timestamp;
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealClock;

impl Clock for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// A clock that follows tokio's time from a chosen epoch, so that it works with paused time.
#[derive(Clone, Copy, Debug)]
pub struct TokioClock {
    epoch: Timestamp,
    origin: tokio::time::Instant,
}

impl TokioClock {
    /// A clock that shows `epoch` now. Must be called inside the runtime whose time it is to follow.
    pub fn starting_at(epoch: Timestamp) -> Self {
        Self {
            epoch,
            origin: tokio::time::Instant::now(),
        }
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        later(self.epoch, self.origin.elapsed())
    }
}

/// `start` plus `delay`, at most the end of time.
pub(crate) fn later(start: Timestamp, delay: Duration) -> Timestamp {
    start.checked_add(delay).unwrap_or(Timestamp::MAX)
}

/// How long it is from `now` to `moment`; nothing if `moment` has passed.
pub(crate) fn until(now: Timestamp, moment: Timestamp) -> Duration {
    Duration::try_from(moment.duration_since(now)).unwrap_or(Duration::ZERO)
}

/// The moment as Kubernetes writes it: without a fraction of a second.
pub(crate) fn whole_second(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_tokio_clock_moves_only_with_the_runtime() {
        let clock = TokioClock::starting_at(Timestamp::UNIX_EPOCH);
        tokio::time::sleep(Duration::from_secs(90)).await;
        assert_eq!(clock.now(), Timestamp::from_second(90).unwrap());
    }

    #[test]
    fn time_arithmetic_saturates() {
        assert_eq!(later(Timestamp::MAX, Duration::from_secs(1)), Timestamp::MAX);
        assert_eq!(until(Timestamp::MAX, Timestamp::MIN), Duration::ZERO);
        assert_eq!(
            whole_second(Timestamp::from_millisecond(1999).unwrap()).as_millisecond(),
            1000
        );
    }
}
