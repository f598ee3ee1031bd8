//! Topologies as people read them: a tree with columns.

use std::fmt::Write as _;

use super::{Amounts, Domain, Host, TopologyView, Tree};
use crate::text::{Colour, Style};
use crate::words::columns_of;

/// One line: the branches before it, what it is, and its columns.
struct Row {
    indent: String,
    name: String,
    nodes: String,
    gpus: String,
    free: String,
    more: String,
}

/// All topologies, one after another.
pub fn draw(view: &TopologyView, style: Style) -> String {
    let drawn = view.topologies.iter().map(|tree| one(tree, style));
    drawn.collect::<Vec<_>>().join("\n")
}

fn one(tree: &Tree, style: Style) -> String {
    let levels: Vec<&str> = tree.levels.iter().map(|level| level.domain.as_str()).collect();
    let mut text = match &tree.name {
        Some(name) => format!(
            "{}  {}\n",
            style.paint(&format!("Topology {name}"), Colour::Bold),
            levels.join(" > ")
        ),
        None if levels.is_empty() => {
            "No ClusterTopologyBinding found, and nodes have no topology labels; for an example see examples/topology.yaml\n"
                .to_owned()
        }
        None => format!("No ClusterTopologyBinding; by node labels: {}\n", levels.join(" > ")),
    };
    let mut rows = vec![Row {
        indent: String::new(),
        name: String::new(),
        nodes: "NODES".to_owned(),
        gpus: "GPUS".to_owned(),
        free: "FREE".to_owned(),
        more: "GANGS".to_owned(),
    }];
    rows.push(row("", "all".to_owned(), tree.total, String::new()));
    for (position, domain) in tree.domains.iter().enumerate() {
        let last = position + 1 == tree.domains.len();
        branch(&mut rows, domain, "", last, style);
    }
    write_rows(&mut text, &rows, style);
    text
}

fn row(indent: &str, name: String, amounts: Amounts, more: String) -> Row {
    let nodes = if amounts.usable_nodes == amounts.nodes {
        amounts.nodes.to_string()
    } else {
        format!("{}/{}", amounts.usable_nodes, amounts.nodes)
    };
    Row {
        indent: indent.to_owned(),
        name,
        nodes,
        gpus: amounts.gpus.to_string(),
        free: amounts.free_gpus.to_string(),
        more,
    }
}

fn branch(rows: &mut Vec<Row>, domain: &Domain, indent: &str, last: bool, style: Style) {
    let (tip, next) = style.branch(last);
    let name = match &domain.name {
        Some(name) => format!("{} {name}", domain.level),
        None if domain.level == "cluster" => "nodes".to_owned(),
        None => format!("no {}", domain.level),
    };
    // A gang is named where it is packed, not again in everything around that.
    let gangs = if domain.domains.is_empty() {
        gangs(domain)
    } else {
        String::new()
    };
    rows.push(row(&format!("{indent}{tip}"), name, domain.amounts, gangs));
    let indent = format!("{indent}{next}");
    for (position, inner) in domain.domains.iter().enumerate() {
        branch(rows, inner, &indent, position + 1 == domain.domains.len(), style);
    }
    let shown: Vec<&Host> = domain
        .hosts
        .iter()
        .filter(|host| style.pods || !host.problems.is_empty())
        .collect();
    for (position, host) in shown.iter().enumerate() {
        let (tip, _) = style.branch(position + 1 == shown.len());
        rows.push(Row {
            indent: format!("{indent}{tip}"),
            name: host.name.clone(),
            nodes: String::new(),
            gpus: host.gpus.to_string(),
            free: host.free_gpus.to_string(),
            more: of_host(host, style),
        });
    }
}

fn gangs(domain: &Domain) -> String {
    const SHOWN: usize = 3;
    let named = domain.gangs.iter().take(SHOWN).map(|share| {
        let pods = if share.pods == 1 { "pod" } else { "pods" };
        format!("{}/{} ({} {pods})", share.namespace, share.name, share.pods)
    });
    let mut text = named.collect::<Vec<_>>().join(", ");
    if domain.gangs.len() > SHOWN {
        let _ = write!(text, " and {} more", domain.gangs.len() - SHOWN);
    }
    text
}

fn of_host(host: &Host, style: Style) -> String {
    const SHOWN: usize = 2;
    let problems = host.problems.iter().map(|problem| style.paint(problem, Colour::Yellow));
    // The namespace is that of the gang, which the line of the domain names.
    let names = host.pods.iter().filter_map(|pod| pod.rsplit('/').next()).take(SHOWN);
    let mut text = problems.chain(names.map(str::to_owned)).collect::<Vec<_>>().join(", ");
    if host.pods.len() > SHOWN {
        let _ = write!(text, " +{}", host.pods.len() - SHOWN);
    }
    text
}

fn write_rows(text: &mut String, rows: &[Row], style: Style) {
    let longest = |cell: fn(&Row) -> usize| rows.iter().map(cell).max().unwrap_or(0);
    let first = longest(|row| columns_of(&row.indent) + columns_of(&row.name));
    let (nodes, gpus, free) = (
        longest(|row| row.nodes.len()),
        longest(|row| row.gpus.len()),
        longest(|row| row.free.len()),
    );
    for row in rows {
        let gap = first - columns_of(&row.indent) - columns_of(&row.name);
        let line = format!(
            "{}{}{}  {:>nodes$}  {:>gpus$}  {:>free$}  {}",
            if row.indent.is_empty() {
                String::new()
            } else {
                style.paint(&row.indent, Colour::Dim)
            },
            row.name,
            " ".repeat(gap),
            row.nodes,
            row.gpus,
            row.free,
            row.more
        );
        let _ = writeln!(text, "{}", line.trim_end());
    }
}
