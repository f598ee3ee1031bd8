//! Simulated kubelets: one client for thousands of nodes.
//!
//! Owns everything a kubelet tells the API about pods: phases, conditions, container states, addresses, restarts and
//! the last step of deletion. Nothing runs; behaviour comes from [`crate::behaviour`]. A bound pod without delays
//! becomes running and ready with a single write.
//!
//! What real kubelets do and these do not: admission against the node's capacity, probes, ephemeral containers,
//! volumes, events for ordinary progress, init containers again after a node's power loss, `observedGeneration`.

mod addresses;
mod containers;
mod controller;
mod lifecycle;
pub(crate) mod pod;
mod report;
mod requests;
pub(crate) mod status;

#[cfg(test)]
mod tests;

pub(crate) use controller::{KubeletOptions, run};
