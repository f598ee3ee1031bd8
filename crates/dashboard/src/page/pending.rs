//! Gangs that wait.

use maud::{Markup, html};

use super::words::{age, count, message, more};
use crate::model::address::Page;
use crate::model::pending::Pending;

/// The page.
pub fn pending(view: &Pending) -> Markup {
    html! {
        div.head { h1 { "Pending gangs" } }
        @if view.gangs.items.is_empty() {
            p.empty { "No gang waits: all of them are placed." }
        } @else {
            dl.figures {
                div { dt { "Gangs" } dd { (view.gangs.all) } }
                div { dt { "GPUs they lack" } dd { (view.gpus) } }
                @for (reason, gangs) in &view.reasons { div { dt { (reason) } dd { (gangs) } } }
            }
            div.scroll { table.rows {
                thead { tr { th { "Gang" } th { "What it is" } th { "Since" } th.n { "Pods" } th.n { "GPUs" } th { "Why" } } }
                tbody {
                    @for gang in &view.gangs.items {
                        tr {
                            td {
                                a.strong href=(Page::Gang { namespace: gang.namespace.clone(), name: gang.name.clone(), assume: None }) { (gang.name) }
                                div.dim { (gang.namespace) }
                            }
                            td {
                                @if let Some(set) = &gang.set {
                                    a href=(Page::Set { namespace: gang.namespace.clone(), name: set.clone(), replica: None }) { (set) }
                                }
                                div.dim { (gang.content) }
                            }
                            td { (age(gang.since)) }
                            td.n title={ (count(gang.pods.0, "pod")) " without a node of " (gang.pods.1) } { (gang.pods.0) span.dim { "/" (gang.pods.1) } }
                            td.n { (gang.gpus) }
                            td.why { strong { (gang.reason) } " " span { (message(&gang.message)) } }
                        }
                    }
                }
            } }
            (more(view.gangs.hidden(), "gang"))
        }
    }
}
