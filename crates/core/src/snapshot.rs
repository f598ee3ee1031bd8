//! What was read of one replica, at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_api::types::{PodClique, PodCliqueScalingGroup, PodGang, PodGangMap};
use jiff::Timestamp;
use serde_json::Value;

use crate::backends::Stamp;
use crate::command::{Kind, Target};
use crate::failure::Failure;

/// The objects of one replica.
#[derive(Clone, Debug, Default)]
pub struct ReplicaSnapshot {
    /// The index of the replica.
    pub index: u32,
    /// PodCliques by name.
    pub cliques: BTreeMap<String, Arc<PodClique>>,
    /// PodCliqueScalingGroups by name.
    pub groups: BTreeMap<String, Arc<PodCliqueScalingGroup>>,
    /// The PodGangMap.
    pub map: Option<Arc<PodGangMap>>,
    /// PodGangs by name.
    pub gangs: BTreeMap<String, Arc<PodGang>>,
    /// Pods by name: all that carry the labels of this replica, whoever owns them.
    pub pods: BTreeMap<String, Arc<PodFacts>>,
    /// Pods that were seen in this replica and are gone from it, by deletion or by another label.
    pub departed: Vec<Arc<PodFacts>>,
    /// Services by name.
    pub services: BTreeMap<String, Arc<Value>>,
    /// HorizontalPodAutoscalers by name.
    pub autoscalers: BTreeMap<String, Arc<Value>>,
    /// ResourceClaims by name.
    pub claims: BTreeMap<String, Arc<Value>>,
    /// ComputeDomains by name.
    pub domains: BTreeMap<String, Arc<Value>>,
    /// PodGroups of other schedulers, by kind and name.
    pub pod_groups: BTreeMap<(Kind, String), Arc<Value>>,
    /// Writes for this replica that the API server refused when they were tried last.
    pub failures: Vec<Failure>,
}

/// What planners need to know of a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct PodFacts {
    /// Its name.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its uid.
    pub uid: String,
    /// The version that was read.
    pub resource_version: String,
    /// The uid of its controller.
    pub owner_uid: String,
    /// Its clique, by label.
    pub clique: String,
    /// Its index, by label.
    pub index: Option<u32>,
    /// What ties it to its gang.
    pub membership: Membership,
    /// The identity of its template, by label.
    pub template_hash: String,
    /// When it was created.
    pub created: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// When it ended, for better or worse; none while it runs or will run.
    pub ended: Option<Timestamp>,
    /// Whether it has a node.
    pub scheduled: bool,
    /// Whether a gate of ours holds it back.
    pub gated: bool,
    /// Gates of others that hold it back.
    pub other_gates: Vec<String>,
    /// Whether it is ready.
    pub ready: bool,
    /// Since when it is ready.
    pub ready_since: Option<Timestamp>,
    /// Whether a container of it is failing now: waiting after a failure, or ended with an error. A container that
    /// failed once and runs again is not failing.
    pub failing: bool,
}

/// What ties a pod to its gang.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// Its gang, by label.
    pub gang: String,
    /// Whether it still has the label by which versions without PodGangMaps named the gang to wait for.
    pub has_base_gang: bool,
    /// Labels and annotations by which other schedulers know its gang.
    pub stamp: Stamp,
    /// Its index among all pods of its copy of a scaling group, by label; none on pods made before there was one.
    pub group_index: Option<u32>,
}

impl PodFacts {
    /// Whether the pod counts: it runs or will run.
    pub fn active(&self) -> bool {
        !self.deleting && self.ended.is_none()
    }

    /// The pod as the target of a command.
    pub fn target(&self) -> Target {
        Target {
            kind: Kind::Pod,
            namespace: self.namespace.clone(),
            name: self.name.clone(),
            uid: self.uid.clone(),
            resource_version: self.resource_version.clone(),
        }
    }
}

/// A typed object as the target of a command.
pub fn target_of(kind: Kind, metadata: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta) -> Target {
    Target {
        kind,
        namespace: metadata.namespace.clone().unwrap_or_default(),
        name: metadata.name.clone().unwrap_or_default(),
        uid: metadata.uid.clone().unwrap_or_default(),
        resource_version: metadata.resource_version.clone().unwrap_or_default(),
    }
}

/// An object kept as JSON as the target of a command.
pub fn target_of_value(kind: Kind, object: &Value) -> Target {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default().to_owned();
    Target {
        kind,
        namespace: text("namespace"),
        name: text("name"),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
    }
}
