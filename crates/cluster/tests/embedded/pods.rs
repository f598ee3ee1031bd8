//! Pods on simulated nodes.

use crate::support::{World, annotate_pod, gone, is_ready, restarts, seconds, until};
use coppice_cluster::behaviour;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::Resource;
use kube::api::{Api, DeleteParams};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_bound_pod_becomes_ready_with_one_write_and_a_quiet_cluster_writes_nothing() {
    let world = World::start(2, |options| options.heartbeats(None)).await;
    let nodes: Api<Node> = Api::all(world.client.clone());
    let is_clean = |node: Option<&Node>| {
        node.is_some_and(|node| {
            node.spec
                .as_ref()
                .is_none_or(|spec| spec.taints.as_ref().is_none_or(Vec::is_empty))
        })
    };
    until(nodes, "node-00001", is_clean).await;
    tokio::time::sleep(seconds(60)).await;
    world.take_writes();
    world.pod("web", json!({}), json!({"nodeName": "node-00001"})).await;
    let pod = world.until_pod("web", is_ready).await.unwrap();
    tokio::time::sleep(seconds(600)).await;
    assert_eq!(
        world.take_writes(),
        ["PATCH /api/v1/namespaces/default/pods/web/status"]
    );
    let status = pod.status.unwrap();
    assert_eq!(status.phase.as_deref(), Some("Running"));
    assert_eq!(status.host_ip.as_deref(), Some("172.16.0.2"));
    assert!(status.pod_ip.is_some() && status.start_time.is_some());
}

#[tokio::test(start_paused = true)]
async fn init_containers_wait_for_ready_pods_of_their_gang() {
    let world = World::start(1, |options| options).await;
    let labels = |clique: &str| json!({"labels": {"grove.io/podclique": clique, "grove.io/podgang": "gang"}});
    let waiting = json!({"initContainers": [{"name": "grove-initc", "image": "i", "args": ["--podcliques=leader:2"]}]});
    world.bound_pod("worker", labels("worker"), waiting).await;
    world.bound_pod("leader-0", labels("leader"), json!({})).await;
    world.until_pod("leader-0", is_ready).await;
    tokio::time::sleep(seconds(600)).await;
    let pods: Api<Pod> = Api::default_namespaced(world.client.clone());
    assert_eq!(
        pods.get("worker").await.unwrap().status.unwrap().phase.as_deref(),
        Some("Pending")
    );
    world.bound_pod("leader-1", labels("leader"), json!({})).await;
    world.until_pod("worker", is_ready).await;
}

#[tokio::test(start_paused = true)]
async fn behaviour_changes_at_run_time() {
    let world = World::start(1, |options| options).await;
    world
        .bound_pod(
            "web",
            json!({"annotations": {behaviour::START_DELAY: "30s"}}),
            json!({}),
        )
        .await;
    let begun = tokio::time::Instant::now();
    world.until_pod("web", is_ready).await;
    assert_eq!(begun.elapsed().as_secs(), 30);
    annotate_pod(&world, "web", behaviour::KILL, "1").await;
    world.until_pod("web", |pod| !is_ready(pod)).await;
    let restarted = world.until_pod("web", is_ready).await.unwrap();
    assert_eq!(restarts(&restarted), 1);
    annotate_pod(&world, "web", behaviour::NEVER_READY, "true").await;
    world.until_pod("web", |pod| !is_ready(pod)).await;
}

#[tokio::test(start_paused = true)]
async fn bad_annotations_become_events() {
    let world = World::start(1, |options| options).await;
    world
        .bound_pod(
            "web",
            json!({"annotations": {behaviour::READY_DELAY: "soon"}}),
            json!({}),
        )
        .await;
    world.until_pod("web", is_ready).await;
    let events: Api<k8s_openapi::api::core::v1::Event> = Api::default_namespaced(world.client.clone());
    let events = events.list(&Default::default()).await.unwrap().items;
    let told: Vec<_> = events
        .iter()
        .filter(|event| event.reason.as_deref() == Some("InvalidSimulationAnnotation"))
        .collect();
    assert_eq!(told.len(), 1);
    assert!(told[0].message.as_ref().unwrap().contains("\"soon\" is not a duration"));
}

#[tokio::test(start_paused = true)]
async fn deletion_is_graceful() {
    let world = World::start(1, |options| options).await;
    world
        .bound_pod(
            "web",
            json!({"annotations": {behaviour::TERMINATION_DELAY: "7s"}}),
            json!({}),
        )
        .await;
    world.until_pod("web", is_ready).await;
    world.take_writes();
    let begun = tokio::time::Instant::now();
    let pods: Api<Pod> = Api::default_namespaced(world.client.clone());
    pods.delete("web", &DeleteParams::default()).await.unwrap();
    assert!(pods.get("web").await.unwrap().metadata.deletion_timestamp.is_some());
    world.until_pod("web", gone).await;
    assert_eq!(begun.elapsed().as_secs(), 7);
    let pod_writes: Vec<_> = world
        .take_writes()
        .into_iter()
        .filter(|write| write.contains("/pods/"))
        .collect();
    assert_eq!(pod_writes, ["DELETE /api/v1/namespaces/default/pods/web"]);
}

#[tokio::test(start_paused = true)]
async fn a_later_cluster_takes_over_what_it_finds() {
    let world = World::start(1, |options| options.heartbeats(None)).await;
    world.bound_pod("web", json!({}), json!({})).await;
    let before = world.until_pod("web", is_ready).await.unwrap();
    let client = world.client.clone();
    world.cluster.stop().await;
    let options = coppice_cluster::Options::default().heartbeats(None);
    let cluster = coppice_cluster::SimulatedCluster::start(client.clone(), options)
        .await
        .unwrap();
    tokio::time::sleep(seconds(600)).await;
    let after = Api::<Pod>::default_namespaced(client).get("web").await.unwrap();
    assert_eq!(
        after.meta().resource_version,
        before.meta().resource_version,
        "taking over writes nothing"
    );
    cluster.stop().await;
}
