//! A PodCliqueSet, read once: who belongs to whom, who waits for whom, how many are needed.
//!
//! Assumes an object that passed admission, but never panics on one that did not: an unknown reference is left out,
//! a negative count is zero. Everything is borrowed from the set; positions stand for names from here on.

use std::collections::BTreeMap;

use coppice_api::names::ReplicaName;
use coppice_api::types::{CliqueStartupType, PodCliqueScalingGroupConfig, PodCliqueSet, PodCliqueTemplate};

/// A set and what follows from its template.
#[derive(Clone, Debug)]
pub struct SetFacts<'a> {
    /// The set itself.
    pub set: &'a PodCliqueSet,
    /// Its cliques, in the order of the template.
    pub cliques: Vec<CliqueFacts<'a>>,
    /// Its scaling groups, in the order of the template.
    pub groups: Vec<GroupFacts<'a>>,
    /// Whether its NVLink groups are served; see [`crate::mnnvl`].
    pub auto_mnnvl: bool,
}

/// A clique of the template.
#[derive(Clone, Debug)]
pub struct CliqueFacts<'a> {
    /// Its part of the template.
    pub template: &'a PodCliqueTemplate,
    /// The position of its scaling group; none for a standalone clique.
    pub group: Option<usize>,
    /// Positions of the cliques that start before it.
    pub parents: Vec<usize>,
    /// Pods at first.
    pub replicas: u32,
    /// Pods that must be there.
    pub min_available: u32,
}

/// A scaling group of the template.
#[derive(Clone, Debug)]
pub struct GroupFacts<'a> {
    /// Its part of the template.
    pub config: &'a PodCliqueScalingGroupConfig,
    /// Positions of its cliques, in the order in which the group lists them.
    pub cliques: Vec<usize>,
    /// Copies at first.
    pub replicas: u32,
    /// Copies that must be there; they belong to the base gang.
    pub min_available: u32,
}

fn count(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

impl<'a> SetFacts<'a> {
    /// Reads a set.
    pub fn of(set: &'a PodCliqueSet) -> Self {
        let template = &set.spec.template;
        let positions: BTreeMap<&str, usize> = template
            .cliques
            .iter()
            .enumerate()
            .map(|(position, clique)| (clique.name.as_str(), position))
            .collect();
        let groups: Vec<GroupFacts<'a>> = template
            .pod_clique_scaling_groups
            .iter()
            .map(|config| GroupFacts {
                config,
                cliques: config
                    .clique_names
                    .iter()
                    .filter_map(|name| positions.get(name.as_str()).copied())
                    .collect(),
                replicas: count(config.replicas.unwrap_or(1)),
                min_available: count(config.min_available.unwrap_or(1)),
            })
            .collect();
        let startup = template.clique_startup_type.clone().unwrap_or_default();
        let cliques = template
            .cliques
            .iter()
            .enumerate()
            .map(|(position, clique)| CliqueFacts {
                template: clique,
                group: groups.iter().position(|group| group.cliques.contains(&position)),
                parents: match startup {
                    CliqueStartupType::InOrder => position.checked_sub(1).into_iter().collect(),
                    CliqueStartupType::Explicit => clique
                        .spec
                        .starts_after
                        .iter()
                        .filter_map(|name| positions.get(name.as_str()).copied())
                        .collect(),
                    CliqueStartupType::AnyOrder | CliqueStartupType::Other(_) => Vec::new(),
                },
                replicas: count(clique.spec.replicas),
                min_available: count(clique.spec.min_available.unwrap_or(clique.spec.replicas)),
            })
            .collect();
        Self {
            set,
            cliques,
            groups,
            auto_mnnvl: false,
        }
    }

    /// The set's name.
    pub fn name(&self) -> &'a str {
        self.set.metadata.name.as_deref().unwrap_or_default()
    }

    /// The set's namespace.
    pub fn namespace(&self) -> &'a str {
        self.set.metadata.namespace.as_deref().unwrap_or("default")
    }

    /// The number of replicas asked for.
    pub fn replicas(&self) -> u32 {
        count(self.set.spec.replicas)
    }

    /// Whether more replicas are asked for than is possible: then those that exist are kept, and no others are made.
    pub fn too_many_replicas(&self) -> bool {
        self.set.spec.replicas > coppice_api::sizes::MOST_REPLICAS
    }

    /// The name of one replica, from which all its children are named.
    pub fn replica(&self, index: u32) -> ReplicaName<'a> {
        ReplicaName::new(self.name(), index)
    }

    /// Whether any clique waits for another, and so needs to look at pods.
    pub fn has_startup_order(&self) -> bool {
        self.cliques.iter().any(|clique| !clique.parents.is_empty())
    }

    /// Pods of one copy of a scaling group by the template, as its pods are told.
    pub fn template_pods(&self, group: usize) -> u32 {
        self.groups[group]
            .cliques
            .iter()
            .map(|clique| self.cliques[*clique].replicas)
            .sum()
    }
}
