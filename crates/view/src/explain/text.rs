//! An explanation as text for a terminal.

use std::collections::BTreeMap;
use std::fmt::Write;

use coppice_placement::explain::{Change, Part};

use super::report::{GangReport, PlacedPod, Report, State};
use crate::words::count;

/// Pods listed one by one; more are counted.
const SHOWN: usize = 10;

pub fn render(report: &Report) -> String {
    let mut text = String::new();
    for note in &report.notes {
        line(&mut text, note);
    }
    for (at, gang) in report.gangs.iter().enumerate() {
        if at > 0 {
            text.push('\n');
        }
        render_gang(&mut text, gang);
    }
    text
}

fn line(text: &mut String, what: &str) {
    text.push_str(what);
    text.push('\n');
}

fn render_gang(text: &mut String, gang: &GangReport) {
    let (placed, waiting, held) = (gang.placed.len(), gang.waiting, gang.held.len());
    let all = placed + waiting + held;
    let status = match gang.state {
        State::Placed => format!("is placed: {placed} of {all} pods have a node"),
        State::PartlyPlaced => format!("is partly placed: {placed} of {all} pods have a node"),
        State::Pending => format!("is pending: {waiting} of {all} pods wait for a node"),
        State::Held => format!("is held back: {held} of {all} pods may not be placed yet"),
        State::Empty => "has no pods".to_owned(),
    };
    line(text, &format!("{} {status}", gang.name));
    for note in &gang.notes {
        line(text, &format!("  note: {note}"));
    }
    section(text, "  placed on:", &gang.placed);
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for pod in &gang.held {
        reasons.entry(&pod.reason).or_default().push(&pod.pod);
    }
    for (reason, pods) in reasons {
        let more = pods.len().saturating_sub(3);
        let names = pods.iter().take(3).copied().collect::<Vec<_>>().join(", ");
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        line(text, &format!("  {names}{more}: {reason}"));
    }
    if !gang.assumed.is_empty() {
        let changes: Vec<String> = gang.assumed.iter().map(assumption).collect();
        line(text, &format!("  assuming that {}", changes.join(", and that ")));
    }
    if let Some(explanation) = &gang.explanation {
        for row in explanation.to_string().lines() {
            line(text, &format!("  {row}"));
        }
    }
    section(text, "  would go to:", &gang.placement);
}

/// A change as a clause.
fn assumption(change: &Change) -> String {
    let nodes = |names: &[String], one: &str, several: &str| match names {
        [name] => format!("node {name} {one}"),
        names => format!("nodes {} {several}", names.join(", ")),
    };
    match change {
        Change::Tolerate { key, value, effect } if value.is_empty() => format!("its pods tolerate {key}:{effect:?}"),
        Change::Tolerate { key, value, effect } => format!("its pods tolerate {key}={value}:{effect:?}"),
        Change::Uncordon { nodes: names } => nodes(names, "is uncordoned", "are uncordoned"),
        Change::RepairNodes { nodes: names } => nodes(names, "is ready", "are ready"),
        Change::DropNodeSelector { key } => format!("its pods do not select nodes by {key}"),
        Change::DropNodeAffinity => "its pods have no node affinity".to_owned(),
        Change::ReleaseDomains => "no domain is reserved for another gang".to_owned(),
        Change::ShareDomains => "replicas of the set may share a domain".to_owned(),
        Change::DropHostPorts => "its pods use no host ports".to_owned(),
        Change::DropVolumes => "its volumes are within reach everywhere".to_owned(),
        Change::DropAntiAffinity => "no pod anti-affinity applies to its pods".to_owned(),
        Change::Unpin => "it may leave the domain of its placement group".to_owned(),
        Change::PreferPacking { part, key } => {
            let part = match part {
                Part::PlacementGroup => "its placement group".to_owned(),
                Part::Gang => "the gang".to_owned(),
                Part::Replicas => "each replica".to_owned(),
                Part::Group(name) => format!("pods of {name}"),
            };
            format!("one {key} is preferred and not required for {part}")
        }
        Change::Evict { gangs, pods } => format!(
            "{} of {} {} evicted",
            count(i64::try_from(pods.len()).unwrap_or(i64::MAX), "pod"),
            gangs.join(", "),
            if pods.len() == 1 { "is" } else { "are" }
        ),
        Change::AddNodes { count: number, like } => format!(
            "there {} {} more like {like}",
            if *number == 1 { "is" } else { "are" },
            count(i64::try_from(*number).unwrap_or(i64::MAX), "node")
        ),
    }
}

/// Pods by node, with where the node is.
fn section(text: &mut String, title: &str, pods: &[PlacedPod]) {
    if pods.is_empty() {
        return;
    }
    line(text, title);
    let mut nodes: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    for pod in pods {
        nodes
            .entry((pod.domain.join("/"), &pod.node))
            .or_default()
            .push(&pod.pod);
    }
    for ((domain, node), pods) in nodes.iter().take(SHOWN) {
        let mut row = format!("    {node}");
        if !domain.is_empty() {
            let _infallible = write!(row, " ({domain})");
        }
        line(text, &format!("{row}: {}", pods.join(", ")));
    }
    if nodes.len() > SHOWN {
        line(text, &format!("    and {} more nodes", nodes.len() - SHOWN));
    }
}
