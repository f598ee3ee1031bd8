//! Which notes become which writes: series, rate per object, and names. Pure; time is given.
//!
//! The same note about the same object (uid, kind, reason, message) is one event with a count. A series is written when
//! it begins, and its count at most once per `series_interval`. Each object has a token bucket for new series, and
//! another one for warnings.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::{Note, Rates};
use crate::bucket::TokenBucket;

/// One write to the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Write {
    /// A new event.
    Create { name: String, note: Note, at: Timestamp },
    /// A series has grown.
    Count {
        name: String,
        note: Note,
        first: Timestamp,
        last: Timestamp,
        count: i32,
    },
}

#[derive(Debug)]
struct Series {
    note: Note,
    first: Timestamp,
    last: Timestamp,
    count: i32,
    touched: Instant,
    /// When the grown count is to be written; `None` when it is.
    write_at: Option<Instant>,
    written_at: Instant,
}

#[derive(Debug)]
pub(super) struct Correlator {
    rates: Rates,
    series: BTreeMap<String, Series>,
    buckets: BTreeMap<(String, &'static str), TokenBucket>,
}

impl Correlator {
    pub(super) fn new(rates: Rates) -> Self {
        Self {
            rates,
            series: BTreeMap::new(),
            buckets: BTreeMap::new(),
        }
    }

    /// Takes a note in. `None` when nothing is to be written now, `Err` when it was dropped by the rate of its object.
    pub(super) fn take(&mut self, note: Note, at: Timestamp, now: Instant) -> Result<Option<Write>, ()> {
        let name = event_name(&note);
        if let Some(series) = self.series.get_mut(&name) {
            if now.saturating_duration_since(series.touched) < self.rates.forget_after {
                series.count = series.count.saturating_add(1);
                series.last = at;
                series.touched = now;
                let due = series.written_at + self.rates.series_interval;
                series.write_at.get_or_insert(due);
                return Ok(self.due(now).into_iter().next());
            }
            self.series.remove(&name);
        }
        let (per_second, burst) = self.rates.per_object;
        // Warnings have a budget of their own, so that good news never drowns them.
        let object = (note.object.uid.clone(), note.kind.as_str());
        let bucket = self
            .buckets
            .entry(object)
            .or_insert_with(|| TokenBucket::new(per_second, burst, now));
        if !bucket.try_take(now) {
            return Err(());
        }
        self.make_room(now);
        let series = Series {
            note: note.clone(),
            first: at,
            last: at,
            count: 1,
            touched: now,
            write_at: None,
            written_at: now,
        };
        self.series.insert(name.clone(), series);
        Ok(Some(Write::Create { name, note, at }))
    }

    /// When the next grown series is due.
    pub(super) fn next_due(&self) -> Option<Instant> {
        self.series.values().filter_map(|series| series.write_at).min()
    }

    /// One grown series that is due, if any.
    pub(super) fn due(&mut self, now: Instant) -> Option<Write> {
        let (name, series) = self
            .series
            .iter_mut()
            .find(|(_, series)| series.write_at.is_some_and(|due| due <= now))?;
        series.write_at = None;
        series.written_at = now;
        Some(count(name, series))
    }

    /// All grown series, due or not: for a shutdown.
    pub(super) fn rest(&mut self) -> Vec<Write> {
        let grown = self.series.iter_mut().filter_map(|(name, series)| {
            series.write_at.take()?;
            Some(count(name, series))
        });
        grown.collect()
    }

    fn make_room(&mut self, now: Instant) {
        if self.buckets.len() > self.rates.remembered {
            // A full bucket is what a forgotten object would get.
            self.buckets.retain(|_, bucket| !bucket.is_full(now));
        }
        while self.series.len() >= self.rates.remembered.max(1) {
            let oldest = self
                .series
                .iter()
                .min_by_key(|(_, series)| series.touched)
                .map(|(name, _)| name.clone());
            oldest.and_then(|name| self.series.remove(&name));
        }
    }
}

fn count(name: &str, series: &Series) -> Write {
    Write::Count {
        name: name.to_owned(),
        note: series.note.clone(),
        first: series.first,
        last: series.last,
        count: series.count,
    }
}

/// The name of the event of a note: the same note has the same name, also after a restart.
fn event_name(note: &Note) -> String {
    let mut hash = Sha256::new();
    for part in [
        &note.object.kind,
        &note.object.uid,
        note.kind.as_str(),
        &note.reason,
        &note.message,
    ] {
        hash.update(part.as_bytes());
        hash.update([0]);
    }
    let digest: String = hash
        .finalize()
        .iter()
        .take(8)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let longest = 253 - 1 - digest.len();
    let object: String = note.object.name.chars().take(longest).collect();
    format!("{}.{digest}", object.trim_end_matches(['.', '-']))
}

/// The usual rates: 25 new series per object and then one in five minutes, counts written once a minute.
impl Default for Rates {
    fn default() -> Self {
        Self {
            per_object: (1.0 / 300.0, 25),
            series_interval: Duration::from_secs(60),
            forget_after: Duration::from_secs(3600),
            remembered: 4096,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::tests::note, *};

    fn stamp() -> Timestamp {
        "2026-01-01T00:00:00Z".parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_repeated_note_is_one_event_with_a_count() {
        let mut correlator = Correlator::new(Rates::default());
        let start = Instant::now();
        let mut take = |message: &str, seconds: u64| {
            correlator
                .take(note("pod", message), stamp(), start + Duration::from_secs(seconds))
                .unwrap()
        };
        let Some(Write::Create { name, .. }) = take("hello", 0) else {
            panic!()
        };
        assert_eq!((take("hello", 1), take("hello", 2)), (None, None));
        assert!(matches!(take("hello", 70), Some(Write::Count { name: other, count: 4, .. }) if other == name));
        assert!(matches!(take("other", 71), Some(Write::Create { name: other, .. }) if other != name));
    }

    #[tokio::test(start_paused = true)]
    async fn a_grown_series_is_written_when_it_is_due() {
        let mut correlator = Correlator::new(Rates::default());
        let start = Instant::now();
        for _ in 0..3 {
            correlator.take(note("pod", "hello"), stamp(), start).unwrap();
        }
        let due = correlator.next_due().unwrap();
        assert_eq!(due, start + Duration::from_secs(60));
        assert_eq!(correlator.due(start), None);
        assert!(matches!(correlator.due(due), Some(Write::Count { count: 3, .. })));
        assert_eq!(correlator.next_due(), None);
        assert!(correlator.rest().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_cannot_flood() {
        let rates = Rates {
            per_object: (0.1, 2),
            ..Rates::default()
        };
        let mut correlator = Correlator::new(rates);
        let now = Instant::now();
        let mut take =
            |object: &str, message: String, now| correlator.take(note(object, &message), stamp(), now).is_ok();
        let taken: Vec<bool> = (0..4).map(|number| take("pod", number.to_string(), now)).collect();
        assert_eq!(taken, [true, true, false, false]);
        assert!(take("other", "x".into(), now));
        assert!(take("pod", "later".into(), now + Duration::from_secs(10)));
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded_and_names_fit() {
        let rates = Rates {
            remembered: 10,
            ..Rates::default()
        };
        let mut correlator = Correlator::new(rates);
        for number in 0..100 {
            let _ = correlator.take(note(&format!("pod-{number}"), "x"), stamp(), Instant::now());
        }
        assert!(correlator.series.len() <= 10);
        let long = event_name(&note(&"a".repeat(253), "x"));
        assert!(long.len() <= 253);
        assert_eq!(long, event_name(&note(&"a".repeat(253), "x")));
    }
}
