//! Plans one replica of a set: its cliques, scaling groups, gangs and pods, read together and decided together.
//!
//! The plan is a list of stages. The commands of a stage do not depend on each other; a stage is carried out when the
//! one before it succeeded. What needs the answer to a command (a uid) is left to the next plan. Planning the same
//! snapshot twice gives the same plan, and a plan without commands means that the replica is as it should be.

mod children;
mod claims;
mod clique_state;
mod clique_status;
mod domains;
mod gang_map;
mod gang_status;
mod gangs;
mod gates;
mod group_status;
mod membership;
mod pod_groups;
mod pods;
mod teardown;
pub(crate) mod terminating;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coppice_api::names::{labels, parsing::parse_index};
use coppice_api::types::{LastError, PodGangPhase};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::Value;

pub(crate) use children::template_patch as children_template_patch;
pub use clique_state::CliqueState;
pub use teardown::plan_abandoned;

use crate::command::{Command, Target};
use crate::context::SetContext;
use crate::gang_map::{Generation, StoredGangs, entry_of_gang};
use crate::layout::{LiveSizes, ReplicaLayout};
use crate::report;
use crate::snapshot::{PodFacts, ReplicaSnapshot};
use crate::update::{self, Directive};

/// What to do for a replica.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaPlan {
    /// Commands, stage by stage.
    pub stages: Vec<Vec<Command>>,
    /// When to plan again even if nothing happens.
    pub deadline: Option<Timestamp>,
    /// What the replica is waiting for.
    pub waits: Vec<Wait>,
    /// What the set needs to know of it.
    pub summary: ReplicaSummary,
}

impl ReplicaPlan {
    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.stages.iter().all(Vec::is_empty)
    }
}

/// Something a replica waits for, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The object that waits.
    pub about: String,
    /// A reason of the documented list.
    pub reason: &'static str,
    /// What it waits for.
    pub message: String,
}

/// What the set needs to know of a replica.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaSummary {
    /// The generation of the set that it was made from. One made from another tells nothing of the set's templates.
    pub generation: Option<i64>,
    /// Whether every clique and group has its minimum.
    pub available: bool,
    /// Whether every clique and group has the current templates, and its minimum with them.
    pub updated: bool,
    /// Whether every stored clique means what the set's template means, whatever its pods have.
    pub current: bool,
    /// Whether no stored status of it claims more updated pods or copies than there are, by the set's templates.
    pub truthful: bool,
    /// Whether something in it is being updated.
    pub updating: bool,
    /// Cliques and groups that are being updated and make no progress.
    pub stuck: u32,
    /// Whether no pod of it has a node.
    pub unscheduled: bool,
    /// Whether something in it fell below its minimum.
    pub breached: bool,
    /// Whether all its gangs follow from its stored PodGangMap.
    pub mapped: bool,
    /// Whether objects of it are left.
    pub exists: bool,
    /// Standalone cliques, and how many of them are updated.
    pub cliques: (i32, i32),
    /// Scaling groups, and how many of them are updated.
    pub groups: (i32, i32),
    /// Writes for it that were refused.
    pub errors: Vec<LastError>,
    /// ResourceClaimTemplates that it needs and that do not exist, as `namespace/name`.
    pub missing_templates: BTreeSet<String>,
    /// Its gangs, and how far each is. Shared, because the set's planner reads the summaries of all replicas each time.
    pub gangs: Arc<[(String, PodGangPhase)]>,
}

/// Commands while they are collected, in the order of the stages.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// Services, scaling groups, cliques, autoscalers; templates of cliques.
    pub(crate) children: Vec<Command>,
    /// Gangs, before the pods they list; marks that a termination began, before its deletes.
    pub(crate) gangs: Vec<Command>,
    /// Pods, and what else must come after the gangs.
    pub(crate) pods: Vec<Command>,
    /// Statuses and events, after what they speak of.
    pub(crate) statuses: Vec<Command>,
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) waits: Vec<Wait>,
    /// What may still be created in this plan.
    pub(crate) room: Room,
}

/// What one plan may create: a bounded number of objects, and of bytes. What does not fit is left to the next plan, so
/// that neither a large number nor a large template makes a plan that does not fit into memory.
#[derive(Debug)]
pub(crate) struct Room {
    objects: usize,
    bytes: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            objects: 500,
            bytes: 4 << 20,
        }
    }
}

impl Room {
    /// Whether one more object may be created. The last one may be larger than what is left.
    pub(crate) fn is_left(&self) -> bool {
        self.objects > 0 && self.bytes > 0
    }

    /// Takes the room of one object.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.objects = self.objects.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Adds one merge patch to another; where both name a field, the later one counts.
fn merge_into(before: &mut Value, later: Value) {
    match (before, later) {
        (Value::Object(before), Value::Object(later)) => {
            for (key, value) in later {
                merge_into(before.entry(key).or_insert(Value::Null), value);
            }
        }
        (before, later) => *before = later,
    }
}

/// How many bytes an object takes as JSON.
pub(crate) fn weight(object: &impl serde::Serialize) -> usize {
    serde_json::to_vec(object).map_or(0, |text| text.len())
}

impl Draft {
    /// Asks for another plan no later than this.
    pub(crate) fn wake_at(&mut self, at: Timestamp) {
        self.deadline = Some(self.deadline.map_or(at, |earlier| earlier.min(at)));
    }

    /// Notes a wait.
    pub(crate) fn wait(&mut self, about: &str, reason: &'static str, message: String) {
        self.waits.push(Wait {
            about: about.to_owned(),
            reason,
            message,
        });
    }

    /// Patches a child; a patch of the same object in this plan takes it along, because it moves the version on.
    pub(crate) fn merge_child(&mut self, target: Target, patch: Value) {
        for command in &mut self.children {
            if let Command::Merge {
                target: other,
                patch: before,
            } = command
                && other.uid == target.uid
            {
                merge_into(before, patch);
                return;
            }
        }
        self.children.push(Command::Merge { target, patch });
    }

    /// Deletes an object after the gangs were written.
    pub(crate) fn delete(&mut self, target: Target) {
        self.pods.push(Command::Delete { target });
    }

    fn finish(mut self, summary: ReplicaSummary) -> ReplicaPlan {
        // A patch moves the version on, so a status of the same object in the same plan would be refused: the next plan
        // writes it.
        let before = self.children.iter().chain(&self.gangs).chain(&self.pods);
        let patched: BTreeSet<String> = before
            .filter_map(|command| match command {
                Command::Merge { target, .. } | Command::Status { target, .. } => Some(target.uid.clone()),
                _ => None,
            })
            .collect();
        let late =
            |command: &Command| matches!(command, Command::Status { target, .. } if patched.contains(&target.uid));
        self.statuses.retain(|command| !late(command));
        let mut stages = vec![self.children, self.gangs, self.pods, self.statuses];
        stages.retain(|stage| !stage.is_empty());
        ReplicaPlan {
            stages,
            deadline: self.deadline,
            waits: self.waits,
            summary,
        }
    }
}

/// One replica while it is planned.
pub(crate) struct Replica<'a> {
    pub(crate) context: &'a SetContext<'a>,
    pub(crate) snapshot: &'a ReplicaSnapshot,
    pub(crate) layout: ReplicaLayout,
    /// The state of each clique, at the positions of the layout.
    pub(crate) cliques: Vec<CliqueState<'a>>,
    pub(crate) now: Timestamp,
}

impl Replica<'_> {
    /// Writes about children of an object that were refused, as its status records them.
    pub(crate) fn errors_of(&self, owner: &ObjectMeta, before: &[LastError]) -> Vec<LastError> {
        let failures = self.snapshot.failures.iter();
        report::last_errors(
            failures.filter(|failure| Some(&failure.owner.uid) == owner.uid.as_ref()),
            before,
        )
    }
}

/// Plans one replica.
pub fn plan_replica(context: &SetContext<'_>, snapshot: &ReplicaSnapshot, now: Timestamp) -> ReplicaPlan {
    if context.deleting() || snapshot.index >= context.facts.replicas() {
        return teardown::plan(context, snapshot);
    }
    if context.facts.too_many_replicas() && snapshot.cliques.is_empty() && snapshot.groups.is_empty() {
        return ReplicaPlan::default();
    }
    let directive = update::directive(context, snapshot.index);
    let layout = lay_out(context, snapshot, directive);
    let mut pods: BTreeMap<&str, Vec<&Arc<PodFacts>>> = BTreeMap::new();
    for pod in snapshot.pods.values() {
        pods.entry(&pod.clique).or_default().push(pod);
    }
    let cliques = layout
        .cliques
        .iter()
        .map(|clique| {
            let pods = pods.remove(clique.name.as_str()).unwrap_or_default();
            CliqueState::read(context, snapshot, &layout, clique, pods)
        })
        .collect();
    let replica = Replica {
        context,
        snapshot,
        layout,
        cliques,
        now,
    };
    let mut draft = Draft::default();

    gang_map::plan(&replica, &mut draft);
    let terminating = terminating::plan(&replica, &mut draft);
    let rolling = update::plan(&replica, directive, &terminating, &mut draft);
    children::plan(&replica, directive, &mut draft);
    membership::plan_cliques(&replica, &mut draft);
    let claims = claims::plan(&replica, &mut draft);
    domains::plan(&replica, &mut draft);
    let pods = pods::plan(&replica, &terminating, &rolling, &claims.waiting, &mut draft);
    let pod_groups = gangs::plan(&replica, &pods, &mut draft);
    membership::plan_pods(&replica, &mut draft);
    gates::plan(&replica, &mut draft);
    let stuck = clique_status::plan(&replica, directive, &rolling, &terminating, &mut draft);
    let groups = group_status::plan(&replica, &rolling, &terminating, &mut draft);
    let gangs = gang_status::plan(&replica, &pods, &pod_groups, &mut draft);
    let mut summary = summarise(&replica, &groups);
    summary.gangs = gangs.into();
    summary.updating = !rolling.is_idle();
    summary.stuck += stuck;
    summary.missing_templates = claims.missing;
    if gang_map::snapshot_is_behind(&replica) {
        return ReplicaPlan {
            deadline: draft.deadline,
            summary,
            ..ReplicaPlan::default()
        };
    }
    draft.finish(summary)
}

/// Lays out the replica, with its gangs as they are stored.
fn lay_out(context: &SetContext<'_>, snapshot: &ReplicaSnapshot, directive: Directive) -> ReplicaLayout {
    let gangs = snapshot.gangs.iter();
    let stored = StoredGangs {
        map: snapshot.map.as_ref().map(|map| &map.spec),
        gangs: gangs
            .filter_map(|(name, gang)| Some((name.as_str(), entry_of_gang(gang)?)))
            .collect(),
    };
    let generation = Generation {
        hash: &context.generation_hash(),
        given: directive != Directive::Hold,
    };
    ReplicaLayout::new(
        &context.facts,
        snapshot.index,
        &live_sizes(snapshot),
        &stored,
        generation,
    )
}

fn live_sizes(snapshot: &ReplicaSnapshot) -> LiveSizes {
    let size = |replicas: i32| u32::try_from(replicas).unwrap_or(0);
    LiveSizes {
        cliques: snapshot
            .cliques
            .iter()
            .map(|(name, clique)| (name.clone(), size(clique.spec.replicas)))
            .collect(),
        groups: snapshot
            .groups
            .iter()
            .map(|(name, group)| (name.clone(), size(group.spec.replicas)))
            .collect(),
        copies: existing_copies(snapshot),
    }
}

/// The copies of each group up to the last that has a PodClique, by the labels of those.
fn existing_copies(snapshot: &ReplicaSnapshot) -> BTreeMap<String, u32> {
    let mut copies: BTreeMap<String, u32> = BTreeMap::new();
    for clique in snapshot.cliques.values() {
        let label = |key: &str| clique.metadata.labels.as_ref().and_then(|all| all.get(key));
        let copy = label(labels::SCALING_GROUP_REPLICA_INDEX).and_then(|text| parse_index(text));
        if let (Some(group), Some(copy)) = (label(labels::SCALING_GROUP), copy) {
            let most = copies.entry(group.clone()).or_default();
            *most = (*most).max(copy.saturating_add(1));
        }
    }
    copies
}

/// Whether a pod of a clique that is no longer wanted, such as one of a copy that was scaled away, still runs with a
/// template that the set no longer has.
fn has_outdated_leftovers(replica: &Replica<'_>) -> bool {
    let wanted: BTreeSet<&str> = replica
        .layout
        .cliques
        .iter()
        .map(|clique| clique.name.as_str())
        .collect();
    let leftover = |pod: &&Arc<PodFacts>| pod.active() && !wanted.contains(pod.clique.as_str());
    let identities = &replica.context.identities;
    replica.snapshot.pods.values().filter(leftover).any(|pod| {
        let mut identities = identities.iter();
        !identities.any(|identity| identity.matches_label(&pod.template_hash))
    })
}

fn summarise(replica: &Replica<'_>, groups: &[group_status::GroupCounts]) -> ReplicaSummary {
    let standalone: Vec<&CliqueState<'_>> = replica.cliques.iter().filter(|clique| clique.standalone()).collect();
    let updated_cliques = standalone.iter().filter(|clique| clique.updated()).count();
    let updated_groups = groups.iter().filter(|group| group.updated_all).count();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    ReplicaSummary {
        generation: replica.context.facts.set.metadata.generation,
        available: standalone.iter().all(|clique| clique.available())
            && groups.iter().all(|group| group.available_enough),
        updated: updated_cliques == standalone.len()
            && updated_groups == groups.len()
            && !has_outdated_leftovers(replica),
        current: replica.cliques.iter().all(|clique| clique.current),
        truthful: !replica.cliques.iter().any(CliqueState::overstated) && !groups.iter().any(|group| group.overstated),
        updating: false,
        stuck: groups.iter().map(|group| u32::from(group.stuck)).sum(),
        unscheduled: replica.cliques.iter().all(|clique| clique.scheduled() == 0),
        breached: standalone.iter().any(|clique| clique.breached()) || groups.iter().any(|group| group.breached),
        mapped: gang_map::is_followed(replica),
        exists: true,
        cliques: (count(standalone.len()), count(updated_cliques)),
        groups: (count(groups.len()), count(updated_groups)),
        errors: report::too_large(&replica.layout.excesses, Timestamp::UNIX_EPOCH)
            .into_iter()
            .chain(report::last_errors(replica.snapshot.failures.iter(), &[]))
            .collect(),
        missing_templates: BTreeSet::new(),
        gangs: Arc::default(),
    }
}
