//! Gangs with volumes: a scheduler that dies at any of its writes leaves nothing half done, and one that waits in vain gives
//! everything back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coppice_proofs::stage::{LONG, Stage, in_virtual_time};
use coppice_proofs::{state, story};
use coppice_runtime::layers::{Call, Fault};
use coppice_scheduler::{Options, Scheduler};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};

fn class(provisioner: &str) -> Value {
    json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"}, "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer"})
}

fn claim() -> Value {
    json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "weights", "namespace": "default"},
        "spec": {"storageClassName": "late", "accessModes": ["ReadWriteMany"], "resources": {"requests": {"storage": "1Gi"}}}})
}

/// Three pods that share a claim, each with an ephemeral volume of its own.
fn workload() -> Value {
    let template = json!({"spec": {"storageClassName": "late", "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}}}});
    let pod = json!({"schedulerName": "coppice", "volumes": [
            {"name": "weights", "persistentVolumeClaim": {"claimName": "weights"}},
            {"name": "cache", "ephemeral": {"volumeClaimTemplate": template}}],
        "containers": [{"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "10m"}}}]});
    json!({"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": "serve", "namespace": "default"},
        "spec": {"replicas": 1, "template": {"cliques": [
            {"name": "a", "spec": {"roleName": "a", "replicas": 3, "minAvailable": 3, "podSpec": pod}}]}}})
}

async fn scheduler(stage: &Stage, who: &str, hook: impl Fn(&Call) -> Fault + Send + Sync + 'static) -> Scheduler {
    let options = Options {
        clock: stage.clock(),
        ..Options::default()
    };
    Scheduler::start(stage.client(who, hook), options).await
}

async fn begin(stage: &Stage, provisioner: &str) {
    let classes: Api<StorageClass> = Api::all(stage.client.clone());
    let class = serde_json::from_value(class(provisioner)).expect("a class");
    classes.create(&PostParams::default(), &class).await.expect("a class");
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(stage.client.clone(), "default");
    let claim = serde_json::from_value(claim()).expect("a claim");
    claims.create(&PostParams::default(), &claim).await.expect("a claim");
    story::create(&stage.client, &workload()).await;
}

async fn claims(stage: &Stage) -> Vec<Value> {
    state::list(&stage.client, "default", "", "v1", "PersistentVolumeClaim").await
}

async fn pods(stage: &Stage) -> Vec<Value> {
    state::list(&stage.client, "default", "", "v1", "Pod").await
}

/// Lets a scheduler die after so many writes, and another take over. Returns how many writes the first one made.
fn killed_after(writes: u64) -> u64 {
    in_virtual_time(async {
        let stage = Stage::start().await;
        let operator = stage.operator("operator", |_: &Call| Fault::Pass).await;
        let made = Arc::new(AtomicU64::new(0));
        let count = made.clone();
        let dying = scheduler(&stage, "dying", move |call: &Call| {
            let reads = ["get", "list", "watch"].contains(&call.verb.as_str());
            let about_events = call.resource == "events";
            if reads || about_events || count.fetch_add(1, Ordering::Relaxed) < writes {
                Fault::Pass
            } else {
                Fault::FailBefore
            }
        })
        .await;
        begin(&stage, "volumes.simulation.coppice.dev").await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        dying.stop().await;
        let next = scheduler(&stage, "next", |_: &Call| Fault::Pass).await;
        tokio::time::sleep(LONG).await;
        let pods = pods(&stage).await;
        assert_eq!(pods.len(), 3);
        for pod in &pods {
            assert!(pod["spec"]["nodeName"].is_string(), "after {writes} writes: {pod}");
        }
        let claims = claims(&stage).await;
        assert_eq!(claims.len(), 4);
        for claim in &claims {
            assert_eq!(claim["status"]["phase"], "Bound", "after {writes} writes: {claim}");
        }
        let volumes: Api<PersistentVolume> = Api::all(stage.client.clone());
        let volumes = volumes.list(&ListParams::default()).await.expect("volumes");
        assert_eq!(volumes.items.len(), 4, "none was made twice");
        next.stop().await;
        operator.stop().await;
        made.load(Ordering::Relaxed)
    })
}

#[test]
fn a_scheduler_that_dies_at_any_write_leaves_no_claim_half_done() {
    let mut writes = 0;
    while killed_after(writes) > writes {
        writes += 1;
    }
    assert!(writes >= 8, "a plan, four claims and three bindings at least: {writes}");
}

#[test]
fn claims_that_nobody_binds_are_given_up_and_the_selection_is_taken_back() {
    in_virtual_time(async {
        let stage = Stage::start().await;
        let operator = stage.operator("operator", |_: &Call| Fault::Pass).await;
        let scheduler = scheduler(&stage, "scheduler", |_: &Call| Fault::Pass).await;
        begin(&stage, "absent.example.com").await;
        let message = |pod: &Value| -> String {
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let scheduled = conditions.iter().find(|condition| condition["type"] == "PodScheduled");
            scheduled
                .map(|condition| condition["message"].to_string())
                .unwrap_or_default()
        };
        const SELECTED: &str = "volume.kubernetes.io/selected-node";
        tokio::time::sleep(Duration::from_secs(60)).await;
        for claim in claims(&stage).await {
            assert!(claim["metadata"]["annotations"][SELECTED].is_string(), "{claim}");
        }
        for pod in pods(&stage).await {
            assert!(pod["spec"]["nodeName"].is_null(), "{pod}");
            assert!(message(&pod).contains("waits until"), "{}", message(&pod));
        }
        // Ten minutes after the start they are given up, for half a minute.
        tokio::time::sleep(Duration::from_secs(555)).await;
        for claim in claims(&stage).await {
            assert!(claim["metadata"]["annotations"][SELECTED].is_null(), "{claim}");
        }
        for pod in pods(&stage).await {
            assert!(pod["spec"]["nodeName"].is_null(), "{pod}");
            let message = message(&pod);
            assert!(
                message.contains("was not bound within 600s") && message.contains("its room is free"),
                "{message}"
            );
        }
        let gangs = state::list(&stage.client, "default", "scheduler.grove.io", "v1alpha1", "PodGang").await;
        let annotations = gangs[0]["metadata"]["annotations"].to_string();
        assert!(!annotations.contains("uids"), "no plan is stored: {annotations}");
        scheduler.stop().await;
        operator.stop().await;
    });
}
