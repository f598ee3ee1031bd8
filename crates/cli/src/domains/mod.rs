//! ComputeDomains in an embedded cluster: the controller in this process, and on every simulated node our plugin's and our
//! daemon's decisions around an `nvidia-imex` that is simulated, too.
//!
//! Owns the connection between the simulated kubelets, which know nothing of ComputeDomains, and the deciders, which know
//! nothing of simulated nodes. Nothing of the decisions is repeated here.

mod agent;
mod daemon;
mod node;
mod setup;

pub(crate) use agent::Fabric;
pub(crate) use setup::{DRIVER_NAMESPACE, install, start_controller};
