//! What the operator's configuration contributes to decisions.

use std::collections::BTreeMap;

/// Settings that hold for all sets.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The scheduler of cliques that name none.
    pub default_scheduler: String,
    /// The DNS domain of the cluster.
    pub cluster_domain: String,
    /// The image of the container that waits for other cliques.
    pub waiter_image: String,
    /// Whether packing constraints are handed to the scheduler.
    pub topology_aware: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            default_scheduler: "default-scheduler".to_owned(),
            cluster_domain: "cluster.local".to_owned(),
            waiter_image: "coppice".to_owned(),
            topology_aware: false,
        }
    }
}

/// The levels of the topology that a set refers to: node label keys by domain.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TopologyLevels {
    /// The ClusterTopologyBinding.
    pub name: String,
    /// Node label keys by domain.
    pub keys: BTreeMap<String, String>,
}
