//! Scenario files as a reader meets them: each file under `fixtures/bad` holds one mistake, and the file beside it with
//! the ending `expected` holds the message word for word. The scenarios of the repository and the examples of the
//! reference must parse.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};

use coppice_harness::scenario::parse;

fn files(directory: &str, extension: &str) -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join(directory);
    let mut files: Vec<PathBuf> = std::fs::read_dir(&directory)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no *.{extension} in {}", directory.display());
    files
}

/// The message without the directory of the repository.
fn message(file: &Path) -> String {
    let error = parse::load(file).map(|scenario| scenario.name).unwrap_err();
    assert!(error.line > 0 && error.column > 0, "{error} has no place");
    let directory = file.parent().unwrap().display().to_string();
    error.to_string().replace(&format!("{directory}/"), "")
}

#[test]
fn every_mistake_is_reported_at_its_place_with_what_would_be_right() {
    let mut differences = Vec::new();
    for file in files("tests/fixtures/bad", "yaml") {
        let expected = std::fs::read_to_string(file.with_extension("expected")).unwrap_or_default();
        let actual = message(&file);
        if expected.trim_end() != actual {
            differences.push(format!("- {}\n+ {actual}", expected.trim_end()));
        }
    }
    assert!(differences.is_empty(), "messages differ:\n{}", differences.join("\n"));
}

#[test]
fn a_file_that_is_not_there_is_an_error_without_a_line() {
    let error = parse::load(Path::new("nowhere.yaml"))
        .map(|scenario| scenario.name)
        .unwrap_err();
    assert!(error.to_string().starts_with("nowhere.yaml: "), "{error}");
}

#[test]
fn every_scenario_of_the_repository_parses() {
    for file in files("../scenarios", "yaml") {
        let scenario = parse::load(&file).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(
            Some(scenario.name.as_str()),
            file.file_stem().and_then(|stem| stem.to_str()),
            "name and file agree"
        );
    }
}

fn reference() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios/README.md")).unwrap()
}

/// The examples of the reference: fenced blocks with the words after `yaml` that say what they are part of.
fn examples() -> Vec<(String, String)> {
    let text = reference();
    let blocks = text
        .split("```yaml")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap());
    blocks
        .map(|block| block.split_once('\n').unwrap())
        .map(|(part, body)| (part.trim().to_owned(), body.to_owned()))
        .collect()
}

#[test]
fn every_example_of_the_reference_parses() {
    let examples = examples();
    assert!(examples.len() >= 4, "{}", examples.len());
    for (part, body) in examples {
        let text = match part.as_str() {
            "" => body,
            "step" => format!("name: example\ndescription: An example.\nsteps:\n{body}"),
            "never" => format!(
                "name: example\ndescription: An example.\nsteps:\n- {{name: everything is ready, wait: }}\n\
                 - {{name: clean up, wait: }}\nnever:\n{body}"
            ),
            other => panic!("unknown part {other}"),
        };
        parse::parse(&text, Path::new("README.md")).unwrap_or_else(|error| panic!("{error}\n{text}"));
    }
}

/// The valid names that a mistake makes the parser list.
fn valid_names(text: &str) -> Vec<String> {
    let text = format!("name: a\ndescription: b\n{text}");
    let error = parse::parse(&text, Path::new("a.yaml"))
        .map(|scenario| scenario.name)
        .unwrap_err()
        .to_string();
    let (_, names) = error.split_once("valid: ").unwrap_or_else(|| panic!("{error}"));
    names.split(", ").map(str::to_owned).collect()
}

#[test]
fn the_reference_knows_every_word() {
    let reference = reference();
    for text in [
        "nothing: 1",
        "cluster: {nothing: 1}",
        "never: [{nothing: 1}]",
        "steps: [{nothing: 1}]",
        "steps: [{expect: [{nothing: 1}]}]",
        "steps: [{expect: [{event: {nothing: 1}}]}]",
        "steps: [{expect: [{kind: Pod, fields: {a: {nothing: 1}}}]}]",
        "steps: [{delete: {nothing: 1}}]",
        "steps: [{edit: {nothing: 1}}]",
        "steps: [{patch: {nothing: 1}}]",
        "steps: [{scale: {nothing: 1}}]",
        "steps: [{wait: {nothing: 1}}]",
        "steps: [{remember: {nothing: 1}}]",
        "steps: [{cordon: {nothing: 1}}]",
        "steps: [{podBehaviour: {nothing: 1}}]",
        "steps: [{podBehaviour: {all: true, set: {nothing: 1}}}]",
        "steps: [{fails: {nothing: 1}}]",
    ] {
        for name in valid_names(text) {
            let known = [format!("{name}:"), format!("`{name}`"), format!("`{name}:")];
            assert!(
                known.iter().any(|known| reference.contains(known)),
                "`{name}` of {text} is not in the reference"
            );
        }
    }
}
