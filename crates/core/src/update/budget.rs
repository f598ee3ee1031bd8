//! What an update may take away, and how long it may stand still. Pure numbers: whoever asks knows what a unit is.

use coppice_api::admission::DEFAULT_MAX_UNAVAILABLE;
use coppice_api::duration::Duration;
use coppice_api::types::RollingUpdate;
use jiff::{SignedDuration, Timestamp};

/// The budget and the deadline of one standalone clique or scaling group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// How many units may be unavailable.
    pub max_unavailable: u32,
    /// How long an update may make no progress; none when nobody wants to know.
    pub progress_deadline: Option<SignedDuration>,
}

impl Budget {
    /// Reads the field of a template. What is absent or means nothing is the default.
    pub fn of(update: Option<&RollingUpdate>) -> Self {
        let most = update.and_then(|update| update.max_unavailable);
        let most = most.filter(|most| *most > 0).unwrap_or(DEFAULT_MAX_UNAVAILABLE);
        let deadline = update.and_then(|update| update.progress_deadline.as_deref());
        let deadline = deadline.and_then(|text| text.parse::<Duration>().ok());
        Self {
            max_unavailable: u32::try_from(most).unwrap_or(1),
            progress_deadline: deadline
                .filter(|deadline| deadline.is_positive())
                .map(|deadline| SignedDuration::from_nanos(deadline.nanoseconds())),
        }
    }

    /// How many ready units may be taken now: what is left of the budget when everything that is not ready counts against
    /// it. Units that serve nothing are not asked about: taking them costs nothing.
    pub fn allowance(self, desired: u32, ready: u32) -> u32 {
        self.max_unavailable.saturating_sub(desired.saturating_sub(ready))
    }

    /// When an update that last made progress then is to be reported.
    pub fn reported_at(self, last_progress: Timestamp) -> Option<Timestamp> {
        last_progress.checked_add(self.progress_deadline?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(most: Option<i32>, deadline: Option<&str>) -> Budget {
        Budget::of(Some(&RollingUpdate {
            max_unavailable: most,
            progress_deadline: deadline.map(str::to_owned),
            ..RollingUpdate::default()
        }))
    }

    #[test]
    fn what_means_nothing_is_the_default() {
        let default = Budget {
            max_unavailable: 1,
            progress_deadline: None,
        };
        assert_eq!(Budget::of(None), default);
        assert_eq!(budget(Some(0), Some("-1s")), default);
        assert_eq!(budget(Some(-4), Some("soon")), default);
        let given = budget(Some(3), Some("1m30s"));
        assert_eq!(
            (given.max_unavailable, given.progress_deadline),
            (3, Some(SignedDuration::from_secs(90)))
        );
    }

    #[test]
    fn what_is_not_ready_counts_against_the_budget() {
        let three = budget(Some(3), None);
        let allowed = |ready| three.allowance(5, ready);
        assert_eq!([5, 4, 3, 2, 1, 0].map(allowed), [3, 2, 1, 0, 0, 0]);
        assert_eq!(three.allowance(2, 9), 3, "while it is scaled in, nothing is missing");
    }

    #[test]
    fn an_endless_deadline_is_never_reached() {
        let endless = budget(None, Some("2562047h47m16s"));
        assert_eq!(endless.reported_at(Timestamp::MAX), None);
        assert_eq!(budget(None, None).reported_at(Timestamp::UNIX_EPOCH), None);
    }
}
