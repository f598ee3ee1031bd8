//! The PodGangs of a replica. A gang is written before the pods it lists, under the names they will have, so that a
//! scheduler never sees a pod whose gang it does not know.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::names::annotations;
use coppice_api::types::PodGang;
use serde_json::{Value, json};

use super::pod_groups::{self, PodGroupReports};
use super::pods::PodNames;
use super::{Draft, Replica};
use crate::command::{Command, Kind, merge_patch};
use crate::context::SetContext;
use crate::object::NewObject;
use crate::objects;
use crate::packing::referenced_domains;
use crate::snapshot::target_of;

/// Fields of a gang that follow the set; the rest of it belongs to others.
const OURS: [&str; 4] = [
    "podgroups",
    "topologyConstraint",
    "topologyConstraintGroupConfigs",
    "priorityClassName",
];

/// Returns what became of the objects that stand for the gangs at other schedulers.
pub(crate) fn plan(replica: &Replica<'_>, pods: &PodNames, draft: &mut Draft) -> PodGroupReports {
    let context = replica.context;
    let mut reports = PodGroupReports::default();
    let none = BTreeMap::new();
    for (position, gang) in replica.layout.live_gangs().filter(|(_, gang)| gang.complete) {
        let stored = replica.snapshot.gangs.get(&gang.name);
        // A gang that is too large is not begun.
        if stored.is_none() && gang.cliques.iter().any(|&clique| replica.layout.cliques[clique].held) {
            continue;
        }
        let desired = objects::pod_gang(
            &context.facts,
            context.settings,
            context.topology,
            &replica.layout,
            position,
            pods.get(&gang.name).unwrap_or(&none),
        );
        match stored {
            // Its pods are known once those that they replace are going; then it is written with them.
            None if replica.by_map && pods.get(&gang.name).is_none_or(BTreeMap::is_empty) => {}
            None => draft
                .gangs
                .push(Command::Create(with_room_of(replica, position, desired))),
            Some(stored) if stored.metadata.deletion_timestamp.is_some() => {}
            Some(stored) => {
                let patch = correction(replica, stored, &desired);
                reports.extend(pod_groups::plan(replica, stored, patch.as_ref(), draft));
                if let Some(patch) = patch {
                    let target = target_of(Kind::PodGang, &stored.metadata);
                    draft.gangs.push(Command::Merge { target, patch });
                }
            }
        }
    }
    let wanted: BTreeSet<&str> = replica
        .layout
        .live_gangs()
        .map(|(_, gang)| gang.name.as_str())
        .collect();
    // A gang that was replaced by one of another name goes when the last of its pods has changed over.
    let active = replica.cliques.iter().flat_map(|clique| &clique.active);
    let in_use: BTreeSet<&str> = active.map(|pod| pod.membership.gang.as_str()).collect();
    for (name, stored) in &replica.snapshot.gangs {
        let unused = !wanted.contains(name.as_str()) && !in_use.contains(name.as_str());
        if unused && stored.metadata.deletion_timestamp.is_none() {
            draft.delete(target_of(Kind::PodGang, &stored.metadata));
        }
    }
    reports
}

/// The gang with a hint where there is room for it: where the pods were that it replaces. Written once, and left alone.
fn with_room_of(replica: &Replica<'_>, position: usize, mut desired: NewObject) -> NewObject {
    if !replica.context.coherent() {
        return desired;
    }
    let gang = &replica.layout.gangs[position];
    let mut drained: BTreeMap<&str, usize> = BTreeMap::new();
    for state in gang.cliques.iter().map(|&clique| &replica.cliques[clique]) {
        for pod in state.leaving.iter().filter(|pod| pod.membership.gang != gang.name) {
            *drained.entry(pod.membership.gang.as_str()).or_default() += 1;
        }
    }
    drained.retain(|name, _| replica.snapshot.gangs.contains_key(*name));
    if let Some((name, _)) = drained.into_iter().max_by_key(|(_, pods)| *pods) {
        let namespace = replica.context.facts.namespace();
        desired.body.field_mut("spec")["reuseReservationRef"] = json!({"namespace": namespace, "name": name});
    }
    desired
}

fn correction(replica: &Replica<'_>, stored: &PodGang, desired: &NewObject) -> Option<Value> {
    let current = json!(stored.spec);
    let mut wanted = current.clone();
    let level_lost = level_lost(replica.context);
    for field in OURS {
        if level_lost && field.starts_with("topology") {
            continue;
        }
        match desired.spec().get(field) {
            Some(value) => wanted[field] = value.clone(),
            None => drop(wanted.as_object_mut().and_then(|spec| spec.remove(field))),
        }
    }
    if level_lost {
        keep_packing(&mut wanted, &current);
    }
    let mut patch = serde_json::Map::new();
    if let Some(spec) = merge_patch(&current, &wanted) {
        patch.insert("spec".to_owned(), spec);
    }
    let label = |key: &str| stored.metadata.labels.as_ref().and_then(|all| all.get(key));
    let wanted_labels = desired.metadata.labels.iter();
    let lacking: serde_json::Map<String, Value> = wanted_labels
        .filter(|(key, value)| label(key) != Some(value))
        .map(|(key, value)| (key.clone(), value.as_str().into()))
        .collect();
    let mut metadata = serde_json::Map::new();
    if !lacking.is_empty() {
        metadata.insert("labels".to_owned(), Value::Object(lacking));
    }
    let of_topology = topology_annotations(stored, desired).filter(|_| !level_lost);
    let of_backend = pod_groups::gang_annotations(replica.context, stored);
    let annotations: serde_json::Map<String, Value> = of_topology.into_iter().flatten().chain(of_backend).collect();
    if !annotations.is_empty() {
        metadata.insert("annotations".to_owned(), Value::Object(annotations));
    }
    if !metadata.is_empty() {
        patch.insert("metadata".to_owned(), Value::Object(metadata));
    }
    (!patch.is_empty()).then_some(Value::Object(patch))
}

/// The patch of the annotations that tell where the gang may lie. All others were mirrored when it was made, or belong to
/// somebody else.
fn topology_annotations(stored: &PodGang, desired: &NewObject) -> Option<serde_json::Map<String, Value>> {
    let keys = [
        annotations::TOPOLOGY_NAME,
        annotations::SPREAD_PREFERRED,
        annotations::SPREAD_REQUIRED,
    ];
    let before = |key: &str| stored.metadata.annotations.as_ref().and_then(|all| all.get(key));
    let wanted = |key: &str| desired.metadata.annotations.get(key);
    let changed = keys.into_iter().filter(|key| before(key) != wanted(key));
    let patch: serde_json::Map<String, Value> = changed.map(|key| (key.to_owned(), json!(wanted(key)))).collect();
    (!patch.is_empty()).then_some(patch)
}

/// Whether a level that the set packs by is missing for now, alone or with its whole topology. That must not unpack a gang
/// that is placed already.
fn level_lost(context: &SetContext<'_>) -> bool {
    let known = |domain: &String| {
        context
            .topology
            .is_some_and(|topology| topology.keys.contains_key(domain))
    };
    context.settings.topology_aware && !referenced_domains(context.facts.set).iter().all(known)
}

/// Gives the pod groups the constraints that they have.
fn keep_packing(wanted: &mut Value, current: &Value) {
    let stored = current["podgroups"].as_array().map(Vec::as_slice).unwrap_or_default();
    for group in wanted["podgroups"].as_array_mut().into_iter().flatten() {
        let before = stored.iter().find(|before| before["name"] == group["name"]);
        if let Some(constraint) = before.and_then(|before| before.get("topologyConstraint")) {
            group["topologyConstraint"] = constraint.clone();
        }
    }
}
