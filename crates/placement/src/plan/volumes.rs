//! Choosing volumes for claims together with nodes for pods.
//!
//! A claim that is not bound restricts its pods twice: each must be within reach of *some* source of the claim, and all that
//! share the claim within reach of *one*. The first is a rule about nodes. For the second, the gang is planned by the first
//! rule alone; where the pods of a claim are then out of reach of each of its sources, the sources are tried one after the
//! other. Complete within the budget: nothing is ruled out unless every source was tried. The best plan by (distances,
//! extras left over) wins; a plan that is as good as the one without the second rule ends the search.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::budget::{Exhausted, Steps};
use crate::gang::Gang;
use crate::reasons::{Reason, ReasonCode};
use crate::state::{ClusterState, NodeId};

use super::reaches::{Reaches, Source};
use super::{ChosenVolume, Options, Outcome, Plan, within_reach};

/// What was decided about a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    /// Nothing yet: any of its sources.
    Open,
    /// This source.
    Source(usize),
    /// It is not served now: no pod that uses it is placed.
    Nowhere,
}

/// A claim, the nodes that some source reaches, and the source that was chosen.
struct Claim {
    what: String,
    sources: Vec<Source>,
    reached: BTreeSet<NodeId>,
    chosen: Choice,
}

/// The claims of one gang.
pub(crate) struct Claims(BTreeMap<String, Claim>);

impl Claims {
    /// Finds out which nodes each source of each claim reaches.
    pub(crate) fn of(state: &ClusterState, gang: &Gang, steps: &mut Steps) -> Result<Self, Exhausted> {
        let mut claims = BTreeMap::new();
        if gang.claims.is_empty() {
            return Ok(Self(claims));
        }
        let mut reaches = Reaches::new(state);
        for (name, claim) in &gang.claims {
            let mut sources = Vec::new();
            for source in &claim.sources {
                reaches.resolve(source, &mut sources, steps)?;
            }
            steps.spend(sources.iter().map(|source: &Source| source.nodes.len()).sum())?;
            let reached = sources.iter().flat_map(|source| source.nodes.iter().copied()).collect();
            let claim = Claim {
                what: claim.what.clone(),
                sources,
                reached,
                chosen: Choice::Open,
            };
            claims.insert(name.clone(), claim);
        }
        Ok(Self(claims))
    }

    /// What a claim is that cannot be served on a node.
    pub(crate) fn keeps_off(&self, name: &str, node: NodeId) -> Option<&str> {
        let claim = self.0.get(name)?;
        let reaches = match claim.chosen {
            Choice::Open => claim.reached.contains(&node),
            Choice::Source(at) => claim.sources[at].nodes.contains(&node),
            Choice::Nowhere => false,
        };
        (!reaches).then_some(claim.what.as_str())
    }

    /// The sources that all claims could have with their pods on these nodes, or the first claim for which there is none.
    /// A volume serves one claim.
    fn assign(
        &self,
        used: &BTreeMap<String, BTreeSet<NodeId>>,
        steps: &mut Steps,
    ) -> Result<Result<BTreeMap<String, usize>, String>, Exhausted> {
        let mut possible: Vec<(&str, Vec<usize>)> = Vec::new();
        for (name, nodes) in used {
            let claim = &self.0[name];
            steps.spend(claim.sources.len().saturating_mul(nodes.len()))?;
            let all = 0..claim.sources.len();
            let fits = all.filter(|at| [Choice::Open, Choice::Source(*at)].contains(&claim.chosen));
            let fits: Vec<usize> = fits.filter(|at| nodes.is_subset(&claim.sources[*at].nodes)).collect();
            if fits.is_empty() {
                return Ok(Err(name.clone()));
            }
            possible.push((name, fits));
        }
        // Claims with few possibilities first; then it is a matching of claims and volumes, found by augmenting paths.
        possible.sort_by_key(|(name, fits)| (fits.len(), *name));
        let mut holders: BTreeMap<&str, usize> = BTreeMap::new();
        let mut taken: Vec<Option<usize>> = vec![None; possible.len()];
        for at in 0..possible.len() {
            let mut visited = BTreeSet::new();
            if !self.augment(at, &possible, &mut taken, &mut holders, &mut visited, steps)? {
                return Ok(Err(possible[at].0.to_owned()));
            }
        }
        let named = possible.iter().zip(taken);
        Ok(Ok(named
            .filter_map(|((name, _), source)| Some(((*name).to_owned(), source?)))
            .collect()))
    }

    fn augment<'a>(
        &'a self,
        claim: usize,
        possible: &[(&str, Vec<usize>)],
        taken: &mut [Option<usize>],
        holders: &mut BTreeMap<&'a str, usize>,
        visited: &mut BTreeSet<&'a str>,
        steps: &mut Steps,
    ) -> Result<bool, Exhausted> {
        // A path is no longer than there are claims; kept here and not on the stack of the thread.
        let mut path: Vec<(usize, usize)> = vec![(claim, 0)];
        while let Some((at, next)) = path.pop() {
            steps.spend(1)?;
            let (name, fits) = &possible[at];
            let Some(source) = fits.get(next).copied() else {
                continue;
            };
            path.push((at, next + 1));
            let volume = self.0[*name].sources[source].volume.as_deref();
            let holder = match volume {
                Some(volume) if !visited.insert(volume) => continue,
                Some(volume) => holders.get(volume).copied(),
                None => None,
            };
            if let Some(holder) = holder {
                path.push((holder, 0));
                continue;
            }
            for (at, next) in path {
                let (name, fits) = &possible[at];
                let source = fits[next - 1];
                taken[at] = Some(source);
                if let Some(volume) = self.0[*name].sources[source].volume.as_deref() {
                    holders.insert(volume, at);
                }
            }
            return Ok(true);
        }
        Ok(false)
    }
}

/// Plans a gang whose pods may have claims.
pub(super) fn plan(
    state: &mut ClusterState,
    gang: &Gang,
    options: &Options,
    steps: &mut Steps,
) -> Result<Outcome, Exhausted> {
    let mut claims = Claims::of(state, gang, steps)?;
    let first = within_reach(state, gang, options, &claims, steps);
    let relaxed = match first {
        Outcome::Placed(relaxed) if !gang.claims.is_empty() => relaxed,
        other => return Ok(other),
    };
    let users = users(state, gang);
    let bound = (relaxed.distances, relaxed.left_over);
    let mut search = Search {
        state,
        gang,
        options,
        users,
        bound,
        best: None,
        cut: false,
        failed: BTreeSet::new(),
    };
    search.settle(relaxed, &mut claims, steps)?;
    let Search { best, cut, failed, .. } = search;
    Ok(match best {
        Some(plan) => Outcome::Placed(plan),
        None if cut => Outcome::BudgetExhausted { steps: steps.used() },
        None => Outcome::Infeasible(out_of_reach(&claims, &failed)),
    })
}

/// The groups that use each claim.
fn users(state: &ClusterState, gang: &Gang) -> BTreeMap<String, Vec<usize>> {
    let mut users: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, group) in gang.groups.iter().enumerate() {
        for name in &state.shape_of(group.shape).demands.claims {
            if gang.claims.contains_key(name) {
                users.entry(name.clone()).or_default().push(at);
            }
        }
    }
    users
}

fn out_of_reach(claims: &Claims, failed: &BTreeSet<String>) -> Vec<Reason> {
    let words = |name: &String| {
        let what = claims.0.get(name).map_or(name.as_str(), |claim| claim.what.as_str());
        let message =
            format!("{what}: no one place has the volume in reach of all pods that share it and room for them");
        Reason::new(ReasonCode::VolumeOutOfReach, message)
    };
    failed.iter().take(3).map(words).collect()
}

struct Search<'a> {
    state: &'a mut ClusterState,
    gang: &'a Gang,
    options: &'a Options,
    users: BTreeMap<String, Vec<usize>>,
    /// The score of the plan that minds no shared claim: no other is better.
    bound: ([u32; 4], u32),
    best: Option<Plan>,
    /// The budget ran out somewhere.
    cut: bool,
    failed: BTreeSet<String>,
}

impl Search<'_> {
    fn is_done(&self) -> bool {
        self.best
            .as_ref()
            .is_some_and(|best| (best.distances, best.left_over) <= self.bound)
    }

    /// Takes a plan if its claims can be served, or tries the sources of the first one that cannot.
    fn settle(&mut self, mut plan: Plan, claims: &mut Claims, steps: &mut Steps) -> Result<(), Exhausted> {
        let better = |best: &Plan| (plan.distances, plan.left_over) < (best.distances, best.left_over);
        if !self.best.as_ref().is_none_or(better) {
            return Ok(());
        }
        let used = self.used(&plan);
        let problem = match claims.assign(&used, steps)? {
            Ok(sources) => {
                plan.volumes = self.chosen(&plan, claims, &sources);
                self.best = Some(plan);
                return Ok(());
            }
            Err(problem) => problem,
        };
        // A claim whose source is chosen may have lost its volume to one that is still open.
        let open = |name: &&String| claims.0.get(*name).is_some_and(|claim| claim.chosen == Choice::Open);
        let turn = Some(&problem).filter(open).or_else(|| used.keys().find(open)).cloned();
        self.failed.insert(problem);
        let Some(turn) = turn else { return Ok(()) };
        let nodes = used.get(&turn).cloned().unwrap_or_default();
        let order = self.order(&turn, claims, &nodes, steps)?;
        for choice in order {
            if let Some(claim) = claims.0.get_mut(&turn) {
                claim.chosen = choice;
            }
            let found = within_reach(self.state, self.gang, self.options, claims, steps);
            let result = match found {
                Outcome::Placed(plan) => self.settle(plan, claims, steps),
                Outcome::BudgetExhausted { .. } => {
                    self.cut = true;
                    Ok(())
                }
                _ => Ok(()),
            };
            if result.is_err() {
                self.cut = true;
            }
            if self.is_done() || steps.left() == 0 {
                break;
            }
        }
        if let Some(claim) = claims.0.get_mut(&turn) {
            claim.chosen = Choice::Open;
        }
        Ok(())
    }

    /// What to try for a claim: its sources that have room for the floors of each group that uses it, those first that reach
    /// most of the nodes of the plan that failed, then those with most room; at last to do without the extras that use it.
    fn order(
        &self,
        name: &str,
        claims: &Claims,
        nodes: &BTreeSet<NodeId>,
        steps: &mut Steps,
    ) -> Result<Vec<Choice>, Exhausted> {
        let claim = &claims.0[name];
        let groups = self.users.get(name).map(Vec::as_slice).unwrap_or_default();
        let mut order = Vec::new();
        for (at, source) in claim.sources.iter().enumerate() {
            steps.spend(source.nodes.len().saturating_mul(groups.len().max(1)))?;
            let mut room_for_all = true;
            let mut most: u64 = 0;
            for group in groups.iter().map(|group| &self.gang.groups[*group]) {
                let each = source
                    .nodes
                    .iter()
                    .map(|node| u64::from(self.state.room(*node, group.shape)));
                let room = each.fold(0, u64::saturating_add);
                room_for_all &= room >= u64::from(group.missing());
                most = most.saturating_add(room);
            }
            if room_for_all {
                let reached = nodes.intersection(&source.nodes).count();
                order.push((Reverse(reached), Reverse(most), at));
            }
        }
        order.sort_unstable();
        let mut choices: Vec<Choice> = order.into_iter().map(|(_, _, at)| Choice::Source(at)).collect();
        let needed =
            |group: &usize| self.gang.groups[*group].missing() > 0 || !self.gang.groups[*group].bound.is_empty();
        if !groups.iter().any(needed) {
            choices.push(Choice::Nowhere);
        }
        Ok(choices)
    }

    /// The nodes of the pods that use each claim.
    fn used(&self, plan: &Plan) -> BTreeMap<String, BTreeSet<NodeId>> {
        let mut by_group: BTreeMap<usize, BTreeSet<NodeId>> = BTreeMap::new();
        for binding in &plan.bindings {
            let node = self.state.node_id(&binding.node);
            by_group.entry(binding.group).or_default().extend(node);
        }
        let users = self.users.iter();
        users
            .map(|(name, groups)| {
                let mut nodes = BTreeSet::new();
                for group in groups {
                    nodes.extend(by_group.get(group).into_iter().flatten());
                    let bound = &self.gang.groups[*group].bound;
                    nodes.extend(bound.iter().filter_map(|node| self.state.node_id(node)));
                }
                (name.clone(), nodes)
            })
            .filter(|(_, nodes)| !nodes.is_empty())
            .collect()
    }

    fn chosen(
        &self,
        plan: &Plan,
        claims: &Claims,
        sources: &BTreeMap<String, usize>,
    ) -> BTreeMap<String, ChosenVolume> {
        let mut chosen = BTreeMap::new();
        for (name, source) in sources {
            let groups = self.users.get(name).map(Vec::as_slice).unwrap_or_default();
            let mut bindings = plan.bindings.iter();
            let Some(first) = bindings.find(|binding| groups.contains(&binding.group)) else {
                continue;
            };
            let volume = ChosenVolume {
                volume: claims.0[name].sources[*source].volume.clone(),
                node: first.node.clone(),
            };
            chosen.insert(name.clone(), volume);
        }
        chosen
    }
}
