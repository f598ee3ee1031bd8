//! The objects of KAI, of Volcano and of Kubernetes itself on a real kube-apiserver: the first two under their
//! definitions, the last as the server has them. Needs `KUBEBUILDER_ASSETS`.

mod pod_groups;

use coppice_harness::control_plane::{ControlPlane, Options};
use coppice_harness::definitions::{kai_pod_groups, volcano_pod_groups};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{Api, PostParams};
use pod_groups::{create_all, define, golden};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn the_objects_of_kai_and_volcano_are_valid_under_their_definitions() {
    let control_plane = ControlPlane::start(&Options::default()).await.expect("a control plane");
    let client = control_plane.client();
    define(&client, kai_pod_groups()).await;
    create_all(&client, &golden("kai")).await;
    // In namespaces of the same names.
    define(&client, volcano_pod_groups()).await;
    create_all(&client, &golden("volcano")).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_native_objects_are_stored_whole_and_pods_may_name_them() {
    let options = Options {
        api_server_flags: vec![
            "--runtime-config=scheduling.k8s.io/v1alpha2=true".to_owned(),
            "--feature-gates=GenericWorkload=true,GangScheduling=true,WorkloadAwarePreemption=true,\
             TopologyAwareWorkloadScheduling=true"
                .to_owned(),
        ],
        ..Options::default()
    };
    let control_plane = ControlPlane::start(&options).await.expect("a control plane");
    let client = control_plane.client();
    let class: PriorityClass =
        serde_json::from_value(json!({"metadata": {"name": "serving"}, "value": 1000})).expect("a class");
    let classes: Api<PriorityClass> = Api::all(client.clone());
    classes
        .create(&PostParams::default(), &class)
        .await
        .expect("a priority class");
    create_all(&client, &golden("native")).await;

    let pods: Api<Pod> = Api::namespaced(client, "one-clique");
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {"name": "llm-0-worker-0"},
        "spec": {
            "containers": [{"name": "main", "image": "worker"}],
            "priorityClassName": "serving",
            "schedulingGroup": {"podGroupName": "llm-0"},
        },
    }))
    .expect("a pod");
    let stored = pods.create(&PostParams::default(), &pod).await.expect("a pod");
    let spec = serde_json::to_value(&stored.spec).expect("JSON");
    assert_eq!(spec["schedulingGroup"]["podGroupName"], "llm-0");
}
