//! What a ClusterTopologyBinding says of itself: whether the topology objects of other schedulers agree with its levels,
//! and the objects that are made for them.
//!
//! Our own scheduler reads the levels from the binding and needs no object. KAI's are made and compared where KAI is one of
//! the schedulers. An object of any other that a binding names is reported as not known to agree rather than passed over
//! in silence.

mod kai;

use coppice_api::types::{
    ClusterTopologyBinding, ClusterTopologyBindingStatus, SchedulerTopologyBinding, SchedulerTopologyStatus,
};
use jiff::Timestamp;

pub use kai::{KAI_SCHEDULER, KaiTopologies};

use crate::command::{Command, Kind, Urgency, status_patch};
use crate::conditions::{self, ConditionType, Verdict};
use crate::failure::Failure;
use crate::reasons::Reason;
use crate::snapshot::target_of;

/// Plans one binding: objects of other schedulers first, then its status. `known` is what was read of KAI's objects, if KAI
/// is one of the schedulers; `failures` are the writes for this binding that were refused when they were tried last.
pub fn plan_binding(
    binding: &ClusterTopologyBinding,
    known: Option<&KaiTopologies>,
    failures: &[Failure],
    now: Timestamp,
) -> Vec<Vec<Command>> {
    if binding.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let before = binding.status.clone().unwrap_or_default();
    let mut after = before.clone();
    after.observed_generation = binding.metadata.generation;
    let named = &binding.spec.scheduler_topology_bindings;
    after.scheduler_topology_statuses = named.iter().map(|entry| compared(binding, entry, known)).collect();
    let mut objects = None;
    let is_named = named.iter().any(|entry| entry.scheduler_name == KAI_SCHEDULER);
    if let Some(known) = known.filter(|_| !is_named) {
        let own = kai::own(binding, known, failures);
        after.scheduler_topology_statuses.push(own.status);
        objects = own.command;
    }
    let unavailable = known.is_some_and(|known| !known.served);
    judge(binding, unavailable, &mut after, now);
    // What is about to be put right is not worth a status; what was refused is.
    let patch = status_patch(binding.status.as_ref(), &after).filter(|_| objects.is_none() || !failures.is_empty());
    let mut stages = vec![Vec::from_iter(objects)];
    if let Some(patch) = patch {
        let target = target_of(Kind::ClusterTopologyBinding, &binding.metadata);
        let told = news(&before, &after).map(|(warning, reason, message)| Command::Event {
            target: target.clone(),
            warning,
            reason,
            message,
        });
        let urgency = Urgency::Now;
        stages.push(
            told.into_iter()
                .chain([Command::Status { target, patch, urgency }])
                .collect(),
        );
    }
    stages.retain(|stage| !stage.is_empty());
    stages
}

/// What is known of an object that a binding names.
fn compared(
    binding: &ClusterTopologyBinding,
    entry: &SchedulerTopologyBinding,
    known: Option<&KaiTopologies>,
) -> SchedulerTopologyStatus {
    if let (Some(known), KAI_SCHEDULER) = (known, entry.scheduler_name.as_str()) {
        return kai::named(binding, &entry.topology_reference, known);
    }
    SchedulerTopologyStatus {
        scheduler_name: entry.scheduler_name.clone(),
        topology_reference: entry.topology_reference.clone(),
        in_sync: false,
        message: Some(format!(
            "topology objects of {:?} are not read by this operator, so nobody checks that {:?} has the levels of this \
             binding; make it a profile of the operator's configuration if it is KAI, else take the entry away or keep the \
             two in step yourself",
            entry.scheduler_name, entry.topology_reference
        )),
        ..SchedulerTopologyStatus::default()
    }
}

fn judge(
    binding: &ClusterTopologyBinding,
    unavailable: bool,
    status: &mut ClusterTopologyBindingStatus,
    now: Timestamp,
) {
    let named = &status.scheduler_topology_statuses;
    if named.is_empty() {
        conditions::remove(&mut status.conditions, ConditionType::SchedulerTopologyDrift);
        return;
    }
    let astray: Vec<&str> = named
        .iter()
        .filter(|entry| !entry.in_sync)
        .map(|entry| entry.scheduler_name.as_str())
        .collect();
    let verdict = if unavailable {
        Verdict {
            kind: ConditionType::SchedulerTopologyDrift,
            status: None,
            reason: Reason::TopologyNotFound,
            message: format!(
                "the API server does not have the topology objects of {}",
                astray.join(", ")
            ),
        }
    } else if astray.is_empty() {
        Verdict {
            kind: ConditionType::SchedulerTopologyDrift,
            status: Some(false),
            reason: Reason::InSync,
            message: "all topology objects agree with the binding".to_owned(),
        }
    } else {
        Verdict {
            kind: ConditionType::SchedulerTopologyDrift,
            status: Some(true),
            reason: Reason::Drift,
            message: format!("not known to agree with the binding: {}", astray.join(", ")),
        }
    };
    conditions::set(&mut status.conditions, verdict, binding.metadata.generation, now);
}

/// What is told when the condition turns.
fn news(before: &ClusterTopologyBindingStatus, after: &ClusterTopologyBindingStatus) -> Option<(bool, Reason, String)> {
    let drifts = |status: &ClusterTopologyBindingStatus| {
        conditions::is_true(&status.conditions, ConditionType::SchedulerTopologyDrift)
    };
    match (drifts(before), drifts(after)) {
        (false, true) => {
            let found = conditions::find(&after.conditions, ConditionType::SchedulerTopologyDrift);
            let message = found.map(|condition| condition.message.clone()).unwrap_or_default();
            Some((true, Reason::TopologyDriftDetected, message))
        }
        (true, false) => Some((
            false,
            Reason::TopologyInSync,
            "no topology object disagrees with the binding any more".to_owned(),
        )),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

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

    fn planned(binding: &ClusterTopologyBinding, known: Option<&KaiTopologies>, now: Timestamp) -> Vec<Command> {
        plan_binding(binding, known, &[], now).into_iter().flatten().collect()
    }

    fn written(commands: &[Command]) -> ClusterTopologyBindingStatus {
        let patch = commands.iter().find_map(|command| match command {
            Command::Status { patch, .. } => Some(patch.clone()),
            _ => None,
        });
        serde_json::from_value(patch.expect("a status")).unwrap()
    }

    fn told(commands: &[Command]) -> Vec<Reason> {
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
        let commands = planned(&binding(&[], None), None, now);
        let status = written(&commands);
        assert_eq!(status.observed_generation, Some(3));
        assert_eq!((status.conditions, told(&commands)), (vec![], vec![]));
    }

    #[test]
    fn an_object_of_a_scheduler_that_is_not_read_is_drift_and_told_once() {
        let now = Timestamp::from_second(100).unwrap();
        let commands = planned(&binding(&["kai-scheduler"], None), None, now);
        let status = written(&commands);
        assert!(conditions::is_true(
            &status.conditions,
            ConditionType::SchedulerTopologyDrift
        ));
        assert!(!status.scheduler_topology_statuses[0].in_sync);
        assert_eq!(told(&commands), [Reason::TopologyDriftDetected]);

        let later = Timestamp::from_second(200).unwrap();
        let settled = binding(&["kai-scheduler"], Some(status.clone()));
        assert_eq!(
            planned(&settled, None, later),
            [],
            "what is written is not written again"
        );
        let cured = planned(&binding(&[], Some(status)), None, later);
        assert_eq!(told(&cured), [Reason::TopologyInSync]);
    }

    /// What KAI has: objects with their level and the uid of their owner.
    fn known(objects: &[(&str, &str, &str)]) -> KaiTopologies {
        let object = |(name, level, owner): &(&str, &str, &str)| {
            let object = json!({
                "metadata": {"name": name, "uid": "k", "resourceVersion": "1", "generation": 1, "ownerReferences": [{"uid": owner}]},
                "spec": {"levels": [{"nodeLabel": level}]},
            });
            ((*name).to_owned(), Arc::new(object))
        };
        KaiTopologies {
            served: true,
            objects: objects.iter().map(object).collect(),
        }
    }

    fn drift(commands: &[Command]) -> (String, String) {
        let status = written(commands);
        let found = conditions::find(&status.conditions, ConditionType::SchedulerTopologyDrift).expect("a condition");
        (found.status.clone(), found.reason.clone())
    }

    #[test]
    fn kai_gets_an_object_with_the_levels_in_order_and_the_binding_owns_it() {
        let now = Timestamp::from_second(100).unwrap();
        let commands = planned(&binding(&[], None), Some(&known(&[])), now);
        let [Command::Create(object)] = &commands[..] else {
            panic!("the object and no status yet: {commands:?}")
        };
        assert_eq!(
            (object.kind, &*object.metadata.name, object.namespace()),
            (Kind::KaiTopology, "t", None)
        );
        assert_eq!(object.owner.as_ref().map(|owner| owner.uid.as_str()), Some("u"));
        assert_eq!(object.spec()["levels"], json!([{"nodeLabel": "rack"}]));

        let commands = planned(&binding(&[], None), Some(&known(&[("t", "rack", "u")])), now);
        assert_eq!(drift(&commands), ("False".to_owned(), "InSync".to_owned()));
        let entry = &written(&commands).scheduler_topology_statuses[0];
        assert_eq!((entry.in_sync, &*entry.topology_reference), (true, "t"));
        assert_eq!(entry.scheduler_backend_topology_observed_generation, Some(1));
    }

    #[test]
    fn an_object_with_other_levels_is_deleted_and_one_of_somebody_else_is_left_alone() {
        let now = Timestamp::from_second(100).unwrap();
        let commands = planned(&binding(&[], None), Some(&known(&[("t", "block", "u")])), now);
        assert!(
            matches!(&commands[..], [Command::Delete { target }] if target.uid == "k"),
            "{commands:?}"
        );
        let commands = planned(&binding(&[], None), Some(&known(&[("t", "rack", "other")])), now);
        assert_eq!(drift(&commands), ("True".to_owned(), "Drift".to_owned()));
        assert!(
            !commands
                .iter()
                .any(|command| matches!(command, Command::Delete { .. } | Command::Create(_)))
        );
    }

    #[test]
    fn an_object_that_the_binding_names_is_only_compared() {
        let now = Timestamp::from_second(100).unwrap();
        let named = binding(&["kai-scheduler"], None);
        let said = |objects: &[(&str, &str, &str)]| drift(&planned(&named, Some(&known(objects)), now)).1;
        assert_eq!(said(&[("racks", "rack", "x")]), "InSync");
        assert_eq!(said(&[("racks", "block", "x")]), "Drift");
        assert_eq!(said(&[]), "Drift");
    }

    #[test]
    fn without_the_kind_it_is_not_known_and_a_refusal_is_told() {
        let now = Timestamp::from_second(100).unwrap();
        let commands = planned(&binding(&[], None), Some(&KaiTopologies::default()), now);
        assert_eq!(drift(&commands), ("Unknown".to_owned(), "TopologyNotFound".to_owned()));
        let refused = Failure {
            subject: crate::failure::Subject {
                kind: Kind::KaiTopology,
                name: "t".to_owned(),
                verb: crate::failure::Verb::Create,
            },
            owner: target_of(Kind::ClusterTopologyBinding, &binding(&[], None).metadata),
            cause: "the hostname must be the last level".to_owned(),
            since: now,
        };
        let stages = plan_binding(&binding(&[], None), Some(&known(&[])), &[refused], now);
        assert!(matches!(stages[0][..], [Command::Create(_)]));
        let entry = &written(&stages[1]).scheduler_topology_statuses[0];
        assert_eq!(entry.message.as_deref(), Some("the hostname must be the last level"));
    }
}
