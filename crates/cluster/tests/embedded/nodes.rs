//! Nodes that fall silent, are cordoned or deleted.

use crate::support::{World, gone, is_ready, restarts, seconds, until};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, DeleteParams};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn a_node_without_power_is_found_out_and_comes_back() {
    for heartbeats in [Some(seconds(10)), None] {
        let world = World::start(2, |options| options.heartbeats(heartbeats).node_grace(seconds(50))).await;
        let brief = json!([{"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20}]);
        world
            .pod(
                "brief",
                json!({}),
                json!({"nodeName": "node-00001", "tolerations": brief}),
            )
            .await;
        world.pod("patient", json!({}), json!({"nodeName": "node-00001"})).await;
        world.until_pod("brief", is_ready).await;
        world.until_pod("patient", is_ready).await;
        world.cluster.power_off("node-00001").await.unwrap();

        let nodes: Api<Node> = Api::all(world.client.clone());
        let ready = |node: &Node| {
            let conditions = node
                .status
                .as_ref()
                .and_then(|status| status.conditions.clone())
                .unwrap_or_default();
            conditions
                .into_iter()
                .find(|condition| condition.type_ == "Ready")
                .map_or(String::new(), |found| found.status)
        };
        until(nodes.clone(), "node-00001", |node| {
            node.is_some_and(|node| ready(node) == "Unknown")
        })
        .await;
        world.until_pod("patient", |pod| !is_ready(pod)).await;
        world
            .until_pod("brief", |pod| {
                pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_some())
            })
            .await;
        assert_eq!(
            ready(&nodes.get("node-00000").await.unwrap()),
            "True",
            "other nodes are not concerned"
        );

        world.cluster.power_on("node-00001").await.unwrap();
        until(nodes.clone(), "node-00001", |node| {
            node.is_some_and(|node| {
                ready(node) == "True"
                    && node
                        .spec
                        .as_ref()
                        .is_none_or(|spec| spec.taints.as_ref().is_none_or(Vec::is_empty))
            })
        })
        .await;
        let patient = world.until_pod("patient", is_ready).await.unwrap();
        assert_eq!(restarts(&patient), 1);
        world.until_pod("brief", gone).await;
        world.cluster.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn pods_stay_on_dead_nodes_for_the_default_time_only() {
    let world = World::start(1, |options| {
        options
            .heartbeats(None)
            .node_grace(seconds(50))
            .default_stay(seconds(300))
    })
    .await;
    world.bound_pod("web", json!({}), json!({})).await;
    world.until_pod("web", is_ready).await;
    world.cluster.power_off("node-00000").await.unwrap();
    let begun = tokio::time::Instant::now();
    world
        .until_pod("web", |pod| {
            pod.is_some_and(|pod| pod.metadata.deletion_timestamp.is_some())
        })
        .await;
    assert_eq!(begun.elapsed().as_secs(), 350);
}

#[tokio::test(start_paused = true)]
async fn pods_of_deleted_nodes_and_their_leases_are_removed() {
    let world = World::start(2, |options| options).await;
    world.pod("web", json!({}), json!({"nodeName": "node-00001"})).await;
    world.until_pod("web", is_ready).await;
    let leases: Api<Lease> = Api::namespaced(world.client.clone(), "kube-node-lease");
    until(leases.clone(), "node-00001", |lease| lease.is_some()).await;
    let nodes: Api<Node> = Api::all(world.client.clone());
    nodes.delete("node-00001", &DeleteParams::default()).await.unwrap();
    world.until_pod("web", gone).await;
    until(leases, "node-00001", gone).await;
}

#[tokio::test(start_paused = true)]
async fn cordon_is_a_taint() {
    let world = World::start(1, |options| options).await;
    let nodes: Api<Node> = Api::all(world.client.clone());
    let tainted = |node: Option<&Node>| {
        let taints = node
            .and_then(|node| node.spec.as_ref())
            .and_then(|spec| spec.taints.as_ref());
        taints.is_some_and(|taints| {
            taints
                .iter()
                .any(|taint| taint.key == "node.kubernetes.io/unschedulable")
        })
    };
    nodes.cordon("node-00000").await.unwrap();
    until(nodes.clone(), "node-00000", tainted).await;
    nodes.uncordon("node-00000").await.unwrap();
    until(nodes, "node-00000", |node| !tainted(node)).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_with_power_lives_however_late_its_heartbeats_are() {
    // As on a machine that is too busy to renew thousands of leases in time.
    let world = World::start(2, |options| {
        options.heartbeats(Some(seconds(3600))).node_grace(seconds(5))
    })
    .await;
    let nodes: Api<Node> = Api::all(world.client.clone());
    let ready = |node: &Node| {
        let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        conditions
            .into_iter()
            .find(|condition| condition.type_ == "Ready")
            .cloned()
    };
    let is = |node: Option<&Node>, status: &str| node.and_then(ready).is_some_and(|ready| ready.status == status);
    until(nodes.clone(), "node-00000", |node| is(node, "True")).await;
    let before = ready(&nodes.get("node-00000").await.unwrap());
    world.cluster.power_off("node-00001").await.unwrap();
    until(nodes.clone(), "node-00001", |node| is(node, "Unknown")).await;
    tokio::time::sleep(seconds(600)).await;
    // Also not for a moment: its kubelet would say at once that it is ready again.
    assert_eq!(ready(&nodes.get("node-00000").await.unwrap()), before);
    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn nodes_are_watched_once_for_all_components_and_once_for_their_owners() {
    let world = World::start(2, |options| options).await;
    world.bound_pod("web", json!({}), json!({})).await;
    world.until_pod("web", is_ready).await;
    tokio::time::sleep(seconds(60)).await;
    assert_eq!(world.watches_of("/api/v1/nodes"), 2);
    assert_eq!(
        world.watches_of("/api/v1/pods"),
        7,
        "kubelets, node lifecycle, DaemonSets, device claims, volume claims, scheduler, owners"
    );
    world.cluster.stop().await;
}
