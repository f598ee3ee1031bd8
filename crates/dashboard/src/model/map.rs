//! The map of the cluster: domains in domains down to nodes and their GPUs, and who has them.
//!
//! A page draws at most [`DRAWN_NODES`] nodes with [`DRAWN_GPUS`] GPUs each; where there are more, domains are drawn as tiles of
//! sums, at the narrowest level of which there are at most [`TILES`], and a tile leads to the map of its domain.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::names::labels;
use coppice_api::types::ClusterTopologyBinding;
use coppice_view::build::gpus_of;
use coppice_view::topology::Level;
use coppice_view::topology::build::{Facts, facts, guessed_levels, is_host};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;

use super::Shown;
use super::address::Colour;

/// Nodes that a page draws one by one.
pub const DRAWN_NODES: usize = 720;
/// GPUs that are drawn of one node.
pub const DRAWN_GPUS: i64 = 16;
/// Domains that a page draws as tiles.
pub const TILES: usize = 600;
/// Colours there are for gangs and sets.
pub const COLOURS: usize = 12;
/// Lines of the legend.
const LEGEND: usize = 24;

/// The map.
#[derive(Debug, Clone, PartialEq)]
pub struct ClusterMap {
    /// The ClusterTopologyBinding; none when the levels were guessed from node labels.
    pub topology: Option<String>,
    /// All bindings, by name.
    pub topologies: Vec<String>,
    /// The levels, without that of single hosts.
    pub levels: Vec<String>,
    /// The domains around what is shown: level, and value.
    pub within: Vec<(String, String)>,
    /// Sums of what is shown.
    pub sums: Sums,
    /// What is shown.
    pub area: Area,
    /// What the colours mean, most GPUs first; empty when cells are coloured by what is free.
    pub legend: Vec<Owner>,
    /// Owners that the legend leaves out.
    pub more_owners: usize,
}

/// GPUs and nodes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Sums {
    /// Nodes.
    pub nodes: usize,
    /// Nodes that are not ready or cordoned.
    pub unusable_nodes: usize,
    /// GPUs.
    pub gpus: i64,
    /// GPUs that pods asked for.
    pub used: i64,
    /// Free GPUs on nodes of which no GPU is used.
    pub free: i64,
    /// Free GPUs on nodes that are partly used.
    pub fragmented: i64,
    /// GPUs that nobody has, on nodes that take no pods.
    pub out_of_use: i64,
}

impl Sums {
    fn add(&mut self, facts: &Facts<'_>) {
        let used = facts.pods.iter().map(|pod| gpus_of(pod)).sum::<i64>().min(facts.gpus);
        self.nodes += 1;
        self.unusable_nodes += usize::from(!facts.usable);
        self.gpus += facts.gpus;
        self.used += used;
        if !facts.usable {
            self.out_of_use += facts.gpus - used;
        } else if used > 0 {
            self.fragmented += facts.free;
        } else {
            self.free += facts.free;
        }
    }
}

/// A domain, or everything.
#[derive(Debug, Clone, PartialEq)]
pub struct Area {
    /// Its level; empty for everything.
    pub level: String,
    /// The value of the label; empty for nodes without it.
    pub name: String,
    /// The values from the broadest level to this one.
    pub path: Vec<String>,
    /// Its sums.
    pub sums: Sums,
    /// What is in it.
    pub content: Content,
}

/// What is drawn in an area.
#[derive(Debug, Clone, PartialEq)]
pub enum Content {
    /// Domains, and how many more there are.
    Areas {
        /// What is drawn.
        areas: Vec<Area>,
        /// What is not.
        hidden: usize,
    },
    /// Nodes, and how many more there are.
    Nodes {
        /// What is drawn.
        nodes: Vec<NodeCell>,
        /// What is not.
        hidden: usize,
    },
    /// Only its sums: it is a tile.
    Sums,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeCell {
    /// Its name.
    pub name: String,
    /// Its GPUs.
    pub gpus: i64,
    /// At most [`DRAWN_GPUS`] of them.
    pub cells: Vec<Cell>,
    /// Why it takes no pods, or not those of every workload.
    pub problems: Vec<String>,
    /// Whether it takes pods.
    pub usable: bool,
    /// Its NVLink domain, where that spans nodes.
    pub nvlink: Option<String>,
}

/// One GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cell {
    /// Free, on a node of which no GPU is used.
    Free,
    /// Free, on a node that is partly used.
    Fragmented,
    /// Of a pod: its colour, if its owner has one, the pod, and its gang or what else it is.
    Used {
        /// The colour.
        colour: Option<usize>,
        /// Its namespace and name.
        pod: String,
        /// Its gang.
        owner: Option<String>,
    },
    /// Not to be had.
    OutOfUse,
}

/// A gang or a set with GPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its colour.
    pub colour: usize,
    /// Its GPUs on the nodes that are shown.
    pub gpus: i64,
}

/// Where to look, and how.
#[derive(Debug, Clone, Default)]
pub struct Question<'a> {
    /// The topology.
    pub topology: Option<&'a str>,
    /// Values of its levels.
    pub within: &'a [String],
    /// What cells are coloured by.
    pub colour: Colour,
}

type OwnerKey = (String, String);

fn owner(pod: &Pod, colour: Colour) -> Option<OwnerKey> {
    let label = match colour {
        Colour::Set => labels::PART_OF,
        Colour::Gang | Colour::Free => labels::POD_GANG,
    };
    // Other software uses the label of sets, too.
    let gang = pod.labels().get(labels::POD_GANG)?;
    let name = pod.labels().get(label).unwrap_or(gang);
    Some((pod.namespace().unwrap_or_default(), name.clone()))
}

/// The map of nodes and of the pods on them.
pub fn map<'a>(
    question: &Question<'_>,
    topologies: impl IntoIterator<Item = &'a ClusterTopologyBinding>,
    nodes: impl IntoIterator<Item = &'a Node> + Clone,
    pods: impl IntoIterator<Item = &'a Pod>,
) -> ClusterMap {
    let bindings: BTreeMap<String, &ClusterTopologyBinding> = topologies
        .into_iter()
        .map(|binding| (binding.name_any(), binding))
        .collect();
    let chosen = question
        .topology
        .and_then(|name| bindings.get_key_value(name))
        .or_else(|| bindings.first_key_value());
    let levels: Vec<Level> = match chosen {
        Some((_, binding)) => {
            let levels = binding.spec.levels.iter().map(|level| Level {
                domain: level.domain.clone(),
                key: level.key.clone(),
            });
            levels.collect()
        }
        None => guessed_levels(nodes.clone()),
    };
    let levels: Vec<Level> = levels.into_iter().take_while(|level| !is_host(level)).collect();
    let facts = facts(nodes, pods);
    let inside = |facts: &&Facts<'_>| {
        let labels = facts.node.labels();
        let mut steps = question.within.iter().zip(&levels);
        steps.all(|(value, level)| labels.get(&level.key).map_or("", String::as_str) == value)
    };
    let shown: Vec<&Facts<'_>> = facts.iter().filter(inside).collect();
    let depth = question.within.len().min(levels.len());
    let path = &question.within[..depth];
    let tiles = shown.len() > DRAWN_NODES && depth < levels.len();
    let narrowest = if tiles {
        tiled(&shown, &levels, depth)
    } else {
        levels.len()
    };
    let (palette, legend) = match question.colour {
        Colour::Free => (BTreeMap::new(), Vec::new()),
        colour => palette(&shown, colour),
    };
    // Where NVLink domains are a level, they are areas already.
    let is_level = levels.iter().any(|level| level.key == NVLINK);
    let nvlink = if is_level {
        BTreeSet::new()
    } else {
        multi_node_domains(&shown)
    };
    let drawing = Drawing {
        nvlink: &nvlink,
        levels: &levels,
        narrowest,
        tiles,
        palette: &palette,
        colour: question.colour,
    };
    let area = drawing.area(&shown, path, depth);
    let more_owners = legend.len().saturating_sub(LEGEND);
    ClusterMap {
        topology: chosen.map(|(name, _)| name.clone()),
        topologies: bindings.into_keys().collect(),
        within: levels
            .iter()
            .map(|level| level.domain.clone())
            .zip(path.iter().cloned())
            .collect(),
        levels: levels.into_iter().map(|level| level.domain).collect(),
        sums: area.sums,
        area,
        legend: legend.into_iter().take(LEGEND).collect(),
        more_owners,
    }
}

/// The narrowest level below `depth` with few enough domains for tiles; at least the next one.
fn tiled(nodes: &[&Facts<'_>], levels: &[Level], depth: usize) -> usize {
    let domains = |narrowest: usize| {
        let keys = |facts: &Facts<'_>| -> Vec<Option<String>> {
            let keys = levels[depth..narrowest].iter();
            keys.map(|level| facts.node.labels().get(&level.key).cloned()).collect()
        };
        let distinct: BTreeSet<_> = nodes.iter().map(|facts| keys(facts)).collect();
        distinct.len()
    };
    let fitting = (depth + 1..=levels.len())
        .rev()
        .find(|narrowest| domains(*narrowest) <= TILES);
    fitting.unwrap_or((depth + 1).min(levels.len()))
}

/// Colours in the order in which owners got their first pod, so that a newcomer changes no other colour.
fn palette(nodes: &[&Facts<'_>], colour: Colour) -> (BTreeMap<OwnerKey, usize>, Vec<Owner>) {
    let mut found: BTreeMap<OwnerKey, (Option<jiff::Timestamp>, i64)> = BTreeMap::new();
    for pod in nodes.iter().flat_map(|facts| &facts.pods) {
        let (Some(key), gpus) = (owner(pod, colour), gpus_of(pod)) else {
            continue;
        };
        if gpus == 0 {
            continue;
        }
        let born = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let entry = found.entry(key).or_insert((born, 0));
        entry.0 = entry.0.min(born);
        entry.1 = entry.1.saturating_add(gpus);
    }
    let mut order: Vec<(Option<jiff::Timestamp>, OwnerKey, i64)> =
        found.into_iter().map(|(key, (born, gpus))| (born, key, gpus)).collect();
    order.sort();
    let mut owners: Vec<Owner> = order
        .into_iter()
        .enumerate()
        .map(|(position, (_, (namespace, name), gpus))| Owner {
            namespace,
            name,
            colour: position % COLOURS,
            gpus,
        })
        .collect();
    let key = |owner: &Owner| (owner.namespace.clone(), owner.name.clone());
    let palette = owners.iter().map(|owner| (key(owner), owner.colour)).collect();
    owners.sort_by_key(|owner| (-owner.gpus, key(owner)));
    (palette, owners)
}

struct Drawing<'a> {
    levels: &'a [Level],
    /// Domains of this depth are not divided into domains.
    narrowest: usize,
    /// Whether domains of that depth are tiles.
    tiles: bool,
    palette: &'a BTreeMap<OwnerKey, usize>,
    colour: Colour,
    /// NVLink domains that are drawn.
    nvlink: &'a BTreeSet<&'a str>,
}

impl Drawing<'_> {
    fn nvlink(&self, facts: &Facts<'_>) -> Option<String> {
        let domain = facts.node.labels().get(NVLINK)?;
        self.nvlink.contains(domain.as_str()).then(|| domain.clone())
    }

    fn area(&self, nodes: &[&Facts<'_>], path: &[String], depth: usize) -> Area {
        let mut sums = Sums::default();
        nodes.iter().for_each(|facts| sums.add(facts));
        let content = if depth < self.narrowest {
            let Shown { items, all } = self.areas(nodes, path, depth);
            let hidden = all - items.len();
            Content::Areas { areas: items, hidden }
        } else if self.tiles {
            Content::Sums
        } else {
            // Nodes of one NVLink domain stand together.
            let mut nodes = nodes.to_vec();
            nodes.sort_by_key(|facts| {
                (
                    self.nvlink(facts).map(|domain| natural(&domain)),
                    natural(&facts.node.name_any()),
                )
            });
            let drawn = nodes.iter().take(DRAWN_NODES);
            Content::Nodes {
                nodes: drawn.map(|facts| self.node(facts)).collect(),
                hidden: nodes.len().saturating_sub(DRAWN_NODES),
            }
        };
        let level = depth.checked_sub(1).map(|at| self.levels[at].domain.clone());
        Area {
            level: level.unwrap_or_default(),
            name: path.last().cloned().unwrap_or_default(),
            path: path.to_vec(),
            sums,
            content,
        }
    }

    /// The domains of the next level; nodes without its label come last.
    fn areas(&self, nodes: &[&Facts<'_>], path: &[String], depth: usize) -> Shown<Area> {
        let key = &self.levels[depth].key;
        let mut by_value: BTreeMap<&str, Vec<&Facts<'_>>> = BTreeMap::new();
        for facts in nodes {
            let value = facts.node.labels().get(key).map_or("", String::as_str);
            by_value.entry(value).or_default().push(facts);
        }
        let all = by_value.len();
        let mut domains: Vec<(&str, Vec<&Facts<'_>>)> = by_value.into_iter().collect();
        domains.sort_by(|(one, _), (other, _)| {
            one.is_empty()
                .cmp(&other.is_empty())
                .then_with(|| natural(one).cmp(&natural(other)))
        });
        let drawn = domains.into_iter().take(TILES).map(|(value, nodes)| {
            let mut inner = path.to_vec();
            inner.push(value.to_owned());
            self.area(&nodes, &inner, depth + 1)
        });
        Shown {
            items: drawn.collect(),
            all,
        }
    }

    fn node(&self, facts: &Facts<'_>) -> NodeCell {
        let most = usize::try_from(facts.gpus.clamp(0, DRAWN_GPUS)).unwrap_or(0);
        let mut cells: Vec<Cell> = Vec::with_capacity(most);
        for pod in &facts.pods {
            let gpus = usize::try_from(gpus_of(pod).max(0))
                .unwrap_or(usize::MAX)
                .min(most - cells.len());
            let key = owner(pod, self.colour);
            let gang = pod.labels().get(labels::POD_GANG);
            let cell = Cell::Used {
                colour: key.as_ref().and_then(|key| self.palette.get(key)).copied(),
                pod: format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any()),
                owner: gang.cloned(),
            };
            cells.extend(std::iter::repeat_n(cell, gpus));
        }
        let rest = match (facts.usable, cells.is_empty()) {
            (false, _) => Cell::OutOfUse,
            (true, true) => Cell::Free,
            (true, false) => Cell::Fragmented,
        };
        cells.resize(most, rest);
        NodeCell {
            name: facts.node.name_any(),
            gpus: facts.gpus,
            cells,
            problems: facts.problems.clone(),
            usable: facts.usable,
            nvlink: self.nvlink(facts),
        }
    }
}

/// The label by which NVIDIA's device plugin names the NVLink domain of a node.
const NVLINK: &str = "nvidia.com/gpu.clique";

/// NVLink domains with more than one node; the others say nothing that the node does not.
fn multi_node_domains<'a>(nodes: &[&Facts<'a>]) -> BTreeSet<&'a str> {
    let (mut once, mut several) = (BTreeSet::new(), BTreeSet::new());
    for facts in nodes {
        if let Some(domain) = facts.node.labels().get(NVLINK)
            && !once.insert(domain.as_str())
        {
            several.insert(domain.as_str());
        }
    }
    several
}

/// A name in pieces that sort as people count: `rack-9` before `rack-10`.
fn natural(name: &str) -> Vec<(bool, u64, String)> {
    let mut pieces: Vec<(bool, u64, String)> = Vec::new();
    for letter in name.chars() {
        let digit = letter.is_ascii_digit();
        match pieces.last_mut() {
            Some((text, number, piece)) if *text != digit => {
                piece.push(letter);
                *number = if digit { piece.parse().unwrap_or(u64::MAX) } else { 0 };
            }
            _ => pieces.push((!digit, letter.to_digit(10).map_or(0, u64::from), letter.to_string())),
        }
    }
    pieces
}

#[cfg(test)]
#[path = "map_tests.rs"]
mod tests;
