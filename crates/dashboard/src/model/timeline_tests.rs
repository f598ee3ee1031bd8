//! What is worth an entry, and what is kept.

use serde_json::{Value, json};

use super::*;

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).expect("a time")
}

fn pod(name: &str, node: Option<&str>, more: &Value) -> Pod {
    let mut pod = json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {"grove.io/podgang": "g"}},
        "spec": {"nodeName": node, "containers": []}});
    for (key, value) in more.as_object().into_iter().flatten() {
        pod["metadata"][key] = value.clone();
    }
    object(pod)
}

#[test]
fn pods_of_a_gang_are_one_entry() {
    let mut history = History::default();
    for name in ["a", "b", "c"] {
        let (before, after) = (pod(name, None, &json!({})), pod(name, Some("n"), &json!({})));
        history.extend(of_pod(Some(&before), Some(&after), at(1)));
    }
    let entries = history.newest_first();
    assert_eq!(entries.len(), 1, "{entries:?}");
    assert_eq!((entries[0].count, entries[0].kind), (3, Kind::Placed));
    // Much later it is another thing.
    history.extend(of_pod(None, Some(&pod("d", Some("n"), &json!({}))), at(600)));
    assert_eq!(history.newest_first().len(), 2);
}

#[test]
fn the_end_of_a_pod_says_why() {
    let before = pod("a", Some("n"), &json!({}));
    let mut after = pod("a", Some("n"), &json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
    after.status = Some(object(
        json!({"conditions": [{"type": "DisruptionTarget", "status": "True",
        "reason": "PreemptionByScheduler", "message": "preempted by models/big"}]}),
    ));
    let found = of_pod(Some(&before), Some(&after), at(0));
    assert_eq!(found[0].message, "PreemptionByScheduler: preempted by models/big");
    assert_eq!(of_pod(Some(&after), None, at(0)), []);
}

#[test]
fn nodes_that_fail_and_return_are_seen() {
    let node = |ready: &str, cordoned: bool| -> Node {
        object(json!({"metadata": {"name": "n"}, "spec": {"unschedulable": cordoned},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}}))
    };
    let words = |old: &Node, new: &Node| -> Vec<String> {
        of_node(Some(old), Some(new), at(0))
            .into_iter()
            .map(|entry| entry.message)
            .collect()
    };
    assert_eq!(words(&node("True", false), &node("Unknown", false)), ["not ready"]);
    assert_eq!(
        words(&node("False", true), &node("True", false)),
        ["ready again", "uncordoned"]
    );
    assert_eq!(words(&node("True", false), &node("True", false)), Vec::<String>::new());
}

#[test]
fn memory_is_bounded_whatever_is_reported() {
    let mut history = History::default();
    for number in 0..3 * KEPT {
        let event: Event = object(json!({"type": "Warning", "reason": "R", "message": "x".repeat(100_000),
            "metadata": {}, "involvedObject": {"kind": "Pod", "name": format!("p{number}"), "namespace": "ns"}}));
        history.extend(of_event(None, Some(&event), at(i64::try_from(number).expect("small"))));
    }
    let entries = history.newest_first();
    assert_eq!(entries.len(), KEPT);
    assert!(entries.iter().all(|entry| entry.message.len() < 600));
    assert_eq!(entries[0].name, format!("p{}", 3 * KEPT - 1));
}

#[test]
fn an_update_begins_and_ends() {
    let set = |progress: Value| -> PodCliqueSet {
        object(
            json!({"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": "s", "namespace": "n"},
            "spec": {"replicas": 1, "template": {"cliques": []}}, "status": {"updateProgress": progress}}),
        )
    };
    let (idle, began) = (
        set(json!(null)),
        set(json!({"updateStartedAt": "2026-01-01T00:00:00Z"})),
    );
    let ended = set(json!({"updateStartedAt": "2026-01-01T00:00:00Z", "updateEndedAt": "2026-01-01T00:00:09Z"}));
    let words = |old, new| -> Vec<String> {
        of_set(Some(old), Some(new), at(0))
            .into_iter()
            .map(|entry| entry.message)
            .collect()
    };
    assert_eq!(words(&idle, &began), ["update began"]);
    assert_eq!(words(&began, &ended), ["update ended after 9 s"]);
    assert_eq!(words(&ended, &ended), Vec::<String>::new());
}
