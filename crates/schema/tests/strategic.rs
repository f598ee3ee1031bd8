//! Strategic merge patches on built-in kinds.

use coppice_schema::strategic::{PatchError, strategic_merge};
use coppice_schema::{Cursor, GroupVersionKind, kubernetes};
use serde_json::{Value, json};

fn kind(api_version: &str, kind: &str) -> Cursor<'static> {
    kubernetes()
        .kind(&GroupVersionKind::from_api_version(api_version, kind))
        .expect("a built-in kind")
}

fn pod(original: Value, patch: Value) -> Result<Value, PatchError> {
    strategic_merge(kind("v1", "Pod"), original, patch)
}

fn names(value: &Value, pointer: &str) -> Vec<String> {
    let list = value
        .pointer(pointer)
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default();
    list.iter()
        .map(|one| one["name"].as_str().unwrap_or_default().to_owned())
        .collect()
}

#[test]
fn containers_merge_by_name() {
    let merged = pod(
        json!({"spec": {"containers": [{"name": "a", "image": "1", "args": ["x", "y"]}, {"name": "b", "image": "1"}]}}),
        json!({"spec": {"containers": [{"name": "b", "image": "2"}, {"name": "c", "image": "3"}, {"name": "a", "args": ["z"]}]}}),
    )
    .unwrap();
    assert_eq!(
        merged,
        json!({"spec": {"containers": [
            {"name": "b", "image": "2"}, {"name": "c", "image": "3"}, {"name": "a", "image": "1", "args": ["z"]}
        ]}})
    );
}

#[test]
fn nulls_delete_and_absent_fields_stay() {
    let merged = pod(
        json!({"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {"nodeName": "n", "priority": 1}}),
        json!({"metadata": {"labels": {"a": null, "c": "3", "d": null}}, "spec": {"nodeName": null, "affinity": {"nodeAffinity": null}}}),
    )
    .unwrap();
    assert_eq!(
        merged,
        json!({"metadata": {"labels": {"b": "2", "c": "3"}}, "spec": {"priority": 1, "affinity": {}}})
    );
}

#[test]
fn directives_delete_and_replace() {
    let original = json!({"spec": {"containers": [{"name": "a"}, {"name": "b"}], "securityContext": {"runAsUser": 1, "fsGroup": 2}}});
    let deleted = pod(
        original.clone(),
        json!({"spec": {"containers": [{"name": "a", "$patch": "delete"}]}}),
    )
    .unwrap();
    assert_eq!(names(&deleted, "/spec/containers"), ["b"]);
    let replaced = pod(
        original.clone(),
        json!({"spec": {"containers": [{"$patch": "replace"}, {"name": "c"}], "securityContext": {"$patch": "replace", "fsGroup": 3}}}),
    )
    .unwrap();
    assert_eq!(names(&replaced, "/spec/containers"), ["c"]);
    assert_eq!(replaced["spec"]["securityContext"], json!({"fsGroup": 3}));
    let emptied = pod(
        original.clone(),
        json!({"spec": {"securityContext": {"$patch": "delete"}}}),
    )
    .unwrap();
    assert_eq!(emptied["spec"]["securityContext"], json!({}));
    let nonsense = pod(original, json!({"spec": {"$patch": "explode"}}));
    assert_eq!(
        nonsense.unwrap_err().to_string(),
        "unknown patch type: explode in map: {}"
    );
}

#[test]
fn lists_of_scalars_merge_or_are_replaced() {
    let original =
        json!({"metadata": {"finalizers": ["a", "b"]}, "spec": {"containers": [{"name": "c", "command": ["x"]}]}});
    let merged = pod(
        original.clone(),
        json!({"metadata": {"finalizers": ["c", "a"]}, "spec": {"containers": [{"name": "c", "command": ["y"]}]}}),
    )
    .unwrap();
    assert_eq!(merged["metadata"]["finalizers"], json!(["c", "a", "b"]));
    assert_eq!(merged["spec"]["containers"][0]["command"], json!(["y"]));
    let removed = pod(
        original,
        json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "$setElementOrder/finalizers": ["b"]}}),
    )
    .unwrap();
    assert_eq!(removed["metadata"]["finalizers"], json!(["b"]));
}

#[test]
fn the_order_of_elements_can_be_set() {
    let original = json!({"spec": {"containers": [{"name": "1"}, {"name": "2"}, {"name": "3"}]}});
    let merged = pod(
        original.clone(),
        json!({"spec": {
            "$setElementOrder/containers": [{"name": "3"}, {"name": "4"}, {"name": "1"}],
            "containers": [{"name": "4", "image": "i"}]
        }}),
    )
    .unwrap();
    assert_eq!(names(&merged, "/spec/containers"), ["2", "3", "4", "1"]);
    assert_eq!(merged["spec"].as_object().unwrap().len(), 1, "no directive is left");
    let wrong = pod(
        original,
        json!({"spec": {"$setElementOrder/containers": [{"name": "1"}], "containers": [{"name": "9"}]}}),
    );
    assert!(matches!(wrong, Err(PatchError::OrderMismatch { .. })));
}

#[test]
fn retain_keys_clear_the_rest() {
    let deployment = kind("apps/v1", "Deployment");
    let original = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let merged = strategic_merge(
        deployment,
        original.clone(),
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}),
    )
    .unwrap();
    assert_eq!(merged, json!({"spec": {"strategy": {"type": "Recreate"}}}));
    let wrong = strategic_merge(
        deployment,
        original,
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": {}}}}),
    );
    assert_eq!(wrong, Err(PatchError::BadRetainKeys));
}

#[test]
fn merge_keys_must_be_there() {
    let missing = pod(
        json!({"spec": {"containers": [{"name": "a"}]}}),
        json!({"spec": {"containers": [{"image": "i"}]}}),
    );
    assert_eq!(
        missing.unwrap_err().to_string(),
        r#"map: {"image":"i"} does not contain declared merge key: name"#
    );
    let mixed = pod(
        json!({"metadata": {"finalizers": ["a"]}}),
        json!({"metadata": {"finalizers": [1]}}),
    );
    assert!(matches!(mixed, Err(PatchError::MixedElements(_))));
    assert_eq!(pod(json!([]), json!({})), Err(PatchError::NotAnObject));
}

#[test]
fn ports_merge_by_container_port_alone() {
    let merged = pod(
        json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80, "protocol": "TCP"}]}]}}),
        json!({"spec": {"containers": [{"name": "c", "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 81}]}]}}),
    )
    .unwrap();
    assert_eq!(
        merged["spec"]["containers"][0]["ports"],
        json!([{"containerPort": 80, "protocol": "TCP", "name": "http"}, {"containerPort": 81}])
    );
}

#[test]
fn new_parts_lose_their_directives() {
    let merged = pod(
        json!({}),
        json!({"status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Old", "$patch": "delete"}],
            "$setElementOrder/conditions": [{"type": "Ready"}]}}),
    )
    .unwrap();
    assert_eq!(
        merged,
        json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}})
    );
}
