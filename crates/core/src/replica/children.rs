//! Services, scaling groups, cliques and autoscalers of a replica: created when missing, corrected where we own a
//! field, deleted when no longer wanted. Sizes are never corrected: they belong to whoever scales.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::names::annotations;
use coppice_api::types::PodClique;
use serde_json::{Value, json};

use super::{Draft, Replica, weight};
use crate::command::{Command, Kind, merge_patch};
use crate::layout::{CliqueLayout, Place};
use crate::object::{NewObject, Owner};
use crate::objects::{self, TemplateSource};
use crate::reasons::Reason;
use crate::snapshot::{target_of, target_of_value};
use crate::update::{Directive, rendering};

pub(crate) fn plan(replica: &Replica<'_>, directive: Directive, draft: &mut Draft) {
    service(replica, draft);
    scaling_groups(replica, draft);
    cliques(replica, directive, draft);
    autoscalers(replica, draft);
}

fn service(replica: &Replica<'_>, draft: &mut Draft) {
    let desired = objects::headless_service(&replica.context.facts, replica.layout.index);
    let stored = replica.snapshot.services.get(&desired.metadata.name);
    correct(stored.map(AsRef::as_ref), desired, draft);
}

fn autoscalers(replica: &Replica<'_>, draft: &mut Draft) {
    let mut wanted = BTreeSet::new();
    for desired in objects::autoscalers(&replica.context.facts, replica.layout.index) {
        let name = desired.metadata.name.clone();
        let stored = replica.snapshot.autoscalers.get(&name).map(AsRef::as_ref);
        correct(stored, desired, draft);
        wanted.insert(name);
    }
    for (_, stored) in replica
        .snapshot
        .autoscalers
        .iter()
        .filter(|(name, _)| !wanted.contains(*name))
    {
        draft.delete(target_of_value(Kind::HorizontalPodAutoscaler, stored));
    }
}

/// Creates an object, or patches the fields in which the stored one differs from what we want. Fields that we do not
/// name (defaults of the API server, labels of others) are left alone, so nothing is written over and over.
fn correct(stored: Option<&Value>, desired: NewObject, draft: &mut Draft) {
    let Some(stored) = stored else {
        draft.children.push(Command::Create(desired));
        return;
    };
    if stored["metadata"]["deletionTimestamp"].is_string() {
        return;
    }
    let owned = json!({"metadata": {"labels": desired.metadata.labels}, "spec": desired.spec()});
    if let Some(patch) = missing(stored, &owned) {
        draft.children.push(Command::Merge {
            target: target_of_value(desired.kind, stored),
            patch,
        });
    }
}

/// What of `wanted` is not in `stored`, as a merge patch.
pub(crate) fn missing(stored: &Value, wanted: &Value) -> Option<Value> {
    match (stored, wanted) {
        (Value::Object(stored), Value::Object(wanted)) => {
            let patch: serde_json::Map<String, Value> = wanted
                .iter()
                .filter_map(|(key, value)| {
                    Some((key.clone(), missing(stored.get(key).unwrap_or(&Value::Null), value)?))
                })
                .collect();
            (!patch.is_empty()).then_some(Value::Object(patch))
        }
        _ => (stored != wanted).then(|| wanted.clone()),
    }
}

fn scaling_groups(replica: &Replica<'_>, draft: &mut Draft) {
    let facts = &replica.context.facts;
    for group in &replica.layout.groups {
        let desired = objects::scaling_group(facts, &replica.layout, group);
        let Some(stored) = replica.snapshot.groups.get(&group.name) else {
            draft.children.push(Command::Create(desired));
            continue;
        };
        if stored.metadata.deletion_timestamp.is_some() {
            // Somebody deleted a group that is wanted: let it go with all that it owns, then make it anew.
            super::teardown::group(stored, replica.snapshot, draft);
            continue;
        }
        let mut owned = json!({"metadata": {"labels": desired.metadata.labels}, "spec": desired.spec()});
        if let Some(spec) = owned["spec"].as_object_mut() {
            spec.remove("replicas");
        }
        let current = json!({"metadata": {"labels": stored.metadata.labels}, "spec": stored.spec});
        if let Some(patch) = missing(&current, &owned) {
            let target = target_of(Kind::PodCliqueScalingGroup, &stored.metadata);
            if patch.get("spec").is_some() {
                draft.statuses.push(Command::Event {
                    target: target.clone(),
                    warning: true,
                    reason: Reason::ManagedFieldsRestored,
                    message: format!(
                        "another client changed fields that follow PodCliqueSet {}; they were restored. Edit the PodCliqueSet instead",
                        facts.name()
                    ),
                });
            }
            draft.children.push(Command::Merge { target, patch });
        }
    }
    let wanted: BTreeSet<&str> = replica.layout.groups.iter().map(|group| group.name.as_str()).collect();
    for (name, stored) in &replica.snapshot.groups {
        if !wanted.contains(name.as_str()) {
            super::teardown::group(stored, replica.snapshot, draft);
        }
    }
}

fn cliques(replica: &Replica<'_>, directive: Directive, draft: &mut Draft) {
    let facts = &replica.context.facts;
    let mut weights: BTreeMap<usize, usize> = BTreeMap::new();
    for (index, (clique, state)) in replica.layout.cliques.iter().zip(&replica.cliques).enumerate() {
        let owner = match clique.place {
            Place::Standalone => Owner::set(facts.set),
            Place::Member { group, .. } => {
                // The owner's uid is known once the group exists; until then the clique waits for the next plan.
                let Some(stored) = replica.snapshot.groups.get(&replica.layout.groups[group].name) else {
                    continue;
                };
                Owner::of(Kind::PodCliqueScalingGroup, &stored.metadata)
            }
        };
        match state.stored {
            None if state.doomed || state.held || !draft.room.is_left() => {}
            None => {
                let Some((source, hash)) = template_of_new(replica, index) else {
                    let message = "the template of its revision is not stored; it is created when it is".to_owned();
                    draft.wait(&clique.name, Reason::RevisionMissing, message);
                    continue;
                };
                let desired = objects::pod_clique(facts, &replica.layout, clique, (source, &hash), &owner);
                let bytes = *weights.entry(clique.position).or_insert_with(|| weight(&desired));
                draft.room.take(bytes);
                draft.children.push(Command::Create(desired));
            }
            Some(stored) if !state.alive() => {
                // Somebody deleted a clique that is wanted, or its group: let it go completely, then make it anew.
                super::teardown::clique(stored, replica.snapshot, draft);
            }
            Some(stored) if directive != Directive::Hold => {
                // What is not part of the template follows at once; the template itself is the strategy's business.
                let wanted = &facts.cliques[clique.position].template.spec.auto_scaling_config;
                if let Some(patch) = merge_patch(&json!(stored.spec.auto_scaling_config), &json!(wanted)) {
                    let target = target_of(Kind::PodClique, &stored.metadata);
                    draft.merge_child(target, json!({"spec": {"autoScalingConfig": patch}}));
                }
                keep_offset(replica, clique, stored, draft);
            }
            Some(stored) => keep_offset(replica, clique, stored, draft),
        }
    }
    let wanted: BTreeSet<&str> = replica
        .layout
        .cliques
        .iter()
        .map(|clique| clique.name.as_str())
        .collect();
    for (name, stored) in &replica.snapshot.cliques {
        if !wanted.contains(name.as_str()) {
            super::teardown::clique(stored, replica.snapshot, draft);
        }
    }
}

/// The template that a clique is created with, and its hash: the set's, or with coherent updates that of its gang.
fn template_of_new<'r>(replica: &'r Replica<'_>, index: usize) -> Option<(TemplateSource<'r>, String)> {
    if replica.context.coherent() {
        let source = rendering::source_of_clique(replica, index)?;
        return Some((source.template, source.hash));
    }
    let position = replica.layout.cliques[index].position;
    let hash = replica.context.identities[position].label();
    Some((TemplateSource::of_set(&replica.context.facts, position), hash))
}

/// Keeps the record of how many pods stand before those of a clique in its copy. Pods keep the index that they were made
/// with.
fn keep_offset(replica: &Replica<'_>, clique: &CliqueLayout, stored: &PodClique, draft: &mut Draft) {
    let Some(offset) = objects::pod_index_offset(&replica.layout, clique) else {
        return;
    };
    let offset = offset.to_string();
    let annotations = stored.metadata.annotations.as_ref();
    if annotations.and_then(|all| all.get(annotations::POD_INDEX_OFFSET)) != Some(&offset) {
        let target = target_of(Kind::PodClique, &stored.metadata);
        let patch = json!({"metadata": {"annotations": {annotations::POD_INDEX_OFFSET: offset}}});
        draft.merge_child(target, patch);
    }
}
