use std::collections::{BTreeMap, BTreeSet};

use coppice_api::names::{Epoch, ReplicaName};
use coppice_api::types::{PodGangMapSpec, PodGangRole};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{GangMap, Generation, GroupUnits, StoredGangs, Units, desired};

const REPLICA: ReplicaName<'static> = ReplicaName::new("web", 0);
const NOW: Generation<'static> = Generation { hash: "h", given: true };

/// `router` with some pods, and `decode` with a minimum of 2, 4 copies by the template, and some copies now.
fn units(router: u32, decode: u32) -> Units<'static> {
    Units {
        standalone: BTreeMap::from([("router", router)]),
        groups: vec![GroupUnits {
            name: "decode",
            copies: decode,
            min_available: 2,
            of_template: 4,
        }],
    }
}

fn spec(entries: &Value) -> PodGangMapSpec {
    serde_json::from_value(json!({"podCliqueSetReplicaIndex": 0, "entries": entries})).expect("a map")
}

fn entries(map: &GangMap) -> Value {
    json!(map.to_spec(0, None))["entries"].clone()
}

/// The position of the entry of each copy.
fn homes(map: &GangMap) -> Vec<Vec<usize>> {
    map.copies
        .iter()
        .map(|copies| copies.values().copied().collect())
        .collect()
}

fn after(map: &PodGangMapSpec, units: &Units<'_>) -> GangMap {
    let stored = StoredGangs {
        map: Some(map),
        ..StoredGangs::default()
    };
    desired(REPLICA, units, &stored, NOW)
}

#[test]
fn a_new_replica_has_an_anchor_tails_and_a_place_for_further_copies() {
    let map = desired(REPLICA, &units(3, 5), &StoredGangs::default(), NOW);
    let expected = json!([
        {"epoch": "100001", "podCliqueSetGenerationHash": "h", "role": "Anchor", "anchorIndex": 0,
         "podCliques": {"router": 3}, "pcsgReplicaIndices": {"decode": [0, 1]}},
        {"epoch": "100002", "podCliqueSetGenerationHash": "h", "role": "Tail",
         "pcsgReplicaIndices": {"decode": [2, 3]}, "dependsOn": ["100001"]},
        {"epoch": "100003", "podCliqueSetGenerationHash": "h", "role": "ScaleOut",
         "pcsgReplicaIndices": {"decode": [4]}, "dependsOn": ["100001"]},
    ]);
    assert_eq!(entries(&map), expected);
    assert_eq!(homes(&map), [[0, 0, 1, 1, 2]]);
}

#[test]
fn a_map_of_the_go_operator_is_kept_as_it_is() {
    let stored = spec(&json!([
        {"epoch": "1788533963425275528", "podCliqueSetGenerationHash": "theirs", "role": "Anchor", "anchorIndex": 0,
         "podCliques": {"router": 3}, "pcsgReplicaIndices": {"decode": [0, 1]}},
        {"epoch": "1788533963425275530", "podCliqueSetGenerationHash": "theirs", "role": "ScaleOut",
         "pcsgReplicaIndices": {"decode": [2]}, "dependsOn": ["1788533963425275528"], "newer": true},
    ]));
    let source = StoredGangs {
        map: Some(&stored),
        ..StoredGangs::default()
    };
    let waiting = Generation {
        hash: "h",
        given: false,
    };
    let map = desired(REPLICA, &units(3, 3), &source, waiting);
    assert_eq!(map.to_spec(0, Some(&stored)), stored);
    // Further copies go to its own epochs; the role that it lacks gets the epoch after the anchor's.
    let grown = after(&stored, &units(3, 5));
    assert_eq!(homes(&grown), [[0, 0, 2, 1, 2]]);
    assert_eq!(grown.entries[1].epoch.to_string(), "1788533963425275529");
}

#[test]
fn copies_come_and_go_and_those_that_stay_keep_their_gang() {
    let first = desired(REPLICA, &units(1, 6), &StoredGangs::default(), NOW);
    let smaller = after(&first.to_spec(0, None), &units(1, 3));
    assert_eq!(homes(&smaller), [[0, 0, 1]]);
    let again = after(&smaller.to_spec(0, None), &units(1, 6));
    assert_eq!(again, first);
}

#[test]
fn a_component_that_wakes_up_is_placed_with_its_minimum_in_the_anchor() {
    let first = desired(REPLICA, &units(1, 3), &StoredGangs::default(), NOW);
    let idle = after(&first.to_spec(0, None), &units(1, 0));
    assert_eq!(
        idle.entries.len(),
        2,
        "the anchor of the router, and a place for further copies"
    );
    let awake = after(&idle.to_spec(0, None), &units(1, 3));
    assert_eq!(homes(&awake), [[0, 0, 1]]);
    let nothing = after(&first.to_spec(0, None), &units(0, 0));
    assert_eq!(entries(&nothing), json!([]));
    assert_eq!(after(&nothing.to_spec(0, None), &units(1, 3)), first);
}

#[test]
fn a_lost_map_is_rebuilt_from_the_labels_of_gangs() {
    let theirs = |text: &str| Epoch::parse(text).expect("an epoch");
    let (anchor, out) = (theirs("1788533963425275528"), theirs("1788533963425275530"));
    let names = [
        REPLICA.anchor_gang_name(anchor),
        REPLICA.scaling_group("decode").copy_gang_name(out, 1),
    ];
    let gangs = BTreeMap::from([
        (names[0].as_str(), (anchor, PodGangRole::Anchor)),
        (names[1].as_str(), (out, PodGangRole::ScaleOut)),
    ]);
    let stored = StoredGangs { map: None, gangs };
    let map = desired(REPLICA, &units(1, 3), &stored, NOW);
    let epochs: Vec<Epoch> = map.copies[0].values().map(|&entry| map.entries[entry].epoch).collect();
    assert_eq!(epochs, [anchor, out, theirs("1788533963425275529")]);
}

#[test]
fn nothing_waits_for_an_epoch_without_gangs() {
    // What a workload that was scaled to zero and woken by the Go operator leaves: copies in ScaleOut and no anchor.
    let stored = spec(&json!([
        {"epoch": "7", "podCliqueSetGenerationHash": "h", "role": "ScaleOut",
         "pcsgReplicaIndices": {"decode": [0, 1, 2]}, "dependsOn": ["5"]},
    ]));
    let map = after(&stored, &units(0, 3));
    assert_eq!(homes(&map), [[0, 0, 0]]);
    assert_eq!(map.entries[0].depends_on, []);
}

#[test]
fn several_anchors_become_one_and_nonsense_is_left_out() {
    let stored = spec(&json!([
        {"epoch": "20", "podCliqueSetGenerationHash": "h", "role": "Anchor",
         "podCliques": {"router": 1}, "pcsgReplicaIndices": {"decode": [2, 0, -4, 900]}},
        {"epoch": "10", "podCliqueSetGenerationHash": "h", "role": "Anchor",
         "podCliques": {"router": 2}, "pcsgReplicaIndices": {"decode": [0, 1], "gone": [0]}},
    ]));
    let map = after(&stored, &units(3, 3));
    let expected = json!([
        {"epoch": "20", "podCliqueSetGenerationHash": "h", "role": "Anchor", "anchorIndex": 0,
         "podCliques": {"router": 3}, "pcsgReplicaIndices": {"decode": [0, 1, 2]}},
        {"epoch": "22", "podCliqueSetGenerationHash": "h", "role": "ScaleOut", "dependsOn": ["20"]},
    ]);
    assert_eq!(entries(&map), expected);
    let unreadable = spec(&json!([{"epoch": "x", "podCliqueSetGenerationHash": "", "role": "Anchor"}]));
    assert_eq!(
        after(&unreadable, &units(1, 1)),
        desired(REPLICA, &units(1, 1), &StoredGangs::default(), NOW)
    );
}

fn any_entry() -> impl Strategy<Value = Value> {
    let role = prop::sample::select(vec!["Anchor", "Tail", "ScaleOut", "Bridge"]);
    let indices = prop::collection::vec(-1..8i32, 0..5);
    (0..6u32, role, indices, prop::collection::vec(0..6u32, 0..2)).prop_map(|(epoch, role, indices, depends)| {
        let depends: Vec<String> = depends.iter().map(ToString::to_string).collect();
        json!({"epoch": epoch.to_string(), "podCliqueSetGenerationHash": "old", "role": role,
               "pcsgReplicaIndices": {"decode": indices}, "dependsOn": depends})
    })
}

proptest! {
    /// Whatever is stored and however sizes change: every copy is in exactly one entry, the second look changes nothing,
    /// a copy outside the anchor keeps its entry, and nothing waits for what does not exist.
    #[test]
    fn a_map_covers_what_exists_and_settles_at_once(
        before in prop::collection::vec(any_entry(), 0..4),
        sizes in prop::collection::vec((0..3u32, 0..8u32), 1..6),
    ) {
        let mut stored = spec(&json!(before));
        let mut last: Option<GangMap> = None;
        for (router, decode) in sizes {
            let units = units(router, decode);
            let map = after(&stored, &units);
            let mut seen = BTreeSet::new();
            for entry in &map.to_spec(0, None).entries {
                for index in entry.pcsg_replica_indices.values().flatten() {
                    prop_assert!(seen.insert(*index), "copy {} twice", index);
                }
            }
            prop_assert_eq!(seen.len(), decode as usize);
            let epochs: BTreeSet<Epoch> = map.entries.iter().map(|entry| entry.epoch).collect();
            prop_assert!(map.entries.iter().flat_map(|entry| &entry.depends_on).all(|epoch| epochs.contains(epoch)));
            prop_assert!(map.entries.iter().filter(|entry| entry.is_anchor()).count() <= 1);
            prop_assert_eq!(router > 0, map.to_spec(0, None).entries.iter().any(|entry| !entry.pod_cliques.is_empty()));
            if let Some(last) = &last {
                for (old, new) in last.copies[0].values().zip(map.copies[0].values()) {
                    prop_assert_eq!(last.entries[*old].epoch, map.entries[*new].epoch);
                }
            }
            stored = map.to_spec(0, Some(&stored));
            let again = after(&stored, &units);
            prop_assert_eq!((&again.entries, &again.copies), (&map.entries, &map.copies));
            last = Some(map);
        }
    }
}
