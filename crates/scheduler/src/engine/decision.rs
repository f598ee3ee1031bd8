//! What the engine decides: the types that the shell carries out.

use std::collections::{BTreeMap, BTreeSet};

use coppice_placement::Reason;
use coppice_runtime::cache::{Meta, ObjectKey};
use jiff::Timestamp;

use crate::model::volumes::Provision;
use crate::model::{GangId, StoredPlan};

/// A pod to bind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// The pod.
    pub pod: Meta,
    /// Where to.
    pub node: String,
}

/// Pods of one gang to bind.
#[derive(Debug, Clone, PartialEq)]
pub struct Commit {
    /// The gang.
    pub gang: GangId,
    /// Its pods.
    pub bindings: Vec<Bind>,
    /// Claims that must be bound before the pods are.
    pub volumes: Vec<Provision>,
    /// What to store on the gang first; nothing when one write is all there is, or when it is stored already.
    pub store: Option<StoredPlan>,
    /// How well the gang is placed.
    pub score: f64,
    /// What to say about the placement beside the bindings.
    pub notes: Vec<Reason>,
}

/// Pods of others that make room for a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// The gang that the room is for.
    pub gang: GangId,
    /// What to store on that gang first: the plan that uses the room.
    pub store: Option<StoredPlan>,
    /// The victims, by gang.
    pub victims: BTreeMap<String, Vec<Meta>>,
    /// Those of them that a disruption budget protects.
    pub protected: BTreeSet<ObjectKey>,
}

/// Pods of a gang that was bound in part and cannot be completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Release {
    /// The gang.
    pub gang: GangId,
    /// Its pods that have nodes.
    pub pods: Vec<Meta>,
}

/// A gang that is placed and does not say so, or not how well.
#[derive(Debug, Clone, PartialEq)]
pub struct Confirmation {
    /// The gang.
    pub gang: ObjectKey,
    /// What to say.
    pub message: String,
    /// How well it is placed.
    pub score: f64,
}

/// Why pods wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The gang.
    pub gang: GangId,
    /// The reason.
    pub reason: Reason,
    /// Waiting pods whose condition does not say this yet.
    pub pods: Vec<Meta>,
    /// Whether each of them gets an event too.
    pub events: bool,
    /// No pod of the gang has a node.
    pub whole: bool,
}

/// A gang that is set aside because deciding about it panicked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetAside {
    /// The gang.
    pub gang: GangId,
    /// The message of the panic.
    pub message: String,
}

/// What to do now.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Decision {
    /// Gangs to bind.
    pub commits: Vec<Commit>,
    /// Pods to evict.
    pub evictions: Vec<Eviction>,
    /// Gangs to undo.
    pub releases: Vec<Release>,
    /// Gangs to report on.
    pub reports: Vec<Report>,
    /// Gangs to call placed.
    pub confirmations: Vec<Confirmation>,
    /// Gangs about which deciding panicked.
    pub set_aside: Vec<SetAside>,
    /// When to decide again at the latest.
    pub wake: Option<Timestamp>,
}
