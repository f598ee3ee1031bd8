//! Admission webhooks: the rules of `coppice_api::admission`, asked over HTTPS or in this process.
//!
//! Owns the wire: which path answers for which rule ([`Endpoint`]), reviews in and out ([`review`]), the server
//! ([`server`], with its certificates [`service`]), and the configurations that tell an API server of it ([`configurations`]). What the rules need to know
//! of the cluster comes from the operator's cache ([`admission`]). Decides nothing itself: a review is answered by pure
//! functions, and the same ones answer on an embedded control plane ([`in_process`]).
//!
//! Assumes that defaulting and validation both see a set: defaulting lets an object pass that it cannot read, because the
//! schema or the validation says better what is wrong with it. Never stands in the way of a deletion.

pub mod admission;
pub mod configurations;
pub mod in_process;
pub mod install;
mod patch;
pub mod review;
pub mod server;
pub mod service;

pub use admission::{Admission, Guard, Policy};

/// A question that the webhooks answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// Fills in the defaults of PodCliqueSets.
    DefaultPodCliqueSet,
    /// Judges PodCliqueSets.
    ValidatePodCliqueSet,
    /// Judges ClusterTopologyBindings.
    ValidateClusterTopologyBinding,
    /// Judges new sizes of PodCliques.
    ValidatePodClique,
    /// Judges new sizes of PodCliqueScalingGroups.
    ValidatePodCliqueScalingGroup,
    /// Guards managed objects.
    Authorize,
}

impl Endpoint {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::DefaultPodCliqueSet,
        Self::ValidatePodCliqueSet,
        Self::ValidateClusterTopologyBinding,
        Self::ValidatePodClique,
        Self::ValidatePodCliqueScalingGroup,
        Self::Authorize,
    ];

    /// Where it is asked.
    pub const fn path(self) -> &'static str {
        match self {
            Self::DefaultPodCliqueSet => "/webhooks/default-podcliqueset",
            Self::ValidatePodCliqueSet => "/webhooks/validate-podcliqueset",
            Self::ValidateClusterTopologyBinding => "/webhooks/validate-clustertopology",
            Self::ValidatePodClique => "/webhooks/validate-podclique",
            Self::ValidatePodCliqueScalingGroup => "/webhooks/validate-podcliquescalinggroup",
            Self::Authorize => "/webhooks/authorizer-webhook",
        }
    }

    /// The name of the webhook within its configuration.
    pub const fn webhook(self) -> &'static str {
        match self {
            Self::DefaultPodCliqueSet => "pcs.defaulting.webhooks.grove.io",
            Self::ValidatePodCliqueSet => "pcs.validating.webhooks.grove.io",
            Self::ValidateClusterTopologyBinding => "clustertopology.validating.webhooks.grove.io",
            Self::ValidatePodClique => "pclq.validating.webhooks.grove.io",
            Self::ValidatePodCliqueScalingGroup => "pcsg.validating.webhooks.grove.io",
            Self::Authorize => "authorizer.webhooks.grove.io",
        }
    }

    /// The name of the webhook configuration.
    pub const fn configuration(self) -> &'static str {
        match self {
            Self::DefaultPodCliqueSet => "podcliqueset-defaulting-webhook",
            Self::ValidatePodCliqueSet => "podcliqueset-validating-webhook",
            Self::ValidateClusterTopologyBinding => "clustertopology-validating-webhook",
            Self::ValidatePodClique => "podclique-validating-webhook",
            Self::ValidatePodCliqueScalingGroup => "podcliquescalinggroup-validating-webhook",
            Self::Authorize => "authorizer-webhook",
        }
    }

    /// Whether a request is refused when nobody answers. Questions about sizes are answered with warnings: autoscalers and
    /// the removal of finalizers must not depend on them.
    pub const fn fails_closed(self) -> bool {
        !matches!(self, Self::ValidatePodClique | Self::ValidatePodCliqueScalingGroup)
    }

    /// Whether it may change objects, and its configuration is a MutatingWebhookConfiguration.
    pub const fn mutates(self) -> bool {
        matches!(self, Self::DefaultPodCliqueSet)
    }
}
