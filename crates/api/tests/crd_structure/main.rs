//! Our CRDs against the structure of the reference CRDs, node by node.
//!
//! The reference is `fixtures/reference-structure.txt`, which is older than what the reference serves today: what it has
//! added and dropped since is in `fixtures/reference-since.txt`. Differences that are meant are listed with their reasons in
//! `fixtures/allowed-differences.txt`, and an entry there that no longer applies is an error too.

#[allow(unreachable_pub)]
mod listing;

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::crd;
use listing::Node;

const REFERENCE: &str = include_str!("../../fixtures/reference-structure.txt");
const SINCE: &str = include_str!("../../fixtures/reference-since.txt");
const ALLOWED: &str = include_str!("../../fixtures/allowed-differences.txt");

/// The reference as it is today: the extracted one with what changed since.
fn reference() -> BTreeMap<String, String> {
    let mut nodes = Node::from_text(REFERENCE).by_path();
    let lines = SINCE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        let (sign, rest) = line.split_once(' ').expect("a sign and a path");
        let (path, facts) = rest.split_once(' ').unwrap_or((rest, ""));
        let before = match sign {
            "+" | "~" => nodes.insert(path.to_owned(), facts.to_owned()),
            "-" => nodes.remove(path),
            _ => panic!("unknown sign in {line:?}"),
        };
        assert_eq!(
            before.is_some(),
            sign != "+",
            "{line:?} does not fit the extracted reference"
        );
    }
    nodes
}

/// Differences between two listings, as `<sign> <path>` with the facts: `+` only in ours, `-` only in the reference,
/// `~` in both but not the same. Of a subtree that is only in one of them, only the root is listed.
fn differences(reference: &BTreeMap<String, String>, ours: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let paths: BTreeSet<&String> = reference.keys().chain(ours.keys()).collect();
    let has_parent = |nodes: &BTreeMap<String, String>, path: &str| {
        path.rsplit_once('/')
            .is_none_or(|(parent, _)| nodes.contains_key(parent))
    };
    let mut found = BTreeMap::new();
    for path in paths {
        match (reference.get(path), ours.get(path)) {
            (Some(theirs), Some(own)) if theirs != own => {
                found.insert(
                    format!("~ {path}"),
                    format!("reference: {theirs}\n      ours:      {own}"),
                );
            }
            (Some(theirs), None) if has_parent(ours, path) => {
                found.insert(format!("- {path}"), format!("reference: {theirs}"));
            }
            (None, Some(own)) if has_parent(reference, path) => {
                found.insert(format!("+ {path}"), format!("ours:      {own}"));
            }
            _ => {}
        }
    }
    found
}

/// Entries of the allowed list: a difference, exactly or with one `*` for any text, then ` | ` and the reason.
fn allowed() -> Vec<(&'static str, &'static str)> {
    let lines = ALLOWED
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| line.split_once(" | ").expect("an allowed difference has a reason"))
        .collect()
}

fn matches(pattern: &str, difference: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == difference,
        Some((start, end)) => {
            difference.len() >= start.len() + end.len() && difference.starts_with(start) && difference.ends_with(end)
        }
    }
}

#[test]
fn every_difference_from_the_reference_is_meant() {
    let reference = reference();
    let ours = Node::of_definitions(&crd::all()).by_path();
    let found = differences(&reference, &ours);
    let allowed = allowed();
    let mut problems = Vec::new();
    for (difference, facts) in &found {
        if !allowed.iter().any(|(pattern, _)| matches(pattern, difference)) {
            problems.push(format!("not allowed: {difference}\n      {facts}"));
        }
    }
    for (pattern, _) in &allowed {
        if !found.keys().any(|difference| matches(pattern, difference)) {
            problems.push(format!("no longer needed in the allowed list: {pattern}"));
        }
    }
    let total = problems.len();
    problems.truncate(60);
    assert!(problems.is_empty(), "{total} problems:\n  {}", problems.join("\n  "));
}

#[test]
fn the_allowed_list_stays_short() {
    assert!(
        allowed().len() <= 14,
        "explain differences by removing them, not by listing them"
    );
    assert!(
        allowed().iter().all(|(_, reason)| reason.len() > 20),
        "each entry needs a reason that explains it"
    );
}

#[test]
fn the_fixture_holds_the_whole_reference() {
    let reference = Node::from_text(REFERENCE).by_path();
    let definitions: Vec<_> = reference
        .keys()
        .filter(|path| !path.contains('/'))
        .map(String::as_str)
        .collect();
    assert_eq!(
        definitions,
        [
            "clustertopologybindings.grove.io",
            "podcliques.grove.io",
            "podcliquescalinggroups.grove.io",
            "podcliquesets.grove.io",
            "podgangmaps.grove.io",
            "podgangs.scheduler.grove.io"
        ]
    );
    assert_eq!(
        Node::from_text(REFERENCE).to_text(),
        REFERENCE,
        "the fixture is what the extractor writes"
    );
}

#[test]
fn a_listing_survives_its_text_form() {
    let ours = Node::of_definitions(&crd::all());
    assert_eq!(Node::from_text(&ours.to_text()), ours);
}

#[test]
fn a_changed_fact_and_a_missing_node_are_found() {
    let ours = Node::of_definitions(&crd::all()).by_path();
    let field = "podcliquesets.grove.io/v1alpha1/spec/template/terminationDelay";
    let mut changed = ours.clone();
    changed.insert(field.to_owned(), "integer".to_owned());
    assert_eq!(
        differences(&changed, &ours).into_keys().collect::<Vec<_>>(),
        [format!("~ {field}")]
    );
    changed.remove(field);
    assert_eq!(
        differences(&changed, &ours).into_keys().collect::<Vec<_>>(),
        [format!("+ {field}")]
    );
    assert_eq!(
        differences(&ours, &changed).into_keys().collect::<Vec<_>>(),
        [format!("- {field}")]
    );
}
