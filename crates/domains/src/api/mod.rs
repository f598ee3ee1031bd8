//! The API as data: both kinds, the opaque parameters of claims, names, and the CRDs with their rules.
//!
//! The wire format is that of NVIDIA's driver: group, version, kinds, fields, labels and names are kept as they are.
//! What we add (a row's `podUID`, conditions and counts in the status, bounds and rules in the CRDs) is additive:
//! the driver's own components ignore it.

pub mod clique;
pub mod compute_domain;
pub mod crd;
pub mod dns;
pub mod limits;
pub mod names;
pub mod parameters;

pub use clique::{Clique, DaemonRow};
pub use compute_domain::{
    AllocationMode, CliqueSummary, ComputeDomain, DomainNode, DomainSpec, DomainStatus, Readiness,
};
pub use parameters::{ClaimParameters, ParameterError};
