//! The controller of ComputeDomains as a program: it is elected, forms a domain's objects, answers its probes, and ends in
//! order.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Stdio;
use std::time::Duration;

use coppice_apiserver::{ApiServer, Tls};
use coppice_domains::api::{ComputeDomain, crd, names};
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::PostParams;
use kube::runtime::wait::await_condition;
use kube::{Api, Client};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::process::Command;

/// Only to end a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn the_controller_is_elected_works_and_releases_its_lease() {
    let server = ApiServer::builder().build();
    let client = Client::new(server.service(), "default");
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in crd::all() {
        let definition = serde_json::from_value(definition).unwrap();
        definitions.create(&PostParams::default(), &definition).await.unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let serving = server.serve(listener, Tls::Off).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, serving.kubeconfig()).unwrap();
    // By the name that NVIDIA's manifests use.
    let program = directory.path().join("compute-domain-controller");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_coppice"), &program).unwrap();
    let child = Command::new(&program)
        .args([
            "--driver-namespace=default",
            "--daemon-image=daemon:1",
            "--serve=127.0.0.1:0",
        ])
        .arg("--leader-election-namespace=default")
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .env_remove("RUST_LOG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let domains: Api<ComputeDomain> = Api::namespaced(client.clone(), "default");
    let spec = json!({"channel": {"resourceClaimTemplate": {"name": "imex-channel"}}});
    let domain = serde_json::from_value(json!({"metadata": {"name": "imex"}, "spec": spec})).unwrap();
    let uid = domains
        .create(&PostParams::default(), &domain)
        .await
        .unwrap()
        .metadata
        .uid
        .unwrap();
    let is_created = |domain: Option<&ComputeDomain>| {
        let status = domain.and_then(|domain| domain.status.as_ref());
        status.is_some_and(|status| status.conditions.iter().any(|condition| condition.reason == "Created"))
    };
    tokio::time::timeout(PATIENCE, await_condition(domains, "imex", is_created))
        .await
        .unwrap()
        .unwrap();
    let sets: Api<DaemonSet> = Api::namespaced(client.clone(), "default");
    let set = sets.get(&names::daemon_set(&uid)).await.unwrap();
    let containers = set.spec.template.spec.unwrap().containers;
    assert_eq!(containers[0].image.as_deref(), Some("daemon:1"));
    let leases: Api<Lease> = Api::namespaced(client, "default");
    let holder = async || {
        let lease = leases.get("compute-domain-controller").await.unwrap();
        lease.spec.and_then(|spec| spec.holder_identity).unwrap_or_default()
    };
    assert_ne!(holder().await, "");

    let asked = Command::new("kill")
        .arg(child.id().unwrap().to_string())
        .status()
        .await
        .unwrap();
    assert!(asked.success());
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    let log = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{log}");
    assert_eq!(holder().await, "", "{log}");
    serving.stop().await;
}

#[tokio::test]
async fn gates_that_exclude_each_other_are_refused() {
    let output = Command::new(env!("CARGO_BIN_EXE_coppice"))
        .args([
            "compute-domain-controller",
            "--daemon-image=i",
            "--feature-gates=IMEXDaemonsWithDNSNames=false",
        ])
        .output()
        .await
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(
        words.contains("ComputeDomainCliques requires IMEXDaemonsWithDNSNames"),
        "{words}"
    );
}

#[tokio::test]
async fn a_daemon_without_cdi_says_so_and_a_check_without_a_daemon_fails() {
    let daemon = |action: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_coppice"));
        command.args(["compute-domain-daemon", "-v", "4", action]).env_clear();
        command.env("POD_IP", "10.0.0.1").output()
    };
    let run = daemon("run").await.unwrap();
    let words = String::from_utf8_lossy(&run.stderr);
    assert_eq!(run.status.code(), Some(1));
    assert!(
        words.contains("COMPUTE_DOMAIN_UUID") && words.contains("CDI"),
        "{words}"
    );
    let check = daemon("check").await.unwrap();
    let words = String::from_utf8_lossy(&check.stderr);
    assert_eq!(check.status.code(), Some(1));
    assert!(words.contains("the daemon does not answer"), "{words}");
}
