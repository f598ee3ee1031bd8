//! Simulated nodes for a scenario: the same kubelets as in the embedded cluster, as clients of whatever API server the
//! scenario runs on. A cluster that already simulates enough nodes is used as it is.

use std::time::Duration;

use async_trait::async_trait;
use coppice_cluster::profile::SIMULATED_NODE_LABEL;
use coppice_cluster::{Controllers, SimulatedCluster};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};

use super::environment::{EnvironmentError, Nodes};
use super::model::NodeGroup;

/// Often enough that the loss of a node shows within seconds where the grace period is short.
const HEARTBEATS: Duration = Duration::from_secs(2);

/// Starts the nodes.
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
    Ok(Box::new(Own {
        cluster,
        nodes,
        labelled,
    }))
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
