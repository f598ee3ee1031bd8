//! Expected outputs as files, for tests; COPPICE_BLESS=1 writes them anew, for review.

use std::path::PathBuf;

/// Compares with a file below `src/`.
pub(crate) fn check(file: &str, actual: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
    if std::env::var_os("COPPICE_BLESS").is_some() {
        std::fs::write(&path, actual).expect("the golden file can be written");
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(actual, expected, "{file} differs; COPPICE_BLESS=1 rewrites it");
}
