//! PodGang objects: the pods that are placed together, and where.

use std::collections::BTreeMap;

use coppice_api::names::annotations;
use coppice_api::names::label_sets::{GangEntry, mirrored, pod_gang_labels};
use coppice_api::spread::Spread;
use coppice_api::types::{
    GangPackConstraint, GangTopologyConstraint, NamespacedName, PodGangSpec, PodGroup, TopologyConstraint,
    TopologyConstraintGroupConfig,
};

use crate::backends;
use crate::facts::SetFacts;
use crate::gang_map::Entry;
use crate::kind::Kind;
use crate::layout::{GangLayout, ReplicaLayout};
use crate::object::{Body, Metadata, NewObject, Owner};
use crate::settings::{Settings, TopologyLevels};

/// The PodGang at the position `gang`. `pods` holds the names of the pods that it has of each clique, by name of the clique;
/// they are listed sorted.
///
/// A domain that the topology does not have is left out of the constraint; a condition of the set tells so.
pub fn pod_gang(
    facts: &SetFacts<'_>,
    settings: &Settings,
    topology: Option<&TopologyLevels>,
    layout: &ReplicaLayout,
    gang: usize,
    pods: &BTreeMap<String, Vec<String>>,
) -> NewObject {
    let position = gang;
    let gang = &layout.gangs[position];
    let template = &facts.set.spec.template;
    let topology = topology.filter(|_| settings.topology_aware);
    let translate = |constraint: Option<&TopologyConstraint>| translated(constraint, topology);
    let pod_groups: Vec<PodGroup> = gang
        .cliques
        .iter()
        // A clique that is scaled to zero has nothing to place.
        .filter(|index| {
            layout.cliques[**index]
                .share_in(position)
                .is_some_and(|share| share.pods > 0)
        })
        .map(|&index| {
            let clique = &layout.cliques[index];
            let mut names = pods.get(&clique.name).cloned().unwrap_or_default();
            names.sort();
            PodGroup {
                name: clique.name.clone(),
                pod_references: names
                    .into_iter()
                    .map(|name| NamespacedName {
                        namespace: facts.namespace().to_owned(),
                        name,
                        ..NamespacedName::default()
                    })
                    .collect(),
                min_replicas: i32::try_from(layout.minimum_in(position, index)).unwrap_or(i32::MAX),
                topology_constraint: translate(facts.cliques[clique.position].template.topology_constraint.as_ref()),
                ..PodGroup::default()
            }
        })
        .collect();
    let spec = PodGangSpec {
        pod_groups,
        topology_constraint: translate(template.topology_constraint.as_ref()),
        topology_constraint_group_configs: copies(facts, layout, gang, &translate),
        priority_class_name: template.priority_class_name.clone().filter(|name| !name.is_empty()),
        ..PodGangSpec::default()
    };
    let constrained = spec.topology_constraint.is_some()
        || spec.pod_groups.iter().any(|group| group.topology_constraint.is_some())
        || !spec.topology_constraint_group_configs.is_empty();
    let metadata = &facts.set.metadata;
    let mut annotations = metadata.annotations.as_ref().map(mirrored).unwrap_or_default();
    let spread = Spread::of(metadata.annotations.as_ref());
    if let Some(topology) = topology.filter(|_| constrained || spread.is_some()) {
        annotations.insert(annotations::TOPOLOGY_NAME.to_owned(), topology.name.clone());
    }
    if let Some(spread) = spread {
        let key = spread.level().map_or(Some(spread.over), |level| {
            topology.and_then(|topology| topology.keys.get(level).map(String::as_str))
        });
        annotations.extend(key.map(|key| (spread.key().to_owned(), key.to_owned())));
    }
    let of_backend = backends::of_set(facts, settings).gang_annotations().iter();
    annotations.extend(of_backend.map(|(key, value)| ((*key).to_owned(), (*value).to_owned())));
    let of_set = metadata.labels.clone().unwrap_or_default();
    let entry = gang.entry.map(|entry| &layout.map.entries[entry]);
    let entry = GangEntry {
        epoch: entry.map_or(layout.map.anchor_epoch, |entry| entry.epoch),
        role: entry.map_or("", |entry| entry.role.as_str()),
        generation_hash: entry.map_or("", Entry::generation_hash),
    };
    let labels = pod_gang_labels(
        &of_set,
        facts.replica(layout.index),
        backends::scheduler_of(facts, settings),
        entry,
    );
    NewObject {
        kind: Kind::PodGang,
        metadata: Metadata {
            name: gang.name.clone(),
            namespace: facts.namespace().to_owned(),
            labels,
            annotations,
            ..Metadata::default()
        },
        owner: Some(Owner::set(facts.set)),
        body: Body::spec(&spec),
    }
}

/// The cliques of each copy of a group are placed together as the group asks, in the gang that the copy belongs to.
fn copies(
    facts: &SetFacts<'_>,
    layout: &ReplicaLayout,
    gang: &GangLayout,
    translate: &dyn Fn(Option<&TopologyConstraint>) -> Option<GangTopologyConstraint>,
) -> Vec<TopologyConstraintGroupConfig> {
    let mut configs = Vec::new();
    for (position, group) in layout.groups.iter().enumerate() {
        let copies = layout.copies_in(gang, position);
        let config = facts.groups[group.position].config;
        let Some(constraint) = translate(config.topology_constraint.as_ref()).filter(|_| !copies.is_empty()) else {
            continue;
        };
        let name = facts.replica(layout.index).scaling_group(&config.name);
        configs.extend(copies.into_iter().map(|copy| {
            let members = layout.cliques[group.members(copy)].iter();
            TopologyConstraintGroupConfig {
                name: name.replica_name(copy),
                pod_group_names: members
                    .filter(|clique| clique.replicas > 0)
                    .map(|clique| clique.name.clone())
                    .collect(),
                topology_constraint: Some(constraint.clone()),
                ..TopologyConstraintGroupConfig::default()
            }
        }));
    }
    configs
}

fn translated(
    constraint: Option<&TopologyConstraint>,
    topology: Option<&TopologyLevels>,
) -> Option<GangTopologyConstraint> {
    let (constraint, topology) = (constraint?, topology?);
    let key = |domain: Option<&str>| topology.keys.get(domain?).cloned();
    let pack = GangPackConstraint {
        required: key(constraint.required()),
        preferred: key(constraint.preferred()),
        ..GangPackConstraint::default()
    };
    (pack.required.is_some() || pack.preferred.is_some()).then(|| GangTopologyConstraint {
        pack_constraint: Some(pack),
        ..GangTopologyConstraint::default()
    })
}
