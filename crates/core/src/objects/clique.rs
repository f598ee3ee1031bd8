//! PodClique objects.

use coppice_api::names::label_sets::{Labels, Member, member_clique_labels, standalone_clique_labels};
use coppice_api::names::{annotations, environment, finalizers, labels};
use coppice_api::types::{PodCliqueSpec, PodSpec};
use serde_json::{Map, Value};

use super::environment::{from_label, prepend, variable};
use crate::facts::SetFacts;
use crate::kind::Kind;
use crate::layout::{CliqueLayout, Place, ReplicaLayout};
use crate::mnnvl;
use crate::object::{Body, Metadata, NewObject, Owner};

/// The part of a PodClique that its pods are made from, and that an update replaces.
#[derive(Clone, Debug, PartialEq)]
pub struct CliqueTemplate {
    /// Labels of the PodClique: those of the template and ours.
    pub labels: Labels,
    /// Annotations of the PodClique.
    pub annotations: Labels,
    /// The template's pod specification; in a scaling group its containers get their position in the group.
    pub pod_spec: PodSpec,
}

/// A pod template of a clique: that of the set, or one of a stored revision.
#[derive(Clone, Copy, Debug)]
pub struct TemplateSource<'a> {
    /// The labels of its author.
    pub labels: &'a Labels,
    /// The annotations of its author.
    pub annotations: &'a Labels,
    /// The pod specification.
    pub spec: &'a Map<String, Value>,
}

impl<'a> TemplateSource<'a> {
    /// The template of the set for the clique at a position.
    pub fn of_set(facts: &SetFacts<'a>, position: usize) -> Self {
        let template = facts.cliques[position].template;
        Self {
            labels: &template.labels,
            annotations: &template.annotations,
            spec: template.spec.pod_spec.as_map(),
        }
    }
}

/// How many pods the cliques before this one have in the same copy of its scaling group, in the order in which the group
/// lists them; none for a standalone clique.
pub fn pod_index_offset(layout: &ReplicaLayout, clique: &CliqueLayout) -> Option<u32> {
    let Place::Member { group, copy } = clique.place else {
        return None;
    };
    let members = layout.cliques[layout.groups[group].members(copy)].iter();
    let before = members.take_while(|member| member.name != clique.name);
    Some(before.fold(0, |sum, member| sum.saturating_add(member.replicas)))
}

/// The template of the PodClique at `clique`.
pub fn clique_template(
    facts: &SetFacts<'_>,
    layout: &ReplicaLayout,
    clique: &CliqueLayout,
    source: TemplateSource<'_>,
    template_hash: &str,
) -> CliqueTemplate {
    let name = &facts.cliques[clique.position].template.name;
    let replica = facts.replica(layout.index);
    let gang = layout.gang_of(clique);
    let mut pod_spec = source.spec.clone();
    let labels = match clique.place {
        Place::Standalone => standalone_clique_labels(source.labels, replica, name, template_hash),
        Place::Member { group, copy } => {
            let scaling_group = replica.scaling_group(&facts.groups[group].config.name);
            prepend(
                &mut pod_spec,
                &[
                    from_label(environment::SCALING_GROUP_NAME, labels::SCALING_GROUP),
                    variable(
                        environment::SCALING_GROUP_TEMPLATE_PODS,
                        facts.template_pods(group).to_string(),
                    ),
                    from_label(environment::SCALING_GROUP_INDEX, labels::SCALING_GROUP_REPLICA_INDEX),
                ],
            );
            let member = Member {
                group: scaling_group,
                index: copy,
                clique: name,
                gang: &gang.name,
            };
            member_clique_labels(source.labels, member, template_hash)
        }
    };
    mnnvl::add_claim(facts, clique.position, layout.index, &mut pod_spec);
    let mut annotations = source.annotations.clone();
    annotations.remove(annotations::TOPOLOGY_NAME);

    CliqueTemplate {
        labels,
        annotations,
        pod_spec: pod_spec.into(),
    }
}

/// The PodClique at `clique`, owned by the set or by its scaling group, with a template and its hash.
pub fn pod_clique(
    facts: &SetFacts<'_>,
    layout: &ReplicaLayout,
    clique: &CliqueLayout,
    (source, template_hash): (TemplateSource<'_>, &str),
    owner: &Owner,
) -> NewObject {
    let of_set = &facts.cliques[clique.position];
    let template = clique_template(facts, layout, clique, source, template_hash);
    let mut annotations = template.annotations;
    if let Some(offset) = pod_index_offset(layout, clique) {
        annotations.insert(annotations::POD_INDEX_OFFSET.to_owned(), offset.to_string());
    }
    let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    let spec = PodCliqueSpec {
        role_name: of_set.template.spec.role_name.clone(),
        pod_spec: template.pod_spec,
        replicas: number(clique.replicas),
        min_available: Some(number(of_set.min_available)),
        starts_after: clique
            .newest()
            .parents
            .iter()
            .map(|parent| parent.clique.clone())
            .collect(),
        auto_scaling_config: of_set.template.spec.auto_scaling_config.clone(),
        ..PodCliqueSpec::default()
    };
    NewObject {
        kind: Kind::PodClique,
        metadata: Metadata {
            name: clique.name.clone(),
            namespace: facts.namespace().to_owned(),
            labels: template.labels,
            annotations,
            finalizers: vec![finalizers::POD_CLIQUE],
        },
        owner: Some(owner.clone()),
        body: Body::spec(&spec),
    }
}
