//! The three things a server takes from outside: the time, unique ids and random name suffixes.
//!
//! Everything else in this crate is a function of its requests, so a server built from a fixed clock and a seed gives
//! the same answers, byte for byte, on every run. Nothing else in the crate may read a clock or draw a random number.

use std::hash::{BuildHasher, Hasher};

use jiff::Timestamp;
use parking_lot::Mutex;

/// Where the server reads the time that it writes into objects (`creationTimestamp`, `deletionTimestamp`, managed
/// fields). Waiting (`timeoutSeconds`, bookmarks) always goes through tokio's clock, which tests may pause.
pub(crate) struct Clock(Box<dyn Fn() -> Timestamp + Send + Sync>);

impl Clock {
    pub(crate) fn new(now: impl Fn() -> Timestamp + Send + Sync + 'static) -> Self {
        Self(Box::new(now))
    }

    /// The current time.
    pub(crate) fn now(&self) -> Timestamp {
        (self.0)()
    }
}

/// Formats a time as Kubernetes writes it in `metav1.Time`: RFC 3339, whole seconds, UTC.
pub fn format_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Formats a time as Kubernetes writes it in `metav1.MicroTime`.
pub fn format_micro_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// A seeded source of uids and name suffixes.
#[derive(Debug)]
pub struct Identities {
    state: Mutex<u64>,
}

/// The letters Kubernetes uses in generated names: no vowels (no accidental words), no digits that look like letters.
const SUFFIX_ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
/// Length of the suffix after `generateName`.
const SUFFIX_LENGTH: usize = 5;

impl Identities {
    /// The stream of identities that belongs to `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self {
            state: Mutex::new(seed),
        }
    }

    /// A stream that differs on every start.
    pub fn from_entropy() -> Self {
        Self::seeded(std::collections::hash_map::RandomState::new().build_hasher().finish())
    }

    // SplitMix64: any 64-bit seed gives a full-period stream, and it is the same on every platform.
    fn draw(&self) -> u64 {
        let mut state = self.state.lock();
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A random (version 4) UUID.
    pub fn uid(&self) -> String {
        let high = (self.draw() & !0xf000) | 0x4000;
        let low = (self.draw() & !(0b11 << 62)) | (0b10 << 62);
        format!(
            "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
            high >> 32,
            (high >> 16) & 0xffff,
            high & 0xffff,
            low >> 48,
            low & 0xffff_ffff_ffff
        )
    }

    /// The random part of a generated name.
    pub fn suffix(&self) -> String {
        (0..SUFFIX_LENGTH)
            .map(|_| char::from(SUFFIX_ALPHABET[(self.draw() % SUFFIX_ALPHABET.len() as u64) as usize]))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_stream() {
        let (left, right) = (Identities::seeded(7), Identities::seeded(7));
        assert_eq!(left.uid(), right.uid());
        assert_eq!(left.suffix(), right.suffix());
        assert_ne!(Identities::seeded(8).uid(), Identities::seeded(7).uid());
    }

    #[test]
    fn uids_are_version_four() {
        let uid = Identities::seeded(1).uid();
        assert_eq!(uid.len(), 36);
        assert_eq!(&uid[14..15], "4");
        assert!("89ab".contains(&uid[19..20]), "{uid}");
    }

    #[test]
    fn suffixes_use_only_the_safe_letters() {
        let suffix = Identities::seeded(1).suffix();
        assert_eq!(suffix.len(), 5);
        assert!(suffix.bytes().all(|byte| SUFFIX_ALPHABET.contains(&byte)));
    }

    #[test]
    fn times_have_whole_seconds() {
        let time: Timestamp = "2026-01-02T03:04:05.678901Z".parse().unwrap();
        assert_eq!(format_time(time), "2026-01-02T03:04:05Z");
        assert_eq!(format_micro_time(time), "2026-01-02T03:04:05.678901Z");
    }
}
