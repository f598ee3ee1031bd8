//! How many writes may be in flight so that other clients of the API server are not crowded out. Pure.
//!
//! Owns the congestion window: it grows while answers come about as quickly as from an unloaded server, shrinks by a fifth when
//! they take more than twice as long, and by half when the server says that it has too much to do. It never leaves the
//! range it was given. How quick an unloaded server is differs by kind of write and changes with time, so the quickest answer
//! of each kind is remembered for two periods only, and at the beginning of each period the window closes for a moment to
//! look at the server without our own load. Assumes that every write that is sent is reported once.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::Instant;

/// How long the quickest answer is remembered, half or twice.
const PERIOD: Duration = Duration::from_secs(15);
/// Answers that take no longer than this above the quickest one are never a sign of load: timers and schedulers are that coarse.
const SLACK: Duration = Duration::from_millis(2);
/// Load as a multiple of the quickest answer: below the first the window grows, above the second it shrinks.
const GROW_BELOW: f64 = 1.5;
const SHRINK_ABOVE: f64 = 2.0;
/// How much of the newest answer is in the average.
const WEIGHT: f64 = 0.1;
/// Kinds of writes that are told apart; there are a few dozen.
const MOST_CLASSES: usize = 256;

/// A write that has been answered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer<'a> {
    /// Verb and resource: writes of one class cost the server about the same.
    pub(super) class: (&'a str, &'a str),
    pub(super) took: Duration,
    /// Writes in flight when it was sent, this one included.
    pub(super) in_flight: usize,
    /// The server has too much to do, or did not answer in time.
    pub(super) refused: bool,
}

/// The window. See the module.
#[derive(Debug)]
pub(super) struct CongestionWindow {
    least: f64,
    most: f64,
    size: f64,
    /// Doubles with every round of answers until the first sign of load.
    is_starting: bool,
    /// The average of answers as a multiple of the quickest ones.
    load: f64,
    /// Answers to come before it may shrink again: those of writes that were sent before it did.
    settling: usize,
    /// Answers to come before the look at the unloaded server ends.
    probing: usize,
    period_began: Option<Instant>,
    quickest: BTreeMap<(String, String), Quickest>,
}

#[derive(Debug, Clone, Copy)]
struct Quickest {
    this_period: Duration,
    last_period: Duration,
}

impl CongestionWindow {
    pub(super) fn new(least: usize, most: usize) -> Self {
        let most = most.max(1) as f64;
        let least = (least.max(1) as f64).min(most);
        Self {
            least,
            most,
            size: least,
            is_starting: true,
            load: 1.0,
            settling: 0,
            probing: 0,
            period_began: None,
            quickest: BTreeMap::new(),
        }
    }

    /// How many writes may be in flight now.
    pub(super) fn size(&self) -> usize {
        let size = if self.probing > 0 { self.least } else { self.size };
        size as usize
    }

    /// Takes an answer into account.
    pub(super) fn answered(&mut self, answer: Answer<'_>, now: Instant) {
        self.settling = self.settling.saturating_sub(1);
        if answer.in_flight <= self.least as usize {
            self.probing = self.probing.saturating_sub(1);
        }
        if answer.refused {
            self.shrink(0.5);
            return;
        }
        self.begin_period(now);
        let multiple = self.multiple(&answer);
        self.load += (multiple - self.load) * WEIGHT;
        if self.load > SHRINK_ABOVE {
            self.shrink(0.8);
        } else if self.load < GROW_BELOW && answer.in_flight as f64 >= self.size / 2.0 {
            // What is not used need not grow.
            let step = if self.is_starting { 1.0 } else { 1.0 / self.size };
            self.size = (self.size + step).min(self.most);
        } else if self.load >= GROW_BELOW {
            self.is_starting = false;
        }
    }

    fn shrink(&mut self, factor: f64) {
        self.is_starting = false;
        if self.settling == 0 {
            self.settling = self.size as usize;
            self.size = (self.size * factor).max(self.least);
        }
    }

    /// How long the answer took, as a multiple of the quickest one of its class.
    fn multiple(&mut self, answer: &Answer<'_>) -> f64 {
        let class = (answer.class.0.to_owned(), answer.class.1.to_owned());
        if self.quickest.len() >= MOST_CLASSES && !self.quickest.contains_key(&class) {
            return self.load;
        }
        let quickest = self.quickest.entry(class).or_insert(Quickest {
            this_period: Duration::MAX,
            last_period: Duration::MAX,
        });
        quickest.this_period = quickest.this_period.min(answer.took);
        let base = quickest.this_period.min(quickest.last_period);
        let above = answer.took.saturating_sub(SLACK).max(base);
        above.as_secs_f64() / base.as_secs_f64().max(f64::EPSILON)
    }

    fn begin_period(&mut self, now: Instant) {
        let began = *self.period_began.get_or_insert(now);
        if now.saturating_duration_since(began) < PERIOD {
            return;
        }
        self.period_began = Some(now);
        self.quickest
            .retain(|_, quickest| quickest.this_period != Duration::MAX);
        for quickest in self.quickest.values_mut() {
            quickest.last_period = std::mem::replace(&mut quickest.this_period, Duration::MAX);
        }
        self.probing = self.least as usize;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server with so many workers, each of which needs a time for a write; others' writes come on top.
    struct Server {
        workers: usize,
        service: Duration,
        now: Instant,
    }

    impl Server {
        fn new(workers: usize, service: Duration) -> Self {
            Self {
                workers,
                service,
                now: Instant::now(),
            }
        }

        /// How long a write takes when so many are in flight.
        fn latency(&self, in_flight: usize) -> Duration {
            let rounds = in_flight.max(self.workers) as f64 / self.workers as f64;
            self.service.mul_f64(rounds)
        }

        /// Answers so many writes of a client that always has more; returns the time per write.
        fn answer(&mut self, window: &mut CongestionWindow, writes: usize) -> Duration {
            let began = self.now;
            let mut left = writes;
            while left > 0 {
                let in_flight = window.size().min(left);
                let took = self.latency(in_flight);
                self.now += took;
                for _ in 0..in_flight {
                    window.answered(answer(took, in_flight), self.now);
                }
                left -= in_flight;
            }
            (self.now - began) / u32::try_from(writes).unwrap()
        }
    }

    fn answer(took: Duration, in_flight: usize) -> Answer<'static> {
        Answer {
            class: ("create", "pods"),
            took,
            in_flight,
            refused: false,
        }
    }

    const MILLISECOND: Duration = Duration::from_millis(1);

    #[test]
    fn a_server_with_room_is_used_to_the_most() {
        let mut server = Server::new(64, 5 * MILLISECOND);
        let mut window = CongestionWindow::new(4, 32);
        server.answer(&mut window, 100);
        assert_eq!(window.size(), 32);
    }

    #[test]
    fn a_busy_server_is_not_crowded_and_loses_little() {
        for workers in [2, 4, 8] {
            let mut server = Server::new(workers, 20 * MILLISECOND);
            let mut window = CongestionWindow::new(4, 32);
            server.answer(&mut window, 500);
            let each = server.answer(&mut window, 2_000);
            let floor = server.service.as_secs_f64() / workers as f64;
            assert!(
                each.as_secs_f64() <= floor * 1.1,
                "{workers} workers: {each:?} for each write, {floor} s is the least"
            );
            let latency = server.latency(window.size());
            assert!(latency <= server.service.mul_f64(2.5), "{workers} workers: {latency:?}");
        }
    }

    #[test]
    fn a_server_that_becomes_slower_for_good_is_used_again() {
        let mut server = Server::new(64, 5 * MILLISECOND);
        let mut window = CongestionWindow::new(4, 32);
        server.answer(&mut window, 1_000);
        server.service = 20 * MILLISECOND;
        server.answer(&mut window, 200);
        assert_eq!(window.size(), 4, "it looks like load at first");
        server.answer(&mut window, 20_000);
        assert!(window.size() >= 16, "{window:?}");
    }

    #[test]
    fn a_refusal_halves_the_window_once_for_all_that_were_in_flight() {
        let mut server = Server::new(64, 5 * MILLISECOND);
        let mut window = CongestionWindow::new(4, 32);
        server.answer(&mut window, 100);
        for _ in 0..32 {
            let refused = Answer {
                refused: true,
                ..answer(MILLISECOND, 32)
            };
            window.answered(refused, server.now);
        }
        assert_eq!(window.size(), 16);
    }

    #[test]
    fn coarse_timers_are_not_load() {
        let mut window = CongestionWindow::new(4, 32);
        let now = Instant::now();
        for round in 0..1_000_u32 {
            let took = Duration::from_micros(200) + 2 * MILLISECOND * (round % 2);
            window.answered(answer(took, window.size()), now);
        }
        assert_eq!(window.size(), 32);
    }

    #[test]
    fn it_stays_within_its_range() {
        let mut window = CongestionWindow::new(4, 1);
        assert_eq!(window.size(), 1);
        let now = Instant::now();
        for round in 1..100 {
            window.answered(answer(MILLISECOND * round, 1), now);
            assert_eq!(window.size(), 1);
        }
    }
}
