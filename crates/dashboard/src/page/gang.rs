//! One gang: where its pods are, or why they wait, and what is proven to help.

use std::collections::BTreeMap;

use coppice_placement::explain::{Explanation, LevelReport, Verdict};
use coppice_view::explain::{GangReport, PlacedPod, State};
use maud::{Markup, html};

use super::words::{count, message};
use crate::model::address::Page;
use crate::model::gang::{Assumed, GangPage, identity};

/// Nodes that are listed.
const NODES: usize = 40;

/// The page.
pub fn gang(view: &GangPage, namespace: &str, name: &str, set: Option<&str>, content: Option<&str>) -> Markup {
    let report = &view.now;
    let (placed, held) = (report.placed.len(), report.held.len());
    let all = placed + report.waiting + held;
    let (class, word) = match report.state {
        State::Placed => ("good", "Placed"),
        State::PartlyPlaced => ("busy", "Partly placed"),
        State::Pending => ("bad", "Pending"),
        State::Held => ("busy", "Held back"),
        State::Empty => ("busy", "No pods"),
    };
    html! {
        div.head {
            h1 { (name) }
            span class={ "state " (class) } { (word) }
        }
        p.dim {
            "Gang in namespace " (namespace)
            @if let Some(set) = set {
                " of " a href=(Page::Set { namespace: namespace.to_owned(), name: set.to_owned(), replica: None }) { "set " (set) }
            }
            @if let Some(content) = content { ": " (content) }
        }
        dl.figures {
            div { dt { "Pods with a node" } dd { (placed) span.dim { " / " (all) } } }
            @if report.waiting > 0 { div { dt { "Waiting for a node" } dd { (report.waiting) } } }
            @if held > 0 { div { dt { "Held back" } dd { (held) } } }
        }
        @for note in &report.notes { p.notice role="note" { (message(note)) } }
        @if let Some(assumed) = &view.assumed { (tried(assumed, namespace, name)) }
        @if let Some(explanation) = &report.explanation { (explained(explanation, namespace, name)) }
        @if !report.held.is_empty() { (held_back(report)) }
        (placement("Would go to", &report.placement))
        (placement("Placed on", &report.placed))
    }
}

/// The page of a gang that cannot be explained.
pub fn failed(name: &str, why: &str) -> Markup {
    super::nothing(name, why)
}

fn explained(explanation: &Explanation, namespace: &str, name: &str) -> Markup {
    let verdict = match explanation.verdict {
        Verdict::Fits => "It fits now.",
        Verdict::Waiting => "It has no turn yet.",
        Verdict::DoesNotFit => "It does not fit.",
        Verdict::Unknown => "Whether it fits could not be decided.",
    };
    html! {
        section aria-labelledby="why" {
            h2 #why { (verdict) }
            @if !explanation.reasons.is_empty() {
                ul.reasons { @for reason in &explanation.reasons {
                    li { strong { (reason.code.as_str()) } " " (message(&reason.message)) }
                } }
            }
        }
        @if !explanation.remedies.is_empty() {
            section aria-labelledby="remedies" {
                h2 #remedies { "Each of these is enough" }
                p.dim { "The planner has placed the gang with each of them. Try one to see where its pods would go; nothing is changed in the cluster." }
                ul.remedies { @for remedy in &explanation.remedies {
                    li {
                        form method="get" action=(Page::Gang { namespace: namespace.to_owned(), name: name.to_owned(), assume: None }) {
                            input type="hidden" name="assume" value=(identity(&remedy.text));
                            button type="submit" { "Try" }
                            span { (remedy.text) }
                        }
                    }
                } }
            }
        }
        @if !explanation.levels.is_empty() { (levels(&explanation.levels)) }
        @if !explanation.ruled_out.is_empty() {
            section aria-labelledby="ruled-out" {
                h2 #ruled-out { "Nodes that do not count" }
                div.scroll { table {
                    thead { tr { th { "Part" } th { "Rule" } th { "Detail" } th.n { "Nodes" } } }
                    tbody { @for report in &explanation.ruled_out {
                        tr { td { (report.group) } td { (report.code.as_str()) } td { (report.detail) } td.n { (report.nodes) } }
                    } }
                } }
            }
        }
    }
}

fn levels(levels: &[LevelReport]) -> Markup {
    html! {
        section aria-labelledby="levels" {
            h2 #levels { "Best place by level" }
            div.scroll { table {
                thead { tr { th { "Part" } th { "Level" } th { "Best domain" } th { "Room for" } th { "Lacks" } } }
                tbody { @for level in levels {
                    tr {
                        td { (level.part) @if level.copies > 1 { span.dim { " one of " (level.copies) } } }
                        td { @if level.key.is_empty() { "cluster" } @else { (level.key) } @if level.required { " " span.tag { "required" } } }
                        td { (level.domain) }
                        td { @for slots in &level.slots {
                            div { (slots.have.min(u64::from(slots.need))) span.dim { "/" (slots.need) } " " (slots.groups.first().map_or("", String::as_str))
                                @if slots.groups.len() > 1 { span.dim { " and " (slots.groups.len() - 1) " more" } } }
                        } }
                        td { @for (resource, amount) in &level.lacks { div { (amount) " " span.dim { (resource) } } } }
                    }
                } }
            } }
        }
    }
}

fn tried(assumed: &Assumed, namespace: &str, name: &str) -> Markup {
    let back = Page::Gang {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        assume: None,
    };
    match assumed {
        Assumed::Gone => html! {
            section.tried aria-live="polite" {
                p { "The cluster has changed: that remedy is not among those that help now. " a href=(back) { "Back" } }
            }
        },
        Assumed::Tried { remedy, report } => {
            let fits = report
                .explanation
                .as_ref()
                .is_some_and(|explanation| explanation.verdict == Verdict::Fits);
            html! {
                section.tried.fits[fits] aria-live="polite" aria-labelledby="tried" {
                    h2 #tried { @if fits { "It would fit" } @else { "It would not fit any more" } }
                    p { "Assumed: " strong { (remedy) } ". Nothing was changed in the cluster. " a href=(back) { "Back" } }
                    (placement("Pods would go to", &report.placement))
                }
            }
        }
    }
}

fn held_back(report: &GangReport) -> Markup {
    let mut reasons: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for pod in &report.held {
        reasons.entry(&pod.reason).or_default().push(&pod.pod);
    }
    html! {
        section aria-labelledby="held" {
            h2 #held { "Held back" }
            ul.reasons { @for (reason, pods) in reasons {
                li { strong { (count(pods.len(), "pod")) } " " (reason) }
            } }
        }
    }
}

fn placement(title: &str, pods: &[PlacedPod]) -> Markup {
    let mut nodes: BTreeMap<(String, &str), Vec<&str>> = BTreeMap::new();
    for pod in pods {
        let short = pod.pod.rsplit('/').next().unwrap_or_default();
        nodes
            .entry((pod.domain.join(" / "), &pod.node))
            .or_default()
            .push(short);
    }
    html! {
        @if !nodes.is_empty() {
            section {
                h2 { (title) }
                div.scroll { table {
                    thead { tr { th { "Place" } th { "Node" } th { "Pods" } } }
                    tbody { @for ((domain, node), pods) in nodes.iter().take(NODES) {
                        tr {
                            td { (domain) }
                            td { a href=(Page::Node((*node).to_owned())) { (node) } }
                            td { (pods.join(", ")) }
                        }
                    } }
                } }
                (super::words::more(nodes.len().saturating_sub(NODES), "node"))
            }
        }
    }
}
