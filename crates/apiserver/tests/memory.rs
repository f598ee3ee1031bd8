//! How many bytes the server keeps per pod, counted by the allocator. Alone in its binary, and one test at a time, so that
//! nothing else counts.

use std::alloc::System;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use coppice_apiserver::ApiServer;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use tokio::sync::Mutex;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

static ALONE: Mutex<()> = Mutex::const_new(());

const PODS: usize = 300;
/// Small, so that what is counted is what is held and not what is remembered.
const HISTORY: usize = 16;

fn pod(number: usize) -> Pod {
    let environment: Vec<_> = (0..25)
        .map(|variable| json!({"name": format!("VARIABLE_{variable}"), "value": format!("what variable {variable} says to pod {number}")}))
        .collect();
    let probe = json!({"httpGet": {"path": "/health", "port": 8000}});
    serde_json::from_value(json!({
        "metadata": {"name": format!("worker-{number}"), "labels": {
            "app.kubernetes.io/name": "worker", "app.kubernetes.io/part-of": format!("serving-{}", number / 32),
        }},
        "spec": {"containers": [{
            "name": "worker", "image": "registry.example/worker:1", "env": environment,
            "livenessProbe": probe, "readinessProbe": probe, "startupProbe": probe,
        }]},
    }))
    .expect("a pod")
}

#[tokio::test(flavor = "current_thread")]
async fn a_held_pod_takes_less_than_half_of_its_json() {
    let _alone = ALONE.lock().await;
    let server = ApiServer::builder().seed(1).history_limit(HISTORY).build();
    let pods: Api<Pod> = Api::default_namespaced(Client::new(server.service(), "default"));
    let condition = |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let running =
        json!({"status": {"phase": "Running", "conditions": [condition("Ready"), condition("ContainersReady")]}});
    let mut json = 0;
    let mut counted = None;
    for number in 0..=PODS {
        if number == 1 {
            // The first pod pays for what is made once.
            counted = Some(Region::new(ALLOCATOR));
        }
        let created = pods
            .create(&PostParams::default(), &pod(number))
            .await
            .expect("created");
        let name = created.metadata.name.expect("a name");
        pods.patch_status(&name, &PatchParams::default(), &Patch::Strategic(&running))
            .await
            .expect("patched");
    }
    let change = counted.expect("started above").change();
    for object in server.store().all("pods", "").iter().skip(1) {
        json += object.json().len();
    }
    let held = change.bytes_allocated.saturating_sub(change.bytes_deallocated);
    let (held, json) = (held / PODS, json / PODS);
    assert!(json > 6_000, "a pod of {json} bytes is no pod as they are");
    assert!(held * 2 < json, "{held} bytes are held for {json} bytes of JSON");
}

fn held_now() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

#[tokio::test(flavor = "current_thread")]
async fn deleting_a_collection_holds_no_trees() {
    let _alone = ALONE.lock().await;
    let server = ApiServer::builder().seed(1).history_limit(HISTORY).build();
    let pods: Api<Pod> = Api::default_namespaced(Client::new(server.service(), "default"));
    for number in 0..PODS {
        pods.create(&PostParams::default(), &pod(number))
            .await
            .expect("created");
    }
    let json: usize = server.store().all("pods", "").iter().map(|pod| pod.json().len()).sum();
    let most = Arc::new(AtomicUsize::new(0));
    let (before, seen) = (held_now(), most.clone());
    server.store().observe(move |_| {
        seen.fetch_max(held_now().saturating_sub(before), Ordering::Relaxed);
    });
    pods.delete_collection(&DeleteParams::default().grace_period(0), &ListParams::default())
        .await
        .expect("deleted");
    assert_eq!(server.store().count("pods"), 0);
    let most = most.load(Ordering::Relaxed);
    assert!(most > 0, "the observer was not called");
    assert!(
        most < json,
        "{most} more bytes are held while {json} bytes of JSON are deleted"
    );
}
