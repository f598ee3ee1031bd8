//! The embedded control plane as a place for scenarios: API server, simulated nodes and controllers, operator and scheduler,
//! all in this process. It starts within milliseconds, so that every scenario gets one of its own.

use std::time::Duration;

use async_trait::async_trait;
use coppice_apiserver::ApiServer;
use coppice_cluster::{Controllers, SimulatedCluster};
use coppice_operator::webhooks::in_process::Slot;
use kube::Client;

use super::environment::{Environment, EnvironmentError, Offers};
use super::model::Scenario;
use super::operator::{InProcessOperator, OperatorUnderTest, Reach};
use super::scheduler::InProcessScheduler;

/// How long a node without power counts as alive. It is known by its power and not by heartbeats, which a busy machine
/// could miss.
const NODE_GRACE: Duration = Duration::from_secs(2);

/// An embedded control plane with what one scenario needs.
pub struct EmbeddedEnvironment {
    client: Client,
    offers: Offers,
    cluster: SimulatedCluster,
    operator: Option<InProcessOperator>,
    scheduler: Option<InProcessScheduler>,
}

impl EmbeddedEnvironment {
    /// Starts what the scenario needs.
    pub async fn start(scenario: &Scenario) -> Result<Self, EnvironmentError> {
        let needs = &scenario.cluster;
        let slot = Slot::default();
        let handlers = slot.handlers();
        let builder = handlers.fold(ApiServer::builder(), |builder, (webhook, handler)| {
            builder.admission_handler(webhook, handler)
        });
        let server = builder.build();
        let client = Client::new(server.service(), "default");
        let controllers = Controllers {
            kubelets: needs.nodes.is_some(),
            node_life: needs.nodes.is_some(),
            node_lifecycle: needs.controller_manager,
            garbage_collector: needs.controller_manager,
            namespaces: needs.controller_manager,
            service_accounts: needs.controller_manager,
            daemon_sets: needs.controller_manager,
            resource_claims: needs.controller_manager,
            volume_binder: needs.controller_manager,
            volume_provisioner: needs.nodes.is_some(),
            default_scheduler: needs.scheduler,
        };
        let mut options = coppice_cluster::Options::default()
            .heartbeats(None)
            .node_grace(NODE_GRACE)
            .controllers(controllers);
        if let Some(group) = &needs.nodes {
            options = options.nodes(group.profile, group.count);
        }
        let operator = match scenario.operator() {
            Some(needs) => Some(InProcessOperator::start(client.clone(), needs, Reach::InProcess(slot)).await?),
            None => None,
        };
        let scheduler = match scenario.uses_gang_scheduler() {
            true => Some(InProcessScheduler::start(client.clone()).await?),
            false => None,
        };
        let cluster = SimulatedCluster::start(client.clone(), options)
            .await
            .map_err(|error| EnvironmentError::Nodes(error.to_string()))?;
        Ok(Self {
            client,
            offers: Offers {
                controller_manager: needs.controller_manager,
                scheduler: needs.scheduler,
                operator: operator.is_some(),
                gang_scheduler: scheduler.is_some(),
                api_server_restart: false,
            },
            cluster,
            operator,
            scheduler,
        })
    }

    /// Stops everything, scheduler and operator first.
    pub async fn stop(self) {
        if let Some(scheduler) = &self.scheduler {
            scheduler.stop().await;
        }
        if let Some(operator) = &self.operator {
            operator.stop().await;
        }
        self.cluster.stop().await;
    }
}

#[async_trait]
impl Environment for EmbeddedEnvironment {
    fn name(&self) -> String {
        "the embedded control plane".to_owned()
    }

    fn client(&self) -> Client {
        self.client.clone()
    }

    fn offers(&self) -> Offers {
        self.offers
    }

    async fn restart_operator(&self) -> Result<(), EnvironmentError> {
        match &self.operator {
            Some(operator) => operator.restart().await,
            None => Err(self.not_offered("restarting the operator")),
        }
    }

    async fn restart_scheduler(&self) -> Result<(), EnvironmentError> {
        let what = "restarting the gang scheduler";
        self.scheduler
            .as_ref()
            .ok_or_else(|| self.not_offered(what))?
            .restart()
            .await;
        Ok(())
    }

    async fn kill_scheduler(&self, after_bindings: u32) -> Result<(), EnvironmentError> {
        let what = "killing the gang scheduler";
        self.scheduler
            .as_ref()
            .ok_or_else(|| self.not_offered(what))?
            .kill(after_bindings)
            .await;
        Ok(())
    }
}
