//! KAI: a PodGroup with a subgroup for each clique, and one above them for each copy of a scaling group that is packed.
//!
//! KAI's own grouping is switched off by an annotation, on the pods and on the gang. The queue is the set's when the
//! object is created; afterwards KAI's fields (queue, node pool, marks and back-off) stay as KAI or its users have them.

use std::collections::BTreeSet;

use coppice_api::names::{annotations, labels};
use coppice_api::types::GangTopologyConstraint;
use serde_json::{Map, Value, json};

use super::objects::{Ours, bounded, condition, object, packing};
use super::{Backend, BackendTopology, Correction, Gang, Limit, Mapping, Stamp, Wanted, floor, kai_queue, live_groups};
use crate::command::Kind;
use crate::object::NewObject;

/// KAI's part of the cluster that a PodGroup is placed in.
const NODE_POOL: &str = "kai.scheduler/node-pool";

const SKIP: [(&str, &str); 1] = [(annotations::KAI_SKIP_POD_GROUPER, "true")];

const OURS: Ours = Ours {
    fields: &["minMember", "priorityClassName", "topologyConstraint"],
    list: (
        "subGroups",
        &["name", "parent", "minMember", "minSubGroup", "topologyConstraint"],
    ),
    kept_labels: &[labels::KAI_QUEUE, NODE_POOL],
};

pub(super) struct Kai;

impl Backend for Kai {
    fn kind(&self) -> Option<Kind> {
        Some(Kind::KaiPodGroup)
    }

    fn map(&self, gang: &Gang<'_>) -> Mapping {
        let spec = &gang.object.spec;
        if live_groups(spec).next().is_none() {
            return Mapping::nothing();
        }
        match written(gang) {
            Ok(object) => Mapping {
                object: Wanted::Object(Box::new(object)),
                limits: Vec::new(),
            },
            Err(limit) => Mapping {
                object: Wanted::Unknown,
                limits: vec![limit],
            },
        }
    }

    fn stamp(&self, gang: &str, clique: &str) -> Stamp {
        let mut stamp = Stamp::default();
        for (key, value) in SKIP {
            stamp.annotations.insert(key.to_owned(), value.to_owned());
        }
        stamp
            .annotations
            .insert(annotations::KAI_POD_GROUP_NAME.to_owned(), gang.to_owned());
        stamp
            .labels
            .insert(labels::KAI_SUBGROUP_NAME.to_owned(), clique.to_owned());
        stamp
    }

    fn gang_annotations(&self) -> &'static [(&'static str, &'static str)] {
        &SKIP
    }

    fn correct(&self, _gang: &Gang<'_>, stored: &Value, wanted: &NewObject) -> Correction {
        let mut patch = OURS.patch(stored, wanted);
        let mut limits = Vec::new();
        let queue = |spec: &Value| spec["queue"].as_str().unwrap_or_default().to_owned();
        match (queue(&stored["spec"]), queue(wanted.spec())) {
            (stored, wanted) if stored == wanted => {}
            (stored, wanted) if stored.is_empty() => {
                let patch = patch.get_or_insert_with(|| json!({}));
                patch["spec"]["queue"] = wanted.into();
            }
            (stored, wanted) => limits.push(Limit::QueueKept { stored, wanted }),
        }
        Correction { patch, limits }
    }

    fn waits_for(&self, stored: &Value) -> Option<String> {
        let found = condition(
            &stored["status"]["schedulingConditions"],
            "UnschedulableOnNodePool",
            "True",
        )?;
        let reasons = found["reasons"].as_array().into_iter().flatten();
        let mut messages: Vec<&str> = reasons.filter_map(|reason| reason["message"].as_str()).collect();
        if messages.is_empty() {
            messages.extend(found["message"].as_str());
        }
        messages.retain(|message| !message.is_empty());
        (!messages.is_empty()).then(|| bounded(&messages.join("; ")))
    }
}

fn written(gang: &Gang<'_>) -> Result<NewObject, Limit> {
    let gang_spec = &gang.object.spec;
    let mut spec = Map::new();
    // KAI takes no PodGroup with a minimum of zero; without one, the minimum of the subgroups counts.
    if let minimum @ 1.. = floor(gang_spec) {
        spec.insert("minMember".to_owned(), minimum.into());
    }
    spec.insert("queue".to_owned(), kai_queue(gang.facts)?.into());
    if let Some(class) = &gang_spec.priority_class_name {
        spec.insert("priorityClassName".to_owned(), class.as_str().into());
    }
    insert_constraint(&mut spec, gang_spec.topology_constraint.as_ref(), gang.topology)?;
    spec.insert("subGroups".to_owned(), subgroups(gang)?.into());
    Ok(object(gang, Kind::KaiPodGroup, true, Value::Object(spec)))
}

/// Parents first, then the cliques: a parent is known before it is named.
fn subgroups(gang: &Gang<'_>) -> Result<Vec<Value>, Limit> {
    let spec = &gang.object.spec;
    let live: BTreeSet<&str> = live_groups(spec).map(|group| group.name.as_str()).collect();
    let configs = &spec.topology_constraint_group_configs;
    let mut names = BTreeSet::new();
    let mut unique = |name: &str| {
        let twice = Limit::NameTwice { name: name.to_owned() };
        names.insert(name.to_owned()).then_some(()).ok_or(twice)
    };
    let mut all = Vec::new();
    for config in configs {
        let parent_of = |group: &str| {
            configs
                .iter()
                .find(|config| config.pod_group_names.iter().any(|name| name == group))
        };
        let children = config
            .pod_group_names
            .iter()
            .filter(|name| live.contains(name.as_str()))
            .filter(|name| parent_of(name).is_some_and(|parent| parent.name == config.name))
            .count();
        if children == 0 {
            continue;
        }
        unique(&config.name)?;
        let mut subgroup = Map::new();
        subgroup.insert("name".to_owned(), config.name.as_str().into());
        subgroup.insert("minSubGroup".to_owned(), children.into());
        insert_constraint(&mut subgroup, config.topology_constraint.as_ref(), gang.topology)?;
        all.push(Value::Object(subgroup));
    }
    for group in live_groups(spec) {
        unique(&group.name)?;
        let mut subgroup = Map::new();
        subgroup.insert("name".to_owned(), group.name.as_str().into());
        subgroup.insert("minMember".to_owned(), group.min_replicas.max(0).into());
        let mut parents = configs.iter();
        if let Some(parent) = parents.find(|config| config.pod_group_names.contains(&group.name)) {
            subgroup.insert("parent".to_owned(), parent.name.as_str().into());
        }
        insert_constraint(&mut subgroup, group.topology_constraint.as_ref(), gang.topology)?;
        all.push(Value::Object(subgroup));
    }
    Ok(all)
}

/// A preferred level that is broader than the required one adds nothing, and KAI cannot place a group that names both.
fn insert_constraint(
    into: &mut Map<String, Value>,
    constraint: Option<&GangTopologyConstraint>,
    topology: Option<&BackendTopology>,
) -> Result<(), Limit> {
    let (required, preferred) = packing(constraint);
    if required.is_none() && preferred.is_none() {
        return Ok(());
    }
    let topology = topology.ok_or(Limit::TopologyUnknown)?;
    let mut levels = Map::new();
    levels.insert("topology".to_owned(), topology.name.as_str().into());
    if let Some(required) = required {
        levels.insert("requiredTopologyLevel".to_owned(), required.into());
    }
    let adds = |preferred: &&str| required.is_none_or(|required| !topology.is_broader(preferred, required));
    if let Some(preferred) = preferred.filter(adds) {
        levels.insert("preferredTopologyLevel".to_owned(), preferred.into());
    }
    into.insert("topologyConstraint".to_owned(), Value::Object(levels));
    Ok(())
}
