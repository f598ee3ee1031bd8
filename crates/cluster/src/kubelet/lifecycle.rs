//! The state machine of a pod on a node.
//!
//! Owns the pure decision: given a pod, its record, its behaviour and the time, bring the record up to date and say
//! when to look again. It runs to a standstill in one call, so whatever happens at one moment is reported in one
//! status write. It never renders status and never does I/O.

use super::containers::{PodRuntime, Run, RunState};
use super::pod::{Container, Pod, RestartPolicy};
use crate::behaviour::PodBehaviour;
use crate::init_wait::WaitState;
use coppice_runtime::clock::later;
use jiff::Timestamp;
use std::time::Duration;

/// What surrounds one step.
pub(crate) struct Surroundings<'a> {
    pub(crate) now: Timestamp,
    pub(crate) behaviour: &'a PodBehaviour,
    /// Whether an init container may end; asked only while it runs.
    pub(crate) wait: &'a dyn Fn(&Container) -> WaitState,
}

/// Brings the record up to `now` and returns the moment of the next change that needs no event.
pub(crate) fn advance(pod: &Pod, runtime: &mut PodRuntime, around: &Surroundings<'_>) -> Option<Timestamp> {
    if pod.status.is_terminal() || runtime.stopped {
        runtime.stopped |= pod.deletion_grace.is_some();
        return None;
    }
    if let Some(grace) = pod.deletion_grace {
        return terminate(runtime, grace, around);
    }
    if around.behaviour.kill != runtime.killed_for {
        runtime.killed_for.clone_from(&around.behaviour.kill);
        if runtime.killed_for.is_some() {
            for run in &mut runtime.containers {
                run.end(137, Some("Killed by request of the simulation".to_owned()), around.now);
            }
        }
    }
    let mut deadlines = Deadlines {
        now: around.now,
        earliest: None,
    };
    let start = later(runtime.accepted_at, around.behaviour.start_delay);
    let untouched = runtime
        .init_containers
        .iter()
        .chain(&runtime.containers)
        .all(|run| run.state == RunState::Waiting);
    if untouched && (!deadlines.reached(start) || runtime.held.is_some()) {
        return deadlines.earliest;
    }
    if run_init_containers(pod, runtime, around, &mut deadlines) {
        for run in &mut runtime.containers {
            run_container(run, pod.restart_policy, around, &mut deadlines);
        }
    }
    if has_ended(pod, runtime, around.behaviour) {
        for run in &mut runtime.init_containers {
            run.end(0, None, around.now);
        }
        return None;
    }
    deadlines.earliest
}

/// Whether every init container has done its part, so that the main containers may run.
pub(crate) fn is_initialized(pod: &Pod, runtime: &PodRuntime) -> bool {
    // Main containers that have started prove it, even if a sidecar is down just now.
    runtime.containers.iter().any(|run| run.state != RunState::Waiting)
        || pod
            .init_containers
            .iter()
            .zip(&runtime.init_containers)
            .all(|(container, run)| {
                if container.sidecar {
                    run.is_running() || run.restarts > 0
                } else {
                    run.completed()
                }
            })
}

/// Whether an init container failed for good, and the pod with it.
pub(crate) fn init_failed(pod: &Pod, runtime: &PodRuntime) -> bool {
    pod.restart_policy == RestartPolicy::Never
        && pod
            .init_containers
            .iter()
            .zip(&runtime.init_containers)
            .any(|(container, run)| {
                !container.sidecar && matches!(&run.state, RunState::Ended(end) if end.exit_code != 0)
            })
}

/// Whether nothing in the pod will ever run again.
fn has_ended(pod: &Pod, runtime: &PodRuntime, behaviour: &PodBehaviour) -> bool {
    init_failed(pod, runtime)
        || runtime.containers.iter().all(|run| {
            matches!(run.state, RunState::Ended(_)) && run.restart_at(pod.restart_policy, behaviour).is_none()
        })
}

/// Returns whether the main containers may run.
fn run_init_containers(
    pod: &Pod,
    runtime: &mut PodRuntime,
    around: &Surroundings<'_>,
    deadlines: &mut Deadlines,
) -> bool {
    let initialized = is_initialized(pod, runtime);
    for (container, run) in pod.init_containers.iter().zip(&mut runtime.init_containers) {
        if container.sidecar {
            restart_if_due(run, RestartPolicy::Always, around, deadlines);
            start_if_waiting(run, around);
            if !run.is_running() && !initialized {
                return false;
            }
            continue;
        }
        if initialized {
            continue;
        }
        // Init containers of a pod that always restarts are repeated only when they fail.
        let policy = match pod.restart_policy {
            RestartPolicy::Never => RestartPolicy::Never,
            RestartPolicy::Always | RestartPolicy::OnFailure => RestartPolicy::OnFailure,
        };
        restart_if_due(run, policy, around, deadlines);
        start_if_waiting(run, around);
        if let RunState::Running { since } = run.state {
            match (around.wait)(container) {
                WaitState::Blocked => {}
                WaitState::Invalid(problem) => {
                    run.end(1, Some(problem), around.now);
                    restart_if_due(run, policy, around, deadlines);
                }
                WaitState::Free => {
                    if deadlines.reached(later(since, around.behaviour.init_duration)) {
                        run.end(0, None, around.now);
                    }
                }
            }
        }
        if !run.completed() {
            return false;
        }
    }
    true
}

fn run_container(run: &mut Run, policy: RestartPolicy, around: &Surroundings<'_>, deadlines: &mut Deadlines) {
    restart_if_due(run, policy, around, deadlines);
    start_if_waiting(run, around);
    let RunState::Running { since } = run.state else { return };
    let behaviour = around.behaviour;
    let crash = behaviour.crash.filter(|crash| crash.every_run || run.restarts == 0);
    let crash = crash.map(|crash| (later(since, crash.after), crash.exit_code));
    let completion = behaviour
        .completion
        .map(|completion| (later(since, completion.after), completion.exit_code));
    if let Some((moment, exit_code)) = [crash, completion]
        .into_iter()
        .flatten()
        .min_by_key(|(moment, _)| *moment)
        && deadlines.reached(moment)
    {
        run.end(exit_code, None, around.now);
        restart_if_due(run, policy, around, deadlines);
        return;
    }
    if !behaviour.never_ready && behaviour.ready_delay > Duration::ZERO {
        deadlines.reached(later(since, behaviour.ready_delay));
    }
}

fn start_if_waiting(run: &mut Run, around: &Surroundings<'_>) {
    if run.state == RunState::Waiting && around.behaviour.image_pull_error.is_none() {
        run.start(around.now);
    }
}

fn restart_if_due(run: &mut Run, policy: RestartPolicy, around: &Surroundings<'_>, deadlines: &mut Deadlines) {
    if let Some(moment) = run.restart_at(policy, around.behaviour)
        && deadlines.reached(moment)
    {
        run.start(around.now);
    }
}

fn terminate(runtime: &mut PodRuntime, grace: u32, around: &Surroundings<'_>) -> Option<Timestamp> {
    // Counted from the local observation, so that a server with another clock does not shorten it.
    let since = *runtime.terminating_since.get_or_insert(around.now);
    let grace = Duration::from_secs(grace.into());
    let running = runtime
        .init_containers
        .iter()
        .chain(&runtime.containers)
        .any(Run::is_running);
    let own = if around.behaviour.ignore_termination {
        grace
    } else {
        around.behaviour.termination_delay.min(grace)
    };
    let mut deadlines = Deadlines {
        now: around.now,
        earliest: None,
    };
    if running && !deadlines.reached(later(since, own)) {
        return deadlines.earliest;
    }
    let killed = own >= grace && !own.is_zero();
    for run in runtime.init_containers.iter_mut().chain(&mut runtime.containers) {
        run.end(if killed { 137 } else { 0 }, None, around.now);
    }
    runtime.stopped = true;
    None
}

/// Collects the moments that have not come yet.
struct Deadlines {
    now: Timestamp,
    earliest: Option<Timestamp>,
}

impl Deadlines {
    /// Whether the moment has come; if not, it is remembered.
    fn reached(&mut self, moment: Timestamp) -> bool {
        if moment <= self.now {
            return true;
        }
        self.earliest = Some(self.earliest.map_or(moment, |earliest| earliest.min(moment)));
        false
    }
}
