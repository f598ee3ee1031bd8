//! ComputeDomainClique: one row for each daemon of a domain within one NVLink clique.
//!
//! A row assigns an index to a node; the rest of it says where the daemon of that node is. What a row means is decided
//! in [`crate::decide::rows`].

use std::borrow::Cow;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_core::Resource;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::compute_domain::{ApiVersion, constant_text, namespaced_kind};
use super::{Readiness, names};

/// A ComputeDomainClique.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Clique {
    /// `apiVersion` on the wire.
    #[serde(rename = "apiVersion", default)]
    pub api_version: ApiVersion,
    /// `kind` on the wire.
    #[serde(default)]
    pub kind: CliqueKind,
    /// Object metadata.
    #[serde(default)]
    pub metadata: ObjectMeta,
    /// The rows, one for each node.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub daemons: Vec<DaemonRow>,
    /// Fields of newer versions.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

/// One row: the index of a node, and where its daemon is.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DaemonRow {
    /// The node.
    pub node_name: String,
    /// Address of the daemon; empty while the node has an index and no daemon.
    pub ip_address: String,
    /// The clique.
    #[serde(rename = "cliqueID")]
    pub clique_id: String,
    /// The index: decides the daemon's name, and never changes while the row exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<i64>,
    /// Whether the daemon can broker memory.
    #[serde(default)]
    pub status: Readiness,
    /// Additive: the pod of the daemon. Rows of the driver's own daemons do not have it.
    #[serde(rename = "podUID", default, skip_serializing_if = "Option::is_none")]
    pub pod_uid: Option<String>,
    /// Fields of newer versions.
    #[serde(flatten)]
    pub unknown: Map<String, Value>,
}

impl DaemonRow {
    /// The index when it is one of `0..max`.
    pub fn bounded_index(&self, max: u32) -> Option<u32> {
        let index = u32::try_from(self.index?).ok()?;
        (index < max).then_some(index)
    }
}

namespaced_kind!(Clique, CliqueKind, "ComputeDomainClique", "computedomaincliques");

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn rows_of_others_are_read_and_written_unchanged() {
        let object = json!({
            "apiVersion": "resource.nvidia.com/v1beta1",
            "kind": "ComputeDomainClique",
            "metadata": {"name": "uid.u.1"},
            "daemons": [
                {"nodeName": "a", "ipAddress": "10.0.0.1", "cliqueID": "u.1", "index": 3, "status": "Ready"},
                {"nodeName": "b", "ipAddress": "", "cliqueID": "u.1", "status": "NotReady", "podUID": "p", "new": {}},
            ],
        });
        let clique: Clique = serde_json::from_value(object.clone()).unwrap();
        assert_eq!(serde_json::to_value(&clique).unwrap(), object);
    }

    #[test]
    fn indices_outside_of_the_domain_are_none() {
        let row = |index| DaemonRow {
            index,
            ..DaemonRow::default()
        };
        assert_eq!(row(Some(17)).bounded_index(18), Some(17));
        for bad in [None, Some(-1), Some(18), Some(i64::MAX), Some(i64::MIN)] {
            assert_eq!(row(bad).bounded_index(18), None);
        }
    }
}
