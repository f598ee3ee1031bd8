//! When `nvidia-imex` is told to resolve its peers again.
//!
//! It honours SIGUSR1 once in five seconds and drops what comes sooner. So a change within five seconds of the last
//! signal arms a trailing one, which covers every change until then. A process that has just started has read the hosts
//! file itself and needs no signal.

use jiff::{SignedDuration, Timestamp};

/// Signals to one process are at least this far apart: five seconds, and a margin for delivery.
pub const SPACING: SignedDuration = SignedDuration::from_millis(5_100);

/// What to do about a changed hosts file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignalAction {
    /// Send SIGUSR1 now.
    Send,
    /// Ask again at this time.
    WaitUntil(Timestamp),
    /// Nothing to send.
    Nothing,
}

/// Keeps the discipline for one process at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SignalDiscipline {
    last: Option<Timestamp>,
    pending: bool,
}

impl SignalDiscipline {
    /// A new process runs; it has read the hosts file as it is now.
    pub fn started(&mut self) {
        *self = Self::default();
    }

    /// The hosts file was rewritten.
    pub fn changed(&mut self) {
        self.pending = true;
    }

    /// What to do now. A signal that is returned counts as sent.
    pub fn next(&mut self, now: Timestamp) -> SignalAction {
        if !self.pending {
            return SignalAction::Nothing;
        }
        match self.last.map(|last| last + SPACING) {
            Some(due) if due > now => SignalAction::WaitUntil(due),
            _ => {
                self.last = Some(now);
                self.pending = false;
                SignalAction::Send
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(millis).unwrap()
    }

    #[test]
    fn a_burst_is_one_signal_now_and_one_trailing() {
        let mut discipline = SignalDiscipline::default();
        discipline.started();
        assert_eq!(discipline.next(at(0)), SignalAction::Nothing);
        discipline.changed();
        assert_eq!(discipline.next(at(10)), SignalAction::Send);
        discipline.changed();
        discipline.changed();
        assert_eq!(discipline.next(at(20)), SignalAction::WaitUntil(at(5_110)));
        assert_eq!(discipline.next(at(5_110)), SignalAction::Send);
        assert_eq!(discipline.next(at(20_000)), SignalAction::Nothing);
    }

    proptest! {
        #[test]
        fn every_change_is_followed_by_a_signal_that_is_honoured(gaps in prop::collection::vec(0..4_000_i64, 1..60)) {
            let mut discipline = SignalDiscipline::default();
            let (mut now, mut sent) = (0, Vec::new());
            let mut changes = Vec::new();
            for gap in gaps {
                let end = now + gap;
                // The shell wakes at the time it was told, and at changes.
                while let SignalAction::WaitUntil(due) = discipline.next(at(now)) {
                    if due.as_millisecond() > end { break; }
                    now = due.as_millisecond();
                    prop_assert_eq!(discipline.next(at(now)), SignalAction::Send);
                    sent.push(now);
                }
                now = end;
                changes.push(now);
                discipline.changed();
                if discipline.next(at(now)) == SignalAction::Send { sent.push(now); }
            }
            if let SignalAction::WaitUntil(due) = discipline.next(at(now)) {
                discipline.next(due);
                sent.push(due.as_millisecond());
            }
            prop_assert!(sent.windows(2).all(|pair| pair[1] - pair[0] >= 5_000));
            prop_assert!(changes.iter().all(|change| sent.iter().any(|sent| (*change..=*change + 5_100).contains(sent))));
        }
    }
}
