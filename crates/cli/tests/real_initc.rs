//! `coppice initc` as a program on a real kube-apiserver: with a token of the pod's own service account, exactly the
//! Role that the operator made, and RBAC and the restricted pod security standard enforced.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod accounts;
mod support;

use std::time::Duration;

use accounts::kubeconfig_of;
use coppice_harness::control_plane::{ControlPlane, Options};
use coppice_harness::scenario::operator::{InProcessOperator, OperatorNeeds, Reach};
use k8s_openapi::api::core::v1::{Namespace, Pod, Secret, ServiceAccount};
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};
use serde_json::{Value, json};
use support::{Place, make_ready};

const SET: &str = "llm";

/// A set whose worker starts after two pods of its leader, under the restricted standard.
fn set() -> Value {
    let container = json!({
        "name": "main",
        "image": "registry.example/main",
        "securityContext": {
            "runAsNonRoot": true,
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    });
    let clique = |name: &str, replicas: u32| {
        json!({"name": name, "spec": {
            "roleName": name, "replicas": replicas, "minAvailable": replicas,
            "podSpec": {"serviceAccountName": "engine", "containers": [container]},
        }})
    };
    json!({
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": SET},
        "spec": {"replicas": 1, "template": {
            "cliqueStartupType": "CliqueStartupTypeInOrder",
            "cliques": [clique("leader", 2), clique("worker", 1)],
        }},
    })
}

async fn namespace(client: &Client, name: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let restricted = json!({"pod-security.kubernetes.io/enforce": "restricted"});
    let namespace = serde_json::from_value(json!({"metadata": {"name": name, "labels": restricted}}));
    namespaces
        .create(&PostParams::default(), &namespace.unwrap())
        .await
        .unwrap();
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), name);
    let account = serde_json::from_value(json!({"metadata": {"name": "engine"}}));
    accounts
        .create(&PostParams::default(), &account.unwrap())
        .await
        .unwrap();
}

/// Waits until there are so many pods of a clique.
async fn pods_of(pods: &Api<Pod>, clique: &str, count: usize) -> Vec<Pod> {
    let selector = format!("grove.io/podclique={clique}");
    let parameters = ListParams::default().labels(&selector);
    let config = watcher::Config::default().labels(&selector);
    let mut events = Box::pin(watcher(pods.clone(), config).default_backoff());
    let waiting = async {
        while futures::TryStreamExt::try_next(&mut events).await.is_ok() {
            let found = pods.list(&parameters).await.unwrap().items;
            if found.len() == count {
                return found;
            }
        }
        panic!("the watch ended")
    };
    let found = tokio::time::timeout(Duration::from_secs(120), waiting).await;
    found.unwrap_or_else(|_| panic!("there are never {count} pods of {clique}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_waiter_works_with_what_the_operator_gives_it_and_nothing_more() {
    let options = Options {
        controller_manager: true,
        ..Options::default()
    };
    let control_plane = ControlPlane::start(&options).await.unwrap();
    let client = control_plane.client();
    for name in ["serving", "elsewhere"] {
        namespace(&client, name).await;
    }
    let operator = InProcessOperator::start(client.clone(), OperatorNeeds::default(), Reach::Nowhere)
        .await
        .unwrap();
    let kind = GroupVersionKind::gvk("grove.io", "v1alpha1", "PodCliqueSet");
    let resource = ApiResource::from_gvk(&kind);
    let sets: Api<DynamicObject> = Api::namespaced_with(client.clone(), "serving", &resource);
    let set = serde_json::from_value(set()).unwrap();
    sets.create(&PostParams::default(), &set).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "serving");
    let leaders = pods_of(&pods, "llm-0-leader", 2).await;
    let worker = pods_of(&pods, "llm-0-worker", 1).await.remove(0);

    // What the operator gave the pod, and what the kubelet would make of it.
    let spec = worker.spec.as_ref().unwrap();
    let init = spec.init_containers.as_ref().unwrap().last().unwrap();
    assert_eq!(init.name, "grove-initc");
    assert_eq!(init.command.as_ref().unwrap(), &["/coppice", "initc"]);
    let arguments = init.args.clone().unwrap();
    let gang = worker.metadata.labels.as_ref().unwrap()["grove.io/podgang"].clone();
    let account = spec.service_account_name.as_deref().unwrap();
    assert_eq!(account, "engine");
    let kubeconfig = kubeconfig_of(&control_plane, "serving", account).await;
    let place = Place::new("serving", &gang, &kubeconfig);

    let own = coppice_harness::client::from_kubeconfig_file(&place.kubeconfig())
        .await
        .unwrap();
    for refused in [
        Api::<Secret>::namespaced(own.clone(), "serving")
            .list(&ListParams::default())
            .await
            .err(),
        Api::<Pod>::namespaced(own.clone(), "elsewhere")
            .list(&ListParams::default())
            .await
            .err(),
    ] {
        let code = match refused {
            Some(kube::Error::Api(status)) => status.code,
            other => panic!("{other:?}"),
        };
        assert_eq!(code, 403, "the account may read pods beside it and nothing else");
    }

    // Where nobody gave it a role it says so, and goes on trying.
    let stranger = kubeconfig_of(&control_plane, "elsewhere", account).await;
    let stranger = Place::new("elsewhere", &gang, &stranger);
    let mut refused = stranger.start(&arguments);
    for _ in 0..2 {
        refused
            .says("a role with the verbs list and watch on this resource is missing")
            .await;
    }
    refused.terminate().await;
    assert_eq!(refused.ends().await.0, Some(143));

    let mut waiting = place.start(&arguments);
    waiting.says("for: llm-0-leader (2 ready)").await;
    waiting.says("waiting: llm-0-leader 0/2 ready").await;
    make_ready(&pods, leaders[0].metadata.name.as_deref().unwrap()).await;
    waiting.says("waiting: llm-0-leader 1/2 ready").await;
    control_plane.kill_api_server().unwrap();
    waiting.says("list or watch interrupted").await;
    control_plane.restart_api_server().await.unwrap();
    make_ready(&pods, leaders[1].metadata.name.as_deref().unwrap()).await;
    waiting.says("everything is ready").await;
    assert_eq!(waiting.ends().await.0, Some(0));
    operator.stop().await;
}
