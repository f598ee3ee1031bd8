//! ClusterTopologyBinding: the levels of a cluster's topology, by node label.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{UnknownFields, parts};

/// The levels of a topology, and the schedulers' own objects for it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "grove.io",
    version = "v1alpha1",
    kind = "ClusterTopologyBinding",
    plural = "clustertopologybindings",
    shortname = "ct",
    status = "ClusterTopologyBindingStatus",
    derive = "PartialEq",
    schema = "disabled",
    crates(
        kube_core = "::kube_core",
        k8s_openapi = "::k8s_openapi",
        serde = "::serde",
        serde_json = "::serde_json"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTopologyBindingSpec {
    /// From the broadest to the narrowest.
    #[serde(default)]
    #[schemars(extend("x-required" = true, "minItems" = 1))]
    pub levels: Vec<TopologyLevel>,
    /// Topology objects that somebody else manages, checked for drift only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scheduler_topology_bindings: Vec<SchedulerTopologyBinding>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// One level of a topology.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyLevel {
    /// The name that constraints use, such as `rack`.
    #[serde(default)]
    #[schemars(schema_with = "parts::domain_name", extend("x-required" = true))]
    pub domain: String,
    /// The node label whose value tells the domains of this level apart.
    #[serde(default)]
    #[schemars(schema_with = "parts::label_key", extend("x-required" = true))]
    pub key: String,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// A scheduler's own object for a topology.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulerTopologyBinding {
    /// The scheduler.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub scheduler_name: String,
    /// Its object.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub topology_reference: String,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// What is known of a topology binding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterTopologyBindingStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `SchedulerTopologyDrift`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "parts::conditions")]
    pub conditions: Vec<Condition>,
    /// One entry for each scheduler that knows topologies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scheduler_topology_statuses: Vec<SchedulerTopologyStatus>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// Whether a scheduler's own object agrees with the binding.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchedulerTopologyStatus {
    /// The scheduler.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub scheduler_name: String,
    /// Its object.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub topology_reference: String,
    /// Whether the two agree.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub in_sync: bool,
    /// The generation of the object that was compared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduler_backend_topology_observed_generation: Option<i64>,
    /// Why they do not agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}
