//! Installs the CustomResourceDefinitions of Coppice in a cluster.
//!
//! Owns the way from [`coppice_api::crd::all`] to a cluster that serves the kinds: check, apply, wait. It applies on the
//! server's side under a field manager of its own, so it takes over definitions that another tool or an older version
//! left, can run as often and in as many places at once as one likes. It deletes one definition, that of a kind which
//! this API no longer has, and only when no object of it exists ([`mod@legacy`]). It assumes a client that may read,
//! watch and patch CustomResourceDefinitions.
//!
//! What it refuses to do is decided before the first write, by pure functions in [`mod@decision`].

pub mod decision;
mod install;
pub mod legacy;

pub use decision::{Change, Refusal};
pub use install::{InstallError, InstallOptions, Progress, install, install_definitions};
pub use legacy::Legacy;
