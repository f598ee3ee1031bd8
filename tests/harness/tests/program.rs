//! The `scenario` program as a user meets it, as far as no cluster is needed: help, listing, mistakes, exit codes.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::{Command, Output};

fn scenario(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_scenario"))
        .args(arguments)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn help_names_options_and_exit_codes() {
    let output = scenario(&["--help"]);
    assert!(output.status.success());
    for part in ["--kubeconfig", "--list", "Exit codes", "tests/scenarios/README.md"] {
        assert!(
            text(&output.stdout).contains(part),
            "{part} is not in:\n{}",
            text(&output.stdout)
        );
    }
}

#[test]
fn listing_shows_names_and_descriptions_and_runs_nothing() {
    let output = scenario(&["--list", "tests/scenarios/node-loss.yaml"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(
        text(&output.stdout).starts_with("node-loss  ("),
        "{}",
        text(&output.stdout)
    );
}

#[test]
fn every_mistake_is_printed_and_ends_with_code_2() {
    let bad = "tests/harness/tests/fixtures/bad";
    let files = [format!("{bad}/unknown-step.yaml"), format!("{bad}/no-steps.yaml")];
    let output = scenario(&[&files[0], &files[1]]);
    assert_eq!(output.status.code(), Some(2));
    let errors = text(&output.stderr);
    assert!(
        errors.contains(&format!("{bad}/unknown-step.yaml:7:5: unknown step `killapiserver`")),
        "{errors}"
    );
    assert!(errors.contains(&format!("{bad}/no-steps.yaml:1:7: ")), "{errors}");
}

#[test]
fn a_kubeconfig_that_is_not_there_ends_with_code_2() {
    let output = scenario(&["--kubeconfig", "nowhere", "tests/scenarios/node-loss.yaml"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("nowhere"), "{}", text(&output.stderr));
}
