//! Claims on volumes that are not bound yet: where they could be served from.
//!
//! Owns the form of the question: a claim has one or more possibilities, each of which reaches some nodes, and all pods that
//! share the claim must be within reach of the one that is chosen. Types only; the scheduler's shell builds them from
//! claims, volumes, storage classes and what drivers report. What is bound already is a rule about nodes
//! ([`crate::predicates::VolumeReach`]).

use crate::predicates::NodeSelector;

/// A claim that is not bound.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct UnboundClaim {
    /// What it is, for people.
    pub what: String,
    /// Where it could be served from, best first.
    pub sources: Vec<VolumeSource>,
}

/// One way to serve a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeSource {
    /// A volume that exists. Only one claim gets it.
    Volume {
        /// Its name.
        name: String,
        /// The nodes that can use it; none means all.
        nodes: Option<NodeSelector>,
    },
    /// A volume that is made where it is needed.
    Provisioned {
        /// The node labels that tell apart the places it can be in; without any it is within reach of every node.
        keys: Vec<String>,
        /// Selectors that must all match the nodes it is made for.
        nodes: Vec<NodeSelector>,
    },
}
