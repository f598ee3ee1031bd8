//! Every one of the 21 weak spots in `docs/compute-domain-defects.md` has tests, and those that it names exist.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The names of all test functions of the workspace's crates.
fn tests(root: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<PathBuf> = vec![root.join("crates")];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let lines: Vec<&str> = text.lines().map(str::trim).collect();
                let tests = lines
                    .windows(2)
                    .filter(|pair| pair[0].starts_with("#[") && pair[0].contains("test"));
                let names = tests.filter_map(|pair| pair[1].trim_start_matches("async ").strip_prefix("fn "));
                found.extend(names.filter_map(|rest| rest.split('(').next()).map(str::to_owned));
            }
        }
    }
    found
}

#[test]
fn every_weak_spot_has_tests_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tests = tests(&root);
    let table = std::fs::read_to_string(root.join("docs/compute-domain-defects.md")).unwrap();
    let rows: Vec<&str> = table.lines().filter(|line| line.starts_with("| D")).collect();
    assert_eq!(rows.len(), 21);
    for (number, row) in (1..).zip(rows) {
        assert!(row.starts_with(&format!("| D{number} |")), "{row}");
        let named: BTreeSet<String> = row
            .rsplit('|')
            .nth(1)
            .unwrap()
            .split('`')
            .skip(1)
            .step_by(2)
            .map(str::to_owned)
            .collect();
        let missing: Vec<&String> = named.difference(&tests).collect();
        assert!(
            !named.is_empty() && missing.is_empty(),
            "D{number} names tests that do not exist: {missing:?}"
        );
    }
}
