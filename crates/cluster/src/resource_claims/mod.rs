//! Claims on devices: objects, templates and allocation.
//!
//! Owns the caches of ResourceClaims, ResourceSlices and DeviceClasses that several components share, the controller that
//! makes claims from templates, and the pure choice of devices. The controller stands in for the ResourceClaim controller of
//! kube-controller-manager and must not run beside it.

pub(crate) mod allocate;
mod controller;
mod pod;
mod reference;
mod selector;
mod view;

pub(crate) use allocate::{DeviceId, allocate};
pub(crate) use controller::run;
pub(crate) use reference::{ClaimReferences, ClaimStatus, PodClaim};
pub(crate) use view::{Claim, Devices, consumers};
