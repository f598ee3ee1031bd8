//! How far the update of a set is: its state, old and new per component, and why it does not go on.
//!
//! Decides from the set, its revisions and the view of its objects. "Done" is what the operator says and the pods confirm:
//! the current generation is observed, no update is open, no pod has an earlier template, every replica is available.

use coppice_api::types::{PodCliqueSet, PodCliqueSetStatus, UpdateStrategyType};
use coppice_core::reasons::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::ResourceExt as _;
use serde::Serialize;

use super::change::is_paused;
use crate::view::build::cliques_of;
use crate::view::pod_state::PodState;
use crate::view::revisions::Revisions;
use crate::view::words::count;
use crate::view::{API_VERSION, PodView, SetView, VersionView, versions};

/// How far an update is.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RolloutView {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) state: RolloutState,
    pub(super) strategy: String,
    /// The number of the revision that the set has now; none before it is recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) revision: Option<i64>,
    /// The generation of the set that the operator has looked at.
    pub(super) observed_generation: i64,
    /// Pods with the template of the set, and pods that there should be.
    pub(super) updated_pods: usize,
    pub(super) ready_updated_pods: usize,
    pub(super) desired_pods: i64,
    /// Pods with an earlier template.
    pub(super) outdated_pods: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) started: Option<Time>,
    /// Why it is in this state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    /// Cliques outside of groups, and groups, that have more than one revision.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) components: Vec<ComponentView>,
}

/// Old and new of one component.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ComponentView {
    pub(super) replica: u32,
    pub(super) name: String,
    pub(super) desired: i64,
    pub(super) versions: Vec<VersionView>,
}

/// The state of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum RolloutState {
    /// Every pod has the template, and every replica is available.
    Complete,
    /// It goes on, or the operator has not looked at the set yet.
    Progressing,
    /// It made no progress within its deadline.
    Stuck,
    /// No further pod is replaced until it is resumed.
    Paused,
    /// Pods have an earlier template until they are deleted.
    WaitingForDeletions,
}

impl RolloutState {
    /// The exit code of a command that reports it.
    pub(super) fn code(self) -> u8 {
        match self {
            Self::Complete => 0,
            Self::Progressing | Self::WaitingForDeletions => 3,
            Self::Stuck => 4,
            Self::Paused => 6,
        }
    }

    /// Whether waiting may help. What pods wait for their deletion for, a user may be doing now.
    pub(super) fn may_change(self) -> bool {
        matches!(self, Self::Progressing | Self::WaitingForDeletions)
    }
}

/// Decides how far the update of a set is.
pub(super) fn of(set: &PodCliqueSet, revisions: &Revisions, view: &SetView) -> RolloutView {
    let empty = PodCliqueSetStatus::default();
    let status = set.status.as_ref().unwrap_or(&empty);
    let pods = || {
        let cliques = view.replicas.iter().flat_map(cliques_of);
        let pods = cliques.flat_map(|clique| &clique.pods);
        pods.filter(|pod| pod.state != PodState::Terminating)
    };
    let updated: Vec<&PodView> = pods().filter(|pod| !pod.outdated).collect();
    let outdated = pods().filter(|pod| pod.outdated).count();
    let (state, message) = state(set, status, outdated, view);
    let strategy = set.spec.update_strategy.as_ref();
    RolloutView {
        api_version: API_VERSION,
        kind: "RolloutView",
        namespace: set.namespace().unwrap_or_default(),
        name: set.name_any(),
        state,
        strategy: strategy.map_or_else(
            || UpdateStrategyType::default().as_str().to_owned(),
            |strategy| strategy.strategy.as_str().to_owned(),
        ),
        observed_generation: status.observed_generation.unwrap_or(0),
        revision: revisions.current().map(|revision| revision.number),
        ready_updated_pods: updated.iter().filter(|pod| pod.state == PodState::Ready).count(),
        updated_pods: updated.len(),
        desired_pods: view.pods.desired,
        outdated_pods: outdated,
        started: open(status)
            .then(|| status.update_progress.as_ref()?.update_started_at.clone())
            .flatten(),
        message,
        components: components(view),
    }
}

fn open(status: &PodCliqueSetStatus) -> bool {
    let progress = status.update_progress.as_ref();
    progress.is_some_and(|progress| progress.update_started_at.is_some() && progress.update_ended_at.is_none())
}

fn state(
    set: &PodCliqueSet,
    status: &PodCliqueSetStatus,
    outdated: usize,
    view: &SetView,
) -> (RolloutState, Option<String>) {
    let generation = set.metadata.generation;
    let on_delete = set
        .spec
        .update_strategy
        .as_ref()
        .is_some_and(|strategy| strategy.strategy == UpdateStrategyType::OnDelete);
    if status.observed_generation < generation {
        let generation = generation.unwrap_or_default();
        let message = format!(
            "the operator has not finished looking at generation {generation}; if this lasts, see: coppice doctor"
        );
        return (RolloutState::Progressing, Some(message));
    }
    let condition = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "UpdateInProgress");
    let said = |condition: &Condition| Some(condition.message.clone());
    let is_stuck = |condition: &&Condition| condition.reason == Reason::ProgressDeadlineExceeded.as_str();
    let open = open(status);
    if open || outdated > 0 {
        if is_paused(set) {
            let message = format!(
                "updates are paused; go on with: coppice rollout resume {}",
                set.name_any()
            );
            return (RolloutState::Paused, Some(message));
        }
        if let Some(stuck) = condition.filter(is_stuck) {
            let name = set.name_any();
            let unplaced = view.unplaced.iter().map(|why| format!("; {why}")).collect::<String>();
            let message = format!(
                "{}{unplaced}; the cause: coppice explain pcs/{name}; take it back: coppice rollout undo {name}",
                stuck.message
            );
            return (RolloutState::Stuck, Some(message));
        }
        if on_delete && !open {
            let message = format!("{} the template when deleted (OnDelete)", subject(outdated));
            return (RolloutState::WaitingForDeletions, Some(message));
        }
        return (RolloutState::Progressing, condition.filter(|_| open).and_then(said));
    }
    let ready = status.conditions.iter().find(|condition| condition.type_ == "Ready");
    if status.available_replicas < set.spec.replicas || status.updated_replicas < set.spec.replicas {
        return (RolloutState::Progressing, ready.and_then(said));
    }
    (RolloutState::Complete, None)
}

fn subject(pods: usize) -> String {
    let verb = if pods == 1 { "gets" } else { "get" };
    format!("{} {verb}", count(i64::try_from(pods).unwrap_or(i64::MAX), "pod"))
}

fn components(view: &SetView) -> Vec<ComponentView> {
    let mut found = Vec::new();
    for replica in &view.replicas {
        let cliques = replica.cliques.iter();
        let cliques = cliques.map(|clique| (&clique.name, clique.count.desired, &clique.versions));
        let groups = replica.groups.iter();
        let groups = groups.map(|group| (&group.name, i64::from(group.desired), &group.versions));
        let mixed = cliques
            .chain(groups)
            .filter(|(_, _, versions)| versions::is_mixed(versions));
        found.extend(mixed.map(|(name, desired, versions)| ComponentView {
            replica: replica.index,
            name: name.clone(),
            desired,
            versions: versions.clone(),
        }));
    }
    found
}
