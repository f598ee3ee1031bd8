//! The map of the cluster.

use maud::{Markup, html};

use super::words::{bar, count, more};
use crate::model::address::{Colour, Page};
use crate::model::gang::Contents;
use crate::model::map::{Area, Cell, ClusterMap, Content, DRAWN_GPUS, NodeCell, Sums};

/// With so many nodes or fewer, GPUs are drawn larger.
const ROOMY: usize = 160;

/// The page.
pub fn map(map: &ClusterMap, contents: &Contents, page: &Page) -> Markup {
    let (topology, within, colour) = match page {
        Page::Map {
            topology,
            within,
            colour,
        } => (topology.as_ref(), within.as_slice(), *colour),
        _ => (None, &[][..], Colour::Gang),
    };
    let to = |within: &[String], colour: Colour| Page::Map {
        topology: topology.cloned(),
        within: within.to_vec(),
        colour,
    };
    let link = |path: &[String]| to(path, colour);
    html! {
        div.head {
            h1 {
                @if map.within.is_empty() {
                    "Cluster"
                } @else {
                    a href=(to(&[], colour)) { "Cluster" }
                    @for (position, (level, name)) in map.within.iter().enumerate() {
                        span.dim { " / " }
                        @if position + 1 == map.within.len() { (domain(level, name)) }
                        @else { a href=(to(&within[..=position], colour)) { (domain(level, name)) } }
                    }
                }
            }
            nav.switch aria-label="Colour by" {
                @for (choice, words) in [(Colour::Gang, "Gangs"), (Colour::Set, "Sets"), (Colour::Free, "Free")] {
                    a href=(to(within, choice)) aria-current=[(choice == colour).then_some("true")] { (words) }
                }
            }
        }
        (figures(&map.sums))
        @if map.topologies.len() > 1 {
            p.dim {
                "Topology "
                @for name in map.topologies.iter().take(20) {
                    a href=(Page::Map { topology: Some(name.clone()), within: Vec::new(), colour }) aria-current=[(Some(name) == map.topology.as_ref()).then_some("true")] { (name) } " "
                }
            }
        }
        @if map.topology.is_none() && map.sums.nodes > 0 {
            p.notice role="note" {
                @if map.levels.is_empty() {
                    "Nodes have no topology labels, and there is no ClusterTopologyBinding: gangs cannot be packed by rack or zone."
                } @else {
                    "There is no ClusterTopologyBinding: levels (" (map.levels.join(" > ")) ") are read from well-known node labels."
                }
            }
        }
        (key(map, contents, colour))
        @if map.sums.nodes == 0 {
            p.empty { "No nodes here." }
        } @else {
            div.roomy[map.sums.nodes <= ROOMY] { (area(&map.area, &link, true)) }
        }
    }
}

fn domain(level: &str, name: &str) -> String {
    if name.is_empty() {
        format!("no {level}")
    } else {
        name.to_owned()
    }
}

fn figures(sums: &Sums) -> Markup {
    let label = format!(
        "{} of {} GPUs are used, {} are free",
        sums.used,
        sums.gpus,
        sums.free + sums.fragmented
    );
    html! {
        dl.figures {
            div { dt { "GPUs used" } dd { (sums.used) span.dim { " / " (sums.gpus) } } }
            div { dt { "Free on empty nodes" } dd { (sums.free) } }
            div { dt { "Free on partly used nodes" } dd { (sums.fragmented) } }
            div { dt { "Nodes ready" } dd.short[sums.unusable_nodes > 0] { (sums.nodes - sums.unusable_nodes) span.dim { " / " (sums.nodes) } } }
        }
        (shares(sums, &label))
    }
}

fn shares(sums: &Sums, label: &str) -> Markup {
    bar(
        &[
            ("used", sums.used),
            ("fragmented", sums.fragmented),
            ("free", sums.free),
            ("out", sums.out_of_use),
        ],
        label,
    )
}

fn key(map: &ClusterMap, contents: &Contents, colour: Colour) -> Markup {
    let noun = if colour == Colour::Set { "set" } else { "gang" };
    html! {
        ul.key aria-label="What the colours mean" {
            @if colour == Colour::Free { li { span.g.used {} "used" } }
            @for owner in &map.legend {
                li {
                    span class={ "g c" (owner.colour) } {}
                    @let to = match colour {
                        Colour::Set => Page::Set { namespace: owner.namespace.clone(), name: owner.name.clone(), replica: None },
                        _ => Page::Gang { namespace: owner.namespace.clone(), name: owner.name.clone(), assume: None },
                    };
                    a href=(to) { (owner.namespace) "/" (owner.name) }
                    @if let Some(content) = contents.get(&(owner.namespace.clone(), owner.name.clone())) { span.dim { (content) } }
                    span.dim { (owner.gpus) }
                }
            }
            @if map.more_owners > 0 { li.dim { "and " (count(map.more_owners, &format!("more {noun}"))) } }
            @if colour != Colour::Free { li { span.g.stray {} "other workloads" } }
            li { span.g.free {} "free" }
            li { span.g.fragmented {} "free, node partly used" }
            li { span.g.out {} "not usable" }
        }
    }
}

fn area(area: &Area, link: &dyn Fn(&[String]) -> Page, outermost: bool) -> Markup {
    let inner = match &area.content {
        Content::Sums => return tile(area, link),
        Content::Areas { areas, hidden } => html! {
            div.areas.leaves[areas.iter().all(|area| !matches!(area.content, Content::Areas { .. }))] {
                @for inner in areas { (self::area(inner, link, false)) }
            }
            (more(*hidden, &areas.first().map_or_else(|| "domain".to_owned(), |area| area.level.clone())))
        },
        Content::Nodes { nodes, hidden } => html! {
            @for domain in nodes.chunk_by(|one, other| one.nvlink == other.nvlink) {
                @match &domain[0].nvlink {
                    Some(name) => {
                        div.nvlink role="group" aria-label={ "NVLink domain " (name) } {
                            span.dim title={ "NVLink domain " (name) } { "NVLink " (name) }
                            div.nodes { @for node in domain { (cell(node)) } }
                        }
                    }
                    None => { div.nodes { @for node in domain { (cell(node)) } } }
                }
            }
            (more(*hidden, "node"))
        },
    };
    if outermost {
        return inner;
    }
    let leaf = matches!(area.content, Content::Nodes { .. });
    html! {
        section.area.leaf[leaf] {
            h2 {
                a href=(link(&area.path)) { (domain(&area.level, &area.name)) }
                span.dim { (area.level) }
                span.numbers title="free GPUs of all" { (area.sums.free + area.sums.fragmented) " free of " (area.sums.gpus) }
            }
            (inner)
        }
    }
}

fn tile(area: &Area, link: &dyn Fn(&[String]) -> Page) -> Markup {
    let sums = &area.sums;
    let free = sums.free + sums.fragmented;
    let broken = match sums.unusable_nodes {
        0 => String::new(),
        nodes => format!(", {} not usable", count(nodes, "node")),
    };
    let label = format!(
        "{} {}: {} of {} GPUs free, {}{broken}",
        area.level,
        domain(&area.level, &area.name),
        free,
        sums.gpus,
        count(sums.nodes, "node")
    );
    html! {
        a.tile href=(link(&area.path)) title=(label) {
            span.name { (domain(&area.level, &area.name)) }
            span.numbers { (free) span.dim { "/" (sums.gpus) } }
            (shares(sums, &label))
            @if sums.unusable_nodes > 0 { span.bad { (count(sums.unusable_nodes, "node")) " down" } }
        }
    }
}

fn cell(node: &NodeCell) -> Markup {
    let mut lines: Vec<String> = Vec::new();
    let mut free = 0;
    for cell in &node.cells {
        let line = match cell {
            Cell::Used {
                pod, owner: Some(gang), ..
            } => format!("{pod} (gang {gang})"),
            Cell::Used { pod, owner: None, .. } => pod.clone(),
            Cell::Free | Cell::Fragmented => {
                free += 1;
                continue;
            }
            Cell::OutOfUse => continue,
        };
        if lines.last() != Some(&line) {
            lines.push(line);
        }
    }
    let mut about = format!("{}: {free} of {} GPUs free", node.name, node.gpus);
    for problem in &node.problems {
        about.push_str(", ");
        about.push_str(problem);
    }
    let title = std::iter::once(about).chain(lines).collect::<Vec<_>>().join("\n");
    html! {
        a.node.down[!node.usable].marked[node.usable && !node.problems.is_empty()] href=(Page::Node(node.name.clone())) title=(title) aria-label=(title) {
            @for cell in &node.cells {
                @match cell {
                    Cell::Free => i.g.free {},
                    Cell::Fragmented => i.g.fragmented {},
                    Cell::OutOfUse => i.g.out {},
                    Cell::Used { colour: Some(colour), .. } => i class={ "g c" (colour) } {},
                    Cell::Used { owner: Some(_), .. } => i.g.used {},
                    Cell::Used { .. } => i.g.stray {},
                }
            }
            @if node.cells.is_empty() { i.g.none {} }
            @if node.gpus > DRAWN_GPUS { span.dim { "+" (node.gpus - DRAWN_GPUS) } }
        }
    }
}
