//! Simulated nodes for a scenario: the same kubelets as in the embedded cluster, as clients of whatever API server the
//! scenario runs on.

use kube::Client;

use super::environment::{EnvironmentError, Nodes};
use super::model::NodeGroup;

/// Starts the nodes of all groups.
pub(super) async fn start(_client: Client, _groups: &[NodeGroup]) -> Result<Box<dyn Nodes>, EnvironmentError> {
    Err(EnvironmentError::Nodes("not there yet".to_owned()))
}
