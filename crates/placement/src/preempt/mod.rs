//! Preemption: room for a gang at the expense of gangs with lower priority.
//!
//! Victims are taken in units that leave nobody half alive: single extras (pods above a floor), whole scaled gangs, and a base
//! gang together with the gangs that depend on it. The search is local: one candidate domain of the outermost required level
//! at a time (the whole cluster if there is none). [`incumbents`] keeps who could go, by cost and by node, and sums by
//! priority band; `bands` turns those into a lower bound of the harm per domain, so most domains are passed over without a
//! search; `search` finds a minimal set of victims in one domain. Among domains the one with the least harm wins.
//!
//! No disruption budget is exceeded: victims that together would are passed over, and if one budget protects several candidates,
//! a set of victims may be missed. A gang that never preempts has no victims.
//!
//! Only strictly lower priorities are victims, so two gangs can never evict each other in turn. Extras never preempt. The answer
//! carries the plan that uses the room; without a plan there are no victims. Minimality rests on the planner saying "no"
//! only when that is proven; where its budget runs out, the domain is passed over.

mod bands;
pub mod incumbents;
mod search;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::budget::{Exhausted, Steps};
use crate::gang::Gang;
use crate::plan::{Options, Plan, impossible};
use crate::state::ClusterState;
use crate::topology::DomainId;

pub use incumbents::Incumbents;
use incumbents::{Kind, Unit};
use search::Search;

/// A pod that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningPod {
    /// Its name in the cluster state.
    pub name: String,
    /// The disruption budgets that protect it. A pod with more than one is never evicted, as the API server has it.
    pub budgets: Vec<Arc<str>>,
}

/// The pods of one group that run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningGroup {
    /// How many must stay.
    pub floor: u32,
    /// Its pods, oldest first; those beyond the floor are extras.
    pub pods: Vec<RunningPod>,
}

/// A gang that runs; an ungrouped pod is a gang of one group with one pod and a floor of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Running {
    /// Its name.
    pub name: String,
    /// Its priority.
    pub priority: i32,
    /// The gang it depends on; its own pods go when that one goes.
    pub base: Option<String>,
    /// Grows with every gang that was scheduled; the youngest has the highest.
    pub sequence: u64,
    /// Not to be touched now: its minimum run time is not over.
    pub protected: bool,
    /// Its groups.
    pub groups: Vec<RunningGroup>,
}

/// What happens to one gang.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Victim {
    /// The gang.
    pub gang: String,
    /// Its pods that go, sorted.
    pub pods: Vec<String>,
    /// The whole gang goes.
    pub whole: bool,
}

/// Who has to go, and what the room is used for.
#[derive(Debug, Clone, PartialEq)]
pub struct Preemption {
    /// Gangs that lose pods, by name.
    pub victims: Vec<Victim>,
    /// Where the floors of the gang go once the victims are gone.
    pub plan: Plan,
}

/// The answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Evict these.
    Possible(Preemption),
    /// Not even without every gang of lower priority.
    Impossible,
    /// The budget ran out before an answer was found.
    BudgetExhausted,
}

/// The highest priority among the victims, gangs hit, pods evicted: less is better.
type Harm = (i32, usize, usize);

/// Finds the least harmful victims that make room for the floors of a gang. Reads every running gang; callers with many
/// gangs keep [`Incumbents`] and ask [`preempt_among`].
pub fn preempt(state: &mut ClusterState, gang: &Gang, running: &[Running], options: &Options) -> Verdict {
    let incumbents = Incumbents::new(state, running);
    preempt_among(state, gang, &incumbents, options)
}

/// The same, with the running gangs kept up to date by the caller.
pub fn preempt_among(state: &mut ClusterState, gang: &Gang, incumbents: &Incumbents, options: &Options) -> Verdict {
    if gang.never_preempts || impossible(state, gang, options) {
        return Verdict::Impossible;
    }
    let mut steps = Steps::new(options.budget);
    let domains = candidate_domains(state, gang, options);
    let Ok(outlook) = bands::outlook(state, gang, incumbents, options, &domains, &mut steps) else {
        return Verdict::BudgetExhausted;
    };
    let mut best: Option<((Harm, usize), Preemption)> = None;
    let mut cut_off = false;
    for (least, at) in outlook {
        if best.as_ref().is_some_and(|(known, _)| *known <= (least, at)) {
            break;
        }
        let mut search = Search::new(state, gang, incumbents, options, domains[at], &mut steps);
        match search.run() {
            Ok(Some((chosen, plan))) => {
                let (harm, preemption) = sum_up(&chosen, plan);
                if best.as_ref().is_none_or(|(known, _)| (harm, at) < *known) {
                    best = Some(((harm, at), preemption));
                }
            }
            Ok(None) => {}
            Err(Exhausted) => cut_off = true,
        }
    }
    match best {
        Some((_, preemption)) => Verdict::Possible(preemption),
        None if cut_off => Verdict::BudgetExhausted,
        None => Verdict::Impossible,
    }
}

/// The domains of the outermost required level, or the one domain there is to plan in.
fn candidate_domains(state: &ClusterState, gang: &Gang, options: &Options) -> Vec<DomainId> {
    let Some(view) = state.view_named(&gang.topology).map(|at| state.view(at)) else {
        return Vec::new();
    };
    if let Some(path) = &options.within {
        return view.find(path).into_iter().collect();
    }
    let outer = gang
        .placement_group
        .as_ref()
        .and_then(|group| group.pack.required.as_ref());
    match outer.or(gang.pack.required.as_ref()).and_then(|key| view.depth_of(key)) {
        Some(depth) => view.inside(DomainId::ROOT, depth).to_vec(),
        None => vec![DomainId::ROOT],
    }
}

fn sum_up(units: &[&Unit], plan: Plan) -> (Harm, Preemption) {
    let mut victims: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut whole: BTreeSet<&str> = BTreeSet::new();
    let mut priority = i32::MIN;
    for unit in units {
        priority = priority.max(unit.priority);
        if unit.kind != Kind::Extra {
            whole.extend(unit.gangs.iter().map(AsRef::as_ref));
        }
        for gang in &unit.gangs {
            victims.entry(gang).or_default();
        }
        for pod in &unit.pods {
            victims.entry(&unit.gangs[pod.gang]).or_default().insert(&pod.name);
        }
    }
    let evicted = victims.values().map(BTreeSet::len).sum();
    let harm = (priority, victims.len(), evicted);
    let victims = victims.into_iter().map(|(gang, pods)| Victim {
        whole: whole.contains(gang),
        gang: gang.to_owned(),
        pods: pods.into_iter().map(str::to_owned).collect(),
    });
    let preemption = Preemption {
        victims: victims.collect(),
        plan,
    };
    (harm, preemption)
}
