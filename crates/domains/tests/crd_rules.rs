//! The API server's own rules on cliques: no writer can store two rows with one index, or move a row to another index.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use coppice_apiserver::ApiServer;
use coppice_domains::api::{Clique, ComputeDomain, DaemonRow, crd};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};

async fn client() -> Client {
    let client = Client::new(ApiServer::builder().seed(1).build().service(), "default");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in crd::all() {
        let definition = serde_json::from_value(definition).unwrap();
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    client
}

fn row(node: &str, index: Option<i64>) -> DaemonRow {
    DaemonRow {
        node_name: node.into(),
        clique_id: "u.1".into(),
        index,
        ..DaemonRow::default()
    }
}

fn clique(rows: &[DaemonRow]) -> Clique {
    let mut clique = Clique {
        daemons: rows.to_vec(),
        ..Clique::default()
    };
    clique.metadata.name = Some("d.u.1".into());
    clique
}

fn message<T: std::fmt::Debug>(result: kube::Result<T>) -> String {
    match result {
        Err(kube::Error::Api(status)) => status.message,
        other => panic!("not refused: {other:?}"),
    }
}

#[tokio::test]
async fn indices_are_unique_bounded_and_fixed_whoever_writes() {
    let cliques: Api<Clique> = Api::default_namespaced(client().await);
    let post = PostParams::default();
    let duplicate = clique(&[row("a", Some(1)), row("b", Some(1))]);
    let refused = message(cliques.create(&post, &duplicate).await);
    assert!(refused.contains("two rows have the same index"), "{refused}");
    for bad in [-1, 256] {
        assert!(message(cliques.create(&post, &clique(&[row("a", Some(bad))])).await).contains("daemons[0].index"));
    }
    let mut stored = cliques
        .create(&post, &clique(&[row("a", Some(1)), row("b", Some(0)), row("c", None)]))
        .await
        .unwrap();
    stored.daemons[0].index = Some(2);
    assert!(message(cliques.replace("d.u.1", &post, &stored).await).contains("index of a node is fixed"));
    stored.daemons[0].index = None;
    assert!(message(cliques.replace("d.u.1", &post, &stored).await).contains("index of a node is fixed"));
    // A row without an index gets one; others may be removed, and come back elsewhere.
    stored.daemons[0].index = Some(1);
    stored.daemons[2].index = Some(2);
    let mut stored = cliques.replace("d.u.1", &post, &stored).await.unwrap();
    stored.daemons.remove(0);
    let mut stored = cliques.replace("d.u.1", &post, &stored).await.unwrap();
    stored.daemons.push(row("a", Some(5)));
    cliques.replace("d.u.1", &post, &stored).await.unwrap();
    // Server-side apply, for which concurrent writers see no conflict, is bound by the same rule.
    let apply = json!({"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomainClique",
        "metadata": {"name": "d.u.1"},
        "daemons": [{"nodeName": "z", "ipAddress": "10.0.0.1", "cliqueID": "u.1", "index": 5}]});
    let applied = cliques
        .patch("d.u.1", &PatchParams::apply("node-z"), &Patch::Apply(&apply))
        .await;
    assert!(message(applied).contains("two rows have the same index"));
}

#[tokio::test]
async fn objects_of_the_driver_are_accepted_and_specs_are_immutable() {
    let domains: Api<ComputeDomain> = Api::default_namespaced(client().await);
    let sample: ComputeDomain = serde_json::from_value(json!({
        "metadata": {"name": "imex-channel-injection"},
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "imex-channel-0"}}},
    }))
    .unwrap();
    let mut stored = domains.create(&PostParams::default(), &sample).await.unwrap();
    stored.spec.num_nodes = 2;
    let refused = domains
        .replace("imex-channel-injection", &PostParams::default(), &stored)
        .await;
    assert!(message(refused).contains("A computeDomain.spec is immutable"));
    let status: Value = json!({"status": {"status": "Ready", "nodes": [
        {"name": "a", "ipAddress": "10.0.0.1", "cliqueID": "", "index": -1, "status": "Ready"}]}});
    let patched = domains
        .patch_status(
            "imex-channel-injection",
            &PatchParams::default(),
            &Patch::Merge(&status),
        )
        .await;
    assert_eq!(patched.unwrap().status.unwrap().nodes[0].index, -1);
}
