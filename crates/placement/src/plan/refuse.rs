//! Short reasons for a gang that has no placement.
//!
//! One to three reasons with bounded messages, cheap enough for every refusal; [`crate::explain`] has the long answer.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::gang::Gang;
use crate::predicates::RuledOut;
use crate::reasons::{Reason, ReasonCode};
use crate::shape::ShapeId;
use crate::state::{ClusterState, NodeId};
use crate::topology::DomainId;

use super::candidates;
use super::scopes::Scopes;
use super::table::{self, Excluded, Table};

/// Reasons that are given at most: one pod can ask for thousands of things that are not done.
const MOST: usize = 3;

/// What the gang asks for that is not done here.
pub(super) fn unsupported(state: &ClusterState, gang: &Gang) -> Vec<Reason> {
    let each = gang.groups.iter().flat_map(|group| {
        let refusals = state.shape_of(group.shape).demands.refusals(MOST);
        refusals.into_iter().map(move |refusal| {
            let message = format!("{}: {refusal}", group.name);
            Reason::new(ReasonCode::Unsupported, message)
        })
    });
    each.take(MOST).collect()
}

/// What the floors of the gang ask for that no node offers.
pub(crate) fn unoffered(state: &ClusterState, gang: &Gang) -> Vec<Reason> {
    let lacking = gang
        .groups
        .iter()
        .filter(|group| group.missing() > 0)
        .filter_map(|group| {
            let unoffered = &state.shape_of(group.shape).unoffered;
            let more = unoffered
                .count
                .checked_sub(unoffered.names.len())
                .filter(|_| unoffered.count > 0)?;
            let mut message = format!("{}: no node offers {}", group.name, unoffered.names.join(", "));
            if more > 0 {
                message.push_str(&format!(" and {more} more"));
            }
            Some(Reason::new(ReasonCode::PodExceedsEveryNode, message))
        });
    lacking.take(MOST).collect()
}

/// Pods of the gang's floors that would not fit on the largest node if it were empty.
pub(crate) fn too_large(state: &ClusterState, gang: &Gang) -> Vec<Reason> {
    let nodes = state.view(0).nodes_in(DomainId::ROOT);
    let mut reasons = unoffered(state, gang);
    let mut known: BTreeMap<ShapeId, Vec<String>> = BTreeMap::new();
    for group in gang.groups.iter().filter(|group| group.missing() > 0) {
        let exceeding = known.entry(group.shape).or_insert_with(|| {
            let requests = state.shape_of(group.shape).requests.iter();
            let exceeding = requests.filter_map(|(column, request)| {
                let most = nodes.iter().map(|node| state.allocatable_on(*node, *column)).max();
                let (most, name) = (most.unwrap_or(0), state.columns().name(*column));
                (most < *request).then(|| match most {
                    0 => format!("a pod requests {request} of {name}, which no node has"),
                    most => format!("a pod requests {request} of {name}, the largest node has {most}"),
                })
            });
            exceeding.take(MOST).collect()
        });
        let of_group = exceeding.iter().map(|text| format!("{}: {text}", group.name));
        reasons.extend(of_group.map(|message| Reason::new(ReasonCode::PodExceedsEveryNode, message)));
        if reasons.len() >= MOST {
            break;
        }
    }
    reasons.truncate(MOST);
    reasons
}

/// Why nothing was found.
pub(super) fn reasons(table: &Table<'_>, scopes: &Scopes, gang: &Gang, excluded: &Excluded<'_>) -> Vec<Reason> {
    let mut reasons = too_large(table.state, gang);
    if !reasons.is_empty() {
        return reasons;
    }
    let nodes = table.view().nodes_in(table.root);
    let mut hopeless: BTreeMap<ShapeId, bool> = BTreeMap::new();
    for group in gang.groups.iter().filter(|group| group.missing() > 0) {
        let eligible = |node: &NodeId| table::ruled_out(table.state, group.shape, *node, excluded).is_none();
        if *hopeless
            .entry(group.shape)
            .or_insert_with(|| !nodes.iter().any(eligible))
        {
            let by = |node: &NodeId| table::ruled_out(table.state, group.shape, *node, excluded);
            let causes = causes(nodes.iter().filter_map(by), gang);
            let message = format!("{}: all {} nodes are ruled out: {causes}", group.name, nodes.len());
            reasons.push(Reason::new(ReasonCode::NoEligibleNodes, message));
            if reasons.len() == MOST {
                break;
            }
        }
    }
    if !reasons.is_empty() {
        return reasons;
    }
    // A placement group that asks for nothing has nothing to say that the gang does not say too.
    let telling = |scope: &&super::scopes::Scope| !scope.idle() && (scope.rank > 0 || scope.constrained());
    let mut told = std::collections::BTreeSet::new();
    for scope in scopes.scopes.iter().filter(telling) {
        let possible = candidates::domains(table.view(), scope, table.root);
        let fits = |domain: DomainId| table.covers(domain, &scope.need);
        if possible.iter().any(|candidate| fits(candidate.domain)) {
            continue;
        }
        let best = possible.iter().max_by_key(|candidate| {
            let have = |(local, need): (usize, &u32)| table.sum(local, candidate.domain).min(u64::from(*need));
            let fit: u64 = scope.need.iter().enumerate().map(have).sum();
            (fit, Reverse(candidate.domain))
        });
        let need: u64 = scope.need.iter().map(|need| u64::from(*need)).sum();
        let code = if scope.pinned.is_some() {
            ReasonCode::PinnedDomainFull
        } else {
            ReasonCode::InsufficientResources
        };
        let message = match best {
            None => format!("{}: no domain has the labels", scope.name),
            Some(best) => {
                let have = |(local, need): (usize, &u32)| table.sum(local, best.domain).min(u64::from(*need));
                let fit: u64 = scope.need.iter().enumerate().map(have).sum();
                // A clique that is the whole gang has nothing to add.
                if !told.insert((best.domain, fit, need)) {
                    continue;
                }
                let place = table.view().describe(best.domain);
                format!(
                    "{}: {place} is the best place and has room for {fit} of {need} pods",
                    scope.name
                )
            }
        };
        reasons.push(Reason::new(code, message));
        if reasons.len() == MOST {
            break;
        }
    }
    if reasons.is_empty() {
        let message = "every part fits somewhere, but not all of them where they must be together";
        reasons.push(Reason::new(ReasonCode::DoesNotFitTogether, message));
    }
    reasons
}

/// What rules nodes out, the most frequent first, at most three of them.
fn causes(ruled_out: impl Iterator<Item = RuledOut>, gang: &Gang) -> String {
    let mut counts: BTreeMap<RuledOut, usize> = BTreeMap::new();
    ruled_out.for_each(|cause| *counts.entry(cause).or_default() += 1);
    let mut counts: Vec<(RuledOut, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, nodes)| Reverse(*nodes));
    let words = |(cause, nodes): &(RuledOut, usize)| {
        let (code, detail) = cause.told();
        let detail = match (cause, &gang.spread) {
            (RuledOut::Excluded, Some(spread)) if spread.hard => format!("over {} by other replicas", spread.key),
            _ => detail,
        };
        format!("{nodes} by {} {detail}", code.as_str()).trim_end().to_owned()
    };
    let told: Vec<String> = counts.iter().take(3).map(words).collect();
    told.join(", ")
}
