//! An explanation as text for a terminal.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::report::{GangReport, PlacedPod, Report, State};

/// Pods listed one by one; more are counted.
const SHOWN: usize = 10;

pub(super) fn render(report: &Report) -> String {
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
        State::Placed => format!("is placed: all {all} pods have a node"),
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
        let changes = serde_json::to_string(&gang.assumed).unwrap_or_default();
        line(text, &format!("  assuming {changes}"));
    }
    if let Some(explanation) = &gang.explanation {
        for row in explanation.to_string().lines() {
            line(text, &format!("  {row}"));
        }
    }
    section(text, "  would go to:", &gang.placement);
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
