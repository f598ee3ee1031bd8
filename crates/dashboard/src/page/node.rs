//! One node.

use maud::{Markup, html};

use super::words::{more, pod_state};
use crate::model::address::Page;
use crate::model::node::NodeView;

/// The page.
pub fn node(view: &NodeView) -> Markup {
    html! {
        div.head { h1 { a href=(Page::map()) { "Cluster" } span.dim { " / " } (view.name) } }
        dl.figures {
            div { dt { "GPUs free" } dd { (view.free) span.dim { " / " (view.gpus) } } }
            div { dt { "Pods" } dd { (view.pods.all) } }
            div { dt { "State" } dd.short[!view.problems.is_empty()] { @if view.problems.is_empty() { "ready" } @else { (view.problems.join(", ")) } } }
        }
        h2 { "Pods" }
        @if view.pods.items.is_empty() { p.empty { "No pods run here." } } @else {
            div.scroll { table {
                thead { tr { th { "Pod" } th { "State" } th.n { "GPUs" } th { "Gang" } } }
                tbody {
                    @for pod in &view.pods.items {
                        tr {
                            td { (pod.namespace) "/" (pod.name) }
                            td { (pod_state(pod.state)) }
                            td.n { (pod.gpus) }
                            td { @if let Some(gang) = &pod.gang {
                                a href=(Page::Gang { namespace: pod.namespace.clone(), name: gang.clone(), assume: None }) { (gang) }
                            } }
                        }
                    }
                }
            } }
            (more(view.pods.hidden(), "pod"))
        }
        h2 { "Labels" }
        dl.labels {
            @for (key, value) in &view.labels { dt { (key) } dd { (value) } }
        }
    }
}
