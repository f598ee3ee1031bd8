//! PodGangs: from the API object to what the scheduler needs of it, its stored plan included.
//!
//! Owns the translation of packing constraints, and what a gang says of itself: its stored plan, its condition, whether it has
//! been whole. Assumes that label keys in constraints were translated already.

use std::fmt;

use coppice_api::names::parsing::{parse_index, parse_replica_of_child};
use coppice_api::names::{Epoch, annotations, labels};
use coppice_api::spread::Spread;
use coppice_api::types::{GangTopologyConstraint, PodGang, PodGangPhase, PodGangRole};
use coppice_placement::{Pack, Reason};
use coppice_runtime::cache::{Meta, ObjectKey};
use jiff::Timestamp;

use super::StoredPlan;

/// What is placed as one: a PodGang, or a pod that belongs to none.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum GangId {
    /// A PodGang.
    Gang(ObjectKey),
    /// A pod of its own.
    Pod(ObjectKey),
}

impl fmt::Display for GangId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gang(key) => key.fmt(out),
            Self::Pod(key) => write!(out, "pod {key}"),
        }
    }
}

/// The condition of a gang that the scheduler owns: whether its pods have places, and why not.
pub const PLACED: &str = "Placed";

/// What the condition of a gang says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// Whether it says that its pods have places.
    pub holds: bool,
    reason: String,
    message: String,
}

impl Standing {
    /// What a gang says that has no places for this reason.
    #[cfg(test)]
    pub(crate) fn refused(reason: &Reason) -> Self {
        Self {
            holds: false,
            reason: reason.code.as_str().to_owned(),
            message: reason.message.clone(),
        }
    }

    /// Whether it says that the pods have no places, and that this is why.
    #[must_use]
    pub fn tells(&self, reason: &Reason) -> bool {
        !self.holds && self.reason == reason.code.as_str() && self.message == reason.message
    }
}

/// One copy of a set: its gangs share the packing of the set.
pub type ReplicaKey = (ObjectKey, u32);

/// The pods of one clique in a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupRecord {
    /// The clique.
    pub name: String,
    /// Pods that must be placed.
    pub floor: u32,
    /// Pods that exist or will: the length of its list of references.
    pub expected: u32,
    /// Its packing.
    pub pack: Pack,
}

/// A PodGang, as the scheduler sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GangRecord {
    /// Identity and version.
    pub meta: Meta,
    /// When it was created.
    pub created: Option<Timestamp>,
    /// Its groups.
    pub groups: Vec<GroupRecord>,
    /// Groups packed together: name, positions in `groups`, packing.
    pub configs: Vec<(String, Vec<usize>, Pack)>,
    /// The packing of the whole gang.
    pub pack: Pack,
    /// The topology that the keys belong to; empty when the gang does not say.
    pub topology: String,
    /// The label key over which the copies of its set spread, and whether they must.
    pub spread: Option<(String, bool)>,
    /// The copy of a set that it belongs to.
    pub replica: Option<ReplicaKey>,
    /// Its epoch in the PodGangMap of that copy, and what it is for; nothing for gangs of operators without maps.
    pub entry: Option<(Epoch, PodGangRole)>,
    /// Where its pods were meant to go; empty when there is no plan.
    pub plan: StoredPlan,
    /// Its status says that its floors have nodes: nothing of it is released.
    pub was_whole: bool,
    /// The phase that the operator reported; nothing before its first report.
    pub phase: Option<PodGangPhase>,
    /// What it says of its placement.
    pub standing: Option<Standing>,
}

impl GangRecord {
    /// Reads a PodGang; nothing when it is being deleted or was never stored.
    #[must_use]
    pub fn of(gang: &PodGang) -> Option<Self> {
        if gang.metadata.deletion_timestamp.is_some() {
            return None;
        }
        let meta = Meta::of(gang)?;
        let spec = &gang.spec;
        let groups: Vec<GroupRecord> = spec
            .pod_groups
            .iter()
            .map(|group| GroupRecord {
                name: group.name.clone(),
                floor: u32::try_from(group.min_replicas).unwrap_or(0),
                expected: u32::try_from(group.pod_references.len()).unwrap_or(u32::MAX),
                pack: pack(group.topology_constraint.as_ref()),
            })
            .collect();
        let mut taken = vec![false; groups.len()];
        let mut configs = Vec::new();
        for config in &spec.topology_constraint_group_configs {
            let named = |name: &String| groups.iter().position(|group| group.name == *name);
            let mut members: Vec<usize> = config.pod_group_names.iter().filter_map(named).collect();
            members.retain(|at| !std::mem::replace(&mut taken[*at], true));
            configs.push((config.name.clone(), members, pack(config.topology_constraint.as_ref())));
        }
        let annotation = |key: &str| gang.metadata.annotations.as_ref().and_then(|all| all.get(key));
        let plan = annotation(annotations::PLACEMENT_PLAN).and_then(|text| serde_json::from_str(text).ok());
        Some(Self {
            created: gang.metadata.creation_timestamp.as_ref().map(|time| time.0),
            groups,
            configs,
            pack: pack(spec.topology_constraint.as_ref()),
            topology: annotation(annotations::TOPOLOGY_NAME).cloned().unwrap_or_default(),
            spread: Spread::of(gang.metadata.annotations.as_ref())
                .map(|spread| (spread.over.to_owned(), spread.required)),
            replica: replica(gang, &meta.key),
            entry: entry(gang),
            plan: plan.unwrap_or_default(),
            was_whole: was_whole(gang),
            phase: gang.status.as_ref().map(|status| status.phase.clone()),
            standing: standing(gang),
            meta,
        })
    }
}

/// Whether its status says that every floor has nodes, in whichever way: our condition, or the operator's phase and
/// conditions.
fn was_whole(gang: &PodGang) -> bool {
    gang.status.as_ref().is_some_and(|status| {
        let holds = status
            .conditions
            .iter()
            .any(|condition| [PLACED, "Scheduled", "Ready"].contains(&&*condition.type_) && condition.status == "True");
        holds || matches!(status.phase, PodGangPhase::Starting | PodGangPhase::Running)
    })
}

fn standing(gang: &PodGang) -> Option<Standing> {
    let conditions = &gang.status.as_ref()?.conditions;
    let found = conditions.iter().find(|condition| condition.type_ == PLACED)?;
    Some(Standing {
        holds: found.status == "True",
        reason: found.reason.clone(),
        message: found.message.clone(),
    })
}

fn pack(constraint: Option<&GangTopologyConstraint>) -> Pack {
    let wire = constraint.and_then(|constraint| constraint.pack_constraint.as_ref());
    let key = |key: &Option<String>| key.clone().filter(|key| !key.is_empty());
    wire.map_or_else(Pack::none, |wire| Pack {
        required: key(&wire.required),
        preferred: key(&wire.preferred),
    })
}

/// The copy of a set that a gang belongs to. Gangs of other operators carry no index label.
fn replica(gang: &PodGang, key: &ObjectKey) -> Option<ReplicaKey> {
    let of_gang = gang.metadata.labels.as_ref()?;
    let set = of_gang.get(labels::PART_OF)?;
    let index = match of_gang.get(labels::SET_REPLICA_INDEX) {
        Some(text) => parse_index(text)?,
        None => parse_replica_of_child(set, &key.name)?,
    };
    Some((ObjectKey::new(key.namespace.clone(), set.as_str()), index))
}

/// What the PodGangMap of its copy says of a gang, as its labels repeat it.
fn entry(gang: &PodGang) -> Option<(Epoch, PodGangRole)> {
    let of_gang = gang.metadata.labels.as_ref()?;
    let epoch = Epoch::parse(of_gang.get(labels::EPOCH)?)?;
    let role = PodGangRole::from(of_gang.get(labels::POD_GANG_ROLE)?.clone());
    role.is_known().then_some((epoch, role))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_gang_is_read_with_its_plan() {
        let plan = StoredPlan::new([("u1", "n1"), ("u0", "n1"), ("u2", "n2")]);
        let gang: PodGang = serde_json::from_value(json!({
            "metadata": {"name": "x-0", "namespace": "n", "uid": "u", "resourceVersion": "3",
                "labels": {"app.kubernetes.io/part-of": "x"},
                "annotations": {"grove.io/topology-name": "t", (annotations::PLACEMENT_PLAN): plan.to_text()}},
            "spec": {
                "podgroups": [
                    {"name": "x-0-a", "podReferences": [{"namespace": "n", "name": "a-0"}], "minReplicas": 1},
                    {"name": "x-0-b", "podReferences": [], "minReplicas": -1}],
                "topologyConstraint": {"packConstraint": {"required": "rack"}},
                "topologyConstraintGroupConfigs": [
                    {"name": "c", "podGroupNames": ["x-0-b", "gone"]}, {"name": "d", "podGroupNames": ["x-0-b"]}],
            },
        }))
        .unwrap();
        let record = GangRecord::of(&gang).unwrap();
        assert_eq!(record.plan, plan);
        assert_eq!(record.replica, Some((ObjectKey::new("n", "x"), 0)));
        assert_eq!((record.groups[0].floor, record.groups[1].floor), (1, 0));
        assert_eq!(record.pack, Pack::required("rack"));
        assert_eq!(record.configs[0].1, vec![1]);
        assert!(record.configs[1].1.is_empty(), "a group is in one config at most");
    }
}
