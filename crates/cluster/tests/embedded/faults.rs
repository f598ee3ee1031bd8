//! The same ends are reached when requests and answers get lost.

use crate::support::{Fault, World, gone, is_ready, owner_and_dependent, restarts, seconds, until};
use coppice_cluster::behaviour;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Secret};
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

/// Loses two of three writes once the nodes are there: one on its way, one on its way back.
fn two_of_three(write: usize) -> Fault {
    match write {
        0..4 => Fault::None,
        write if write % 3 == 0 => Fault::NotDelivered,
        write if write % 3 == 1 => Fault::AnswerLost,
        _ => Fault::None,
    }
}

#[tokio::test(start_paused = true)]
async fn lost_requests_and_lost_answers_only_delay() {
    let world = World::start_with_faults(2, |options| options.heartbeats(None), two_of_three).await;
    for index in 0..10 {
        world.pod(&format!("plain-{index}"), json!({}), json!({})).await;
    }
    for index in 0..10 {
        let pod = world.until_pod(&format!("plain-{index}"), is_ready).await.unwrap();
        assert_eq!(restarts(&pod), 0);
    }
    let addresses: std::collections::BTreeSet<_> = {
        let pods: Api<Pod> = Api::default_namespaced(world.client.clone());
        let pods = pods.list(&Default::default()).await.unwrap();
        pods.into_iter()
            .map(|pod| pod.status.unwrap().pod_ip.unwrap())
            .collect()
    };
    assert_eq!(addresses.len(), 10, "every pod has an address of its own");

    owner_and_dependent(&world, "foreground").await;
    owner_and_dependent(&world, "orphan").await;
    let owners: Api<ConfigMap> = Api::default_namespaced(world.client.clone());
    let dependents: Api<Secret> = Api::default_namespaced(world.client.clone());
    owners.delete("foreground", &DeleteParams::foreground()).await.unwrap();
    owners.delete("orphan", &DeleteParams::orphan()).await.unwrap();
    until(owners.clone(), "foreground", gone).await;
    until(dependents.clone(), "foreground", gone).await;
    until(owners, "orphan", gone).await;
    assert!(dependents.get_opt("orphan").await.unwrap().is_some());

    world.cluster.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_in_spite_of_faults_and_then_all_is_quiet() {
    let world = World::start_with_faults(1, |options| options.heartbeats(None), two_of_three).await;
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "doomed"}})).unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let slow = json!({"namespace": "doomed", "annotations": {behaviour::TERMINATION_DELAY: "9s"}});
    world.bound_pod("slow", slow, json!({})).await;
    until(Api::<Pod>::namespaced(world.client.clone(), "doomed"), "slow", is_ready).await;
    namespaces.delete("doomed", &DeleteParams::default()).await.unwrap();
    until(namespaces, "doomed", gone).await;
    tokio::time::sleep(seconds(120)).await;
    world.take_writes();
    tokio::time::sleep(seconds(3600)).await;
    assert_eq!(world.take_writes(), Vec::<String>::new());
}
