//! What is new in a view, as lines for a pipe or a log: one for each set, gang and clique that is not as it was.

use std::collections::BTreeMap;

use super::pod_state::PodState;
use super::text::abridged;
use super::{CliqueView, DomainView, GangView, SetView, build};

/// What can be said of an object in a line.
struct Fact {
    name: String,
    state: String,
    /// Whether it is worth a line the first time; a clique without pods is not.
    is_news: bool,
}

/// The lines of all that differs; of all there is when there was nothing before.
pub fn lines(before: Option<&SetView>, after: &SetView) -> Vec<String> {
    let before: Vec<Fact> = before.map(facts).into_iter().flatten().collect();
    let known: BTreeMap<&str, &str> = before.iter().map(|fact| (&*fact.name, &*fact.state)).collect();
    let now = facts(after);
    let new = now.iter().filter(|fact| match known.get(&*fact.name) {
        Some(before) => *before != fact.state,
        None => fact.is_news,
    });
    let gone = before
        .iter()
        .filter(|fact| fact.is_news && !now.iter().any(|other| other.name == fact.name));
    let new = new.map(|fact| format!("{}: {}", fact.name, fact.state));
    new.chain(gone.map(|fact| format!("{}: gone", fact.name))).collect()
}

/// What can be said of a set, in the order of the tree.
fn facts(view: &SetView) -> Vec<Fact> {
    let fact = |name: String, state: String, is_news: bool| Fact { name, state, is_news };
    let mut facts = vec![fact(format!("set {}/{}", view.namespace, view.name), set(view), true)];
    for replica in &view.replicas {
        let gangs = replica.gangs.iter();
        facts.extend(gangs.map(|gang| fact(format!("gang {} ({})", gang.name, gang.content), place(gang), true)));
        let domains = replica.domains.iter();
        facts.extend(domains.map(|domain| fact(format!("NVLink domain {}", domain.name), formed(domain), true)));
        let cliques = build::cliques_of(replica);
        facts.extend(cliques.map(|clique| fact(clique.object.clone(), pods(clique), !clique.pods.is_empty())));
    }
    facts
}

fn set(view: &SetView) -> String {
    let state = format!("{:?}", view.state);
    match &view.update {
        Some(update) => format!(
            "{state}, {}/{} cliques and {}/{} groups done",
            update.updated_cliques, update.total_cliques, update.updated_groups, update.total_groups
        ),
        None => state,
    }
}

fn place(gang: &GangView) -> String {
    let place = gang.place.iter().map(|place| format!(" in {place}"));
    format!("{}{}", gang.phase, place.collect::<String>())
}

fn formed(domain: &DomainView) -> String {
    format!("{}, {}/{} nodes ready", domain.state, domain.ready_nodes, domain.nodes)
}

/// How many pods are ready and where, or what the others are doing.
fn pods(clique: &CliqueView) -> String {
    let mut line = format!("{}/{} ready", clique.count.ready, clique.count.desired);
    let mut others: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in clique.pods.iter().filter(|pod| pod.state != PodState::Ready) {
        *others.entry(pod.state.word()).or_default() += 1;
    }
    if others.is_empty() && clique.count.ready >= clique.count.desired {
        let nodes: Vec<&str> = clique.pods.iter().filter_map(|pod| pod.node.as_deref()).collect();
        if !nodes.is_empty() {
            line.push_str(&format!(" on {}", abridged(&nodes)));
        }
        return line;
    }
    let others: Vec<String> = others.iter().map(|(word, count)| format!("{count} {word}")).collect();
    if !others.is_empty() {
        line.push_str(&format!(", {}", others.join(", ")));
    }
    line
}
