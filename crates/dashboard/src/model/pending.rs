//! Gangs that wait: for room, for another gang, or for something else that their status names.

use std::collections::BTreeMap;

use coppice_api::names::labels;
use coppice_api::types::{PodClique, PodCliqueSet, PodGang, PodGangPhase};
use coppice_view::build::gpus_of;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use super::Shown;
use super::gang::contents;

/// Gangs that the page shows.
const GANGS: usize = 200;

/// Gangs that wait, and why they do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    /// Those that have waited longest come first.
    pub gangs: Shown<PendingGang>,
    /// How many wait for each reason.
    pub reasons: Vec<(String, usize)>,
    /// GPUs that they ask for and do not have.
    pub gpus: i64,
}

/// A gang that waits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingGang {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its set.
    pub set: Option<String>,
    /// What it is: `replica 0, decode copy 7`.
    pub content: String,
    /// Why it waits.
    pub reason: String,
    /// The same in full.
    pub message: String,
    /// Since when.
    pub since: Option<Timestamp>,
    /// Its pods without a node, and all of them.
    pub pods: (usize, usize),
    /// GPUs of pods without a node.
    pub gpus: i64,
}

/// Why a gang waits: what the operator says first, then the schedulers; none when it does not wait.
#[must_use]
pub fn wait(gang: &PodGang) -> Option<&Condition> {
    let status = gang.status.as_ref();
    let conditions = status.map(|status| status.conditions.as_slice()).unwrap_or_default();
    let find = |kind: &str, status: &str| {
        let mut found = conditions.iter();
        found.find(|condition| condition.type_ == kind && condition.status == status)
    };
    find("Placed", "False")
        .or_else(|| find("Waiting", "True"))
        .or_else(|| find("Scheduled", "False"))
}

/// Whether a gang waits.
fn waits(gang: &PodGang) -> bool {
    let phase = gang
        .status
        .as_ref()
        .map(|status| status.phase.clone())
        .unwrap_or_default();
    gang.metadata.deletion_timestamp.is_none() && (phase == PodGangPhase::Pending || wait(gang).is_some())
}

/// How many gangs wait.
pub fn count<'a>(gangs: impl IntoIterator<Item = &'a PodGang>) -> usize {
    gangs.into_iter().filter(|gang| waits(gang)).count()
}

/// Gangs of a namespace, or of all, that wait.
pub fn pending<'a>(
    namespace: Option<&str>,
    gangs: impl IntoIterator<Item = &'a PodGang>,
    sets: impl IntoIterator<Item = &'a PodCliqueSet>,
    cliques: impl IntoIterator<Item = &'a PodClique>,
    pods: impl IntoIterator<Item = &'a Pod>,
) -> Pending {
    let waiting: Vec<&PodGang> = gangs
        .into_iter()
        .filter(|gang| waits(gang))
        .filter(|gang| namespace.is_none_or(|only| gang.namespace().as_deref() == Some(only)))
        .collect();
    let key = |namespace: Option<String>, name: &str| (namespace.unwrap_or_default(), name.to_owned());
    let contents = contents(waiting.iter().copied(), sets, cliques);
    let mut members: BTreeMap<(String, String), Members> = BTreeMap::new();
    for gang in &waiting {
        members.insert(key(gang.namespace(), &gang.name_any()), Members::default());
    }
    for pod in pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        let gang = pod.labels().get(labels::POD_GANG);
        let Some(members) = gang.and_then(|gang| members.get_mut(&key(pod.namespace(), gang))) else {
            continue;
        };
        members.pods += 1;
        if pod.spec.as_ref().is_none_or(|spec| spec.node_name.is_none()) {
            members.without_node += 1;
            members.gpus = members.gpus.saturating_add(gpus_of(pod));
        }
    }
    let mut found: Vec<PendingGang> = waiting
        .into_iter()
        .map(|gang| {
            let key = key(gang.namespace(), &gang.name_any());
            let content = contents.get(&key).cloned().unwrap_or_default();
            describe(gang, content, &members.remove(&key).unwrap_or_default())
        })
        .collect();
    found.sort_by(|one, other| {
        let order = |gang: &PendingGang| (gang.since.is_none(), gang.since);
        order(one)
            .cmp(&order(other))
            .then_with(|| (&one.namespace, &one.name).cmp(&(&other.namespace, &other.name)))
    });
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for gang in &found {
        *reasons.entry(&gang.reason).or_default() += 1;
    }
    let mut reasons: Vec<(String, usize)> = reasons
        .into_iter()
        .map(|(reason, gangs)| (reason.to_owned(), gangs))
        .collect();
    reasons.sort_by_key(|(_, gangs)| std::cmp::Reverse(*gangs));
    reasons.truncate(12);
    Pending {
        gpus: found.iter().fold(0, |sum: i64, gang| sum.saturating_add(gang.gpus)),
        reasons,
        gangs: Shown::first(found, GANGS),
    }
}

#[derive(Default)]
struct Members {
    pods: usize,
    without_node: usize,
    gpus: i64,
}

fn describe(gang: &PodGang, content: String, members: &Members) -> PendingGang {
    let condition = wait(gang);
    PendingGang {
        namespace: gang.namespace().unwrap_or_default(),
        name: gang.name_any(),
        set: gang.labels().get(labels::PART_OF).cloned(),
        content,
        reason: condition.map_or_else(|| "Pending".to_owned(), |condition| condition.reason.clone()),
        message: condition.map_or_else(
            || "no scheduler has reported on it yet".to_owned(),
            |condition| condition.message.clone(),
        ),
        since: condition.map(|condition| condition.last_transition_time.0).or(gang
            .metadata
            .creation_timestamp
            .as_ref()
            .map(|time| time.0)),
        pods: (members.without_node, members.pods),
        gpus: members.gpus,
    }
}
