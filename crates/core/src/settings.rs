//! What the operator's configuration contributes to decisions.

use std::collections::BTreeMap;

use jiff::SignedDuration;

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
    /// Whether a clique that had its minimum ready and has lost every pod with a node counts as broken, so that its
    /// replica is replaced after the termination delay. By default it does not: replacing the rest of a gang frees
    /// nothing for a clique that has nothing left, and a Warning event tells of the loss. The Go operator replaces it.
    pub terminate_when_all_lost: bool,
    /// How long pods that ended are kept.
    pub ended_pods: EndedPods,
    /// Whether sets get ComputeDomains for the NVLink groups that they name.
    pub auto_mnnvl: bool,
    /// Whether KAI is one of the schedulers, so that its topology objects follow the ClusterTopologyBindings, and gangs
    /// get PodGroups of its own.
    pub kai: bool,
    /// Whether Volcano is one of the schedulers, so that gangs get PodGroups of its own.
    pub volcano: bool,
    /// Whether gangs get PodGroups of Kubernetes itself, for its own scheduler.
    pub native_gangs: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            default_scheduler: "default-scheduler".to_owned(),
            cluster_domain: "cluster.local".to_owned(),
            waiter_image: "coppice".to_owned(),
            topology_aware: false,
            terminate_when_all_lost: false,
            ended_pods: EndedPods::default(),
            auto_mnnvl: false,
            kai: false,
            volcano: false,
            native_gangs: false,
        }
    }
}

/// How many pods that ended are kept beside their replacements, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndedPods {
    /// At most so many of each clique, the ones that ended last.
    pub per_clique: usize,
    /// At most so long after they ended.
    pub keep_for: SignedDuration,
}

impl Default for EndedPods {
    fn default() -> Self {
        Self {
            per_clique: 2,
            keep_for: SignedDuration::from_mins(15),
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
