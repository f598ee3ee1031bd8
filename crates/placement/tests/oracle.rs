//! An independent solver as oracle: on medium clusters the planner finds a placement exactly if a mixed-integer programme has
//! one, and loses no more preferred levels than the best there is.
//!
//! The programme knows nothing of the planner: whole numbers of pods per group and node, one yes-or-no per part and domain.
//! The solver and the planner may both give up on their budgets; how often is printed and bounded. A contradiction is a failure.

#![allow(clippy::print_stdout, reason = "the tally is worth reading")]

mod support;

use std::collections::BTreeMap;

use coppice_placement::{Options, Outcome, plan};
use microlp::{ComparisonOp, Error, OptimizationDirection, Problem, SolveOptions, SolveOutcome, Variable};
use support::medium::{Wishes, medium};
use support::{Instance, Random, Wish, reference};

/// What the solver found: the levels lost by rank, nothing, or that it does not know.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Oracle {
    Best([u32; 4]),
    Infeasible,
    Unknown,
}

/// Branch-and-bound nodes per question: deterministic, unlike a clock.
const NODES: u64 = 60;

/// Weights that make the sum of lost levels lexicographic: more than a rank can lose with what is below it.
const WEIGHTS: [f64; 4] = [8_000.0, 1_600.0, 40.0, 1.0];

struct Programme<'a> {
    instance: &'a Instance,
    problem: Problem,
    /// Pods of a group on a host.
    pods: Vec<BTreeMap<usize, Variable>>,
}

impl<'a> Programme<'a> {
    fn new(instance: &'a Instance) -> Self {
        let mut problem = Problem::new(OptimizationDirection::Minimize);
        let mut pods = Vec::new();
        for part in &instance.parts {
            let mut mine = BTreeMap::new();
            for (at, host) in instance.hosts.iter().enumerate().filter(|(_, host)| !host.tainted) {
                let by_cpu = if part.cpu > 0 { host.cpu / part.cpu } else { i64::MAX };
                let most = (host.gpu / part.gpu).min(by_cpu).min(i64::from(part.floor));
                if most > 0 {
                    mine.insert(at, problem.add_integer_var(0.0, (0, most as i32)));
                }
            }
            pods.push(mine);
        }
        let mut programme = Self {
            instance,
            problem,
            pods,
        };
        programme.room();
        programme
    }

    fn room(&mut self) {
        for (at, part) in self.instance.parts.iter().enumerate() {
            let all: Vec<(Variable, f64)> = self.pods[at].values().map(|pods| (*pods, 1.0)).collect();
            self.problem
                .add_constraint(&all, ComparisonOp::Eq, f64::from(part.floor));
        }
        for (at, host) in self.instance.hosts.iter().enumerate() {
            for (free, asks) in [(host.gpu, false), (host.cpu, true)] {
                let here: Vec<(Variable, f64)> = self
                    .pods
                    .iter()
                    .zip(&self.instance.parts)
                    .filter_map(|(pods, part)| {
                        let request = if asks { part.cpu } else { part.gpu };
                        pods.get(&at).map(|pods| (*pods, request as f64))
                    })
                    .collect();
                if !here.is_empty() {
                    self.problem.add_constraint(&here, ComparisonOp::Le, free as f64);
                }
            }
        }
    }

    /// The part may use one domain of the level; where that is only preferred, breaking it costs the weight.
    /// Returns the choice of every domain, in order.
    fn together(&mut self, members: &[usize], depth: usize, cost: Option<f64>) -> Vec<Variable> {
        let mut domains: BTreeMap<&[Option<u64>], Variable> = BTreeMap::new();
        for host in &self.instance.hosts {
            let path = &host.path[..depth];
            domains.entry(path).or_insert_with(|| self.problem.add_binary_var(0.0));
        }
        let mut chosen: Vec<(Variable, f64)> = domains.values().map(|choice| (*choice, 1.0)).collect();
        let apart = cost.map(|cost| self.problem.add_binary_var(cost));
        chosen.extend(apart.map(|apart| (apart, 1.0)));
        self.problem.add_constraint(&chosen, ComparisonOp::Eq, 1.0);
        for member in members {
            let floor = f64::from(self.instance.parts[*member].floor);
            // Per domain rather than per host: fewer rows, and nearer to whole numbers before branching.
            for (path, choice) in &domains {
                let inside = |at: &usize| self.instance.hosts[*at].path[..depth] == **path;
                let here: Vec<usize> = self.pods[*member].keys().copied().filter(inside).collect();
                let most: i64 = here.iter().map(|at| self.most(*member, *at)).sum();
                let most = (most as f64).min(floor);
                let mut row: Vec<(Variable, f64)> = here.iter().map(|at| (self.pods[*member][at], 1.0)).collect();
                row.push((*choice, -most));
                row.extend(apart.map(|apart| (apart, -most)));
                self.problem.add_constraint(&row, ComparisonOp::Le, 0.0);
            }
        }
        domains.into_values().collect()
    }

    /// Replicas that are alike may as well take domains in order.
    fn in_order(&mut self, first: &[Variable], second: &[Variable]) {
        let numbered = |list: &[Variable], sign: f64| -> Vec<(Variable, f64)> {
            let each = list.iter().enumerate();
            each.map(|(at, choice)| (*choice, sign * at as f64)).collect()
        };
        let row = [numbered(first, 1.0), numbered(second, -1.0)].concat();
        self.problem.add_constraint(&row, ComparisonOp::Le, 0.0);
    }

    fn most(&self, part: usize, host: usize) -> i64 {
        let (part, host) = (&self.instance.parts[part], &self.instance.hosts[host]);
        let by_cpu = if part.cpu > 0 { host.cpu / part.cpu } else { i64::MAX };
        (host.gpu / part.gpu).min(by_cpu).min(i64::from(part.floor))
    }

    /// The choices of the required level, if there is one.
    fn wish(&mut self, rank: usize, members: &[usize], wish: Wish) -> Option<Vec<Variable>> {
        if members.iter().all(|part| self.instance.parts[*part].floor == 0) {
            return None;
        }
        let required = wish.required.map(|depth| self.together(members, depth, None));
        for depth in wish.required.unwrap_or(0) + 1..=wish.preferred.unwrap_or(0) {
            self.together(members, depth, Some(WEIGHTS[rank]));
        }
        required
    }

    fn solve(&self) -> Oracle {
        let mut options = SolveOptions::default();
        options.node_limit = Some(NODES);
        match self.problem.solve_with(options) {
            Ok(SolveOutcome::Solution(solution)) if self.problem_is_optimal(&solution) => {
                let mut left = solution.objective().round();
                Oracle::Best(WEIGHTS.map(|weight| {
                    let lost = (left / weight).floor();
                    left -= lost * weight;
                    lost as u32
                }))
            }
            Err(Error::Infeasible) => Oracle::Infeasible,
            // A numerical failure is no answer either.
            _ => Oracle::Unknown,
        }
    }

    fn problem_is_optimal(&self, solution: &microlp::Solution) -> bool {
        matches!(solution.status(), microlp::SolutionStatus::Optimal)
    }
}

fn ask(instance: &Instance) -> Oracle {
    let mut programme = Programme::new(instance);
    let all: Vec<usize> = (0..instance.parts.len()).collect();
    programme.wish(0, &all, instance.outer);
    programme.wish(1, &all, instance.gang);
    // The generator makes all replicas of a gang alike.
    let mut previous: Option<Vec<Variable>> = None;
    for (at, wish) in instance.configs.iter().enumerate() {
        let mine: Vec<usize> = all
            .iter()
            .copied()
            .filter(|part| instance.parts[*part].config == Some(at))
            .collect();
        let choices = programme.wish(2, &mine, *wish);
        if let (Some(last), Some(this)) = (&previous, &choices) {
            programme.in_order(last, this);
        }
        previous = choices;
    }
    for at in all {
        programme.wish(3, &[at], instance.parts[at].wish);
    }
    programme.solve()
}

/// The same for one preferred level of the whole gang, as plain questions: does it fit in one domain of this level?
fn ask_by_level(instance: &Instance) -> Oracle {
    let (broadest, wanted) = (
        instance.gang.required.unwrap_or(0),
        instance.gang.preferred.unwrap_or(0),
    );
    for depth in (broadest..=wanted.max(broadest)).rev() {
        let mut question = instance.clone();
        question.gang = Wish {
            required: (depth > 0).then_some(depth),
            preferred: None,
        };
        match ask(&question) {
            Oracle::Best(_) => return Oracle::Best([0, wanted.saturating_sub(depth) as u32, 0, 0]),
            Oracle::Infeasible => {}
            Oracle::Unknown => return Oracle::Unknown,
        }
    }
    Oracle::Infeasible
}

#[derive(Debug, Default)]
struct Tally {
    placed: usize,
    refused: usize,
    /// The planner ran out of budget.
    undecided: usize,
    /// The solver ran out of nodes.
    unknown: usize,
    /// The planner lost more than the best.
    worse: usize,
}

fn compare(seeds: std::ops::Range<u64>, wishes: Wishes) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        let instance = medium(&mut Random::new(seed), wishes);
        let mut state = instance.state();
        let gang = instance.gang(&mut state);
        let outcome = plan(&mut state, &gang, &Options::default());
        let oracle = if wishes == Wishes::OnePreferred {
            ask_by_level(&instance)
        } else {
            ask(&instance)
        };
        tally.unknown += usize::from(oracle == Oracle::Unknown);
        match outcome {
            Outcome::Placed(plan) => {
                tally.placed += 1;
                let (floors, extras) = instance.hosts_of(&plan);
                assert_eq!(reference::check(&instance, &floors, &extras), Ok(()), "seed {seed}");
                assert_ne!(oracle, Oracle::Infeasible, "seed {seed}: placed what cannot be placed");
                let lost = reference::distances(&instance, &floors);
                assert_eq!(lost, plan.distances, "seed {seed}");
                if let Oracle::Best(best) = oracle {
                    assert!(lost >= best, "seed {seed}: {lost:?} is better than the best, {best:?}");
                    tally.worse += usize::from(lost > best);
                }
            }
            Outcome::Infeasible(reasons) => {
                tally.refused += 1;
                assert!(
                    !matches!(oracle, Oracle::Best(_)),
                    "seed {seed}: refused what can be placed: {reasons:?}\n{instance:#?}"
                );
            }
            Outcome::BudgetExhausted { .. } => tally.undecided += 1,
            Outcome::Waiting(waiting) => panic!("seed {seed}: {waiting:?}"),
        }
    }
    let total = tally.placed + tally.refused + tally.undecided;
    println!(
        "{wishes:?}: {total} gangs, {} placed, {} refused, {} undecided by the planner, {} by the solver, {} not the best",
        tally.placed, tally.refused, tally.undecided, tally.unknown, tally.worse
    );
    assert!(
        tally.placed * 5 > total && tally.refused * 20 > total,
        "{tally:?}: the generator leans to one side"
    );
    assert!(
        tally.unknown * 3 < total * 2,
        "{tally:?}: an oracle that mostly does not know is none"
    );
    tally
}

#[test]
fn required_packing_agrees_with_the_solver() {
    let tally = compare(0..90, Wishes::Required);
    assert!(tally.undecided <= 15, "{tally:?}");
}

#[test]
fn one_preferred_level_is_met_as_well_as_it_can_be() {
    let tally = compare(1_000..1_060, Wishes::OnePreferred);
    assert!(tally.undecided <= 10 && tally.worse == 0, "{tally:?}");
}

#[test]
fn many_wishes_come_close_to_the_best() {
    let tally = compare(2_000..2_060, Wishes::Many);
    assert!(tally.undecided <= 10 && tally.worse <= 10, "{tally:?}");
}
