//! Arbitrary input never makes us panic: good manifests with any node deleted, replaced or duplicated, and any JSON at all.

use coppice_api::admission::Outcome;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Map, Value, json};

use crate::support::{Judged, context, corpus, judge};

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "",
            "a",
            "b",
            "web",
            "g",
            "g-0-a",
            "0",
            "-",
            "a.b",
            "none",
            "rack",
            "gb200",
            "kai-scheduler",
            "volcano",
            "default-scheduler",
            "AllReplicas",
            "CliqueStartupTypeExplicit",
            "4h",
            "-1s",
            "9223372036854775807ns",
            "name",
        ])
        .prop_map(str::to_owned),
        "\\PC{0,80}",
        "[a-z0-9.-]{40,70}",
    ]
}

/// Names of fields that a rule reads, so that arbitrary maps reach the rules.
fn key() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(vec![
            "name",
            "spec",
            "template",
            "cliques",
            "replicas",
            "minAvailable",
            "podSpec",
            "containers",
            "env",
            "labels",
            "annotations",
            "topologyConstraint",
            "pack",
            "required",
            "packDomain",
            "topologyName",
            "cliqueNames",
            "podCliqueScalingGroups",
            "scaleConfig",
            "autoScalingConfig",
            "maxReplicas",
            "startsAfter",
            "resourceSharing",
            "filter",
            "scope",
            "resourceClaimTemplates",
            "templateSpec",
            "grove.io/mnnvl-group",
            "kai.scheduler/queue",
        ])
        .prop_map(str::to_owned),
        text(),
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        proptest::sample::select(vec![-1, 0, 1, 2, i32::MAX, i32::MIN]).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map(key(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

#[derive(Clone, Debug)]
enum Change {
    Delete,
    Replace(Value),
    Duplicate(String),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        Just(Change::Delete),
        any_json().prop_map(Change::Replace),
        key().prop_map(Change::Duplicate),
    ]
}

fn nodes(value: &Value) -> usize {
    let children: usize = match value {
        Value::Array(items) => items.iter().map(nodes).sum(),
        Value::Object(map) => map.values().map(nodes).sum(),
        _ => 0,
    };
    1 + children
}

/// Applies a change to the child at `position`, counted through the document in order. The root is not changed.
fn apply(value: &mut Value, position: &mut usize, change: &Change) -> bool {
    match value {
        Value::Array(items) => {
            for index in 0..items.len() {
                if *position == 0 {
                    match change {
                        Change::Delete => drop(items.remove(index)),
                        Change::Replace(other) => items[index] = other.clone(),
                        Change::Duplicate(_) => items.insert(index, items[index].clone()),
                    }
                    return true;
                }
                *position -= 1;
                if apply(&mut items[index], position, change) {
                    return true;
                }
            }
        }
        Value::Object(map) => {
            let keys: Vec<String> = map.keys().cloned().collect();
            for key in keys {
                if *position == 0 {
                    match change {
                        Change::Delete => drop(map.remove(&key)),
                        Change::Replace(other) => drop(map.insert(key, other.clone())),
                        Change::Duplicate(other) => drop(map.insert(other.clone(), map[&key].clone())),
                    }
                    return true;
                }
                *position -= 1;
                if map.get_mut(&key).is_some_and(|child| apply(child, position, change)) {
                    return true;
                }
            }
        }
        _ => {}
    }
    false
}

fn mutated(document: &Value, changes: &[(Index, Change)]) -> Value {
    let mut document = document.clone();
    for (index, change) in changes {
        let children = nodes(&document) - 1;
        if children > 0 {
            let mut position = index.index(children);
            assert!(
                apply(&mut document, &mut position, change),
                "the position is that of a node"
            );
        }
    }
    document
}

/// Everything that a webhook would do with the documents.
fn exercise(documents: &[Value]) -> Option<Outcome> {
    match judge(documents, &context()) {
        Judged::Undecodable(_) => None,
        Judged::Outcome(outcome) => {
            let status = outcome.to_status("grove.io", "PodCliqueSet", "x");
            assert_eq!(status.is_none(), outcome.is_admitted());
            Some(outcome)
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn changed_manifests_never_panic(
        choice in any::<Index>(),
        changes in proptest::collection::vec((any::<Index>(), change()), 1..4),
    ) {
        thread_local! {
            static GOOD: Vec<Value> = corpus("good").into_iter().flat_map(|case| case.documents).collect();
        }
        let original = GOOD.with(|good| good[choice.index(good.len())].clone());
        let changed = mutated(&original, &changes);
        exercise(std::slice::from_ref(&changed));
        exercise(&[original.clone(), changed.clone()]);
        exercise(&[changed.clone(), original]);
        if let Some(outcome) = exercise(&[changed.clone(), changed]) {
            prop_assert_eq!(outcome, Outcome::default(), "an unchanged object is never judged");
        }
    }

    #[test]
    fn any_specification_never_panics(spec in any_json(), old in any_json(), metadata in any_json()) {
        let object = |spec: Value, metadata: Value| json!({
            "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": metadata, "spec": spec,
        });
        let named = json!({"name": "web"});
        exercise(&[object(spec.clone(), named.clone())]);
        exercise(&[object(spec.clone(), metadata)]);
        exercise(&[object(old, named.clone()), object(spec.clone(), named.clone())]);
        let in_template = object(json!({"template": spec}), named);
        exercise(&[in_template]);
    }
}
