//! The objects an explanation is made from: listed from a cluster, or read from a file of them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use coppice_runtime::layers;
use coppice_scheduler::model::Objects;
use kube::Client;
use serde_json::Value;

use crate::client::Cluster;
use crate::manifests;
use crate::view::explain::Snapshot;

/// Objects per request: lists of large clusters come in parts.
const PAGE: u32 = 1_000;

/// Reads a file of objects: lists as kubectl prints them, or documents one after the other.
pub(super) fn read(file: &Path) -> Result<Snapshot> {
    let documents = manifests::read(&[PathBuf::from(file)])?;
    let mut snapshot = Snapshot {
        source: format!("snapshot {}", file.display()),
        ..Snapshot::default()
    };
    for document in documents {
        match document.object["items"].as_array() {
            Some(items) => items.iter().cloned().for_each(|item| snapshot.add(item)),
            None => snapshot.add(document.object),
        }
    }
    if snapshot.objects.nodes.is_empty() && snapshot.objects.pods.is_empty() && snapshot.objects.gangs.is_empty() {
        bail!(
            "{} has no nodes, pods or PodGangs: make it with kubectl get nodes,pods,podgangs,podcliquesets,\
             clustertopologybindings,poddisruptionbudgets,pvc,pv,storageclasses,csidrivers,csinodes,csistoragecapacities \
             -A -o yaml",
            file.display()
        );
    }
    Ok(snapshot)
}

/// Lists everything from a cluster. Returns the namespace of the kubeconfig's context as well.
pub(super) async fn fetch(cluster: &Cluster) -> Result<(Snapshot, String)> {
    let (client, namespace) = cluster.client_and_namespace(&layers::Options::default()).await?;
    let nodes = list(&client, "/api/v1/nodes").await?.unwrap_or_default();
    let pods = list(&client, "/api/v1/pods").await?.unwrap_or_default();
    let Some(gangs) = list(&client, "/apis/scheduler.grove.io/v1alpha1/podgangs").await? else {
        bail!("the cluster does not know PodGangs: install the CRDs with `coppice crds install`");
    };
    let group = "/apis/grove.io/v1alpha1";
    let storage = "/apis/storage.k8s.io/v1";
    let some = async |path: &str| anyhow::Ok(list(&client, path).await?.unwrap_or_default());
    let snapshot = Snapshot {
        objects: Objects {
            nodes,
            pods,
            gangs,
            topologies: some(&format!("{group}/clustertopologybindings")).await?,
            disruption_budgets: some("/apis/policy/v1/poddisruptionbudgets").await?,
            claims: some("/api/v1/persistentvolumeclaims").await?,
            volumes: some("/api/v1/persistentvolumes").await?,
            storage_classes: some(&format!("{storage}/storageclasses")).await?,
            storage_drivers: some(&format!("{storage}/csidrivers")).await?,
            node_drivers: some(&format!("{storage}/csinodes")).await?,
            storage_capacities: some(&format!("{storage}/csistoragecapacities")).await?,
        },
        sets: some(&format!("{group}/podcliquesets")).await?,
        source: "the cluster".to_owned(),
    };
    Ok((snapshot, namespace))
}

/// Every object of a collection; none if the cluster does not serve it.
pub(super) async fn list(client: &Client, path: &str) -> Result<Option<Vec<Value>>> {
    let mut items: Vec<Value> = Vec::new();
    let mut page = String::new();
    loop {
        let request = http_get(&format!("{path}?limit={PAGE}{page}"))?;
        let answer: Value = match client.request(request).await {
            Ok(answer) => answer,
            Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
            Err(kube::Error::Api(status)) => {
                bail!("the cluster refuses to list {path}: {}", status.message)
            }
            Err(error) => {
                return Err(error).context(
                    "the cluster cannot be reached: check --kubeconfig and --context, start an embedded one with \
                     `coppice up`, or give a --snapshot",
                );
            }
        };
        items.extend(answer["items"].as_array().into_iter().flatten().cloned());
        match answer["metadata"]["continue"].as_str() {
            Some(next) if !next.is_empty() => page = format!("&continue={}", urlencoded(next)),
            _ => return Ok(Some(items)),
        }
    }
}

fn http_get(path: &str) -> Result<http::Request<Vec<u8>>> {
    Ok(http::Request::get(path).body(Vec::new())?)
}

fn urlencoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}
