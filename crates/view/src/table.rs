//! All sets as a table, one line each.

use serde::Serialize;

use super::{API_VERSION, SetView};

/// Several sets.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SetList {
    pub api_version: &'static str,
    pub kind: &'static str,
    pub items: Vec<SetView>,
}

impl SetList {
    /// The list of these views.
    pub fn new(items: Vec<SetView>) -> Self {
        Self {
            api_version: API_VERSION,
            kind: "SetViewList",
            items,
        }
    }
}

/// The table.
pub fn draw(list: &SetList) -> String {
    if list.items.is_empty() {
        return String::new();
    }
    let mut rows = vec![["NAMESPACE", "NAME", "STATE", "REPLICAS", "PODS", "GPUS", "MESSAGE"].map(str::to_owned)];
    rows.extend(list.items.iter().map(|view| {
        [
            view.namespace.clone(),
            view.name.clone(),
            format!("{:?}", view.state),
            format!("{}/{}", view.available_replicas, view.desired_replicas),
            format!("{}/{}", view.pods.ready, view.pods.desired),
            format!("{}/{}", view.gpus.ready, view.gpus.desired),
            view.remarks().unwrap_or_default(),
        ]
    }));
    aligned(&rows)
}

/// Columns two spaces apart, without spaces at the ends of lines.
pub fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..N).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}
