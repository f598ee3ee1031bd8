//! What runs inside a pod.
//!
//! Owns the states of containers, when one that ended starts again, and how the records are recovered from a pod's
//! status after a restart of the simulator. It assumes whole-pod decisions (order, deletion) are made by the
//! lifecycle; it never reads a clock.

use super::pod::{Pod, RestartPolicy};
use super::status::{ContainerStatus, PodStatus};
use crate::behaviour::PodBehaviour;
use coppice_runtime::backoff::Backoff;
use coppice_runtime::clock::later;
use jiff::Timestamp;
use std::net::Ipv4Addr;
use std::time::Duration;

const CRASH_LOOP: Backoff = Backoff {
    first: Duration::from_secs(10),
    longest: Duration::from_secs(300),
    jitter: 0.0,
};
/// A container that ran this long starts over without back-off.
const GOOD_RUN: Duration = Duration::from_secs(600);

/// The end of one run of a container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Termination {
    pub(crate) exit_code: i32,
    pub(crate) reason: &'static str,
    pub(crate) message: Option<String>,
    pub(crate) started_at: Timestamp,
    pub(crate) finished_at: Timestamp,
}

/// Where a container stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RunState {
    /// Not started yet.
    Waiting,
    /// Running since then.
    Running { since: Timestamp },
    /// Ended; whether it starts again is decided by policy and time.
    Ended(Termination),
}

/// One container's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) state: RunState,
    pub(crate) restarts: u32,
    pub(crate) last: Option<Termination>,
    /// How many restarts in a row came after a short run.
    back_off_step: u32,
}

impl Run {
    pub(crate) fn new() -> Self {
        Self {
            state: RunState::Waiting,
            restarts: 0,
            last: None,
            back_off_step: 0,
        }
    }

    pub(crate) fn start(&mut self, now: Timestamp) {
        if let RunState::Ended(termination) = std::mem::replace(&mut self.state, RunState::Running { since: now }) {
            let ran = Duration::try_from(termination.finished_at.duration_since(termination.started_at));
            self.back_off_step = if ran.unwrap_or_default() >= GOOD_RUN {
                1
            } else {
                self.back_off_step + 1
            };
            self.last = Some(termination);
            self.restarts += 1;
        }
    }

    /// Ends the current run, if there is one.
    pub(crate) fn end(&mut self, exit_code: i32, message: Option<String>, now: Timestamp) {
        if let RunState::Running { since } = self.state {
            self.state = RunState::Ended(Termination {
                exit_code,
                reason: if exit_code == 0 { "Completed" } else { "Error" },
                message,
                started_at: since,
                finished_at: now,
            });
        }
    }

    pub(crate) fn is_running(&self) -> bool {
        matches!(self.state, RunState::Running { .. })
    }

    /// Whether the last run ended well.
    pub(crate) fn completed(&self) -> bool {
        matches!(&self.state, RunState::Ended(termination) if termination.exit_code == 0)
    }

    /// When a container that has ended starts again; nothing if it never does.
    pub(crate) fn restart_at(&self, policy: RestartPolicy, behaviour: &PodBehaviour) -> Option<Timestamp> {
        let RunState::Ended(termination) = &self.state else {
            return None;
        };
        let wanted = match policy {
            RestartPolicy::Always => true,
            RestartPolicy::OnFailure => termination.exit_code != 0,
            RestartPolicy::Never => false,
        };
        wanted.then(|| {
            later(
                termination.finished_at,
                self.back_off().unwrap_or(behaviour.restart_delay),
            )
        })
    }

    /// The back-off before the next start; the first restart has none.
    pub(crate) fn back_off(&self) -> Option<Duration> {
        let RunState::Ended(termination) = &self.state else {
            return None;
        };
        let ran = Duration::try_from(termination.finished_at.duration_since(termination.started_at));
        if self.back_off_step == 0 || ran.unwrap_or_default() >= GOOD_RUN {
            return None;
        }
        Some(CRASH_LOOP.full_delay(self.back_off_step))
    }

    fn recover(status: &ContainerStatus) -> Self {
        let ended = |terminated: &super::status::Terminated| Termination {
            exit_code: terminated.exit_code,
            reason: if terminated.exit_code == 0 {
                "Completed"
            } else {
                "Error"
            },
            message: terminated.message.clone(),
            started_at: terminated.started_at.unwrap_or_default(),
            finished_at: terminated.finished_at.unwrap_or_default(),
        };
        let last = status.last_state.terminated.as_ref().map(ended);
        let (state, last) = if let Some(running) = &status.state.running {
            (
                RunState::Running {
                    since: running.started_at.unwrap_or_default(),
                },
                last,
            )
        } else if let Some(terminated) = &status.state.terminated {
            (RunState::Ended(ended(terminated)), last)
        } else {
            // A container in back-off shows its end only as the last state.
            match last {
                Some(termination) => (RunState::Ended(termination), None),
                None => (RunState::Waiting, None),
            }
        };
        Self {
            state,
            restarts: status.restart_count,
            last,
            back_off_step: status.restart_count,
        }
    }
}

/// Everything the simulated node knows about one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PodRuntime {
    pub(crate) accepted_at: Timestamp,
    pub(crate) address: Option<Ipv4Addr>,
    pub(crate) init_containers: Vec<Run>,
    pub(crate) containers: Vec<Run>,
    /// The token of the last kill that was carried out.
    pub(crate) killed_for: Option<String>,
    pub(crate) terminating_since: Option<Timestamp>,
    /// Everything has been stopped for good.
    pub(crate) stopped: bool,
    /// What the first container waits for before it may start: a device that is not prepared.
    pub(crate) held: Option<String>,
}

impl PodRuntime {
    /// Takes over a pod: a fresh one, or one whose status tells how far it had come.
    pub(crate) fn adopt(pod: &Pod, address: Option<Ipv4Addr>, kill: Option<&str>, now: Timestamp) -> Self {
        let recover = |names: &[super::pod::Container], statuses: &[ContainerStatus]| {
            names
                .iter()
                .map(|container| {
                    let status = statuses.iter().find(|status| status.name == container.name);
                    status.map_or_else(Run::new, Run::recover)
                })
                .collect()
        };
        let PodStatus {
            init_container_statuses,
            container_statuses,
            start_time,
            ..
        } = &pod.status;
        Self {
            accepted_at: start_time.unwrap_or(now),
            address,
            init_containers: recover(&pod.init_containers, init_container_statuses),
            containers: recover(&pod.containers, container_statuses),
            killed_for: kill.map(ToOwned::to_owned),
            terminating_since: None,
            stopped: false,
            held: None,
        }
    }

    /// The node lost its power and has it again: nothing survived.
    pub(crate) fn power_cycle(&mut self, now: Timestamp) {
        for run in self.init_containers.iter_mut().chain(&mut self.containers) {
            run.end(137, Some("The node lost its power".to_owned()), now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_first_restart_is_quick_and_then_back_off_doubles_to_five_minutes() {
        let behaviour = PodBehaviour::default();
        let mut run = Run::new();
        run.start(at(0));
        let mut delays = Vec::new();
        let mut now = at(0);
        for _ in 0..8 {
            run.end(1, None, now);
            let restart = run.restart_at(RestartPolicy::Always, &behaviour).unwrap();
            delays.push(restart.duration_since(now).as_secs());
            now = restart;
            run.start(now);
        }
        assert_eq!(delays, [1, 10, 20, 40, 80, 160, 300, 300]);
        assert_eq!(run.restarts, 8);
    }

    #[test]
    fn a_long_good_run_forgives() {
        let behaviour = PodBehaviour::default();
        let mut run = Run::new();
        for start in [0, 100] {
            run.start(at(start));
            run.end(1, None, at(start));
        }
        run.start(at(200));
        run.end(1, None, at(200 + 600));
        assert_eq!(run.restart_at(RestartPolicy::Always, &behaviour), Some(at(801)));
        run.start(at(801));
        run.end(1, None, at(802));
        assert_eq!(run.restart_at(RestartPolicy::Always, &behaviour), Some(at(812)));
    }

    #[test]
    fn policies_decide_who_restarts() {
        let behaviour = PodBehaviour::default();
        for (policy, exit_code, restarts) in [
            (RestartPolicy::Always, 0, true),
            (RestartPolicy::OnFailure, 0, false),
            (RestartPolicy::OnFailure, 3, true),
            (RestartPolicy::Never, 3, false),
        ] {
            let mut run = Run::new();
            run.start(at(0));
            run.end(exit_code, None, at(1));
            assert_eq!(
                run.restart_at(policy, &behaviour).is_some(),
                restarts,
                "{policy:?} {exit_code}"
            );
        }
    }
}
