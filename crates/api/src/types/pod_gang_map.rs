//! PodGangMap: which pods of one copy of a set belong to which gang while versions are mixed.
//!
//! Coherent updates write it; nothing else reads or writes it. One object for each copy of a set, with one writer.

use std::collections::BTreeMap;

use kube_derive::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::UnknownFields;
use super::string_enum::string_enum;

/// The gangs of one copy of a set.
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
    /// The copy of the set.
    #[serde(default)]
    #[schemars(extend("x-required" = true, "minimum" = 0))]
    pub pod_clique_set_replica_index: i32,
    /// The ordinal that the next gang will get.
    #[serde(default)]
    #[schemars(extend("x-default" = 0, "minimum" = 0))]
    pub next_ordinal: i64,
    /// The gangs, by ordinal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["ordinal"]))]
    pub entries: Vec<PodGangMapEntry>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

string_enum! {
    /// What a gang is for.
    #[derive(Default)]
    PodGangRole {
        /// The smallest complete system.
        #[default]
        Anchor = "Anchor",
        /// Further copies of a scaling group, placed after their anchor.
        Tail = "Tail",
        /// A temporary system that bridges an update.
        Bridge = "Bridge",
    }
}

/// One gang of a copy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGangMapEntry {
    /// Its ordinal, never reused.
    #[serde(default)]
    #[schemars(extend("x-required" = true, "minimum" = 0))]
    pub ordinal: i64,
    /// What it is for.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub role: PodGangRole,
    /// Pod template identity of each component in it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub revisions: BTreeMap<String, String>,
    /// Standalone cliques, with the number of their pods in this gang.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pod_cliques: BTreeMap<String, i32>,
    /// Scaling groups, with the indices of their copies in this gang.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub pcsg_replica_indices: BTreeMap<String, Vec<i32>>,
    /// Ordinals that must be placed first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub depends_on: Vec<i64>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// What is known of the gangs of one copy.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodGangMapStatus {
    /// The generation that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Counters of each component.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub components: BTreeMap<String, ComponentCounters>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// Counters of one component (standalone clique or scaling group) of a copy.
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
