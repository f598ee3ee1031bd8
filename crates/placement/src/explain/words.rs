//! Names of things in messages: short, bounded, and as a person would look for them.

use std::collections::BTreeSet;

use crate::gang::Gang;
use crate::plan::Plan;
use crate::predicates::Expression;
use crate::state::ClusterState;

use super::change::{Change, Part};

/// At most three names, and how many more there are.
pub(super) fn few(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().map(String::as_str).take(3).collect();
    match names.len() - shown.len() {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

pub(super) fn path(path: &[Option<String>]) -> String {
    let values: Vec<&str> = path.iter().map(|value| value.as_deref().unwrap_or("-")).collect();
    values.join("/")
}

/// The value a group selects for a label.
pub(super) fn selected(state: &ClusterState, gang: &Gang, key: &str) -> String {
    let mut demands = gang.groups.iter().map(|group| &state.shape_of(group.shape).demands);
    let value = demands.find_map(|demands| demands.node.selector.get(key));
    value.cloned().unwrap_or_default()
}

/// The required node affinity of the gang, as label expressions.
pub(super) fn affinity(state: &ClusterState, gang: &Gang) -> String {
    let demands = gang.groups.iter().map(|group| &state.shape_of(group.shape).demands);
    let terms = demands
        .flat_map(|demands| &demands.node.required)
        .flat_map(|selector| &selector.terms);
    let all: BTreeSet<String> = terms
        .flat_map(|term| term.expressions.iter().chain(&term.fields))
        .map(expression)
        .collect();
    if all.is_empty() {
        return "matches no node".to_owned();
    }
    few(&all.into_iter().collect::<Vec<String>>())
}

fn expression(expression: &Expression) -> String {
    let Expression { key, operator, values } = expression;
    if values.is_empty() {
        format!("{key} {operator:?}")
    } else {
        format!("{key} {operator:?} {}", few(values))
    }
}

/// The host ports of the gang, as `TCP 8000`.
pub(super) fn ports(state: &ClusterState, gang: &Gang) -> Vec<String> {
    let demands = gang.groups.iter().map(|group| &state.shape_of(group.shape).demands);
    let ports = demands.flat_map(|demands| &demands.host_ports);
    let all: BTreeSet<String> = ports.map(|port| format!("{} {}", port.protocol, port.port)).collect();
    all.into_iter().collect()
}

pub(super) fn part(part: &Part) -> String {
    match part {
        Part::PlacementGroup => "the whole replica".to_owned(),
        Part::Gang => "the gang".to_owned(),
        Part::Replicas => "each scaling-group replica".to_owned(),
        Part::Group(name) => name.clone(),
    }
}

/// Where the part lies once its packing is only preferred.
pub(super) fn level_reached(plan: &Plan, gang: &Gang, change: &Change) -> String {
    let Change::PreferPacking { part, .. } = change else {
        return String::new();
    };
    let mine: BTreeSet<&str> = match part {
        Part::PlacementGroup => BTreeSet::from(["placement group"]),
        Part::Gang => BTreeSet::from([gang.name.as_str()]),
        Part::Replicas => gang.configs.iter().map(|config| config.name.as_str()).collect(),
        Part::Group(name) => BTreeSet::from([name.as_str()]),
    };
    let reached = plan
        .domains
        .iter()
        .filter(|chosen| mine.contains(chosen.scope.as_str()));
    let broadest = reached.min_by_key(|chosen| chosen.domain.len());
    match broadest {
        Some(chosen) if !chosen.key.is_empty() => format!("it then fits in one {}", chosen.key),
        _ => "it then fits across the cluster".to_owned(),
    }
}
