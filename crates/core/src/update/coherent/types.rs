//! The words of the planner of coherent updates: what is wanted, what is stored, what was observed.
//!
//! Components are positions in [`Target::components`]. Nothing here knows an API object; [`super::wire`] translates.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use coppice_api::names::Epoch;
use jiff::{SignedDuration, Timestamp};

/// The hash of the pod templates of one component.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(Arc<str>);

impl Revision {
    /// A revision by its hash.
    pub fn new(hash: &str) -> Self {
        Self(hash.into())
    }

    /// The hash.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What one unit of a component is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComponentKind {
    /// A standalone clique: a unit is one pod.
    Standalone,
    /// A scaling group: a unit is one copy with all its pods.
    Group,
}

/// A standalone clique or a scaling group of one replica of a set.
#[derive(Clone, Debug)]
pub struct Component {
    /// Its name in the template.
    pub name: String,
    /// What its units are.
    pub kind: ComponentKind,
    /// The template that its units should have.
    pub revision: Revision,
    /// Whether pods can be rendered from that template.
    pub revision_stored: bool,
    /// Units that there should be.
    pub desired: u32,
    /// Units without which a version cannot serve.
    pub minimum: u32,
    /// Units that an update may take at a time.
    pub max_unavailable: u32,
}

impl Component {
    /// The units of this component that an anchor holds.
    pub(super) fn anchored(&self) -> u32 {
        self.minimum.max(1).min(self.desired)
    }

    /// The available units below which an update takes none.
    pub(super) fn floor(&self) -> u32 {
        self.desired.saturating_sub(self.max_unavailable)
    }
}

/// What happens when a bridge cannot be placed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SurgePolicy {
    /// The update goes on without it, where its budget allows.
    #[default]
    BestEffort,
    /// The update stops.
    Required,
}

/// What happens when an update makes no progress.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// It stops where it is.
    #[default]
    Pause,
    /// It is taken back, when units were placed and did not get ready.
    Rollback,
}

/// What a user may set of an update.
#[derive(Clone, Copy, Debug)]
pub struct Knobs {
    /// Bridges of an update.
    pub max_surge_units: u32,
    /// What happens when a bridge cannot be placed.
    pub surge_policy: SurgePolicy,
    /// How long a unit has to be ready before it counts as available.
    pub min_ready: SignedDuration,
    /// How long an update may make no progress.
    pub progress_deadline: SignedDuration,
}

impl Default for Knobs {
    fn default() -> Self {
        Self {
            max_surge_units: 0,
            surge_policy: SurgePolicy::BestEffort,
            min_ready: SignedDuration::ZERO,
            progress_deadline: SignedDuration::from_mins(30),
        }
    }
}

/// How units get from one template to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// By this planner.
    #[default]
    Coherent,
    /// Inside their gangs, by another strategy: the map follows sizes, and bridges go.
    InPlace,
}

/// What one replica of a set should become.
#[derive(Clone, Debug)]
pub struct Target {
    /// Its components, in an order that does not change.
    pub components: Vec<Component>,
    /// Components that the current update concerns, as recorded for the set. Those with stale units always belong to it.
    pub scope: BTreeSet<usize>,
    /// What the user set.
    pub knobs: Knobs,
    /// Whether the user stopped the update.
    pub paused: bool,
    /// Whether it is the turn of this replica.
    pub admitted: bool,
    /// The strategy in force.
    pub strategy: Strategy,
}

impl Target {
    /// The templates of the components.
    pub(super) fn revisions(&self) -> Vec<Revision> {
        self.components
            .iter()
            .map(|component| component.revision.clone())
            .collect()
    }
}

/// What the gangs of an epoch are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Role {
    /// The smallest complete system, in one gang, with further pods of standalone cliques.
    Anchor,
    /// Copies of scaling groups beyond it, in one gang each.
    Tail,
    /// Copies that were added by scaling, in one gang each.
    ScaleOut,
    /// A temporary system that carries the load of an update, in one gang.
    Bridge,
}

impl Role {
    /// Whether all units of an epoch with this role are in one gang.
    pub fn is_one_gang(self) -> bool {
        matches!(self, Self::Anchor | Self::Bridge)
    }
}

/// Units of one component in one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Units {
    /// So many pods of a standalone clique.
    Pods(u32),
    /// These copies of a scaling group.
    Copies(BTreeSet<u32>),
}

impl Units {
    /// How many there are.
    pub fn count(&self) -> u32 {
        match self {
            Self::Pods(pods) => *pods,
            Self::Copies(copies) => u32::try_from(copies.len()).unwrap_or(u32::MAX),
        }
    }
}

/// What one component has in one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share {
    /// The template from which its units are created.
    pub revision: Revision,
    /// Its units.
    pub units: Units,
}

/// The units of one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub epoch: Epoch,
    /// What its gangs are for.
    pub role: Role,
    /// Its components.
    pub shares: BTreeMap<usize, Share>,
    /// Epochs whose gangs are scheduled before pods of this one are released.
    pub depends_on: Vec<Epoch>,
}

/// Who belongs to which gang, in one replica.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Map {
    /// One entry an epoch, in ascending order.
    pub entries: Vec<Entry>,
    /// The epoch that the next new entry gets. No epoch is used twice, also when its entry is gone.
    pub next_epoch: Epoch,
}

impl Map {
    /// Units of a component, without those of bridges.
    pub fn planned(&self, component: usize) -> u32 {
        let entries = self.entries.iter().filter(|entry| entry.role != Role::Bridge);
        let shares = entries.filter_map(|entry| entry.shares.get(&component));
        shares.map(|share| share.units.count()).sum()
    }

    /// Whether there is a temporary system.
    pub fn has_bridge(&self) -> bool {
        self.entries.iter().any(|entry| entry.role == Role::Bridge)
    }
}

/// A unit that exists: a pod of a standalone clique, or a copy with at least one pod.
#[derive(Clone, Debug, PartialEq)]
pub struct LiveUnit {
    /// Its component.
    pub component: usize,
    /// Its index in its scaling group; none for a pod of a standalone clique.
    pub copy: Option<u32>,
    /// The epoch it was created for, by its label.
    pub epoch: Epoch,
    /// The role of that epoch, by its label.
    pub role: Role,
    /// The template it was created from, by its label.
    pub revision: Revision,
    /// Whether all its pods have a node.
    pub scheduled: bool,
    /// Since when all its pods are ready.
    pub ready_since: Option<Timestamp>,
    /// Whether it is being deleted.
    pub terminating: bool,
}

/// What was read of one replica.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Its units, oldest first.
    pub units: Vec<LiveUnit>,
    /// Epochs whose gangs have all been scheduled at some time.
    pub scheduled: BTreeSet<Epoch>,
}

/// What is remembered of an update of one replica. All of it may be lost: units then have to be ready once more before
/// the next batch, and the progress deadline starts again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaRecord {
    /// The templates that this record is about.
    pub revisions: Vec<Revision>,
    /// The most units of an epoch and component that were available at one time.
    pub settled: BTreeMap<(Epoch, usize), u32>,
    /// The fewest stale units so far.
    pub fewest_stale: u32,
    /// When the update last made progress.
    pub last_progress: Option<Timestamp>,
    /// Whether the update goes on without a bridge, because none could be placed.
    pub surge_abandoned: bool,
    /// Whether the replica waits for its turn, or for the user.
    pub held: bool,
}

/// Where a replica stands. Derived on every call and never read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The map is made from what exists.
    Adopt,
    /// The map follows a change of size.
    Scale,
    /// Nothing is to be updated.
    Idle,
    /// Other replicas are updated first.
    Queued,
    /// A temporary system is made, or removed because its version was abandoned.
    Bridging,
    /// The first gang at the target is made, or waits for the budget.
    Anchoring,
    /// Units at the target have not been available yet.
    Settling,
    /// Further units follow, or wait for the budget.
    Rolling,
    /// All units are at the target; the temporary system goes.
    Trimming,
    /// No progress within the deadline.
    Stalled,
    /// Stopped by the user.
    Paused,
    /// Another strategy is in force.
    InPlace,
}

/// Why a replica waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// It does not wait.
    None,
    /// Other replicas are updated first.
    WaitingForTurn,
    /// The user stopped the update.
    Paused,
    /// A gang at the target is not scheduled.
    GangUnschedulable,
    /// A temporary system is not scheduled.
    SurgeCapacityUnavailable,
    /// Units at the target are scheduled and not available yet.
    UnitsNotReady,
    /// One more unavailable unit would be below the floor of its component.
    BudgetExhausted,
    /// The template of the target is not stored.
    RevisionMissing,
}

/// How far one component is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Units that there should be.
    pub desired: u32,
    /// Units that are available, with those of bridges.
    pub available: u32,
    /// Units at the target, without those of bridges.
    pub updated: u32,
    /// Units that are not at the target, without those of bridges.
    pub stale: u32,
}

/// What to do with one replica, and where it stands.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// The map to store, on the condition that the map that was read is still stored. None while `record` differs from
    /// the one that was read: that is stored first.
    pub map: Option<Map>,
    /// The record to store.
    pub record: ReplicaRecord,
    /// Whether the map changes once the record is stored. Until then nothing that follows from the map is of use.
    pub awaits_record: bool,
    /// Where the replica stands.
    pub phase: Phase,
    /// Why it waits.
    pub reason: Reason,
    /// When to plan again if nothing else happens.
    pub deadline: Option<Timestamp>,
    /// How far each component is.
    pub progress: Vec<Progress>,
    /// Epochs with units at the target that have not been available yet.
    pub in_flight: Vec<Epoch>,
    /// Components that the update concerns.
    pub scope: BTreeSet<usize>,
    /// Whether units at the target were placed and did not get ready within the deadline.
    pub failed: bool,
    /// Whether nothing is left to do: no stale unit, every unit was available once, floors hold, no bridge.
    pub done: bool,
}
