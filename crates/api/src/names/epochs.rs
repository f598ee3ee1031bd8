//! Epochs: the numbers by which a PodGangMap tells the gangs of one replica apart.
//!
//! An epoch is part of a gang's name (`<set>-<replica>-<epoch>` and `<set>-<replica>-<epoch>-<group>-<copy>`), so its size
//! decides whether such a name can be read in two ways. Ours begin at [`Epoch::FIRST`], above every index that a replica
//! or a copy can have, and are otherwise small: no clock is involved, and the same set gets the same names again. Those of
//! the Go operator are nanoseconds since 1970 and just as far above every index.
//!
//! Two sets can then never have a gang name in common, as long as no scaling group is called like the middle of one
//! ([`reads_like_a_gang`]): a name that could be cut in two places would need an index as large as an epoch.

use std::fmt;

/// The epoch of some gangs of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(u64);

impl Epoch {
    /// The first epoch of a replica that never had one. All indices of replicas and copies are smaller.
    pub const FIRST: Self = Self(100_001);

    /// Reads an epoch as it is stored: decimal, without sign and leading zeros.
    pub fn parse(text: &str) -> Option<Self> {
        let number: u64 = text.parse().ok()?;
        (number.to_string() == text).then_some(Self(number))
    }

    /// The next one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// Whether the name of a scaling group contains an index and an epoch with more after them, such as `a-0-100002-b`. The
/// gangs of that group could have the names of gangs of another set.
pub fn reads_like_a_gang(group: &str) -> bool {
    let parts: Vec<&str> = group.split('-').collect();
    let is_index = |part: &str| super::parsing::parse_index(part).is_some();
    let is_epoch = |part: &str| Epoch::parse(part).is_some_and(|epoch| epoch >= Epoch::FIRST);
    parts
        .windows(3)
        .any(|window| is_index(window[0]) && is_epoch(window[1]) && !window[2].is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sizes::{MOST_COPIES, MOST_REPLICAS};

    #[test]
    fn epochs_are_decimal_and_ordered_as_numbers() {
        let read = |text: &str| Epoch::parse(text);
        assert!(read("99") < read("100"));
        assert_eq!(
            read("1788533963425275530").map(|epoch| epoch.to_string()).as_deref(),
            Some("1788533963425275530")
        );
        for bad in ["", "-1", "+1", "01", "1.0", "x", "99999999999999999999999"] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(Epoch::FIRST.next().to_string(), "100002");
    }

    #[test]
    fn no_index_is_as_large_as_an_epoch() {
        let first: i32 = Epoch::FIRST.to_string().parse().expect("a number");
        assert!(MOST_REPLICAS < first);
        assert!(MOST_COPIES < first);
    }

    #[test]
    fn names_of_groups_that_could_be_gangs() {
        for bad in ["a-0-100002-b", "0-100001-b", "x-12-1788533963425275530-y-z"] {
            assert!(reads_like_a_gang(bad), "{bad}");
        }
        for good in [
            "decode",
            "decode-0",
            "llama-3-70",
            "v-20241022-b",
            "a-0-100002",
            "a-0-99-b",
        ] {
            assert!(!reads_like_a_gang(good), "{good}");
        }
    }
}
