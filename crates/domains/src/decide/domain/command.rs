//! What a plan for a domain may ask of the shell.

use serde_json::Value;

/// The kinds that a domain consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ObjectKind {
    /// `apps/v1` DaemonSet.
    DaemonSet,
    /// `resource.k8s.io/v1` ResourceClaimTemplate.
    ClaimTemplate,
    /// `v1` Node.
    Node,
}

/// An object that exists, as far as plans look at it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Existing {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// UID of the domain that it is labelled for.
    pub domain_uid: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether it has the driver's finalizer.
    pub has_finalizer: bool,
    /// Hash of the pod template that it was rendered with; none when another driver rendered it.
    pub template_hash: Option<String>,
}

/// One step.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    /// Add the finalizer to the domain.
    AddDomainFinalizer,
    /// Remove the finalizer from the domain.
    RemoveDomainFinalizer,
    /// Create this object.
    Create(Box<Value>),
    /// Replace the pod template of the DaemonSet with this UID.
    ReplacePodTemplate {
        /// UID of the DaemonSet.
        uid: String,
        /// The DaemonSet as it should be.
        rendered: Box<Value>,
    },
    /// Delete this object.
    Delete(ObjectKind, Existing),
    /// Remove the driver's finalizer from this object.
    RemoveFinalizer(ObjectKind, Existing),
    /// Remove the label of a domain from a node, if it still has that value.
    RemoveNodeLabel {
        /// The node.
        node: String,
        /// UID of the domain.
        domain_uid: String,
    },
}
