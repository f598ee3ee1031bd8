//! Plain pods and the stand-in scheduler.

use crate::support::{World, condition, is_ready, seconds};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, DeleteParams, Patch, PatchParams};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn plain_pods_are_scheduled_and_those_without_room_say_why() {
    let world = World::start(1, |options| options).await;
    let wanting =
        |cpu: &str| json!({"containers": [{"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}]});
    world.pod("first", json!({}), wanting("6")).await;
    world.until_pod("first", is_ready).await;
    world.pod("second", json!({}), wanting("6")).await;
    let second = world
        .until_pod("second", |pod| {
            pod.is_some_and(|pod| condition(pod, "PodScheduled") == "False")
        })
        .await
        .unwrap();
    let message = second.status.unwrap().conditions.unwrap()[0].message.clone();
    assert_eq!(message.as_deref(), Some("0/1 nodes are available: 1 Insufficient cpu."));
    let pods: Api<Pod> = Api::default_namespaced(world.client.clone());
    pods.delete("first", &DeleteParams::default()).await.unwrap();
    let second = world.until_pod("second", is_ready).await.unwrap();
    assert_eq!(
        second.spec.unwrap().node_name.as_deref(),
        Some("node-00000"),
        "room that became free is used"
    );
}

#[tokio::test(start_paused = true)]
async fn gated_pods_are_left_alone_until_their_gates_are_gone() {
    let world = World::start(1, |options| options).await;
    world
        .pod(
            "gated",
            json!({}),
            json!({"schedulingGates": [{"name": "example.com/gate"}]}),
        )
        .await;
    tokio::time::sleep(seconds(60)).await;
    let pods: Api<Pod> = Api::default_namespaced(world.client.clone());
    assert_eq!(pods.get("gated").await.unwrap().spec.unwrap().node_name, None);
    let open = json!({"spec": {"schedulingGates": []}});
    pods.patch("gated", &PatchParams::default(), &Patch::Merge(&open))
        .await
        .unwrap();
    world.until_pod("gated", is_ready).await;
}
