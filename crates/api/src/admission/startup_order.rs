//! The order in which cliques start: the type, and with explicit order the dependencies and their cycles.

use std::collections::{BTreeMap, BTreeSet};

use crate::types::CliqueStartupType;

use super::subject::Subject;
use super::{FieldError, Outcome};

pub(super) fn check(subject: &Subject<'_>, found: &mut Outcome) {
    let at = Subject::template_path().field("cliqueStartupType");
    match &subject.template.clique_startup_type {
        None => found
            .errors
            .push(FieldError::required(at, "say in which order the cliques start")),
        Some(CliqueStartupType::Other(text)) => {
            let known = CliqueStartupType::KNOWN.iter().copied();
            found.errors.push(FieldError::not_supported(at, text, known));
        }
        Some(CliqueStartupType::Explicit) => {
            dependencies(subject, found);
            cycles(subject, found);
        }
        Some(CliqueStartupType::AnyOrder | CliqueStartupType::InOrder) => {
            for (_, clique) in subject
                .cliques()
                .filter(|(_, clique)| !clique.spec.starts_after.is_empty())
            {
                found.warnings.push(format!(
                    "startsAfter of clique {:?} has no effect unless cliqueStartupType is {}",
                    clique.name,
                    CliqueStartupType::Explicit
                ));
            }
        }
    }
}

fn dependencies(subject: &Subject<'_>, found: &mut Outcome) {
    for (path, clique) in subject.cliques() {
        let path = path.field("spec").field("startsAfter");
        let mut seen = BTreeSet::new();
        for (index, name) in clique.spec.starts_after.iter().enumerate() {
            let at = path.item(index, name);
            if name.trim().is_empty() {
                found
                    .errors
                    .push(FieldError::required(at, "name a clique, or remove the entry"));
            } else if *name == clique.name {
                found.errors.push(FieldError::invalid(
                    at,
                    name.as_str(),
                    "a clique cannot start after itself",
                ));
            } else if !seen.insert(name) {
                found
                    .errors
                    .push(FieldError::duplicate(at, name, "name each clique once"));
            } else if subject.clique(name).is_none() {
                found.errors.push(FieldError::not_found(
                    at,
                    name,
                    "name a clique of spec.template.cliques",
                ));
            }
        }
    }
}

/// Reports one cycle for each clique at which a walk along the dependencies closes one.
fn cycles(subject: &Subject<'_>, found: &mut Outcome) {
    let after: BTreeMap<&str, &[String]> = subject
        .cliques()
        .map(|(_, clique)| (clique.name.as_str(), clique.spec.starts_after.as_slice()))
        .collect();
    let mut done = BTreeSet::new();
    for (path, clique) in subject.cliques() {
        if let Some(cycle) = walk(&clique.name, &after, &mut done) {
            let at = path.field("spec").field("startsAfter");
            let detail = format!(
                "clique must not have circular dependencies ({}); remove one of them",
                cycle.join(" after ")
            );
            found.errors.push(FieldError::invalid(at, clique.name.as_str(), detail));
        }
    }
}

/// Walks depth first without recursion, because a manifest may chain thousands of cliques. Gives the first cycle met;
/// all cliques met are done, so that each cycle is met once.
fn walk<'a>(
    start: &'a str,
    after: &BTreeMap<&'a str, &'a [String]>,
    done: &mut BTreeSet<&'a str>,
) -> Option<Vec<&'a str>> {
    let mut path: Vec<(&str, usize)> = vec![(start, 0)];
    let mut on_path = BTreeSet::from([start]);
    let mut cycle = None;
    if done.contains(start) {
        return None;
    }
    while let Some((name, next)) = path.last_mut() {
        let Some(parent) = after.get(*name).and_then(|parents| parents.get(*next)) else {
            done.insert(*name);
            on_path.remove(*name);
            path.pop();
            continue;
        };
        *next += 1;
        // A clique after itself has an error of its own.
        if parent == *name || done.contains(parent.as_str()) || !after.contains_key(parent.as_str()) {
            continue;
        }
        if on_path.contains(parent.as_str()) {
            if cycle.is_none() {
                let from = path.iter().position(|(name, _)| name == parent).unwrap_or(0);
                let names = path[from..].iter().map(|(name, _)| *name);
                cycle = Some(names.chain([parent.as_str()]).collect());
            }
            continue;
        }
        on_path.insert(parent);
        path.push((parent, 0));
    }
    cycle
}
