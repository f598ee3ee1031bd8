//! Copies of scaling groups: a clique of one copy asks for what the same clique of any other copy does.
//!
//! Owns the way from the name of a clique without pods to a pod that is like those it will have. Pods say by labels which copy of
//! which group they belong to; names are read back by building them again. Assumes nothing of a name that cannot be.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_api::names::parsing::{parse_index, parse_scaling_group};
use coppice_api::names::{ReplicaName, labels};

use super::question::Members;
use super::{GangRecord, PodRecord, ReplicaKey};

/// One pod of each clique of each scaling group of a replica.
pub(super) struct Copies {
    replica: Option<ReplicaKey>,
    /// By name of the scaling group's object and name of the clique in the template.
    pods: BTreeMap<(String, String), Arc<PodRecord>>,
}

impl Copies {
    /// Those of the replica of a gang, from the pods of its gangs.
    pub(super) fn of<'a>(record: &GangRecord, members: impl Iterator<Item = &'a Members>) -> Self {
        let mut copies = Self {
            replica: record.replica.clone(),
            pods: BTreeMap::new(),
        };
        for members in members {
            let placed = members.placed.iter().map(|(pod, _)| pod);
            // The pods of a clique are alike.
            if let Some(pod) = members.waiting.iter().chain(&members.held).chain(placed).next() {
                copies.add(pod);
            }
        }
        copies
    }

    fn add(&mut self, pod: &Arc<PodRecord>) {
        let Some((set, index)) = &self.replica else { return };
        let named = |key: &str| pod.label(key).map(ToString::to_string);
        let (Some(group), Some(clique)) = (named(labels::SCALING_GROUP), named(labels::POD_CLIQUE)) else {
            return;
        };
        let copy = pod
            .label(labels::SCALING_GROUP_REPLICA_INDEX)
            .and_then(|text| parse_index(text));
        let replica = ReplicaName::new(&set.name, *index);
        let of_group = parse_scaling_group(replica, &group).zip(copy);
        let in_template = of_group.and_then(|(of_group, copy)| {
            let rest = clique.strip_prefix(&of_group.replica_name(copy))?.strip_prefix('-')?;
            (of_group.clique_name(copy, rest) == clique).then(|| rest.to_owned())
        });
        if let Some(in_template) = in_template {
            self.pods.entry((group, in_template)).or_insert_with(|| pod.clone());
        }
    }

    /// A pod like those that the clique of this name will have.
    pub(super) fn pod_like(&self, clique: &str) -> Option<Arc<PodRecord>> {
        let (set, index) = self.replica.as_ref()?;
        let replica = ReplicaName::new(&set.name, *index);
        let found = self.pods.iter().find(|((group, in_template), _)| {
            let copy = clique
                .strip_prefix(group.as_str())
                .and_then(|rest| rest.strip_prefix('-'))
                .and_then(|rest| parse_index(rest.split('-').next()?));
            let of_group = parse_scaling_group(replica, group).zip(copy);
            of_group.is_some_and(|(of_group, copy)| of_group.clique_name(copy, in_template) == clique)
        });
        found.map(|(_, pod)| pod.clone())
    }
}
