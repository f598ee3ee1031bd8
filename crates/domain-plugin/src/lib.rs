//! The kubelet plugin of ComputeDomains: a thin shell around `coppice_domains::decide::plugin`.
//!
//! It publishes the node's devices ([`publish`]), is registered with the kubelet and called by it over Unix sockets
//! ([`grpc`], [`socket`]), and carries out what the deciders say ([`plugin`]), with everything that must survive a crash on
//! disk ([`store`]). It watches the own Node and nothing else; what a claim waits for is followed while it waits
//! ([`readiness`]).

mod authority;
mod files;
mod grpc;
pub mod hardware;
mod host_imex;
mod libraries;
pub mod plugin;
mod publish;
mod readiness;
mod reads;
mod run;
pub mod settings;
mod smi;
mod socket;
mod store;
mod upkeep;
pub mod wire;

pub use run::{PluginError, Running, start};
pub use settings::Settings;
