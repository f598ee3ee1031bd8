//! The report for people.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::DomainReport;

/// How many names stand in one line.
const NAMED: usize = 6;

/// The whole report.
pub(crate) fn render(report: &DomainReport) -> String {
    let mut text = format!("ComputeDomain {} is {}", report.domain, report.state);
    if let Some(message) = &report.message {
        let _ = write!(text, " ({message})");
    }
    text.push('\n');
    let mut cliques: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut ready: BTreeMap<&str, usize> = BTreeMap::new();
    for node in &report.nodes {
        let index = node.index.map(|index| format!("{index}=")).unwrap_or_default();
        let mark = if node.ready { "" } else { " (not ready)" };
        cliques
            .entry(&node.clique)
            .or_default()
            .push(format!("{index}{}{mark}", node.node));
        *ready.entry(&node.clique).or_default() += usize::from(node.ready);
    }
    for (clique, nodes) in &cliques {
        let what = if clique.is_empty() {
            "without NVLink fabric".to_owned()
        } else {
            format!("clique {clique}")
        };
        let (count, ready) = (nodes.len(), ready.get(clique).copied().unwrap_or_default());
        let _ = writeln!(text, "  {what}: {ready} of {count} ready: {}", named(nodes));
    }
    if report.waits.is_empty() && report.state == "Ready" {
        return text;
    }
    if report.waits.is_empty() {
        let _ = writeln!(
            text,
            "\nNothing is missing that could be named: its daemons are on their way."
        );
        return text;
    }
    text.push_str("\nIt waits for:\n");
    for wait in &report.waits {
        let _ = writeln!(text, "  - {}", wait.cause);
        if !wait.subjects.is_empty() {
            let _ = writeln!(text, "      {}", named(&wait.subjects));
        }
        let _ = writeln!(text, "      {}", wait.help);
    }
    text
}

fn named(names: &[String]) -> String {
    let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().checked_sub(NAMED) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}
