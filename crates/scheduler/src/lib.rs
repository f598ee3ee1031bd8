//! The gang scheduler: a thin shell around `coppice-placement`.
//!
//! The way of a change: a watch event lands in the cache; the loop ([`scheduler`]) brings the [`model`] up to date, which
//! is the cluster in the terms of the placement engine; the [`engine`] decides whom to bind, evict, release and tell; the
//! actions are carried out beside the loop, and what failed is decided anew. [`model`] and [`engine`] are pure.
//!
//! On a real API server there is no transaction over several bindings, so a gang is bound in three steps that survive a
//! crash at any point: the plan is written to the gang, its pods are bound side by side, and whoever starts next
//! completes the stored plan; if that is impossible, the pods that were bound are deleted.

mod actions;
mod caught;
pub mod engine;
pub mod model;
pub mod scheduler;
mod volumes;
mod world;

pub use model::PLACED;
pub use scheduler::{DEFAULT_NAME, Options, Scheduler};
