//! All sets, one line each, those with problems first.

use std::collections::BTreeMap;

use coppice_api::names::labels;
use coppice_api::types::{PodCliqueSet, PodCliqueSetStatus, PodGang};
use coppice_view::build::{gang_unplaced, gpus_of, set_state};
use coppice_view::pod_state::{self, PodState};
use coppice_view::{Count, SetState};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

use super::Shown;

/// Sets that the page shows.
const SETS: usize = 300;

/// A set in a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetRow {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: SetState,
    /// Why, in the words of its conditions.
    pub message: Option<String>,
    /// Replicas: available of desired.
    pub replicas: (i32, i32),
    /// Its pods.
    pub pods: Count,
    /// Its GPUs.
    pub gpus: Count,
    /// Gangs that cannot be placed.
    pub unplaced: usize,
    /// When it was created.
    pub created: Option<Timestamp>,
}

/// Lines of the sets of a namespace, or of all.
pub fn sets<'a>(
    namespace: Option<&str>,
    sets: impl IntoIterator<Item = &'a PodCliqueSet>,
    gangs: impl IntoIterator<Item = &'a PodGang>,
    pods: impl IntoIterator<Item = &'a Pod>,
) -> Shown<SetRow> {
    let key = |labels: &BTreeMap<String, String>, namespace: Option<String>| {
        Some((namespace.unwrap_or_default(), labels.get(labels::PART_OF)?.clone()))
    };
    let mut counts: BTreeMap<(String, String), (Count, Count)> = BTreeMap::new();
    // A clique's label tells pods of sets from those of other software that uses the same label.
    for pod in pods
        .into_iter()
        .filter(|pod| pod.labels().contains_key(labels::POD_CLIQUE))
    {
        let state = pod_state::of(pod).0;
        let Some(key) = key(pod.labels(), pod.namespace()).filter(|_| state != PodState::Terminating) else {
            continue;
        };
        let placed = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
        let (pods, gpus) = counts.entry(key).or_default();
        for (count, amount) in [(pods, 1), (gpus, gpus_of(pod))] {
            count.desired = count.desired.saturating_add(amount);
            count.scheduled = count.scheduled.saturating_add(if placed { amount } else { 0 });
            count.ready = count
                .ready
                .saturating_add(if state == PodState::Ready { amount } else { 0 });
        }
    }
    let mut unplaced: BTreeMap<(String, String), usize> = BTreeMap::new();
    for gang in gangs.into_iter().filter(|gang| gang_unplaced(gang).is_some()) {
        if let Some(key) = key(gang.labels(), gang.namespace()) {
            *unplaced.entry(key).or_default() += 1;
        }
    }
    let empty = PodCliqueSetStatus::default();
    let mut rows: Vec<SetRow> = sets
        .into_iter()
        .filter(|set| namespace.is_none_or(|only| set.namespace().as_deref() == Some(only)))
        .map(|set| {
            let key = (set.namespace().unwrap_or_default(), set.name_any());
            let status = set.status.as_ref().unwrap_or(&empty);
            let (state, message) = set_state(set, status);
            let (pods, gpus) = counts.get(&key).copied().unwrap_or_default();
            SetRow {
                state,
                message,
                replicas: (status.available_replicas, set.spec.replicas),
                pods,
                gpus,
                unplaced: unplaced.get(&key).copied().unwrap_or(0),
                created: set.metadata.creation_timestamp.as_ref().map(|time| time.0),
                namespace: key.0,
                name: key.1,
            }
        })
        .collect();
    rows.sort_by_key(|row| (urgency(row), row.namespace.clone(), row.name.clone()));
    Shown::first(rows, SETS)
}

fn urgency(row: &SetRow) -> u8 {
    match (row.state, row.unplaced) {
        (SetState::Degraded, _) => 0,
        (_, 1..) => 1,
        (SetState::Progressing, _) => 2,
        (SetState::Updating | SetState::Deleting, _) => 3,
        (SetState::Ready, _) => 4,
    }
}
