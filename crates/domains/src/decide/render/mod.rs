//! The objects that a domain consists of: a DaemonSet, two ResourceClaimTemplates, and the metadata of its cliques.
//!
//! Names, labels, finalizers, environment and probes are those of the driver. Additive: a priority class and requests for
//! the daemons, so that they do not queue behind the workload that waits for them, and a hash of the pod template.

mod claim_templates;
mod clique;
mod daemon_set;

pub use claim_templates::{daemon_template, workload_template};
pub use clique::{Ownership, clique_object};
pub use daemon_set::{TEMPLATE_HASH, daemon_set, gates_of};

use super::gates::Gates;

/// What the administrator chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderSettings {
    /// The namespace of the driver: where DaemonSets and cliques are created.
    pub namespace: String,
    /// The image of the daemons.
    pub image: String,
    /// Names of its pull secrets.
    pub image_pull_secrets: Vec<String>,
    /// Verbosity of the daemons' logs.
    pub log_verbosity: u32,
    /// Nodes of one IMEX domain.
    pub max_nodes: u32,
    /// Feature gates for the daemons.
    pub gates: Gates,
    /// Priority class of the daemons; empty for none.
    pub priority_class: String,
    /// What a daemon requests, as quantities of cpu and memory; empty for nothing.
    pub requests: (String, String),
    /// Whether IMEX daemons are run by the host.
    pub host_managed: bool,
}

impl Default for RenderSettings {
    fn default() -> Self {
        Self {
            namespace: "nvidia-dra-driver-gpu".to_owned(),
            image: String::new(),
            image_pull_secrets: Vec::new(),
            log_verbosity: 4,
            max_nodes: crate::api::limits::DEFAULT_MAX_NODES,
            gates: Gates::default(),
            priority_class: "system-node-critical".to_owned(),
            requests: ("10m".to_owned(), "64Mi".to_owned()),
            host_managed: false,
        }
    }
}
