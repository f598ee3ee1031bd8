//! From a pod's record to the status that is reported.
//!
//! Owns the rendering: phase, conditions and container states follow from the record by the rules of a real
//! kubelet. A condition keeps its transition time while its status stays. It is pure and never decides what happens
//! next.

use super::containers::{PodRuntime, Run, RunState, Termination};
use super::lifecycle::{init_failed, is_initialized};
use super::pod::{Container, Pod, RestartPolicy};
use super::status::{Condition, ContainerStatus, Phase, PodStatus, Running, State, Terminated, Waiting};
use crate::behaviour::PodBehaviour;
use coppice_runtime::clock::{later, whole_second};
use jiff::Timestamp;
use std::time::Duration;

/// The status that the record means. `host` is the address of the node.
pub(crate) fn report(
    pod: &Pod,
    runtime: &PodRuntime,
    behaviour: &PodBehaviour,
    host: Option<&str>,
    now: Timestamp,
) -> PodStatus {
    if pod.status.is_terminal() {
        return pod.status.clone();
    }
    let initialized = is_initialized(pod, runtime);
    let phase = phase(pod, runtime, initialized, behaviour);
    let view = View {
        pod,
        runtime,
        behaviour,
        now,
        initialized,
    };
    let init_container_statuses = view.init_statuses();
    let container_statuses = view.main_statuses();
    let conditions = view.conditions(phase, &container_statuses);
    let own_address = runtime
        .address
        .filter(|_| sandbox_exists(runtime))
        .map(|address| address.to_string());
    PodStatus {
        phase,
        conditions,
        host_ip: host.map(ToOwned::to_owned),
        pod_ip: if pod.host_network {
            host.map(ToOwned::to_owned)
        } else {
            own_address
        }
        .or(pod.status.pod_ip.clone()),
        start_time: Some(whole_second(runtime.accepted_at)),
        init_container_statuses,
        container_statuses,
        resource_claim_statuses: Vec::new(),
    }
}

fn sandbox_exists(runtime: &PodRuntime) -> bool {
    !runtime.stopped
        && runtime
            .init_containers
            .iter()
            .chain(&runtime.containers)
            .any(|run| run.state != RunState::Waiting)
}

fn phase(pod: &Pod, runtime: &PodRuntime, initialized: bool, behaviour: &PodBehaviour) -> Phase {
    if runtime.stopped {
        let well = runtime.containers.iter().all(Run::completed);
        return if well && initialized {
            Phase::Succeeded
        } else {
            Phase::Failed
        };
    }
    if init_failed(pod, runtime) {
        return Phase::Failed;
    }
    if !initialized || runtime.containers.iter().any(|run| run.state == RunState::Waiting) {
        return Phase::Pending;
    }
    let stays_ended =
        |run: &Run| matches!(run.state, RunState::Ended(_)) && run.restart_at(pod.restart_policy, behaviour).is_none();
    if !runtime.containers.iter().all(stays_ended) {
        Phase::Running
    } else if runtime.containers.iter().all(Run::completed) {
        Phase::Succeeded
    } else {
        Phase::Failed
    }
}

struct View<'a> {
    pod: &'a Pod,
    runtime: &'a PodRuntime,
    behaviour: &'a PodBehaviour,
    now: Timestamp,
    initialized: bool,
}

impl View<'_> {
    fn init_statuses(&self) -> Vec<ContainerStatus> {
        let pairs = self.pod.init_containers.iter().zip(&self.runtime.init_containers);
        pairs
            .map(|(container, run)| {
                let policy = match (container.sidecar, self.pod.restart_policy) {
                    (true, _) => RestartPolicy::Always,
                    (false, RestartPolicy::Never) => RestartPolicy::Never,
                    (false, RestartPolicy::Always | RestartPolicy::OnFailure) => RestartPolicy::OnFailure,
                };
                let ready = if container.sidecar {
                    run.is_running()
                } else {
                    run.completed()
                };
                self.status(container, run, policy, ready)
            })
            .collect()
    }

    fn main_statuses(&self) -> Vec<ContainerStatus> {
        let pairs = self.pod.containers.iter().zip(&self.runtime.containers);
        pairs
            .map(|(container, run)| self.status(container, run, self.pod.restart_policy, self.is_ready(run)))
            .collect()
    }

    fn is_ready(&self, run: &Run) -> bool {
        match run.state {
            RunState::Running { since } => {
                !self.behaviour.never_ready && later(since, self.behaviour.ready_delay) <= self.now
            }
            RunState::Waiting | RunState::Ended(_) => false,
        }
    }

    fn status(&self, container: &Container, run: &Run, policy: RestartPolicy, ready: bool) -> ContainerStatus {
        let id = |restart: u32| format!("simulated://{}-{}-{restart}", self.pod.meta.uid, container.name);
        let state = match &run.state {
            RunState::Waiting => State {
                waiting: Some(self.waiting()),
                ..State::default()
            },
            RunState::Running { since } => State {
                running: Some(Running {
                    started_at: Some(whole_second(*since)),
                }),
                ..State::default()
            },
            RunState::Ended(end) => match self.back_off(run, policy) {
                Some(waiting) => State {
                    waiting: Some(waiting),
                    ..State::default()
                },
                None => ended(end, id(run.restarts)),
            },
        };
        let last_state = match (&run.state, &run.last) {
            (RunState::Ended(end), _) if state.waiting.is_some() => ended(end, id(run.restarts)),
            (_, Some(end)) => ended(end, id(run.restarts.saturating_sub(1))),
            (_, None) => State::default(),
        };
        let touched = run.state != RunState::Waiting;
        ContainerStatus {
            name: container.name.clone(),
            image: container.image.clone(),
            image_id: if touched {
                format!("simulated://{}", container.image)
            } else {
                String::new()
            },
            container_id: touched.then(|| id(run.restarts)),
            ready,
            started: Some(run.is_running()),
            restart_count: run.restarts,
            state,
            last_state,
        }
    }

    fn waiting(&self) -> Waiting {
        if let Some(message) = &self.behaviour.image_pull_error {
            return Waiting {
                reason: "ImagePullBackOff".to_owned(),
                message: Some(message.clone()),
            };
        }
        let reason = if self.initialized {
            "ContainerCreating"
        } else {
            "PodInitializing"
        };
        Waiting {
            reason: reason.to_owned(),
            message: self.runtime.held.clone(),
        }
    }

    fn back_off(&self, run: &Run, policy: RestartPolicy) -> Option<Waiting> {
        if self.runtime.stopped {
            return None;
        }
        run.restart_at(policy, self.behaviour)?;
        let delay = run.back_off()?;
        Some(Waiting {
            reason: "CrashLoopBackOff".to_owned(),
            message: Some(format!("back-off {} restarting failed container", go_duration(delay))),
        })
    }

    fn conditions(&self, phase: Phase, statuses: &[ContainerStatus]) -> Vec<Condition> {
        let sandbox = sandbox_exists(self.runtime);
        let (containers_ready, gates_ready) = (self.containers_ready(phase, statuses), self.gates_ready());
        let ready = match (&containers_ready, gates_ready) {
            (Verdict::True, Verdict::False(reason, message)) => Verdict::False(reason, message),
            _ => containers_ready.clone(),
        };
        let init = if self.initialized {
            Verdict::True
        } else {
            let waiting: Vec<&str> = self
                .pod
                .init_containers
                .iter()
                .zip(&self.runtime.init_containers)
                .filter(|(_, run)| !run.completed())
                .map(|(container, _)| container.name.as_str())
                .collect();
            let message = format!("containers with incomplete status: [{}]", waiting.join(" "));
            Verdict::False("ContainersNotInitialized", Some(message))
        };
        vec![
            self.condition(
                "PodReadyToStartContainers",
                if sandbox {
                    Verdict::True
                } else {
                    Verdict::False("", None)
                },
            ),
            self.condition("Initialized", init),
            self.condition("Ready", ready),
            self.condition("ContainersReady", containers_ready),
            self.condition("PodScheduled", Verdict::True),
        ]
    }

    fn containers_ready(&self, phase: Phase, statuses: &[ContainerStatus]) -> Verdict {
        match phase {
            Phase::Succeeded => return Verdict::False("PodCompleted", None),
            Phase::Failed => return Verdict::False("PodFailed", None),
            Phase::Pending | Phase::Running | Phase::Unknown => {}
        }
        let unready: Vec<&str> = statuses
            .iter()
            .filter(|status| !status.ready)
            .map(|status| status.name.as_str())
            .collect();
        if unready.is_empty() {
            return Verdict::True;
        }
        let message = format!("containers with unready status: [{}]", unready.join(" "));
        Verdict::False("ContainersNotReady", Some(message))
    }

    fn gates_ready(&self) -> Verdict {
        let is_true = |gate: &&String| {
            self.pod
                .status
                .condition(gate)
                .is_some_and(|condition| condition.status == "True")
        };
        let missing: Vec<&str> = self
            .pod
            .readiness_gates
            .iter()
            .filter(|gate| !is_true(gate))
            .map(String::as_str)
            .collect();
        if missing.is_empty() {
            return Verdict::True;
        }
        let message = format!("readiness gates not met: [{}]", missing.join(" "));
        Verdict::False("ReadinessGatesNotReady", Some(message))
    }

    fn condition(&self, kind: &str, verdict: Verdict) -> Condition {
        let (status, reason, message) = match verdict {
            Verdict::True => ("True", None, None),
            Verdict::False(reason, message) => ("False", Some(reason).filter(|reason| !reason.is_empty()), message),
        };
        let stored = self.pod.status.condition(kind);
        let kept = stored
            .filter(|stored| stored.status == status)
            .and_then(|stored| stored.last_transition_time);
        Condition {
            kind: kind.to_owned(),
            status: status.to_owned(),
            reason: reason.map(ToOwned::to_owned),
            message,
            last_transition_time: Some(kept.unwrap_or(whole_second(self.now))),
        }
    }
}

#[derive(Clone)]
enum Verdict {
    True,
    False(&'static str, Option<String>),
}

fn ended(end: &Termination, id: String) -> State {
    State {
        terminated: Some(Terminated {
            exit_code: end.exit_code,
            reason: end.reason.to_owned(),
            message: end.message.clone(),
            started_at: Some(whole_second(end.started_at)),
            finished_at: Some(whole_second(end.finished_at)),
            container_id: Some(id),
        }),
        ..State::default()
    }
}

/// A duration as Go prints it, which is what people search logs for.
fn go_duration(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds}s"),
        (minutes, seconds) => format!("{minutes}m{seconds}s"),
    }
}
