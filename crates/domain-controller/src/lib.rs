//! The controller of ComputeDomains: a thin shell around `coppice-domains`.
//!
//! The way of a change: a watch event lands in the cache and marks keys of the domain it belongs to; a worker assembles
//! the facts of that domain, calls the deciders, and carries out what they say. Objects and status of a domain, the rows of
//! its cliques, each write of a clique and each live read have keys of their own, so none waits for another.
//!
//! Everything that is written is created under a fixed name or conditional on the version that was read. The process may
//! be killed between any two writes: what is stored is all that the next one needs.

mod actions;
mod controller;
mod domain;
mod leftovers;
mod rows;
mod state;
mod views;
mod world;

pub use controller::{DomainController, Options};
