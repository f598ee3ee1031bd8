//! The scheduler of Kubernetes, where gang scheduling is enabled: one PodGroup of `scheduling.k8s.io/v1alpha2`, as
//! Kubernetes 1.36 serves it, for each gang. It needs no Workload: a PodGroup may stand by itself.
//!
//! Such a PodGroup has one minimum and one required level for all its pods, and cannot change. So a gang is told whole
//! when it has one clique, or when no clique has more pods than its minimum; the rest is reported.

use serde_json::{Map, Value, json};

use super::objects::{Constraint, Ours, bounded, condition, constraints, object};
use super::{Backend, Correction, Gang, Limit, Mapping, Stamp, Wanted, floor, live_groups};
use crate::command::Kind;
use crate::object::NewObject;

/// Only labels: the specification is immutable.
const OURS: Ours = Ours {
    fields: &[],
    list: ("", &[]),
    kept_labels: &[],
};

pub(super) struct Native;

impl Backend for Native {
    fn kind(&self) -> Option<Kind> {
        Some(Kind::NativePodGroup)
    }

    fn map(&self, gang: &Gang<'_>) -> Mapping {
        let gang_spec = &gang.object.spec;
        let cliques = live_groups(gang_spec).count();
        if cliques == 0 {
            return Mapping::nothing();
        }
        let policy = match floor(gang_spec) {
            minimum @ 1.. => json!({"gang": {"minCount": minimum}}),
            _ => json!({"basic": {}}),
        };
        let mut spec = Map::from_iter([("schedulingPolicy".to_owned(), policy)]);
        let all = constraints(gang);
        // The levels of a gang with one clique are nested, and the last of them is the narrowest.
        let applied = all.iter().filter(|constraint| constraint.whole || cliques == 1);
        if let Some(key) = applied.filter_map(|constraint| constraint.required).next_back() {
            spec.insert("schedulingConstraints".to_owned(), json!({"topology": [{"key": key}]}));
        }
        if let Some(class) = &gang_spec.priority_class_name {
            spec.insert("priorityClassName".to_owned(), class.as_str().into());
        }
        Mapping {
            object: Wanted::Object(Box::new(object(gang, Kind::NativePodGroup, false, Value::Object(spec)))),
            limits: limits(gang, &all, cliques),
        }
    }

    fn stamp(&self, gang: &str, _clique: &str) -> Stamp {
        Stamp {
            scheduling_group: Some(gang.to_owned()),
            ..Stamp::default()
        }
    }

    fn correct(&self, _gang: &Gang<'_>, stored: &Value, wanted: &NewObject) -> Correction {
        let mut limits = Vec::new();
        let fields = [
            ("schedulingPolicy", None),
            ("schedulingConstraints", Some("TopologyAwareWorkloadScheduling")),
            ("priorityClassName", Some("WorkloadAwarePreemption")),
        ];
        for (field, gate) in fields {
            match (stored["spec"].get(field), wanted.spec().get(field), gate) {
                (None, Some(_), Some(gate)) => limits.push(Limit::FieldDropped { field, gate }),
                // Admission may fill in the cluster's default class.
                (Some(_), None, Some(_)) if field == "priorityClassName" => {}
                (stored, wanted, _) if stored == wanted => {}
                _ => limits.push(Limit::Immutable { field }),
            }
        }
        Correction {
            patch: OURS.patch(stored, wanted),
            limits,
        }
    }

    fn waits_for(&self, stored: &Value) -> Option<String> {
        let found = condition(&stored["status"]["conditions"], "PodGroupScheduled", "False")?;
        let message = found["message"].as_str().filter(|message| !message.is_empty())?;
        Some(bounded(message))
    }
}

fn limits(gang: &Gang<'_>, all: &[Constraint<'_>], cliques: usize) -> Vec<Limit> {
    let names = |asks: &dyn Fn(&Constraint<'_>) -> bool| -> Vec<String> {
        let asking = all.iter().filter(|constraint| asks(constraint));
        asking.map(|constraint| constraint.of.clone()).collect()
    };
    let parts = names(&|constraint| cliques > 1 && !constraint.whole && constraint.required.is_some());
    // What a required level implies is not lost.
    let implied = |preferred: &str, required: Option<&str>| {
        let topology = gang.topology.zip(required);
        topology.is_some_and(|(topology, required)| topology.is_broader(preferred, required))
    };
    let preferred = names(&|constraint| {
        let preferred = constraint.preferred;
        preferred.is_some_and(|preferred| !implied(preferred, constraint.required))
    });
    let above: Vec<String> = live_groups(&gang.object.spec)
        .filter(|group| cliques > 1 && group.pod_references.len() as i64 > i64::from(group.min_replicas.max(0)))
        .map(|group| group.name.clone())
        .collect();
    let mut limits = Vec::new();
    if !parts.is_empty() {
        limits.push(Limit::PackingOfParts { of: parts });
    }
    if !preferred.is_empty() {
        limits.push(Limit::PreferredPacking { of: preferred });
    }
    if !above.is_empty() {
        limits.push(Limit::MinimumOfCliques { of: above });
    }
    limits
}
