//! On a real kube-apiserver: every state in which another version leaves a set is taken over without deleting a pod, and
//! what is there afterwards is what an operator of alpha.13 expects. Needs `KUBEBUILDER_ASSETS`. Histories and sizes of all
//! kinds are the business of `adoption`, in virtual time.

use std::collections::BTreeSet;
use std::time::Duration;

use coppice_cluster::profile::NodeProfile;
use coppice_cluster::{Controllers, SimulatedCluster};
use coppice_crds::{InstallOptions, install};
use coppice_harness::control_plane::{ControlPlane, Options as ControlPlaneOptions};
use coppice_operator::{Operator, Options};
use coppice_proofs::legacy::{Gangs, Left, Scene, leave};
use coppice_proofs::{alpha13, state, story};
use futures::stream::select_all;
use futures::{Stream, StreamExt};
use kube::Client;
use kube::api::{Api, DynamicObject};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher::{self, watcher};

/// Long enough for a loaded machine.
const LIMIT: Duration = Duration::from_secs(300);
const NODE: &str = "node-00000";

/// Something happened to an object of a set.
fn changes(client: &Client) -> impl Stream<Item = ()> + Unpin {
    let kinds = [
        ("", "v1", "Pod"),
        ("", "v1", "Secret"),
        ("rbac.authorization.k8s.io", "v1", "Role"),
        ("rbac.authorization.k8s.io", "v1", "RoleBinding"),
        ("apps", "v1", "ControllerRevision"),
        ("grove.io", "v1alpha1", "PodCliqueSet"),
        ("grove.io", "v1alpha1", "PodClique"),
        ("grove.io", "v1alpha1", "PodGangMap"),
        ("scheduler.grove.io", "v1alpha1", "PodGang"),
    ];
    select_all(kinds.map(|(group, version, kind)| {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
        watcher(api, watcher::Config::default()).map(|_| ()).boxed()
    }))
}

/// Waits until there is nothing left to object to.
async fn until<F: Future<Output = Vec<String>>>(client: &Client, what: &str, objections: impl Fn() -> F) {
    let mut changes = changes(client);
    let mut left = Vec::new();
    let settled = async {
        while changes.next().await.is_some() {
            left = objections().await;
            if left.is_empty() {
                return;
            }
        }
    };
    let in_time = tokio::time::timeout(LIMIT, settled).await.is_ok();
    let sets = state::list(client, "default", "grove.io", "v1alpha1", "PodCliqueSet").await;
    let said: Vec<&serde_json::Value> = sets.iter().map(|set| &set["status"]).collect();
    assert!(in_time, "{what}: {left:#?}, the set says {said:#?}");
}

async fn pods(client: &Client) -> BTreeSet<String> {
    let pods = state::list(client, "default", "", "v1", "Pod").await;
    pods.iter().map(|pod| pod["metadata"]["uid"].to_string()).collect()
}

async fn pods_that_do_not_run(client: &Client, expected: usize) -> Vec<String> {
    let pods = state::list(client, "default", "", "v1", "Pod").await;
    let running = pods.iter().filter(|pod| pod["status"]["phase"] == "Running").count();
    if running == expected && pods.len() == expected {
        return Vec::new();
    }
    vec![format!("{running} of {} pods run, {expected} are expected", pods.len())]
}

/// What is left to do, alpha.13's expectations and the conditions of the set included.
async fn unsettled(client: &Client) -> Vec<String> {
    let mut found = alpha13::objections(client).await;
    for set in state::list(client, "default", "grove.io", "v1alpha1", "PodCliqueSet").await {
        let conditions = set["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let migrating = |condition: &serde_json::Value| condition["type"] == "PodGangMigrationInProgress";
        let ready = |condition: &serde_json::Value| condition["type"] == "Ready" && condition["status"] == "True";
        if conditions.iter().any(migrating) || !conditions.iter().any(ready) {
            found.push(format!("the set says {conditions:?}"));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn every_state_is_taken_over_and_no_pod_is_deleted() {
    let options = ControlPlaneOptions {
        controller_manager: true,
        scheduler: true,
        ..ControlPlaneOptions::default()
    };
    let control_plane = ControlPlane::start(&options).await.expect("a control plane");
    let client = control_plane.client();
    install(client.clone(), &InstallOptions::default(), |_| {})
        .await
        .expect("the definitions fit");
    let options = coppice_cluster::Options::default()
        .nodes(NodeProfile::Small, 4)
        .controllers(Controllers::nodes_only());
    let _cluster = SimulatedCluster::start(client.clone(), options).await.expect("nodes");
    for gangs in [Gangs::ByName, Gangs::ByEpoch, Gangs::HalfMigrated] {
        for (front, copies) in [(2, 2), (3, 4), (0, 0)] {
            let scene = Scene {
                front,
                copies,
                ..Scene::new(Left::AtRest, gangs)
            };
            leave(&client, scene, NODE).await;
            let expected = front + 3 * copies;
            until(&client, "pods of the other operator", || {
                pods_that_do_not_run(&client, expected)
            })
            .await;
            let before = pods(&client).await;
            let operator = Operator::start(client.clone(), Options::default()).await;
            until(&client, &format!("{scene:?}"), || unsettled(&client)).await;
            assert_eq!(pods(&client).await, before, "{scene:?}");
            // The next change is carried out, and what runs stays.
            let size = serde_json::json!({"spec": {"replicas": copies + 1}});
            story::patch(&client, "PodCliqueScalingGroup", "web-0-pair", size).await;
            until(&client, "a further copy", || pods_that_do_not_run(&client, expected + 3)).await;
            assert!(pods(&client).await.is_superset(&before), "{scene:?}");
            story::delete(&client, "PodCliqueSet", "web").await;
            until(&client, "everything goes", || async {
                state::read(&client, "default").await.into_keys().collect()
            })
            .await;
            operator.stop().await;
        }
    }
}
