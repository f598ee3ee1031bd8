//! All sets.

use maud::{Markup, html};

use super::words::{age, count, message, more, of, set_state};
use crate::model::Shown;
use crate::model::address::Page;
use crate::model::sets::SetRow;

/// The page.
pub fn sets(rows: &Shown<SetRow>) -> Markup {
    html! {
        div.head { h1 { "Sets" } }
        @if rows.items.is_empty() {
            p.empty { "There is no PodCliqueSet. Apply one, for instance examples/disaggregated.yaml." }
        } @else {
            div.scroll { table.rows {
                thead { tr { th { "Set" } th { "State" } th.n { "Replicas" } th.n { "Pods ready" } th.n { "GPUs ready" } th { "Age" } th { "What to know" } } }
                tbody { @for row in &rows.items {
                    tr {
                        td {
                            a.strong href=(Page::Set { namespace: row.namespace.clone(), name: row.name.clone(), replica: None }) { (row.name) }
                            div.dim { (row.namespace) }
                        }
                        td { (set_state(row.state)) }
                        td.n { (of(row.replicas.0.into(), row.replicas.1.into())) }
                        td.n { (of(row.pods.ready, row.pods.desired)) }
                        td.n { (of(row.gpus.ready, row.gpus.desired)) }
                        td { (age(row.created)) }
                        td.why {
                            @if row.unplaced > 0 {
                                a href=(Page::Pending { namespace: Some(row.namespace.clone()) }) { (count(row.unplaced, "gang")) " cannot be placed" }
                                @if row.message.is_some() { "; " }
                            }
                            @if let Some(text) = &row.message { (message(text)) }
                        }
                    }
                } }
            } }
            (more(rows.hidden(), "set"))
        }
    }
}
