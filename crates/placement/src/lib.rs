//! The gang-placement engine.
//!
//! A pure function from a cluster and a gang to a plan: `(ClusterState, Gang, Options) -> Outcome`. No clock, no client, no
//! randomness, no hash order: the same question gets the same answer everywhere, and the work is bounded by steps.
//!
//! Where to look: [`resources`], [`shape`] and [`predicates`] say what pods and nodes are, [`topology`] which nodes lie
//! together, [`volume`] where volumes could come from, [`state`] what is free; [`gang`] is the question, [`plan`](mod@plan) the answer, [`preempt`] the answer at
//! the expense of others, [`explain`] what stands in the way and what would help, [`reasons`] the stable names of reasons.

pub mod budget;
pub mod explain;
pub mod gang;
pub mod plan;
pub mod predicates;
pub mod preempt;
pub mod reasons;
pub mod resources;
pub mod shape;
pub mod state;
pub mod topology;
pub mod volume;

pub use gang::{Gang, Group, GroupConfig, Overfull, Pack, PlacementGroup, Sibling, Spread, Waiting};
pub use plan::{Options, Outcome, Plan, plan};
pub use reasons::{Reason, ReasonCode};
pub use state::{ClusterState, NodeId};
