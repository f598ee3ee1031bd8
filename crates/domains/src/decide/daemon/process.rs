//! Supervision of `nvidia-imex`: when it is started, restarted and stopped.
//!
//! A state machine without handles: the shell reports what happened to the child and carries out one action at a time.
//! Stopping has a deadline, after which the child is killed; the daemon's exit comes after the child's, so that no index is
//! released while a process may still answer under it.

use jiff::{SignedDuration, Timestamp};

/// How long a child may take to end after SIGTERM: well within a pod's grace period of 30 seconds.
pub const STOP_TIMEOUT: SignedDuration = SignedDuration::from_secs(20);
const FIRST_RESTART: SignedDuration = SignedDuration::from_secs(1);
const LONGEST_RESTART: SignedDuration = SignedDuration::from_secs(30);
/// A child that ran so long had started properly.
const STEADY: SignedDuration = SignedDuration::from_secs(60);

/// What should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// A child under this index.
    Running(u32),
    /// No child, for now.
    Stopped,
    /// No child, and then the daemon ends.
    Exit,
}

/// What the shell does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProcessAction {
    /// Start a child; its files have been written for this index.
    Start(u32),
    /// Send SIGTERM.
    Terminate,
    /// Send SIGKILL.
    Kill,
    /// Ask again at this time.
    WaitUntil(Timestamp),
    /// Nothing until something happens.
    Rest,
    /// End the daemon.
    Exit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Down { not_before: Option<Timestamp> },
    Up { index: u32, since: Timestamp },
    Stopping { deadline: Timestamp, killed: bool },
}

/// The supervisor of one child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Supervisor {
    state: State,
    /// Unexpected ends in a row.
    pub crashes: u32,
}

impl Default for Supervisor {
    fn default() -> Self {
        Self {
            state: State::Down { not_before: None },
            crashes: 0,
        }
    }
}

impl Supervisor {
    /// The index of the child that runs or is being stopped under it.
    pub fn running(&self) -> Option<u32> {
        match self.state {
            State::Up { index, .. } => Some(index),
            State::Down { .. } | State::Stopping { .. } => None,
        }
    }

    /// Whether a process exists.
    pub fn has_child(&self) -> bool {
        !matches!(self.state, State::Down { .. })
    }

    /// The child has ended, or could not be started.
    pub fn ended(&mut self, now: Timestamp) {
        let not_before = match self.state {
            State::Up { since, .. } => {
                let steady = now.duration_since(since) >= STEADY;
                self.crashes = if steady { 1 } else { self.crashes.saturating_add(1) };
                let factor = 1_i32 << (self.crashes - 1).min(10);
                Some(
                    now + FIRST_RESTART
                        .checked_mul(factor)
                        .unwrap_or(LONGEST_RESTART)
                        .min(LONGEST_RESTART),
                )
            }
            State::Down { not_before } => not_before,
            // It was stopped on purpose: the next one may start at once.
            State::Stopping { .. } => None,
        };
        self.state = State::Down { not_before };
    }

    /// What to do now. An action that is returned counts as carried out.
    pub fn next(&mut self, wanted: Wanted, now: Timestamp) -> ProcessAction {
        match (self.state, wanted) {
            (State::Down { .. }, Wanted::Exit) => ProcessAction::Exit,
            (State::Down { .. }, Wanted::Stopped) => ProcessAction::Rest,
            (State::Down { not_before: Some(time) }, Wanted::Running(_)) if time > now => {
                ProcessAction::WaitUntil(time)
            }
            (State::Down { .. }, Wanted::Running(index)) => {
                self.state = State::Up { index, since: now };
                ProcessAction::Start(index)
            }
            (State::Up { index, .. }, Wanted::Running(wanted)) if index == wanted => ProcessAction::Rest,
            (State::Up { .. }, _) => {
                self.state = State::Stopping {
                    deadline: now + STOP_TIMEOUT,
                    killed: false,
                };
                ProcessAction::Terminate
            }
            (State::Stopping { killed: true, .. }, _) => ProcessAction::Rest,
            (State::Stopping { deadline, .. }, _) if deadline > now => ProcessAction::WaitUntil(deadline),
            (State::Stopping { deadline, .. }, _) => {
                self.state = State::Stopping { deadline, killed: true };
                ProcessAction::Kill
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(seconds).unwrap()
    }

    #[test]
    fn a_child_that_crashes_is_restarted_less_and_less_often() {
        let mut supervisor = Supervisor::default();
        let mut now = 0;
        let mut waits = Vec::new();
        for _ in 0..7 {
            assert_eq!(supervisor.next(Wanted::Running(3), at(now)), ProcessAction::Start(3));
            supervisor.ended(at(now));
            let ProcessAction::WaitUntil(due) = supervisor.next(Wanted::Running(3), at(now)) else {
                panic!("a wait")
            };
            waits.push(due.as_second() - now);
            now = due.as_second();
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 30, 30]);
        assert_eq!(supervisor.next(Wanted::Running(3), at(now)), ProcessAction::Start(3));
        supervisor.ended(at(now + 61));
        assert_eq!(supervisor.crashes, 1, "it had run for a minute");
    }

    /// §9.16: stopping has a deadline, and the daemon ends after its child.
    #[test]
    fn stopping_is_bounded_and_the_exit_comes_last() {
        let mut supervisor = Supervisor::default();
        supervisor.next(Wanted::Running(0), at(0));
        assert_eq!(supervisor.next(Wanted::Exit, at(5)), ProcessAction::Terminate);
        assert_eq!(supervisor.next(Wanted::Exit, at(6)), ProcessAction::WaitUntil(at(25)));
        assert_eq!(supervisor.next(Wanted::Exit, at(25)), ProcessAction::Kill);
        assert_eq!(supervisor.next(Wanted::Exit, at(99)), ProcessAction::Rest);
        supervisor.ended(at(100));
        assert_eq!(supervisor.next(Wanted::Exit, at(100)), ProcessAction::Exit);
    }

    #[test]
    fn another_index_means_another_process() {
        let mut supervisor = Supervisor::default();
        supervisor.next(Wanted::Running(0), at(0));
        assert_eq!(supervisor.next(Wanted::Running(1), at(1)), ProcessAction::Terminate);
        assert_eq!(supervisor.running(), None);
        supervisor.ended(at(2));
        assert_eq!(supervisor.next(Wanted::Running(1), at(2)), ProcessAction::Start(1));
    }

    proptest! {
        #[test]
        fn there_is_never_a_second_child_and_never_an_exit_beside_one(
            steps in prop::collection::vec((0..5_u32, 0..30_i64, any::<bool>()), 1..80),
        ) {
            let mut supervisor = Supervisor::default();
            let (mut child, mut now) = (None, 0);
            for (wanted, wait, dies) in steps {
                now += wait;
                if dies && child.take().is_some() {
                    supervisor.ended(at(now));
                }
                let wanted = match wanted { 3 => Wanted::Stopped, 4 => Wanted::Exit, index => Wanted::Running(index) };
                match supervisor.next(wanted, at(now)) {
                    ProcessAction::Start(index) => prop_assert!(child.replace(index).is_none()),
                    ProcessAction::Exit => prop_assert!(child.is_none()),
                    ProcessAction::Terminate | ProcessAction::Kill => prop_assert!(child.is_some()),
                    ProcessAction::WaitUntil(time) => prop_assert!(time > at(now)),
                    ProcessAction::Rest => {}
                }
                prop_assert_eq!(supervisor.has_child(), child.is_some());
            }
        }
    }
}
