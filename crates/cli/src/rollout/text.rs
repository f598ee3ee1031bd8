//! The words of `coppice rollout` for people.

use std::fmt::Write as _;

use super::change::ChangeView;
use super::history::HistoryView;
use super::progress::{RolloutState, RolloutView};
use crate::view::plan::text::fields;
use crate::view::table::aligned;
use crate::view::versions;
use crate::view::words::count;

/// Components that are listed at most; a set may have 500 replicas.
const MOST_COMPONENTS: usize = 20;

/// How far an update is, in one line.
pub(super) fn line(view: &RolloutView) -> String {
    let state = match view.state {
        RolloutState::WaitingForDeletions => "waiting for deletions".to_owned(),
        state => format!("{state:?}"),
    };
    let revision = view
        .revision
        .map(|number| format!(" revision {number},"))
        .unwrap_or_default();
    let mut line = format!(
        "{}/{}: {state},{revision} {}/{} pods updated, {} of them ready",
        view.namespace, view.name, view.updated_pods, view.desired_pods, view.ready_updated_pods
    );
    if view.outdated_pods > 0 {
        let _ = write!(line, ", {} old", view.outdated_pods);
    }
    if let Some(message) = &view.message {
        let _ = write!(line, "; {message}");
    }
    line
}

/// The line, and old and new of the components that have both.
pub(super) fn status(view: &RolloutView) -> String {
    let mut text = line(view) + "\n";
    let several = view.components.iter().any(|component| component.replica > 0);
    for component in view.components.iter().take(MOST_COMPONENTS) {
        let replica = if several {
            format!("replica {} ", component.replica)
        } else {
            String::new()
        };
        let sides = versions::side_by_side(&component.versions, component.desired);
        let _ = writeln!(text, "  {replica}{}  {sides}", component.name);
    }
    let more = view.components.len().saturating_sub(MOST_COMPONENTS);
    if more > 0 {
        let _ = writeln!(
            text,
            "  and {more} more; all of them: coppice rollout status {} -o yaml",
            view.name
        );
    }
    text
}

/// What a verb did.
pub(super) fn change(view: &ChangeView) -> String {
    let mut text = String::new();
    for clique in view.cliques.iter().filter(|clique| !clique.fields.is_empty()) {
        let pods = i64::try_from(clique.pods).unwrap_or(i64::MAX);
        let _ = writeln!(
            text,
            "~ clique {}: {} of {}",
            clique.name,
            clique.replaced,
            count(pods, "pod")
        );
        fields(&mut text, &clique.fields);
    }
    let dry = if view.dry_run { " (dry run)" } else { "" };
    let _ = write!(
        text,
        "podcliqueset {}/{} {}{dry}",
        view.namespace, view.name, view.action
    );
    if view.changed && !view.cliques.is_empty() {
        let _ = write!(text, ": replaces {}", view.replaced());
    }
    text.push('\n');
    for remark in &view.remarks {
        let _ = writeln!(text, "  {remark}");
    }
    text
}

/// The revisions as a table.
pub(super) fn history(view: &HistoryView) -> String {
    let mut rows = vec![["REVISION", "RECORDED", "PODS", "CHANGED", "CHANGE-CAUSE"].map(str::to_owned)];
    for revision in &view.revisions {
        let current = if revision.current { " (current)" } else { "" };
        let changed = match revision.changed_cliques.as_slice() {
            [] => "-".to_owned(),
            names => names.join(","),
        };
        rows.push([
            format!("{}{current}", revision.number),
            revision
                .recorded
                .as_ref()
                .map_or_else(|| "-".to_owned(), |time| time.0.to_string()),
            revision.pods.len().to_string(),
            changed,
            revision.cause.clone().unwrap_or_else(|| "<none>".to_owned()),
        ]);
    }
    let mut text = aligned(&rows);
    if !view.unexplained_pods.is_empty() {
        let pods = i64::try_from(view.unexplained_pods.len()).unwrap_or(i64::MAX);
        let _ = writeln!(
            text,
            "{} of no recorded revision: {}",
            count(pods, "pod"),
            view.unexplained_pods.join(", ")
        );
    }
    for problem in &view.unreadable {
        let _ = writeln!(text, "not readable: {problem}");
    }
    text
}
