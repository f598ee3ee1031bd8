//! The operator: a thin shell around `coppice-core`.
//!
//! The way of a change: a watch event lands in the cache and marks the key of the replica it belongs to ([`keys`]); a
//! worker takes a snapshot ([`world`]), asks the planner, carries out the commands stage by stage ([`actions`]), and
//! plans again until nothing is left to do ([`controller`]). Nothing here decides what should be.
//!
//! Beside it stand the admission [`webhooks`], which read the same cache, the [`certificates`] they are served with, and
//! the [`configuration`] of it all.

pub mod actions;
pub mod certificates;
pub mod configuration;
pub mod controller;
mod holding;
pub mod keys;
pub mod operator;
mod pacing;
mod pod_groups;
mod pods;
mod trouble;
pub mod webhooks;
pub mod world;

pub use operator::{Operator, Options};
