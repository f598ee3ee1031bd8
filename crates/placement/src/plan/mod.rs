//! Planning one gang: `(ClusterState, Gang, Options) -> Outcome`.
//!
//! Order of work: refuse what cannot be honoured; scan nodes per shape (`table`); upper bounds per domain (`bounds`),
//! which prove most hopeless gangs hopeless in one pass; a greedy search with sibling backtracking (`dive`, `pack`);
//! extras (`extras`); and, if that found nothing or something that may not be the best, a complete search with exact packing
//! (`exact`, `states`).
//!
//! Exact: soundness always (a plan honours every floor, every required packing and every node's rules). Completeness and
//! optimality by (distance from preferred levels, outermost rank first; number of extras) whenever the complete search
//! ends within its budget, which small gangs do. Otherwise the greedy answer stands, and where there is none the outcome is
//! [`Outcome::BudgetExhausted`], never "infeasible".
//!
//! The state is used as scratch space through its undo log and is unchanged when [`plan`] returns.

mod bounds;
mod candidates;
mod dive;
mod exact;
mod extras;
mod look_ahead;
mod nearness;
mod pack;
mod reaches;
pub(crate) mod refuse;
mod result;
mod scopes;
mod states;
pub(crate) mod survey;
pub(crate) mod table;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::budget::{Exhausted, Steps};
use crate::gang::{Gang, Group, Overfull, Waiting};
use crate::reasons::{Reason, ReasonCode};
use crate::state::ClusterState;
use crate::topology::{DomainId, DomainPath};

use bounds::Bounds;
use dive::Dive;
use exact::Solution;
use scopes::{RANKS, Scopes};
use table::{Excluded, Table};
use volumes::Claims;

pub use result::{Binding, ChosenDomain, ChosenVolume, Plan};

/// How to plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Steps for the whole decision.
    pub budget: u64,
    /// Steps of these that may be spent on making a plan better once there is one.
    pub improvement: u64,
    /// Whether to place extras.
    pub extras: bool,
    /// Gangs that are scheduled, for dependencies.
    pub scheduled: BTreeSet<String>,
    /// Domains held for other gangs.
    pub held: Vec<DomainPath>,
    /// Plan only inside this domain.
    pub within: Option<DomainPath>,
    /// How many pods may be evicted, by the name of the disruption budget that protects them; none where a budget is not named.
    pub disruptions: BTreeMap<Arc<str>, u32>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            budget: 1_000_000,
            improvement: 250_000,
            extras: true,
            scheduled: BTreeSet::new(),
            held: Vec::new(),
            within: None,
            disruptions: BTreeMap::new(),
        }
    }
}

/// The answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// Bind these pods to these nodes.
    Placed(Plan),
    /// Not its turn yet.
    Waiting(Vec<Waiting>),
    /// There is no placement.
    Infeasible(Vec<Reason>),
    /// The budget ran out before a placement was found or ruled out.
    BudgetExhausted {
        /// Steps taken.
        steps: u64,
    },
}

impl Outcome {
    /// The plan, if there is one.
    #[must_use]
    pub fn plan(&self) -> Option<&Plan> {
        match self {
            Self::Placed(plan) => Some(plan),
            _ => None,
        }
    }
}

/// Decides where the waiting pods of a gang go.
pub fn plan(state: &mut ClusterState, gang: &Gang, options: &Options) -> Outcome {
    let mut steps = Steps::new(options.budget);
    match plan_counted(state, gang, options, &mut steps) {
        Outcome::Placed(alone) => Outcome::Placed(look_ahead::beside_siblings(state, gang, options, alone, &mut steps)),
        other => other,
    }
}

/// Whether no change of room could place the gang: it waits, asks for what is not done or not there, names a topology that
/// is not there, or is too large to be searched within the budget.
pub(crate) fn impossible(state: &ClusterState, gang: &Gang, options: &Options) -> bool {
    let view = state.view_named(&gang.topology);
    !gang.waiting(&options.scheduled).is_empty()
        || !refuse::unsupported(state, gang).is_empty()
        || !refuse::unoffered(state, gang).is_empty()
        || scopes::cost(gang) as u64 > options.budget
        || view.is_none_or(|view| scopes::build(state, state.view(view), gang, false).is_err())
}

/// The same on a budget that is shared with other questions.
pub(crate) fn plan_counted(state: &mut ClusterState, gang: &Gang, options: &Options, steps: &mut Steps) -> Outcome {
    let waiting = gang.waiting(&options.scheduled);
    if !waiting.is_empty() {
        return Outcome::Waiting(waiting);
    }
    for refusals in [refuse::unsupported(state, gang), refuse::unoffered(state, gang)] {
        if !refusals.is_empty() {
            return Outcome::Infeasible(refusals);
        }
    }
    if steps.spend(scopes::cost(gang)).is_err() {
        return Outcome::BudgetExhausted { steps: steps.used() };
    }
    match volumes::plan(state, gang, options, steps) {
        Ok(outcome) => outcome,
        Err(Exhausted) => Outcome::BudgetExhausted { steps: steps.used() },
    }
}

/// Plans with the nodes that the claims on volumes leave.
fn within_reach(
    state: &mut ClusterState,
    gang: &Gang,
    options: &Options,
    claims: &Claims,
    steps: &mut Steps,
) -> Outcome {
    let outcome = attempt(state, gang, options, claims, steps, false);
    let spills = gang
        .placement_group
        .as_ref()
        .is_some_and(|group| group.pinned.is_some() && group.overfull == Overfull::Spill);
    match outcome {
        Outcome::Infeasible(_) if spills => match attempt(state, gang, options, claims, steps, true) {
            Outcome::Placed(mut plan) => {
                let message = "the domain of the placement group has no room; placed in another one";
                plan.notes.push(Reason::new(ReasonCode::SpilledOver, message));
                Outcome::Placed(plan)
            }
            other => other,
        },
        other => other,
    }
}

fn attempt(
    state: &mut ClusterState,
    gang: &Gang,
    options: &Options,
    claims: &Claims,
    steps: &mut Steps,
    spill: bool,
) -> Outcome {
    let Some(view) = state.view_named(&gang.topology) else {
        let message = format!("topology {:?} does not exist", gang.topology);
        return Outcome::Infeasible(vec![Reason::new(ReasonCode::UnknownTopology, message)]);
    };
    let scopes = match scopes::build(state, state.view(view), gang, spill) {
        Ok(scopes) => scopes,
        Err(reason) => return Outcome::Infeasible(vec![reason]),
    };
    let root = match &options.within {
        None => DomainId::ROOT,
        Some(path) => match state.view(view).find(path) {
            Some(domain) => domain,
            None => {
                let message = "the domain to plan in does not exist";
                return Outcome::Infeasible(vec![Reason::new(ReasonCode::PinnedDomainGone, message)]);
            }
        },
    };
    let excluded = Excluded::new(excluded(state, view, gang, options), claims);
    let scanned = Table::scan(state, view, root, scopes.shapes.clone(), &excluded, *steps);
    let Ok(mut table) = scanned else {
        return Outcome::BudgetExhausted { steps: steps.used() };
    };
    let near = gang.placement_group.iter().flat_map(|outer| &outer.near);
    let near: Vec<_> = near.filter_map(|node| table.state.node_id(node)).collect();
    for node in scopes.scopes[0].bound.iter().chain(&near) {
        table.note_member(*node);
    }
    let found = decide(&mut table, &scopes, gang, options);
    *steps = table.steps;
    match found {
        Ok(Some(solution)) => Outcome::Placed(result::make(&table, &scopes, gang, &solution)),
        Ok(None) => Outcome::Infeasible(refuse::reasons(&table, &scopes, gang, &excluded)),
        Err(Exhausted) => Outcome::BudgetExhausted { steps: steps.used() },
    }
}

/// Nodes of domains held for others, and of domains other replicas took if the set must spread.
pub(crate) fn excluded(state: &ClusterState, view: usize, gang: &Gang, options: &Options) -> Vec<bool> {
    let mut excluded = vec![false; state.node_slots()];
    let view = state.view(view);
    let spread = gang.spread.iter().filter(|spread| spread.hard);
    let taken = spread.flat_map(|spread| {
        spread
            .taken
            .iter()
            .filter(|(_, count)| **count > 0)
            .map(|(path, _)| path)
    });
    for path in options.held.iter().chain(taken) {
        for node in view.find(path).into_iter().flat_map(|domain| view.nodes_in(domain)) {
            excluded[node.index()] = true;
        }
    }
    excluded
}

fn decide(
    table: &mut Table<'_>,
    scopes: &Scopes,
    gang: &Gang,
    options: &Options,
) -> Result<Option<Solution>, Exhausted> {
    let bounds = Bounds::compute(table, scopes)?;
    if !bounds.viable(&scopes.scopes[0], table.root) {
        return Ok(None);
    }
    let wanted: u32 = if options.extras {
        gang.groups.iter().map(Group::extras).fold(0, u32::saturating_add)
    } else {
        0
    };
    let start = table.point();
    // Half for the greedy search: if it gets lost, the complete one still has a chance.
    let limit = table.steps.narrow(table.steps.left() / 2);
    let dived = dive::dive(table, &bounds, scopes, gang);
    let mut best = None;
    let mut proven = false;
    if let Ok((Dive::Found, choice)) = &dived {
        if wanted > 0 {
            // Out of budget here only means fewer extras.
            let _cut = extras::place(table, scopes, gang, choice);
        }
        let placed = table.placed.clone();
        let found: u32 = placed
            .iter()
            .filter(|placed| placed.extra)
            .map(|placed| placed.count)
            .sum();
        let left_over = wanted.saturating_sub(found);
        proven = choice.distances == least(table, &bounds, scopes) && left_over == 0;
        best = Some(Solution {
            choice: choice.clone(),
            placed,
            left_over,
        });
    }
    table.back(start);
    table.steps.widen(limit);
    if proven {
        return Ok(best);
    }
    let nothing = matches!(&dived, Ok((Dive::Nothing, _)));
    if nothing && scopes.shapes.len() == 1 {
        return Ok(None);
    }
    let allowance = if best.is_some() { options.improvement } else { u64::MAX };
    let limit = table.steps.narrow(allowance);
    let improved = exact::improve(table, &bounds, scopes, gang, options.extras, &mut best);
    table.steps.widen(limit);
    match (improved, best) {
        (_, Some(best)) => Ok(Some(best)),
        (Ok(()), None) => Ok(None),
        (Err(exhausted), None) => Err(exhausted),
    }
}

/// The smallest distances any placement could have, each scope taken alone.
fn least(table: &Table<'_>, bounds: &Bounds, scopes: &Scopes) -> [u32; RANKS] {
    let mut least = [0_u32; RANKS];
    // Scopes of one kind have the same candidates.
    let mut known: Vec<Option<u32>> = vec![None; scopes.kinds.len()];
    for scope in scopes
        .scopes
        .iter()
        .filter(|scope| scope.preferred.is_some() && !scope.idle())
    {
        let distance = *known[scope.kind].get_or_insert_with(|| {
            let all = candidates::domains(table.view(), scope, table.root);
            let viable = all.iter().filter(|candidate| bounds.viable(scope, candidate.domain));
            viable.map(|candidate| candidate.distance).min().unwrap_or(0)
        });
        least[scope.rank] += distance;
    }
    least
}
