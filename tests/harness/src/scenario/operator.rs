//! The operator under test, wherever it runs: in this process, or as a program beside the control plane. A scenario
//! may restart it; everything else it sees of the operator, it sees through the API.

use std::fmt;

use async_trait::async_trait;
use coppice_api::admission::Schedulers;
use coppice_api::types::PodCliqueSet;
use coppice_core::settings::Settings;
use coppice_crds::{InstallOptions, install, install_definitions};
use coppice_operator::certificates::keeper;
use coppice_operator::webhooks::configurations::Address;
use coppice_operator::webhooks::in_process::{self, Slot};
use coppice_operator::webhooks::install::install as install_webhooks;
use coppice_operator::webhooks::server::Server;
use coppice_operator::webhooks::service::{Certificates, Service};
use coppice_operator::webhooks::{Admission, Endpoint, Policy};
use coppice_operator::world::World;
use coppice_operator::{Operator, Options};
use coppice_runtime::cache::Cache;
use coppice_runtime::metrics::Metrics;
use kube::Client;
use kube::api::{Api, PostParams};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::environment::EnvironmentError;
use crate::control_plane::Companion;
use crate::definitions::{kai_pod_groups, volcano_pod_groups};

/// How the operator of a scenario is configured, where it differs from the usual.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct OperatorNeeds {
    /// A clique that lost all its scheduled pods counts as broken.
    pub terminate_when_all_lost: bool,
    /// Packing constraints are handed to the scheduler.
    pub topology_aware: bool,
    /// Sets get ComputeDomains for their NVLink groups.
    pub auto_mnnvl: bool,
    /// KAI is one of the schedulers.
    pub kai: bool,
    /// Volcano is one of the schedulers.
    pub volcano: bool,
    /// A real API server asks the webhooks too, over TLS. The embedded one always does.
    pub webhooks: bool,
}

impl OperatorNeeds {
    /// Options of the operator that is started as the `version`th one. Everything that comes with a version differs.
    fn options(self, version: u32) -> Options {
        Options {
            settings: Settings {
                waiter_image: format!("registry.example/coppice:{version}"),
                terminate_when_all_lost: self.terminate_when_all_lost,
                topology_aware: self.topology_aware,
                auto_mnnvl: self.auto_mnnvl,
                kai: self.kai,
                volcano: self.volcano,
                ..Settings::default()
            },
            ..Options::default()
        }
    }
}

/// `true` or `false`, or a mapping with what differs from the usual. Read by hand, because an untagged enum would lose
/// the place of a mistake.
pub(super) fn needs<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<OperatorNeeds>, D::Error> {
    struct Needs;
    impl<'de> Visitor<'de> for Needs {
        type Value = Option<OperatorNeeds>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("true, false, or a mapping of settings")
        }

        fn visit_bool<E>(self, wanted: bool) -> Result<Self::Value, E> {
            Ok(wanted.then(OperatorNeeds::default))
        }

        fn visit_map<A: MapAccess<'de>>(self, settings: A) -> Result<Self::Value, A::Error> {
            OperatorNeeds::deserialize(MapAccessDeserializer::new(settings)).map(Some)
        }
    }
    deserializer.deserialize_any(Needs)
}

/// ComputeDomains as far as the operator touches them; the rest of their definition belongs to their driver.
fn compute_domain() -> Value {
    let any = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "computedomains.resource.nvidia.com"},
        "spec": {
            "group": "resource.nvidia.com",
            "scope": "Namespaced",
            "names": {
                "kind": "ComputeDomain",
                "listKind": "ComputeDomainList",
                "plural": "computedomains",
                "singular": "computedomain",
            },
            "versions": [{
                "name": "v1beta1",
                "served": true,
                "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": any, "status": any}}},
            }],
        },
    })
}

/// KAI's Topologies, with the rules of theirs that matter to us: levels never change, and the host is the last of them.
fn kai_topology() -> Value {
    let rules = json!([
        {"rule": "self == oldSelf", "message": "levels cannot change"},
        {
            "rule": "self.all(level, level.nodeLabel != 'kubernetes.io/hostname') || \
                     self[size(self) - 1].nodeLabel == 'kubernetes.io/hostname'",
            "message": "kubernetes.io/hostname must be the last level",
        },
    ]);
    let level = json!({
        "type": "object",
        "required": ["nodeLabel"],
        "properties": {"nodeLabel": {"type": "string", "minLength": 1, "maxLength": 316}},
    });
    let levels = json!({
        "type": "array",
        "minItems": 1,
        "maxItems": 16,
        "items": level,
        "x-kubernetes-list-type": "atomic",
        "x-kubernetes-validations": rules,
    });
    let spec = json!({"type": "object", "required": ["levels"], "properties": {"levels": levels}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "topologies.kai.scheduler"},
        "spec": {
            "group": "kai.scheduler",
            "scope": "Cluster",
            "names": {"kind": "Topology", "listKind": "TopologyList", "plural": "topologies", "singular": "topology"},
            "versions": [{
                "name": "v1alpha1",
                "served": true,
                "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {"spec": spec}}},
            }],
        },
    })
}

/// An operator that can be restarted.
#[async_trait]
pub trait OperatorUnderTest: Send + Sync {
    /// Stops it and starts another one that knows nothing of its predecessor.
    async fn restart(&self) -> Result<(), EnvironmentError>;
}

#[async_trait]
impl OperatorUnderTest for Companion {
    async fn restart(&self) -> Result<(), EnvironmentError> {
        Ok(Companion::restart(self)?)
    }
}

/// The schedulers that sets may name; the first is for those that name none.
const SCHEDULERS: [&str; 4] = ["default-scheduler", "coppice", "kai-scheduler", "volcano"];

/// How the API server reaches the operator's webhooks.
#[derive(Clone)]
pub enum Reach {
    /// Through handlers in this process, which the API server was built with.
    InProcess(Slot),
    /// Over TLS on this machine, with the certificate that the operator keeps.
    Loopback,
    /// Not at all.
    Nowhere,
}

struct Running {
    operator: Option<Operator>,
    webhooks: Option<Service>,
    version: u32,
}

impl Running {
    async fn stop(&mut self) {
        if let Some(operator) = self.operator.take() {
            operator.stop().await;
        }
        if let Some(webhooks) = self.webhooks.take() {
            webhooks.stop().await;
        }
    }
}

/// The operator in this process. Each restart is an upgrade: the next one has a newer version.
pub struct InProcessOperator {
    client: Client,
    needs: OperatorNeeds,
    reach: Reach,
    running: Mutex<Running>,
}

impl InProcessOperator {
    /// Installs the definitions of the operator's kinds and starts it.
    pub async fn start(client: Client, needs: OperatorNeeds, reach: Reach) -> Result<Self, EnvironmentError> {
        install(client.clone(), &InstallOptions::default(), |_| {})
            .await
            .map_err(|error| EnvironmentError::Operator(error.to_string()))?;
        let of_others: Vec<Value> = [
            needs.auto_mnnvl.then(compute_domain),
            needs.kai.then(kai_topology),
            needs.kai.then(kai_pod_groups),
            needs.volcano.then(volcano_pod_groups),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !of_others.is_empty() {
            install_definitions(client.clone(), &of_others, &InstallOptions::default(), |_| {})
                .await
                .map_err(|error| EnvironmentError::Operator(error.to_string()))?;
        }
        let version = 1;
        let running = Mutex::new(run(&client, needs, version, &reach).await?);
        Ok(Self {
            client,
            needs,
            reach,
            running,
        })
    }

    /// Stops it.
    pub async fn stop(&self) {
        self.running.lock().await.stop().await;
    }
}

#[async_trait]
impl OperatorUnderTest for InProcessOperator {
    async fn restart(&self) -> Result<(), EnvironmentError> {
        let mut running = self.running.lock().await;
        running.stop().await;
        *running = run(&self.client, self.needs, running.version + 1, &self.reach).await?;
        Ok(())
    }
}

/// Starts an operator, and its webhooks where the API server can reach them.
async fn run(client: &Client, needs: OperatorNeeds, version: u32, reach: &Reach) -> Result<Running, EnvironmentError> {
    let options = needs.options(version);
    let policy = Policy {
        schedulers: Schedulers::named(SCHEDULERS),
        topology_aware_scheduling: options.settings.topology_aware,
        auto_mnnvl: options.settings.auto_mnnvl,
        ..Policy::default()
    };
    let world = World::new(Cache::new(options.metrics.clone()));
    let metrics = options.metrics.clone();
    let operator = Operator::start_on(world.clone(), client.clone(), options).await;
    let mut webhooks = None;
    match reach {
        Reach::InProcess(slot) => {
            slot.bind(Admission::new(policy, world, client.clone()));
            in_process::install(client)
                .await
                .map_err(|error| EnvironmentError::Operator(error.to_string()))?;
        }
        Reach::Loopback => {
            let admission = Admission::new(policy, world, client.clone());
            let service = loopback(client, admission, &metrics).await;
            webhooks = Some(service.map_err(|error| EnvironmentError::Operator(error.to_string()))?);
        }
        Reach::Nowhere => {}
    }
    Ok(Running {
        operator: Some(operator),
        webhooks,
        version,
    })
}

/// Serves the webhooks on this machine and waits until the API server asks them.
async fn loopback(
    client: &Client,
    admission: Admission,
    metrics: &Metrics,
) -> Result<Service, Box<dyn std::error::Error + Send + Sync>> {
    let server = Server::bind((std::net::Ipv4Addr::LOCALHOST, 0).into()).await?;
    let address = Address::Url(format!("https://{}", server.address()?));
    let endpoints: Vec<Endpoint> = Endpoint::ALL
        .into_iter()
        .filter(|endpoint| *endpoint != Endpoint::Authorize)
        .collect();
    install_webhooks(client, &endpoints, &address).await?;
    let kept = keeper::Options {
        endpoints,
        ..keeper::Options::new("default", "webhook-certificate")
    };
    let service = Service::start(client, server, admission, Certificates::Kept(Box::new(kept)), metrics)?;
    service.served().wait_loaded().await;
    // Nothing tells when an API server has read its webhook configurations: what only a webhook refuses shows it. Each
    // question waits for its answer, so this is bounded by their number.
    let sets: Api<PodCliqueSet> = Api::namespaced(client.clone(), "default");
    let mistake: PodCliqueSet = serde_json::from_value(json!({
        "metadata": {"name": "is-admission-there"},
        "spec": {"replicas": 1, "template": {"cliques": [{"name": "a", "spec": {
            "roleName": "a", "replicas": 1, "minAvailable": 2, "podSpec": {"containers": [{"name": "a", "image": "a"}]},
        }}]}},
    }))?;
    let dry_run = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let mut answer = String::new();
    for _ in 0..2_000 {
        match sets.create(&dry_run, &mistake).await {
            Err(error) if error.to_string().contains("minAvailable") => return Ok(service),
            other => answer = format!("{other:?}"),
        }
    }
    Err(format!("the API server does not ask the webhooks; it answered {answer}").into())
}
