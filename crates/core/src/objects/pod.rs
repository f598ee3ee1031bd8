//! Pods.

use coppice_api::names::label_sets::{Labels, pod_labels};
use coppice_api::names::pod_names::{pod_hostname, pod_name};
use coppice_api::names::{annotations, environment, finalizers, labels};
use coppice_api::types::PodClique;
use serde_json::{Map, Value, json};

use super::environment::{for_each_container, from_label, prepend, variable};
use super::{claims_of_pod, pod_index_offset, waiter};
use crate::backends;
use crate::facts::SetFacts;
use crate::kind::Kind;
use crate::layout::{CliqueLayout, Place, ReplicaLayout};
use crate::mnnvl;
use crate::object::{Body, Metadata, NewObject, Owner};
use crate::settings::Settings;

/// Which pod of a clique.
#[derive(Clone, Copy, Debug, Default)]
pub struct PodIdentity<'a> {
    /// Its index, which its host name carries.
    pub index: u32,
    /// What tells this incarnation from earlier ones at the same index.
    pub token: &'a str,
    /// The position of its gang among those of its clique.
    pub share: usize,
    /// Whether its template says which priority class it has, because it is not the set's of today.
    pub own_priority: bool,
    /// What tells routers which version it belongs to; only with coherent updates.
    pub stamp: Option<&'a UpdateStamp>,
}

/// What a pod of a coherently updated set carries, as labels and in its environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpdateStamp {
    /// The templates of its component.
    pub revision: String,
    /// The epoch of the anchor that it serves with.
    pub epoch: String,
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
    let gang = &layout.gangs[clique.shares[identity.share].gang];
    let spec = specification(facts, settings, layout, clique, stored, identity);
    let none = Labels::new();
    let of_clique = stored.metadata.labels.as_ref().unwrap_or(&none);
    let mut labels = pod_labels(of_clique, replica, &clique.name, &gang.name, identity.index);
    if let Some(offset) = pod_index_offset(layout, clique) {
        let index = offset.saturating_add(identity.index);
        labels.insert(labels::SCALING_GROUP_POD_INDEX.to_owned(), index.to_string());
    }
    if let Some(stamp) = identity.stamp {
        labels.insert(labels::COMPONENT_REVISION.to_owned(), stamp.revision.clone());
        labels.insert(labels::UPDATE_EPOCH.to_owned(), stamp.epoch.clone());
    }
    let mut annotations = stored.metadata.annotations.clone().unwrap_or_default();
    annotations.remove(annotations::POD_INDEX_OFFSET);
    let mut pod = NewObject {
        kind: Kind::Pod,
        metadata: Metadata {
            name: pod_name(&clique.name, identity.index, identity.token),
            namespace: facts.namespace().to_owned(),
            labels,
            annotations,
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
    identity: PodIdentity<'_>,
) -> Map<String, Value> {
    let share = &clique.shares[identity.share];
    let replica = facts.replica(layout.index);
    let mut spec = stored.spec.pod_spec.as_map().clone();
    if !facts.auto_mnnvl {
        mnnvl::remove_claim(&mut spec);
    }
    if layout.dependencies(&layout.gangs[share.gang]).next().is_some() {
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
        .filter(|name| !name.is_empty() && !identity.own_priority)
    {
        spec.insert("priorityClassName".to_owned(), priority.into());
    }
    let mut variables = vec![
        variable(environment::SET_NAME, facts.name()),
        variable(environment::SET_INDEX, layout.index.to_string()),
        variable(environment::CLIQUE_NAME, clique.name.clone()),
        variable(
            environment::HEADLESS_SERVICE,
            replica.service_fqdn(facts.namespace(), &settings.cluster_domain),
        ),
        from_label(environment::POD_INDEX, labels::POD_INDEX),
    ];
    if clique.place != Place::Standalone {
        variables.push(from_label(
            environment::SCALING_GROUP_POD_INDEX,
            labels::SCALING_GROUP_POD_INDEX,
        ));
    }
    if identity.stamp.is_some() {
        variables.push(from_label(environment::COMPONENT_REVISION, labels::COMPONENT_REVISION));
        variables.push(from_label(environment::UPDATE_EPOCH, labels::UPDATE_EPOCH));
    }
    prepend(&mut spec, &variables);
    spec.insert("hostname".to_owned(), pod_hostname(&clique.name, identity.index).into());
    spec.insert("subdomain".to_owned(), replica.headless_service_name().into());
    add_claims(&mut spec, facts, layout, clique, identity.index);
    if !share.parents.is_empty() {
        waiter::add(&mut spec, settings, &share.parents);
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
