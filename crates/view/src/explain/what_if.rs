//! Changes that a person assumes, from words to the engine's changes.

use coppice_placement::Gang;
use coppice_placement::explain::{Change, Part};
use coppice_placement::predicates::Effect;
use coppice_placement::preempt::Running;
use coppice_placement::state::ClusterState;

use super::{Result, question};

/// Reads one change; it must name things that exist.
pub(super) fn parse(text: &str, state: &ClusterState, gang: &Gang, running: &[Running]) -> Result<Vec<Change>> {
    let (word, value) = text.split_once('=').unwrap_or((text, ""));
    let change = match word {
        "tolerate" => tolerate(value)?,
        "uncordon" => Change::Uncordon {
            nodes: nodes(state, value)?,
        },
        "ready" => Change::RepairNodes {
            nodes: nodes(state, value)?,
        },
        "drop-selector" if !value.is_empty() => Change::DropNodeSelector { key: value.to_owned() },
        "drop-affinity" => Change::DropNodeAffinity,
        "drop-ports" => Change::DropHostPorts,
        "drop-volumes" => Change::DropVolumes,
        "drop-anti-affinity" => Change::DropAntiAffinity,
        "prefer" => return prefer(gang, value),
        "evict" => evict(running, value)?,
        "add-nodes" => add_nodes(state, value)?,
        _ => refuse!(
            "cannot assume {text:?}: use tolerate=KEY[=VALUE]:EFFECT, uncordon=NODE, ready=NODE, drop-selector=KEY, \
             drop-affinity, drop-ports, drop-volumes, drop-anti-affinity, prefer=KEY, evict=GANG or add-nodes=COUNT:LIKE"
        ),
    };
    Ok(vec![change])
}

fn tolerate(text: &str) -> Result<Change> {
    let (taint, effect) = text
        .rsplit_once(':')
        .ok_or_else(|| question(format!("the taint {text:?} has no effect: write KEY=VALUE:NoSchedule")))?;
    let (key, value) = taint.split_once('=').unwrap_or((taint, ""));
    let effect = match effect {
        "NoSchedule" => Effect::NoSchedule,
        "NoExecute" => Effect::NoExecute,
        "PreferNoSchedule" => Effect::PreferNoSchedule,
        other => refuse!("a taint has no effect {other:?}: write NoSchedule, NoExecute or PreferNoSchedule"),
    };
    Ok(Change::Tolerate {
        key: key.to_owned(),
        value: value.to_owned(),
        effect,
    })
}

fn nodes(state: &ClusterState, text: &str) -> Result<Vec<String>> {
    let names: Vec<String> = text.split(',').map(str::to_owned).collect();
    for name in &names {
        known(state, name)?;
    }
    Ok(names)
}

fn known(state: &ClusterState, name: &str) -> Result<()> {
    match state.node_id(name) {
        Some(_) => Ok(()),
        None => refuse!("no node {name:?}: kubectl get nodes lists them"),
    }
}

/// Every part of the gang that requires the level.
fn prefer(gang: &Gang, key: &str) -> Result<Vec<Change>> {
    let mut parts = Vec::new();
    let requires = |pack: &coppice_placement::Pack| pack.required.as_deref() == Some(key);
    if gang.placement_group.as_ref().is_some_and(|group| requires(&group.pack)) {
        parts.push(Part::PlacementGroup);
    }
    if requires(&gang.pack) {
        parts.push(Part::Gang);
    }
    if gang.configs.iter().any(|config| requires(&config.pack)) {
        parts.push(Part::Replicas);
    }
    let groups = gang.groups.iter().filter(|group| requires(&group.pack));
    parts.extend(groups.map(|group| Part::Group(group.name.clone())));
    if parts.is_empty() {
        refuse!("no part of {} requires one {key:?}", gang.name);
    }
    let change = |part| Change::PreferPacking {
        part,
        key: key.to_owned(),
    };
    Ok(parts.into_iter().map(change).collect())
}

fn evict(running: &[Running], name: &str) -> Result<Change> {
    let gang = running.iter().find(|gang| gang.name == name);
    let gang = gang.ok_or_else(|| question(format!("no running gang {name:?}: name it as NAMESPACE/NAME")))?;
    let pods = gang.groups.iter().flat_map(|group| &group.pods);
    Ok(Change::Evict {
        gangs: vec![gang.name.clone()],
        pods: pods.map(|pod| pod.name.clone()).collect(),
    })
}

fn add_nodes(state: &ClusterState, text: &str) -> Result<Change> {
    let read = || {
        let (count, like) = text.split_once(':')?;
        Some((count.parse().ok().filter(|count| (1..=10_000).contains(count))?, like))
    };
    let (count, like) = read().ok_or_else(|| question(format!("{text:?} is not COUNT:NODE")))?;
    known(state, like)?;
    Ok(Change::AddNodes {
        count,
        like: like.to_owned(),
    })
}
