//! How often the status of a domain is written: at most every two seconds, the first change at once.

use jiff::{SignedDuration, Timestamp};

/// Two writes are at least this far apart.
const SPACING: SignedDuration = SignedDuration::from_secs(2);

/// Keeps the pace of one domain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatusPace {
    last: Option<Timestamp>,
}

impl StatusPace {
    /// When a changed status may be written; none when that is now, which counts as written.
    pub fn wait(&mut self, now: Timestamp) -> Option<Timestamp> {
        match self.last.map(|last| last + SPACING) {
            Some(due) if due > now => Some(due),
            _ => {
                self.last = Some(now);
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_two_seconds_apart() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut pace = StatusPace::default();
        assert_eq!(pace.wait(at(10)), None);
        assert_eq!(pace.wait(at(11)), Some(at(12)));
        assert_eq!(pace.wait(at(12)), None);
    }
}
