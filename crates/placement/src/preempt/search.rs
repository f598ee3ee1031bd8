//! A minimal set of victims in one domain.
//!
//! Units that free nothing the gang could be short of are left out. The others are lifted cheapest first, counting slots, until
//! there are enough, and from there on until the planner agrees; then as many as possible are spared again, dearest first,
//! large parts at once. Counting proves most "no"s without asking the planner. Where very many units had to be lifted, those on
//! nodes the plan does not use are spared at once.
//!
//! Leaves the state as it was, by its undo log.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::budget::{Exhausted, Steps};
use crate::gang::Gang;
use crate::plan::{Options, Outcome, Plan, excluded, plan_counted};
use crate::shape::ShapeId;
use crate::state::{ClusterState, Mark, NodeId};
use crate::topology::DomainId;

use super::bands;
use super::incumbents::{Incumbents, Unit, UnitPod};

/// More units than this are first cut down to those on the nodes of the plan.
const MANY: usize = 64;

/// A shape may not run on the node.
const NEVER: u32 = u32::MAX;

pub(super) struct Search<'a> {
    state: &'a mut ClusterState,
    gang: &'a Gang,
    incumbents: &'a Incumbents,
    options: Options,
    steps: &'a mut Steps,
    needs: Vec<(ShapeId, u32)>,
    /// Whoever could go and was not looked at yet, cheapest first.
    source: Box<dyn Iterator<Item = &'a Unit> + 'a>,
    /// Those that might help, as far as they were needed.
    units: Vec<&'a Unit>,
    /// By unit: it is lifted.
    gone: Vec<bool>,
    /// How many lifted units want each pod gone.
    lifted: BTreeMap<&'a str, u32>,
    /// How many more pods each disruption budget allows to go.
    allowed: BTreeMap<Arc<str>, u32>,
    /// Units that might have helped and would have exceeded a budget.
    passed_over: Vec<&'a Unit>,
    /// By shape and node: slots, or [`NEVER`].
    slots: Vec<Vec<u32>>,
    sums: Vec<u64>,
    /// By node: the columns worth freeing, as they were before anything was lifted.
    short: Vec<Option<BTreeSet<usize>>>,
    start: Mark,
}

impl<'a> Search<'a> {
    pub(super) fn new(
        state: &'a mut ClusterState,
        gang: &'a Gang,
        incumbents: &'a Incumbents,
        options: &Options,
        domain: DomainId,
        steps: &'a mut Steps,
    ) -> Self {
        let view = state
            .view_named(&gang.topology)
            .expect("the domain is one of this view");
        let nodes = state.view(view).nodes_in(domain).to_vec();
        let whole = domain == DomainId::ROOT;
        let within = (!whole).then(|| state.view(view).domain(domain).path.clone());
        let needs = bands::needs(gang);
        let excluded = excluded(state, view, gang, options);
        let mut slots = vec![vec![NEVER; excluded.len()]; needs.len()];
        let mut sums = vec![0; needs.len()];
        for (at, (shape, _)) in needs.iter().enumerate() {
            let demands = &state.shape_of(*shape).demands.node;
            let open = |node: &&NodeId| !excluded[node.index()] && demands.ruled_out(state.node(**node)).is_none();
            for node in nodes.iter().filter(open) {
                let room = state.room(*node, *shape).min(NEVER - 1);
                slots[at][node.index()] = room;
                sums[at] += u64::from(room);
            }
        }
        Self {
            start: state.mark(),
            options: Options {
                extras: false,
                within,
                ..options.clone()
            },
            source: incumbents.evictable(gang.priority, (!whole).then_some(&nodes)),
            units: Vec::new(),
            gone: Vec::new(),
            lifted: BTreeMap::new(),
            allowed: options.disruptions.clone(),
            passed_over: Vec::new(),
            short: vec![None; excluded.len()],
            state,
            gang,
            incumbents,
            steps,
            needs,
            slots,
            sums,
        }
    }

    /// Lifts the next unit that might help; false if there is none.
    fn next(&mut self) -> Result<bool, Exhausted> {
        while let Some(unit) = self.source.next() {
            self.steps.spend(1)?;
            if self.helps(unit) {
                if !self.is_allowed(unit) {
                    self.passed_over.push(unit);
                    continue;
                }
                self.units.push(unit);
                self.gone.push(false);
                self.set(self.units.len() - 1, true)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Whether no disruption budget is exceeded when the unit goes as well.
    fn is_allowed(&self, unit: &Unit) -> bool {
        let mut wanted: BTreeMap<&str, u32> = BTreeMap::new();
        let stays = |pod: &&UnitPod| self.lifted.get(&*pod.name).is_none_or(|units| *units == 0);
        for pod in unit.pods.iter().filter(stays) {
            match pod.budgets.as_slice() {
                [] => {}
                [budget] => *wanted.entry(budget).or_default() += 1,
                _ => return false,
            }
        }
        wanted
            .into_iter()
            .all(|(budget, pods)| self.allowed.get(budget).is_some_and(|allowed| pods <= *allowed))
    }

    /// Whether a pod of the unit holds something the gang could be short of where it is.
    fn helps(&mut self, unit: &Unit) -> bool {
        let mut helps = false;
        // Every node is looked at before one of its pods is lifted: what is short is a matter of the cluster as it is.
        for (node, shape) in unit.pods.iter().filter_map(|pod| pod.home) {
            if self.slots.iter().all(|slots| slots[node.index()] == NEVER) {
                continue;
            }
            let (state, incumbents, needs) = (&*self.state, self.incumbents, &self.needs);
            let columns = self.short[node.index()]
                .get_or_insert_with(|| bands::short(state, incumbents, self.gang.priority, needs, node));
            let described = state.shape_of(shape);
            let conflict = |(other, _): &(ShapeId, u32)| {
                described.conflicts.binary_search(other).is_ok() || (*other == shape && described.exclusive)
            };
            let mut asked = described.requests.iter();
            helps |= asked.any(|(column, _)| columns.contains(&column.index())) || needs.iter().any(conflict);
        }
        helps
    }

    /// The units of a minimal set, and the plan it makes possible.
    pub(super) fn run(&mut self) -> Result<Option<(Vec<&'a Unit>, Plan)>, Exhausted> {
        let mut found = self.find();
        self.state.rollback(self.start);
        if matches!(found, Ok(None)) && !self.passed_over.is_empty() {
            // Those that came first used up what a budget allows: the others come first once.
            self.begin_again();
            found = self.find();
            self.state.rollback(self.start);
        }
        let Some(plan) = found? else { return Ok(None) };
        let chosen = self.units.iter().zip(&self.gone).filter(|(_, gone)| **gone);
        Ok(Some((chosen.map(|(unit, _)| *unit).collect(), plan)))
    }

    /// Looks at those that might help once more, the ones first that were passed over.
    fn begin_again(&mut self) {
        let first = std::mem::take(&mut self.passed_over);
        let rest = std::mem::take(&mut self.units);
        self.source = Box::new(first.into_iter().chain(rest));
        self.gone.clear();
        self.lifted.clear();
        self.allowed.clone_from(&self.options.disruptions);
        for (at, (shape, _)) in self.needs.iter().enumerate() {
            self.sums[at] = 0;
            for (node, slots) in self.slots[at]
                .iter_mut()
                .enumerate()
                .filter(|(_, slots)| **slots != NEVER)
            {
                let node = NodeId(u32::try_from(node).expect("fewer than 2^32 nodes"));
                *slots = self.state.room(node, *shape).min(NEVER - 1);
                self.sums[at] += u64::from(*slots);
            }
        }
    }

    fn find(&mut self) -> Result<Option<Plan>, Exhausted> {
        while !self.enough() {
            if !self.next()? {
                return Ok(None);
            }
        }
        // From here on only the planner knows: fewer than `low` units are too few, all lifted ones may do.
        let (mut low, mut stride) = (self.units.len(), 1);
        let mut plan = loop {
            if let Some(plan) = self.ask()? {
                break plan;
            }
            low = self.units.len() + 1;
            for _ in 0..stride {
                if !self.next()? {
                    break;
                }
            }
            if self.units.len() < low {
                return Ok(None);
            }
            stride *= 2;
        };
        let mut high = self.units.len();
        while low < high {
            let middle = low.midpoint(high);
            for at in middle..high {
                self.set(at, false)?;
            }
            match self.ask()? {
                Some(better) => (plan, high) = (better, middle),
                None => {
                    for at in middle..high {
                        self.set(at, true)?;
                    }
                    low = middle + 1;
                }
            }
        }
        if high > MANY {
            plan = self.keep_used(high, plan)?;
        }
        self.spare(0, high, &mut plan)?;
        Ok(Some(plan))
    }

    /// Spares every unit that has no pod on a node of the plan: their room is not used.
    fn keep_used(&mut self, high: usize, plan: Plan) -> Result<Plan, Exhausted> {
        let used: BTreeSet<NodeId> = plan
            .bindings
            .iter()
            .filter_map(|binding| self.state.node_id(&binding.node))
            .collect();
        let unused: Vec<usize> = (0..high)
            .filter(|at| {
                let homes = self.units[*at].pods.iter().filter_map(|pod| pod.home);
                self.gone[*at] && !homes.into_iter().any(|(node, _)| used.contains(&node))
            })
            .collect();
        for at in &unused {
            self.set(*at, false)?;
        }
        if let Some(plan) = self.ask()? {
            return Ok(plan);
        }
        for at in unused {
            self.set(at, true)?;
        }
        Ok(plan)
    }

    /// Spares what can be spared between two positions, dearest first, large parts at once.
    fn spare(&mut self, from: usize, to: usize, plan: &mut Plan) -> Result<(), Exhausted> {
        let part: Vec<usize> = (from..to).filter(|at| self.gone[*at]).collect();
        if part.is_empty() {
            return Ok(());
        }
        for at in &part {
            self.set(*at, false)?;
        }
        if self.enough()
            && let Some(better) = self.ask()?
        {
            *plan = better;
            return Ok(());
        }
        for at in &part {
            self.set(*at, true)?;
        }
        if part.len() > 1 {
            let middle = part[part.len() / 2];
            self.spare(middle, to, plan)?;
            self.spare(from, middle, plan)?;
        }
        Ok(())
    }

    /// Whether there are slots enough, each shape taken alone.
    fn enough(&self) -> bool {
        let mut both = self.needs.iter().zip(&self.sums);
        both.all(|((_, need), sum)| u64::from(*need) <= *sum)
    }

    fn ask(&mut self) -> Result<Option<Plan>, Exhausted> {
        match plan_counted(self.state, self.gang, &self.options, self.steps) {
            Outcome::Placed(plan) => Ok(Some(plan)),
            Outcome::BudgetExhausted { .. } => Err(Exhausted),
            Outcome::Infeasible(_) | Outcome::Waiting(_) => Ok(None),
        }
    }

    /// Lifts a unit or puts it back.
    fn set(&mut self, at: usize, gone: bool) -> Result<(), Exhausted> {
        let unit = self.units[at];
        self.steps.spend(unit.pods.len())?;
        self.gone[at] = gone;
        for pod in &unit.pods {
            // The state is the truth about where a pod is.
            let Some(resident) = self.state.pod(&pod.name) else {
                continue;
            };
            let wanted = self.lifted.entry(&pod.name).or_default();
            if gone {
                *wanted += 1;
                if *wanted == 1 {
                    self.state.lift(resident.node, resident.shape, 1);
                    spend(&mut self.allowed, pod, true);
                }
            } else {
                *wanted -= 1;
                if *wanted == 0 {
                    self.state.place(resident.node, resident.shape, 1);
                    spend(&mut self.allowed, pod, false);
                }
            }
            self.touch(resident.node);
        }
        Ok(())
    }

    fn touch(&mut self, node: NodeId) {
        for (at, (shape, _)) in self.needs.iter().enumerate() {
            let slots = &mut self.slots[at][node.index()];
            if *slots != NEVER {
                let now = self.state.room(node, *shape).min(NEVER - 1);
                let before = std::mem::replace(slots, now);
                self.sums[at] = self.sums[at] + u64::from(now) - u64::from(before);
            }
        }
    }
}

/// Counts the eviction of a pod against its budget, or takes it back.
fn spend(allowed: &mut BTreeMap<Arc<str>, u32>, pod: &UnitPod, gone: bool) {
    for budget in &pod.budgets {
        if let Some(left) = allowed.get_mut(budget) {
            *left = if gone { left.saturating_sub(1) } else { *left + 1 };
        }
    }
}
