//! Builds the tree of domains from bindings, nodes and pods.

use std::collections::BTreeMap;

use coppice_api::names::labels;
use coppice_api::types::ClusterTopologyBinding;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::ResourceExt as _;

use super::{Amounts, Domain, Host, Level, Share, TopologyView, Tree};
use crate::API_VERSION;
use crate::build::gpus_of;

/// The label of single hosts: a level that is not worth domains of its own.
const HOST_KEY: &str = "kubernetes.io/hostname";
/// Labels that tell of places, the broadest first.
const WELL_KNOWN: [(&str, &str); 5] = [
    ("region", "topology.kubernetes.io/region"),
    ("zone", "topology.kubernetes.io/zone"),
    ("block", "topology.kubernetes.io/block"),
    ("rack", "topology.kubernetes.io/rack"),
    ("nvlink", "nvidia.com/gpu.clique"),
];

/// What is known of a node.
pub struct Facts<'a> {
    pub node: &'a Node,
    pub gpus: i64,
    /// GPUs that no pod asked for; none where no pod may go.
    pub free: i64,
    /// Ready and not cordoned.
    pub usable: bool,
    /// Why it takes no pods, or not those of every workload.
    pub problems: Vec<String>,
    /// Its pods that have not ended.
    pub pods: Vec<&'a Pod>,
}

/// The topologies of the bindings; with none, one of the labels that the nodes have.
pub fn view(bindings: &[ClusterTopologyBinding], nodes: &[Node], pods: &[Pod]) -> TopologyView {
    let facts = facts(nodes.iter(), pods.iter());
    let all: Vec<&Facts<'_>> = facts.iter().collect();
    let tree = |name: Option<String>, levels: Vec<Level>| {
        let above: Vec<&Level> = levels.iter().take_while(|level| !is_host(level)).collect();
        Tree {
            name,
            domains: domains(&all, &above),
            total: amounts(&all),
            levels,
        }
    };
    let mut topologies: Vec<Tree> = bindings
        .iter()
        .map(|binding| {
            let levels = binding.spec.levels.iter().map(|level| Level {
                domain: level.domain.clone(),
                key: level.key.clone(),
            });
            tree(Some(binding.name_any()), levels.collect())
        })
        .collect();
    if topologies.is_empty() {
        topologies.push(tree(None, guessed_levels(nodes)));
    }
    TopologyView {
        api_version: API_VERSION,
        kind: "TopologyView",
        topologies,
    }
}

/// What is known of each node, by name.
pub fn facts<'a>(nodes: impl IntoIterator<Item = &'a Node>, pods: impl IntoIterator<Item = &'a Pod>) -> Vec<Facts<'a>> {
    let mut by_node: BTreeMap<&str, Vec<&Pod>> = BTreeMap::new();
    for pod in pods.into_iter().filter(|pod| !has_ended(pod)) {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        by_node.entry(node.unwrap_or_default()).or_default().push(pod);
    }
    let mut facts: Vec<Facts<'_>> = nodes
        .into_iter()
        .map(|node| {
            let pods = by_node.remove(node.name_any().as_str()).unwrap_or_default();
            let problems = problems(node);
            let gpus = capacity(node);
            let used: i64 = pods.iter().map(|pod| gpus_of(pod)).sum();
            let ready = !problems
                .iter()
                .any(|problem| problem == NOT_READY || problem == CORDONED);
            Facts {
                node,
                gpus,
                free: if ready { (gpus - used).max(0) } else { 0 },
                usable: ready,
                problems,
                pods,
            }
        })
        .collect();
    facts.sort_by_key(|facts| facts.node.name_any());
    facts
}

/// Levels by well-known labels, where no binding says what they are.
pub fn guessed_levels<'a>(nodes: impl IntoIterator<Item = &'a Node>) -> Vec<Level> {
    let nodes: Vec<&Node> = nodes.into_iter().collect();
    let known = |key: &str| nodes.iter().any(|node| node.labels().contains_key(key));
    let levels = WELL_KNOWN.iter().filter(|(_, key)| known(key));
    let level = |(domain, key): &(&str, &str)| Level {
        domain: (*domain).to_owned(),
        key: (*key).to_owned(),
    };
    levels.map(level).collect()
}

/// Whether a level is single hosts, which are no domains of their own here.
pub fn is_host(level: &Level) -> bool {
    level.key == HOST_KEY
}

const NOT_READY: &str = "not ready";
const CORDONED: &str = "cordoned";

fn problems(node: &Node) -> Vec<String> {
    let mut problems = Vec::new();
    let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
    // A node that has not spoken yet has no condition.
    let ready = conditions
        .filter(|condition| condition.type_ == "Ready")
        .any(|condition| condition.status == "True");
    if !ready {
        problems.push(NOT_READY.to_owned());
    }
    let spec = node.spec.as_ref();
    if spec.is_some_and(|spec| spec.unschedulable == Some(true)) {
        problems.push(CORDONED.to_owned());
    }
    let taints = spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    // Kubernetes' own taints say what the words above say.
    let own = taints.filter(|taint| !taint.key.starts_with("node.kubernetes.io/"));
    problems.extend(own.map(|taint| format!("taint {}:{}", taint.key, taint.effect)));
    problems
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Failed" | "Succeeded"))
}

fn capacity(node: &Node) -> i64 {
    let allocatable = node
        .status
        .iter()
        .flat_map(|status| status.allocatable.iter().flatten());
    let gpus = allocatable.filter(|(name, _)| name.ends_with("/gpu"));
    gpus.filter_map(|(_, Quantity(amount))| amount.parse::<i64>().ok())
        .sum()
}

fn amounts(nodes: &[&Facts<'_>]) -> Amounts {
    Amounts {
        nodes: nodes.len(),
        usable_nodes: nodes.iter().filter(|facts| facts.usable).count(),
        gpus: nodes.iter().map(|facts| facts.gpus).sum(),
        free_gpus: nodes.iter().map(|facts| facts.free).sum(),
    }
}

/// The domains of the first level, with those of the others in them. Without levels, one domain of all nodes.
fn domains(nodes: &[&Facts<'_>], levels: &[&Level]) -> Vec<Domain> {
    let Some((level, below)) = levels.split_first() else {
        return vec![domain("cluster", None, nodes, &[])];
    };
    let mut by_value: BTreeMap<Option<&String>, Vec<&Facts<'_>>> = BTreeMap::new();
    for facts in nodes {
        by_value
            .entry(facts.node.labels().get(&level.key))
            .or_default()
            .push(facts);
    }
    let mut found: Vec<Domain> = by_value
        .iter()
        .filter_map(|(value, nodes)| Some(domain(&level.domain, Some((*value)?.clone()), nodes, below)))
        .collect();
    // Those that cannot be used for packing come last.
    found.extend(
        by_value
            .get(&None)
            .map(|nodes| domain(&level.domain, None, nodes, below)),
    );
    found
}

fn domain(level: &str, name: Option<String>, nodes: &[&Facts<'_>], below: &[&Level]) -> Domain {
    let pods = nodes.iter().flat_map(|facts| &facts.pods);
    Domain {
        level: level.to_owned(),
        name,
        amounts: amounts(nodes),
        gangs: shares(pods.copied()),
        domains: if below.is_empty() {
            Vec::new()
        } else {
            domains(nodes, below)
        },
        hosts: if below.is_empty() {
            nodes.iter().map(|facts| host(facts)).collect()
        } else {
            Vec::new()
        },
    }
}

fn shares<'a>(pods: impl Iterator<Item = &'a Pod>) -> Vec<Share> {
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    for pod in pods {
        if let Some(gang) = pod.labels().get(labels::POD_GANG) {
            *counts
                .entry((pod.namespace().unwrap_or_default(), gang.clone()))
                .or_default() += 1;
        }
    }
    let mut shares: Vec<Share> = counts
        .into_iter()
        .map(|((namespace, name), pods)| Share { namespace, name, pods })
        .collect();
    shares.sort_by_key(|share| std::cmp::Reverse(share.pods));
    shares
}

fn host(facts: &Facts<'_>) -> Host {
    let ours = facts
        .pods
        .iter()
        .filter(|pod| pod.labels().contains_key(labels::POD_GANG));
    let mut pods: Vec<String> = ours
        .map(|pod| format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any()))
        .collect();
    pods.sort();
    Host {
        name: facts.node.name_any(),
        gpus: facts.gpus,
        free_gpus: facts.free,
        problems: facts.problems.clone(),
        pods,
    }
}
