//! What admission depends on besides the objects of the request: configuration and the cluster's facts, as data.

use std::collections::BTreeMap;

use crate::types::ClusterTopologyBindingSpec;

/// Configuration and cluster facts.
#[derive(Clone, Debug, Default)]
pub struct Context {
    /// The enabled schedulers.
    pub schedulers: Schedulers,
    /// Whether topology constraints are honoured.
    pub topology_aware_scheduling: bool,
    /// Whether NVLink groups are honoured.
    pub auto_mnnvl: bool,
    /// The ClusterTopologyBindings of the cluster, by name.
    pub topologies: BTreeMap<String, ClusterTopologyBindingSpec>,
    /// The Volcano queues of the cluster, by name; none when they are not known, and then they are not judged.
    pub volcano_queues: Option<BTreeMap<String, QueueState>>,
}

/// The enabled schedulers.
#[derive(Clone, Debug)]
pub struct Schedulers {
    /// Profiles by name: the names that `schedulerName` may have.
    pub profiles: BTreeMap<String, SchedulerProfile>,
    /// The profile of cliques that name none.
    pub default_profile: String,
}

/// The scheduler of Kubernetes itself.
pub const DEFAULT_SCHEDULER: &str = "default-scheduler";

impl Schedulers {
    /// Profiles with these names, each with the back-end that the name is known for; the first is the default.
    pub fn named<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut default_profile = None;
        let mut profiles = BTreeMap::new();
        for name in names {
            default_profile.get_or_insert_with(|| name.to_owned());
            profiles.insert(name.to_owned(), SchedulerProfile::named(name));
        }
        let default_profile = default_profile.unwrap_or_else(|| DEFAULT_SCHEDULER.to_owned());
        Self {
            profiles,
            default_profile,
        }
    }

    /// The same, with gang scheduling of Kubernetes' own scheduler enabled.
    #[must_use]
    pub fn with_native_gangs(mut self) -> Self {
        if let Some(profile) = self.profiles.get_mut(DEFAULT_SCHEDULER) {
            profile.backend = SchedulerBackend::KubernetesGangs;
        }
        self
    }

    /// The scheduler of a pod that names this one, or none.
    pub fn resolve<'a>(&'a self, name: Option<&'a str>) -> &'a str {
        name.filter(|name| !name.is_empty()).unwrap_or(&self.default_profile)
    }
}

impl Default for Schedulers {
    /// The scheduler of Kubernetes alone.
    fn default() -> Self {
        Self::named([DEFAULT_SCHEDULER])
    }
}

/// An enabled scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedulerProfile {
    /// What kind of scheduler it is.
    pub backend: SchedulerBackend,
    /// Whether it has topology objects that a ClusterTopologyBinding may refer to.
    pub topology_aware: bool,
}

impl SchedulerProfile {
    /// The profile that a name is known for; any other name is a scheduler that understands gangs by itself.
    pub fn named(name: &str) -> Self {
        let backend = match name {
            DEFAULT_SCHEDULER => SchedulerBackend::Kubernetes,
            "kai-scheduler" => SchedulerBackend::Kai,
            "volcano" => SchedulerBackend::Volcano,
            "lpx-scheduler" => SchedulerBackend::Lpx,
            _ => SchedulerBackend::Gangs,
        };
        let topology_aware = backend == SchedulerBackend::Kai;
        Self {
            backend,
            topology_aware,
        }
    }
}

/// Kinds of schedulers, by what they ask of a set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchedulerBackend {
    /// The scheduler of Kubernetes: places pods one by one.
    Kubernetes,
    /// The same with gang scheduling enabled: one minimum and one required level for all pods of a gang.
    KubernetesGangs,
    /// KAI: needs a queue.
    Kai,
    /// Volcano: needs an open queue, knows no topology constraints.
    Volcano,
    /// LPX: knows no topology constraints.
    Lpx,
    /// Reads PodGangs itself, topology included; Coppice's own scheduler is one.
    Gangs,
}

/// The state of a Volcano queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueState {
    /// Takes jobs.
    Open,
    /// Any other state, by its name.
    Other(String),
}
