//! The shared resource claims of a replica: those of its groups and cliques, and those that the set gives each replica.
//!
//! A claim is created before the pods that use it and deleted after the last of them, those that are being deleted
//! included. A pod that ended uses none. A clique has a claim for each index that one of its pods has or is about to get, so no pod is ever left
//! with a claim that is gone. What a claim asks for is never changed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coppice_api::names::label_sets::ClaimOwner;
use coppice_api::names::{annotations, labels};
use serde_json::{Value, json};

use super::{Draft, Replica, children, pods, weight};
use crate::command::{Command, Kind};
use crate::object::Owner;
use crate::objects::{self, WantedClaim};
use crate::reasons::Reason;
use crate::snapshot::{PodFacts, ReplicaSnapshot, target_of_value};

/// What claims mean for pods.
#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// Positions of cliques whose new pods wait for a claim.
    pub(crate) waiting: BTreeSet<usize>,
    /// ResourceClaimTemplates that are missing, as `namespace/name`.
    pub(crate) missing: BTreeSet<String>,
}

/// A claim, who owns it once that object exists, and which cliques use it.
struct Planned<'a> {
    claim: WantedClaim<'a>,
    owner: Option<Owner>,
    users: Vec<usize>,
}

pub(crate) fn plan(replica: &Replica<'_>, draft: &mut Draft) -> Claims {
    let mut claims = Claims::default();
    let context = replica.context;
    let planned = wanted(replica);
    for entry in &planned {
        let stored = replica.snapshot.claims.get(&entry.claim.name);
        if let Some(stored) = stored {
            if stored["metadata"]["deletionTimestamp"].is_string() {
                hold(
                    replica,
                    entry,
                    Reason::WaitingForResourceClaim,
                    "is being deleted",
                    &mut claims,
                    draft,
                );
            } else {
                let labels = json!({"metadata": {"labels": entry.claim.labels}});
                if let Some(patch) = children::missing(stored, &labels) {
                    let target = target_of_value(Kind::ResourceClaim, stored);
                    draft.children.push(Command::Merge { target, patch });
                }
            }
            continue;
        }
        let Some(content) = objects::claim_content(context, entry.claim.sharing) else {
            let (namespace, name) = objects::template_object(&context.facts, entry.claim.sharing);
            // Whether the template is missing or not shared is not said: that is for its own namespace to know.
            let mut missing = format!("{namespace}/{name}");
            let user = context.facts.namespace();
            if namespace != user {
                let key = annotations::SHARED_WITH_NAMESPACES;
                missing.push_str(&format!(" with annotation {key}: {user}"));
            }
            let message = format!("has no template: there is no ResourceClaimTemplate {missing}");
            hold(
                replica,
                entry,
                Reason::WaitingForResourceClaimTemplate,
                &message,
                &mut claims,
                draft,
            );
            claims.missing.insert(missing);
            continue;
        };
        if let Some(owner) = entry.owner.as_ref().filter(|_| draft.room.is_left()) {
            draft.room.take(weight(content));
            let claim = objects::resource_claim(&context.facts, &entry.claim, owner, content);
            draft.children.push(Command::Create(claim));
        }
    }
    let names: BTreeSet<&str> = planned.iter().map(|entry| entry.claim.name.as_str()).collect();
    for (name, stored) in &replica.snapshot.claims {
        let leaving = stored["metadata"]["deletionTimestamp"].is_string();
        if !names.contains(name.as_str()) && !leaving && !in_use(stored, replica.snapshot) {
            draft.delete(target_of_value(Kind::ResourceClaim, stored));
        }
    }
    claims
}

fn hold(replica: &Replica<'_>, entry: &Planned<'_>, reason: Reason, why: &str, claims: &mut Claims, draft: &mut Draft) {
    for &index in &entry.users {
        let message = format!("the claim {} {why}", entry.claim.name);
        draft.wait(&replica.layout.cliques[index].name, reason, message);
        claims.waiting.insert(index);
    }
}

/// Every claim that the replica should have.
fn wanted<'a>(replica: &Replica<'a>) -> Vec<Planned<'a>> {
    let facts = &replica.context.facts;
    let (set, index) = (facts.name(), replica.layout.index);
    let mut users_of: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (position, clique) in replica.layout.cliques.iter().enumerate() {
        // Claims of single pods differ only in their index, which any of them stands for.
        for claim in objects::claims_of_pod(facts, index, clique, 0) {
            users_of.entry(claim.name).or_default().push(position);
        }
    }
    let users = |name: &str| users_of.get(name).cloned().unwrap_or_default();
    let mut planned = Vec::new();
    let of_set = &facts.set.spec.template.resource_sharing;
    for claim in objects::wanted_claims(ClaimOwner::Set(set), of_set, &BTreeSet::from([index])) {
        // The claim of all replicas belongs to the planner of the set.
        if claim.labels.contains_key(labels::SET_REPLICA_INDEX) {
            let users = users(&claim.name);
            let owner = Some(Owner::set(facts.set));
            planned.push(Planned { claim, owner, users });
        }
    }
    for group in &replica.layout.groups {
        let config = facts.groups[group.position].config;
        let copies = group.copies.iter().copied().collect();
        let stored = replica.snapshot.groups.get(&group.name);
        let owner = stored.map(|stored| Owner::of(Kind::PodCliqueScalingGroup, &stored.metadata));
        for claim in objects::wanted_claims(
            ClaimOwner::ScalingGroup(set, &group.name),
            &config.resource_sharing,
            &copies,
        ) {
            let users = users(&claim.name);
            let owner = owner.clone();
            planned.push(Planned { claim, owner, users });
        }
    }
    for (position, (clique, state)) in replica.layout.cliques.iter().zip(&replica.cliques).enumerate() {
        let sharing = &facts.cliques[clique.position].template.resource_sharing;
        if sharing.is_empty() {
            continue;
        }
        let of_clique = |pod: &&Arc<PodFacts>| pod.clique == clique.name && pod.ended.is_none();
        let present = replica.snapshot.pods.values().filter(of_clique);
        let mut indices: BTreeSet<u32> = present.filter_map(|pod| pod.index).collect();
        indices.extend(pods::free_slots(state).into_iter().map(|slot| slot.index));
        let owner = state.stored.map(|stored| Owner::of(Kind::PodClique, &stored.metadata));
        for claim in objects::wanted_claims(ClaimOwner::Clique(set, &clique.name), sharing, &indices) {
            let (owner, users) = (owner.clone(), vec![position]);
            planned.push(Planned { claim, owner, users });
        }
    }
    planned
}

/// Whether pods are left that may use a claim. A clique stays until its pods are gone, so it stands for them.
pub(crate) fn in_use(claim: &Value, snapshot: &ReplicaSnapshot) -> bool {
    let label = |key: &str| claim["metadata"]["labels"][key].as_str();
    if let Some(clique) = label(labels::POD_CLIQUE) {
        let index = label(labels::POD_INDEX);
        return snapshot.pods.values().any(|pod| {
            let uses = pod.clique == clique && pod.ended.is_none();
            uses && index.is_none_or(|index| pod.index.is_some_and(|own| own.to_string() == index))
        });
    }
    if let Some(group) = label(labels::SCALING_GROUP) {
        let copy = label(labels::SCALING_GROUP_REPLICA_INDEX);
        return snapshot.cliques.values().any(|clique| {
            let of_clique = |key: &str| {
                clique
                    .metadata
                    .labels
                    .as_ref()
                    .and_then(|all| all.get(key))
                    .map(String::as_str)
            };
            let own_copy = of_clique(labels::SCALING_GROUP_REPLICA_INDEX);
            of_clique(labels::SCALING_GROUP) == Some(group) && (copy.is_none() || own_copy == copy)
        });
    }
    !(snapshot.pods.is_empty() && snapshot.cliques.is_empty())
}
