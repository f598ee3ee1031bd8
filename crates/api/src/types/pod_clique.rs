//! PodClique: pods of one role. Also the clique part of a PodCliqueSet template, which has the same specification.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AutoScalingConfig, LastError, PodSpec, UnknownFields, parts};

/// For objects that did not pass through an API server: the schema requires the field.
fn one() -> i32 {
    1
}

/// What a clique runs and how many of it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "grove.io",
    version = "v1alpha1",
    kind = "PodClique",
    plural = "podcliques",
    shortname = "pclq",
    namespaced,
    status = "PodCliqueStatus",
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
pub struct PodCliqueSpec {
    /// The role of the pods, unique in the set.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub role_name: String,
    /// The pods' specification.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub pod_spec: PodSpec,
    /// The number of pods; 0 for a clique that is idle.
    #[serde(default = "one")]
    #[schemars(extend("x-required" = true, "maximum" = crate::sizes::MOST_PODS))]
    pub replicas: i32,
    /// How many pods must be there for the clique to count as available; the gang's minimum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_available: Option<i32>,
    /// Cliques that must be ready first: clique names in a template, object names in a PodClique.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub starts_after: Vec<String>,
    /// Limits of an autoscaler for this clique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_scaling_config: Option<AutoScalingConfig>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// What is known of a clique.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Errors of the last reconcile.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_errors: Vec<LastError>,
    /// Pods that exist and are not being deleted.
    #[serde(default)]
    pub replicas: i32,
    /// Ready pods.
    #[serde(default)]
    #[schemars(extend("x-required" = true, "x-default" = 0))]
    pub ready_replicas: i32,
    /// Pods with the current template.
    #[serde(default)]
    #[schemars(extend("x-required" = true, "x-default" = 0))]
    pub updated_replicas: i32,
    /// Pods held back by a scheduling gate.
    #[serde(default)]
    #[schemars(extend("x-required" = true, "x-default" = 0))]
    pub schedule_gated_replicas: i32,
    /// Pods that have a node.
    #[serde(default)]
    #[schemars(extend("x-required" = true, "x-default" = 0))]
    pub scheduled_replicas: i32,
    /// Selector for an autoscaler; absent on members of a scaling group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hpa_pod_selector: Option<String>,
    /// `PodCliqueScheduled`, `MinAvailableBreached`, `UpdateInProgress`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "parts::conditions")]
    pub conditions: Vec<Condition>,
    /// When the condition `PodCliqueScheduled` last became True; kept when it becomes False.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "parts::date_time")]
    pub last_scheduled: Option<Time>,
    /// The set generation that all pods have reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_pod_clique_set_generation_hash: Option<String>,
    /// The template that all pods have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current_pod_template_hash: Option<String>,
    /// The update in progress, or the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_progress: Option<PodCliqueUpdateProgress>,
    /// The number that the names of new pods are made from, raised before a pod is replaced, so that no name comes twice.
    /// Absent while no pod was replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_attempt: Option<i64>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// How far the update of a clique is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueUpdateProgress {
    /// When it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "parts::date_time")]
    pub update_started_at: Option<Time>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "parts::date_time")]
    pub update_ended_at: Option<Time>,
    /// The set generation being rolled out.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub pod_clique_set_generation_hash: String,
    /// The pod template being rolled out.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub pod_template_hash: String,
    /// When the number of updated pods last rose, or the update began. Absent when no update is in progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "parts::date_time")]
    pub last_progressed_at: Option<Time>,
    /// Pods with the new template that have a node.
    #[serde(default)]
    pub updated_scheduled_replicas: i32,
    /// Ready pods chosen for replacement. Written by older versions only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ready_pods_selected_to_update: Option<PodsSelectedToUpdate>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// Ready pods chosen for replacement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodsSelectedToUpdate {
    /// The pod being replaced.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub current: String,
    /// Pods already replaced.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub completed: Vec<String>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}
