//! The Grove API as data: types, CRDs, names, admission rules and the canonical pod template.
//!
//! Everything here is pure: no client, no clock, no randomness. Whatever needs one of those belongs in a crate above.

pub mod admission;
pub mod canonical;
pub mod crd;
pub mod duration;
pub mod names;
pub mod quantity;
pub mod revision;
pub mod sizes;
pub mod spread;
pub mod types;
