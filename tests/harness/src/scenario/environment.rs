//! Where a scenario runs: what differs between control planes, behind one trait. Everything else a scenario does goes
//! through the API and is the same everywhere. A new control plane has to say its name, hand out a client and tell what
//! it offers; the rest has defaults.

use std::path::Path;

use async_trait::async_trait;
use kube::Client;

use super::model::{NodeGroup, Scenario};
use super::operator::OperatorUnderTest;
use super::scheduler::InProcessScheduler;
use crate::client::{self, ClientError};
use crate::control_plane::{ControlPlane, ControlPlaneError};

/// What an environment has beside an API server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Offers {
    /// The controllers of Kubernetes itself run.
    pub controller_manager: bool,
    /// Pods are scheduled.
    pub scheduler: bool,
    /// The operator under test runs, and can be restarted.
    pub operator: bool,
    /// The gang scheduler under test runs, and can be killed and restarted.
    pub gang_scheduler: bool,
    /// The API server can be killed and restarted.
    pub api_server_restart: bool,
}

/// Why an environment did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum EnvironmentError {
    /// It cannot do that at all.
    #[error("{environment} does not offer {what}")]
    NotOffered {
        /// The environment.
        environment: String,
        /// What was asked for.
        what: &'static str,
    },
    /// The control plane failed.
    #[error(transparent)]
    ControlPlane(#[from] ControlPlaneError),
    /// Simulated nodes could not be started or stopped.
    #[error("simulated nodes: {0}")]
    Nodes(String),
    /// The operator could not be started.
    #[error("the operator: {0}")]
    Operator(String),
    /// The gang scheduler could not be started.
    #[error("the gang scheduler: {0}")]
    Scheduler(String),
}

/// A place to run scenarios.
#[async_trait]
pub trait Environment: Send + Sync {
    /// What to call it in messages.
    fn name(&self) -> String;

    /// A client with full rights and without retries.
    fn client(&self) -> Client;

    /// What it has.
    fn offers(&self) -> Offers;

    /// Starts simulated nodes for one scenario: kubelets as clients of this API server, unless the environment already
    /// simulates enough nodes.
    async fn start_nodes(&self, group: &NodeGroup) -> Result<Box<dyn Nodes>, EnvironmentError> {
        super::nodes::start(self.client(), group).await
    }

    /// Kills the API server without farewell.
    async fn kill_api_server(&self) -> Result<(), EnvironmentError> {
        Err(self.not_offered("killing the API server"))
    }

    /// Starts the API server again on the same data and address.
    async fn restart_api_server(&self) -> Result<(), EnvironmentError> {
        Err(self.not_offered("restarting the API server"))
    }

    /// Stops the operator without farewell and starts it again.
    async fn restart_operator(&self) -> Result<(), EnvironmentError> {
        Err(self.not_offered("restarting the operator"))
    }

    /// Stops the gang scheduler without farewell and starts it again.
    async fn restart_scheduler(&self) -> Result<(), EnvironmentError> {
        Err(self.not_offered("restarting the gang scheduler"))
    }

    /// Lets the gang scheduler die once it has bound so many more pods.
    async fn kill_scheduler(&self, _after_bindings: u32) -> Result<(), EnvironmentError> {
        Err(self.not_offered("killing the gang scheduler"))
    }

    /// The error for what it cannot do.
    fn not_offered(&self, what: &'static str) -> EnvironmentError {
        EnvironmentError::NotOffered {
            environment: self.name(),
            what,
        }
    }
}

/// Simulated nodes that run until they are stopped.
#[async_trait]
pub trait Nodes: Send + Sync {
    /// Stops them and removes what they put into the API.
    async fn stop(self: Box<Self>) -> Result<(), EnvironmentError>;
}

/// What a scenario needs and the environment lacks; the run is not begun then.
pub fn lacking(scenario: &Scenario, offers: Offers) -> Option<&'static str> {
    let needs = [
        (
            scenario.cluster.controller_manager && !offers.controller_manager,
            "kube-controller-manager",
        ),
        (scenario.cluster.scheduler && !offers.scheduler, "a scheduler"),
        (scenario.operator().is_some() && !offers.operator, "the operator"),
        (
            scenario.uses_gang_scheduler() && !offers.gang_scheduler,
            "the gang scheduler",
        ),
        (
            scenario.disturbs_api_server() && !offers.api_server_restart,
            "killing and restarting the API server",
        ),
    ];
    needs.into_iter().find_map(|(lacks, what)| lacks.then_some(what))
}

/// The real control plane of this crate's launcher.
pub struct RealEnvironment<'a> {
    control_plane: &'a ControlPlane,
    operator: Option<&'a dyn OperatorUnderTest>,
    scheduler: Option<&'a InProcessScheduler>,
    alone: bool,
}

impl<'a> RealEnvironment<'a> {
    /// Offers what the control plane was started with. Only one that nobody shares should be `alone`: its API server
    /// may be killed.
    pub fn new(
        control_plane: &'a ControlPlane,
        operator: Option<&'a dyn OperatorUnderTest>,
        scheduler: Option<&'a InProcessScheduler>,
        alone: bool,
    ) -> Self {
        Self {
            control_plane,
            operator,
            scheduler,
            alone,
        }
    }
}

#[async_trait]
impl Environment for RealEnvironment<'_> {
    fn name(&self) -> String {
        let versions = self.control_plane.versions();
        format!("kube-apiserver {} with etcd {}", versions.kube_apiserver, versions.etcd)
    }

    fn client(&self) -> Client {
        self.control_plane.client()
    }

    fn offers(&self) -> Offers {
        Offers {
            controller_manager: self.control_plane.options().controller_manager,
            scheduler: self.control_plane.options().scheduler,
            operator: self.operator.is_some(),
            gang_scheduler: self.scheduler.is_some(),
            api_server_restart: self.alone,
        }
    }

    async fn kill_api_server(&self) -> Result<(), EnvironmentError> {
        Ok(self.control_plane.kill_api_server()?)
    }

    async fn restart_api_server(&self) -> Result<(), EnvironmentError> {
        Ok(self.control_plane.restart_api_server().await?)
    }

    async fn restart_operator(&self) -> Result<(), EnvironmentError> {
        let operator = self
            .operator
            .ok_or_else(|| self.not_offered("restarting the operator"))?;
        operator.restart().await
    }

    async fn restart_scheduler(&self) -> Result<(), EnvironmentError> {
        let what = "restarting the gang scheduler";
        self.scheduler.ok_or_else(|| self.not_offered(what))?.restart().await;
        Ok(())
    }

    async fn kill_scheduler(&self, after_bindings: u32) -> Result<(), EnvironmentError> {
        let what = "killing the gang scheduler";
        self.scheduler
            .ok_or_else(|| self.not_offered(what))?
            .kill(after_bindings)
            .await;
        Ok(())
    }
}

/// Whatever a kubeconfig points at. It is taken to be a whole cluster: controllers, scheduler and operator are believed
/// to run there, but nothing of it can be restarted from outside.
pub struct AnyCluster {
    name: String,
    client: Client,
}

impl AnyCluster {
    /// The cluster of a kubeconfig file, or of the surroundings when none is given.
    pub async fn connect(kubeconfig: Option<&Path>) -> Result<Self, ClientError> {
        Ok(match kubeconfig {
            Some(path) => Self {
                name: format!("the cluster of {}", path.display()),
                client: client::from_kubeconfig_file(path).await?,
            },
            None => Self {
                name: "the current cluster".to_owned(),
                client: client::from_surroundings().await?,
            },
        })
    }
}

#[async_trait]
impl Environment for AnyCluster {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn client(&self) -> Client {
        self.client.clone()
    }

    fn offers(&self) -> Offers {
        Offers {
            controller_manager: true,
            scheduler: true,
            operator: true,
            gang_scheduler: true,
            api_server_restart: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse::parse;

    #[test]
    fn what_is_lacking_is_known_before_the_run() {
        let scenario = |text: &str| parse(&format!("name: a\ndescription: b\n{text}"), Path::new("a.yaml")).unwrap();
        let everything = Offers {
            controller_manager: true,
            scheduler: true,
            operator: true,
            gang_scheduler: true,
            api_server_restart: true,
        };
        for (text, lack) in [
            (
                "cluster: {controllerManager: true}\nsteps: [{wait: }]",
                "kube-controller-manager",
            ),
            ("cluster: {scheduler: true}\nsteps: [{wait: }]", "a scheduler"),
            ("cluster: {operator: true}\nsteps: [{wait: }]", "the operator"),
            ("steps: [{restartOperator: }]", "the operator"),
            (
                "cluster: {gangScheduler: true}\nsteps: [{wait: }]",
                "the gang scheduler",
            ),
            ("steps: [{killScheduler: {afterBindings: 1}}]", "the gang scheduler"),
            ("steps: [{killApiServer: }]", "killing and restarting the API server"),
        ] {
            assert_eq!(lacking(&scenario(text), Offers::default()), Some(lack), "{text}");
            assert_eq!(lacking(&scenario(text), everything), None, "{text}");
        }
    }
}
