//! Plans one replica of a set: its cliques, scaling groups, gangs and pods, read together and decided together.
//!
//! The plan is a list of stages. The commands of a stage do not depend on each other; a stage is carried out when the
//! one before it succeeded. What needs the answer to a command (a uid) is left to the next plan. Planning the same
//! snapshot twice gives the same plan, and a plan without commands means that the replica is as it should be.

mod children;
mod claims;
mod clique_status;
mod domains;
mod ended;
mod gang_map;
mod gang_status;
mod gangs;
mod gates;
mod group_status;
mod membership;
mod pod_groups;
mod pods;
pub(crate) mod predecessor;
mod restore;
mod teardown;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coppice_api::types::{LastError, PodGangPhase};
use jiff::Timestamp;

pub use teardown::plan_abandoned;

use crate::command::Command;
use crate::context::SetContext;
use crate::draft::{Draft, Wait, weight};
use crate::health::terminating;
use crate::report;
use crate::snapshot::{PodFacts, ReplicaSnapshot};
use crate::state::{CliqueState, Replica};
use crate::update::coherent::Revision;
use crate::update::in_step::{self, Step, StepSummary};
use crate::update::{self, Directive};

/// What to do for a replica.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplicaPlan {
    /// Commands, stage by stage.
    pub stages: Vec<Vec<Command>>,
    /// When to plan again even if nothing happens.
    pub deadline: Option<Timestamp>,
    /// What the set needs to know of it.
    pub summary: ReplicaSummary,
}

impl ReplicaPlan {
    fn new(draft: Draft, summary: ReplicaSummary) -> Self {
        Self {
            deadline: draft.deadline,
            stages: draft.into_stages(),
            summary,
        }
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.stages.iter().all(Vec::is_empty)
    }
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
    pub stuck: Vec<String>,
    /// Copies of groups, by the group's name in the template, that their scheduler cannot place, and how many the replica
    /// should have. A group that lacks none is left out.
    pub unplaced: BTreeMap<String, (u32, u32)>,
    /// Whether no pod of it has a node.
    pub unscheduled: bool,
    /// Whether something in it fell below its minimum.
    pub breached: bool,
    /// Whether all its gangs follow from its stored PodGangMap.
    pub mapped: bool,
    /// Whether objects of it are left; of a set that is being deleted, whether some must be deleted before it goes.
    pub exists: bool,
    /// Standalone cliques, and how many of them are updated.
    pub cliques: (i32, i32),
    /// Scaling groups, and how many of them are updated.
    pub groups: (i32, i32),
    /// Writes for it that were refused.
    pub errors: Vec<LastError>,
    /// ResourceClaimTemplates that it needs and that do not exist, as `namespace/name`.
    pub missing_templates: BTreeSet<String>,
    /// What keeps it from going on, and does not end by itself.
    pub stall: Option<Wait>,
    /// How far a coherent update of it is; only with that strategy.
    pub step: Option<Box<StepSummary>>,
    /// Its gangs, and how far each is. Shared, because the set's planner reads the summaries of all replicas each time.
    pub gangs: Arc<[(String, PodGangPhase)]>,
}

/// Plans one replica.
pub fn plan_replica(context: &SetContext<'_>, snapshot: &ReplicaSnapshot, now: Timestamp) -> ReplicaPlan {
    if context.deleting() {
        return teardown::of_deleted_set(context, snapshot);
    }
    if let Some(plan) = predecessor::plan(context, snapshot) {
        return plan;
    }
    if snapshot.index >= context.facts.replicas() {
        return teardown::plan(context, snapshot);
    }
    if context.facts.too_many_replicas() && snapshot.cliques.is_empty() && snapshot.groups.is_empty() {
        return ReplicaPlan::default();
    }
    let directive = update::directive(context, snapshot.index);
    let given = !matches!(directive, Directive::Hold | Directive::Paused);
    let step = in_step::is_planned(context, snapshot).then(|| Step::new(context, snapshot, now));
    let laid_out = step
        .as_ref()
        .and_then(|step| Some((step, step.map.as_ref().or(step.outcome.map.as_ref())?)));
    let replica = match laid_out {
        Some((step, map)) => {
            let map = step.laid_out(context, snapshot, map);
            Replica::read_by_map(context, snapshot, map, now)
        }
        None => Replica::read(context, snapshot, given, now),
    };
    let mut draft = Draft::default();

    if step.is_none() {
        gang_map::plan(&replica, &mut draft);
    }
    let terminating = terminating::plan(&replica, &mut draft);
    let mut rolling = match &step {
        Some(step) if directive == Directive::Coherent => in_step::execute(&replica, step, &terminating, &mut draft),
        _ => update::plan(&replica, directive, &terminating, &mut draft),
    };
    restore::plan(&replica, &mut rolling, &mut draft);
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
    if let Some(step) = &step {
        if let Some(at) = step.outcome.deadline {
            draft.wake_at(at);
        }
        draft.statuses.extend(gang_map::remember(&replica, step));
    }
    let mut summary = summarise(&replica, &groups, rolling.is_idle());
    if let Some(step) = step.as_ref().filter(|_| directive == Directive::Coherent) {
        let of_step = step.summary();
        summary.updated &= of_step.done && of_step.target == of_step_wanted(step);
        summary.mapped &= step.outcome.map.is_none();
        summary.step = Some(Box::new(of_step));
    }
    summary.gangs = gangs.into();
    summary.updating = !rolling.is_idle();
    summary.stuck.extend(stuck);
    summary.unplaced = gang_status::unplaced(&replica, &pod_groups);
    summary.missing_templates = claims.missing;
    let stalls = draft.waits.iter().filter(|wait| wait.is_stall());
    summary.stall = Wait::foremost(stalls).cloned();
    if gang_map::snapshot_is_behind(&replica) {
        return ReplicaPlan {
            deadline: draft.deadline,
            summary,
            ..ReplicaPlan::default()
        };
    }
    // Whatever else was planned follows from the map as it was.
    let decided = step.as_ref().and_then(|step| match &step.outcome.map {
        Some(map) => Some(gang_map::change(&replica, step, map)),
        None => step.outcome.awaits_record.then(|| gang_map::remember(&replica, step)),
    });
    if let Some(command) = decided {
        return ReplicaPlan {
            stages: command.into_iter().map(|command| vec![command]).collect(),
            deadline: draft.deadline,
            summary,
        };
    }
    ReplicaPlan::new(draft, summary)
}

/// The revisions of the set's own templates.
fn of_step_wanted(step: &Step) -> Vec<Revision> {
    let components = step.components.iter();
    components.map(|component| Revision::new(&component.wanted)).collect()
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

/// Whether nothing of a replica has another template than the set's. Pods that are missing, for example because there is
/// no room for them, are not outdated.
fn has_only_current(replica: &Replica<'_>) -> bool {
    let current = |state: &CliqueState<'_>| state.current && state.with_current_template() == state.count(|_| true);
    replica.cliques.iter().all(current)
}

fn summarise(replica: &Replica<'_>, groups: &[group_status::GroupCounts], settled: bool) -> ReplicaSummary {
    let standalone: Vec<&CliqueState<'_>> = replica.cliques.iter().filter(|clique| clique.standalone()).collect();
    let updated_cliques = standalone.iter().filter(|clique| clique.updated()).count();
    let updated_groups = groups.iter().filter(|group| group.updated_all).count();
    let stuck_groups = groups
        .iter()
        .zip(&replica.layout.groups)
        .filter(|(counts, _)| counts.stuck);
    let stuck_groups = stuck_groups.map(|(_, layout)| &layout.name);
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    ReplicaSummary {
        generation: replica.context.facts.set.metadata.generation,
        available: standalone.iter().all(|clique| clique.available())
            && groups.iter().all(|group| group.available_enough),
        updated: ((updated_cliques == standalone.len() && updated_groups == groups.len())
            || (settled && has_only_current(replica)))
            && !has_outdated_leftovers(replica),
        current: replica.cliques.iter().all(|clique| clique.current),
        truthful: !replica.cliques.iter().any(CliqueState::overstated) && !groups.iter().any(|group| group.overstated),
        updating: false,
        stuck: stuck_groups.cloned().collect(),
        unplaced: BTreeMap::new(),
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
        stall: None,
        step: None,
        gangs: Arc::default(),
    }
}
