//! Pods.

use coppice_api::names::label_sets::{Labels, pod_labels};
use coppice_api::names::pod_names::{pod_hostname, pod_name};
use coppice_api::names::{environment, finalizers, labels};
use coppice_api::types::PodClique;
use serde_json::{Map, Value, json};

use super::environment::{for_each_container, from_label, prepend, variable};
use super::{claims_of_pod, waiter};
use crate::backends;
use crate::facts::SetFacts;
use crate::kind::Kind;
use crate::layout::{CliqueLayout, ReplicaLayout};
use crate::mnnvl;
use crate::object::{Body, Metadata, NewObject, Owner};
use crate::settings::Settings;

/// Which pod of a clique.
#[derive(Clone, Copy, Debug)]
pub struct PodIdentity<'a> {
    /// Its index, which its host name carries.
    pub index: u32,
    /// What tells this incarnation from earlier ones at the same index.
    pub token: &'a str,
}

/// A pod of the clique at `clique`, made from the stored PodClique `stored` (its labels, annotations and pod
/// specification), so that a pod never gets a template that its clique has not been given yet.
pub fn pod(
    facts: &SetFacts<'_>,
    settings: &Settings,
    layout: &ReplicaLayout,
    clique: &CliqueLayout,
    stored: &PodClique,
    identity: PodIdentity<'_>,
) -> NewObject {
    let replica = facts.replica(layout.index);
    let gang = layout.gang_of(clique);
    let spec = specification(facts, settings, layout, clique, stored, identity.index);
    let none = Labels::new();
    let of_clique = stored.metadata.labels.as_ref().unwrap_or(&none);
    let mut pod = NewObject {
        kind: Kind::Pod,
        metadata: Metadata {
            name: pod_name(&clique.name, identity.index, identity.token),
            namespace: facts.namespace().to_owned(),
            labels: pod_labels(of_clique, replica, &clique.name, &gang.name, identity.index),
            annotations: stored.metadata.annotations.clone().unwrap_or_default(),
            ..Metadata::default()
        },
        owner: Some(Owner::of(Kind::PodClique, &stored.metadata)),
        body: Body::from_fields([("spec", spec.into())]),
    };
    backends::of_set(facts, settings)
        .stamp(&gang.name, &clique.name)
        .put_on(&mut pod);
    pod
}

/// The specification of a pod: that of its clique, with what places it, names it and makes it wait.
fn specification(
    facts: &SetFacts<'_>,
    settings: &Settings,
    layout: &ReplicaLayout,
    clique: &CliqueLayout,
    stored: &PodClique,
    index: u32,
) -> Map<String, Value> {
    let replica = facts.replica(layout.index);
    let mut spec = stored.spec.pod_spec.as_map().clone();
    if !facts.auto_mnnvl {
        mnnvl::remove_claim(&mut spec);
    }
    if layout.dependencies(layout.gang_of(clique)).next().is_some() {
        add_gate(&mut spec);
    }
    if spec
        .get("schedulerName")
        .and_then(Value::as_str)
        .is_none_or(str::is_empty)
    {
        spec.insert("schedulerName".to_owned(), settings.default_scheduler.clone().into());
    }
    if let Some(priority) = facts
        .set
        .spec
        .template
        .priority_class_name
        .as_deref()
        .filter(|name| !name.is_empty())
    {
        spec.insert("priorityClassName".to_owned(), priority.into());
    }
    prepend(
        &mut spec,
        &[
            variable(environment::SET_NAME, facts.name()),
            variable(environment::SET_INDEX, layout.index.to_string()),
            variable(environment::CLIQUE_NAME, clique.name.clone()),
            variable(
                environment::HEADLESS_SERVICE,
                replica.service_fqdn(facts.namespace(), &settings.cluster_domain),
            ),
            from_label(environment::POD_INDEX, labels::POD_INDEX),
        ],
    );
    spec.insert("hostname".to_owned(), pod_hostname(&clique.name, index).into());
    spec.insert("subdomain".to_owned(), replica.headless_service_name().into());
    add_claims(&mut spec, facts, layout, clique, index);
    if !clique.parents.is_empty() {
        waiter::add(&mut spec, settings, &clique.parents);
    }
    spec
}

/// A pod waits until the gangs that its own depends on are placed. Gates of others stay as they are.
fn add_gate(spec: &mut Map<String, Value>) {
    let gate = json!({"name": finalizers::SCHEDULING_GATE});
    match spec.get_mut("schedulingGates") {
        Some(Value::Array(gates)) if gates.contains(&gate) => {}
        Some(Value::Array(gates)) => gates.push(gate),
        _ => drop(spec.insert("schedulingGates".to_owned(), json!([gate]))),
    }
}

fn add_claims(
    spec: &mut Map<String, Value>,
    facts: &SetFacts<'_>,
    layout: &ReplicaLayout,
    clique: &CliqueLayout,
    pod_index: u32,
) {
    let claims = claims_of_pod(facts, layout.index, clique, pod_index);
    if claims.is_empty() {
        return;
    }
    for_each_container(spec, |container| {
        let resources = container.entry("resources").or_insert_with(|| json!({}));
        append(
            resources,
            "claims",
            claims.iter().map(|claim| json!({"name": claim.name})),
        );
    });
    let of_pod = claims
        .iter()
        .map(|claim| json!({"name": claim.name, "resourceClaimName": claim.name}));
    match spec.get_mut("resourceClaims") {
        Some(Value::Array(existing)) => existing.extend(of_pod),
        _ => drop(spec.insert("resourceClaims".to_owned(), of_pod.collect())),
    }
}

fn append(object: &mut Value, list: &str, items: impl Iterator<Item = Value>) {
    match object.get_mut(list) {
        Some(Value::Array(existing)) => existing.extend(items),
        _ => object[list] = items.collect(),
    }
}
