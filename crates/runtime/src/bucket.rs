//! A token bucket. Pure; time is given. Tokens may be reserved ahead of time, so that those who wait keep their order.

use std::time::Duration;

use tokio::time::Instant;

/// A bucket of tokens that refills at a steady rate.
#[derive(Debug, Clone)]
pub struct TokenBucket {
    per_second: f64,
    burst: f64,
    tokens: f64,
    at: Instant,
}

impl TokenBucket {
    /// A full bucket of `burst` tokens that gains `per_second`.
    #[must_use]
    pub fn new(per_second: f64, burst: u32, now: Instant) -> Self {
        let burst = f64::from(burst.max(1));
        Self {
            per_second: per_second.max(f64::MIN_POSITIVE),
            burst,
            tokens: burst,
            at: now,
        }
    }

    /// Takes a token if there is one.
    pub fn try_take(&mut self, now: Instant) -> bool {
        self.refill(now);
        let there = self.tokens >= 1.0;
        if there {
            self.tokens -= 1.0;
        }
        there
    }

    /// Takes a token, and says how long to wait until it is there.
    pub fn reserve(&mut self, now: Instant) -> Duration {
        self.refill(now);
        self.tokens -= 1.0;
        if self.tokens >= 0.0 {
            Duration::ZERO
        } else {
            Duration::try_from_secs_f64(-self.tokens / self.per_second).unwrap_or(Duration::MAX)
        }
    }

    /// Whether the bucket is as full as a new one.
    pub fn is_full(&mut self, now: Instant) -> bool {
        self.refill(now);
        self.tokens >= self.burst
    }

    fn refill(&mut self, now: Instant) {
        let gained = now.saturating_duration_since(self.at).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + gained).min(self.burst);
        self.at = self.at.max(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_burst_then_the_rate() {
        let mut bucket = TokenBucket::new(2.0, 3, Instant::now());
        let waits: Vec<u64> = (0..6)
            .map(|_| u64::try_from(bucket.reserve(Instant::now()).as_millis()).unwrap())
            .collect();
        assert_eq!(waits, [0, 0, 0, 500, 1000, 1500]);
        tokio::time::advance(Duration::from_secs(10)).await;
        assert!(bucket.is_full(Instant::now()));
        assert!((0..3).all(|_| bucket.try_take(Instant::now())));
        assert!(!bucket.try_take(Instant::now()));
    }
}
