//! What a ClusterTopologyBinding says of itself: whether the topology objects of other schedulers that it names agree
//! with its levels.
//!
//! Our own scheduler reads the levels from the binding and needs no object. Objects of other schedulers are not read yet,
//! so one that a binding names is reported as not known to agree rather than passed over in silence.

use coppice_api::types::{ClusterTopologyBinding, ClusterTopologyBindingStatus, SchedulerTopologyStatus};
use jiff::Timestamp;

use crate::command::{Command, Kind, Urgency, status_patch};
use crate::conditions::{self, Verdict};
use crate::reasons;
use crate::snapshot::target_of;

const DRIFT: &str = "SchedulerTopologyDrift";

/// Plans the status of one binding.
pub fn plan_binding(binding: &ClusterTopologyBinding, now: Timestamp) -> Vec<Command> {
    if binding.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let before = binding.status.clone().unwrap_or_default();
    let mut after = before.clone();
    after.observed_generation = binding.metadata.generation;
    after.scheduler_topology_statuses = binding
        .spec
        .scheduler_topology_bindings
        .iter()
        .map(|named| SchedulerTopologyStatus {
            scheduler_name: named.scheduler_name.clone(),
            topology_reference: named.topology_reference.clone(),
            in_sync: false,
            message: Some(format!(
                "topology objects of {:?} are not read by this operator, so nobody checks that {:?} has the levels of this \
                 binding; take the entry away, or keep the two in step yourself",
                named.scheduler_name, named.topology_reference
            )),
            ..SchedulerTopologyStatus::default()
        })
        .collect();
    judge(binding, &mut after, now);
    let Some(patch) = status_patch(binding.status.as_ref(), &after) else {
        return Vec::new();
    };
    let target = target_of(Kind::ClusterTopologyBinding, &binding.metadata);
    let mut commands: Vec<Command> = news(&before, &after)
        .map(|(warning, reason, message)| Command::Event {
            target: target.clone(),
            warning,
            reason,
            message,
        })
        .into_iter()
        .collect();
    let urgency = Urgency::Now;
    commands.push(Command::Status { target, patch, urgency });
    commands
}

fn judge(binding: &ClusterTopologyBinding, status: &mut ClusterTopologyBindingStatus, now: Timestamp) {
    let named = &status.scheduler_topology_statuses;
    if named.is_empty() {
        conditions::remove(&mut status.conditions, DRIFT);
        return;
    }
    let astray: Vec<&str> = named
        .iter()
        .filter(|entry| !entry.in_sync)
        .map(|entry| entry.scheduler_name.as_str())
        .collect();
    let verdict = if astray.is_empty() {
        Verdict {
            kind: DRIFT,
            status: Some(false),
            reason: reasons::TOPOLOGY_IN_SYNC,
            message: "all topology objects agree with the binding".to_owned(),
        }
    } else {
        Verdict {
            kind: DRIFT,
            status: Some(true),
            reason: reasons::TOPOLOGY_DRIFT,
            message: format!("not known to agree with the binding: {}", astray.join(", ")),
        }
    };
    conditions::set(&mut status.conditions, verdict, binding.metadata.generation, now);
}

/// What is told when the condition turns.
fn news(
    before: &ClusterTopologyBindingStatus,
    after: &ClusterTopologyBindingStatus,
) -> Option<(bool, &'static str, String)> {
    let drifts = |status: &ClusterTopologyBindingStatus| conditions::is_true(&status.conditions, DRIFT);
    match (drifts(before), drifts(after)) {
        (false, true) => {
            let found = conditions::find(&after.conditions, DRIFT);
            let message = found.map(|condition| condition.message.clone()).unwrap_or_default();
            Some((true, reasons::TOPOLOGY_DRIFT_DETECTED, message))
        }
        (true, false) => Some((
            false,
            reasons::TOPOLOGY_DRIFT_GONE,
            "no topology object disagrees with the binding any more".to_owned(),
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn binding(names: &[&str], status: Option<ClusterTopologyBindingStatus>) -> ClusterTopologyBinding {
        let named: Vec<_> = names
            .iter()
            .map(|name| json!({"schedulerName": name, "topologyReference": "racks"}))
            .collect();
        let mut binding: ClusterTopologyBinding = serde_json::from_value(json!({
            "apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding",
            "metadata": {"name": "t", "uid": "u", "resourceVersion": "1", "generation": 3},
            "spec": {"levels": [{"domain": "rack", "key": "rack"}], "schedulerTopologyBindings": named},
        }))
        .unwrap();
        binding.status = status;
        binding
    }

    fn written(commands: &[Command]) -> ClusterTopologyBindingStatus {
        let patch = commands.iter().find_map(|command| match command {
            Command::Status { patch, .. } => Some(patch.clone()),
            _ => None,
        });
        serde_json::from_value(patch.expect("a status")).unwrap()
    }

    fn told(commands: &[Command]) -> Vec<&'static str> {
        commands
            .iter()
            .filter_map(|command| match command {
                Command::Event { reason, .. } => Some(*reason),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn a_binding_without_objects_of_others_is_observed_and_nothing_else() {
        let now = Timestamp::from_second(100).unwrap();
        let commands = plan_binding(&binding(&[], None), now);
        let status = written(&commands);
        assert_eq!(status.observed_generation, Some(3));
        assert_eq!((status.conditions, told(&commands)), (vec![], vec![]));
    }

    #[test]
    fn an_object_of_a_scheduler_that_is_not_read_is_drift_and_told_once() {
        let now = Timestamp::from_second(100).unwrap();
        let commands = plan_binding(&binding(&["kai-scheduler"], None), now);
        let status = written(&commands);
        assert!(conditions::is_true(&status.conditions, DRIFT));
        assert!(!status.scheduler_topology_statuses[0].in_sync);
        assert_eq!(told(&commands), [reasons::TOPOLOGY_DRIFT_DETECTED]);

        let later = Timestamp::from_second(200).unwrap();
        let settled = binding(&["kai-scheduler"], Some(status.clone()));
        assert_eq!(
            plan_binding(&settled, later),
            [],
            "what is written is not written again"
        );
        let cured = plan_binding(&binding(&[], Some(status)), later);
        assert_eq!(told(&cured), [reasons::TOPOLOGY_DRIFT_GONE]);
    }
}
