//! A whole simulated cluster around an API server.
//!
//! Owns the start and the clean end of the components, and the creation of nodes. Everything else is the business of
//! the components; they share nothing but the API server and one watch of its nodes.

mod options;

pub use options::{Controllers, Options};

use crate::behaviour::POWER;
use crate::kubelet::{self, KubeletOptions};
use crate::node_life::{self, LEASE_NAMESPACE, NodeLifeOptions, ensure_namespace};
use crate::node_lifecycle::{self, HealthSignal, LifecycleOptions};
use crate::node_view::nodes;
use crate::{
    daemon_sets, default_scheduler, garbage_collector, namespaces, resource_claims, service_accounts, volumes,
};
use coppice_runtime::cache::reflect::{self, reflect};
use coppice_runtime::supervise::Group;
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::fmt;
use std::time::Duration;
use tokio_util::sync::DropGuard;

const MANAGER: &str = "coppice-cluster";
/// How long the components have to end; they drop what is under way.
const GRACE: Duration = Duration::from_secs(5);

/// Why a simulated cluster could not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A node could not be created; the rest of the cluster was not started.
    #[error("creating node {node}: {source}; check that the client may create nodes and try again")]
    CreateNode {
        /// The node.
        node: String,
        /// What the API server said.
        source: kube::Error,
    },
    /// The namespace of node leases could not be created.
    #[error("creating namespace {LEASE_NAMESPACE}: {0}; check that the client may create namespaces and try again")]
    CreateLeaseNamespace(kube::Error),
    /// The power of a node could not be switched.
    #[error("switching the power of node {node}: {source}")]
    Power {
        /// The node.
        node: String,
        /// What the API server said.
        source: kube::Error,
    },
}

/// A running simulated cluster. Dropping it stops it without waiting; [`SimulatedCluster::stop`] waits.
pub struct SimulatedCluster {
    client: Client,
    group: Group,
    _stop_on_drop: DropGuard,
}

impl fmt::Debug for SimulatedCluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SimulatedCluster").finish_non_exhaustive()
    }
}

impl SimulatedCluster {
    /// Creates the nodes that are not there yet and starts the chosen components.
    ///
    /// The client should not repeat requests by itself: see [`coppice_runtime::layers::client`]. Nodes outlive the
    /// cluster, and a cluster started later takes over the nodes and pods it finds.
    pub async fn start(client: Client, options: Options) -> Result<Self, ClusterError> {
        let group = options.supervisor.group("simulated cluster");
        let cluster = Self {
            client: client.clone(),
            _stop_on_drop: group.stopping().drop_guard(),
            group,
        };
        if options.heartbeats.is_some() && options.controllers.node_life {
            ensure_namespace(&client, LEASE_NAMESPACE)
                .await
                .map_err(ClusterError::CreateLeaseNamespace)?;
        }
        stream::iter(options.profile.nodes(options.node_count))
            .map(|node| create_node(client.clone(), node))
            .buffer_unordered(options.concurrency.max(1))
            .try_collect::<Vec<()>>()
            .await?;
        cluster.spawn(&options);
        Ok(cluster)
    }

    fn spawn(&self, options: &Options) {
        let concurrency = options.concurrency.max(1);
        let client = || self.client.clone();
        let (clock, nodes, devices) = (&options.clock, nodes(), resource_claims::Devices::new());
        let stop = || self.group.stopping();
        let chosen = options.controllers;
        if chosen.node_life {
            let life = NodeLifeOptions {
                nodes: options.nodes,
                lease_interval: options.heartbeats,
                concurrency,
            };
            self.group
                .spawn("node life", node_life::run(client(), &nodes, life, clock, stop()));
        }
        if chosen.kubelets {
            let kubelet = KubeletOptions {
                nodes: options.nodes,
                defaults: options.behaviour.clone(),
                wait_rules: options.wait_rules.clone(),
                concurrency,
                agent: options.agent.clone(),
            };
            self.group.spawn(
                "kubelets",
                kubelet::run(client(), &nodes, &devices, kubelet, clock, stop()),
            );
        }
        if chosen.node_lifecycle {
            let grace = options.node_grace;
            let lifecycle = LifecycleOptions {
                signal: match options.heartbeats {
                    Some(_) => HealthSignal::Lease { grace },
                    None => HealthSignal::Power { grace },
                },
                default_stay: options.default_stay,
                orphan_grace: options.orphan_grace,
                concurrency,
            };
            self.group.spawn(
                "node lifecycle controller",
                node_lifecycle::run(client(), &nodes, lifecycle, clock, stop()),
            );
        }
        if chosen.garbage_collector {
            self.group.spawn(
                "garbage collector",
                garbage_collector::run(client(), concurrency, clock, stop()),
            );
        }
        if chosen.namespaces {
            self.group.spawn(
                "namespace controller",
                namespaces::run(client(), concurrency, clock, stop()),
            );
        }
        if chosen.service_accounts {
            self.group.spawn(
                "service account controller",
                service_accounts::run(client(), concurrency, clock, stop()),
            );
        }
        if chosen.daemon_sets {
            self.group.spawn(
                "DaemonSet controller",
                daemon_sets::run(client(), &nodes, concurrency, clock, stop()),
            );
        }
        if chosen.resource_claims {
            self.group.spawn(
                "resource claim controller",
                resource_claims::run(client(), &devices, concurrency, clock, stop()),
            );
        }
        if chosen.volume_binder || chosen.volume_provisioner {
            let parts = volumes::Parts {
                binder: chosen.volume_binder,
                provisioner: chosen.volume_provisioner,
            };
            self.group.spawn(
                "volume controller",
                volumes::run(client(), &nodes, parts, concurrency, clock, stop()),
            );
        }
        if chosen.default_scheduler {
            self.group.spawn(
                "default scheduler",
                default_scheduler::run(client(), &nodes, &devices, concurrency, clock, stop()),
            );
        }
        if chosen.resource_claims || chosen.default_scheduler || chosen.kubelets {
            self.group
                .spawn("watch of devices", devices.watch(&self.client, &stop()));
        }
        // Last, because the components above follow its first changes too.
        let uses_nodes = [
            chosen.node_life,
            chosen.kubelets,
            chosen.node_lifecycle,
            chosen.daemon_sets,
            chosen.default_scheduler,
            chosen.volume_binder,
            chosen.volume_provisioner,
        ];
        if uses_nodes.contains(&true) {
            self.group.spawn(
                "watch of nodes",
                reflect(client(), nodes, reflect::Options::default(), stop()),
            );
        }
    }

    /// Takes the power of a node away: it falls silent, and its pods with it.
    pub async fn power_off(&self, node: &str) -> Result<(), ClusterError> {
        self.set_power(node, json!("off")).await
    }

    /// Gives a node its power back: its containers start again.
    pub async fn power_on(&self, node: &str) -> Result<(), ClusterError> {
        self.set_power(node, Value::Null).await
    }

    async fn set_power(&self, node: &str, value: Value) -> Result<(), ClusterError> {
        let nodes: Api<Node> = Api::all(self.client.clone());
        let patch = json!({"metadata": {"annotations": {POWER: value}}});
        nodes
            .patch_metadata(node, &PatchParams::apply(MANAGER), &Patch::Merge(&patch))
            .await
            .map(|_| ())
            .map_err(|source| ClusterError::Power {
                node: node.to_owned(),
                source,
            })
    }

    /// Stops all components and waits until they have ended. Nodes and pods stay as they are.
    pub async fn stop(self) {
        self.group.stop(GRACE).await;
    }
}

async fn create_node(client: Client, node: Node) -> Result<(), ClusterError> {
    let name = node.metadata.name.clone().unwrap_or_default();
    let failed = |source| ClusterError::CreateNode {
        node: name.clone(),
        source,
    };
    let nodes: Api<Node> = Api::all(client);
    let created = match nodes.create(&PostParams::default(), &node).await {
        Ok(created) => created,
        Err(kube::Error::Api(status)) if status.is_already_exists() => nodes.get(&name).await.map_err(failed)?,
        Err(error) => return Err(failed(error)),
    };
    let has_capacity = created
        .status
        .is_some_and(|status| status.capacity.is_some_and(|capacity| !capacity.is_empty()));
    if has_capacity {
        return Ok(());
    }
    let patch = json!({"status": node.status});
    match nodes
        .patch_status(&name, &PatchParams::apply(MANAGER), &Patch::Strategic(&patch))
        .await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if status.is_not_found() => Ok(()),
        Err(error) => Err(failed(error)),
    }
}
