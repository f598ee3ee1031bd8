//! PodGangMap: which units of one replica of a set belong to which gang.
//!
//! One object for each replica of a set, with one writer. Its form is that of Grove alpha.12 and alpha.13, so that maps
//! written by either operator are valid for the other; what they do not have (`revisions`, the role `Bridge`, the status)
//! is optional. Gangs, pods, gates and scheduler objects follow from the template, the live sizes and this map.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::string_enum::string_enum;
use super::{UnknownFields, parts};

/// The gangs of one replica of a set.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "grove.io",
    version = "v1alpha1",
    kind = "PodGangMap",
    plural = "podgangmaps",
    shortname = "pgm",
    namespaced,
    status = "PodGangMapStatus",
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
pub struct PodGangMapSpec {
    /// The replica of the set.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub pod_clique_set_replica_index: i32,
    /// The gangs, by epoch.
    #[serde(default)]
    #[schemars(extend(
        "x-required" = true,
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["epoch"]
    ))]
    pub entries: Vec<PodGangMapEntry>,
    /// The epoch of the next new entry, where it does not follow the last entry: no epoch is used twice.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_epoch: Option<String>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

string_enum! {
    /// What the gangs of an epoch are for.
    #[derive(Default)]
    PodGangRole {
        /// The smallest complete system: one gang.
        #[default]
        Anchor = "Anchor",
        /// Further replicas of scaling groups by the template: one gang each.
        Tail = "Tail",
        /// Replicas of scaling groups that were added later: one gang each.
        ScaleOut = "ScaleOut",
        /// A temporary system that carries the load of an update. Grove does not have it.
        Bridge = "Bridge",
    }
}

/// The units of one epoch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGangMapEntry {
    /// A decimal number; epochs are ordered as numbers.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub epoch: String,
    /// The templates that its units have.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub pod_clique_set_generation_hash: String,
    /// What its gangs are for.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub role: PodGangRole,
    /// Position among the anchors. Required on anchors by Grove alpha.12 and alpha.13, which allow it nowhere else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub anchor_index: Option<i32>,
    /// Standalone cliques by name in the template, with the number of their pods in this epoch.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_cliques: BTreeMap<String, i32>,
    /// Scaling groups by name in the template, with the indices of their replicas in this epoch.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pcsg_replica_indices: BTreeMap<String, Vec<i32>>,
    /// Epochs whose gangs must have been scheduled before pods of this one are released to the scheduler.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<String>,
    /// Pod template of each component of this epoch, where components differ in their revision.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub revisions: BTreeMap<String, String>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// What is known of the gangs of one replica.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGangMapStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Counters of each component.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub components: BTreeMap<String, ComponentCounters>,
    /// What is remembered of a coherent update. When it is lost, units have to be ready once more before the next batch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub update: Option<CoherentUpdateRecord>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// Counters of one component (standalone clique or scaling group) of a replica.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ComponentCounters {
    /// How many there should be.
    #[serde(default)]
    #[schemars(extend("x-default" = 0))]
    pub desired: i32,
    /// How many are available.
    #[serde(default)]
    #[schemars(extend("x-default" = 0))]
    pub available: i32,
    /// How many have the new template.
    #[serde(default)]
    #[schemars(extend("x-default" = 0))]
    pub updated: i32,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// What is remembered of a coherent update of one replica.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CoherentUpdateRecord {
    /// The templates that the update leads to, by component.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub revisions: BTreeMap<String, String>,
    /// Units that have been available, by component and epoch.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settled: BTreeMap<String, BTreeMap<String, i32>>,
    /// The fewest units with another template so far.
    #[serde(default)]
    #[schemars(extend("x-default" = 0))]
    pub fewest_stale: i32,
    /// When the update last made progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "parts::date_time")]
    pub last_progressed_at: Option<Time>,
    /// Whether the update goes on without temporary gangs, because they could not be placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub surge_abandoned: Option<bool>,
    /// Whether the replica waits for its turn, or is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<bool>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}
