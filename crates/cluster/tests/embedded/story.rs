//! Determinism: the same story twice.

use crate::support::{World, is_ready, owner_and_dependent, seconds};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams};
use serde_json::json;

/// One eventful story, as the list of writes it causes.
async fn story() -> Vec<String> {
    let world = World::start(3, |options| options.heartbeats(None).node_grace(seconds(50))).await;
    for index in 0..6 {
        let node = format!("node-0000{}", index % 3);
        world
            .pod(&format!("pod-{index}"), json!({}), json!({"nodeName": node}))
            .await;
    }
    for index in 0..6 {
        world.until_pod(&format!("pod-{index}"), is_ready).await;
    }
    owner_and_dependent(&world, "owner").await;
    let owners: Api<ConfigMap> = Api::default_namespaced(world.client.clone());
    owners.delete("owner", &DeleteParams::background()).await.unwrap();
    world.cluster.power_off("node-00000").await.unwrap();
    tokio::time::sleep(seconds(1000)).await;
    world.cluster.power_on("node-00000").await.unwrap();
    tokio::time::sleep(seconds(1000)).await;
    world.take_writes()
}

#[tokio::test(start_paused = true)]
async fn the_same_story_has_the_same_writes_in_the_same_order() {
    let first = story().await;
    assert!(first.len() > 20, "something has to happen: {first:?}");
    assert_eq!(first, story().await);
}
