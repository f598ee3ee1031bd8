//! The command lines of the programs. Pure: ports, files and options in, arguments out.

use std::path::Path;

use super::Options;
use super::certificates::Certificates;

pub(super) fn etcd(data: &Path, client_port: u16, peer_port: u16, options: &Options) -> Vec<String> {
    let client = format!("http://127.0.0.1:{client_port}");
    let peer = format!("http://127.0.0.1:{peer_port}");
    let mut flags = vec![
        format!("--data-dir={}", data.join("etcd").display()),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        "--quota-backend-bytes=2147483648".to_owned(),
        "--snapshot-count=100000".to_owned(),
        "--log-level=warn".to_owned(),
    ];
    if !options.flush_to_disk {
        // The data need not outlive the test, so no write has to reach the disk before it is acknowledged.
        flags.push("--unsafe-no-fsync=true".to_owned());
    }
    flags
}

pub(super) fn api_server(
    data: &Path,
    certificates: &Certificates,
    etcd_port: u16,
    port: u16,
    options: &Options,
) -> Vec<String> {
    let mut flags = vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        "--bind-address=127.0.0.1".to_owned(),
        "--advertise-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", data.display()),
        format!("--tls-cert-file={}", certificates.serving_certificate_file.display()),
        format!("--tls-private-key-file={}", certificates.serving_key_file.display()),
        format!("--client-ca-file={}", certificates.authority_file.display()),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        format!(
            "--service-account-key-file={}",
            certificates.service_account_public_key_file.display()
        ),
        format!(
            "--service-account-signing-key-file={}",
            certificates.service_account_private_key_file.display()
        ),
        "--authorization-mode=RBAC".to_owned(),
        "--service-cluster-ip-range=10.0.0.0/16".to_owned(),
        "--allow-privileged=true".to_owned(),
        // The endpoints of the `kubernetes` service would be a loopback address, which the API itself refuses.
        "--endpoint-reconciler-type=none".to_owned(),
    ];
    if !options.controller_manager {
        // Only the controller manager creates the `default` service account of a namespace, and without one this
        // plugin refuses every pod.
        flags.push("--disable-admission-plugins=ServiceAccount".to_owned());
    }
    flags.extend(options.api_server_flags.iter().cloned());
    flags
}

pub(super) fn controller_manager(
    data: &Path,
    certificates: &Certificates,
    kubeconfig: &Path,
    port: u16,
    options: &Options,
) -> Vec<String> {
    let mut flags = follower(data, kubeconfig, port);
    flags.extend([
        format!(
            "--service-account-private-key-file={}",
            certificates.service_account_private_key_file.display()
        ),
        format!("--root-ca-file={}", certificates.authority_file.display()),
        // The default of 20 requests per second makes garbage collection the slowest part of every test.
        "--kube-api-qps=1000".to_owned(),
        "--kube-api-burst=2000".to_owned(),
    ]);
    flags.extend(options.controller_manager_flags.iter().cloned());
    flags
}

pub(super) fn scheduler(data: &Path, kubeconfig: &Path, port: u16, options: &Options) -> Vec<String> {
    let mut flags = follower(data, kubeconfig, port);
    flags.extend(["--kube-api-qps=1000".to_owned(), "--kube-api-burst=2000".to_owned()]);
    flags.extend(options.scheduler_flags.iter().cloned());
    flags
}

/// What the two programs that follow the API server have in common.
fn follower(data: &Path, kubeconfig: &Path, port: u16) -> Vec<String> {
    vec![
        format!("--kubeconfig={}", kubeconfig.display()),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--secure-port={port}"),
        format!("--cert-dir={}", data.display()),
        // One copy runs, so there is nobody to agree with, and a restart need not wait for a lease to expire.
        "--leader-elect=false".to_owned(),
    ]
}
