//! One set.

use coppice_view::events::Entry;
use coppice_view::pod_state::PodState;
use coppice_view::{CliqueView, GangView};
use maud::{Markup, html};

use super::words::{age, bar, count, message, more, of, pod_state, set_state};
use crate::model::Shown;
use crate::model::address::Page;
use crate::model::set::{Component, Replica, SetPage};

/// Pods that are listed of a clique, those that are not ready first.
const PODS: usize = 12;
/// Copies of a group that are listed, those with problems first.
const COPIES: usize = 24;

/// The page.
pub fn set(view: &SetPage, events: &Shown<Entry>) -> Markup {
    let set = &view.view;
    html! {
        div.head { h1 { (set.name) } (set_state(set.state)) }
        p.dim {
            "PodCliqueSet in namespace " (set.namespace)
            @if let (Some(generation), observed) = view.generation {
                ", generation " (generation)
                @if observed != Some(generation) { " (the operator has seen " (observed.map_or_else(|| "none".to_owned(), |seen| seen.to_string())) ")" }
            }
        }
        dl.figures {
            div { dt { "Replicas available" } dd { (of(set.available_replicas.into(), set.desired_replicas.into())) } }
            div { dt { "Pods ready" } dd { (of(set.pods.ready, set.pods.desired)) } }
            div { dt { "GPUs ready" } dd { (of(set.gpus.ready, set.gpus.desired)) } }
            @if let (Some(began), ended) = view.update {
                div { dt { @if ended.is_some() { "Last update ended" } @else { "Update began" } } dd.small { (age(ended.or(Some(began)))) } }
            }
        }
        @if let Some(text) = &set.message { p.notice role="note" { (message(text)) } }
        @if let Some(text) = &set.unplaced { p.notice.warn role="note" { (message(text)) } }
        @for text in &set.errors { p.notice.warn role="note" { (message(text)) } }
        (components(&view.components))
        section aria-labelledby="replicas" {
            h2 #replicas { "Replicas" }
            @for replica in &view.replicas.items { (self::replica(view, replica)) }
            (more(view.replicas.hidden(), "replica"))
        }
        section aria-labelledby="conditions" {
            h2 #conditions { "Conditions" }
            div.scroll { table {
                thead { tr { th { "Condition" } th { "Status" } th { "Reason" } th { "Since" } th { "Message" } } }
                tbody { @for condition in &view.conditions {
                    tr {
                        td { (condition.type_) }
                        td { (condition.status) }
                        td { (condition.reason) }
                        td { (age(Some(condition.last_transition_time.0))) }
                        td.why { (message(&condition.message)) }
                    }
                } }
            } }
        }
        @if !events.items.is_empty() {
            section aria-labelledby="events" {
                h2 #events { "Events" }
                div.scroll { table {
                    thead { tr { th { "Last" } th.n { "Count" } th { "Reason" } th { "Object" } th { "Message" } } }
                    tbody { @for event in &events.items {
                        tr {
                            td { (age(event.last)) }
                            td.n { (event.count) }
                            td { @if event.severity == "Normal" { (event.reason) } @else { strong.warn { (event.reason) } } }
                            td { (event.object_kind.to_lowercase()) "/" (event.object_name) }
                            td.why { (message(&event.message)) }
                        }
                    } }
                } }
                (more(events.hidden(), "event"))
            }
        }
    }
}

fn components(components: &[Component]) -> Markup {
    html! {
        section aria-labelledby="components" {
            h2 #components { "Components" }
            div.scroll { table.rows {
                thead { tr { th { "Component" } th { "Image" } th { "Pods by revision" } th.n { "New" } th.n { "Old" } th.n { "Wanted" } } }
                tbody { @for component in components {
                    @let new: i64 = component.revisions.iter().filter(|revision| revision.current).map(|revision| revision.pods).sum();
                    @let old: i64 = component.revisions.iter().filter(|revision| !revision.current).map(|revision| revision.pods).sum();
                    tr {
                        td { span.strong { (component.name) } @if let Some(group) = &component.group { div.dim { "group " (group) } } }
                        td.image { (component.image) }
                        td {
                            (bar(&[("used", new), ("old", old), ("free", (component.desired - new - old).max(0))],
                                &format!("{new} pods of the new revision, {old} of earlier ones")))
                            @for revision in &component.revisions {
                                div.dim { code { (revision.hash) } " " (revision.ready) "/" (revision.pods) " ready"
                                    @if !revision.current { " (earlier)" } }
                            }
                        }
                        td.n { (new) }
                        td.n.short[old > 0] { (old) }
                        td.n { (component.desired) }
                    }
                } }
            } }
        }
    }
}

fn replica(page: &SetPage, replica: &Replica) -> Markup {
    let view = &replica.view;
    let waiting = view.gangs.iter().filter(|gang| gang.waiting.is_some()).count();
    html! {
        details.replica open[replica.open] data-key={ "replica-" (view.index) } {
            summary {
                span.strong { "Replica " (view.index) }
                " " (of(replica.pods.0, replica.pods.1)) " pods ready"
                @if waiting > 0 { " " span.state.bad { (count(waiting, "gang")) " waiting" } }
            }
            @if replica.open {
                ul.tree {
                    @for gang in view.gangs.iter().take(COPIES) { li { (self::gang(page, gang)) } }
                    @for clique in &view.cliques { li { (self::clique(clique)) } }
                    @for group in &view.groups {
                        @let problem = |copy: &coppice_view::CopyView| copy.cliques.iter().any(|clique| clique.count.ready < clique.count.desired);
                        @let copies = { let mut copies: Vec<_> = group.copies.iter().collect(); copies.sort_by_key(|copy| !problem(copy)); copies };
                        li {
                            span.strong { (group.name) } span.dim { " group " } (of(group.available.into(), group.desired.into())) " copies available"
                            span.dim { " (min " (group.min_available) ")" }
                            ul {
                                @for copy in copies.iter().take(COPIES) {
                                    li {
                                        "copy " (copy.index)
                                        @if let Some(gang) = &copy.gang { span.dim { " gang " (gang) } }
                                        ul { @for clique in &copy.cliques { li { (self::clique(clique)) } } }
                                    }
                                }
                                @if copies.len() > COPIES { li.dim { (COPIES) " of " (copies.len()) " copies are shown" } }
                            }
                        }
                    }
                }
            } @else {
                p { a href=(Page::Set { namespace: page.view.namespace.clone(), name: page.view.name.clone(), replica: Some(view.index) }) { "Show all parts of replica " (view.index) } }
            }
        }
    }
}

fn gang(page: &SetPage, gang: &GangView) -> Markup {
    let class = match gang.phase.as_str() {
        "Running" | "Succeeded" => "good",
        "Failed" => "bad",
        _ => "busy",
    };
    html! {
        a href=(Page::Gang { namespace: page.view.namespace.clone(), name: gang.name.clone(), assume: None }) { "gang " (gang.name) }
        span.dim { " " (gang.content) " " }
        span class={ "state " (class) } { (gang.phase) }
        @if let Some(place) = &gang.place { span.dim { " in " (place) } }
        @if let Some(score) = gang.placement_score { span.dim { " score " (format!("{score:.2}")) } }
        @if let Some(waiting) = &gang.waiting { div.wait { (message(waiting)) } }
    }
}

fn clique(clique: &CliqueView) -> Markup {
    let mut pods: Vec<_> = clique.pods.iter().collect();
    pods.sort_by_key(|pod| (pod.state == PodState::Ready, pod.index));
    html! {
        span.strong { (clique.name) } " " (of(clique.count.ready, clique.count.desired)) " ready"
        span.dim { " (min " (clique.min_available) ")" }
        @if !pods.is_empty() {
            div.pods { @for pod in pods.iter().take(PODS) {
                span.pod title=(pod.reason.as_deref().unwrap_or_default()) {
                    (pod_state(pod.state)) " "
                    (pod.name)
                    @if let Some(node) = &pod.node { " " a.dim href=(Page::Node(node.clone())) { (node) } }
                    @if pod.outdated { " " span.tag { "earlier revision" } }
                    @if pod.restarts > 0 { " " span.tag { "restarts " (pod.restarts) } }
                    @if let Some(reason) = pod.reason.as_ref().filter(|_| pod.state == PodState::Failing) { " " span.warn { (reason) } }
                }
            } }
            (more(pods.len().saturating_sub(PODS), "pod"))
        }
    }
}
