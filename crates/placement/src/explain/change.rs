//! Changes of a cluster or a gang: what a remedy proposes and what a what-if question assumes.
//!
//! Owns how each change is carried out on the engine's types. A change is plain data, so it can be printed, stored and applied
//! again. Never asks the planner.

use serde::Serialize;

use crate::gang::{Gang, Pack};
use crate::plan::Options;
use crate::predicates::{Effect, Node, Toleration};
use crate::resources::attached_driver;
use crate::shape::PodDemands;
use crate::state::ClusterState;
use crate::topology::DomainId;

use super::RemedyCode;

/// A part of a gang that carries a packing.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Part {
    /// What all gangs of one replica of the set share.
    PlacementGroup,
    /// The gang.
    Gang,
    /// Every scaling-group replica with this packing.
    Replicas,
    /// One group, by name.
    Group(String),
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "do", rename_all = "camelCase")]
pub enum Change {
    /// Pods tolerate a taint.
    Tolerate {
        /// Its key.
        key: String,
        /// Its value.
        value: String,
        /// Its effect.
        effect: Effect,
    },
    /// Nodes take pods again.
    Uncordon {
        /// Which.
        nodes: Vec<String>,
    },
    /// Nodes become ready.
    RepairNodes {
        /// Which.
        nodes: Vec<String>,
    },
    /// Pods no longer select nodes by this label.
    DropNodeSelector {
        /// The label.
        key: String,
    },
    /// Pods no longer require node affinity.
    DropNodeAffinity,
    /// Domains are no longer held for another gang.
    ReleaseDomains,
    /// Replicas of the set may share a domain.
    ShareDomains,
    /// Pods take no host ports.
    DropHostPorts,
    /// Pods keep away from nobody, and nobody keeps away from them.
    DropAntiAffinity,
    /// The volumes of pods are within reach of every node, and no number of them is too many for one.
    DropVolumes,
    /// The gang may leave the domain of its placement group.
    Unpin,
    /// A required packing becomes a preferred one.
    PreferPacking {
        /// Of what.
        part: Part,
        /// The level.
        key: String,
    },
    /// Pods are evicted.
    Evict {
        /// The gangs they belong to.
        gangs: Vec<String>,
        /// Their names in the cluster state.
        pods: Vec<String>,
    },
    /// Nodes like one that exists are added where it is.
    AddNodes {
        /// How many.
        count: usize,
        /// The node to copy, ready and without pods.
        like: String,
    },
}

impl Change {
    /// The kind of remedy it is.
    #[must_use]
    pub fn code(&self) -> RemedyCode {
        match self {
            Self::Tolerate { .. } => RemedyCode::Taint,
            Self::Uncordon { .. } => RemedyCode::Uncordon,
            Self::RepairNodes { .. } => RemedyCode::RepairNodes,
            Self::DropNodeSelector { .. } => RemedyCode::NodeSelector,
            Self::DropNodeAffinity => RemedyCode::NodeAffinity,
            Self::ReleaseDomains | Self::ShareDomains => RemedyCode::ReleaseDomains,
            Self::DropHostPorts | Self::DropAntiAffinity => RemedyCode::ShareNodes,
            Self::DropVolumes => RemedyCode::Volumes,
            Self::Unpin => RemedyCode::Unpin,
            Self::PreferPacking { .. } => RemedyCode::RelaxPacking,
            Self::Evict { .. } => RemedyCode::Preempt,
            Self::AddNodes { .. } => RemedyCode::AddNodes,
        }
    }

    /// Whether it changes nodes or pods, and not just what the gang asks for.
    pub(super) fn touches_cluster(&self) -> bool {
        matches!(
            self,
            Self::Uncordon { .. } | Self::RepairNodes { .. } | Self::Evict { .. } | Self::AddNodes { .. }
        )
    }

    /// Carries the change out.
    pub fn apply(&self, state: &mut ClusterState, gang: &mut Gang, options: &mut Options) {
        match self {
            Self::Tolerate { key, value, effect } => {
                let toleration = Toleration {
                    key: Some(key.clone()),
                    value: Some(value.clone()),
                    effect: Some(*effect),
                };
                demand(state, gang, |demands| demands.node.tolerations.push(toleration.clone()));
            }
            Self::Uncordon { nodes } => {
                let cordon = "node.kubernetes.io/unschedulable";
                change_nodes(state, nodes, |node| {
                    node.unschedulable = false;
                    node.taints.retain(|taint| taint.key != cordon);
                });
            }
            Self::RepairNodes { nodes } => {
                let conditions = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
                change_nodes(state, nodes, |node| {
                    node.not_ready = false;
                    node.taints.retain(|taint| !conditions.contains(&taint.key.as_str()));
                });
            }
            Self::DropNodeSelector { key } => demand(state, gang, |demands| {
                demands.node.selector.remove(key);
            }),
            Self::DropNodeAffinity => demand(state, gang, |demands| demands.node.required.clear()),
            Self::ReleaseDomains => options.held.clear(),
            Self::ShareDomains => gang.spread.iter_mut().for_each(|spread| spread.hard = false),
            Self::DropHostPorts => demand(state, gang, |demands| demands.host_ports.clear()),
            Self::DropAntiAffinity => demand(state, gang, |demands| {
                demands.keep_apart.clear();
                demands.labels.clear();
            }),
            Self::DropVolumes => demand(state, gang, |demands| {
                demands.node.volumes.clear();
                demands.claims.clear();
                demands.attached.clear();
                demands
                    .requests
                    .retain(|resource, _| attached_driver(resource).is_none());
            }),
            Self::Unpin => gang.placement_group.iter_mut().for_each(|group| group.pinned = None),
            Self::PreferPacking { part, key } => prefer(gang, part, key),
            Self::Evict { pods, .. } => {
                for pod in pods {
                    state.remove_pod(pod);
                }
            }
            Self::AddNodes { count, like } => add_nodes(state, *count, like),
        }
    }
}

/// Changes what every group of the gang demands.
fn demand(state: &mut ClusterState, gang: &mut Gang, change: impl Fn(&mut PodDemands)) {
    for group in &mut gang.groups {
        let mut demands = PodDemands::clone(&state.shape_of(group.shape).demands);
        change(&mut demands);
        group.shape = state.shape(&demands);
    }
}

fn change_nodes(state: &mut ClusterState, names: &[String], change: impl Fn(&mut Node)) {
    let known = names.iter().filter_map(|name| state.node_id(name));
    let mut nodes: Vec<Node> = known.map(|id| state.node(id).clone()).collect();
    nodes.iter_mut().for_each(change);
    state.put_nodes(nodes);
}

fn prefer(gang: &mut Gang, part: &Part, key: &str) {
    let relax = |pack: &mut Pack| {
        if pack.required.as_deref() == Some(key) {
            pack.required = None;
            pack.preferred.get_or_insert_with(|| key.to_owned());
        }
    };
    match part {
        Part::PlacementGroup => gang.placement_group.iter_mut().for_each(|group| {
            relax(&mut group.pack);
            group.pinned = None;
        }),
        Part::Gang => relax(&mut gang.pack),
        Part::Replicas => gang.configs.iter_mut().for_each(|config| relax(&mut config.pack)),
        Part::Group(name) => {
            let named = gang.groups.iter_mut().filter(|group| group.name == *name);
            named.for_each(|group| relax(&mut group.pack));
        }
    }
}

fn add_nodes(state: &mut ClusterState, count: usize, like: &str) {
    let Some(id) = state.node_id(like) else { return };
    let mut template = state.node(id).clone();
    template.unschedulable = false;
    template.not_ready = false;
    template
        .taints
        .retain(|taint| !taint.key.starts_with("node.kubernetes.io/"));
    let mut number = 0;
    let mut name = || loop {
        number += 1;
        let name = format!("{like}-copy-{number}");
        if state.node_id(&name).is_none() {
            return name;
        }
    };
    let copies: Vec<Node> = (0..count)
        .map(|_| {
            let mut node = template.clone();
            node.name = name();
            // Labels that repeat the name of the node are the new node's own.
            let own = node.labels.values_mut().filter(|value| **value == template.name);
            own.for_each(|value| value.clone_from(&node.name));
            node
        })
        .collect();
    state.put_nodes(copies);
}

/// The names of nodes, by a test.
pub(super) fn named(state: &ClusterState, test: impl Fn(&Node) -> bool) -> Vec<String> {
    let all = state.view(0).nodes_in(DomainId::ROOT).iter();
    let matching = all.map(|id| state.node(*id)).filter(|node| test(node));
    matching.map(|node| node.name.clone()).collect()
}
