//! Every one of the 32 defects in `docs/defects-not-repeated.md` has a test or a scenario that is named after it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// All test functions and scenarios whose names begin with the number of a defect, by number.
fn named_tests(root: &Path) -> BTreeMap<u32, BTreeSet<String>> {
    let mut found: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    let mut open = vec![root.join("crates"), root.join("tests")];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
                continue;
            }
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            if let Some(scenario) = name.strip_suffix(".yaml").filter(|_| directory.ends_with("scenarios")) {
                // A defect may come first or last: `w02-...`, `scale-below-minimum-w18`.
                for part in scenario.split('-') {
                    found
                        .entry(number(part).unwrap_or(0))
                        .or_default()
                        .insert(scenario.to_owned());
                }
            } else if name.ends_with(".rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                let lines: Vec<&str> = text.lines().map(str::trim).collect();
                for pair in lines
                    .windows(2)
                    .filter(|pair| pair[0].starts_with("#[") && pair[0].contains("test"))
                {
                    let signature = pair[1].trim_start_matches("async ");
                    let Some(test) = signature.strip_prefix("fn ").and_then(|rest| rest.split('(').next()) else {
                        continue;
                    };
                    let first = test.split('_').next().unwrap_or_default();
                    found
                        .entry(number(first).unwrap_or(0))
                        .or_default()
                        .insert(test.to_owned());
                }
            }
        }
    }
    found.remove(&0);
    found
}

fn number(part: &str) -> Option<u32> {
    let digits = part.strip_prefix('w').filter(|digits| digits.len() == 2)?;
    digits.parse().ok().filter(|number| *number > 0)
}

#[test]
fn every_defect_has_a_test_and_the_table_names_them_all() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tests = named_tests(&root);
    let table = std::fs::read_to_string(root.join("docs/defects-not-repeated.md")).unwrap();
    let mut listed: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for row in table.lines().filter(|line| line.starts_with("| W")) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let [defect, _, _, names] = cells.as_slice() else {
            panic!("not four cells: {row}");
        };
        let defect = defect.trim_start_matches('W').parse().unwrap();
        let names = names.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        assert!(listed.insert(defect, names).is_none(), "W{defect} has two rows");
    }
    assert_eq!(listed.keys().copied().collect::<Vec<_>>(), (1..=32).collect::<Vec<_>>());
    for (defect, names) in &listed {
        assert!(!names.is_empty(), "W{defect} names no test");
        let existing = tests.get(defect).cloned().unwrap_or_default();
        let missing: Vec<&String> = names.difference(&existing).collect();
        assert!(
            missing.is_empty(),
            "tests that the row of W{defect} names and nobody has written: {missing:?}"
        );
    }
    let strange: Vec<&u32> = tests.keys().filter(|number| !listed.contains_key(number)).collect();
    assert!(
        strange.is_empty(),
        "tests named after defects that the table does not have: {strange:?}"
    );
}
