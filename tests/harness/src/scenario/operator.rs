//! The operator under test, wherever it runs: in this process, or as a program beside the control plane. A scenario
//! may restart it; everything else it sees of the operator, it sees through the API.

use std::fmt;

use async_trait::async_trait;
use coppice_api::admission::Schedulers;
use coppice_core::settings::Settings;
use coppice_crds::{InstallOptions, install, install_definitions};
use coppice_operator::webhooks::in_process::{self, Slot};
use coppice_operator::webhooks::{Admission, Policy};
use coppice_operator::world::World;
use coppice_operator::{Operator, Options};
use coppice_runtime::cache::Cache;
use kube::Client;
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::environment::EnvironmentError;
use crate::control_plane::Companion;

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
const SCHEDULERS: [&str; 3] = ["default-scheduler", "coppice", "kai-scheduler"];

/// How the API server reaches the operator's webhooks.
#[derive(Clone)]
pub enum Reach {
    /// Through handlers in this process, which the API server was built with.
    InProcess(Slot),
    /// Not at all.
    Nowhere,
}

struct Running {
    operator: Option<Operator>,
    version: u32,
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
        if needs.auto_mnnvl {
            install_definitions(client.clone(), &[compute_domain()], &InstallOptions::default(), |_| {})
                .await
                .map_err(|error| EnvironmentError::Operator(error.to_string()))?;
        }
        let version = 1;
        let operator = Some(run(&client, needs.options(version), &reach).await?);
        Ok(Self {
            client,
            needs,
            reach,
            running: Mutex::new(Running { operator, version }),
        })
    }

    /// Stops it.
    pub async fn stop(&self) {
        if let Some(operator) = self.running.lock().await.operator.take() {
            operator.stop().await;
        }
    }
}

#[async_trait]
impl OperatorUnderTest for InProcessOperator {
    async fn restart(&self) -> Result<(), EnvironmentError> {
        let mut running = self.running.lock().await;
        if let Some(operator) = running.operator.take() {
            operator.stop().await;
        }
        running.version += 1;
        let options = self.needs.options(running.version);
        running.operator = Some(run(&self.client, options, &self.reach).await?);
        Ok(())
    }
}

/// Starts an operator, and its webhooks where the API server can reach them.
async fn run(client: &Client, options: Options, reach: &Reach) -> Result<Operator, EnvironmentError> {
    let policy = Policy {
        schedulers: Schedulers::named(SCHEDULERS),
        topology_aware_scheduling: options.settings.topology_aware,
        auto_mnnvl: options.settings.auto_mnnvl,
        ..Policy::default()
    };
    let world = World::new(Cache::new(options.metrics.clone()));
    let operator = Operator::start_on(world.clone(), client.clone(), options).await;
    match reach {
        Reach::InProcess(slot) => {
            slot.bind(Admission::new(policy, world, client.clone()));
            in_process::install(client)
                .await
                .map_err(|error| EnvironmentError::Operator(error.to_string()))?;
        }
        Reach::Nowhere => {}
    }
    Ok(operator)
}
