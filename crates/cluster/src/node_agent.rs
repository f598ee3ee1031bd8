//! What runs beside a kubelet on a node: device drivers, and programs that must be at work before a pod counts as ready.
//!
//! Owns the interface through which simulated kubelets ask. Without an agent, claims can be used as soon as they are allocated and
//! reserved, and pods are ready when their behaviour says so. An agent keeps its own state and does its own requests; calls
//! into it return at once.

use coppice_runtime::cache::ObjectKey;
use serde_json::Value;

/// An allocated claim of a pod that was bound to a node.
#[derive(Clone, Copy, Debug)]
pub struct ClaimOnNode<'a> {
    /// The node.
    pub node: &'a str,
    /// The pod.
    pub pod: &'a ObjectKey,
    /// The claim.
    pub claim: &'a ObjectKey,
    /// UID of the claim.
    pub uid: &'a str,
    /// Its `status.allocation`.
    pub allocation: &'a Value,
}

/// A pod whose containers have started.
#[derive(Clone, Copy, Debug)]
pub struct PodOnNode<'a> {
    /// The node.
    pub node: &'a str,
    /// The pod.
    pub pod: &'a ObjectKey,
    /// UID of the pod.
    pub uid: &'a str,
    /// The value of a label that the agent wants to know.
    pub label: Option<&'a str>,
    /// The address of the pod.
    pub address: &'a str,
}

/// Whether the devices of a claim can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// They can.
    Prepared,
    /// Not yet; the pod is looked at again when the agent says so.
    Waiting(String),
}

/// Marks a pod to be looked at again.
pub type WakePod = Box<dyn Fn(ObjectKey) + Send + Sync>;

/// What runs beside the kubelets of all simulated nodes.
pub trait NodeAgent: Send + Sync {
    /// Prepares a claim. Called each time a pod that waits is looked at, also after it was prepared.
    fn prepare(&self, claim: ClaimOnNode<'_>) -> Preparation;

    /// The pod of a claim has ended. Also called for claims that were never prepared.
    fn unprepare(&self, node: &str, claim_uid: &str);

    /// The label of pods whose readiness the agent decides; pods without it are not asked about.
    fn label(&self) -> &str;

    /// Why a pod with the label, which otherwise would be, is not ready yet.
    fn unready(&self, pod: PodOnNode<'_>) -> Option<String>;

    /// A pod with the label is gone.
    fn forget(&self, uid: &str);

    /// Called once, before anything else: how pods are woken. Must not be called from within the other methods.
    fn wake_with(&self, wake: WakePod);
}
