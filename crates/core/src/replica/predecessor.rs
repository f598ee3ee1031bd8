//! What is left of an earlier set of the same name: its controller cannot exist any more, because another set has the name.
//!
//! All of it goes before anything is created, so that no object of the earlier set is taken for one of this. The garbage
//! collector would take it too, but may be busy for minutes with a large set.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

use super::{Draft, ReplicaPlan, ReplicaSummary, teardown};
use crate::command::Kind;
use crate::context::SetContext;
use crate::draft::Wait;
use crate::reasons::Reason;
use crate::snapshot::{ReplicaSnapshot, target_of, target_of_value};

/// The plan that deletes what an earlier set left of this replica; none when there is nothing.
pub(super) fn plan(context: &SetContext<'_>, snapshot: &ReplicaSnapshot) -> Option<ReplicaPlan> {
    let uid = context.facts.set.metadata.uid.as_deref()?;
    let mut draft = Draft::default();
    let mut left = false;
    for group in snapshot
        .groups
        .values()
        .filter(|group| is_of_other(&group.metadata, uid))
    {
        left = true;
        let members = snapshot.cliques.values();
        for member in members.filter(|clique| teardown::owned_by(&clique.metadata, &group.metadata)) {
            teardown::clique(member, snapshot, &mut draft);
        }
        teardown::group(group, snapshot, &mut draft);
    }
    for clique in snapshot
        .cliques
        .values()
        .filter(|clique| is_of_other(&clique.metadata, uid))
    {
        left = true;
        teardown::clique(clique, snapshot, &mut draft);
    }
    let gangs = snapshot.gangs.values().map(|gang| (Kind::PodGang, &gang.metadata));
    let map = snapshot.map.iter().map(|map| (Kind::PodGangMap, &map.metadata));
    for (kind, metadata) in gangs.chain(map).filter(|(_, metadata)| is_of_other(metadata, uid)) {
        left = true;
        if metadata.deletion_timestamp.is_none() {
            draft.delete(target_of(kind, metadata));
        }
    }
    for (kind, objects) in [
        (Kind::Service, &snapshot.services),
        (Kind::HorizontalPodAutoscaler, &snapshot.autoscalers),
        (Kind::ResourceClaim, &snapshot.claims),
    ] {
        for object in objects.values().filter(|object| is_document_of_other(object, uid)) {
            left = true;
            if !object["metadata"]["deletionTimestamp"].is_string() {
                draft.delete(target_of_value(kind, object));
            }
        }
    }
    let domains = snapshot.domains.values();
    for domain in domains.filter(|domain| is_document_of_other(domain, uid)) {
        left = true;
        if snapshot.pods.is_empty() {
            super::domains::let_go(domain, &mut draft);
        }
    }
    left.then(|| {
        let summary = ReplicaSummary {
            generation: context.facts.set.metadata.generation,
            exists: true,
            unscheduled: true,
            stall: Some(Wait {
                about: context.facts.name().to_owned(),
                reason: Reason::WaitingForOldPods,
                message: "objects of an earlier PodCliqueSet of this name are not gone yet; new ones follow them"
                    .to_owned(),
                until: None,
            }),
            ..ReplicaSummary::default()
        };
        ReplicaPlan::new(draft, summary)
    })
}

/// Whether the controller of an object is a set, but not the one with this uid.
pub(crate) fn is_of_other(metadata: &ObjectMeta, uid: &str) -> bool {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.any(|owner| owner.controller == Some(true) && owner.kind == "PodCliqueSet" && owner.uid != uid)
}

/// The same of an object that is kept as JSON.
pub(crate) fn is_document_of_other(object: &Value, uid: &str) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    owners
        .into_iter()
        .flatten()
        .any(|owner| owner["controller"] == true && owner["kind"] == "PodCliqueSet" && owner["uid"] != uid)
}
