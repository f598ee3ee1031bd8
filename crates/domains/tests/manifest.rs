//! The manifest of the definitions is what the code says.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use coppice_domains::api::crd;
use std::path::Path;

#[test]
fn the_manifest_carries_the_current_definitions() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/compute-domains/crds.json");
    let list = serde_json::json!({"apiVersion": "v1", "kind": "List", "items": crd::all()});
    let wanted = serde_json::to_string_pretty(&list).unwrap() + "\n";
    if std::env::var_os("COPPICE_BLESS").is_some() {
        std::fs::write(&path, &wanted).unwrap();
    }
    assert!(
        std::fs::read_to_string(&path).unwrap_or_default() == wanted,
        "deploy/compute-domains/crds.json is stale: run this test with COPPICE_BLESS=1"
    );
}
