//! The life of pods, told by the deciders alone: no client, no clock.

mod ending;
mod running;

use crate::behaviour::PodBehaviour;
use crate::init_wait::WaitState;
use crate::kubelet::containers::PodRuntime;
use crate::kubelet::lifecycle::{Surroundings, advance};
use crate::kubelet::pod::tests::pod;
use crate::kubelet::pod::{Container, Pod};
use crate::kubelet::report::report;
use crate::kubelet::status::{Condition, PodStatus, patch};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::time::Duration;

pub(super) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

pub(super) fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A pod on a node, with every status that was written for it.
pub(super) struct Scene {
    pub(super) pod: Pod,
    pub(super) runtime: PodRuntime,
    pub(super) behaviour: PodBehaviour,
    pub(super) wait: WaitState,
    pub(super) writes: u32,
}

impl Scene {
    pub(super) fn new(spec: Value, behaviour: PodBehaviour) -> Self {
        let pod = pod(spec, json!({}));
        let runtime = PodRuntime::adopt(
            &pod,
            Some("10.128.0.2".parse().unwrap()),
            behaviour.kill.as_deref(),
            at(0),
        );
        Self {
            pod,
            runtime,
            behaviour,
            wait: WaitState::Free,
            writes: 0,
        }
    }

    /// What the shell does at one moment; returns when it would look again.
    pub(super) fn step(&mut self, second: i64) -> Option<i64> {
        let now = at(second);
        let wait = |_: &Container| self.wait.clone();
        let around = Surroundings {
            now,
            behaviour: &self.behaviour,
            wait: &wait,
        };
        let next = advance(&self.pod, &mut self.runtime, &around);
        let desired = report(&self.pod, &self.runtime, &self.behaviour, Some("172.16.0.1"), now);
        if patch(&self.pod.status, &desired).is_some() {
            self.writes += 1;
            let foreign = self
                .pod
                .status
                .conditions
                .iter()
                .filter(|condition| !desired.conditions.iter().any(|own| own.kind == condition.kind));
            let conditions = foreign.cloned().chain(desired.conditions.clone()).collect();
            self.pod.status = PodStatus { conditions, ..desired };
        }
        next.map(Timestamp::as_second)
    }

    pub(super) fn condition(&self, kind: &str) -> &Condition {
        self.pod.status.condition(kind).unwrap()
    }

    pub(super) fn waiting(&self) -> &str {
        &self.pod.status.container_statuses[0]
            .state
            .waiting
            .as_ref()
            .unwrap()
            .reason
    }

    pub(super) fn restarts(&self) -> u32 {
        self.pod.status.container_statuses[0].restart_count
    }
}
