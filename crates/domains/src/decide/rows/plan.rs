//! What the rows of a clique should be: a pure function of the stored rows and of what is known.
//!
//! Rows that are stored are kept with their index; only a confirmed departure removes one. Newcomers take the lowest free
//! index in the order of their names, so that a batch gives the same indices whoever computes it. Whatever the input, the
//! result has unique indices within bounds, and planning on its own result changes nothing.

use std::collections::BTreeSet;

use super::facts::{Check, CliqueFacts};
use super::index::Indices;
use super::owner::{Owner, names_pod, owner};
use crate::api::{DaemonRow, Readiness, limits};

/// How soon a change must be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Nothing changes.
    None,
    /// Only reports change: they wait for company.
    Lazy,
    /// Indices or addresses change: daemons and their peers wait for them.
    Soon,
}

/// A node that cannot have a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// All indices are held.
    Full {
        /// The node.
        node: String,
        /// How many nodes a domain may have within one clique.
        max: u32,
    },
}

/// What to store, and what to find out.
#[derive(Clone, Debug, PartialEq)]
pub struct RowsPlan {
    /// The rows to store, by index.
    pub rows: Vec<DaemonRow>,
    /// How soon.
    pub urgency: Urgency,
    /// Nodes that got no index.
    pub refused: Vec<Refusal>,
    /// Live reads that must be made before more can be decided.
    pub checks: Vec<Check>,
}

/// Plans the rows of one clique.
pub fn plan_rows(stored: &[DaemonRow], facts: &CliqueFacts, clique_id: &str, max: u32) -> RowsPlan {
    let mut plan = RowsPlan {
        rows: Vec::new(),
        urgency: Urgency::None,
        refused: Vec::new(),
        checks: Vec::new(),
    };
    if facts.deleting {
        plan.rows = stored.to_vec();
        return plan;
    }
    let mut indices = Indices::new(max);
    let mut seen = BTreeSet::new();
    let mut without_index = Vec::new();
    for row in in_order_of_trust(stored, max) {
        // A row that was stored is not added again by the same write, whatever becomes of it: its index may not change.
        seen.insert(row.node_name.clone());
        if let Some(kept) = settle(row, facts, &mut plan) {
            match kept.bounded_index(max) {
                Some(index) if indices.hold(index) => plan.rows.push(kept),
                None if kept.index.is_none() && is_sound(&kept, clique_id) => without_index.push(kept),
                // Another row has the index, or it is out of bounds: the row goes, and its node is a newcomer next time.
                _ => plan.urgency = Urgency::Soon,
            }
        }
    }
    without_index.sort_by(|left, right| left.node_name.cmp(&right.node_name));
    for row in without_index {
        let node = row.node_name.clone();
        add(row, &node, facts, &mut indices, max, &mut plan);
    }
    let members = facts.nodes.keys().filter(|node| facts.is_member(node));
    for node in members.filter(|node| !seen.contains(*node) && limits::is_node_name(node)) {
        let row = DaemonRow {
            node_name: node.clone(),
            clique_id: clique_id.to_owned(),
            ..DaemonRow::default()
        };
        let row = with_owner(row, facts, &mut Urgency::None);
        add(row, node, facts, &mut indices, max, &mut plan);
    }
    plan.rows.sort_by_key(|row| row.index);
    plan
}

fn add(row: DaemonRow, node: &str, facts: &CliqueFacts, indices: &mut Indices, max: u32, plan: &mut RowsPlan) {
    match indices.allocate(facts.former.get(node).copied()) {
        Some(index) => {
            plan.rows.push(DaemonRow {
                index: Some(index.into()),
                ..row
            });
            plan.urgency = Urgency::Soon;
        }
        None => plan.refused.push(Refusal::Full {
            node: node.to_owned(),
            max,
        }),
    }
}

/// Where two stored rows have one index (another writer, before the CRD had its rules), the one that is in use keeps it.
fn in_order_of_trust(stored: &[DaemonRow], max: u32) -> Vec<&DaemonRow> {
    let mut rows: Vec<&DaemonRow> = stored.iter().collect();
    let rank = |row: &DaemonRow| {
        let usable = row.bounded_index(max).is_some();
        (!usable, row.status != Readiness::Ready, row.ip_address.is_empty())
    };
    rows.sort_by(|left, right| (rank(left), &left.node_name).cmp(&(rank(right), &right.node_name)));
    rows
}

fn is_sound(row: &DaemonRow, clique_id: &str) -> bool {
    limits::is_node_name(&row.node_name) && row.clique_id == clique_id
}

/// What becomes of a stored row; none when it is released.
fn settle(row: &DaemonRow, facts: &CliqueFacts, plan: &mut RowsPlan) -> Option<DaemonRow> {
    let check = Check {
        node: row.node_name.clone(),
        pod_uid: row.pod_uid.clone(),
        address: row.ip_address.clone(),
    };
    let cached = facts.pods_of(&row.node_name);
    let checked = facts.checked.get(&row.node_name).filter(|result| result.check == check);
    if !facts.is_member(&row.node_name) {
        if checked.is_some_and(super::facts::CheckResult::confirms_departure) && cached.is_empty() {
            plan.urgency = Urgency::Soon;
            return None;
        }
        // While a pod is cached, its deletion will be watched; only then is there something to find out.
        if checked.is_none() && cached.is_empty() {
            plan.checks.push(check.clone());
        }
    }
    let mut kept = row.clone();
    let named = |pod: &&super::facts::PodFacts| names_pod(row, &pod.uid, &pod.address);
    let still_cached = cached.iter().filter(|pod| !pod.ended).any(|pod| named(&pod));
    let ended = cached.iter().filter(|pod| pod.ended).any(|pod| named(&pod));
    let deleted = row.pod_uid.as_ref().is_some_and(|uid| facts.deleted_pods.contains(uid));
    let gone = ended || deleted || checked.is_some_and(super::facts::CheckResult::confirms_pod_gone);
    match owner(cached) {
        // A pod that the cache does not have may be newer than all that it has: it keeps the row until it is known to be gone.
        Owner::Pod(_) if row.ip_address.is_empty() || still_cached || gone => {
            kept = with_owner(kept, facts, &mut plan.urgency);
        }
        Owner::Starting | Owner::Nobody if row.ip_address.is_empty() || still_cached => {}
        Owner::Starting | Owner::Nobody if gone => {
            retain(&mut kept);
            plan.urgency = Urgency::Soon;
        }
        // A daemon that writes its own row is about to.
        Owner::Pod(pod) if pod.writes_own_row => {}
        Owner::Pod(_) | Owner::Starting | Owner::Nobody => {
            if checked.is_none() && !plan.checks.contains(&check) {
                plan.checks.push(check);
            }
        }
    }
    Some(kept)
}

/// The node keeps its index without a daemon. A row without a pod becomes a reserved one.
fn retain(row: &mut DaemonRow) {
    row.ip_address.clear();
    row.status = Readiness::NotReady;
}

/// The row as its owner's state wants it. Daemons that write their own rows are left alone.
fn with_owner(mut row: DaemonRow, facts: &CliqueFacts, urgency: &mut Urgency) -> DaemonRow {
    let Owner::Pod(pod) = owner(facts.pods_of(&row.node_name)) else {
        return row;
    };
    if pod.writes_own_row || !limits::is_uid(&pod.uid) || limits::peer_address(&pod.address).is_none() {
        return row;
    }
    let same_place = row.ip_address == pod.address && row.pod_uid.as_ref().is_none_or(|uid| *uid == pod.uid);
    if !same_place {
        row.ip_address.clone_from(&pod.address);
        row.pod_uid = Some(pod.uid.clone());
        row.status = pod.ready.into();
        *urgency = Urgency::Soon;
    } else if row.status != Readiness::from(pod.ready) {
        row.status = pod.ready.into();
        *urgency = (*urgency).max(Urgency::Lazy);
    }
    row
}

#[cfg(test)]
mod tests;
