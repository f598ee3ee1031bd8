//! What is known of a PodCliqueSet.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::string_enum::string_enum;
use super::{ComponentCounters, LastError, UnknownFields, parts};

/// What is known of a PodCliqueSet.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueSetStatus {
    /// The generation that was synced completely.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "parts::conditions")]
    pub conditions: Vec<Condition>,
    /// Errors of the last reconcile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_errors: Vec<LastError>,
    /// The copies asked for.
    #[serde(default)]
    pub replicas: i32,
    /// Available copies with the current template.
    #[serde(default)]
    #[schemars(extend("x-required" = true, "x-default" = 0))]
    pub updated_replicas: i32,
    /// Copies whose cliques and scaling groups all have their minimum.
    #[serde(default)]
    #[schemars(extend("x-required" = true, "x-default" = 0))]
    pub available_replicas: i32,
    /// Selector for an autoscaler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hpa_pod_selector: Option<String>,
    /// The gangs of the set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_gang_statuses: Vec<PodGangSummary>,
    /// Identity of the template that the set has accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_generation_hash: Option<String>,
    /// The update in progress, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_progress: Option<PodCliqueSetUpdateProgress>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// One gang, as the set sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGangSummary {
    /// The PodGang.
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// How far it is.
    #[schemars(extend("x-required" = true))]
    pub phase: PodGangPhase,
    /// Conditions of the gang.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "parts::conditions")]
    pub conditions: Vec<Condition>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

string_enum! {
    /// How far a gang is.
    #[derive(Default)]
    PodGangPhase {
        /// Not all of its minimum is scheduled.
        #[default]
        Pending = "Pending",
        /// Scheduled; not all of its minimum is ready.
        Starting = "Starting",
        /// Its minimum is ready.
        Running = "Running",
        /// It ended in failure.
        Failed = "Failed",
        /// It ended in success.
        Succeeded = "Succeeded",
    }
}

/// How far the update of a set is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueSetUpdateProgress {
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "parts::date_time")]
    pub update_started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "parts::date_time")]
    pub update_ended_at: Option<Time>,
    /// Standalone cliques already updated.
    #[serde(default)]
    #[schemars(extend("x-default" = 0))]
    pub updated_pod_cliques_count: i32,
    /// Standalone cliques to update.
    #[serde(default)]
    #[schemars(extend("x-default" = 0))]
    pub total_pod_cliques_count: i32,
    /// Scaling groups already updated.
    #[serde(default)]
    #[schemars(extend("x-default" = 0))]
    pub updated_pod_clique_scaling_groups_count: i32,
    /// Scaling groups to update.
    #[serde(default)]
    #[schemars(extend("x-default" = 0))]
    pub total_pod_clique_scaling_groups_count: i32,
    /// Copies of the set being updated; the first is the active one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub currently_updating: Vec<ReplicaUpdateProgress>,
    /// Standalone cliques whose template changes in a coherent update, by name in the template, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_scope_standalone_pod_cliques: Vec<String>,
    /// Scaling groups with a clique whose template changes in a coherent update, by name in the template, sorted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_scope_pod_clique_scaling_groups: Vec<String>,
    /// Templates that all copies had before a coherent update, by component: where a rollback leads.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub previous_revisions: BTreeMap<String, String>,
    /// Whether a coherent update was taken back: copies go to `previousRevisions`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolled_back: Option<bool>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// How far the update of one copy is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaUpdateProgress {
    /// The copy.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub replica_index: i32,
    /// Epochs of the gangs that a coherent update is making.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub in_flight_epochs: Vec<String>,
    /// What a coherent update waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The step of a coherent update: Bridging, Anchoring, Settling, Rolling, Trimming, Paused or Stalled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Why a coherent update waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Counters of each component in scope of a coherent update.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub components: BTreeMap<String, ComponentCounters>,
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "parts::date_time")]
    pub update_started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "parts::date_time")]
    pub update_ended_at: Option<Time>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}
