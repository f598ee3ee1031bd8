//! The judge of nodes: what a cluster does when a node falls silent, is cordoned, or is deleted.
//!
//! Owns the `Unknown` conditions and the taints of silent nodes, the taint of cordoned ones, marking their pods not
//! ready, eviction by `NoExecute` taints, and removal of pods whose node does not exist. It stands in for the node
//! lifecycle, taint eviction and pod garbage controllers of Kubernetes and must not run beside them.
//!
//! Left out: rate limits per zone and the out-of-service taint.

mod controller;
mod eviction;
mod health;
mod requests;

pub(crate) use controller::{LifecycleOptions, run};

use std::time::Duration;

/// How a silent node is recognised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HealthSignal {
    /// Its lease has not been renewed for this long. A simulated node with power is not silent, however late a busy
    /// machine renews its lease.
    Lease {
        /// The grace period.
        grace: Duration,
    },
    /// It has had no power for this long. For clusters without heartbeats, where nothing else would tell.
    Power {
        /// The grace period.
        grace: Duration,
    },
}
