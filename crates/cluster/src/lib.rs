//! The rest of a cluster around an API server: nodes, kubelets and the controllers that keep objects in order.
//!
//! Everything here is an ordinary API client. It runs against the embedded API server, in one process and even under
//! paused time, and against a real kube-apiserver with nothing but a kubeconfig:
//!
//! ```no_run
//! use coppice_cluster::{Options, SimulatedCluster, profile::NodeProfile};
//! use coppice_runtime::layers;
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let client = layers::client(kube::Config::infer().await?, &layers::Options::default())?;
//! let options = Options::default().nodes(NodeProfile::Gb200Nvl72, 36);
//! let cluster = SimulatedCluster::start(client, options).await?;
//! cluster.power_off("node-00003").await?;
//! cluster.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! Each component is a pure decider in a thin shell: deciders take the time as an argument and are tested without a
//! client; shells run on the queue and the caches of `coppice-runtime`, which fold in their own writes, and neither poll
//! nor write what is stored already.

#![recursion_limit = "256"]

pub mod behaviour;
mod controller;
mod daemon_sets;
mod default_scheduler;
mod digest;
mod garbage_collector;
pub mod init_wait;
mod kinds;
mod kubelet;
mod namespaces;
pub mod node_agent;
mod node_life;
mod node_lifecycle;
mod node_view;
pub mod profile;
mod resource_claims;
mod service_accounts;
mod simulated_cluster;
mod tolerations;
mod view;
mod volumes;

pub use node_view::NodeSelection;
pub use simulated_cluster::{ClusterError, Controllers, Options, SimulatedCluster};
pub use volumes::{PROVISIONER, TOPOLOGY_KEY};
