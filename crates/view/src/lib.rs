//! Views: what people and programs are shown of a cluster, built from objects alone.
//!
//! Owns the models behind `coppice get`, `explain`, `topology`, `events` and `plan`, and behind the dashboard, so that all of
//! them say the same: a set as replicas, groups, cliques and pods ([`build`]); a gang and what would help it ([`explain`]);
//! nodes by topology ([`topology`]); what happened ([`events`]); what a manifest would change ([`plan`]). They are also what
//! `-o json` and `-o yaml` print: a schema of its own with a version, so fields are added and never change their meaning.
//! Never reads a cluster, a file or a clock.
#![allow(
    missing_docs,
    reason = "fields have the names of the printed schema; what a name does not say is commented"
)]

pub mod build;
pub mod changes;
pub mod events;
pub mod explain;
mod indexed;
pub mod plan;
pub mod pod_state;
pub mod revisions;
pub mod table;
pub mod text;
pub mod topology;
pub mod versions;
pub mod words;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod tests;

use serde::Serialize;

/// The version of what is printed.
pub const API_VERSION: &str = "view.coppice.dev/v1alpha1";

/// A set with everything below it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetView {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub namespace: String,
    pub name: String,
    pub state: SetState,
    /// Why it is in this state, in the words of its conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The first gang that cannot be placed, and why; also of a set that serves without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unplaced: Option<String>,
    pub desired_replicas: i32,
    pub available_replicas: i32,
    pub updated_replicas: i32,
    pub pods: Count,
    pub gpus: Count,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update: Option<UpdateView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<String>,
    pub replicas: Vec<ReplicaView>,
}

impl SetView {
    /// What is to be said beside the state, in one line.
    pub fn remarks(&self) -> Option<String> {
        let remarks: Vec<&str> = [&self.message, &self.unplaced]
            .into_iter()
            .flatten()
            .map(String::as_str)
            .collect();
        (!remarks.is_empty()).then(|| remarks.join("; "))
    }
}

/// The state of a set, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum SetState {
    Ready,
    Progressing,
    Updating,
    Degraded,
    Deleting,
}

/// How many are wanted, and how many of them have come how far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    pub desired: i64,
    pub scheduled: i64,
    pub ready: i64,
}

impl Count {
    fn add(&mut self, other: Self) {
        self.desired += other.desired;
        self.scheduled += other.scheduled;
        self.ready += other.ready;
    }
}

/// An update that is under way.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UpdateView {
    pub updated_cliques: i32,
    pub total_cliques: i32,
    pub updated_groups: i32,
    pub total_groups: i32,
    pub current_replicas: Vec<i32>,
}

/// One replica of the set.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaView {
    pub index: u32,
    pub gangs: Vec<GangView>,
    /// Its multi-node NVLink domains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<DomainView>,
    pub cliques: Vec<CliqueView>,
    pub groups: Vec<GroupView>,
}

/// A gang: what is placed together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GangView {
    pub name: String,
    /// What it consists of: `anchor`, or a copy of a scaling group such as `decode copy 7`.
    pub content: String,
    pub phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placement_score: Option<f64>,
    /// The narrowest level of the topology that holds all its placed pods, such as `rack r7`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place: Option<String>,
    /// Why it is not scheduled or not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
}

/// A ComputeDomain: the nodes whose GPUs reach each other by NVLink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DomainView {
    pub name: String,
    /// What its controller says: `Ready`, or why it is not.
    pub state: String,
    pub ready_nodes: usize,
    pub nodes: usize,
    /// In how many NVLink cliques its nodes are.
    pub cliques: usize,
}

/// How much of a component has one revision of the set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VersionView {
    /// The number of the revision; none when no revision explains the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// Whether it is the revision that the set has now.
    pub current: bool,
    /// Pods of a clique, or copies of a group, that have it.
    pub units: i64,
    /// How many of them are ready.
    pub ready: i64,
}

/// A scaling group of a replica.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupView {
    pub name: String,
    pub object: String,
    pub desired: i32,
    pub available: i32,
    pub min_available: i32,
    /// Copies by revision, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<VersionView>,
    pub copies: Vec<CopyView>,
}

/// One copy of a scaling group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CopyView {
    pub index: u32,
    /// The gang it is placed with; none before its cliques exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gang: Option<String>,
    pub cliques: Vec<CliqueView>,
}

/// A clique: pods of one role.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CliqueView {
    /// Its name in the template.
    pub name: String,
    pub object: String,
    pub min_available: i32,
    pub count: Count,
    /// Pods of an earlier revision.
    pub outdated: i64,
    /// Pods by revision, oldest first; those that are being deleted do not count.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<VersionView>,
    pub pods: Vec<PodView>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodView {
    pub name: String,
    /// Names come back, this does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    pub state: pod_state::PodState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The revision of the set whose template it has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
    /// The identity of its template, as its label has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_hash: Option<String>,
    pub outdated: bool,
    pub restarts: i32,
}
