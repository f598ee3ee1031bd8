//! PodCliqueScalingGroup: cliques that scale together, as copies of one another.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{LastError, UnknownFields, parts};

fn one() -> i32 {
    1
}

/// Which cliques scale together, and how many copies of them.
#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "grove.io",
    version = "v1alpha1",
    kind = "PodCliqueScalingGroup",
    plural = "podcliquescalinggroups",
    shortname = "pcsg",
    namespaced,
    status = "PodCliqueScalingGroupStatus",
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
pub struct PodCliqueScalingGroupSpec {
    /// The number of copies.
    #[serde(default = "one")]
    #[schemars(extend("x-required" = true, "x-default" = 1, "maximum" = crate::sizes::MOST_COPIES))]
    pub replicas: i32,
    /// How many copies must be there; they form the base gang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = 1))]
    pub min_available: Option<i32>,
    /// Member cliques, by name in the template.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub clique_names: Vec<String>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// What is known of a scaling group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueScalingGroupStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Errors of the last reconcile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_errors: Vec<LastError>,
    /// The copies asked for.
    #[serde(default)]
    pub replicas: i32,
    /// Copies whose cliques are all scheduled.
    #[serde(default)]
    #[schemars(extend("x-required" = true, "x-default" = 0))]
    pub scheduled_replicas: i32,
    /// Copies whose cliques all have their minimum ready.
    #[serde(default)]
    #[schemars(extend("x-required" = true, "x-default" = 0))]
    pub available_replicas: i32,
    /// Available copies with the current template.
    #[serde(default)]
    #[schemars(extend("x-required" = true, "x-default" = 0))]
    pub updated_replicas: i32,
    /// Selector for an autoscaler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// `MinAvailableBreached`, `GangTerminationInProgress`, `UpdateInProgress`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "parts::conditions")]
    pub conditions: Vec<Condition>,
    /// The set generation that all copies have reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_pod_clique_set_generation_hash: Option<String>,
    /// The update in progress, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_progress: Option<PodCliqueScalingGroupUpdateProgress>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// How far the update of a scaling group is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueScalingGroupUpdateProgress {
    /// When it began.
    #[schemars(schema_with = "parts::date_time", extend("x-required" = true))]
    pub update_started_at: Time,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "parts::date_time")]
    pub update_ended_at: Option<Time>,
    /// The set generation being rolled out.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub pod_clique_set_generation_hash: String,
    /// Cliques already updated.
    #[serde(default)]
    #[schemars(extend("x-default" = 0))]
    pub updated_pod_cliques_count: i32,
    /// Cliques to update.
    #[serde(default)]
    #[schemars(extend("x-default" = 0))]
    pub total_pod_cliques_count: i32,
    /// When the number of updated copies last rose, or the update began. Absent when no update is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "parts::date_time")]
    pub last_progressed_at: Option<Time>,
    /// Ready copies chosen for replacement. Written by older versions only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_replica_indices_selected_to_update: Option<ReplicaIndicesSelectedToUpdate>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// Ready copies chosen for replacement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaIndicesSelectedToUpdate {
    /// The copy being replaced.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub current: i32,
    /// Copies already replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub completed: Vec<i32>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}
