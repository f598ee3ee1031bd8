//! Plans what concerns the whole set: acceptance of a new template, the order of an update, permissions, revisions,
//! status, and letting go of a deleted set.
//!
//! It sees replicas only as summaries, so its work for an event in one of 500 replicas is a sum over small numbers.

mod acceptance;
mod coherent;
mod progress;
mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coppice_api::names::finalizers;
use coppice_api::names::label_sets::ClaimOwner;
use coppice_api::types::PodCliqueSetStatus;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::{Value, json};

pub use acceptance::adopted_hash;

use crate::command::{Command, Kind, Target, Urgency, status_patch};
use crate::conditions::{self, ConditionType};
use crate::context::SetContext;
use crate::failure::Failure;
use crate::object::{NewObject, Owner};
use crate::objects;
use crate::reasons::Reason;
use crate::replica::{ReplicaSummary, predecessor};
use crate::report::TOO_LARGE;
use crate::snapshot::{target_of, target_of_value};

/// What was read of a set besides its replicas.
#[derive(Clone, Debug, Default)]
pub struct SetSnapshot {
    /// Summaries of all replicas that are wanted or have objects left, by index.
    pub replicas: BTreeMap<u32, ReplicaSummary>,
    /// The Role for waiting pods, when it exists.
    pub role: Option<Arc<Value>>,
    /// The RoleBinding for waiting pods, when it exists.
    pub role_binding: Option<Arc<Value>>,
    /// The set's revisions.
    pub revisions: Vec<Arc<ControllerRevision>>,
    /// ResourceClaims that all replicas share, by name.
    pub claims: BTreeMap<String, Arc<Value>>,
    /// Replicas of which objects exist, whether they were planned or not. Only a set that is being deleted needs them.
    pub existing: BTreeSet<u32>,
    /// Writes for the set as a whole that the API server refused when they were tried last.
    pub failures: Vec<Failure>,
}

/// What to do for a set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetPlan {
    /// Commands, stage by stage.
    pub stages: Vec<Vec<Command>>,
    /// Replicas that must be planned first; while there are any, there are no commands.
    pub unseen: Vec<u32>,
}

/// Plans what concerns the whole set.
pub fn plan_set(context: &SetContext<'_>, snapshot: &SetSnapshot, now: Timestamp) -> SetPlan {
    let mut plan = SetPlan::default();
    let set = context.facts.set;
    plan.unseen = unseen(context, snapshot);
    if !plan.unseen.is_empty() {
        return plan;
    }
    let target = target_of(Kind::PodCliqueSet, &set.metadata);
    if context.deleting() {
        plan.stages.extend(release(context, snapshot));
        return plan;
    }
    let left = of_predecessor(context, snapshot);
    if !left.is_empty() {
        plan.stages = vec![left.into_iter().flatten().collect()];
        plan.stages.retain(|stage| !stage.is_empty());
        return plan;
    }
    let mut first = Vec::new();
    let finalizers = set.metadata.finalizers.clone().unwrap_or_default();
    let held = finalizers.iter().any(|name| name == finalizers::POD_CLIQUE_SET);
    if !held {
        let with_ours: Vec<&str> = finalizers
            .iter()
            .map(String::as_str)
            .chain([finalizers::POD_CLIQUE_SET])
            .collect();
        first.push(Command::Merge {
            target: target.clone(),
            patch: json!({"metadata": {"finalizers": with_ours}}),
        });
    }
    let (granting, granted): (Vec<_>, Vec<_>) = permissions(context, snapshot)
        .into_iter()
        .partition(|command| !creates_binding(command));
    first.extend(granting);
    let missing = claims(context, snapshot, &mut first);
    let acceptance = acceptance::decide(context, snapshot);
    first.extend(acceptance::record(context, snapshot, &acceptance));

    let before = set.status.clone().unwrap_or_default();
    let mut after = before.clone();
    if context.coherent() {
        coherent::advance(context, snapshot, &acceptance, now, &mut after);
    } else {
        progress::advance(context, snapshot, &acceptance, now, &mut after);
    }
    let accepted = acceptance != acceptance::Acceptance::Changed;
    status::count(context, snapshot, &missing, accepted, now, &mut after);
    // An API server refuses a binding to a role that it does not have yet.
    let mut second = granted;
    // The finalizer's patch moves the version on, so a status in the same plan would be refused: the next plan writes it.
    let changed = status_patch(set.status.as_ref(), &after).filter(|_| held);
    if let Some(patch) = changed {
        let decided = before.current_generation_hash != after.current_generation_hash
            || before
                .update_progress
                .as_ref()
                .map(|progress| &progress.currently_updating)
                != after
                    .update_progress
                    .as_ref()
                    .map(|progress| &progress.currently_updating);
        let settled = after.available_replicas == after.replicas && after.updated_replicas == after.replicas;
        let news = before.last_errors != after.last_errors;
        let observed = before.observed_generation != after.observed_generation;
        let urgency = if decided || settled || news || observed {
            Urgency::Now
        } else {
            Urgency::Settling
        };
        let described = |status: &PodCliqueSetStatus, code: &str| {
            let mut errors = status.last_errors.iter();
            let error = errors.find(|error| error.code == code);
            error.map(|error| error.description.clone())
        };
        for (code, reason) in [
            (status::TEMPLATE_ERROR, Reason::ResourceClaimTemplateNotFound),
            (TOO_LARGE, Reason::TooLarge),
        ] {
            let message = described(&after, code).filter(|message| described(&before, code).as_ref() != Some(message));
            second.extend(message.map(|message| Command::Event {
                target: target.clone(),
                warning: true,
                reason,
                message,
            }));
        }
        second.extend(news_of_update(&before, &after, &target));
        if let Some(message) =
            status::told_guarantees(&after).filter(|message| status::told_guarantees(&before) != Some(message))
        {
            second.push(Command::Event {
                target: target.clone(),
                warning: true,
                reason: Reason::PodsPlacedOneByOne,
                message: message.to_owned(),
            });
        }
        second.push(Command::Status { target, patch, urgency });
    }
    plan.stages = vec![first, second];
    plan.stages.retain(|stage| !stage.is_empty());
    plan
}

/// What an earlier set of the same name left that concerns all replicas, each with the command that deletes it unless that was
/// done. Nothing is created beside it.
fn of_predecessor(context: &SetContext<'_>, snapshot: &SetSnapshot) -> Vec<Option<Command>> {
    let Some(uid) = context.facts.set.metadata.uid.as_deref() else {
        return Vec::new();
    };
    let revisions = snapshot
        .revisions
        .iter()
        .filter(|revision| predecessor::is_of_other(&revision.metadata, uid));
    let revisions = revisions.map(|revision| {
        let target = target_of(Kind::ControllerRevision, &revision.metadata);
        revision
            .metadata
            .deletion_timestamp
            .is_none()
            .then_some(Command::Delete { target })
    });
    let roles = snapshot.role.iter().map(|role| (Kind::Role, role));
    let bindings = snapshot.role_binding.iter().map(|binding| (Kind::RoleBinding, binding));
    let claims = snapshot.claims.values().map(|claim| (Kind::ResourceClaim, claim));
    let documents = roles.chain(bindings).chain(claims);
    let documents = documents.filter(|(_, object)| predecessor::is_document_of_other(object, uid));
    let documents = documents.map(|(kind, object)| {
        let target = target_of_value(kind, object);
        (!object["metadata"]["deletionTimestamp"].is_string()).then_some(Command::Delete { target })
    });
    revisions.chain(documents).collect()
}

/// What people are to know of a coherent update: that it stands still, and that it was taken back.
fn news_of_update(before: &PodCliqueSetStatus, after: &PodCliqueSetStatus, target: &Target) -> Vec<Command> {
    let event = |reason: Reason, message: String| Command::Event {
        target: target.clone(),
        warning: true,
        reason,
        message,
    };
    let stuck = |status: &PodCliqueSetStatus| {
        let found = conditions::find(&status.conditions, ConditionType::UpdateInProgress)?;
        (found.reason == Reason::ProgressDeadlineExceeded).then(|| found.message.clone())
    };
    let rolled_back = |status: &PodCliqueSetStatus| {
        let progress = status.update_progress.as_ref();
        progress.is_some_and(|progress| progress.rolled_back == Some(true))
    };
    let mut news = Vec::new();
    if let Some(message) = stuck(after).filter(|_| stuck(before).is_none()) {
        news.push(event(Reason::ProgressDeadlineExceeded, message));
    }
    if rolled_back(after) && !rolled_back(before) {
        let message = "pods with the new template were scheduled and did not get ready within progressDeadline; replicas go \
                       back to the templates before (onFailure: Rollback)";
        news.push(event(Reason::UpdateRolledBack, message.to_owned()));
    }
    news
}

/// Replicas of which nothing is known since the set was changed last. Whether a template is new, what a stored hash
/// means and which replica is updated first is decided by all of them, so it waits until each was looked at.
fn unseen(context: &SetContext<'_>, snapshot: &SetSnapshot) -> Vec<u32> {
    let set = context.facts.set;
    let status = set.status.as_ref();
    let seen = |index: &u32| {
        let summary = snapshot.replicas.get(index);
        summary.is_some_and(|summary| summary.generation == set.metadata.generation)
    };
    if context.deleting() {
        return snapshot.existing.iter().copied().filter(|index| !seen(index)).collect();
    }
    if status.is_none_or(|status| status.current_generation_hash.is_none()) {
        return Vec::new();
    }
    if context.facts.too_many_replicas() {
        let existing = snapshot.replicas.iter().filter(|(_, replica)| replica.exists);
        return existing.map(|(index, _)| *index).filter(|index| !seen(index)).collect();
    }
    (0..context.facts.replicas()).filter(|index| !seen(index)).collect()
}

/// Lets go of a deleted set when all that it must outlive is being deleted.
fn release(context: &SetContext<'_>, snapshot: &SetSnapshot) -> Option<Vec<Command>> {
    let metadata = &context.facts.set.metadata;
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    let ours = finalizers.iter().any(|name| name == finalizers::POD_CLIQUE_SET);
    if !ours || snapshot.replicas.values().any(|replica| replica.exists) {
        return None;
    }
    let others: Vec<&String> = finalizers
        .iter()
        .filter(|name| *name != finalizers::POD_CLIQUE_SET)
        .collect();
    let target = target_of(Kind::PodCliqueSet, metadata);
    Some(vec![Command::Merge {
        target,
        patch: json!({"metadata": {"finalizers": others}}),
    }])
}

/// Creates the claims that all replicas share. Returns the templates that are missing, those that replicas lack
/// included.
fn claims(context: &SetContext<'_>, snapshot: &SetSnapshot, commands: &mut Vec<Command>) -> BTreeSet<String> {
    let facts = &context.facts;
    let wanted = snapshot.replicas.range(..facts.replicas());
    let mut missing: BTreeSet<String> = wanted
        .flat_map(|(_, replica)| replica.missing_templates.clone())
        .collect();
    let sharing = &facts.set.spec.template.resource_sharing;
    for claim in objects::wanted_claims(ClaimOwner::Set(facts.name()), sharing, &BTreeSet::new()) {
        if snapshot.claims.contains_key(&claim.name) {
            continue;
        }
        match objects::claim_content(context, claim.sharing) {
            Some(content) => {
                let object = objects::resource_claim(facts, &claim, &Owner::set(facts.set), content);
                commands.push(Command::Create(object));
            }
            None => {
                let (namespace, name) = objects::template_object(facts, claim.sharing);
                missing.insert(format!("{namespace}/{name}"));
            }
        }
    }
    missing
}

/// Keeps the permission of the account that is named after the set. The Go operator gives its token to waiting pods, and
/// those that wait while we take over would wait for ever without it.
fn keep_account(context: &SetContext<'_>, stored: Option<&Value>, mut binding: NewObject) -> NewObject {
    let subjects = stored.and_then(|stored| stored["subjects"].as_array());
    let kept = subjects.and_then(|subjects| subjects.iter().find(|subject| subject["name"] == context.facts.name()));
    if let (Some(kept), Some(wanted)) = (kept, binding.body.field_mut("subjects").as_array_mut())
        && !wanted.contains(kept)
    {
        wanted.insert(0, kept.clone());
    }
    binding
}

fn creates_binding(command: &Command) -> bool {
    matches!(command, Command::Create(object) if object.kind == Kind::RoleBinding)
}

/// The role and binding for waiting pods: there when somebody waits, gone when nobody does.
fn permissions(context: &SetContext<'_>, snapshot: &SetSnapshot) -> Vec<Command> {
    let mut commands = Vec::new();
    let binding = objects::reader_role_binding(&context.facts);
    let pairs = [
        (
            Kind::Role,
            &snapshot.role,
            objects::reader_role(&context.facts),
            "rules",
        ),
        (
            Kind::RoleBinding,
            &snapshot.role_binding,
            binding.map(|binding| keep_account(context, snapshot.role_binding.as_deref(), binding)),
            "subjects",
        ),
    ];
    for (kind, stored, desired, content) in pairs {
        match (stored, desired) {
            (None, Some(desired)) => commands.push(Command::Create(desired)),
            (Some(stored), None) => commands.push(Command::Delete {
                target: target_of_value(kind, stored),
            }),
            (Some(stored), Some(desired)) if stored[content] != *desired.body.field(content) => {
                commands.push(Command::Merge {
                    target: target_of_value(kind, stored),
                    patch: json!({content: desired.body.field(content)}),
                });
            }
            _ => {}
        }
    }
    commands
}
