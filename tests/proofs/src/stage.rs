//! An embedded control plane in virtual time: API server, definitions, nodes, controllers, scheduler. The operator is
//! not part of it: proofs start, cut off, delay and kill operators as they like.
//!
//! Assumes a runtime with one thread and paused time, so that a seed decides every step and waiting costs nothing.

use std::sync::Arc;
use std::time::Duration;

use coppice_apiserver::ApiServer;
use coppice_cluster::profile::NodeProfile;
use coppice_cluster::{Options as ClusterOptions, SimulatedCluster};
use coppice_crds::{InstallOptions, install};
use coppice_operator::{Operator, Options};
use coppice_runtime::clock::{Clock, TokioClock};
use coppice_runtime::layers::{self, FaultHook};
use coppice_runtime::metrics::Metrics;
use kube::Client;

use crate::audit::Audit;

/// Virtual time in which everything that was caused has happened.
pub const LONG: Duration = Duration::from_secs(240);

/// A control plane without an operator.
pub struct Stage {
    server: ApiServer,
    clock: TokioClock,
    /// A client of the test itself.
    pub client: Client,
    /// Every write of everybody.
    pub audit: Audit,
    _cluster: SimulatedCluster,
}

impl Stage {
    /// Starts a control plane with a few nodes.
    pub async fn start() -> Self {
        Self::with_nodes(4).await
    }

    /// Starts a control plane with so many nodes; each takes 110 pods.
    pub async fn with_nodes(nodes: u32) -> Self {
        let clock = TokioClock::new("2026-01-01T00:00:00Z".parse().expect("a time"));
        let server = ApiServer::builder().seed(1).clock(move || clock.now()).build();
        let audit = Audit::default();
        let client = client_of(&server, &audit, "test", None);
        install(client.clone(), &InstallOptions::default(), |_| {})
            .await
            .expect("the definitions fit");
        let options = ClusterOptions::default()
            .nodes(NodeProfile::Small, nodes)
            .heartbeats(None)
            .clock(Arc::new(clock));
        let of_cluster = client_of(&server, &audit, "cluster", None);
        let cluster = SimulatedCluster::start(of_cluster, options)
            .await
            .expect("nodes can be created");
        Self {
            server,
            clock,
            client,
            audit,
            _cluster: cluster,
        }
    }

    /// A client whose writes are logged under a name, and that meets the faults that `hook` decides.
    pub fn client(&self, who: &str, hook: impl FaultHook) -> Client {
        client_of(&self.server, &self.audit, who, Some(Arc::new(hook)))
    }

    /// The same, counting in `metrics`.
    pub fn counted_client(&self, who: &str, metrics: Metrics, hook: impl FaultHook) -> Client {
        let transport = self.audit.layer(who, layers::transport(self.server.service()));
        let options = layers::Options {
            faults: Some(Arc::new(hook)),
            metrics,
            ..layers::Options::default()
        };
        layers::client_of_service(transport, "default", &options)
    }

    /// Options of an operator in the stage's time.
    pub fn options(&self) -> Options {
        Options {
            clock: Arc::new(self.clock),
            ..Options::default()
        }
    }

    /// The stage's clock.
    pub fn clock(&self) -> Arc<dyn Clock> {
        Arc::new(self.clock)
    }

    /// Starts an operator that meets the faults that `hook` decides.
    pub async fn operator(&self, who: &str, hook: impl FaultHook) -> Operator {
        Operator::start(self.client(who, hook), self.options()).await
    }
}

fn client_of(server: &ApiServer, audit: &Audit, who: &str, faults: Option<Arc<dyn FaultHook>>) -> Client {
    let transport = audit.layer(who, layers::transport(server.service()));
    let options = layers::Options {
        faults,
        ..layers::Options::default()
    };
    layers::client_of_service(transport, "default", &options)
}

/// Runs a future in virtual time, alone on this thread.
pub fn in_virtual_time<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime without threads")
        .block_on(future)
}
