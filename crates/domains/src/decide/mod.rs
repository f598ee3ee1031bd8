//! Everything that controller, node daemon and kubelet plugin decide, as functions of what was observed and of `now`.
//!
//! Nothing here has a client, a runtime, a clock or randomness, and nothing trusts what a node or a tenant wrote: sizes
//! are bounded by what exists, texts are parsed before they reach a file, and an unknown value is an error or absent.

pub mod daemon;
pub mod domain;
pub mod gates;
pub mod plugin;
pub mod render;
pub mod rows;
pub mod status;
