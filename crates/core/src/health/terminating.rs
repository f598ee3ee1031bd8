//! Gang termination: a replica, or a copy of a scaling group, that has had too few pods for too long is replaced as a
//! whole.
//!
//! The clock is the transition time of the `MinAvailableBreached` condition, so it survives a restart of the operator.
//! A mark on each clique (`GangTerminationInProgress`) is written before its pods are deleted; while it stands, no pod
//! is created, and it turns False when the last old pod is gone. Cliques keep their size and template throughout.
//!
//! A gang that breaks soon after it was replaced is given twice the delay, then four and at most eight times, so that
//! a model which cannot hold does not reload its weights all day. The reason of the mark tells how often, so that too
//! survives a restart.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::duration::Duration;
use coppice_api::types::PodCliqueStatus;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::breach;
use crate::command::{Command, Kind};
use crate::conditions::{self, ConditionType};
use crate::draft::Draft;
use crate::reasons::Reason;
use crate::snapshot::target_of;
use crate::state::{CliqueState, Replica};

const DEFAULT_DELAY: SignedDuration = SignedDuration::from_hours(4);

/// The API keeps whole seconds of a transition: the true moment is up to one later, and nothing is done early.
const ROUNDING: SignedDuration = SignedDuration::from_secs(1);

/// How often in a row a gang was replaced, as its mark tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Times {
    Once,
    Twice,
    Often,
}

impl Times {
    pub(crate) fn reason(self) -> Reason {
        match self {
            Self::Once => Reason::GangTerminated,
            Self::Twice => Reason::GangTerminatedTwice,
            Self::Often => Reason::GangTerminatedRepeatedly,
        }
    }

    /// What a mark tells. One that was written before marks told anything tells of one time.
    fn told(condition: &Condition) -> Self {
        [Self::Often, Self::Twice]
            .into_iter()
            .find(|times| condition.reason == times.reason())
            .unwrap_or(Self::Once)
    }

    fn after(before: Option<Self>) -> Self {
        match before {
            None => Self::Once,
            Some(Self::Once) => Self::Twice,
            Some(Self::Twice | Self::Often) => Self::Often,
        }
    }

    /// The delay that a gang is given which was replaced so often.
    fn lengthen(self, delay: SignedDuration) -> SignedDuration {
        let factor = match self {
            Self::Once => 2,
            Self::Twice => 4,
            Self::Often => 8,
        };
        delay.checked_mul(factor).unwrap_or(SignedDuration::MAX)
    }
}

/// Cliques that are being terminated, by position.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Terminating {
    /// Cliques whose pods must go, and that get no new ones yet.
    pub(crate) cliques: BTreeSet<usize>,
    /// Cliques whose mark turns False in this plan: their old pods are gone.
    pub(crate) finished: BTreeSet<usize>,
    /// How often in a row those are replaced whose termination begins in this plan.
    begun: BTreeMap<usize, Times>,
    /// Why, for those whose termination begins in this plan.
    causes: BTreeMap<usize, Cause>,
}

/// Why a clique is terminated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// It had too few pods itself.
    Itself,
    /// A clique of this name had too few pods.
    Other(String),
}

impl Terminating {
    pub(crate) fn contains(&self, clique: usize) -> bool {
        self.cliques.contains(&clique)
    }

    /// Why the termination of a clique begins in this plan.
    pub(crate) fn cause(&self, clique: usize) -> Option<&Cause> {
        self.causes.get(&clique)
    }

    /// How often in a row a clique is replaced, this time included.
    pub(crate) fn times(&self, clique: usize, stored: &PodCliqueStatus) -> Times {
        let told = || conditions::find(&stored.conditions, ConditionType::GangTerminationInProgress).map(Times::told);
        self.begun.get(&clique).copied().or_else(told).unwrap_or(Times::Once)
    }
}

/// Decides what is being terminated, and deletes its pods.
pub(crate) fn plan(replica: &Replica<'_>, draft: &mut Draft) -> Terminating {
    let mut terminating = marked(replica);
    let delay = delay(replica);
    for (unit, since) in breaches(replica, &terminating) {
        let affected = match unit {
            Unit::Replica => (0..replica.cliques.len()).collect::<Vec<usize>>(),
            Unit::Copy { group, copy } => replica.layout.groups[group].members(copy).collect(),
        };
        let recent = affected
            .iter()
            .filter_map(|&index| recently(&replica.cliques[index], delay, since))
            .max();
        let given = recent.map_or(delay, |times| times.lengthen(delay));
        let due = since
            .saturating_add(given.saturating_add(ROUNDING))
            .unwrap_or(Timestamp::MAX);
        if due > replica.now {
            draft.wake_at(due);
            await_delay(replica, unit, &affected, (since, due), draft);
            continue;
        }
        let broken: Vec<usize> = affected
            .iter()
            .copied()
            .filter(|&index| breach::is_acted_on(&replica.cliques[index], replica.context.settings))
            .collect();
        let name = |index: usize| replica.layout.cliques[index].name.as_str();
        let names: Vec<&str> = broken.iter().map(|&index| name(index)).collect();
        draft.statuses.push(told(replica, unit, &names.join(", ")));
        let cause = |index: &usize| match broken.first() {
            Some(&first) if !broken.contains(index) => Cause::Other(name(first).to_owned()),
            _ => Cause::Itself,
        };
        let causes = affected.iter().map(|index| (*index, cause(index)));
        terminating.causes.extend(causes);
        let begun = affected.iter().map(|&index| (index, Times::after(recent)));
        terminating.begun.extend(begun);
        terminating.cliques.extend(affected);
    }
    terminating
        .finished
        .retain(|index| !terminating.cliques.contains(index));
    for &index in &terminating.cliques {
        let state = &replica.cliques[index];
        let all = state.active.iter().chain(&state.leaving).chain(&state.orphans);
        for pod in all.filter(|pod| !pod.deleting) {
            draft.delete(pod.target());
        }
        let clique = &replica.layout.cliques[index];
        let message = "all pods of the gang are being replaced; new ones follow when the old ones are gone".to_owned();
        draft.wait(&clique.name, Reason::WaitingForOldPods, message);
    }
    terminating
}

/// Says on the cliques that have too few pods when everything around them is replaced.
fn await_delay(
    replica: &Replica<'_>,
    unit: Unit,
    affected: &[usize],
    (since, due): (Timestamp, Timestamp),
    draft: &mut Draft,
) {
    let what = match unit {
        Unit::Replica => format!("replica {}", replica.snapshot.index),
        Unit::Copy { group, copy } => format!("copy {copy} of {}", replica.layout.groups[group].name),
    };
    let shown = conditions::whole_seconds(due);
    for &index in affected {
        let state = &replica.cliques[index];
        if breach::is_acted_on(state, replica.context.settings) {
            let message = format!(
                "fewer than {} pods since {since}; all pods of {what} are replaced at {shown} unless enough are ready before",
                state.min_available
            );
            let name = &replica.layout.cliques[index].name;
            draft.wait_until(name, Reason::WaitingForTerminationDelay, message, due);
        }
    }
}

/// Cliques that carry the mark. While any marked clique has pods, all of them wait.
fn marked(replica: &Replica<'_>) -> Terminating {
    let marked: BTreeSet<usize> = (0..replica.cliques.len())
        .filter(|index| is_marked(&replica.cliques[*index]))
        .collect();
    let has_pods = |index: &usize| {
        let state = &replica.cliques[*index];
        !(state.active.is_empty() && state.leaving.is_empty() && state.orphans.is_empty())
    };
    if marked.iter().any(has_pods) && !is_unfounded(replica, &marked) {
        Terminating {
            cliques: marked,
            ..Terminating::default()
        }
    } else {
        Terminating {
            finished: marked,
            ..Terminating::default()
        }
    }
}

/// Whether no termination can be under way although cliques are marked: each has its minimum ready. The operator marks a
/// clique only when something of its gang has too few pods, and its next act is to delete pods; so another client wrote the
/// marks, or everything recovered in between.
fn is_unfounded(replica: &Replica<'_>, marked: &BTreeSet<usize>) -> bool {
    marked.iter().all(|&index| {
        let state = &replica.cliques[index];
        state.ready() >= state.min_available && !state.active.is_empty()
    })
}

/// The event on the set that tells of a termination.
fn told(replica: &Replica<'_>, unit: Unit, broken: &str) -> Command {
    let index = replica.snapshot.index;
    let why = format!("is replaced as a whole: {broken} had too few pods for longer than terminationDelay");
    let (reason, message) = match unit {
        Unit::Replica => (
            Reason::PodCliqueSetReplicaDeleteSuccessful,
            format!("replica {index} {why}"),
        ),
        Unit::Copy { group, copy } => (
            Reason::PodCliqueScalingGroupReplicaDeleteSuccessful,
            format!("copy {copy} of {} {why}", replica.layout.groups[group].name),
        ),
    };
    Command::Event {
        target: target_of(Kind::PodCliqueSet, &replica.context.facts.set.metadata),
        warning: true,
        reason,
        message,
    }
}

/// How often in a row a clique had been replaced when it broke, if it did not hold for as long as it is given now. A
/// mark that stands belongs to the termination under way.
fn recently(state: &CliqueState<'_>, delay: SignedDuration, broken: Timestamp) -> Option<Times> {
    let mark = conditions::find(&status(state)?.conditions, ConditionType::GangTerminationInProgress)
        .filter(|mark| mark.status != "True")?;
    let times = Times::told(mark);
    let held_until = mark.last_transition_time.0.saturating_add(times.lengthen(delay));
    held_until.map_or(true, |until| broken < until).then_some(times)
}

fn is_marked(state: &CliqueState<'_>) -> bool {
    status(state)
        .is_some_and(|status| conditions::is_true(&status.conditions, ConditionType::GangTerminationInProgress))
}

fn status<'a>(state: &CliqueState<'a>) -> Option<&'a PodCliqueStatus> {
    state.stored.and_then(|stored| stored.status.as_ref())
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Unit {
    Replica,
    Copy { group: usize, copy: u32 },
}

/// What has had too few pods, and since when. A clique on its own, or a group below its minimum, brings down the
/// replica; a copy of a group that still has its minimum brings down only itself.
fn breaches(replica: &Replica<'_>, terminating: &Terminating) -> Vec<(Unit, Timestamp)> {
    let since = |index: usize| -> Option<Timestamp> {
        let state = &replica.cliques[index];
        let condition = conditions::find(&status(state)?.conditions, ConditionType::MinAvailableBreached)?;
        let breached_now = breach::is_acted_on(state, replica.context.settings);
        // While nothing was left of it the clock did not run; the next status starts it.
        let clock_runs = breach::starts_clock(condition, replica.context.settings);
        (breached_now && clock_runs && !terminating.contains(index))
            .then(|| started(condition))
            .flatten()
    };
    let mut found = Vec::new();
    for index in (0..replica.cliques.len()).filter(|index| replica.cliques[*index].standalone()) {
        found.extend(since(index).map(|at| (Unit::Replica, at)));
    }
    for (group, layout) in replica.layout.groups.iter().enumerate() {
        let stored = replica
            .snapshot
            .groups
            .get(&layout.name)
            .and_then(|stored| stored.status.as_ref());
        let whole = stored
            .and_then(|status| conditions::find(&status.conditions, ConditionType::MinAvailableBreached))
            .filter(|condition| breach::starts_clock(condition, replica.context.settings))
            .and_then(started);
        let copies: Vec<(u32, Timestamp)> = layout
            .copies
            .iter()
            .filter_map(|&copy| Some((copy, layout.members(copy).filter_map(since).min()?)))
            .collect();
        match whole {
            Some(at) if !copies.is_empty() => found.push((Unit::Replica, at)),
            _ => found.extend(copies.into_iter().map(|(copy, at)| (Unit::Copy { group, copy }, at))),
        }
    }
    found
}

fn started(condition: &Condition) -> Option<Timestamp> {
    (condition.status == "True").then_some(condition.last_transition_time.0)
}

fn delay(replica: &Replica<'_>) -> SignedDuration {
    let text = replica.context.facts.set.spec.template.termination_delay.as_deref();
    let parsed = text.and_then(|text| text.parse::<Duration>().ok());
    parsed.map_or(DEFAULT_DELAY, |delay| SignedDuration::from_nanos(delay.nanoseconds()))
}
