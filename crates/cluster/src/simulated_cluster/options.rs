//! What a simulated cluster consists of.
//!
//! Owns the settings and their defaults: everything on, as an embedded API server needs it. Beside the controllers of a
//! real Kubernetes, use [`Controllers::nodes_only`].

use crate::behaviour::PodBehaviour;
use crate::init_wait::{WaitRule, clique_wait_rule};
use crate::node_agent::NodeAgent;
use crate::node_view::NodeSelection;
use crate::profile::NodeProfile;
use coppice_runtime::clock::{SharedClock, SystemClock};
use coppice_runtime::supervise::Supervisor;
use std::sync::Arc;
use std::time::Duration;

/// Which components run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Controllers {
    /// Simulated kubelets: pod status and the last step of deletion.
    pub kubelets: bool,
    /// Leases and conditions of simulated nodes.
    pub node_life: bool,
    /// Silent, cordoned and deleted nodes.
    pub node_lifecycle: bool,
    /// Objects whose owners are gone.
    pub garbage_collector: bool,
    /// Content of deleted namespaces.
    pub namespaces: bool,
    /// A default service account in every namespace.
    pub service_accounts: bool,
    /// Pods of DaemonSets.
    pub daemon_sets: bool,
    /// Claims on devices that pods make by templates.
    pub resource_claims: bool,
    /// Volumes and claims that meet, and claims of ephemeral volumes.
    pub volume_binder: bool,
    /// Volumes for storage classes with the provisioner of this crate.
    pub volume_provisioner: bool,
    /// Plain pods, and devices for claims.
    pub default_scheduler: bool,
}

impl Controllers {
    /// Everything: for an API server without any controllers beside it.
    pub fn all() -> Self {
        Self {
            kubelets: true,
            node_life: true,
            node_lifecycle: true,
            garbage_collector: true,
            namespaces: true,
            service_accounts: true,
            daemon_sets: true,
            resource_claims: true,
            volume_binder: true,
            volume_provisioner: true,
            default_scheduler: true,
        }
    }

    /// Only what real nodes and storage would do: for a Kubernetes with its own controller manager and scheduler.
    pub fn nodes_only() -> Self {
        Self {
            kubelets: true,
            node_life: true,
            volume_provisioner: true,
            ..Self::none()
        }
    }

    /// Nothing: to switch single components on.
    pub fn none() -> Self {
        Self {
            kubelets: false,
            node_life: false,
            node_lifecycle: false,
            garbage_collector: false,
            namespaces: false,
            service_accounts: false,
            daemon_sets: false,
            resource_claims: false,
            volume_binder: false,
            volume_provisioner: false,
            default_scheduler: false,
        }
    }
}

/// The settings of a simulated cluster.
#[derive(Clone)]
pub struct Options {
    pub(super) profile: NodeProfile,
    pub(super) node_count: u32,
    pub(super) nodes: NodeSelection,
    pub(super) behaviour: PodBehaviour,
    pub(super) heartbeats: Option<Duration>,
    pub(super) node_grace: Duration,
    pub(super) default_stay: Duration,
    pub(super) orphan_grace: Duration,
    pub(super) controllers: Controllers,
    pub(super) wait_rules: Vec<WaitRule>,
    pub(super) concurrency: usize,
    pub(super) clock: SharedClock,
    pub(super) supervisor: Supervisor,
    pub(super) agent: Option<Arc<dyn NodeAgent>>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            profile: NodeProfile::default(),
            node_count: 0,
            nodes: NodeSelection::default(),
            behaviour: PodBehaviour::default(),
            heartbeats: Some(Duration::from_secs(10)),
            node_grace: Duration::from_secs(50),
            default_stay: Duration::from_secs(300),
            orphan_grace: Duration::from_secs(40),
            controllers: Controllers::all(),
            wait_rules: vec![clique_wait_rule()],
            concurrency: 32,
            clock: Arc::new(SystemClock),
            supervisor: Supervisor::default(),
            agent: None,
        }
    }
}

impl Options {
    /// Creates `count` nodes of a profile.
    #[must_use]
    pub fn nodes(mut self, profile: NodeProfile, count: u32) -> Self {
        self.profile = profile;
        self.node_count = count;
        self
    }

    /// Chooses which nodes have simulated kubelets; only labelled ones unless told otherwise.
    #[must_use]
    pub fn simulate(mut self, nodes: NodeSelection) -> Self {
        self.nodes = nodes;
        self
    }

    /// How pods behave unless their annotations say otherwise.
    #[must_use]
    pub fn behaviour(mut self, behaviour: PodBehaviour) -> Self {
        self.behaviour = behaviour;
        self
    }

    /// The interval of node leases. With none, nodes write nothing while nothing changes, and a node without power is
    /// recognised by its annotation.
    #[must_use]
    pub fn heartbeats(mut self, interval: Option<Duration>) -> Self {
        self.heartbeats = interval;
        self
    }

    /// How long a node may be silent before it counts as unreachable.
    #[must_use]
    pub fn node_grace(mut self, grace: Duration) -> Self {
        self.node_grace = grace;
        self
    }

    /// How long pods stay on unreachable nodes if they do not say.
    #[must_use]
    pub fn default_stay(mut self, stay: Duration) -> Self {
        self.default_stay = stay;
        self
    }

    /// How long pods of a node that does not exist are kept.
    #[must_use]
    pub fn orphan_grace(mut self, grace: Duration) -> Self {
        self.orphan_grace = grace;
        self
    }

    /// Chooses the components.
    #[must_use]
    pub fn controllers(mut self, controllers: Controllers) -> Self {
        self.controllers = controllers;
        self
    }

    /// The rules by which init containers wait for other pods.
    #[must_use]
    pub fn wait_rules(mut self, rules: Vec<WaitRule>) -> Self {
        self.wait_rules = rules;
        self
    }

    /// How many requests each component may have under way.
    #[must_use]
    pub fn concurrency(mut self, requests: usize) -> Self {
        self.concurrency = requests;
        self
    }

    /// What runs beside the kubelets: device drivers, and programs in pods.
    #[must_use]
    pub fn agent(mut self, agent: Arc<dyn NodeAgent>) -> Self {
        self.agent = Some(agent);
        self
    }

    /// Where the time comes from.
    #[must_use]
    pub fn clock(mut self, clock: SharedClock) -> Self {
        self.clock = clock;
        self
    }

    /// Who learns of a component that ends before the cluster is stopped: a cluster without it is not the one that was
    /// started.
    #[must_use]
    pub fn supervisor(mut self, supervisor: Supervisor) -> Self {
        self.supervisor = supervisor;
        self
    }
}
