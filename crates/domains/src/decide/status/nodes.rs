//! The status of a domain from its rows and pods.
//!
//! `status.status` keeps the driver's meaning, which clients rely on: Ready when at least `numNodes` nodes have joined and
//! none is NotReady, so an empty elastic domain is Ready. What that does not say is in the Ready condition.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::{READY, Reason, TEMPLATES, set_condition};
use crate::api::{CliqueSummary, ComputeDomain, DaemonRow, DomainNode, DomainStatus, Readiness, limits};
use crate::decide::gates::RowProtocol;
use crate::decide::rows::{Phase, PodFacts, Refusal};

/// What is known of a domain.
#[derive(Clone, Debug, Default)]
pub struct StatusFacts {
    /// The stored rows of each clique.
    pub rows: BTreeMap<String, Vec<DaemonRow>>,
    /// Daemon pods on nodes without a fabric.
    pub pods_without_fabric: Vec<PodFacts>,
    /// Nodes that got no index.
    pub refused: Vec<Refusal>,
    /// Labelled nodes whose clique is not known.
    pub nodes_without_clique: Vec<String>,
    /// Whether the objects of the domain exist, or why not.
    pub objects: Option<(Reason, String)>,
    /// Whether IMEX daemons are run by the host.
    pub host_managed: bool,
    /// Pods that use the domain; only counted while it is being deleted.
    pub workload_pods: usize,
    /// How the domain's daemons report: through rows, or into the status themselves.
    pub protocol: RowProtocol,
}

/// The status that a domain should have. Equal to the stored one when nothing has changed.
pub fn roll_up(domain: &ComputeDomain, facts: &StatusFacts, now: Timestamp) -> DomainStatus {
    let stored = domain.status.clone().unwrap_or_default();
    let mut nodes = joined_nodes(&stored, facts);
    let mut truncated = 0;
    if nodes.len() > limits::MAX_STATUS_NODES {
        truncated = nodes.len() - limits::MAX_STATUS_NODES;
        nodes.truncate(limits::MAX_STATUS_NODES);
    }
    let total = nodes.len() + truncated;
    let ready = nodes.iter().filter(|node| node.status == Readiness::Ready).count();
    let enough = i64::try_from(total).unwrap_or(i64::MAX) >= domain.spec.num_nodes;
    let all_ready = ready == nodes.len();
    let (verdict, reason, message) = verdict(domain, facts, total, ready, enough);
    let mut conditions = stored.conditions;
    let generation = domain.metadata.generation;
    set_condition(&mut conditions, READY, verdict, reason, message, generation, now);
    let (created, reason, message) = match &facts.objects {
        None => (
            true,
            Reason::Created,
            "the DaemonSet and both ResourceClaimTemplates exist".to_owned(),
        ),
        Some((reason, message)) => (false, *reason, bounded(message)),
    };
    set_condition(&mut conditions, TEMPLATES, created, reason, message, generation, now);
    DomainStatus {
        status: (facts.host_managed || (enough && all_ready)).into(),
        nodes,
        cliques: summaries(facts),
        conditions,
        unknown: stored.unknown,
    }
}

fn joined_nodes(stored: &DomainStatus, facts: &StatusFacts) -> Vec<DomainNode> {
    let mut nodes: BTreeMap<String, DomainNode> = BTreeMap::new();
    // Daemons that were born with the clique gate off write their entries themselves; only they know them.
    if facts.protocol == RowProtocol::DomainStatus {
        let own = stored.nodes.iter().filter(|node| !node.clique_id.is_empty());
        nodes.extend(own.map(|node| (node.name.clone(), node.clone())));
    }
    for row in facts.rows.values().flatten().filter(|row| Phase::of(row).has_address()) {
        let entry = DomainNode {
            name: row.node_name.clone(),
            ip_address: row.ip_address.clone(),
            clique_id: row.clique_id.clone(),
            index: row.index.unwrap_or_default(),
            status: row.status,
            unknown: serde_json::Map::new(),
        };
        // A node between two cliques has two rows; the one that serves counts.
        let better = nodes
            .get(&row.node_name)
            .is_none_or(|known| known.status < entry.status);
        if better {
            nodes.insert(row.node_name.clone(), entry);
        }
    }
    for pod in facts
        .pods_without_fabric
        .iter()
        .filter(|pod| !pod.ended && !pod.address.is_empty())
    {
        nodes.entry(pod.node.clone()).or_insert_with(|| DomainNode {
            name: pod.node.clone(),
            ip_address: pod.address.clone(),
            clique_id: String::new(),
            index: -1,
            status: pod.ready.into(),
            unknown: serde_json::Map::new(),
        });
    }
    nodes.into_values().collect()
}

fn summaries(facts: &StatusFacts) -> Vec<CliqueSummary> {
    let count = |rows: &[DaemonRow], least: Phase| {
        u32::try_from(rows.iter().filter(|row| Phase::of(row) >= least).count()).unwrap_or(u32::MAX)
    };
    let summaries = facts.rows.iter().map(|(clique_id, rows)| CliqueSummary {
        clique_id: clique_id.clone(),
        assigned: count(rows, Phase::Reserved),
        present: count(rows, Phase::Present),
        ready: count(rows, Phase::Ready),
    });
    summaries.take(limits::MAX_STATUS_CLIQUES).collect()
}

fn verdict(
    domain: &ComputeDomain,
    facts: &StatusFacts,
    total: usize,
    ready: usize,
    enough: bool,
) -> (bool, Reason, String) {
    let wanted = domain.spec.num_nodes;
    if domain.is_deleting() {
        let pods = facts.workload_pods;
        return if pods > 0 {
            let message = format!("{pods} pods still use the domain; they lose NVLink across nodes");
            (false, Reason::DeletedUnderWorkload, message)
        } else {
            (false, Reason::Deleting, "the domain is being deleted".into())
        };
    }
    if facts.host_managed {
        return (true, Reason::HostManaged, "IMEX daemons are run by the host".into());
    }
    if let Some(Refusal::Full { node, max }) = facts.refused.first() {
        let others = more(facts.refused.len());
        let message =
            format!("node {node}{others} cannot join: its clique already has {max} nodes (maxNodesPerIMEXDomain)");
        return (false, Reason::CliqueFull, message);
    }
    let rows = || facts.rows.values().flatten();
    let in_phase = |phase: Phase| rows().filter(move |row| Phase::of(row) == phase);
    if let Some(node) = facts.nodes_without_clique.first() {
        let others = more(facts.nodes_without_clique.len());
        let message = format!("node {node}{others} publishes no clique: is its compute-domain kubelet plugin running?");
        return (false, Reason::FabricUnknown, message);
    }
    if let Some(row) = in_phase(Phase::Retained).next() {
        let others = more(in_phase(Phase::Retained).count());
        let message = format!(
            "{ready} of {total} nodes ready; the daemon pod of node {}{others} is gone",
            row.node_name
        );
        return (false, Reason::DaemonsLost, message);
    }
    if let Some(row) = in_phase(Phase::Reserved).next() {
        let others = more(in_phase(Phase::Reserved).count());
        let message = format!(
            "{ready} of {total} nodes ready; node {}{others} waits for its daemon pod",
            row.node_name
        );
        return (false, Reason::WaitingForDaemons, message);
    }
    if ready < total {
        let message = format!("{ready} of {total} nodes ready; nvidia-imex is not ready on the others");
        return (false, Reason::DaemonsNotReady, message);
    }
    if total == 0 && wanted <= 0 {
        return (
            false,
            Reason::NoNodes,
            "no pod with a claim on the domain has been scheduled".into(),
        );
    }
    if !enough {
        return (
            false,
            Reason::WaitingForNodes,
            format!("{total} of {wanted} nodes have joined"),
        );
    }
    (true, Reason::AllNodesReady, format!("{ready} of {total} nodes ready"))
}

fn more(count: usize) -> String {
    if count > 1 {
        format!(" and {} more", count - 1)
    } else {
        String::new()
    }
}

fn bounded(message: &str) -> String {
    message.chars().take(1_024).collect()
}

#[cfg(test)]
mod tests;
