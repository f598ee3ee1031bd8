//! Whether the set's templates are what its status says, and what to record when they are not.
//!
//! The status holds a hash. One of ours answers by itself. Any other was written by another operator, or by another
//! version of ours: it names the templates of the revision that carries it as an annotation. Without such a revision
//! we have never met the set; if every stored clique means what the set's template means, the hash is adopted as a name for
//! it, and nothing is restarted.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_api::canonical::CliqueOrder;
use coppice_api::names::annotations;
use coppice_api::names::label_sets::managed_labels;
use coppice_api::revision::{
    CliqueTemplate, DEFAULT_HISTORY_LIMIT, DesiredRevision, HASH_LABEL, HistoryStep, RevisionContent, plan_history,
};
use coppice_api::types::CliqueStartupType;
use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::json;

use super::SetSnapshot;
use crate::command::{Command, Kind, Target};
use crate::context::{SetContext, template_view};
use crate::object::{Body, Metadata, NewObject, Owner};

/// What becomes of the set's templates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Acceptance {
    /// The status knows them.
    Known,
    /// The set is new.
    New,
    /// They are known under a hash that somebody else wrote.
    Adopt(String),
    /// They changed.
    Changed,
}

/// The hash that somebody else wrote and that names these templates, by the set's revisions.
pub fn adopted_hash(context: &SetContext<'_>, revisions: &[Arc<ControllerRevision>]) -> Option<String> {
    revisions.iter().find_map(|revision| {
        let hash = revision
            .metadata
            .annotations
            .as_ref()?
            .get(annotations::ADOPTED_GENERATION_HASH)?;
        let content = RevisionContent::read(revision).ok()?;
        (content.generation() == context.generation).then(|| hash.clone())
    })
}

pub(crate) fn decide(context: &SetContext<'_>, snapshot: &SetSnapshot) -> Acceptance {
    let hash = context
        .facts
        .set
        .status
        .as_ref()
        .and_then(|status| status.current_generation_hash.as_deref());
    let Some(hash) = hash.filter(|hash| !hash.is_empty()) else {
        return Acceptance::New;
    };
    if context.accepted() == Some(true) {
        return Acceptance::Known;
    }
    let met_before = !snapshot.revisions.is_empty();
    let unchanged = snapshot.replicas.values().all(|replica| replica.current);
    if !met_before && unchanged {
        Acceptance::Adopt(hash.to_owned())
    } else {
        Acceptance::Changed
    }
}

/// The steps that make the set's templates its newest revision.
pub(crate) fn record(context: &SetContext<'_>, snapshot: &SetSnapshot, acceptance: &Acceptance) -> Vec<Command> {
    let facts = &context.facts;
    let metadata = &facts.set.metadata;
    let cliques: Vec<CliqueTemplate<'_>> = (0..facts.cliques.len())
        .map(|position| CliqueTemplate {
            name: &facts.cliques[position].template.name,
            template: template_view(facts, position),
        })
        .collect();
    let order = match facts.set.spec.template.clique_startup_type {
        Some(CliqueStartupType::InOrder) => CliqueOrder::Counts,
        _ => CliqueOrder::Free,
    };
    let desired = DesiredRevision {
        set_name: facts.name(),
        namespace: facts.namespace(),
        owner: Owner::set(facts.set).reference(),
        labels: managed_labels(facts.name()),
        cliques: &cliques,
        order,
        collisions: 0,
        set_generation: metadata.generation,
    };
    let limit = facts.set.spec.revision_history_limit;
    let limit = limit.map_or(DEFAULT_HISTORY_LIMIT, |limit| usize::try_from(limit).unwrap_or(0));
    let history = plan_history(
        &snapshot.revisions,
        &desired,
        limit,
        &super::coherent::in_use(context, snapshot),
    );
    let target = |name: String, uid: Option<String>, version: Option<String>| Target {
        kind: Kind::ControllerRevision,
        namespace: facts.namespace().to_owned(),
        name,
        uid: uid.unwrap_or_default(),
        resource_version: version.unwrap_or_default(),
    };
    let uid_of = |name: &str| {
        let revision = snapshot
            .revisions
            .iter()
            .find(|revision| revision.metadata.name.as_deref() == Some(name));
        revision.and_then(|revision| revision.metadata.uid.clone())
    };
    let cause = metadata
        .annotations
        .as_ref()
        .and_then(|all| all.get(annotations::CHANGE_CAUSE));
    let annotate = history
        .steps
        .is_empty()
        .then(|| uncaused(context, snapshot, &history.current, cause));
    let steps = history.steps.into_iter().map(|step| match step {
        HistoryStep::Create(revision) => {
            let mut object = created(*revision, Owner::set(facts.set));
            if let Some(cause) = cause {
                object
                    .metadata
                    .annotations
                    .insert(annotations::CHANGE_CAUSE.to_owned(), cause.clone());
            }
            if let Acceptance::Adopt(hash) = acceptance {
                let key = annotations::ADOPTED_GENERATION_HASH.to_owned();
                object.metadata.annotations.insert(key, hash.clone());
            }
            Command::Create(object)
        }
        HistoryStep::Bump {
            name,
            resource_version,
            revision,
        } => {
            let uid = uid_of(&name);
            Command::Merge {
                target: target(name, uid, resource_version),
                patch: json!({"revision": revision}),
            }
        }
        HistoryStep::Delete { name, uid } => Command::Delete {
            target: target(name, uid, None),
        },
    });
    let annotated = annotate.flatten().map(|revision| {
        let (uid, version) = (
            revision.metadata.uid.clone(),
            revision.metadata.resource_version.clone(),
        );
        Command::Merge {
            target: target(revision.metadata.name.clone().unwrap_or_default(), uid, version),
            patch: json!({"metadata": {"annotations": {annotations::CHANGE_CAUSE: cause}}}),
        }
    });
    steps.chain(annotated).collect()
}

/// The current revision, when it says another cause than its set. A set without a cause leaves that of a revision alone.
fn uncaused<'a>(
    context: &SetContext<'_>,
    snapshot: &'a SetSnapshot,
    current: &str,
    cause: Option<&String>,
) -> Option<&'a ControllerRevision> {
    let cause = cause?;
    let mut revisions = snapshot.revisions.iter();
    let revision = revisions.find(|revision| revision.metadata.name.as_deref() == Some(current))?;
    let text = |map: &Option<BTreeMap<String, String>>, key: &str| map.as_ref().and_then(|map| map.get(key).cloned());
    // Whoever reads an older set must not annotate the revision of a newer one.
    let label = text(&revision.metadata.labels, HASH_LABEL);
    let is_of_set = label.is_some_and(|label| context.generation.matches_label(&label));
    (is_of_set && text(&revision.metadata.annotations, annotations::CHANGE_CAUSE).as_ref() != Some(cause))
        .then_some(revision.as_ref())
}

/// A revision as an object to create.
fn created(revision: ControllerRevision, owner: Owner) -> NewObject {
    NewObject {
        kind: Kind::ControllerRevision,
        metadata: Metadata {
            name: revision.metadata.name.unwrap_or_default(),
            namespace: revision.metadata.namespace.unwrap_or_default(),
            labels: revision.metadata.labels.unwrap_or_default(),
            annotations: revision.metadata.annotations.unwrap_or_default(),
            ..Metadata::default()
        },
        owner: Some(owner),
        body: Body::from_fields([("data", json!(revision.data)), ("revision", revision.revision.into())]),
    }
}
