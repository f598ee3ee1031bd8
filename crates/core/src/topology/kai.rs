//! KAI's own topology objects (`Topology` of `kai.scheduler/v1alpha1`), where KAI is one of the schedulers.
//!
//! A binding that names no object of KAI's gets one of its own name, and owns it. One that names an object leaves it to
//! its author and only compares. KAI does not let levels change, so an object whose levels are outdated is deleted and, when
//! it is gone, made anew; one that belongs to somebody else is never touched.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_api::types::{ClusterTopologyBinding, SchedulerTopologyStatus};
use serde_json::{Value, json};

use crate::command::{Command, Kind};
use crate::failure::Failure;
use crate::object::{Body, Metadata, NewObject, Owner};
use crate::snapshot::target_of_value;

/// The name of the scheduler.
pub const KAI_SCHEDULER: &str = "kai-scheduler";

/// What was read of KAI's objects.
#[derive(Clone, Debug, Default)]
pub struct KaiTopologies {
    /// Whether the API server has the kind.
    pub served: bool,
    /// The objects by name.
    pub objects: BTreeMap<String, Arc<Value>>,
}

/// What becomes of the object that a binding has for itself.
pub(super) struct Own {
    pub(super) status: SchedulerTopologyStatus,
    pub(super) command: Option<Command>,
}

fn status(reference: &str, object: Option<&Value>, problem: Option<String>) -> SchedulerTopologyStatus {
    SchedulerTopologyStatus {
        scheduler_name: KAI_SCHEDULER.to_owned(),
        topology_reference: reference.to_owned(),
        in_sync: problem.is_none(),
        scheduler_backend_topology_observed_generation: object
            .and_then(|object| object["metadata"]["generation"].as_i64()),
        message: problem,
        ..SchedulerTopologyStatus::default()
    }
}

/// What is said where the API server does not have the kind.
fn not_served() -> String {
    "the API server has no Topologies of kai.scheduler/v1alpha1: install KAI, then restart the operator".to_owned()
}

fn keys(binding: &ClusterTopologyBinding) -> Vec<&str> {
    binding.spec.levels.iter().map(|level| level.key.as_str()).collect()
}

fn labels(object: &Value) -> Vec<&str> {
    let levels = object["spec"]["levels"].as_array();
    let labels = levels.into_iter().flatten().map(|level| level["nodeLabel"].as_str());
    labels.map(Option::unwrap_or_default).collect()
}

/// Compares an object that somebody else keeps.
pub(super) fn named(
    binding: &ClusterTopologyBinding,
    reference: &str,
    known: &KaiTopologies,
) -> SchedulerTopologyStatus {
    let object = known.objects.get(reference).map(Arc::as_ref);
    let problem = match object {
        _ if !known.served => Some(not_served()),
        None => Some(format!(
            "there is no Topology {reference:?}; create it, or take the entry away"
        )),
        Some(object) if labels(object) == keys(binding) => None,
        Some(object) => Some(format!(
            "its levels are {}, those of the binding {}",
            labels(object).join(", "),
            keys(binding).join(", ")
        )),
    };
    status(reference, object, problem)
}

/// Keeps the object of the binding's own in step.
pub(super) fn own(binding: &ClusterTopologyBinding, known: &KaiTopologies, failures: &[Failure]) -> Own {
    let name = binding.metadata.name.as_deref().unwrap_or_default();
    let object = known.objects.get(name).map(Arc::as_ref);
    let refused = || {
        failures
            .iter()
            .find(|failure| failure.subject.kind == Kind::KaiTopology)
    };
    let said = |problem: String, command: Option<Command>| Own {
        status: status(name, object, Some(problem)),
        command,
    };
    let Some(object) = object else {
        if !known.served {
            return said(not_served(), None);
        }
        let problem = refused().map_or_else(|| "it is being made".to_owned(), |failure| failure.cause.clone());
        return said(problem, Some(Command::Create(topology(binding, name))));
    };
    let owners = object["metadata"]["ownerReferences"].as_array();
    let uid = binding.metadata.uid.as_deref();
    if !owners.into_iter().flatten().any(|owner| owner["uid"].as_str() == uid) {
        let problem = format!(
            "a Topology {name:?} exists and does not belong to this binding; name it in schedulerTopologyBindings, or give \
             the binding another name"
        );
        return said(problem, None);
    }
    if object["metadata"]["deletionTimestamp"].is_string() {
        return said("it is being deleted and will be created again".to_owned(), None);
    }
    if labels(object) == keys(binding) {
        return Own {
            status: status(name, Some(object), None),
            command: None,
        };
    }
    let problem = refused().map_or_else(
        || "its levels changed; it is being replaced".to_owned(),
        |failure| failure.cause.clone(),
    );
    let target = target_of_value(Kind::KaiTopology, object);
    said(problem, Some(Command::Delete { target }))
}

fn topology(binding: &ClusterTopologyBinding, name: &str) -> NewObject {
    let levels: Vec<Value> = keys(binding).iter().map(|key| json!({"nodeLabel": key})).collect();
    NewObject {
        kind: Kind::KaiTopology,
        metadata: Metadata {
            name: name.to_owned(),
            ..Metadata::default()
        },
        owner: Some(Owner {
            blocks_deletion: false,
            ..Owner::of(Kind::ClusterTopologyBinding, &binding.metadata)
        }),
        body: Body::from_fields([("spec", json!({"levels": levels}))]),
    }
}
