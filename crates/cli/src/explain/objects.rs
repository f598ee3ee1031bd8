//! The objects an explanation is made from: listed from a cluster, or read from a file of them.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use coppice_runtime::layers;
use coppice_scheduler::model::Objects;
use kube::Client;
use serde_json::Value;

use crate::client::Cluster;
use crate::manifests;

/// What was read.
#[derive(Debug, Clone, Default)]
pub(super) struct Snapshot {
    pub(super) objects: Objects,
    /// PodCliqueSets: only their names matter here.
    pub(super) sets: Vec<Value>,
    /// Where it came from, for messages.
    pub(super) source: String,
}

/// Objects per request: lists of large clusters come in parts.
const PAGE: u32 = 1_000;

impl Snapshot {
    /// Reads a file of objects: lists as kubectl prints them, or documents one after the other.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let documents = manifests::read(&[PathBuf::from(file)])?;
        let mut snapshot = Self {
            source: format!("snapshot {}", file.display()),
            ..Self::default()
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

    fn add(&mut self, mut object: Value) {
        // Objects written by hand have no identity yet.
        let name = object["metadata"]["name"].clone();
        for (field, value) in [("uid", name), ("resourceVersion", Value::from("1"))] {
            if object["metadata"].is_object() && object["metadata"][field].is_null() {
                object["metadata"][field] = value;
            }
        }
        let list = match object["kind"].as_str().unwrap_or_default() {
            "Node" => &mut self.objects.nodes,
            "Pod" => &mut self.objects.pods,
            "PodGang" => &mut self.objects.gangs,
            "ClusterTopologyBinding" => &mut self.objects.topologies,
            "PodDisruptionBudget" => &mut self.objects.disruption_budgets,
            "PersistentVolumeClaim" => &mut self.objects.claims,
            "PersistentVolume" => &mut self.objects.volumes,
            "StorageClass" => &mut self.objects.storage_classes,
            "CSIDriver" => &mut self.objects.storage_drivers,
            "CSINode" => &mut self.objects.node_drivers,
            "CSIStorageCapacity" => &mut self.objects.storage_capacities,
            "PodCliqueSet" => &mut self.sets,
            _ => return,
        };
        list.push(object);
    }

    /// Lists everything from a cluster. Returns the namespace of the kubeconfig's context as well.
    pub(super) async fn fetch(cluster: &Cluster) -> Result<(Self, String)> {
        let (client, namespace) = cluster.client_and_namespace(&layers::Options::default()).await?;
        let nodes = list(&client, "/api/v1/nodes").await?.unwrap_or_default();
        let pods = list(&client, "/api/v1/pods").await?.unwrap_or_default();
        let Some(gangs) = list(&client, "/apis/scheduler.grove.io/v1alpha1/podgangs").await? else {
            bail!("the cluster does not know PodGangs: install the CRDs with `coppice crds install`");
        };
        let group = "/apis/grove.io/v1alpha1";
        let storage = "/apis/storage.k8s.io/v1";
        let some = async |path: &str| anyhow::Ok(list(&client, path).await?.unwrap_or_default());
        let snapshot = Self {
            objects: Objects {
                nodes,
                pods,
                gangs,
                topologies: list(&client, &format!("{group}/clustertopologybindings"))
                    .await?
                    .unwrap_or_default(),
                disruption_budgets: some("/apis/policy/v1/poddisruptionbudgets").await?,
                claims: some("/api/v1/persistentvolumeclaims").await?,
                volumes: some("/api/v1/persistentvolumes").await?,
                storage_classes: some(&format!("{storage}/storageclasses")).await?,
                storage_drivers: some(&format!("{storage}/csidrivers")).await?,
                node_drivers: some(&format!("{storage}/csinodes")).await?,
                storage_capacities: some(&format!("{storage}/csistoragecapacities")).await?,
            },
            sets: list(&client, &format!("{group}/podcliquesets"))
                .await?
                .unwrap_or_default(),
            source: "the cluster".to_owned(),
        };
        Ok((snapshot, namespace))
    }
}

/// Every object of a collection; none if the cluster does not serve it.
async fn list(client: &Client, path: &str) -> Result<Option<Vec<Value>>> {
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
