//! Expected outputs as files, for tests; COPPICE_BLESS=1 rewrites them, for review.

use std::path::PathBuf;

/// Compares with a file below `src/`, and names the first line that differs.
pub(crate) fn check(file: &str, actual: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
    if std::env::var_os("COPPICE_BLESS").is_some() {
        std::fs::write(&path, actual).expect("the golden file can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if actual == expected {
        return;
    }
    let lines = actual.lines().map(Some).chain(std::iter::repeat(None));
    let stored = expected.lines().map(Some).chain(std::iter::repeat(None));
    let most = actual.lines().count().max(expected.lines().count());
    let first = lines.zip(stored).take(most).enumerate().find(|(_, (a, b))| a != b);
    panic!(
        "{file} differs (line, (actual, expected)): {first:#?}\nactual:\n{}\nCOPPICE_BLESS=1 rewrites it",
        if actual.len() > 4000 { "(long)" } else { actual }
    );
}
