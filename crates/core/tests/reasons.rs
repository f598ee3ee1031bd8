//! The page of reason codes lists exactly the reasons that the planners know.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use coppice_core::reasons;

#[test]
fn the_page_lists_every_reason_and_no_other() {
    let mut page = String::from(
        "# Reason codes\n\nReasons that the operator writes into conditions, events and waits, and what they mean.\n\n| reason | meaning |\n|---|---|\n",
    );
    let mut all: Vec<_> = reasons::ALL.iter().collect();
    all.sort_by_key(|reason| reason.code);
    for reason in all {
        page.push_str(&format!("| `{}` | {} |\n", reason.code, reason.meaning));
    }
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reasons.md");
    if std::env::var_os("COPPICE_BLESS").is_some() {
        std::fs::write(&file, &page).unwrap();
    }
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        stored, page,
        "docs/reasons.md is out of date: run the tests with COPPICE_BLESS=1 to write it anew"
    );
}
