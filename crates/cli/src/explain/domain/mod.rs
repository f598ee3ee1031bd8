//! `coppice explain computedomain/NAME`: which nodes have joined a domain, and what it waits for.
//!
//! Owns the report. What is read is in [`objects`], what follows from it in [`causes`], which is pure.

mod causes;
mod objects;
mod text;

use std::path::Path;

use anyhow::{Result, bail};
use serde::Serialize;

use crate::client::Cluster;
pub(super) use objects::DomainObjects;
pub(super) use text::render;

/// Where a domain stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DomainReport {
    /// `NAMESPACE/NAME`.
    pub(super) domain: String,
    /// Its UID, which its label on nodes and pods has.
    pub(super) uid: String,
    /// `Ready` or `NotReady`.
    pub(super) state: String,
    /// What its controller says, when it says something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    /// The nodes that have joined.
    pub(super) nodes: Vec<NodeLine>,
    /// What it waits for, most fundamental first.
    pub(super) waits: Vec<Wait>,
}

/// A node of a domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NodeLine {
    /// Its name.
    pub(super) node: String,
    /// Its clique; empty without a fabric.
    pub(super) clique: String,
    /// Its index in the clique.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) index: Option<i64>,
    /// Whether its daemon is ready.
    pub(super) ready: bool,
}

/// Something that a domain waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Wait {
    /// What is the matter.
    pub(super) cause: String,
    /// The nodes, pods or claims that it is the matter with.
    pub(super) subjects: Vec<String>,
    /// What to do.
    pub(super) help: String,
}

/// The name of a domain, when that is what the target means.
pub(super) fn target(arguments: &[String]) -> Option<&str> {
    const KINDS: [&str; 3] = ["computedomain", "computedomains", "computedomains.resource.nvidia.com"];
    match arguments {
        [one] => one
            .split_once('/')
            .filter(|(kind, _)| KINDS.contains(kind))
            .map(|(_, name)| name),
        [kind, name] => KINDS.contains(&kind.as_str()).then_some(name),
        _ => None,
    }
}

/// Reads what is needed and explains.
pub(super) async fn explain(
    cluster: &Cluster,
    snapshot: Option<&Path>,
    namespace: Option<String>,
    name: &str,
) -> Result<DomainReport> {
    let (objects, usual) = match snapshot {
        Some(file) => (DomainObjects::read(file)?, "default".to_owned()),
        None => DomainObjects::fetch(cluster).await?,
    };
    let namespace = namespace.unwrap_or(usual);
    match causes::report(&objects, &namespace, name) {
        Some(report) => Ok(report),
        None => bail!("ComputeDomain {namespace}/{name} does not exist"),
    }
}

#[cfg(test)]
mod tests;
