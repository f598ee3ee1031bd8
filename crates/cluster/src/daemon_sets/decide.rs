//! What to do about the pods of a DaemonSet.
//!
//! Owns the pure decision: which nodes need a pod, which pods go, and what the status says. Never reads a clock.

use super::pod::Pod;
use super::view::{DaemonSet, Status, Strategy};
use crate::default_scheduler::fit;
use crate::node_view::Node;
use coppice_runtime::cache::Meta;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Creations and deletions in one round.
const BURST: usize = 250;

/// What to do now.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// The nodes that need a pod.
    pub(crate) create: Vec<Arc<str>>,
    pub(crate) delete: Vec<Meta>,
    pub(crate) status: Status,
    /// When a pod becomes available without a further event.
    pub(crate) wake: Option<Timestamp>,
}

/// Whether a node should run a pod of the set, and whether one that runs there may stay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Eligibility {
    pub(crate) run: bool,
    pub(crate) stay: bool,
}

/// Whether a DaemonSet wants a pod on a node.
pub(crate) fn eligibility(set: &DaemonSet, node: &Node) -> Eligibility {
    let placement = &set.placement;
    let named = placement.node_name.as_deref().filter(|name| !name.is_empty());
    let selected = named.is_none_or(|name| name == node.name())
        && placement
            .node_selector
            .iter()
            .all(|(key, value)| node.labels.get(key) == Some(value))
        && placement.required().is_none_or(|required| fit::matches(required, node));
    let untolerated = |effect: &str| {
        let mut taints = node.taints.iter().filter(|taint| taint.effect == effect);
        taints.any(|taint| {
            !placement
                .tolerations
                .iter()
                .any(|toleration| toleration.tolerates(taint))
        })
    };
    let stay = selected && !untolerated("NoExecute");
    Eligibility {
        run: stay && !untolerated("NoSchedule"),
        stay,
    }
}

/// Decides for one set, with all nodes by name and the set's own pods.
pub(crate) fn plan(set: &DaemonSet, nodes: &[Arc<Node>], pods: &[Arc<Option<Pod>>], now: Timestamp) -> Plan {
    let mut by_node: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in pods.iter().filter_map(|pod| pod.as_ref().as_ref()) {
        by_node.entry(&pod.node).or_default().push(pod);
    }
    for pods in by_node.values_mut() {
        // The oldest is the one that counts; a name decides between pods of the same second.
        pods.sort_by(|one, other| {
            let rank = |pod: &Pod| (!pod.bound, pod.created);
            rank(one)
                .cmp(&rank(other))
                .then_with(|| one.meta.key.cmp(&other.meta.key))
        });
    }
    let mut plan = Plan::default();
    plan.status.observed_generation = set.generation;
    let mut replaceable = Replaceable::default();
    for node in nodes {
        let eligible = eligibility(set, node);
        let pods = by_node.remove(node.name()).unwrap_or_default();
        count(set, &pods, eligible, now, &mut plan);
        let active = || pods.iter().filter(|pod| !pod.deleting);
        if !eligible.stay {
            plan.delete.extend(active().map(|pod| pod.meta.clone()));
            continue;
        }
        plan.delete
            .extend(active().filter(|pod| pod.ended).map(|pod| pod.meta.clone()));
        let running: Vec<&&Pod> = active().filter(|pod| !pod.ended).collect();
        plan.delete.extend(running.iter().skip(1).map(|pod| pod.meta.clone()));
        if pods.is_empty() && eligible.run {
            plan.create.push(node.meta.key.name.clone());
        }
        if eligible.run || !pods.is_empty() {
            replaceable.note(set, running.first().copied().copied(), now);
        }
    }
    // What is left is on nodes that are not there; bound pods are deleted with their node by another controller.
    let unbound = by_node.values().flatten().filter(|pod| !pod.bound && !pod.deleting);
    plan.delete.extend(unbound.map(|pod| pod.meta.clone()));
    if let Strategy::RollingUpdate { max_unavailable } = set.strategy {
        plan.delete
            .extend(replaceable.choose(max_unavailable.of(plan.status.desired_number_scheduled)));
    }
    plan.create.truncate(BURST);
    plan.delete.truncate(BURST);
    plan
}

fn count(set: &DaemonSet, pods: &[&Pod], eligible: Eligibility, now: Timestamp, plan: &mut Plan) {
    let status = &mut plan.status;
    if !eligible.run {
        status.number_misscheduled += usize::from(!pods.is_empty());
        return;
    }
    status.desired_number_scheduled += 1;
    let available = pods.first().and_then(|pod| pod.available_at(set.min_ready));
    if let Some(pod) = pods.first() {
        status.current_number_scheduled += 1;
        status.number_ready += usize::from(pod.ready_since.is_some());
        status.updated_number_scheduled += usize::from(pod.revision == set.revision);
    }
    match available {
        Some(moment) if moment <= now => status.number_available += 1,
        Some(moment) => {
            status.number_unavailable += 1;
            plan.wake = Some(plan.wake.map_or(moment, |wake| wake.min(moment)));
        }
        None => status.number_unavailable += 1,
    }
}

/// The pods of older templates, and how many nodes have no available pod of the current one.
#[derive(Default)]
struct Replaceable {
    unavailable: usize,
    /// Not available: nothing is lost with them.
    broken: Vec<Meta>,
    serving: Vec<Meta>,
}

impl Replaceable {
    fn note(&mut self, set: &DaemonSet, pod: Option<&Pod>, now: Timestamp) {
        let available = |pod: &Pod| pod.available_at(set.min_ready).is_some_and(|moment| moment <= now);
        match pod {
            None => self.unavailable += 1,
            Some(pod) if pod.revision == set.revision => self.unavailable += usize::from(!available(pod)),
            Some(pod) if available(pod) => self.serving.push(pod.meta.clone()),
            Some(pod) => {
                self.unavailable += 1;
                self.broken.push(pod.meta.clone());
            }
        }
    }

    fn choose(self, most_unavailable: usize) -> impl Iterator<Item = Meta> {
        let more = most_unavailable.saturating_sub(self.unavailable);
        self.broken.into_iter().chain(self.serving.into_iter().take(more))
    }
}

#[cfg(test)]
mod tests;
