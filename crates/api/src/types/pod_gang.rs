//! PodGang: what a scheduler places together, all or nothing.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{NamespacedName, PodGangPhase, UnknownFields, parts};

/// The pods of a gang and where they may go.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "scheduler.grove.io",
    version = "v1alpha1",
    kind = "PodGang",
    plural = "podgangs",
    shortname = "pg",
    namespaced,
    status = "PodGangStatus",
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
pub struct PodGangSpec {
    /// One group for each clique in the gang. (The JSON name has a lower-case g.)
    #[serde(default, rename = "podgroups")]
    #[schemars(extend("x-required" = true))]
    pub pod_groups: Vec<PodGroup>,
    /// Where the whole gang is to be placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<GangTopologyConstraint>,
    /// Where some of its groups are to be placed together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub topology_constraint_group_configs: Vec<TopologyConstraintGroupConfig>,
    /// Priority class of the gang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// A gang whose place this one may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reuse_reservation_ref: Option<NamespacedName>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// The pods of one clique in a gang.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGroup {
    /// The PodClique.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Its pods.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub pod_references: Vec<NamespacedName>,
    /// How many of them must be placed.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub min_replicas: i32,
    /// Where they are to be placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<GangTopologyConstraint>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// Groups of a gang that are to be placed together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopologyConstraintGroupConfig {
    /// A name, unique in the gang.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Pod groups, by name.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub pod_group_names: Vec<String>,
    /// Where they are to be placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<GangTopologyConstraint>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// A constraint in terms of node labels.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GangTopologyConstraint {
    /// The label keys to pack by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack_constraint: Option<GangPackConstraint>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// Node label keys to pack by.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GangPackConstraint {
    /// All pods on nodes with one value of this label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub required: Option<String>,
    /// The same, when there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preferred: Option<String>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// What is known of a gang.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGangStatus {
    /// How far it is.
    #[serde(default)]
    #[schemars(with = "String")]
    pub phase: PodGangPhase,
    /// When the condition `Scheduled` last became True; kept when it becomes False.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "parts::date_time")]
    pub last_scheduled: Option<Time>,
    /// When the condition `Ready` last became True; kept when it becomes False.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "parts::date_time")]
    pub last_ready: Option<Time>,
    /// `Initialized`, `Scheduled`, `Ready`, `Unhealthy`, `DisruptionTarget`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "parts::conditions")]
    pub conditions: Vec<Condition>,
    /// How well it is placed, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placement_score: Option<f64>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}
