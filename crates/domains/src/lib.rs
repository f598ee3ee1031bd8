//! ComputeDomains (`resource.nvidia.com/v1beta1`): the nodes of a multi-node NVLink workload and the IMEX daemons that
//! serve them.
//!
//! [`api`] holds the types, names, claim parameters and CRDs; [`decide`] everything that controller, node daemon and
//! kubelet plugin decide. Both are pure: no client, no runtime, no clock, no randomness; decisions take `now` as an
//! argument. Whatever reads, writes, signals or waits belongs in a shell outside these two modules.

pub mod api;
pub mod decide;
