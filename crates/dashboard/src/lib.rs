//! A dashboard of gangs for people at a browser: a map of the cluster, gangs that wait and what would help, sets, what
//! happened, and what a manifest would change.
//!
//! Owns one server on a loopback address that shows what its user may read, and never changes the cluster. [`model`] and
//! [`page`] are pure: from objects to view models, and from those to markup that is bounded by what is shown, not by the
//! size of the cluster. [`world`] holds the objects in caches that watches feed, [`server`] answers requests, and [`guard`]
//! decides which requests are answered at all. Everything that comes from the cluster is escaped; nothing is loaded from
//! elsewhere.

pub mod access;
pub mod guard;
mod live;
pub mod model;
pub mod page;
pub mod server;
mod state;
pub mod world;

pub use server::{Dashboard, Options, Planner, StartError};
