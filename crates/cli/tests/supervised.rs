//! The real program ends, with a non-zero exit code and its lease released, when one of its essential tasks ends.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Stdio;
use std::time::Duration;

use coppice_apiserver::{ApiServer, Tls};
use coppice_crds::{InstallOptions, install};
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, Client};
use tokio::net::TcpListener;
use tokio::process::Command;

/// Only to end a test that hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory of certificates that cannot be watched ends the task that provides the certificate: every handshake would
/// fail from then on, so a process that lives on is of no use.
#[tokio::test]
async fn an_operator_whose_certificate_task_ends_exits_and_releases_its_lease() {
    let server = ApiServer::builder().build();
    let client = Client::new(server.service(), "default");
    install(client.clone(), &InstallOptions::default(), |_| {})
        .await
        .unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let serving = server.serve(listener, Tls::Off).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let (kubeconfig, config) = (
        directory.path().join("kubeconfig"),
        directory.path().join("config.yaml"),
    );
    std::fs::write(&kubeconfig, serving.kubeconfig()).unwrap();
    let text = "apiVersion: operator.config.grove.io/v1alpha1\n\
                kind: OperatorConfiguration\n\
                logFormat: text\n\
                leaderElection: {enabled: true, resourceNamespace: default, resourceName: operator}\n\
                server:\n\
                \x20 webhooks: {bindAddress: 127.0.0.1, port: 0, certProvisionMode: manual, serverCertDir: /nowhere}\n\
                \x20 healthProbes: {enable: true, bindAddress: 127.0.0.1, port: 0}\n\
                \x20 metrics: {bindAddress: 127.0.0.1, port: 0}\n";
    std::fs::write(&config, text).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_coppice"))
        .arg("operator")
        .arg("--config")
        .arg(&config)
        .arg("--kubeconfig")
        .arg(&kubeconfig)
        .env_remove("RUST_LOG")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let output = tokio::time::timeout(PATIENCE, child.wait_with_output())
        .await
        .unwrap_or_else(|_| panic!("the operator goes on without its certificate task"))
        .unwrap();
    let words = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.contains("webhook certificate"), "{words}");
    assert!(words.contains("/nowhere"), "{words}");
    let leases: Api<Lease> = Api::namespaced(client, "default");
    let holder = leases
        .get_opt("operator")
        .await
        .unwrap()
        .and_then(|lease| lease.spec?.holder_identity);
    assert!(
        holder.as_deref().unwrap_or_default().is_empty(),
        "the lease is still held by {holder:?}"
    );
    serving.stop().await;
}
