//! The certificates of the webhook server: made and rotated here, or taken from files.
//!
//! Owns the Secret with the certificate, the CA bundles in the webhook configurations, and what the server presents.
//!
//! # Rotation without a failed request
//!
//! An authority signs one certificate and its key is thrown away, so there is no key of an authority to steal, neither in
//! the Secret nor in a pod. A renewal therefore brings a new authority, and goes through three states that all replicas
//! read from the Secret: the next certificate is *staged* beside the current one and its authority published in the
//! bundles; when every bundle has it, and API servers have had time to notice, it is *promoted*; the old authority stays in
//! the bundle until it expires. Whoever writes the Secret does so under the version that it read, so of several replicas
//! one wins and the others follow.
//!
//! [`plan`] decides, [`keeper`] acts, and nothing happens without an event or a computed deadline. Never exits the
//! process, never overwrites a Secret that belongs to somebody else.

pub mod bundles;
pub mod files;
pub mod issue;
pub mod keeper;
pub mod material;
pub mod plan;
pub mod served;

pub use keeper::{Keeper, Options};
pub use served::Served;

use std::collections::BTreeSet;

/// The names of a service in the cluster, as API servers and people call it.
#[must_use]
pub fn service_names(service: &str, namespace: &str, cluster_domain: &str) -> BTreeSet<String> {
    BTreeSet::from([
        service.to_owned(),
        format!("{service}.{namespace}"),
        format!("{service}.{namespace}.svc"),
        format!("{service}.{namespace}.svc.{cluster_domain}"),
    ])
}
