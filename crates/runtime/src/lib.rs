//! What every controller of Coppice shares, on top of kube's client and nothing else of kube's runtime.
//!
//! The way of a change: [`cache::reflect`] turns list and watch answers into a [`cache::Kind`], whose handlers mark
//! keys in a [`queue::Queue`]; a worker takes a consistent snapshot, decides, and acts through a [`write::Writer`],
//! which consults the [`lease::Leadership`] and folds every answer back into the cache. So a plan never acts on a
//! world without its own last action.
//!
//! Everything here runs on one thread with paused tokio time: no wall clock outside [`clock`], no randomness that is
//! not seeded, no unordered iteration, no global state. The crate knows no kind of Grove's.

pub mod backoff;
pub mod bucket;
pub mod cache;
pub mod clock;
pub mod events;
pub mod health;
pub mod layers;
pub mod lease;
pub mod metrics;
pub mod queue;
pub mod server;
pub mod serving;
pub mod supervise;
pub mod write;

#[cfg(test)]
mod testing;
