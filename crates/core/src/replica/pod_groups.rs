//! The objects that stand for the gangs of a replica at other schedulers. One is written when its gang is stored, because
//! the gang owns it; it goes with the gang, or before it when nothing is left to place.

use std::collections::BTreeMap;

use coppice_api::types::PodGang;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use super::{Draft, Replica};
use crate::backends::{Gang, Limit, Wanted};
use crate::command::Command;
use crate::conditions::{self, ConditionType, Verdict};
use crate::context::SetContext;
use crate::reasons::Reason;
use crate::snapshot::target_of_value;

/// What became of the objects, by name of the gang.
pub(crate) type PodGroupReports = BTreeMap<String, PodGroupReport>;

/// What became of the object of a gang.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PodGroupReport {
    /// What the scheduler of the gang cannot express.
    pub(crate) limits: Vec<Limit>,
    /// Why the gang is not placed, in the words of its scheduler.
    pub(crate) waits_for: Option<String>,
}

/// Writes the object of a gang that is stored and about to be patched. None where the scheduler needs no object.
pub(crate) fn plan(
    replica: &Replica<'_>,
    stored: &PodGang,
    patch: Option<&Value>,
    draft: &mut Draft,
) -> Option<(String, PodGroupReport)> {
    let context = replica.context;
    let backend = context.backend();
    let kind = backend.kind()?;
    let name = stored.metadata.name.clone()?;
    let mut report = PodGroupReport::default();
    if context.backend.not_served {
        report.limits.push(Limit::NotServed {
            version: kind.api_version(),
        });
        return Some((name, report));
    }
    let patched = patch.and_then(|patch| merged(stored, patch));
    let gang = Gang {
        object: patched.as_ref().unwrap_or(stored),
        facts: &context.facts,
        topology: context.backend.topology.as_ref(),
    };
    let mapping = backend.map(&gang);
    report.limits = mapping.limits;
    let existing = replica.snapshot.pod_groups.get(&(kind, name.clone()));
    let ours = existing.is_none_or(|existing| owned_by(existing, stored));
    if !ours {
        report.limits.push(Limit::OwnedByOther);
        return Some((name, report));
    }
    let existing = existing.filter(|existing| !existing["metadata"]["deletionTimestamp"].is_string());
    match (mapping.object, existing) {
        (Wanted::Object(wanted), Some(existing)) => {
            let correction = backend.correct(&gang, existing, &wanted);
            report.limits.extend(correction.limits);
            report.waits_for = backend.waits_for(existing);
            if let Some(patch) = correction.patch {
                let target = target_of_value(kind, existing);
                draft.gangs.push(Command::Merge { target, patch });
            }
        }
        // One that is being deleted is written again when it is gone.
        (Wanted::Object(wanted), None) if !replica.snapshot.pod_groups.contains_key(&(kind, name.clone())) => {
            draft.gangs.push(Command::Create(*wanted));
        }
        (Wanted::Nothing, Some(existing)) => draft.delete(target_of_value(kind, existing)),
        (Wanted::Unknown, Some(existing)) => report.waits_for = backend.waits_for(existing),
        _ => {}
    }
    Some((name, report))
}

/// Annotations that the gang itself lacks for its scheduler.
pub(crate) fn gang_annotations(context: &SetContext<'_>, stored: &PodGang) -> Vec<(String, Value)> {
    let existing = stored.metadata.annotations.as_ref();
    let has = |key: &str, value: &str| {
        existing
            .and_then(|all| all.get(key))
            .is_some_and(|found| found == value)
    };
    let wanted = context.backend().gang_annotations().iter();
    wanted
        .filter(|(key, value)| !has(key, value))
        .map(|(key, value)| ((*key).to_owned(), (*value).into()))
        .collect()
}

/// Reports on a gang what its scheduler cannot express.
pub(crate) fn report_limits(
    report: Option<&PodGroupReport>,
    all: &mut Vec<Condition>,
    generation: Option<i64>,
    now: Timestamp,
) {
    let limits = report.map(|report| report.limits.as_slice()).unwrap_or_default();
    if limits.is_empty() {
        conditions::remove(all, ConditionType::SchedulerBackendLimited);
        return;
    }
    let messages: Vec<String> = limits.iter().map(Limit::message).collect();
    let verdict = Verdict {
        kind: ConditionType::SchedulerBackendLimited,
        status: Some(true),
        reason: Reason::NotExpressible,
        message: messages.join("; "),
    };
    conditions::set(all, verdict, generation, now);
}

fn owned_by(object: &Value, gang: &PodGang) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let uid = gang.metadata.uid.as_deref();
    let mut owners = owners.into_iter().flatten();
    owners.any(|owner| owner["controller"] == true && owner["uid"].as_str() == uid)
}

/// A gang as it will be after a merge patch.
fn merged(stored: &PodGang, patch: &Value) -> Option<PodGang> {
    let mut gang = json!(stored);
    merge(&mut gang, patch);
    serde_json::from_value(gang).ok()
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Value::Object(target) = target else { return };
    for (key, value) in patch {
        if value.is_null() {
            target.remove(key);
        } else {
            merge(target.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}
