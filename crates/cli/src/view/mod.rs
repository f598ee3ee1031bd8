//! A set as people look at it: replicas, groups, cliques and pods, with state, revision and place.
//!
//! Built from objects alone, so it can be tested without a cluster. It is also what `-o json` and `-o yaml` print: a
//! schema of its own with a version, so fields are added and never change their meaning.

pub(crate) mod build;
pub(crate) mod changes;
pub(crate) mod pod_state;
pub(crate) mod table;
pub(crate) mod text;

#[cfg(test)]
mod tests;

use serde::Serialize;

/// The version of what is printed.
pub(crate) const API_VERSION: &str = "view.coppice.dev/v1alpha1";

/// A set with everything below it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct SetView {
    pub(crate) api_version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) state: SetState,
    /// Why it is in this state, in the words of its conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
    /// The first gang that cannot be placed, and why; also of a set that serves without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) unplaced: Option<String>,
    pub(crate) desired_replicas: i32,
    pub(crate) available_replicas: i32,
    pub(crate) updated_replicas: i32,
    pub(crate) pods: Count,
    pub(crate) gpus: Count,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) update: Option<UpdateView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) errors: Vec<String>,
    pub(crate) replicas: Vec<ReplicaView>,
}

impl SetView {
    /// What is to be said beside the state, in one line.
    pub(crate) fn remarks(&self) -> Option<String> {
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
pub(crate) enum SetState {
    Ready,
    Progressing,
    Updating,
    Degraded,
    Deleting,
}

/// How many are wanted, and how many of them have come how far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Count {
    pub(crate) desired: i64,
    pub(crate) scheduled: i64,
    pub(crate) ready: i64,
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
pub(crate) struct UpdateView {
    pub(crate) updated_cliques: i32,
    pub(crate) total_cliques: i32,
    pub(crate) updated_groups: i32,
    pub(crate) total_groups: i32,
    pub(crate) current_replicas: Vec<i32>,
}

/// One replica of the set.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReplicaView {
    pub(crate) index: u32,
    pub(crate) gangs: Vec<GangView>,
    /// Its multi-node NVLink domains.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) domains: Vec<DomainView>,
    pub(crate) cliques: Vec<CliqueView>,
    pub(crate) groups: Vec<GroupView>,
}

/// A gang: what is placed together.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GangView {
    pub(crate) name: String,
    /// What it consists of: `anchor`, or a copy of a scaling group such as `decode copy 7`.
    pub(crate) content: String,
    pub(crate) phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) placement_score: Option<f64>,
    /// The narrowest level of the topology that holds all its placed pods, such as `rack r7`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) place: Option<String>,
    /// Why it is not scheduled or not ready.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waiting: Option<String>,
}

/// A ComputeDomain: the nodes whose GPUs reach each other by NVLink.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct DomainView {
    pub(crate) name: String,
    /// What its controller says: `Ready`, or why it is not.
    pub(crate) state: String,
    pub(crate) ready_nodes: usize,
    pub(crate) nodes: usize,
    /// In how many NVLink cliques its nodes are.
    pub(crate) cliques: usize,
}

/// A scaling group of a replica.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupView {
    pub(crate) name: String,
    pub(crate) object: String,
    pub(crate) desired: i32,
    pub(crate) available: i32,
    pub(crate) min_available: i32,
    pub(crate) copies: Vec<CopyView>,
}

/// One copy of a scaling group.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CopyView {
    pub(crate) index: u32,
    /// The gang it is placed with; none before its cliques exist.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) gang: Option<String>,
    pub(crate) cliques: Vec<CliqueView>,
}

/// A clique: pods of one role.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct CliqueView {
    /// Its name in the template.
    pub(crate) name: String,
    pub(crate) object: String,
    pub(crate) min_available: i32,
    pub(crate) count: Count,
    /// Pods of an earlier revision.
    pub(crate) outdated: i64,
    pub(crate) pods: Vec<PodView>,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodView {
    pub(crate) name: String,
    /// Names come back, this does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) uid: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) index: Option<u32>,
    pub(crate) state: pod_state::PodState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    pub(crate) outdated: bool,
    pub(crate) restarts: i32,
}
