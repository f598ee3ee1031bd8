//! Multi-node NVLink: which cliques share an NVLink domain, and how their pods get a channel of it.
//!
//! An annotation on the set, a scaling group or a clique names the group; the nearest one wins, and `none` opts out.
//! Each replica has one ComputeDomain for each group that a clique with GPUs belongs to. The claim on a channel stands in
//! the PodClique, as clients of the Go operator expect; pods get it only while the feature is on, because without a
//! ComputeDomain its template does not exist and they would wait for ever.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::names::annotations::{MNNVL_GROUP, MNNVL_NONE};
use coppice_api::names::environment::MNNVL_CLAIM;
use coppice_api::names::finalizers;
use coppice_api::names::label_sets::compute_domain_labels;
use serde_json::{Map, Value, json};

use crate::facts::SetFacts;
use crate::kind::Kind;
use crate::object::{Body, Metadata, NewObject, Owner};

/// The resource that a container with GPUs asks for.
const GPU: &str = "nvidia.com/gpu";

/// The NVLink group of a clique; none when it opts out, or when nobody names one.
pub fn group_of<'a>(facts: &SetFacts<'a>, position: usize) -> Option<&'a str> {
    let clique = &facts.cliques[position];
    let value = |annotations: &'a BTreeMap<String, String>| annotations.get(MNNVL_GROUP).map(String::as_str);
    let of_group = clique.group.map(|group| &facts.groups[group].config.annotations);
    let named = value(&clique.template.annotations)
        .or_else(|| of_group.and_then(value))
        .or_else(|| facts.set.metadata.annotations.as_ref().and_then(value));
    named.filter(|name| *name != MNNVL_NONE && !name.is_empty())
}

/// The group whose domain the pods of a clique use: it has GPUs, and the feature is on.
fn served_group<'a>(facts: &SetFacts<'a>, position: usize) -> Option<&'a str> {
    let spec = facts.cliques[position].template.spec.pod_spec.as_map();
    group_of(facts, position).filter(|_| facts.auto_mnnvl && containers(spec).any(has_gpus))
}

/// The groups for which each replica has a ComputeDomain.
pub fn groups<'a>(facts: &SetFacts<'a>) -> BTreeSet<&'a str> {
    (0..facts.cliques.len())
        .filter_map(|position| served_group(facts, position))
        .collect()
}

fn containers(spec: &Map<String, Value>) -> impl Iterator<Item = &Value> {
    ["initContainers", "containers"]
        .into_iter()
        .filter_map(|list| spec.get(list)?.as_array())
        .flatten()
}

fn has_gpus(container: &Value) -> bool {
    ["limits", "requests"].iter().any(|list| {
        let amount = &container["resources"][list][GPU];
        let text = amount.as_str().map_or_else(|| amount.to_string(), str::to_owned);
        !amount.is_null() && text.chars().any(|digit| ('1'..='9').contains(&digit))
    })
}

/// Adds the claim on a channel to the pod specification of a clique, where it is not yet.
pub(crate) fn add_claim(facts: &SetFacts<'_>, position: usize, replica: u32, spec: &mut Map<String, Value>) {
    let Some(group) = served_group(facts, position) else {
        return;
    };
    let claim = json!({"name": MNNVL_CLAIM});
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter(|container| has_gpus(container)) {
            push_named(&mut container["resources"]["claims"], claim.clone());
        }
    }
    let template = facts.replica(replica).compute_domain_name(group);
    let of_pod = json!({"name": MNNVL_CLAIM, "resourceClaimTemplateName": template});
    push_named(spec.entry("resourceClaims").or_insert(Value::Null), of_pod);
}

/// Takes the claim out again: the feature was switched off after the clique was written.
pub(crate) fn remove_claim(spec: &mut Map<String, Value>) {
    let ours = |entry: &Value| entry["name"] == MNNVL_CLAIM;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            if let Some(claims) = container["resources"]["claims"].as_array_mut() {
                claims.retain(|entry| !ours(entry));
            }
        }
    }
    if let Some(claims) = spec.get_mut("resourceClaims").and_then(Value::as_array_mut) {
        claims.retain(|entry| !ours(entry));
    }
}

fn push_named(list: &mut Value, entry: Value) {
    match list {
        Value::Array(entries) if entries.iter().any(|existing| existing["name"] == entry["name"]) => {}
        Value::Array(entries) => entries.push(entry),
        other => *other = json!([entry]),
    }
}

/// Whether a pod specification claims a channel of the domain of this name.
pub(crate) fn uses(spec: &Map<String, Value>, domain: &str) -> bool {
    let claims = spec.get("resourceClaims").and_then(Value::as_array);
    let mut claims = claims.into_iter().flatten();
    claims.any(|claim| claim["name"] == MNNVL_CLAIM && claim["resourceClaimTemplateName"] == domain)
}

/// The ComputeDomain of a group in one replica.
pub(crate) fn compute_domain(facts: &SetFacts<'_>, replica: u32, group: &str) -> NewObject {
    let name = facts.replica(replica).compute_domain_name(group);
    let spec = json!({"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": name}}});
    NewObject {
        kind: Kind::ComputeDomain,
        metadata: Metadata {
            name,
            namespace: facts.namespace().to_owned(),
            labels: compute_domain_labels(facts.replica(replica), group),
            finalizers: vec![finalizers::COMPUTE_DOMAIN],
            ..Metadata::default()
        },
        owner: Some(Owner::set(facts.set)),
        body: Body::from_fields([("spec", spec)]),
    }
}
