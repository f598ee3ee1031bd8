//! Parts that several kinds share: topology constraints, autoscaling, claim sharing, recorded errors.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::string_enum::string_enum;
use super::{UnknownFields, parts};

/// Where the pods of a set, scaling group or clique must or should be placed together.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = parts::topology_constraint_rules()))]
pub struct TopologyConstraint {
    /// The ClusterTopologyBinding that defines the domains; inherited from the enclosing level when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_name: Option<String>,
    /// The domains to pack into.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pack: Option<PackConstraint>,
    /// Deprecated spelling of `pack.required`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "parts::domain_name")]
    pub pack_domain: Option<String>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

impl TopologyConstraint {
    /// The domain that must hold all pods: `pack.required`, else the deprecated `packDomain`.
    pub fn required(&self) -> Option<&str> {
        let pack = self.pack.as_ref().and_then(|pack| pack.required.as_deref());
        pack.filter(|domain| !domain.is_empty())
            .or(self.pack_domain.as_deref())
            .filter(|domain| !domain.is_empty())
    }

    /// The domain that should hold all pods.
    pub fn preferred(&self) -> Option<&str> {
        let pack = self.pack.as_ref().and_then(|pack| pack.preferred.as_deref());
        pack.filter(|domain| !domain.is_empty())
    }
}

/// Domains to pack into, by name of a topology level.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = parts::pack_rules()))]
pub struct PackConstraint {
    /// All pods in one domain of this level, or none is placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "parts::domain_name")]
    pub required: Option<String>,
    /// All pods in one domain of this level when there is room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "parts::domain_name")]
    pub preferred: Option<String>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// Limits and metrics of a HorizontalPodAutoscaler that Coppice creates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoScalingConfig {
    /// The lower limit; defaults to the replicas of what is scaled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_replicas: Option<i32>,
    /// The upper limit.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub max_replicas: i32,
    /// `autoscaling/v2` metric specifications.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "parts::metrics")]
    pub metrics: Vec<Value>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// The budget and the deadline of an update, for one standalone clique or scaling group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RollingUpdate {
    /// How many ready pods (of a clique) or copies (of a scaling group) may be missing while others are replaced; 1 when
    /// absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<i32>,
    /// How long an update may make no progress before it is reported as stuck, such as `10m`. Only reported: nothing is
    /// paused or rolled back. Never reported when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub progress_deadline: Option<String>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// A resource claim template written inline in the set.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceClaimTemplateConfig {
    /// The name by which `resourceSharing` refers to it.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// A `resource.k8s.io/v1` ResourceClaimTemplateSpec.
    #[serde(default)]
    #[schemars(schema_with = "parts::claim_template_spec", extend("x-required" = true))]
    pub template_spec: Value,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

string_enum! {
    /// Who shares one resource claim.
    ResourceSharingScope {
        /// One claim for all replicas.
        AllReplicas = "AllReplicas",
        /// One claim for each replica.
        PerReplica = "PerReplica",
    }
}

impl Default for ResourceSharingScope {
    /// The field is required; what is missing decodes as an unknown (empty) scope and is refused.
    fn default() -> Self {
        Self::Other(String::new())
    }
}

/// A resource claim shared by pods, as listed on a set, scaling group or clique.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSharing {
    /// An inline template of the set, else a ResourceClaimTemplate object.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Namespace of the ResourceClaimTemplate object; forces the lookup of an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Who shares the claim.
    #[serde(default)]
    #[schemars(extend("x-required" = true))]
    pub scope: ResourceSharingScope,
    /// Which children take part; all of them when absent. Not available on cliques.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filter: Option<ResourceSharingFilter>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// Children that take part in a shared claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceSharingFilter {
    /// Cliques, by name in the template.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub child_clique_names: Vec<String>,
    /// Scaling groups, by name in the template. Only on the set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub child_scaling_group_names: Vec<String>,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// An error that stopped a reconcile, as recorded in a status.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastError {
    /// A code of the documented list.
    #[schemars(extend("x-required" = true))]
    pub code: String,
    /// What happened, for people.
    #[schemars(extend("x-required" = true))]
    pub description: String,
    /// When it happened.
    #[schemars(schema_with = "parts::date_time", extend("x-required" = true))]
    pub observed_at: Time,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

/// A namespaced object, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NamespacedName {
    /// Its namespace.
    #[schemars(extend("x-required" = true))]
    pub namespace: String,
    /// Its name.
    #[schemars(extend("x-required" = true))]
    pub name: String,
    /// Fields of newer versions.
    #[serde(flatten)]
    #[schemars(skip)]
    pub unknown: UnknownFields,
}

impl NamespacedName {
    /// The object of that name in that namespace.
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self {
            namespace: namespace.into(),
            name: name.into(),
            unknown: UnknownFields::new(),
        }
    }

    /// JSON values have no order of their own; their text gives one that agrees with equality.
    fn order_key(&self) -> (&str, &str, Vec<(&String, String)>) {
        let unknown = self.unknown.iter().map(|(key, value)| (key, value.to_string()));
        (&self.namespace, &self.name, unknown.collect())
    }
}

impl Ord for NamespacedName {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order_key().cmp(&other.order_key())
    }
}

impl PartialOrd for NamespacedName {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
