//! What-if questions: each changes one thing and asks the planner again.

use std::collections::{BTreeMap, BTreeSet};

use crate::gang::{Gang, Pack};
use crate::plan::survey::{Level, Survey};
use crate::plan::{Options, plan};
use crate::predicates::{Node, RuledOut, Toleration};
use crate::preempt::{self, Running};
use crate::reasons::{Reason, ReasonCode};
use crate::shape::PodDemands;
use crate::state::ClusterState;
use crate::topology::DomainId;

use super::{LIST_LIMIT, Remedy, RemedyCode, rule};

/// A remedy that works, and what it says about the cause.
pub(super) struct Trial {
    pub(super) remedy: Remedy,
    pub(super) cause: Option<Reason>,
}

/// More new nodes than this are not suggested.
const NEW_NODES: usize = 256;

/// Asks all questions; `state` is scratch space and may be left with more shapes than before.
pub(super) fn find(
    state: &mut ClusterState,
    gang: &Gang,
    running: &[Running],
    options: &Options,
    survey: &Survey,
) -> Vec<Trial> {
    let mut found = Vec::new();
    rules(state, gang, options, survey, &mut found);
    packing(state, gang, options, &mut found);
    evictions(state, gang, running, options, &mut found);
    nodes(state, gang, options, survey, &mut found);
    found
}

fn fits(state: &mut ClusterState, gang: &Gang, options: &Options) -> bool {
    let floors = Options {
        extras: false,
        ..options.clone()
    };
    plan(state, gang, &floors).plan().is_some()
}

/// The gang with other demands for every group.
fn with_demands(state: &mut ClusterState, gang: &Gang, change: impl Fn(&mut PodDemands)) -> Gang {
    let mut other = gang.clone();
    for group in &mut other.groups {
        let mut demands = state.shape_of(group.shape).demands.clone();
        change(&mut demands);
        group.shape = state.shape(&demands);
    }
    other
}

fn tolerate(key: &str, value: &str, effect: Option<crate::predicates::Effect>) -> Toleration {
    Toleration {
        key: Some(key.to_owned()),
        value: Some(value.to_owned()),
        effect,
    }
}

fn rules(state: &mut ClusterState, gang: &Gang, options: &Options, survey: &Survey, found: &mut Vec<Trial>) {
    let mut counts: BTreeMap<&RuledOut, usize> = BTreeMap::new();
    for (reason, nodes) in survey.ruled_out.iter().flat_map(|(_, counts)| counts) {
        let count = counts.entry(reason).or_default();
        *count = (*count).max(*nodes);
    }
    let mut tried: BTreeSet<ReasonCode> = BTreeSet::new();
    for (reason, nodes) in counts.into_iter().take(LIST_LIMIT) {
        let (code, detail) = rule(reason);
        let (helps, remedy, text) = match reason {
            RuledOut::Taint(taint) => {
                let add = tolerate(&taint.key, &taint.value, Some(taint.effect));
                let other = with_demands(state, gang, |demands| demands.node.tolerations.push(add.clone()));
                let text = format!("tolerate taint {detail} or remove it from {nodes} nodes");
                (fits(state, &other, options), RemedyCode::Taint, text)
            }
            RuledOut::Unschedulable => {
                let add = tolerate("node.kubernetes.io/unschedulable", "", None);
                let other = with_demands(state, gang, |demands| demands.node.tolerations.push(add.clone()));
                (
                    fits(state, &other, options),
                    RemedyCode::Uncordon,
                    format!("uncordon nodes ({nodes} are cordoned)"),
                )
            }
            RuledOut::NotReady => {
                let mut other = state.clone();
                other.put_nodes(changed_nodes(state, |node| std::mem::take(&mut node.not_ready)));
                (
                    fits(&mut other, gang, options),
                    RemedyCode::RepairNodes,
                    format!("{nodes} nodes are not ready"),
                )
            }
            RuledOut::NodeSelector(key) => {
                let other = with_demands(state, gang, |demands| {
                    demands.node.selector.remove(key);
                });
                let text = format!("drop or change {key} in the node selector ({nodes} nodes do not match)");
                (fits(state, &other, options), RemedyCode::NodeSelector, text)
            }
            RuledOut::NodeAffinity => {
                let other = with_demands(state, gang, |demands| demands.node.required.clear());
                let text = format!("change the required node affinity ({nodes} nodes do not match)");
                (fits(state, &other, options), RemedyCode::NodeAffinity, text)
            }
            RuledOut::Excluded => {
                let mut other = gang.clone();
                other.spread.iter_mut().for_each(|spread| spread.hard = false);
                let open = Options {
                    held: Vec::new(),
                    ..options.clone()
                };
                let text = format!("release {nodes} nodes held for others, or let replicas of the set share a domain");
                (fits(state, &other, &open), RemedyCode::ReleaseDomains, text)
            }
        };
        if helps {
            let message = format!(
                "{nodes} nodes are ruled out ({}); with them the gang fits",
                text_of(code, &detail)
            );
            let cause = tried.insert(code).then(|| Reason::new(code, message));
            found.push(Trial {
                remedy: Remedy { code: remedy, text },
                cause,
            });
        }
    }
    let clashes: usize = survey.conflicts.iter().map(|(_, nodes)| *nodes).max().unwrap_or(0);
    let other = with_demands(state, gang, |demands| {
        demands.host_ports.clear();
        demands.keep_apart.clear();
        demands.labels.clear();
    });
    if other != *gang && fits(state, &other, options) {
        let message =
            format!("host ports or anti-affinity keep pods apart ({clashes} nodes with room are blocked by others)");
        found.push(Trial {
            remedy: Remedy {
                code: RemedyCode::ShareNodes,
                text: "drop host ports or anti-affinity on the host name".into(),
            },
            cause: Some(Reason::new(ReasonCode::NodeConflict, message)),
        });
    }
}

fn text_of(code: ReasonCode, detail: &str) -> String {
    match detail {
        "" => code.as_str().to_owned(),
        detail => format!("{} {detail}", code.as_str()),
    }
}

fn changed_nodes(state: &ClusterState, mut change: impl FnMut(&mut Node) -> bool) -> Vec<Node> {
    let all = state.view(0).nodes_in(DomainId::ROOT).iter();
    let copies = all.map(|id| state.node(*id).clone());
    copies
        .filter_map(|mut node| change(&mut node).then_some(node))
        .collect()
}

fn relax(pack: &mut Pack) -> Option<String> {
    let key = pack.required.take()?;
    pack.preferred.get_or_insert_with(|| key.clone());
    Some(key)
}

fn packing(state: &mut ClusterState, gang: &Gang, options: &Options, found: &mut Vec<Trial>) {
    if gang
        .placement_group
        .as_ref()
        .is_some_and(|group| group.pinned.is_some())
    {
        let mut other = gang.clone();
        other.placement_group.iter_mut().for_each(|group| group.pinned = None);
        if fits(state, &other, options) {
            found.push(Trial {
                remedy: Remedy {
                    code: RemedyCode::Unpin,
                    text: "let the gang leave the domain of its placement group".into(),
                },
                cause: None,
            });
        }
    }
    let mut trials: Vec<(String, Gang)> = Vec::new();
    let mut other = gang.clone();
    if let Some(key) = other.placement_group.as_mut().and_then(|group| relax(&mut group.pack)) {
        trials.push((format!("the placement group in one {key}"), other));
    }
    let mut other = gang.clone();
    if let Some(key) = relax(&mut other.pack) {
        trials.push((format!("the gang in one {key}"), other));
    }
    let keys: BTreeSet<&String> = gang
        .configs
        .iter()
        .filter_map(|config| config.pack.required.as_ref())
        .collect();
    for key in keys {
        let mut other = gang.clone();
        let same = other
            .configs
            .iter_mut()
            .filter(|config| config.pack.required.as_ref() == Some(key));
        same.for_each(|config| drop(relax(&mut config.pack)));
        trials.push((format!("each scaling-group replica in one {key}"), other));
    }
    for at in 0..gang.groups.len() {
        let mut other = gang.clone();
        if let Some(key) = relax(&mut other.groups[at].pack) {
            trials.push((format!("{} in one {key}", gang.groups[at].name), other));
        }
    }
    for (what, other) in trials.into_iter().take(LIST_LIMIT) {
        if fits(state, &other, options) {
            found.push(Trial {
                remedy: Remedy {
                    code: RemedyCode::RelaxPacking,
                    text: format!("only prefer {what} instead of requiring it"),
                },
                cause: None,
            });
        }
    }
}

fn evictions(state: &mut ClusterState, gang: &Gang, running: &[Running], options: &Options, found: &mut Vec<Trial>) {
    let preempt::Verdict::Possible(answer) = preempt::preempt(state, gang, running, options) else {
        return;
    };
    if answer.victims.is_empty() {
        return;
    }
    let pods: usize = answer.victims.iter().map(|victim| victim.pods.len()).sum();
    let names: Vec<&str> = answer
        .victims
        .iter()
        .map(|victim| victim.gang.as_str())
        .take(5)
        .collect();
    let more = if answer.victims.len() > names.len() {
        ", ..."
    } else {
        ""
    };
    found.push(Trial {
        remedy: Remedy {
            code: RemedyCode::Preempt,
            text: format!("evict {pods} pods of lower priority ({}{more})", names.join(", ")),
        },
        cause: None,
    });
}

/// How many more nodes like those it has would the best domain need?
fn nodes(state: &mut ClusterState, gang: &Gang, options: &Options, survey: &Survey, found: &mut Vec<Trial>) {
    let short =
        |level: &&Level| level.slots.iter().any(|slots| slots.have < u64::from(slots.need)) || !level.lacks.is_empty();
    let narrow = survey.levels.iter().filter(|level| level.required).find(short);
    let whole = || survey.levels.iter().find(|level| level.depth == 0);
    let Some(level) = narrow.or_else(whole) else { return };
    let Some(at) = state.view_named(&gang.topology) else {
        return;
    };
    let Some(template) = template(state, at, gang, level.domain) else {
        return;
    };
    let place = state.view(at).describe(level.domain);
    let enough = |count: usize| {
        let mut other = state.clone();
        other.put_nodes((0..count).map(|number| {
            let mut node = template.clone();
            node.name = format!("what-if-{number}");
            let own = node.labels.values_mut().filter(|value| **value == template.name);
            own.for_each(|value| *value = format!("what-if-{number}"));
            node
        }));
        fits(&mut other, gang, options)
    };
    let mut high = 1;
    while high <= NEW_NODES && !enough(high) {
        high *= 2;
    }
    if high > NEW_NODES {
        return;
    }
    let mut low = high / 2 + 1;
    while low < high {
        let middle = low.midpoint(high);
        if enough(middle) {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    let count = low.max(1);
    found.push(Trial {
        remedy: Remedy {
            code: RemedyCode::AddNodes,
            text: format!("add {count} nodes like {} to {place}", template.name),
        },
        cause: None,
    });
}

/// The roomiest node of the domain that could take pods of the gang, as new.
fn template(state: &ClusterState, view: usize, gang: &Gang, domain: DomainId) -> Option<Node> {
    let demanding: Vec<_> = gang
        .groups
        .iter()
        .filter(|group| group.missing() > 0)
        .map(|group| group.shape)
        .collect();
    let nodes = state.view(view).nodes_in(domain).iter();
    let best = nodes.max_by_key(|id| {
        let node = state.node(**id);
        let slots = |shape: &crate::shape::ShapeId| {
            let asked = &state.shape_of(*shape).requests;
            asked
                .iter()
                .map(|(column, request)| state.allocatable_on(**id, *column) / request)
                .min()
                .unwrap_or(0)
        };
        let fit = demanding
            .iter()
            .filter(|shape| state.shape_of(**shape).demands.node.ruled_out(node).is_none());
        (
            fit.clone().count(),
            fit.map(slots).min().unwrap_or(0),
            std::cmp::Reverse(id.index()),
        )
    })?;
    let mut node = state.node(*best).clone();
    node.unschedulable = false;
    node.not_ready = false;
    Some(node)
}
