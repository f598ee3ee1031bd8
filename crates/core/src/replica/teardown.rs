//! Takes down a replica, or one clique of it: pods first, then what owned them, until nothing is left.
//!
//! A finalizer on each clique and group holds the object until what belongs to it is gone, so that an object of the
//! same name can never meet the pods of its predecessor. Of a set that is deleted only what is held by such a finalizer, and
//! its pods, are deleted here: the set is let go as soon as all of that is marked, and the garbage collector takes the rest.

use std::sync::Arc;

use coppice_api::names::finalizers;
use coppice_api::types::{PodClique, PodCliqueScalingGroup};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};

use super::{Draft, ReplicaPlan, ReplicaSummary, domains};
use crate::command::{Command, Kind};
use crate::context::SetContext;
use crate::snapshot::{ReplicaSnapshot, target_of, target_of_value};

/// What Kubernetes puts on an object that is deleted without its dependents.
const ORPHAN: &str = "orphan";

/// Takes down a replica of a set that is being deleted. Its summary says that it exists as long as something must be marked
/// before the set goes. Deleting a set with its dependents orphaned touches none of them.
pub(crate) fn of_deleted_set(context: &SetContext<'_>, snapshot: &ReplicaSnapshot) -> ReplicaPlan {
    let set = &context.facts.set.metadata;
    let finalizers = set.finalizers.as_deref().unwrap_or_default();
    let mut draft = Draft::default();
    let mut summary = ReplicaSummary {
        generation: set.generation,
        ..ReplicaSummary::default()
    };
    if finalizers.iter().any(|name| name == ORPHAN) {
        return ReplicaPlan::new(draft, summary);
    }
    pods_and_owners(snapshot, &mut draft);
    let_domains_go(snapshot, &mut draft);
    let cliques = snapshot.cliques.values().map(|clique| &clique.metadata);
    let mut held = cliques.chain(snapshot.groups.values().map(|group| &group.metadata));
    summary.exists = held.any(|metadata| metadata.deletion_timestamp.is_none());
    ReplicaPlan::new(draft, summary)
}

/// Takes down a replica that its set no longer wants.
pub(crate) fn plan(context: &SetContext<'_>, snapshot: &ReplicaSnapshot) -> ReplicaPlan {
    let mut draft = Draft::default();
    for autoscaler in snapshot.autoscalers.values() {
        draft.delete(target_of_value(Kind::HorizontalPodAutoscaler, autoscaler));
    }
    pods_and_owners(snapshot, &mut draft);
    if snapshot.pods.is_empty() && snapshot.cliques.is_empty() {
        for gang in snapshot
            .gangs
            .values()
            .filter(|gang| gang.metadata.deletion_timestamp.is_none())
        {
            draft.delete(target_of(Kind::PodGang, &gang.metadata));
        }
        if let Some(map) = snapshot
            .map
            .as_ref()
            .filter(|map| map.metadata.deletion_timestamp.is_none())
        {
            draft.delete(target_of(Kind::PodGangMap, &map.metadata));
        }
        for domain in snapshot.domains.values() {
            domains::let_go(domain, &mut draft);
        }
        for claim in snapshot.claims.values() {
            if !claim["metadata"]["deletionTimestamp"].is_string() {
                draft.delete(target_of_value(Kind::ResourceClaim, claim));
            }
        }
        for service in snapshot.services.values() {
            if !service["metadata"]["deletionTimestamp"].is_string() {
                draft.delete(target_of_value(Kind::Service, service));
            }
        }
    }
    let exists = !(snapshot.pods.is_empty()
        && snapshot.cliques.is_empty()
        && snapshot.groups.is_empty()
        && snapshot.gangs.is_empty()
        && snapshot.map.is_none()
        && snapshot.services.is_empty()
        && snapshot.autoscalers.is_empty()
        && snapshot.domains.is_empty());
    let summary = ReplicaSummary {
        generation: context.facts.set.metadata.generation,
        exists,
        ..ReplicaSummary::default()
    };
    ReplicaPlan::new(draft, summary)
}

/// Takes down all cliques and groups, with their pods and those that belong to none of them.
fn pods_and_owners(snapshot: &ReplicaSnapshot, draft: &mut Draft) {
    for stored in snapshot.cliques.values() {
        clique(stored, snapshot, draft);
    }
    for stored in snapshot.groups.values() {
        group(stored, snapshot, draft);
    }
    for pod in snapshot.pods.values().filter(|pod| !pod.deleting) {
        let owned = snapshot
            .cliques
            .values()
            .any(|clique| clique.metadata.uid.as_deref() == Some(&pod.owner_uid));
        if !owned {
            draft.delete(pod.target());
        }
    }
}

/// Lets go of the domains that the garbage collector deletes, once no pod is left that may use one.
fn let_domains_go(snapshot: &ReplicaSnapshot, draft: &mut Draft) {
    if snapshot.pods.is_empty() {
        let leaving = |domain: &&Arc<Value>| domain["metadata"]["deletionTimestamp"].is_string();
        for domain in snapshot.domains.values().filter(leaving) {
            domains::let_go(domain, draft);
        }
    }
}

/// Lets go of what somebody else deletes while there is no set: the set went before it was ours to hold, and its
/// children went after it. Deletes nothing on its own account but the pods and members of what is being deleted.
pub fn plan_abandoned(snapshot: &ReplicaSnapshot) -> ReplicaPlan {
    let deleted = |metadata: &ObjectMeta| metadata.deletion_timestamp.is_some();
    let mut draft = Draft::default();
    for stored in snapshot.cliques.values() {
        let groups = snapshot.groups.values().filter(|group| deleted(&group.metadata));
        let mut owners = groups.filter(|group| owned_by(&stored.metadata, &group.metadata));
        if deleted(&stored.metadata) || owners.next().is_some() {
            clique(stored, snapshot, &mut draft);
        }
    }
    for stored in snapshot.groups.values().filter(|group| deleted(&group.metadata)) {
        group(stored, snapshot, &mut draft);
    }
    let_domains_go(snapshot, &mut draft);
    ReplicaPlan::new(draft, ReplicaSummary::default())
}

/// Takes down one clique that is no longer wanted, or goes on where somebody else began.
pub(crate) fn clique(stored: &PodClique, snapshot: &ReplicaSnapshot, draft: &mut Draft) {
    let uid = stored.metadata.uid.as_deref().unwrap_or_default();
    let mut has_pods = false;
    for pod in snapshot.pods.values().filter(|pod| pod.owner_uid == uid) {
        has_pods = true;
        if !pod.deleting {
            draft.delete(pod.target());
        }
    }
    take_down(
        Kind::PodClique,
        &stored.metadata,
        finalizers::POD_CLIQUE,
        has_pods,
        draft,
    );
}

/// Takes down a scaling group, or goes on where somebody else began. It goes after its cliques.
pub(crate) fn group(stored: &PodCliqueScalingGroup, snapshot: &ReplicaSnapshot, draft: &mut Draft) {
    let has_members = snapshot
        .cliques
        .values()
        .any(|clique| owned_by(&clique.metadata, &stored.metadata));
    take_down(
        Kind::PodCliqueScalingGroup,
        &stored.metadata,
        finalizers::POD_CLIQUE_SCALING_GROUP,
        has_members,
        draft,
    );
}

/// Deletes an object, and lets it go when nothing holds it any more.
fn take_down(kind: Kind, metadata: &ObjectMeta, finalizer: &str, held: bool, draft: &mut Draft) {
    let target = target_of(kind, metadata);
    if metadata.deletion_timestamp.is_none() {
        draft.delete(target);
        return;
    }
    let finalizers = metadata.finalizers.as_deref().unwrap_or_default();
    if !held && finalizers.iter().any(|name| name == finalizer) {
        let others: Vec<&String> = finalizers.iter().filter(|name| *name != finalizer).collect();
        draft.pods.push(Command::Merge {
            target,
            patch: json!({"metadata": {"finalizers": others}}),
        });
    }
}

pub(super) fn owned_by(child: &ObjectMeta, owner: &ObjectMeta) -> bool {
    let references = child.owner_references.as_deref().unwrap_or_default();
    references
        .iter()
        .any(|reference| Some(&reference.uid) == owner.uid.as_ref())
}
