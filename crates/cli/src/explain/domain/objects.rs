//! The objects that a domain is explained from.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use coppice_runtime::layers;
use serde_json::Value;

use super::super::objects::list;
use crate::client::Cluster;
use crate::manifests;

/// What was read.
#[derive(Clone, Debug, Default)]
pub(crate) struct DomainObjects {
    pub(super) domains: Vec<Value>,
    pub(super) cliques: Vec<Value>,
    pub(super) templates: Vec<Value>,
    pub(super) daemon_sets: Vec<Value>,
    pub(super) pods: Vec<Value>,
    pub(super) claims: Vec<Value>,
    pub(super) slices: Vec<Value>,
    pub(super) nodes: Vec<Value>,
    pub(super) events: Vec<Value>,
}

impl DomainObjects {
    fn list_of(&mut self, kind: &str) -> Option<&mut Vec<Value>> {
        Some(match kind {
            "ComputeDomain" => &mut self.domains,
            "ComputeDomainClique" => &mut self.cliques,
            "ResourceClaimTemplate" => &mut self.templates,
            "DaemonSet" => &mut self.daemon_sets,
            "Pod" => &mut self.pods,
            "ResourceClaim" => &mut self.claims,
            "ResourceSlice" => &mut self.slices,
            "Node" => &mut self.nodes,
            "Event" => &mut self.events,
            _ => return None,
        })
    }

    /// From objects of any kind.
    pub(super) fn of(objects: impl IntoIterator<Item = Value>) -> Self {
        let mut all = Self::default();
        for object in objects {
            let kind = object["kind"].as_str().unwrap_or_default().to_owned();
            if let Some(list) = all.list_of(&kind) {
                list.push(object);
            }
        }
        all
    }

    /// From a file.
    pub(super) fn read(file: &Path) -> Result<Self> {
        let documents = manifests::read(&[PathBuf::from(file)])?.into_iter();
        let objects = documents.flat_map(|document| match document.object["items"].as_array() {
            Some(items) => items.clone(),
            None => vec![document.object],
        });
        Ok(Self::of(objects))
    }

    /// From a cluster. Returns the namespace of the kubeconfig's context as well.
    pub(super) async fn fetch(cluster: &Cluster) -> Result<(Self, String)> {
        let (client, namespace) = cluster.client_and_namespace(&layers::Options::default()).await?;
        let nvidia = "/apis/resource.nvidia.com/v1beta1";
        let Some(domains) = list(&client, &format!("{nvidia}/computedomains")).await? else {
            bail!("the cluster does not know ComputeDomains: install deploy/compute-domains/crds.json");
        };
        let read = async |path: &str| Ok::<_, anyhow::Error>(list(&client, path).await?.unwrap_or_default());
        let objects = Self {
            domains,
            cliques: read(&format!("{nvidia}/computedomaincliques")).await?,
            templates: read("/apis/resource.k8s.io/v1/resourceclaimtemplates").await?,
            daemon_sets: read("/apis/apps/v1/daemonsets").await?,
            pods: read("/api/v1/pods").await?,
            claims: read("/apis/resource.k8s.io/v1/resourceclaims").await?,
            slices: read("/apis/resource.k8s.io/v1/resourceslices").await?,
            nodes: read("/api/v1/nodes").await?,
            events: read("/api/v1/events").await?,
        };
        Ok((objects, namespace))
    }
}
