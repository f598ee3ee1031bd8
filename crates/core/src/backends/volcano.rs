//! Volcano: a PodGroup with a policy for each clique, which selects the pods of the clique by their label. It has no
//! topology constraints in terms of node labels; admission refuses sets that have some.

use coppice_api::names::{annotations, labels};
use coppice_api::types::PodGroup;
use serde_json::{Map, Value, json};

use super::objects::{Constraint, Ours, bounded, condition, constraints, object};
use super::{Backend, Correction, Gang, Limit, Mapping, Stamp, Wanted, floor, live_groups, volcano_queue};
use crate::command::Kind;
use crate::object::NewObject;

const OURS: Ours = Ours {
    fields: &["minMember", "queue", "priorityClassName"],
    list: (
        "subGroupPolicy",
        &[
            "name",
            "labelSelector",
            "matchLabelKeys",
            "subGroupSize",
            "minSubGroups",
        ],
    ),
    kept_labels: &[],
};

pub(super) struct Volcano;

impl Backend for Volcano {
    fn kind(&self) -> Option<Kind> {
        Some(Kind::VolcanoPodGroup)
    }

    fn map(&self, gang: &Gang<'_>) -> Mapping {
        let spec = &gang.object.spec;
        if live_groups(spec).next().is_none() {
            return Mapping::nothing();
        }
        let queue = match volcano_queue(gang.facts) {
            Ok(queue) => queue,
            Err(limit) => {
                return Mapping {
                    object: Wanted::Unknown,
                    limits: vec![limit],
                };
            }
        };
        let mut wanted = Map::new();
        wanted.insert("minMember".to_owned(), floor(spec).max(1).into());
        wanted.insert("queue".to_owned(), queue.into());
        if let Some(class) = &spec.priority_class_name {
            wanted.insert("priorityClassName".to_owned(), class.as_str().into());
        }
        let policies: Vec<Value> = live_groups(spec).map(policy).collect();
        wanted.insert("subGroupPolicy".to_owned(), policies.into());
        Mapping {
            object: Wanted::Object(Box::new(object(
                gang,
                Kind::VolcanoPodGroup,
                false,
                Value::Object(wanted),
            ))),
            limits: topology(gang).into_iter().collect(),
        }
    }

    fn stamp(&self, gang: &str, _clique: &str) -> Stamp {
        let mut stamp = Stamp::default();
        for key in [annotations::VOLCANO_GROUP_NAME, annotations::KUBE_BATCH_GROUP_NAME] {
            stamp.annotations.insert(key.to_owned(), gang.to_owned());
        }
        stamp
    }

    fn correct(&self, gang: &Gang<'_>, stored: &Value, wanted: &NewObject) -> Correction {
        let mut wanted = wanted.clone();
        // Floors that are given up all at once say that the gang was placed, not that it may be taken apart.
        if floor(&gang.object.spec) == 0 && stored["spec"]["minMember"].is_number() {
            for field in ["minMember", "subGroupPolicy"] {
                wanted.body.field_mut("spec")[field] = stored["spec"][field].clone();
            }
        }
        Correction {
            patch: OURS.patch(stored, &wanted),
            limits: Vec::new(),
        }
    }

    fn waits_for(&self, stored: &Value) -> Option<String> {
        let found = condition(&stored["status"]["conditions"], "Unschedulable", "True")?;
        let message = found["message"].as_str().filter(|message| !message.is_empty())?;
        Some(bounded(message))
    }
}

fn policy(group: &PodGroup) -> Value {
    json!({
        "name": group.name,
        "labelSelector": {"matchLabels": {labels::POD_CLIQUE: group.name}},
        "matchLabelKeys": [labels::POD_CLIQUE],
        "subGroupSize": group.min_replicas.max(1),
        "minSubGroups": 1,
    })
}

fn topology(gang: &Gang<'_>) -> Option<Limit> {
    let asks = constraints(gang).into_iter().filter(Constraint::asks);
    let of: Vec<String> = asks.map(|constraint| constraint.of).collect();
    (!of.is_empty()).then_some(Limit::Topology { of })
}
