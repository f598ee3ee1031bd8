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
use crate::{default_scheduler, garbage_collector, namespaces, service_accounts};
use coppice_runtime::cache::reflect::{self, reflect};
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{self, StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::fmt;
use std::panic::AssertUnwindSafe;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

const MANAGER: &str = "coppice-cluster";

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
    tasks: JoinSet<()>,
    /// The first component that ended before the cluster was stopped.
    ended: watch::Sender<Option<&'static str>>,
    stop: CancellationToken,
    _stop_on_drop: DropGuard,
}

impl fmt::Debug for SimulatedCluster {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("SimulatedCluster")
            .field("components", &self.tasks.len())
            .finish_non_exhaustive()
    }
}

impl SimulatedCluster {
    /// Creates the nodes that are not there yet and starts the chosen components.
    ///
    /// The client should not repeat requests by itself: see [`coppice_runtime::layers::client`]. Nodes outlive the
    /// cluster, and a cluster started later takes over the nodes and pods it finds.
    pub async fn start(client: Client, options: Options) -> Result<Self, ClusterError> {
        let stop = CancellationToken::new();
        let mut cluster = Self {
            client: client.clone(),
            tasks: JoinSet::new(),
            ended: watch::Sender::new(None),
            _stop_on_drop: stop.clone().drop_guard(),
            stop,
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

    fn spawn(&mut self, options: &Options) {
        let concurrency = options.concurrency.max(1);
        let client = || self.client.clone();
        let (clock, nodes) = (&options.clock, nodes());
        let stop = || self.stop.clone();
        let tasks = &mut self.tasks;
        let mut run = |name: &'static str, component: BoxFuture<'static, ()>| {
            tasks.spawn(supervised(name, component, self.stop.clone(), self.ended.clone()));
        };
        let chosen = options.controllers;
        if chosen.node_life {
            let life = NodeLifeOptions {
                nodes: options.nodes,
                lease_interval: options.heartbeats,
                concurrency,
            };
            run(
                "node life",
                node_life::run(client(), &nodes, life, clock, stop()).boxed(),
            );
        }
        if chosen.kubelets {
            let kubelet = KubeletOptions {
                nodes: options.nodes,
                defaults: options.behaviour.clone(),
                wait_rules: options.wait_rules.clone(),
                concurrency,
            };
            run(
                "kubelets",
                kubelet::run(client(), &nodes, kubelet, clock, stop()).boxed(),
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
            run(
                "node lifecycle controller",
                node_lifecycle::run(client(), &nodes, lifecycle, clock, stop()).boxed(),
            );
        }
        if chosen.garbage_collector {
            run(
                "garbage collector",
                garbage_collector::run(client(), concurrency, clock, stop()).boxed(),
            );
        }
        if chosen.namespaces {
            run(
                "namespace controller",
                namespaces::run(client(), concurrency, clock, stop()).boxed(),
            );
        }
        if chosen.service_accounts {
            run(
                "service account controller",
                service_accounts::run(client(), concurrency, clock, stop()).boxed(),
            );
        }
        if chosen.default_scheduler {
            run(
                "default scheduler",
                default_scheduler::run(client(), &nodes, concurrency, clock, stop()).boxed(),
            );
        }
        // Last, because the components above follow its first changes too.
        if chosen.node_life || chosen.kubelets || chosen.node_lifecycle || chosen.default_scheduler {
            run(
                "watch of nodes",
                reflect(client(), nodes, reflect::Options::default(), stop()).boxed(),
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

    /// Waits until a component ends although the cluster was not stopped, and returns its name. A cluster without it is not
    /// the one that was started.
    pub fn component_ended(&self) -> impl Future<Output = &'static str> + Send + 'static {
        let mut ended = self.ended.subscribe();
        async move {
            loop {
                if let Some(name) = *ended.borrow_and_update() {
                    return name;
                }
                if ended.changed().await.is_err() {
                    // The cluster is gone, as it was asked to.
                    return std::future::pending().await;
                }
            }
        }
    }

    /// Stops all components and waits until they have ended. Nodes and pods stay as they are.
    pub async fn stop(mut self) {
        self.stop.cancel();
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a component of the simulated cluster did not end cleanly");
            }
        }
    }
}

/// Runs a component, and reports when it ends before it was asked to, also by a panic.
async fn supervised(
    name: &'static str,
    component: BoxFuture<'static, ()>,
    stop: CancellationToken,
    ended: watch::Sender<Option<&'static str>>,
) {
    let panicked = AssertUnwindSafe(component).catch_unwind().await.is_err();
    if !stop.is_cancelled() {
        tracing::error!(component = name, panicked, "a component of the simulated cluster ended");
        ended.send_if_modified(|first| {
            let is_first = first.is_none();
            first.get_or_insert(name);
            is_first
        });
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_component_that_ends_or_panics_is_named_unless_it_was_stopped() {
        let ways: [fn() -> BoxFuture<'static, ()>; 2] = [|| async {}.boxed(), || async { panic!("a mistake") }.boxed()];
        for way in ways {
            let (stop, ended) = (CancellationToken::new(), watch::Sender::new(None));
            supervised("kubelets", way(), stop.clone(), ended.clone()).await;
            supervised("namespaces", way(), stop, ended.clone()).await;
            assert_eq!(*ended.borrow(), Some("kubelets"), "the first one");
            let (stop, ended) = (CancellationToken::new(), watch::Sender::new(None));
            stop.cancel();
            supervised("kubelets", way(), stop, ended.clone()).await;
            assert_eq!(*ended.borrow(), None);
        }
    }
}
