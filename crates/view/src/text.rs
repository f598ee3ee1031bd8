//! Draws a set as a tree of lines.
//!
//! Glyphs and colours are for terminals; in a pipe the same lines come in plain ASCII.

use std::fmt::Write as _;

use super::pod_state::PodState;
use super::{CliqueView, CopyView, DomainView, GroupView, ReplicaView, SetState, SetView, VersionView, versions};

/// How to draw.
#[derive(Clone, Copy, Debug, Default)]
pub struct Style {
    /// Box-drawing characters and colours, for a terminal.
    pub terminal: bool,
    /// A line for each pod, not only for those that are not ready.
    pub pods: bool,
}

/// A colour of a terminal.
#[derive(Clone, Copy)]
pub enum Colour {
    Green,
    Yellow,
    Red,
    Dim,
    Bold,
}

impl Style {
    /// The text in a colour, where there are colours.
    pub fn paint(self, text: &str, colour: Colour) -> String {
        if !self.terminal {
            return text.to_owned();
        }
        let code = match colour {
            Colour::Green => "32",
            Colour::Yellow => "33",
            Colour::Red => "31",
            Colour::Dim => "2",
            Colour::Bold => "1",
        };
        format!("\x1b[{code}m{text}\x1b[0m")
    }

    /// The branch to a child, and what its own children are indented with.
    pub fn branch(self, last: bool) -> (&'static str, &'static str) {
        match (self.terminal, last) {
            (true, false) => ("├─ ", "│  "),
            (true, true) => ("└─ ", "   "),
            (false, false) => ("|- ", "|  "),
            (false, true) => ("`- ", "   "),
        }
    }
}

/// A node of the tree: a line, and what hangs below it.
struct Branch {
    line: String,
    below: Vec<Branch>,
}

/// The whole set.
pub fn draw(view: &SetView, style: Style) -> String {
    let mut text = header(view, style);
    let replicas: Vec<Branch> = view
        .replicas
        .iter()
        .map(|replica| replica_branch(replica, style))
        .collect();
    write_branches(&mut text, &replicas, "", style);
    text
}

fn header(view: &SetView, style: Style) -> String {
    let (word, colour) = match view.state {
        SetState::Ready => ("Ready", Colour::Green),
        SetState::Progressing => ("Progressing", Colour::Yellow),
        SetState::Updating => ("Updating", Colour::Yellow),
        SetState::Degraded => ("Degraded", Colour::Red),
        SetState::Deleting => ("Deleting", Colour::Yellow),
    };
    let title = style.paint(&format!("PodCliqueSet {}/{}", view.namespace, view.name), Colour::Bold);
    let mut text = format!(
        "{title}  {}  {}/{} replicas available  {}/{} pods ready",
        style.paint(word, colour),
        view.available_replicas,
        view.desired_replicas,
        view.pods.ready,
        view.pods.desired,
    );
    if view.gpus.desired > 0 {
        let _ = write!(text, "  {}/{} GPUs ready", view.gpus.ready, view.gpus.desired);
    }
    text.push('\n');
    if let Some(message) = &view.message {
        let _ = writeln!(text, "  {message}");
    }
    if let Some(update) = &view.update {
        let replicas: Vec<String> = update.current_replicas.iter().map(ToString::to_string).collect();
        let _ = write!(
            text,
            "  update: {}/{} cliques, {}/{} groups done",
            update.updated_cliques, update.total_cliques, update.updated_groups, update.total_groups
        );
        if !replicas.is_empty() {
            let _ = write!(text, "; now replica {}", replicas.join(", "));
        }
        text.push('\n');
    }
    for error in &view.errors {
        let _ = writeln!(text, "  {} {error}", style.paint("error:", Colour::Red));
    }
    text
}

fn write_branches(text: &mut String, branches: &[Branch], indent: &str, style: Style) {
    for (position, branch) in branches.iter().enumerate() {
        let (tip, below) = style.branch(position + 1 == branches.len());
        let _ = writeln!(
            text,
            "{}{}",
            style.paint(&format!("{indent}{tip}"), Colour::Dim),
            branch.line
        );
        write_branches(text, &branch.below, &format!("{indent}{below}"), style);
    }
}

fn replica_branch(replica: &ReplicaView, style: Style) -> Branch {
    let width = replica
        .cliques
        .iter()
        .map(|clique| clique.name.len())
        .chain(replica.groups.iter().map(|group| group.name.len() + " (group)".len()))
        .max()
        .unwrap_or(0);
    let mut below: Vec<Branch> = replica
        .gangs
        .iter()
        .map(|gang| {
            let mut line = format!("gang {} ({})  {}", gang.name, gang.content, gang.phase);
            if let Some(place) = &gang.place {
                let _ = write!(line, "  in {place}");
            }
            if let Some(score) = gang.placement_score {
                let _ = write!(line, "  score {score:.2}");
            }
            if let Some(waiting) = &gang.waiting {
                let _ = write!(line, "  {}", style.paint(waiting, Colour::Yellow));
            }
            Branch {
                line,
                below: Vec::new(),
            }
        })
        .collect();
    below.extend(replica.domains.iter().map(|domain| Branch {
        line: format!("NVLink domain {}  {}", domain.name, domain_state(domain, style)),
        below: Vec::new(),
    }));
    below.extend(replica.cliques.iter().map(|clique| clique_branch(clique, width, style)));
    below.extend(replica.groups.iter().map(|group| group_branch(group, width, style)));
    Branch {
        line: format!("replica {}", replica.index),
        below,
    }
}

fn domain_state(domain: &DomainView, style: Style) -> String {
    let colour = if domain.state == "Ready" {
        Colour::Green
    } else {
        Colour::Yellow
    };
    let count = format!("{}/{} nodes ready", domain.ready_nodes, domain.nodes);
    let state = style.paint(&domain.state, colour);
    match domain.cliques {
        0 => format!("{state}  {count}"),
        1 => format!("{state}  {count} in 1 rack"),
        several => format!("{state}  {count} in {several} racks"),
    }
}

fn group_branch(group: &GroupView, width: usize, style: Style) -> Branch {
    let count = format!("{}/{} available", group.available, group.desired);
    let colour = if group.available >= group.desired {
        Colour::Green
    } else if group.available >= group.min_available {
        Colour::Yellow
    } else {
        Colour::Red
    };
    let name = format!("{} (group)", group.name);
    let mut line = format!(
        "{name:width$}  {} (min {})",
        style.paint(&count, colour),
        group.min_available
    );
    if versions::is_mixed(&group.versions) {
        let _ = write!(line, "  {}", side_by_side(&group.versions, group.desired.into(), style));
    }
    Branch {
        line,
        below: group.copies.iter().map(|copy| copy_branch(copy, style)).collect(),
    }
}

/// Old and new, so that the old stands out.
fn side_by_side(versions: &[VersionView], desired: i64, style: Style) -> String {
    style.paint(&versions::side_by_side(versions, desired), Colour::Yellow)
}

fn copy_branch(copy: &CopyView, style: Style) -> Branch {
    let width = copy.cliques.iter().map(|clique| clique.name.len()).max().unwrap_or(0);
    let gang = copy
        .gang
        .as_ref()
        .map(|gang| format!("  gang {gang}"))
        .unwrap_or_default();
    Branch {
        line: format!("copy {}{gang}", copy.index),
        below: copy
            .cliques
            .iter()
            .map(|clique| clique_branch(clique, width, style))
            .collect(),
    }
}

fn clique_branch(clique: &CliqueView, width: usize, style: Style) -> Branch {
    let count = format!("{}/{} ready", clique.count.ready, clique.count.desired);
    let colour = if clique.count.ready >= clique.count.desired {
        Colour::Green
    } else if clique.count.ready >= i64::from(clique.min_available) {
        Colour::Yellow
    } else {
        Colour::Red
    };
    let mut line = format!(
        "{:width$}  {} (min {})",
        clique.name,
        style.paint(&count, colour),
        clique.min_available
    );
    if versions::is_mixed(&clique.versions) {
        let _ = write!(
            line,
            "  {}",
            side_by_side(&clique.versions, clique.count.desired, style)
        );
    }
    let shown = clique
        .pods
        .iter()
        .filter(|pod| style.pods || pod.state != PodState::Ready);
    let mut said: Option<&str> = None;
    let below = shown.map(|pod| {
        let mut line = format!("{}  {}", pod.name, pod.state.word());
        if let Some(node) = &pod.node {
            let _ = write!(line, "  on {node}");
        }
        // Pods of a clique often wait for the same: it is said once.
        if let Some(reason) = pod.reason.as_deref().filter(|reason| said != Some(*reason)) {
            let _ = write!(line, "  {}", style.paint(reason, Colour::Yellow));
        }
        said = pod.reason.as_deref().or(said);
        match pod.revision {
            Some(revision) if pod.outdated => {
                let _ = write!(line, "  (revision {revision})");
            }
            None if pod.outdated => line.push_str("  (earlier revision)"),
            _ => {}
        }
        if pod.restarts > 0 {
            let _ = write!(line, "  restarts {}", pod.restarts);
        }
        Branch {
            line,
            below: Vec::new(),
        }
    });
    let below: Vec<Branch> = below.collect();
    if !style.pods {
        let nodes: Vec<&str> = clique.pods.iter().filter_map(|pod| pod.node.as_deref()).collect();
        if !nodes.is_empty() && clique.outdated == 0 {
            let _ = write!(line, "  {}", style.paint(&abridged(&nodes), Colour::Dim));
        }
    }
    Branch { line, below }
}

/// The first few nodes, each once, and how many more there are.
pub fn abridged(nodes: &[&str]) -> String {
    const SHOWN: usize = 3;
    let mut distinct: Vec<&str> = Vec::new();
    for node in nodes {
        if !distinct.contains(node) {
            distinct.push(node);
        }
    }
    let nodes = distinct;
    if nodes.len() <= SHOWN {
        return nodes.join(", ");
    }
    format!("{} and {} more", nodes[..SHOWN].join(", "), nodes.len() - SHOWN)
}
