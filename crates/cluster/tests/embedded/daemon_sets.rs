//! DaemonSets.

use crate::support::{World, seconds, until};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams};
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn agent(selector: &Value) -> Value {
    json!({"metadata": {"name": "agent"}, "spec": {
        "selector": {"matchLabels": {"app": "agent"}},
        "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {
            "nodeSelector": selector, "containers": [{"name": "main", "image": "agent:1"}]}},
    }})
}

async fn until_set(world: &World, expected: impl Fn(i32, i32, i32) -> bool) -> DaemonSet {
    let sets: Api<DaemonSet> = Api::default_namespaced(world.client.clone());
    let found = until(sets, "agent", |set| {
        let status = set.and_then(|set| Some((set.status.as_ref()?, set.metadata.generation?)));
        status.is_some_and(|(status, generation)| {
            status.observed_generation == Some(generation)
                && expected(
                    status.desired_number_scheduled,
                    status.number_ready,
                    status.updated_number_scheduled.unwrap_or(0),
                )
        })
    });
    found.await.unwrap()
}

async fn nodes_of(world: &World) -> Vec<(String, String)> {
    let pods: Api<Pod> = Api::default_namespaced(world.client.clone());
    let list = pods.list(&ListParams::default()).await.unwrap();
    let place = |pod: Pod| {
        (
            pod.spec.clone().unwrap().node_name.unwrap_or_default(),
            pod.uid().unwrap(),
        )
    };
    list.items.into_iter().map(place).collect()
}

#[tokio::test(start_paused = true)]
async fn every_node_runs_one_pod_and_nothing_is_written_when_nothing_happens() {
    let world = World::start(3, |options| options.heartbeats(None)).await;
    let _: DaemonSet = world.create(agent(&json!({}))).await;
    until_set(&world, |desired, ready, updated| (desired, ready, updated) == (3, 3, 3)).await;
    tokio::time::sleep(seconds(60)).await;
    let writes = world.take_writes();
    let count = |what: &str| writes.iter().filter(|write| write.contains(what)).count();
    let created = writes
        .iter()
        .filter(|write| *write == "POST /api/v1/namespaces/default/pods");
    assert_eq!(created.count(), 3, "{writes:#?}");
    assert!(count("daemonsets/agent/status") <= 7, "{writes:#?}");
    tokio::time::sleep(seconds(3600)).await;
    assert_eq!(world.take_writes(), Vec::<String>::new());

    let pods: Api<Pod> = Api::default_namespaced(world.client.clone());
    let lost = &pods.list(&ListParams::default()).await.unwrap().items[0];
    pods.delete(&lost.name_any(), &DeleteParams::default()).await.unwrap();
    until_set(&world, |_, ready, _| ready == 2).await;
    until_set(&world, |_, ready, _| ready == 3).await;
    let places: BTreeSet<_> = nodes_of(&world).await.into_iter().map(|(node, _)| node).collect();
    assert_eq!(places.len(), 3);
    let sets: Api<DaemonSet> = Api::default_namespaced(world.client.clone());
    sets.delete("agent", &DeleteParams::default()).await.unwrap();
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        until(pods.clone(), &pod.name_any(), |pod| pod.is_none()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn pods_come_and_go_with_the_labels_of_nodes() {
    let world = World::start(2, |options| options).await;
    let _: DaemonSet = world.create(agent(&json!({"domain": "x"}))).await;
    until_set(&world, |desired, _, _| desired == 0).await;
    let nodes: Api<Node> = Api::all(world.client.clone());
    let label = |value: Value| {
        let (nodes, patch) = (nodes.clone(), json!({"metadata": {"labels": {"domain": value}}}));
        async move {
            let params = PatchParams::default();
            nodes.patch("node-00001", &params, &Patch::Merge(&patch)).await.unwrap();
        }
    };
    label(json!("x")).await;
    until_set(&world, |desired, ready, _| (desired, ready) == (1, 1)).await;
    assert_eq!(nodes_of(&world).await[0].0, "node-00001");
    label(Value::Null).await;
    until_set(&world, |desired, ready, _| (desired, ready) == (0, 0)).await;
    let pods: Api<Pod> = Api::default_namespaced(world.client.clone());
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        until(pods.clone(), &pod.name_any(), |pod| pod.is_none()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_template_replaces_pods_one_after_the_other_unless_they_are_replaced_by_hand() {
    let world = World::start(3, |options| options).await;
    let _: DaemonSet = world.create(agent(&json!({}))).await;
    until_set(&world, |_, ready, _| ready == 3).await;
    let before: BTreeSet<_> = nodes_of(&world).await.into_iter().map(|(_, uid)| uid).collect();
    let sets: Api<DaemonSet> = Api::default_namespaced(world.client.clone());
    let change = |image: &str, strategy: &str| {
        json!({"spec": {"updateStrategy": {"type": strategy, "rollingUpdate": null},
            "template": {"spec": {"containers": [{"name": "main", "image": image}]}}}})
    };
    let patch = Patch::Merge(change("agent:2", "OnDelete"));
    sets.patch("agent", &PatchParams::default(), &patch).await.unwrap();
    until_set(&world, |_, ready, updated| (ready, updated) == (3, 0)).await;
    tokio::time::sleep(seconds(60)).await;
    let after: BTreeSet<_> = nodes_of(&world).await.into_iter().map(|(_, uid)| uid).collect();
    assert_eq!(before, after, "OnDelete leaves pods alone");
    let patch = Patch::Merge(change("agent:3", "RollingUpdate"));
    sets.patch("agent", &PatchParams::default(), &patch).await.unwrap();
    until_set(&world, |_, ready, updated| (ready, updated) == (3, 3)).await;
    let after: BTreeSet<_> = nodes_of(&world).await.into_iter().map(|(_, uid)| uid).collect();
    assert!(before.is_disjoint(&after));
}
