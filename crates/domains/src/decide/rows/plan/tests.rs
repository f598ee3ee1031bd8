//! Rows in the situations that upstream got wrong, and for hostile rows.

use jiff::Timestamp;
use proptest::prelude::*;

use super::super::facts::{CheckResult, NodeMembership, PodFacts};
use super::*;

const CLIQUE: &str = "u.1";

fn members(names: &[&str]) -> CliqueFacts {
    let nodes = names.iter().map(|name| ((*name).to_owned(), NodeMembership::Member));
    CliqueFacts {
        nodes: nodes.collect(),
        ..CliqueFacts::default()
    }
}

fn pod(uid: &str, node: &str, created: i64, address: &str) -> PodFacts {
    PodFacts {
        uid: uid.into(),
        node: node.into(),
        created: Timestamp::from_second(created).unwrap(),
        address: address.into(),
        ready: false,
        ended: false,
        writes_own_row: false,
        reported_clique: None,
    }
}

fn with_pods(mut facts: CliqueFacts, pods: &[PodFacts]) -> CliqueFacts {
    for pod in pods {
        facts.pods.entry(pod.node.clone()).or_default().push(pod.clone());
    }
    facts
}

fn row(node: &str, index: i64, address: &str) -> DaemonRow {
    DaemonRow {
        node_name: node.into(),
        clique_id: CLIQUE.into(),
        index: Some(index),
        ip_address: address.into(),
        ..DaemonRow::default()
    }
}

fn indices(plan: &RowsPlan) -> Vec<(&str, i64)> {
    plan.rows
        .iter()
        .map(|row| (row.node_name.as_str(), row.index.unwrap()))
        .collect()
}

#[test]
fn newcomers_get_the_lowest_free_indices_in_the_order_of_their_names() {
    let plan = plan_rows(&[row("m", 1, "")], &members(&["z", "m", "a"]), CLIQUE, 18);
    assert_eq!(indices(&plan), [("a", 0), ("m", 1), ("z", 2)]);
    assert_eq!(plan.urgency, Urgency::Soon);
}

#[test]
fn a_full_clique_refuses_by_name_and_limit() {
    let plan = plan_rows(&[], &members(&["a", "b", "c"]), CLIQUE, 2);
    assert_eq!(plan.rows.len(), 2);
    assert_eq!(
        plan.refused,
        [Refusal::Full {
            node: "c".into(),
            max: 2
        }]
    );
}

/// §9.2, #1418: a pod that is missing from the cache is asked for, not believed to be gone.
#[test]
fn a_row_is_not_changed_because_its_pod_is_missing_from_the_cache() {
    let stored = [DaemonRow {
        pod_uid: Some("p".into()),
        status: Readiness::Ready,
        ..row("a", 0, "10.0.0.1")
    }];
    let mut facts = members(&["a"]);
    let plan = plan_rows(&stored, &facts, CLIQUE, 18);
    assert_eq!((plan.rows.as_slice(), plan.urgency), (&stored[..], Urgency::None));
    assert_eq!(plan.checks.len(), 1);
    facts.deleted_pods.insert("p".into());
    let plan = plan_rows(&stored, &facts, CLIQUE, 18);
    assert_eq!(plan.rows[0].ip_address, "");
    assert_eq!(plan.rows[0].index, Some(0));
    assert_eq!(super::super::Phase::of(&plan.rows[0]), super::super::Phase::Retained);
    let again = plan_rows(&plan.rows, &facts, CLIQUE, 18);
    assert_eq!((again.urgency, again.checks.len()), (Urgency::None, 0));
}

#[test]
fn a_row_is_released_only_after_a_live_read() {
    let stored = [DaemonRow {
        pod_uid: Some("p".into()),
        ..row("a", 0, "")
    }];
    for membership in [NodeMembership::Left, NodeMembership::Unknown] {
        let mut facts = members(&["b"]);
        facts.nodes.insert("a".into(), membership);
        let plan = plan_rows(&stored, &facts, CLIQUE, 18);
        assert_eq!(indices(&plan), [("a", 0), ("b", 1)]);
        let check = plan.checks[0].clone();
        let result = CheckResult {
            check,
            membership,
            pods: Vec::new(),
        };
        facts.checked.insert("a".into(), result.clone());
        assert_eq!(indices(&plan_rows(&stored, &facts, CLIQUE, 18)), [("b", 0)]);
        // The row was taken by another pod meanwhile: the read does not speak of it.
        let taken = [DaemonRow {
            pod_uid: Some("q".into()),
            ..stored[0].clone()
        }];
        assert_eq!(indices(&plan_rows(&taken, &facts, CLIQUE, 18)), [("a", 0), ("b", 1)]);
    }
}

#[test]
fn a_restarted_daemon_keeps_the_index_of_its_node() {
    let stored = [DaemonRow {
        pod_uid: Some("p".into()),
        status: Readiness::Ready,
        ..row("a", 5, "10.0.0.1")
    }];
    let mut facts = with_pods(members(&["a"]), &[pod("q", "a", 9, "10.0.0.2")]);
    // The cache may be old and the pod in the row newer than the one in the cache.
    let plan = plan_rows(&stored, &facts, CLIQUE, 18);
    assert_eq!((plan.urgency, plan.checks.len()), (Urgency::None, 1));
    facts.deleted_pods.insert("p".into());
    let plan = plan_rows(&stored, &facts, CLIQUE, 18);
    assert_eq!(plan.urgency, Urgency::Soon);
    let expected = DaemonRow {
        pod_uid: Some("q".into()),
        ..row("a", 5, "10.0.0.2")
    };
    assert_eq!(plan.rows, [expected]);
}

/// §6.4.10 and spec 07: readiness alone is reported lazily.
#[test]
fn readiness_alone_waits_for_company() {
    let stored = [DaemonRow {
        pod_uid: Some("p".into()),
        ..row("a", 0, "10.0.0.1")
    }];
    let ready = PodFacts {
        ready: true,
        ..pod("p", "a", 1, "10.0.0.1")
    };
    let plan = plan_rows(&stored, &with_pods(members(&["a"]), &[ready]), CLIQUE, 18);
    assert_eq!(plan.urgency, Urgency::Lazy);
    assert_eq!(plan.rows[0].status, Readiness::Ready);
}

/// A drop-in over rows of the driver: nothing is re-indexed, and daemons that write their own rows are left alone.
#[test]
fn rows_of_other_writers_are_adopted_without_a_write() {
    let stored = [
        DaemonRow {
            status: Readiness::Ready,
            ..row("a", 1, "10.0.0.1")
        },
        DaemonRow {
            status: Readiness::Ready,
            ..row("b", 0, "10.0.0.2")
        },
    ];
    let own = |uid: &str, node: &str, address: &str| PodFacts {
        writes_own_row: true,
        ..pod(uid, node, 1, address)
    };
    let pods = [own("p", "a", "10.0.0.1"), own("q", "b", "10.0.0.9")];
    let plan = plan_rows(&stored, &with_pods(members(&["a", "b"]), &pods), CLIQUE, 18);
    assert_eq!(plan.urgency, Urgency::None);
    assert_eq!(indices(&plan), [("b", 0), ("a", 1)]);
    assert!(plan.checks.is_empty());
}

#[test]
fn of_two_rows_with_one_index_the_one_in_use_keeps_it_and_the_other_moves_in_two_writes() {
    let stored = [
        row("a", 0, ""),
        DaemonRow {
            status: Readiness::Ready,
            ..row("b", 0, "10.0.0.2")
        },
    ];
    let used = PodFacts {
        ready: true,
        ..pod("p", "b", 1, "10.0.0.2")
    };
    let facts = with_pods(members(&["a", "b"]), &[used]);
    let first = plan_rows(&stored, &facts, CLIQUE, 18);
    assert_eq!(indices(&first), [("b", 0)]);
    let second = plan_rows(&first.rows, &facts, CLIQUE, 18);
    assert_eq!(indices(&second), [("b", 0), ("a", 1)]);
}

#[test]
fn a_domain_that_is_being_deleted_keeps_its_rows() {
    let stored = [row("a", 0, "10.0.0.1")];
    let facts = CliqueFacts {
        deleting: true,
        ..CliqueFacts::default()
    };
    let plan = plan_rows(&stored, &facts, CLIQUE, 18);
    assert_eq!(
        (plan.rows.as_slice(), plan.urgency, plan.checks.len()),
        (&stored[..], Urgency::None, 0)
    );
}

fn hostile_row() -> impl Strategy<Value = DaemonRow> {
    let name = prop_oneof![
        "[a-e]",
        Just(String::new()),
        Just("a b\nc".to_owned()),
        Just("x".repeat(300))
    ];
    let index = prop_oneof![
        4 => (0..6_i64).prop_map(Some),
        1 => Just(None),
        1 => prop::sample::select(vec![-1, 18, i64::MIN, i64::MAX]).prop_map(Some),
    ];
    let address = prop_oneof![Just(String::new()), Just("10.0.0.1".to_owned()), ".{0,20}"];
    let pod = prop::option::of("[p-r]");
    (name, index, address, pod, any::<bool>()).prop_map(|(node_name, index, ip_address, pod_uid, ready)| DaemonRow {
        node_name,
        ip_address,
        clique_id: CLIQUE.into(),
        index,
        status: ready.into(),
        pod_uid,
        unknown: serde_json::Map::new(),
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_is_stored_the_result_is_unique_bounded_stable_and_final(
        mut stored in prop::collection::vec(hostile_row(), 0..12),
        names in prop::collection::btree_set("[a-h]", 0..8),
    ) {
        stored.sort_by(|left, right| left.node_name.cmp(&right.node_name));
        stored.dedup_by(|left, right| left.node_name == right.node_name);
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let facts = members(&names);
        let mut rows = stored.clone();
        for round in 0..4 {
            let plan = plan_rows(&rows, &facts, CLIQUE, 18);
            let unique: BTreeSet<_> = plan.rows.iter().map(|row| row.index).collect();
            prop_assert_eq!(unique.len(), plan.rows.len());
            for new in &plan.rows {
                prop_assert!(new.bounded_index(18).is_some());
                let old = rows.iter().find(|old| old.node_name == new.node_name);
                prop_assert!(old.is_none_or(|old| old.index.is_none() || old.index == new.index));
            }
            if round >= 2 {
                prop_assert_eq!(plan.urgency, Urgency::None);
                prop_assert_eq!(&plan.rows, &rows);
            }
            rows = plan.rows;
        }
        prop_assert!(names.iter().all(|name| rows.iter().any(|row| row.node_name == *name)));
    }
}
