//! Exponential backoff with seeded jitter. Waits in tokio's time.

use std::{fmt::Display, time::Duration};

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tracing::warn;

/// How long to wait after the n-th failure in a row.
#[derive(Debug, Clone, Copy)]
pub struct Backoff {
    /// The wait after the first failure.
    pub first: Duration,
    /// The longest wait.
    pub longest: Duration,
    /// The part of the wait that is drawn at random, from 0 (none) to 1 (all of it).
    pub jitter: f64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_millis(100),
            longest: Duration::from_secs(120),
            jitter: 0.25,
        }
    }
}

impl Backoff {
    /// The wait after `failures` failures in a row, at least one, before anything is taken off it at random.
    #[must_use]
    pub fn full_delay(&self, failures: u32) -> Duration {
        let doubled = self.first.saturating_mul(1_u32 << failures.saturating_sub(1).min(31));
        doubled.min(self.longest)
    }

    /// The wait after `failures` failures in a row, at least one.
    pub fn delay(&self, failures: u32, random: &mut ChaCha8Rng) -> Duration {
        self.full_delay(failures)
            .mul_f64(1.0 - self.jitter.clamp(0.0, 1.0) * random.random_range(0.0..1.0))
    }

    /// Repeats `attempt` until it succeeds, with a wait after each failure.
    pub async fn until_ok<T, E, F>(&self, what: &str, mut attempt: impl FnMut() -> F) -> T
    where
        E: Display,
        F: Future<Output = Result<T, E>>,
    {
        let mut random = ChaCha8Rng::seed_from_u64(0);
        let mut failures = 0;
        loop {
            match attempt().await {
                Ok(value) => return value,
                Err(error) => {
                    failures += 1;
                    let wait = self.delay(failures, &mut random);
                    warn!(%error, ?wait, "{what} failed, will retry");
                    tokio::time::sleep(wait).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_attempt_is_repeated_until_it_succeeds() {
        let backoff = Backoff {
            jitter: 0.0,
            ..Backoff::default()
        };
        let mut attempts = 0;
        let begun = tokio::time::Instant::now();
        let third = backoff.until_ok("counting", || {
            attempts += 1;
            let attempt = attempts;
            async move { if attempt < 3 { Err("not yet") } else { Ok(attempt) } }
        });
        assert_eq!(third.await, 3);
        assert_eq!(begun.elapsed(), Duration::from_millis(300));
    }

    #[test]
    fn doubles_up_to_the_longest() {
        let backoff = Backoff {
            first: Duration::from_secs(1),
            longest: Duration::from_secs(5),
            jitter: 0.0,
        };
        let mut random = ChaCha8Rng::seed_from_u64(1);
        let delays: Vec<u64> = (1..6)
            .map(|failures| backoff.delay(failures, &mut random).as_secs())
            .collect();
        assert_eq!(delays, [1, 2, 4, 5, 5]);
        assert_eq!(backoff.delay(u32::MAX, &mut random), Duration::from_secs(5));
    }

    #[test]
    fn jitter_stays_in_its_part_and_depends_on_the_seed_alone() {
        let backoff = Backoff {
            first: Duration::from_secs(8),
            longest: Duration::from_secs(8),
            jitter: 0.5,
        };
        let draw = |seed| backoff.delay(1, &mut ChaCha8Rng::seed_from_u64(seed));
        for seed in 0..50 {
            assert!((Duration::from_secs(4)..=Duration::from_secs(8)).contains(&draw(seed)));
            assert_eq!(draw(seed), draw(seed));
        }
    }
}
