//! Claims on devices.

use crate::support::{World, condition, gone, is_ready, seconds, until};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::resource::v1::{DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

/// A node with devices `d-0`, `d-1`, ... of the class `fast`.
async fn publish(world: &World, node: &str, count: usize) {
    let device = |number: usize| json!({"name": format!("d-{number}"), "attributes": {"kind": {"string": "fast"}}});
    let slice = json!({"metadata": {"name": format!("slice-{node}")}, "spec": {
        "driver": "dev.example.com", "nodeName": node, "devices": (0..count).map(device).collect::<Vec<_>>(),
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
    }});
    let slices: Api<ResourceSlice> = Api::all(world.client.clone());
    slices
        .create(&PostParams::default(), &serde_json::from_value(slice).unwrap())
        .await
        .unwrap();
}

async fn class_and_template(world: &World) {
    let classes: Api<DeviceClass> = Api::all(world.client.clone());
    let expression = "device.attributes['dev.example.com'].kind == 'fast'";
    let class = json!({"metadata": {"name": "fast"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}});
    classes
        .create(&PostParams::default(), &serde_json::from_value(class).unwrap())
        .await
        .unwrap();
    let spec = json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "fast"}}]}});
    let _: ResourceClaimTemplate = world
        .create(json!({"metadata": {"name": "fast"}, "spec": {"spec": spec}}))
        .await;
}

fn claiming() -> Value {
    json!({"resourceClaims": [{"name": "dev", "resourceClaimTemplateName": "fast"}]})
}

async fn claims(world: &World) -> Vec<ResourceClaim> {
    let claims: Api<ResourceClaim> = Api::default_namespaced(world.client.clone());
    claims.list(&ListParams::default()).await.unwrap().items
}

fn devices(claims: &[ResourceClaim]) -> Vec<String> {
    let allocated = claims
        .iter()
        .filter_map(|claim| claim.status.as_ref()?.allocation.as_ref()?.devices.as_ref());
    let results = allocated.flat_map(|devices| devices.results.iter().flatten());
    let mut all: Vec<String> = results
        .map(|result| format!("{}/{}", result.pool, result.device))
        .collect();
    all.sort();
    all
}

#[tokio::test(start_paused = true)]
async fn pods_get_the_devices_that_their_template_claims_until_there_are_no_more() {
    let world = World::start(2, |options| options.heartbeats(None)).await;
    world.pod("first", json!({}), claiming()).await;
    tokio::time::sleep(seconds(30)).await;
    assert!(claims(&world).await.is_empty(), "there is no template yet");
    class_and_template(&world).await;
    publish(&world, "node-00001", 2).await;
    let first = world.until_pod("first", is_ready).await.unwrap();
    assert_eq!(
        first.spec.clone().unwrap().node_name.as_deref(),
        Some("node-00001"),
        "only it has devices"
    );
    let all = claims(&world).await;
    assert_eq!(devices(&all), ["node-00001/d-0"]);
    assert_eq!(all[0].owner_references()[0].uid, first.uid().unwrap());
    assert_eq!(all[0].annotations()["resource.kubernetes.io/pod-claim-name"], "dev");
    let named = first.status.unwrap().resource_claim_statuses.unwrap();
    assert_eq!(named[0].resource_claim_name, Some(all[0].name_any()));

    for name in ["second", "third"] {
        world.pod(name, json!({}), claiming()).await;
    }
    world.until_pod("second", is_ready).await;
    let unplaced = |pod: Option<&Pod>| {
        let conditions = pod.and_then(|pod| pod.status.as_ref()?.conditions.as_ref());
        let message = conditions.and_then(|all| all[0].message.as_deref());
        message == Some("0/2 nodes are available: 2 cannot allocate all claims.")
    };
    world.until_pod("third", unplaced).await;
    assert_eq!(devices(&claims(&world).await), ["node-00001/d-0", "node-00001/d-1"]);
    tokio::time::sleep(seconds(60)).await;
    world.take_writes();
    tokio::time::sleep(seconds(3600)).await;
    assert_eq!(
        world.take_writes(),
        Vec::<String>::new(),
        "nothing is written when nothing happens"
    );

    let pods: Api<Pod> = Api::default_namespaced(world.client.clone());
    pods.delete("first", &DeleteParams::default()).await.unwrap();
    world.until_pod("third", is_ready).await;
    let api: Api<ResourceClaim> = Api::default_namespaced(world.client.clone());
    until(api, &all[0].name_any(), gone).await;
}

#[tokio::test(start_paused = true)]
async fn claims_of_pods_that_another_scheduler_bound_are_allocated_on_their_node() {
    let world = World::start(2, |options| options).await;
    class_and_template(&world).await;
    for node in ["node-00000", "node-00001"] {
        publish(&world, node, 1).await;
    }
    world.bound_pod("bound", json!({}), claiming()).await;
    world.until_pod("bound", is_ready).await;
    assert_eq!(devices(&claims(&world).await), ["node-00000/d-0"]);
    world.bound_pod("late", json!({}), claiming()).await;
    let waits = |pod: Option<&Pod>| {
        let statuses = pod.and_then(|pod| pod.status.as_ref()?.container_statuses.as_ref());
        let waiting = statuses.and_then(|all| all[0].state.as_ref()?.waiting.as_ref());
        waiting.is_some_and(|waiting| {
            waiting
                .message
                .as_deref()
                .is_some_and(|text| text.ends_with("is not allocated"))
        })
    };
    let late = world.until_pod("late", waits).await.unwrap();
    assert_eq!(condition(&late, "Ready"), "False");
    let pods: Api<Pod> = Api::default_namespaced(world.client.clone());
    pods.delete("bound", &DeleteParams::default()).await.unwrap();
    world.until_pod("late", is_ready).await;
}

#[tokio::test(start_paused = true)]
async fn devices_of_a_pod_that_has_ended_are_free() {
    let world = World::start(1, |options| options).await;
    class_and_template(&world).await;
    publish(&world, "node-00000", 1).await;
    let mut spec = claiming();
    spec["restartPolicy"] = json!("Never");
    let annotations = json!({"annotations": {"simulation.coppice.dev/complete-after": "5s"}});
    world.pod("job", annotations, spec).await;
    world.pod("next", json!({}), claiming()).await;
    world.until_pod("next", is_ready).await;
    let names: Vec<_> = claims(&world)
        .await
        .iter()
        .map(|claim| claim.owner_references()[0].name.clone())
        .collect();
    assert_eq!(names, ["next"], "the claim of a pod that has ended is deleted");
}
