//! The operator's configuration file (`operator.config.grove.io/v1alpha1`): every field, its default and its rules.
//!
//! Reading is lenient where it can be and strict where it must: a field that nobody knows is warned about with its path,
//! a value that cannot work is refused with its path, and all of them at once ([`reader`]). Every field that is read has
//! an effect; where Coppice has nothing to do with one, [`Configuration::read`] says so in a warning. Pure.

mod reader;
mod rules;

use std::time::Duration;

use coppice_api::admission::{DEFAULT_SCHEDULER, Schedulers};
use serde::Serialize;
use serde_json::Value;

pub use reader::Problem;

/// The version of the file.
pub const API_VERSION: &str = "operator.config.grove.io/v1alpha1";
/// The kind of the file.
pub const KIND: &str = "OperatorConfiguration";

/// A file that cannot be used: everything that is wrong with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
pub struct Invalid(pub Vec<Problem>);

/// What was read, and what is worth a word.
#[derive(Debug, Clone, PartialEq)]
pub struct Read {
    /// The configuration with its defaults.
    pub configuration: Configuration,
    /// What is accepted but probably not meant.
    pub warnings: Vec<Problem>,
}

/// The operator's configuration.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Configuration {
    /// [`API_VERSION`].
    pub api_version: &'static str,
    /// [`KIND`].
    pub kind: &'static str,
    /// How much the operator may ask of the API server.
    pub runtime_client_connection: ClientConnection,
    /// How one of several replicas is elected.
    pub leader_election: LeaderElection,
    /// Where the operator listens.
    pub server: Servers,
    /// Profiling.
    pub debugging: Debugging,
    /// How much is worked on at the same time.
    pub controllers: Controllers,
    /// How much is logged.
    pub log_level: LogLevel,
    /// How it is logged.
    pub log_format: LogFormat,
    /// The guard of managed objects.
    pub authorizer: Authorizer,
    /// Topology-aware scheduling.
    pub topology_aware_scheduling: Enabled,
    /// Networks between nodes.
    pub network: Network,
    /// When a gang is replaced as a whole.
    pub gang_termination: GangTermination,
    /// How long pods that ended are kept.
    pub ended_pods: EndedPods,
    /// The schedulers.
    pub scheduler: Scheduler,
}

/// How much the operator may ask of the API server.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClientConnection {
    /// Requests per second; no limit when 0 or less.
    pub qps: f64,
    /// Requests at once above that.
    pub burst: u32,
}

/// How one of several replicas is elected.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeaderElection {
    /// Whether there is an election; without, there must be one replica only.
    pub enabled: bool,
    /// How long others wait after the last renewal.
    #[serde(serialize_with = "duration")]
    pub lease_duration: Duration,
    /// How long the leader tries to renew.
    #[serde(serialize_with = "duration")]
    pub renew_deadline: Duration,
    /// How long between tries.
    #[serde(serialize_with = "duration")]
    pub retry_period: Duration,
    /// The kind of lock; only `leases`.
    pub resource_lock: String,
    /// The name of the lease.
    pub resource_name: String,
    /// The namespace of the lease; the operator's own when empty.
    pub resource_namespace: String,
}

/// Where the operator listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Servers {
    /// Webhooks, over TLS.
    pub webhooks: Webhooks,
    /// Probes.
    pub health_probes: HealthProbes,
    /// Metrics.
    pub metrics: Listener,
}

/// An address.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// The address to bind to; all of them when empty.
    pub bind_address: String,
    /// The port; a free one when 0.
    pub port: u16,
}

/// The server of the probes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HealthProbes {
    /// Whether there is one.
    pub enable: bool,
    /// Where it listens.
    #[serde(flatten)]
    pub listener: Listener,
}

/// The server of the webhooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Webhooks {
    /// Where it listens.
    #[serde(flatten)]
    pub listener: Listener,
    /// Where certificates are read in manual mode.
    pub server_cert_dir: String,
    /// The Secret with the certificates in auto mode.
    pub secret_name: String,
    /// Who makes certificates.
    pub cert_provision_mode: CertProvisionMode,
}

/// Who makes certificates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CertProvisionMode {
    /// The operator.
    Auto,
    /// Somebody else; they are mounted.
    Manual,
}

/// Profiling.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Debugging {
    /// Asked for; there is no Go profile to serve, so this only warns.
    pub enable_profiling: bool,
    /// Where it would listen.
    pub pprof_bind_host: String,
    /// Where it would listen.
    pub pprof_bind_port: u16,
}

/// How much is worked on at the same time. One planner sees a whole replica, so the four numbers of the Go operator's
/// controllers add up to one number of workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Controllers {
    /// For sets.
    pub pod_clique_set: ConcurrentSyncs,
    /// For cliques.
    pub pod_clique: ConcurrentSyncs,
    /// For scaling groups.
    pub pod_clique_scaling_group: ConcurrentSyncs,
    /// For gangs.
    pub pod_gang: ConcurrentSyncs,
}

/// Work at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConcurrentSyncs {
    /// At most.
    pub concurrent_syncs: u32,
}

/// How much is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// What is decided and why.
    Debug,
    /// What happens.
    Info,
    /// What goes wrong.
    Error,
}

impl LogLevel {
    /// As a filter of the log.
    #[must_use]
    pub const fn filter(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Error => "error",
        }
    }
}

/// How it is logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// One JSON object a line.
    Json,
    /// For people.
    Text,
}

/// The guard of managed objects.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Authorizer {
    /// Whether it is on.
    pub enabled: bool,
    /// Users who may change managed objects, by full name.
    pub exempt_service_account_user_names: Vec<String>,
    /// The operator's own user name; asked of the API server when empty.
    pub reconciler_service_account_user_name: String,
}

/// A switch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Enabled {
    /// Whether it is on.
    pub enabled: bool,
}

/// Networks between nodes, and names in them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Network {
    /// The DNS domain of the cluster, which names of services end with.
    #[serde(rename = "clusterDomain")]
    pub cluster_domain: String,
    /// Whether NVLink groups are honoured.
    #[serde(rename = "autoMNNVLEnabled")]
    pub auto_mnnvl_enabled: bool,
}

/// When a gang is replaced as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GangTermination {
    /// What happens when a clique that had its minimum ready has lost every pod with a node.
    pub when_all_lost: WhenAllLost,
}

/// What happens to a gang when one of its cliques has lost every pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum WhenAllLost {
    /// The rest keeps running, and the clique waits for nodes: replacing the rest frees nothing for it.
    Wait,
    /// It is replaced after the termination delay, as the Go operator does.
    Terminate,
}

/// How many pods that ended are kept beside their replacements, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EndedPods {
    /// At most so many of each clique, the ones that ended last.
    pub per_clique: u32,
    /// At most so long after they ended.
    #[serde(serialize_with = "duration")]
    pub keep_for: Duration,
}

/// The schedulers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Scheduler {
    /// The enabled ones.
    pub profiles: Vec<Profile>,
    /// The one of cliques that name none.
    pub default_profile_name: String,
}

/// An enabled scheduler.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Profile {
    /// Its name, as in `schedulerName`.
    pub name: String,
    /// What is set for it.
    #[serde(skip_serializing_if = "ProfileConfig::is_default")]
    pub config: ProfileConfig,
}

/// What is set for a scheduler.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ProfileConfig {
    /// `default-scheduler` only: gangs get PodGroups of Kubernetes itself.
    pub gang_scheduling: bool,
}

impl ProfileConfig {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Configuration {
    /// Reads a file, YAML or JSON.
    ///
    /// # Errors
    /// With everything that is wrong, by path.
    pub fn read(text: &str) -> Result<Read, Invalid> {
        let value: Value = serde_saphyr::from_str(text)
            .map_err(|error| Invalid(vec![Problem::new("", &format!("is neither YAML nor JSON: {error}"))]))?;
        rules::read(&value)
    }

    /// The schedulers, as admission asks for them.
    #[must_use]
    pub fn schedulers(&self) -> Schedulers {
        let names = self.scheduler.profiles.iter().map(|profile| profile.name.as_str());
        let schedulers = Schedulers {
            default_profile: self.scheduler.default_profile_name.clone(),
            ..Schedulers::named(names)
        };
        if self.native_gangs() {
            schedulers.with_native_gangs()
        } else {
            schedulers
        }
    }

    /// Whether gangs get PodGroups of Kubernetes itself, for its own scheduler.
    #[must_use]
    pub fn native_gangs(&self) -> bool {
        let mut profiles = self.scheduler.profiles.iter();
        profiles.any(|profile| profile.name == DEFAULT_SCHEDULER && profile.config.gang_scheduling)
    }

    /// How long pods that ended are kept, as planners read it.
    #[must_use]
    pub fn ended_pods(&self) -> coppice_core::settings::EndedPods {
        coppice_core::settings::EndedPods {
            per_clique: self.ended_pods.per_clique as usize,
            keep_for: jiff::SignedDuration::try_from(self.ended_pods.keep_for).unwrap_or(jiff::SignedDuration::MAX),
        }
    }

    /// Keys that are worked on at the same time.
    #[must_use]
    pub fn workers(&self) -> usize {
        let Controllers {
            pod_clique_set,
            pod_clique,
            pod_clique_scaling_group,
            pod_gang,
        } = self.controllers;
        let all = [pod_clique_set, pod_clique, pod_clique_scaling_group, pod_gang];
        all.iter().map(|one| one.concurrent_syncs as usize).sum()
    }
}

impl Default for Configuration {
    fn default() -> Self {
        rules::read(&Value::Object(serde_json::Map::new()))
            .expect("the defaults keep the rules")
            .configuration
    }
}

fn duration<S: serde::Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    let nanoseconds = i64::try_from(value.as_nanos()).unwrap_or(i64::MAX);
    serializer.collect_str(&coppice_api::duration::Duration::from_nanoseconds(nanoseconds))
}

#[cfg(test)]
mod tests;
