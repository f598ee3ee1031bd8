//! PodCliqueSet: a whole serving system and how many copies of it.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::string_enum::string_enum;
use super::{
    AutoScalingConfig, PodCliqueSetStatus, PodCliqueSpec, ResourceClaimTemplateConfig, ResourceSharing, RollingUpdate,
    TopologyConstraint, UnknownFields,
};

/// A serving system and how many copies of it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "grove.io",
    version = "v1alpha1",
    kind = "PodCliqueSet",
    plural = "podcliquesets",
    shortname = "pcs",
    namespaced,
    status = "PodCliqueSetStatus",
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
pub struct PodCliqueSetSpec {
    /// The number of copies of the template.
    #[serde(default)]
    #[schemars(extend("x-default" = 0, "maximum" = crate::sizes::MOST_REPLICAS))]
    pub replicas: i32,
    /// How pods are replaced when the template changes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// How many ControllerRevisions are kept besides those in use; 5 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "maximum" = crate::sizes::MOST_REVISIONS))]
    pub revision_history_limit: Option<i32>,
    /// One copy of the system.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub template: PodCliqueSetTemplate,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// How pods are replaced when the template changes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct UpdateStrategy {
    /// The strategy.
    #[serde(default, rename = "type")]
    #[schemars(extend("x-default" = "RollingRecreate"))]
    pub strategy: UpdateStrategyType,
    /// Whether no further pod is replaced for a new template. Sizes and lost pods are still reconciled. Without effect
    /// with OnDelete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<bool>,
    /// Settings of the strategy Coherent; without effect with the others.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coherent: Option<CoherentUpdate>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

string_enum! {
    /// How pods are replaced when the template changes.
    #[derive(Default)]
    UpdateStrategyType {
        /// All changed components in step: the smallest complete system first, then the rest in proportion.
        Coherent = "Coherent",
        /// One copy of the set at a time, by deleting and creating pods.
        #[default]
        RollingRecreate = "RollingRecreate",
        /// Only pods that somebody else deletes come back with the new template.
        OnDelete = "OnDelete",
    }
}

/// Settings of coherent updates. A unit is one pod of a standalone clique or one copy of a scaling group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoherentUpdate {
    /// Copies of the set that are updated at the same time; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 1, "maximum" = crate::sizes::MOST_REPLICAS))]
    pub max_concurrent_replicas: Option<i32>,
    /// How many times `minAvailable` units of a component may be unavailable, where its
    /// `rollingUpdate.maxUnavailable` is absent; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "maximum" = crate::sizes::MOST_COPIES))]
    pub max_unavailable_units: Option<i32>,
    /// Temporary gangs, with `minAvailable` units of every changed component each, that carry the load of an update; 0
    /// when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0, "maximum" = crate::sizes::MOST_SURGE_UNITS))]
    pub max_surge_units: Option<i32>,
    /// What happens when a temporary gang cannot be placed within `progressDeadline`; BestEffort when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surge_policy: Option<SurgePolicy>,
    /// How many seconds a unit has to be ready before it counts as available; 0 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("minimum" = 0))]
    pub min_ready_seconds: Option<i32>,
    /// How long an update may make no progress before it stops, such as `30m`. When absent, the shortest
    /// `rollingUpdate.progressDeadline` of the template, or else 30m.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_deadline: Option<String>,
    /// What happens to an update that makes no progress; Pause when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnUpdateFailure>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

string_enum! {
    /// What happens when a temporary gang of an update cannot be placed.
    #[derive(Default)]
    SurgePolicy {
        /// The update goes on without it, where `maxUnavailable` allows.
        #[default]
        BestEffort = "BestEffort",
        /// The update stops.
        Required = "Required",
    }
}

string_enum! {
    /// What happens to an update that makes no progress.
    #[derive(Default)]
    OnUpdateFailure {
        /// It stops where it is.
        #[default]
        Pause = "Pause",
        /// It is taken back, when pods were placed and did not become ready.
        Rollback = "Rollback",
    }
}

string_enum! {
    /// In which order the cliques of one copy start.
    #[derive(Default)]
    CliqueStartupType {
        /// All at once.
        #[default]
        AnyOrder = "CliqueStartupTypeAnyOrder",
        /// Each after the one before it in the list.
        InOrder = "CliqueStartupTypeInOrder",
        /// Each after those named in its `startsAfter`.
        Explicit = "CliqueStartupTypeExplicit",
    }
}

/// One copy of a serving system.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueSetTemplate {
    /// The cliques; their order counts when they start in order.
    #[serde(default)]
    #[schemars(extend("x-required" = true, "x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub cliques: Vec<PodCliqueTemplate>,
    /// In which order the cliques start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = "CliqueStartupTypeAnyOrder"))]
    pub clique_startup_type: Option<CliqueStartupType>,
    /// Priority class of all gangs and pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// The headless service of each copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub headless_service_config: Option<HeadlessServiceConfig>,
    /// Where one copy is to be placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// How long too few pods are tolerated before the gang is terminated, such as `4h`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_delay: Option<String>,
    /// Resource claim templates for `resourceSharing`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_claim_templates: Vec<ResourceClaimTemplateConfig>,
    /// Claims shared across the set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub resource_sharing: Vec<ResourceSharing>,
    /// Cliques that scale together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pod_clique_scaling_groups: Vec<PodCliqueScalingGroupConfig>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// One clique of a template.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueTemplate {
    /// Its name, unique in the template.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Labels for the clique and its pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations for the clique and its pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Where its pods are to be placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// Claims shared by its pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-without" = ["filter"]))]
    pub resource_sharing: Vec<ResourceSharing>,
    /// How many of its pods may be unavailable while they are replaced. Only on cliques outside of scaling groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
    /// What it runs.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub spec: PodCliqueSpec,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// Cliques of a template that scale together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodCliqueScalingGroupConfig {
    /// Its name, unique in the template.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Member cliques, by name.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub clique_names: Vec<String>,
    /// Annotations for the PodCliqueScalingGroup.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The number of copies at first; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = 1, "maximum" = crate::sizes::MOST_COPIES))]
    pub replicas: Option<i32>,
    /// How many copies must be there, and form the base gang; 1 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-default" = 1))]
    pub min_available: Option<i32>,
    /// How many copies may be unavailable while they are replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rolling_update: Option<RollingUpdate>,
    /// Limits of an autoscaler for this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_config: Option<AutoScalingConfig>,
    /// Claims shared by the copies.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-without" = ["filter.childScalingGroupNames"]))]
    pub resource_sharing: Vec<ResourceSharing>,
    /// Where one copy is to be placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_constraint: Option<TopologyConstraint>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// The headless service of each copy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeadlessServiceConfig {
    /// Whether pods have an address before they are ready.
    #[serde(default = "publish_by_default")]
    #[schemars(extend("x-required" = true, "x-default" = true))]
    pub publish_not_ready_addresses: bool,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

fn publish_by_default() -> bool {
    true
}

impl Default for HeadlessServiceConfig {
    fn default() -> Self {
        Self {
            publish_not_ready_addresses: publish_by_default(),
            unknown: UnknownFields::new(),
        }
    }
}
