//! Preemption: room for a gang at the expense of gangs with lower priority.
//!
//! Victims are taken in units that leave nobody half alive: single extras (pods above a floor), whole scaled gangs, and a base
//! gang together with the gangs that depend on it. The search is local: one candidate domain of the outermost required level
//! at a time (the whole cluster if there is none). In a domain, units are added cheapest first until the gang's floors fit,
//! then as many as possible are spared again, so no victim of the answer could be left out. Among domains the one with
//! the least harm wins.
//!
//! Only strictly lower priorities are victims, so two gangs can never evict each other in turn. Extras never preempt. The answer
//! carries the plan that uses the room; without a plan there are no victims. Minimality rests on the planner saying "no"
//! only when that is proven; where its budget runs out, the domain is passed over.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::budget::{Exhausted, Steps};
use crate::gang::Gang;
use crate::plan::{Options, Outcome, Plan, plan_counted};
use crate::state::{ClusterState, NodeId};
use crate::topology::{DomainId, DomainPath};

/// A pod that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningPod {
    /// Its name in the cluster state.
    pub name: String,
    /// Evicting it would violate a disruption budget.
    pub guarded: bool,
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
    /// Evictions that violate a disruption budget.
    pub violations: usize,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Extra,
    Scaled,
    Base,
}

#[derive(Debug, Clone)]
struct Unit {
    kind: Kind,
    /// Indices of the gangs that are hit; the first gives the unit its place in the order.
    gangs: Vec<usize>,
    priority: i32,
    pods: Vec<String>,
    violations: usize,
}

/// Finds the least harmful victims that make room for the floors of a gang.
pub fn preempt(state: &mut ClusterState, gang: &Gang, running: &[Running], options: &Options) -> Verdict {
    let units = units(gang.priority, running);
    let home = |pod: &String| state.pod(pod).map(|resident| resident.node);
    let homes: Vec<Vec<NodeId>> = units
        .iter()
        .map(|unit| unit.pods.iter().filter_map(home).collect())
        .collect();
    let mut steps = Steps::new(options.budget);
    let mut best: Option<((i32, usize, usize, usize), Preemption)> = None;
    let mut cut_off = false;
    for within in candidate_domains(state, gang, options) {
        let local = local_units(state, gang, &within, &units, &homes);
        let mut search = Search {
            state,
            gang,
            options: Options {
                extras: false,
                within,
                ..options.clone()
            },
            units: &local,
            steps: &mut steps,
        };
        match search.run() {
            Ok(Some((chosen, plan))) => {
                let (harm, preemption) = sum_up(running, &local, &chosen, plan);
                if best.as_ref().is_none_or(|(least, _)| harm < *least) {
                    best = Some((harm, preemption));
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

fn candidate_domains(state: &ClusterState, gang: &Gang, options: &Options) -> Vec<Option<DomainPath>> {
    let outer = gang
        .placement_group
        .as_ref()
        .and_then(|group| group.pack.required.as_ref());
    let level = outer.or(gang.pack.required.as_ref());
    let (Some(view), Some(key), None) = (state.view_named(&gang.topology), level, &options.within) else {
        return vec![options.within.clone()];
    };
    let view = state.view(view);
    let Some(depth) = view.depth_of(key) else {
        return vec![None];
    };
    let inside = view.inside(DomainId::ROOT, depth).iter();
    inside.map(|id| Some(view.domain(*id).path.clone())).collect()
}

/// Everything that may be evicted, cheapest first.
fn units(priority: i32, running: &[Running]) -> Vec<Unit> {
    let mut units = Vec::new();
    let mut dependents: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, gang) in running.iter().enumerate() {
        if let Some(base) = &gang.base {
            dependents.entry(base).or_default().push(at);
        }
    }
    for (at, gang) in running.iter().enumerate() {
        let dependents = dependents.get(gang.name.as_str()).into_iter().flatten().copied();
        let gangs: Vec<usize> = std::iter::once(at).chain(dependents).collect();
        let lower = |at: &usize| running[*at].priority < priority && !running[*at].protected;
        if lower(&at) {
            for group in &gang.groups {
                for pod in group.pods.iter().skip(group.floor as usize).rev() {
                    units.push(unit(Kind::Extra, vec![at], running, std::slice::from_ref(pod)));
                }
            }
        }
        if gangs.iter().all(lower) {
            let kind = if gang.base.is_some() { Kind::Scaled } else { Kind::Base };
            let groups = gangs.iter().flat_map(|at| &running[*at].groups);
            let pods: Vec<RunningPod> = groups.flat_map(|group| group.pods.iter().cloned()).collect();
            if !pods.is_empty() {
                units.push(unit(kind, gangs, running, &pods));
            }
        }
    }
    units.sort_by_cached_key(|unit| {
        let first = &running[unit.gangs[0]];
        let size = unit.pods.len();
        (
            unit.priority,
            unit.kind,
            unit.violations,
            size,
            Reverse(first.sequence),
            first.name.clone(),
            unit.pods.clone(),
        )
    });
    units
}

fn unit(kind: Kind, gangs: Vec<usize>, running: &[Running], pods: &[RunningPod]) -> Unit {
    Unit {
        kind,
        priority: gangs.iter().map(|at| running[*at].priority).max().unwrap_or(i32::MIN),
        gangs,
        pods: pods.iter().map(|pod| pod.name.clone()).collect(),
        violations: pods.iter().filter(|pod| pod.guarded).count(),
    }
}

/// Units with a pod in the domain; `homes` are the nodes of each unit's pods.
fn local_units(
    state: &ClusterState,
    gang: &Gang,
    within: &Option<DomainPath>,
    units: &[Unit],
    homes: &[Vec<NodeId>],
) -> Vec<Unit> {
    let view = state.view_named(&gang.topology).map(|at| state.view(at));
    let domain = within.as_ref().and_then(|path| view.and_then(|view| view.find(path)));
    let (Some(view), Some(domain)) = (view, domain) else {
        return units.to_vec();
    };
    let here = |nodes: &Vec<NodeId>| nodes.iter().any(|node| view.holds(domain, *node));
    let both = units.iter().zip(homes);
    both.filter(|(_, nodes)| here(nodes))
        .map(|(unit, _)| unit.clone())
        .collect()
}

struct Search<'a> {
    state: &'a mut ClusterState,
    gang: &'a Gang,
    options: Options,
    units: &'a [Unit],
    steps: &'a mut Steps,
}

impl Search<'_> {
    /// A minimal set of units, as flags, and the plan it makes possible.
    fn run(&mut self) -> Result<Option<(Vec<bool>, Plan)>, Exhausted> {
        let all = self.units.len();
        if self.try_without(&vec![true; all])?.is_none() {
            return Ok(None);
        }
        let prefix = |length: usize| (0..all).map(|at| at < length).collect::<Vec<bool>>();
        let (mut low, mut high) = (0, all);
        while low < high {
            let middle = low.midpoint(high);
            if self.try_without(&prefix(middle))?.is_some() {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let mut chosen = prefix(high);
        self.spare(&mut chosen, 0, high)?;
        Ok(self.try_without(&chosen)?.map(|plan| (chosen, plan)))
    }

    /// Spares what can be spared between two positions, dearest first, large parts at once.
    fn spare(&mut self, chosen: &mut [bool], from: usize, to: usize) -> Result<(), Exhausted> {
        if from == to {
            return Ok(());
        }
        let mut without = chosen.to_vec();
        without[from..to].fill(false);
        if self.try_without(&without)?.is_some() {
            chosen.copy_from_slice(&without);
            return Ok(());
        }
        if to - from > 1 {
            let middle = from.midpoint(to);
            self.spare(chosen, middle, to)?;
            self.spare(chosen, from, middle)?;
        }
        Ok(())
    }

    /// The plan if the chosen units were gone.
    fn try_without(&mut self, chosen: &[bool]) -> Result<Option<Plan>, Exhausted> {
        let units = self.units.iter().zip(chosen).filter(|(_, chosen)| **chosen);
        let pods: BTreeSet<&String> = units.flat_map(|(unit, _)| &unit.pods).collect();
        self.steps.spend(pods.len() + 1)?;
        let mark = self.state.mark();
        for pod in pods {
            if let Some(resident) = self.state.pod(pod) {
                self.state.lift(resident.node, resident.shape, 1);
            }
        }
        let outcome = plan_counted(self.state, self.gang, &self.options, self.steps);
        self.state.rollback(mark);
        match outcome {
            Outcome::Placed(plan) => Ok(Some(plan)),
            Outcome::BudgetExhausted { .. } => Err(Exhausted),
            Outcome::Infeasible(_) | Outcome::Waiting(_) => Ok(None),
        }
    }
}

fn sum_up(
    running: &[Running],
    units: &[Unit],
    chosen: &[bool],
    plan: Plan,
) -> ((i32, usize, usize, usize), Preemption) {
    let mut victims: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut priority = i32::MIN;
    let mut whole: BTreeSet<&String> = BTreeSet::new();
    for (unit, _) in units.iter().zip(chosen).filter(|(_, chosen)| **chosen) {
        priority = priority.max(unit.priority);
        for gang in unit.gangs.iter().map(|at| &running[*at]) {
            if unit.kind != Kind::Extra {
                whole.insert(&gang.name);
            }
            let pods = gang.groups.iter().flat_map(|group| &group.pods).map(|pod| &pod.name);
            let mine = pods.filter(|pod| unit.pods.contains(pod)).cloned();
            victims.entry(gang.name.clone()).or_default().extend(mine);
        }
    }
    let evicted: BTreeSet<&String> = victims.values().flatten().collect();
    let guarded = running
        .iter()
        .flat_map(|gang| &gang.groups)
        .flat_map(|group| &group.pods);
    let violations = guarded.filter(|pod| pod.guarded && evicted.contains(&pod.name)).count();
    let harm = (priority, victims.len(), evicted.len(), violations);
    let victims = victims.into_iter().map(|(gang, pods)| Victim {
        whole: whole.contains(&gang),
        gang,
        pods: pods.into_iter().collect(),
    });
    let preemption = Preemption {
        victims: victims.collect(),
        violations,
        plan,
    };
    (harm, preemption)
}
