//! Every manifest of the corpus is admitted or refused as it says.
//!
//! Lines `refused by webhook` are checked here, completely: these errors and no others. What `schema` and `cel` refuse
//! is refused by the API server with our CRDs before admission sees it; here such a manifest must only not confuse us.

use std::path::PathBuf;

use crate::support::{Case, Judged, cases_in, context, corpus, defaulted, judge};
use coppice_api::admission::Outcome;
use serde_json::Value;

fn assert_warnings(case: &Case, outcome: &Outcome) {
    let (name, found) = (&case.name, &outcome.warnings);
    assert_eq!(case.warnings.len(), found.len(), "{name}: warnings {found:#?}");
    for (piece, warning) in case.warnings.iter().zip(found) {
        assert!(
            warning.contains(piece),
            "{name}: expected a warning with {piece:?}, found {warning:?}"
        );
    }
}

/// Defaulting adds and never changes, and decoding loses nothing. An empty list or map may be left out.
fn assert_only_added(name: &str, before: &Value, after: &Value) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (key, value) in before {
                let empty = value.as_array().is_some_and(Vec::is_empty)
                    || value.as_object().is_some_and(serde_json::Map::is_empty);
                match after.get(key) {
                    Some(other) => assert_only_added(name, value, other),
                    None => assert!(empty, "{name}: {key} is lost"),
                }
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            assert_eq!(before.len(), after.len(), "{name}");
            for (before, after) in before.iter().zip(after) {
                assert_only_added(name, before, after);
            }
        }
        _ => assert_eq!(before, after, "{name}"),
    }
}

#[test]
fn good_manifests_are_admitted() {
    let cases = corpus("good");
    assert!(cases.len() >= 40, "only {} good manifests", cases.len());
    for case in cases {
        let outcome = judge(&case.documents, &case.context).outcome();
        let errors: Vec<String> = outcome.errors.iter().map(ToString::to_string).collect();
        assert!(errors.is_empty(), "{}: {errors:#?}", case.name);
        assert_warnings(&case, &outcome);
        for document in case
            .documents
            .iter()
            .filter(|document| document["kind"] == "PodCliqueSet")
        {
            if case.name != "clique-replicas-zero" {
                assert_only_added(&case.name, document, &defaulted(document));
            }
        }
    }
}

#[test]
fn bad_manifests_are_refused_as_they_say() {
    let cases = corpus("bad");
    assert!(cases.len() >= 60, "only {} bad manifests", cases.len());
    for case in cases {
        assert!(!case.expected.is_empty(), "{}: nothing is expected", case.name);
        let by_webhook = case.expected.iter().all(|expected| expected.refuser == "webhook");
        if !by_webhook {
            judge(&case.documents, &case.context);
            continue;
        }
        let name = &case.name;
        let outcome = judge(&case.documents, &case.context).outcome();
        let found: Vec<String> = outcome.errors.iter().map(ToString::to_string).collect();
        assert_eq!(case.expected.len(), found.len(), "{name}: {found:#?}");
        for expected in &case.expected {
            let matches = outcome.errors.iter().any(|error| {
                error.path.to_string() == expected.path
                    && format!("{:?}", error.kind) == expected.kind
                    && error.body().contains(&expected.piece)
            });
            assert!(matches, "{name}: expected {expected:?}, found {found:#?}");
        }
        assert_warnings(&case, &outcome);
    }
}

#[test]
fn the_old_object_of_an_update_counts_only_when_it_is_an_update() {
    for case in corpus("bad") {
        if let [old, _] = case.documents.as_slice() {
            let unchanged = judge(&[old.clone(), old.clone()], &case.context).outcome();
            assert!(
                unchanged.is_admitted(),
                "{}: an unchanged object is refused: {:?}",
                case.name,
                unchanged.errors
            );
        }
    }
    // And any object at all, however bad, may stay as it is.
    for case in corpus("bad") {
        let last = case.documents.last().expect("a document");
        match judge(&[last.clone(), last.clone()], &case.context) {
            Judged::Outcome(outcome) => assert_eq!(outcome, Outcome::default(), "{}", case.name),
            Judged::Undecodable(_) => assert!(case.expected.iter().all(|expected| expected.refuser == "schema")),
        }
    }
}

/// The samples of the Go operator, in a folder beside the repository or named by `COPPICE_REFERENCE_SAMPLES`. They are not
/// part of the repository, so a clone without them says so and checks nothing.
#[test]
fn reference_samples_are_admitted() {
    let named = std::env::var_os("COPPICE_REFERENCE_SAMPLES").map(PathBuf::from);
    let beside = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/grove-samples");
    let folder = named.clone().unwrap_or_else(beside);
    if named.is_none() && !folder.is_dir() {
        println!("NOT CHECKED: no reference samples here; name their folder in COPPICE_REFERENCE_SAMPLES");
        return;
    }
    let cases = cases_in(&folder);
    assert!(!cases.is_empty(), "no samples in {}", folder.display());
    for case in cases {
        let sets = case.documents.iter().filter(|document| !document.is_null());
        for document in sets {
            let outcome = judge(std::slice::from_ref(document), &context()).outcome();
            let errors: Vec<String> = outcome.errors.iter().map(ToString::to_string).collect();
            assert!(errors.is_empty(), "{}: {errors:#?}", case.name);
            assert_only_added(&case.name, document, &defaulted(document));
        }
    }
}
