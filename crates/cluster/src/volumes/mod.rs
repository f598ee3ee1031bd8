//! Volumes: claims meet volumes, and volumes are made and removed.
//!
//! Two components in one controller, each of which can be switched off. The *binder* does what the controller manager of a
//! Kubernetes does: it gives claims to volumes and volumes to claims, makes the claims of ephemeral volumes, and reports
//! phases. The *provisioner* does what a storage driver does: it makes volumes for classes with the provisioner
//! [`PROVISIONER`] and deletes those that are released. Storage classes that bind when a pod is placed wait for the
//! annotation that names a node. `decide` is pure.

mod controller;
mod decide;
mod view;

pub(crate) use controller::{Parts, run};
pub use view::{PROVISIONER, TOPOLOGY_KEY};
