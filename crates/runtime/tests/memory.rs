//! How many bytes the cache needs per pod, counted by the allocator. Alone in its binary, so that nothing else counts.

use std::alloc::System;

use coppice_runtime::cache::{Cache, Kind, PodProjection};
use k8s_openapi::api::core::v1::Pod;
use kube::core::ApiResource;
use serde_json::{json, value::RawValue};
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// A pod as a serving workload has them: 25 environment variables, 10 labels, 3 managers, an init container, a status.
fn pod(number: usize) -> Box<RawValue> {
    let set = number / 40;
    let environment: Vec<_> = (0..25)
        .map(|name| json!({"name": format!("VARIABLE_{name}"), "value": format!("the value of variable {name}, as long as such values are")}))
        .collect();
    let managers: Vec<_> = ["operator", "scheduler", "kubelet"]
        .into_iter()
        .map(|manager| json!({
            "manager": manager, "operation": "Update", "apiVersion": "v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1",
            "fieldsV1": {"f:metadata": {"f:labels": {".": {}, "f:a": {}}}, "f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {}}}},
        }))
        .collect();
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:10Z", "lastProbeTime": null});
    let name = format!("inference-{set}-0-decode-{}", number % 40);
    let object = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "serving", "generation": 1,
            "uid": format!("5f6d7a1c-0000-4000-8000-{number:012}"), "resourceVersion": (number + 1).to_string(),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {
                "app.kubernetes.io/managed-by": "operator", "app.kubernetes.io/part-of": format!("inference-{set}"),
                "app.kubernetes.io/name": "decode", "app.kubernetes.io/component": "worker",
                "grove.io/podclique": format!("inference-{set}-0-decode"), "grove.io/podgang": format!("inference-{set}-0"),
                "grove.io/pod-index": (number % 40).to_string(), "grove.io/pod-template-hash": "7d9f5c6b8",
                "grove.io/podcliqueset-replica-index": "0", "team": "serving",
            },
            "ownerReferences": [{
                "apiVersion": "grove.io/v1alpha1", "kind": "PodClique", "name": format!("inference-{set}-0-decode"),
                "uid": format!("9a8b7c6d-0000-4000-8000-{set:012}"), "controller": true, "blockOwnerDeletion": true,
            }],
            "managedFields": managers,
        },
        "spec": {
            "nodeName": format!("node-{}", number % 100), "hostname": name, "subdomain": "inference",
            "initContainers": [{"name": "wait", "image": "registry.example/wait:1", "args": ["--for", "leader"]}],
            "containers": [{
                "name": "main", "image": "registry.example/serve:1", "env": environment,
                "resources": {"limits": {"nvidia.com/gpu": "8"}, "requests": {"nvidia.com/gpu": "8", "cpu": "32", "memory": "512Gi"}},
            }],
        },
        "status": {
            "phase": "Running", "startTime": "2026-01-01T00:00:05Z", "podIP": "10.0.0.1",
            "conditions": [condition("PodScheduled"), condition("Initialized"), condition("ContainersReady"), condition("Ready")],
            "containerStatuses": [{"name": "main", "restartCount": 0, "started": true, "ready": true, "state": {"running": {"startedAt": "2026-01-01T00:00:09Z"}}}],
        },
    });
    serde_json::value::to_raw_value(&object).expect("it is JSON")
}

fn bytes_per_pod(projection: PodProjection, pods: usize) -> usize {
    let cache = Cache::default();
    let kind: Kind<PodProjection> = cache.kind(ApiResource::erase::<Pod>(&()), projection);
    let _by_owner = kind.index(|pod, emit| pod.controller_uid.iter().for_each(|uid| emit(uid.clone())));
    let _by_node = kind.index(|pod, emit| pod.node_name.iter().for_each(|node| emit(node.clone())));
    let region = Region::new(ALLOCATOR);
    for number in 0..pods {
        kind.observe(&pod(number)).expect("a pod");
    }
    let change = region.change();
    // Growth by reallocation is part of both.
    let held = change.bytes_allocated - change.bytes_deallocated;
    assert_eq!(kind.status().objects, pods);
    held / pods
}

#[test]
fn a_pod_costs_about_a_kilobyte() {
    let wire = pod(7).get().len();
    let plain = bytes_per_pod(PodProjection::default(), 4000);
    let with_requests = bytes_per_pod(
        PodProjection {
            requests: true,
            ..PodProjection::default()
        },
        4000,
    );
    println!("{wire} bytes on the wire, {plain} in the cache with two indexes, {with_requests} with requests");
    assert!(wire > 4000, "the pod of this test should be a realistic one");
    assert!(plain < 1500, "{plain} bytes per pod");
    assert!(with_requests < 1800, "{with_requests} bytes per pod with requests");
}
