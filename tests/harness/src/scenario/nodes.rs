//! Simulated nodes for a scenario: the same kubelets as in the embedded cluster, as clients of whatever API server the
//! scenario runs on. A cluster that already simulates enough nodes is used as it is.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use coppice_cluster::profile::SIMULATED_NODE_LABEL;
use coppice_cluster::{Controllers, SimulatedCluster};
use futures::StreamExt;
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt};

use super::environment::{EnvironmentError, Nodes};
use super::model::NodeGroup;

/// Often enough that the loss of a node shows within seconds where the grace period is short.
const HEARTBEATS: Duration = Duration::from_secs(2);

/// How long it may take until all nodes can take pods.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts the nodes, and waits until pods can run on each of them: a scenario that fills a cluster must not begin while
/// half of it is still tainted.
pub(super) async fn start(client: Client, group: &NodeGroup) -> Result<Box<dyn Nodes>, EnvironmentError> {
    let problem = |error: &dyn std::fmt::Display| EnvironmentError::Nodes(error.to_string());
    let nodes: Api<Node> = Api::all(client.clone());
    let labelled = ListParams::default().labels(SIMULATED_NODE_LABEL);
    let present = nodes
        .list_metadata(&labelled)
        .await
        .map_err(|error| problem(&error))?
        .items
        .len();
    let wanted = usize::try_from(group.count).unwrap_or(usize::MAX);
    if present >= wanted {
        return Ok(Box::new(Borrowed));
    }
    if present > 0 {
        let message = format!("the cluster simulates {present} nodes already, and the scenario needs {wanted}");
        return Err(EnvironmentError::Nodes(message));
    }
    let options = coppice_cluster::Options::default()
        .nodes(group.profile, group.count)
        .heartbeats(Some(HEARTBEATS))
        .controllers(Controllers::nodes_only());
    let cluster = SimulatedCluster::start(client, options)
        .await
        .map_err(|error| problem(&error))?;
    let own = Box::new(Own {
        cluster,
        nodes: nodes.clone(),
        labelled,
    });
    if tokio::time::timeout(PATIENCE, usable(nodes, wanted)).await.is_ok() {
        return Ok(own);
    }
    own.stop().await?;
    Err(EnvironmentError::Nodes(format!(
        "not all of the {wanted} nodes were ready and without taints after {PATIENCE:?}; \
         does a controller manager run, which takes away the taint of new nodes?"
    )))
}

/// Waits until so many simulated nodes are ready and without taints. A watch that breaks begins anew.
async fn usable(nodes: Api<Node>, wanted: usize) {
    let simulated = watcher::Config::default().labels(SIMULATED_NODE_LABEL);
    let mut changes = std::pin::pin!(watcher(nodes, simulated).default_backoff().applied_objects());
    let mut usable = BTreeSet::new();
    while usable.len() < wanted {
        let Some(change) = changes.next().await else { return };
        let Ok(node) = change else { continue };
        if can_take_pods(&node) {
            usable.insert(node.name_any());
        } else {
            usable.remove(&node.name_any());
        }
    }
}

fn can_take_pods(node: &Node) -> bool {
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let ready = conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    ready && taints.is_none_or(Vec::is_empty)
}

/// Nodes that were there before and stay.
struct Borrowed;

#[async_trait]
impl Nodes for Borrowed {
    async fn stop(self: Box<Self>) -> Result<(), EnvironmentError> {
        Ok(())
    }
}

/// Nodes made for one scenario.
struct Own {
    cluster: SimulatedCluster,
    nodes: Api<Node>,
    labelled: ListParams,
}

#[async_trait]
impl Nodes for Own {
    async fn stop(self: Box<Self>) -> Result<(), EnvironmentError> {
        let Self {
            cluster,
            nodes,
            labelled,
        } = *self;
        cluster.stop().await;
        let removed = nodes.delete_collection(&DeleteParams::default(), &labelled).await;
        removed
            .map(drop)
            .map_err(|error| EnvironmentError::Nodes(error.to_string()))
    }
}
