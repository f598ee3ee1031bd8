//! The question put to the planner: one gang.
//!
//! A gang is a tree: placement group, gang, group configs, groups. Each may ask for its pods to be packed into one domain of
//! a topology level. Groups carry a floor (all floors are placed together or nothing is), pods above the floor are
//! extras. Pods of one group that still wait share one shape. Types only; built by the scheduler's shell from PodGang and
//! pods.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use crate::shape::ShapeId;
use crate::topology::DomainPath;
use crate::volume::UnboundClaim;

/// Which level of the topology pods are packed into, by node label key.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pack {
    /// All pods share one domain of this level, or the gang is not placed.
    pub required: Option<String>,
    /// All floor pods share one domain of this level if that is possible, else of the next broader one.
    pub preferred: Option<String>,
}

impl Pack {
    /// No wish.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// A hard wish.
    #[must_use]
    pub fn required(key: &str) -> Self {
        Self {
            required: Some(key.to_owned()),
            preferred: None,
        }
    }

    /// A soft wish.
    #[must_use]
    pub fn preferred(key: &str) -> Self {
        Self {
            required: None,
            preferred: Some(key.to_owned()),
        }
    }
}

/// The pods of one clique in a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// What its waiting pods demand.
    pub shape: ShapeId,
    /// How many pods must be placed, those already bound included.
    pub floor: u32,
    /// Pods that exist, carry no gate and have no node, in the order in which they should be placed.
    pub pending: Vec<String>,
    /// Nodes of the pods already bound or assumed, one entry per pod.
    pub bound: Vec<String>,
    /// Its packing.
    pub pack: Pack,
}

impl Group {
    /// Floor pods still to place.
    #[must_use]
    pub fn missing(&self) -> u32 {
        self.floor.saturating_sub(count(&self.bound))
    }

    /// Pods still to place above the floor.
    #[must_use]
    pub fn extras(&self) -> u32 {
        count(&self.pending).saturating_sub(self.missing())
    }
}

fn count(list: &[String]) -> u32 {
    u32::try_from(list.len()).unwrap_or(u32::MAX)
}

/// A named subset of the groups with its own packing: one replica of a scaling group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConfig {
    /// Its name.
    pub name: String,
    /// Indices into [`Gang::groups`]; a group is in at most one config.
    pub groups: Vec<usize>,
    /// Its packing.
    pub pack: Pack,
}

/// What to do when the domain of a placement group has no room for one more gang.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Overfull {
    /// Wait.
    #[default]
    Block,
    /// Use another domain, and say so.
    Spill,
}

/// All gangs of one replica of a set: its packing holds across them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PlacementGroup {
    /// The packing of the set.
    pub pack: Pack,
    /// The domain of the required level that the first gang chose.
    pub pinned: Option<DomainPath>,
    /// When that domain is full.
    pub overfull: Overfull,
    /// Pods that will want to come later; domains with room for them are tried first.
    pub ahead: Vec<(ShapeId, u32)>,
    /// Sibling gangs that will want to come later, the most important one first. The gang is placed where as many of
    /// them as possible find room beside it, each with its own packing.
    pub siblings: Vec<Sibling>,
    /// Nodes of siblings that are placed: among equals, pods go near them.
    pub near: Vec<Arc<str>>,
}

/// A gang of the same replica of which pods are still to come. Its groups need as many pods as they will have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sibling {
    /// Its name.
    pub name: String,
    /// Its packing.
    pub pack: Pack,
    /// Replicas of scaling groups, by positions in `groups`.
    pub configs: Vec<GroupConfig>,
    /// Its groups.
    pub groups: Vec<Group>,
}

/// Keep away from other replicas of the same set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spread {
    /// The label key of the level to spread over.
    pub key: String,
    /// How many other replicas each domain of that level holds.
    pub taken: BTreeMap<DomainPath, u32>,
    /// Never share a domain, instead of rather not.
    pub hard: bool,
}

/// A gang.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Gang {
    /// Its name, unique in the cluster.
    pub name: String,
    /// Its priority.
    pub priority: i32,
    /// It waits rather than evict others, whatever its priority.
    pub never_preempts: bool,
    /// The name of the topology its keys belong to; empty if it has no packing.
    pub topology: String,
    /// Its packing.
    pub pack: Pack,
    /// Replicas of scaling groups.
    pub configs: Vec<GroupConfig>,
    /// Its groups.
    pub groups: Vec<Group>,
    /// What it shares with its siblings.
    pub placement_group: Option<PlacementGroup>,
    /// Gangs that must be scheduled before this one.
    pub depends_on: Vec<String>,
    /// The domain it, or its predecessor, had before: tried first among equals.
    pub previous: Option<DomainPath>,
    /// Spreading of set replicas.
    pub spread: Option<Spread>,
    /// The claims on volumes that pods of the gang and its siblings name and that are not bound yet, by name.
    pub claims: BTreeMap<String, Arc<UnboundClaim>>,
    /// Siblings that are planned together with this gang. Their groups and configs are the last ones of the lists above;
    /// the plan does not have them.
    pub companions: Vec<Companion>,
}

/// A sibling that is planned together with a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Companion {
    /// Its name.
    pub name: String,
    /// Its packing.
    pub pack: Pack,
    /// The positions of its groups.
    pub groups: Range<usize>,
    /// The positions of its configs.
    pub configs: Range<usize>,
}

/// Why a gang has no turn yet.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Waiting {
    /// Another gang comes first.
    Gang(String),
    /// A group has fewer placeable pods than its floor.
    Pods {
        /// The group.
        group: String,
        /// Pods bound or placeable.
        have: u32,
        /// Its floor.
        need: u32,
    },
}

impl Gang {
    /// What the gang waits for before placement is worth a try; `scheduled` names the gangs that are.
    #[must_use]
    pub fn waiting(&self, scheduled: &BTreeSet<String>) -> Vec<Waiting> {
        let gangs = self.depends_on.iter().filter(|name| !scheduled.contains(*name));
        let mut waiting: Vec<Waiting> = gangs.cloned().map(Waiting::Gang).collect();
        for group in &self.groups {
            let have = count(&group.bound).saturating_add(count(&group.pending));
            if have < group.floor {
                waiting.push(Waiting::Pods {
                    group: group.name.clone(),
                    have,
                    need: group.floor,
                });
            }
        }
        waiting
    }

    /// How many groups are its own; those of companions come after them.
    #[must_use]
    pub fn own_groups(&self) -> usize {
        self.companions
            .first()
            .map_or(self.groups.len(), |companion| companion.groups.start)
    }

    /// Whether every floor is met by pods already bound.
    #[must_use]
    pub fn is_scheduled(&self) -> bool {
        self.groups.iter().all(|group| group.missing() == 0)
    }
}
