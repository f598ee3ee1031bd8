//! ComputeDomain: the pods that hold its claim form one multi-node NVLink group.

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta};
use kube_core::Resource;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::names;

/// A ComputeDomain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ComputeDomain {
    /// `apiVersion` on the wire.
    #[serde(rename = "apiVersion", default)]
    pub api_version: ApiVersion,
    /// `kind` on the wire.
    #[serde(default)]
    pub kind: ComputeDomainKind,
    /// Object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// What the user wants; immutable.
    #[serde(default)]
    pub spec: DomainSpec,
    /// What the controller reports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<DomainStatus>,
}

impl ComputeDomain {
    /// The UID, empty before the object was stored.
    pub fn uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }

    /// Whether the object is being deleted.
    pub fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
}

/// What the user wants.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainSpec {
    /// Deprecated: how many nodes the domain must have before its global status becomes Ready.
    #[serde(default)]
    pub num_nodes: i64,
    /// The channel that workloads claim.
    #[serde(default)]
    pub channel: ChannelSpec,
}

/// The channel that workloads claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChannelSpec {
    /// The template that the controller creates beside the domain.
    #[serde(default)]
    pub resource_claim_template: TemplateName,
    /// One channel or all of them.
    #[serde(default)]
    pub allocation_mode: AllocationMode,
}

/// A ResourceClaimTemplate by name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TemplateName {
    /// Its name in the domain's namespace.
    #[serde(default)]
    pub name: String,
}

/// How many channels a claim gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum AllocationMode {
    /// Channel 0.
    #[default]
    Single,
    /// Every channel of the domain.
    All,
}

impl AllocationMode {
    /// The value on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Single => "Single",
            Self::All => "All",
        }
    }
}

/// Whether a daemon, or a whole domain, can broker memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Readiness {
    /// Not, or not yet.
    #[default]
    NotReady,
    /// It can.
    Ready,
}

impl From<bool> for Readiness {
    fn from(ready: bool) -> Self {
        if ready { Self::Ready } else { Self::NotReady }
    }
}

/// What the controller reports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainStatus {
    /// The global status: informational.
    #[serde(default)]
    pub status: Readiness,
    /// The nodes that have joined, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<DomainNode>,
    /// Additive: how many nodes each clique has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cliques: Vec<CliqueSummary>,
    /// Additive: what holds of the domain, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Fields of newer versions.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// A node that has joined.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainNode {
    /// Name of the node.
    pub name: String,
    /// Address of its daemon.
    pub ip_address: String,
    /// Its clique; empty without a fabric.
    #[serde(rename = "cliqueID")]
    pub clique_id: String,
    /// Its index in the clique; -1 without a fabric.
    #[serde(default)]
    pub index: i64,
    /// Whether its daemon can broker memory.
    #[serde(default)]
    pub status: Readiness,
    /// Fields of newer versions.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// How many nodes a clique has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CliqueSummary {
    /// The clique.
    #[serde(rename = "cliqueID")]
    pub clique_id: String,
    /// Nodes with an index, whether or not their daemon runs.
    pub assigned: u32,
    /// Nodes whose daemon has an address.
    pub present: u32,
    /// Nodes whose daemon is ready.
    pub ready: u32,
}

/// A field that always has the same value on the wire. Any value is read: the server has checked it.
macro_rules! constant_text {
    ($(#[$meta:meta])* $name:ident, $text:expr) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name;

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str($text)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                serde::de::IgnoredAny::deserialize(deserializer).map(|_| Self)
            }
        }
    };
}

constant_text!(
    /// Group and version of both kinds.
    ApiVersion,
    names::API_VERSION
);

/// Implements the client's view of a kind, which is all that a derived type would add.
macro_rules! namespaced_kind {
    ($kind:ty, $marker:ident, $name:literal, $plural:literal) => {
        constant_text!(
            /// The name of the kind.
            $marker,
            $name
        );

        impl Resource for $kind {
            type DynamicType = ();
            type Scope = kube_core::NamespaceResourceScope;

            fn kind((): &()) -> Cow<'_, str> {
                $name.into()
            }

            fn group((): &()) -> Cow<'_, str> {
                names::GROUP.into()
            }

            fn version((): &()) -> Cow<'_, str> {
                names::VERSION.into()
            }

            fn plural((): &()) -> Cow<'_, str> {
                $plural.into()
            }

            fn meta(&self) -> &ObjectMeta {
                &self.metadata
            }

            fn meta_mut(&mut self) -> &mut ObjectMeta {
                &mut self.metadata
            }
        }
    };
}

pub(super) use {constant_text, namespaced_kind};

namespaced_kind!(ComputeDomain, ComputeDomainKind, "ComputeDomain", "computedomains");

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_object_of_the_driver_is_read_and_written_unchanged() {
        let object = json!({
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "ComputeDomain",
            "metadata": {"name": "imex", "namespace": "team"},
            "spec": {"numNodes": 2, "channel": {"resourceClaimTemplate": {"name": "c"}, "allocationMode": "All"}},
            "status": {"status": "NotReady", "nodes": [
                {"name": "a", "ipAddress": "10.0.0.1", "cliqueID": "u.1", "index": 0, "status": "Ready"},
                {"name": "b", "ipAddress": "10.0.0.2", "cliqueID": "", "index": -1, "status": "NotReady", "later": 1},
            ]},
        });
        let domain: ComputeDomain = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(&domain).unwrap(), object);
    }

    #[test]
    fn defaults_are_those_of_the_api() {
        let spec = json!({"channel": {"resourceClaimTemplate": {"name": "c"}}});
        let domain: ComputeDomain = serde_json::from_value(json!({"metadata": {}, "spec": spec})).unwrap();
        assert_eq!(domain.spec.num_nodes, 0);
        assert_eq!(domain.spec.channel.allocation_mode, AllocationMode::Single);
        assert_eq!(ComputeDomain::plural(&()), "computedomains");
    }
}
