//! Why a gang is not placed, and what would help.
//!
//! Runs the planner itself, then a survey (per level the best domain and what it lacks; which nodes are ruled out by what),
//! then a list of what-if questions on a copy of the cluster: without this taint, with this packing only preferred, with two
//! more nodes here, with these gangs evicted. A remedy is listed only if the planner found a placement with it, so every
//! remedy in the list works by itself. Combinations of remedies are not searched.
//!
//! Slow compared with a decision (it clones the cluster and plans a dozen times); meant for people and for conditions of
//! gangs that wait, not for the scheduling loop. Lists and messages are bounded.

mod causes;
pub mod change;
mod remedies;
mod render;
mod words;

use std::collections::BTreeMap;

use serde::Serialize;

use crate::gang::{Gang, Waiting};
use crate::plan::survey::{self, Level, Survey};
use crate::plan::{Options, Outcome, plan};
use crate::preempt::Running;
use crate::reasons::{Reason, ReasonCode};
use crate::state::ClusterState;

pub use change::{Change, Part};
use remedies::Scene;

/// At most this many entries in each list.
pub const LIST_LIMIT: usize = 20;

/// What the planner said.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Verdict {
    /// It fits now.
    Fits,
    /// It has no turn yet.
    Waiting,
    /// It does not fit.
    DoesNotFit,
    /// The budget ran out.
    Unknown,
}

/// One shape against one domain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SlotReport {
    /// Groups of this shape.
    pub groups: Vec<String>,
    /// Pods of the shape that fit, if it were alone.
    pub have: u64,
    /// Pods that must fit.
    pub need: u32,
}

/// The best domain of one level.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LevelReport {
    /// The part of the gang.
    pub part: String,
    /// How many identical parts there are, this one included.
    pub copies: usize,
    /// The label key of the level; empty for the whole cluster.
    pub key: String,
    /// The part must lie in one domain of this level.
    pub required: bool,
    /// The best domain.
    pub domain: String,
    /// What fits there.
    pub slots: Vec<SlotReport>,
    /// What is missing there, by resource.
    pub lacks: BTreeMap<String, i64>,
}

/// Nodes ruled out for a group by one rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RuledOutReport {
    /// A group of the shape.
    pub group: String,
    /// The rule.
    pub code: ReasonCode,
    /// Which taint, label and so on.
    pub detail: String,
    /// How many nodes.
    pub nodes: usize,
}

/// What kind of change would help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum RemedyCode {
    /// Tolerate or remove a taint.
    Taint,
    /// Uncordon nodes.
    Uncordon,
    /// Bring nodes back to Ready.
    RepairNodes,
    /// Drop or change a node selector label.
    NodeSelector,
    /// Drop or change node affinity.
    NodeAffinity,
    /// Release domains held for others, or let replicas share a domain.
    ReleaseDomains,
    /// Drop host ports or anti-affinity.
    ShareNodes,
    /// Use volumes that are within reach, or fewer of them.
    Volumes,
    /// Let the placement group use another domain.
    Unpin,
    /// Turn a required packing into a preferred one.
    RelaxPacking,
    /// Evict gangs of lower priority.
    Preempt,
    /// Add nodes.
    AddNodes,
}

/// A change with which the gang fits.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Remedy {
    /// Its kind.
    pub code: RemedyCode,
    /// What to do.
    pub text: String,
    /// The same as data: applied to the situation, the planner places the gang.
    pub change: Change,
}

impl Remedy {
    fn new(change: Change, text: String) -> Self {
        Self {
            code: change.code(),
            text,
            change,
        }
    }
}

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The gang.
    pub gang: String,
    /// Whether it fits.
    pub verdict: Verdict,
    /// Why not, most telling first.
    pub reasons: Vec<Reason>,
    /// Per part and level, narrow levels first.
    pub levels: Vec<LevelReport>,
    /// Nodes that do not count.
    pub ruled_out: Vec<RuledOutReport>,
    /// Changes each of which is enough.
    pub remedies: Vec<Remedy>,
}

/// Explains the situation of a gang; `running` are the gangs that preemption could touch.
#[must_use]
pub fn explain(state: &ClusterState, gang: &Gang, running: &[Running], options: &Options) -> Explanation {
    let mut scratch = state.clone();
    let outcome = plan(&mut scratch, gang, options);
    let mut explanation = Explanation {
        gang: gang.name.clone(),
        verdict: Verdict::Fits,
        reasons: Vec::new(),
        levels: Vec::new(),
        ruled_out: Vec::new(),
        remedies: Vec::new(),
    };
    match outcome {
        Outcome::Placed(plan) => {
            explanation.reasons = plan.notes;
            return explanation;
        }
        Outcome::Waiting(waiting) => {
            explanation.verdict = Verdict::Waiting;
            explanation.reasons = waiting.iter().map(waits).take(LIST_LIMIT).collect();
            return explanation;
        }
        Outcome::Infeasible(reasons) => {
            explanation.verdict = Verdict::DoesNotFit;
            explanation.reasons = reasons;
        }
        Outcome::BudgetExhausted { steps } => {
            explanation.verdict = Verdict::Unknown;
            let message = format!("no placement was found or ruled out within {steps} steps");
            explanation.reasons = vec![Reason::new(ReasonCode::BudgetExhausted, message)];
        }
    }
    if explanation
        .reasons
        .iter()
        .any(|reason| reason.code == ReasonCode::Unsupported)
    {
        return explanation;
    }
    let Some(survey) = survey::survey(&mut scratch, gang, options) else {
        return explanation;
    };
    explanation.levels = levels(&scratch, gang, &survey);
    explanation.ruled_out = ruled_out(&survey);
    let too_large = crate::plan::refuse::too_large(state, gang);
    if too_large.is_empty() {
        let mut scene = Scene {
            state: &mut scratch,
            gang,
            running,
            options,
            survey: &survey,
        };
        let found = scene.find();
        let mut causes: Vec<Reason> = found.iter().filter_map(|trial| trial.cause.clone()).collect();
        causes.extend(causes::of_room(&mut scene, &found));
        explanation.reasons.splice(0..0, causes);
        explanation.reasons.extend(causes::of_rank(&mut scene, &found));
        explanation.remedies = found.into_iter().map(|trial| trial.remedy).take(LIST_LIMIT).collect();
    } else {
        explanation.reasons.retain(|reason| !too_large.contains(reason));
        explanation.reasons.splice(0..0, too_large);
    }
    explanation.reasons.truncate(LIST_LIMIT);
    explanation
}

fn waits(waiting: &Waiting) -> Reason {
    match waiting {
        Waiting::Gang(name) => Reason::new(ReasonCode::WaitingForGang, format!("{name} must be scheduled first")),
        Waiting::Pods { group, have, need } => {
            let message = format!("{group}: {have} of {need} pods exist and are free of gates");
            Reason::new(ReasonCode::WaitingForPods, message)
        }
    }
}

fn levels(state: &ClusterState, gang: &Gang, survey: &Survey) -> Vec<LevelReport> {
    let Some(view) = state.view_named(&gang.topology).map(|at| state.view(at)) else {
        return Vec::new();
    };
    let report = |level: &Level| LevelReport {
        part: level.scope.clone(),
        copies: level.copies,
        key: view.key_of(level.depth).unwrap_or_default().to_owned(),
        required: level.required,
        domain: view.describe(level.domain),
        slots: level
            .slots
            .iter()
            .map(|slots| SlotReport {
                groups: slots.groups.iter().take(LIST_LIMIT).cloned().collect(),
                have: slots.have,
                need: slots.need,
            })
            .collect(),
        lacks: level.lacks.clone(),
    };
    survey.levels.iter().map(report).take(LIST_LIMIT).collect()
}

fn ruled_out(survey: &Survey) -> Vec<RuledOutReport> {
    let mut reports = Vec::new();
    for (group, counts) in &survey.ruled_out {
        for (reason, nodes) in counts {
            let (code, detail) = reason.told();
            reports.push(RuledOutReport {
                group: group.clone(),
                code,
                detail,
                nodes: *nodes,
            });
        }
    }
    for (group, nodes) in survey.conflicts.iter().filter(|(_, nodes)| *nodes > 0) {
        reports.push(RuledOutReport {
            group: group.clone(),
            code: ReasonCode::NodeConflict,
            detail: String::new(),
            nodes: *nodes,
        });
    }
    reports.sort_by_key(|report| std::cmp::Reverse(report.nodes));
    reports.truncate(LIST_LIMIT);
    reports
}
