//! The page of conditions and reasons is made from the lists that the planners write from.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use coppice_core::conditions::ConditionType;
use coppice_core::reasons::Reason;

fn page() -> String {
    let mut page = String::from(
        "# Conditions and reasons\n\nWhat the operator writes into conditions, events and waits, and what it means. Made from the source; a test keeps it \
         up to date.\n\n## Condition types\n\n| condition | of | meaning when True |\n|---|---|---|\n",
    );
    for kind in ConditionType::ALL {
        let objects: Vec<&str> = kind.objects().iter().map(|object| object.as_str()).collect();
        let (name, objects, meaning) = (kind.as_str(), objects.join(", "), kind.meaning());
        page.push_str(&format!("| `{name}` | {objects} | {meaning} |\n"));
    }
    page.push_str("\n## Reasons\n\n| reason | meaning |\n|---|---|\n");
    let mut all = Reason::ALL.to_vec();
    all.sort_by_key(|reason| reason.as_str());
    for reason in all {
        page.push_str(&format!("| `{reason}` | {} |\n", reason.meaning()));
    }
    page
}

#[test]
fn the_page_lists_every_condition_and_reason_and_no_other() {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reasons.md");
    if std::env::var_os("COPPICE_BLESS").is_some() {
        std::fs::write(&file, page()).unwrap();
    }
    let stored = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        stored,
        page(),
        "docs/reasons.md is out of date: run this test with COPPICE_BLESS=1 to rewrite it"
    );
}
