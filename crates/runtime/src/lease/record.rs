//! What a candidate concludes from the lease it read. Pure; time is given.
//!
//! The rule is client-go's: the holder's time runs from when *this* candidate first saw the present record, on this
//! candidate's monotonic clock. So clocks of different machines are never compared, and skew does no harm.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use tokio::time::Instant;

/// The record a candidate saw last, and since when.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    seen: Option<(LeaseSpec, Instant)>,
}

/// What to do about a lease that exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is ours: renew it.
    Renew,
    /// It is nobody's, or its holder let it lapse: take it.
    TakeOver,
    /// Somebody holds it, until then at least.
    HeldUntil(Instant),
}

impl Observed {
    /// Judges the record that was just read.
    pub(super) fn judge(&mut self, record: &LeaseSpec, identity: &str, now: Instant) -> Verdict {
        let since = match &self.seen {
            Some((seen, since)) if seen == record => *since,
            _ => {
                self.seen = Some((record.clone(), now));
                now
            }
        };
        match record.holder_identity.as_deref() {
            None | Some("") => Verdict::TakeOver,
            Some(holder) if holder == identity => Verdict::Renew,
            Some(_) => {
                let seconds = u64::try_from(record.lease_duration_seconds.unwrap_or(0)).unwrap_or(0);
                let until = since + Duration::from_secs(seconds);
                if now < until {
                    Verdict::HeldUntil(until)
                } else {
                    Verdict::TakeOver
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(holder: &str, transitions: i32) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            lease_transitions: Some(transitions),
            ..LeaseSpec::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn time_runs_from_the_last_change_that_was_seen() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut observed = Observed::default();
        assert_eq!(
            observed.judge(&record("other", 1), "me", at(0)),
            Verdict::HeldUntil(at(15))
        );
        assert_eq!(
            observed.judge(&record("other", 1), "me", at(10)),
            Verdict::HeldUntil(at(15))
        );
        assert_eq!(
            observed.judge(&record("other", 2), "me", at(12)),
            Verdict::HeldUntil(at(27))
        );
        assert_eq!(
            observed.judge(&record("other", 2), "me", at(26)),
            Verdict::HeldUntil(at(27))
        );
        assert_eq!(observed.judge(&record("other", 2), "me", at(27)), Verdict::TakeOver);
    }

    #[tokio::test(start_paused = true)]
    async fn a_released_lease_is_free_and_an_own_one_is_renewed() {
        let mut observed = Observed::default();
        assert_eq!(observed.judge(&record("", 1), "me", Instant::now()), Verdict::TakeOver);
        assert_eq!(observed.judge(&record("me", 1), "me", Instant::now()), Verdict::Renew);
    }
}
