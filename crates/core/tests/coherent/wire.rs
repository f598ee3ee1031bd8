//! Maps as they are stored, also hostile ones, and whose turn it is.

use std::collections::BTreeSet;

use coppice_api::sizes::MOST_PODS;
use coppice_api::types::PodGangMapSpec;
use coppice_core::update::coherent::{
    Component, ComponentKind, OnFailure, ReplicaFacts, Revision, SetKnobs, SetRecord, Units, from_spec, plan_set,
    to_spec,
};
use serde_json::json;

fn components() -> Vec<Component> {
    let component = |name: &str, kind| Component {
        name: name.to_owned(),
        kind,
        revision: Revision::new("new"),
        revision_stored: true,
        desired: 2,
        minimum: 1,
        max_unavailable: 1,
    };
    vec![
        component("f", ComponentKind::Standalone),
        component("p", ComponentKind::Group),
    ]
}

fn stored(entries: &serde_json::Value) -> PodGangMapSpec {
    serde_json::from_value(json!({"podCliqueSetReplicaIndex": 3, "entries": entries, "later": true})).unwrap()
}

#[test]
fn a_hostile_map_is_bounded_and_every_copy_has_one_home() {
    let spec = stored(&json!([
        {"epoch": "7", "role": "Anchor", "podCliqueSetGenerationHash": "g",
         "podCliques": {"f": i32::MAX, "gone": 4}, "pcsgReplicaIndices": {"p": [0, -1, i32::MAX]}},
        {"epoch": "9", "role": "Tail", "podCliqueSetGenerationHash": "g", "revisions": {"p": "old"},
         "pcsgReplicaIndices": {"p": [0, 1, 1]}, "dependsOn": ["7", "8", "x"]},
    ]));
    let map = from_spec(&spec, &components(), |_, _| Revision::new("found")).unwrap();
    let anchor = &map.entries[0].shares;
    assert_eq!(anchor[&0].units, Units::Pods(u32::try_from(MOST_PODS).unwrap()));
    assert_eq!(anchor[&0].revision, Revision::new("found"));
    assert!(!anchor.contains_key(&1), "copy 0 belongs to the newer entry");
    assert_eq!(map.entries[1].shares[&1].units, Units::Copies([0, 1].into()));
    assert_eq!(map.entries[1].shares[&1].revision, Revision::new("old"));
    assert_eq!(map.entries[1].depends_on.len(), 1);
    assert_eq!(map.next_epoch.to_string(), "10");
}

#[test]
fn a_map_that_cannot_be_read_decides_nothing() {
    let read = |entries| from_spec(&stored(&entries), &components(), |_, _| Revision::new("found"));
    assert_eq!(read(json!([])), None);
    assert_eq!(
        read(json!([{"epoch": "1", "role": "Else", "podCliques": {"f": 1}}])),
        None
    );
    assert_eq!(
        read(json!([{"epoch": "-1", "role": "Anchor", "podCliques": {"f": 1}}])),
        None
    );
}

#[test]
fn fields_of_other_versions_are_kept_and_anchors_have_an_index() {
    let before = stored(&json!([
        {"epoch": "7", "role": "Anchor", "podCliqueSetGenerationHash": "g", "podCliques": {"f": 1}, "theirs": 1},
        {"epoch": "8", "role": "Tail", "podCliqueSetGenerationHash": "g", "pcsgReplicaIndices": {"p": [1]}},
    ]));
    let map = from_spec(&before, &components(), |_, _| Revision::new("old")).unwrap();
    let spec = to_spec(&map, &components(), 3, "now", Some(&before));
    assert_eq!(spec.unknown["later"], json!(true));
    assert_eq!(spec.entries[0].unknown["theirs"], json!(1));
    assert_eq!(spec.entries[0].anchor_index, Some(0));
    assert_eq!(spec.entries[1].anchor_index, None);
    let hashes = spec
        .entries
        .iter()
        .map(|entry| entry.pod_clique_set_generation_hash.as_str());
    assert!(
        hashes.eq(["g", "g"]),
        "entries at an old template keep the hash of its generation"
    );
}

fn replica(index: u32, revisions: &[&str]) -> ReplicaFacts {
    ReplicaFacts {
        index,
        revisions: vec![revisions.iter().map(|hash| Revision::new(hash)).collect()],
        ..ReplicaFacts::default()
    }
}

#[test]
fn turns_go_to_what_was_begun_then_to_replicas_without_nodes_then_to_broken_ones() {
    let knobs = SetKnobs {
        max_concurrent_replicas: 3,
        on_failure: OnFailure::Pause,
    };
    let mut replicas: Vec<ReplicaFacts> = (0..5).map(|index| replica(index, &["old"])).collect();
    replicas[2] = replica(2, &["old", "new"]);
    replicas[3].breached = true;
    replicas[4].unscheduled = true;
    let record = plan_set(&[Revision::new("new")], knobs, &SetRecord::default(), &replicas);
    assert_eq!(record.admitted, BTreeSet::from([2, 3, 4]));
    assert_eq!(record.scope, BTreeSet::from([0]));
}

#[test]
fn an_update_is_taken_back_once_and_only_to_a_version_that_all_replicas_had() {
    let knobs = SetKnobs {
        max_concurrent_replicas: 1,
        on_failure: OnFailure::Rollback,
    };
    let [old, new] = [vec![Revision::new("old")], vec![Revision::new("new")]];
    let mut facts = replica(0, &["old"]);
    facts.done_with = Some(old.clone());
    let deployed = plan_set(&old, knobs, &SetRecord::default(), &[facts]);
    let mut facts = replica(0, &["old", "new"]);
    let updating = plan_set(&new, knobs, &deployed, &[facts.clone()]);
    assert_eq!(updating.target(), new);
    facts.failed_with = Some(new.clone());
    let back = plan_set(&new, knobs, &updating, &[facts.clone()]);
    assert_eq!(back.target(), old);
    facts.failed_with = Some(old.clone());
    let still = plan_set(&new, knobs, &back, &[facts.clone()]);
    assert_eq!(still.target(), old, "it is not taken back again");

    facts.failed_with = Some(new.clone());
    let unknown = plan_set(&new, knobs, &SetRecord::default(), &[facts]);
    assert_eq!(unknown.target(), new, "without a known version it stops instead");
}
