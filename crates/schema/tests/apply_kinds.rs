//! Server-side apply on built-in kinds and custom resources: what the real server records, status, migration.

use coppice_schema::apply::{FieldSet, Reach, Write, apply, decode, field_set, update};
use coppice_schema::{Cursor, Definitions, GroupVersionKind, kubernetes};
use serde_json::{Value, json};

fn kind(api_version: &str, kind: &str) -> Cursor<'static> {
    kubernetes()
        .kind(&GroupVersionKind::from_api_version(api_version, kind))
        .expect("a built-in kind")
}

fn deployment() -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "labels": {"app": "web"}, "uid": "u", "generation": 1},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i", "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {}}], "securityContext": {}, "restartPolicy": "Always"}
            }
        },
        "status": {"replicas": 1}
    })
}

#[test]
fn creating_a_deployment_owns_what_the_real_server_records() {
    let reach = Reach::without_status();
    let write = Write {
        schema: Some(kind("apps/v1", "Deployment")),
        api_version: "apps/v1",
        manager: "kubectl-create",
        subresource: "",
        reach: &reach,
        blank: None,
        now: "2026-01-01T00:00:00Z",
    };
    let empty = json!({"apiVersion": "apps/v1", "kind": "Deployment"});
    let created = update(&write, &empty, deployment());
    assert_eq!(
        created["metadata"]["managedFields"],
        json!([{
            "manager": "kubectl-create", "operation": "Update", "apiVersion": "apps/v1", "fieldsType": "FieldsV1",
            "time": "2026-01-01T00:00:00Z",
            "fieldsV1": {
                "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                "f:spec": {
                    "f:replicas": {}, "f:selector": {},
                    "f:strategy": {"f:rollingUpdate": {".": {}, "f:maxSurge": {}}, "f:type": {}},
                    "f:template": {
                        "f:metadata": {"f:labels": {".": {}, "f:app": {}}},
                        "f:spec": {
                            "f:containers": {"k:{\"name\":\"c\"}": {
                                ".": {}, "f:image": {}, "f:name": {},
                                "f:ports": {".": {}, "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {
                                    ".": {}, "f:containerPort": {}, "f:protocol": {}}},
                                "f:resources": {}
                            }},
                            "f:restartPolicy": {}, "f:securityContext": {}
                        }
                    }
                }
            }
        }])
    );
    let status_reach = Reach::Except(FieldSet::of_fields(&[&["spec"], &["metadata", "labels"]]));
    let status = Write {
        manager: "controller",
        subresource: "status",
        reach: &status_reach,
        blank: None,
        ..write
    };
    let mut observed = created.clone();
    observed["status"] = json!({"replicas": 2, "conditions": [{"type": "Available", "status": "True"}]});
    observed["spec"]["replicas"] = json!(9);
    let stored = update(&status, &created, observed.clone());
    let entries = stored["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 2);
    assert_eq!(entries[0]["manager"], "controller", "same second: by name");
    assert_eq!(entries[0]["subresource"], "status");
    assert_eq!(
        entries[0]["fieldsV1"],
        json!({"f:status": {
            "f:replicas": {},
            "f:conditions": {".": {}, "k:{\"type\":\"Available\"}": {".": {}, "f:status": {}, "f:type": {}}}
        }})
    );
    let main = Write {
        manager: "kubectl",
        subresource: "",
        reach: &reach,
        blank: None,
        ..write
    };
    let config =
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 3}});
    assert_eq!(
        apply(&main, &stored, &config, false).unwrap_err().to_string(),
        r#"Apply failed with 1 conflict: conflict with "kubectl-create" using apps/v1: .spec.replicas"#
    );
}

#[test]
fn custom_resources_without_metadata_in_their_schema() {
    let (set, root) = Definitions::from_structural(&json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"a": {"type": "string"}}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}
    }}))
    .unwrap();
    let reach = Reach::without_status();
    let write = Write {
        schema: Some(set.cursor(root)),
        api_version: "example.com/v1",
        manager: "m",
        subresource: "",
        reach: &reach,
        blank: None,
        now: "2026-01-01T00:00:00Z",
    };
    let config = json!({"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"a": "x"},
        "metadata": {"name": "t", "labels": {"l": "v"}, "finalizers": ["f"], "ownerReferences": [
            {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}});
    let expected_metadata = json!({"f:labels": {"f:l": {}}, "f:finalizers": {"v:\"f\"": {}},
        "f:ownerReferences": {"k:{\"uid\":\"u\"}": {}}});
    let applied = apply(&write, &json!({}), &config, false).unwrap();
    assert_eq!(
        applied["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:metadata": expected_metadata, "f:spec": {"f:a": {}}})
    );
    let only_status = Reach::custom_status();
    let status = Write {
        subresource: "status",
        reach: &only_status,
        blank: None,
        ..write
    };
    let config = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}, "spec": {"a": "y"}, "status": {"phase": "Up"}});
    let applied = apply(&status, &applied, &config, true).unwrap();
    let managed = decode(applied["metadata"]["managedFields"].as_array().unwrap()).unwrap();
    assert_eq!(managed.len(), 2);
    let own = managed.iter().find(|(key, _)| key.subresource == "status").unwrap().1;
    assert_eq!(own.set.to_fields_v1(), json!({"f:status": {"f:phase": {}}}));
    let created = update(
        &Write { manager: "c", ..write },
        &json!({}),
        json!({"spec": {"a": "x"}}),
    );
    assert_eq!(
        created["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:spec": {".": {}, "f:a": {}}})
    );
}

#[test]
fn kubectl_takes_over_what_it_applied_on_the_client() {
    let reach = Reach::without_status();
    let base = Write {
        schema: Some(kind("v1", "ConfigMap")),
        api_version: "v1",
        manager: "kubectl-client-side-apply",
        subresource: "",
        reach: &reach,
        blank: None,
        now: "2026-01-01T00:00:00Z",
    };
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let last =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1", "b": "2"}});
    let mut object = last.clone();
    object["metadata"]["annotations"] = json!({ annotation: last.to_string() });
    let live = update(&base, &json!({"apiVersion": "v1", "kind": "ConfigMap"}), object.clone());
    let kubectl = Write {
        manager: "kubectl",
        ..base
    };
    let config =
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "3", "b": "2"}});
    let applied = apply(&kubectl, &live, &config, false).unwrap();
    assert_eq!(applied["data"], json!({"a": "3", "b": "2"}));
    let stated: Value = serde_json::from_str(applied["metadata"]["annotations"][annotation].as_str().unwrap()).unwrap();
    assert_eq!(stated, config);
    let other = Write {
        manager: "someone",
        ..base
    };
    assert!(apply(&other, &live, &config, false).is_err());
}

#[test]
fn field_sets_survive_fields_v1() {
    let pod = kind("apps/v1", "Deployment");
    let set = field_set(Some(pod), &deployment());
    assert_eq!(FieldSet::from_fields_v1(&set.to_fields_v1()), Ok(set));
    let odd = json!({"x:future": {}, "f:a": {}, "i:3": {}, "v:true": {}});
    assert_eq!(
        FieldSet::from_fields_v1(&odd).unwrap().to_fields_v1(),
        json!({"f:a": {}, "i:3": {}, "v:true": {}})
    );
    assert!(FieldSet::from_fields_v1(&json!({"f": {}})).is_err());
}
