//! The requests the judge makes, and the pods they concern.
//!
//! Owns the projection of bound pods and the writes: what is gone or was changed by others is left to the watch.

use crate::controller::{Action, unless_changed};
use crate::kubelet::status::PodStatus;
use crate::node_view::{Node, Nodes};
use crate::tolerations::{Taint, Toleration};
use crate::view::{Metadata, Reduced};
use coppice_runtime::cache::{Interner, Kind, Meta, ObjectKey};
use coppice_runtime::clock::whole_second;
use coppice_runtime::write::{DeleteOptions, Patch, Precondition, WriteError, Writer};
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node as ApiNode;
use kube::Client;
use kube::api::Api;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) const MANAGER: &str = "coppice-node-lifecycle";

/// The pods that are bound to nodes.
pub(super) type BoundPods = Kind<Reduced<PodObject, BoundPod>>;

#[derive(Deserialize)]
pub(super) struct PodObject {
    metadata: Metadata,
    spec: SpecObject,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecObject {
    node_name: String,
    tolerations: Vec<Toleration>,
}

/// A bound pod as the judge sees it.
pub(super) struct BoundPod {
    pub(super) meta: Meta,
    pub(super) node: ObjectKey,
    pub(super) tolerations: Vec<Toleration>,
    pub(super) deleting: bool,
    pub(super) terminal: bool,
    pub(super) ready: bool,
}

impl BoundPod {
    pub(super) fn from_object(meta: &Meta, object: PodObject, names: &Interner) -> Self {
        Self {
            meta: meta.clone(),
            node: ObjectKey::new(names.intern(""), names.intern(&object.spec.node_name)),
            tolerations: object.spec.tolerations,
            deleting: object.metadata.is_deleting(),
            terminal: object.status.is_terminal(),
            ready: object.status.is_ready(),
        }
    }
}

/// What requests are made with.
#[derive(Clone)]
pub(super) struct Requests {
    pub(super) client: Client,
    pub(super) writer: Writer,
    pub(super) nodes: Nodes,
    pub(super) pods: BoundPods,
}

impl Requests {
    /// Changes the status of a node.
    pub(super) fn patch_node_status(&self, node: Arc<Node>, patch: Value) -> Action<()> {
        let Self { writer, nodes, .. } = self.clone();
        async move {
            let known = Precondition::uid(&node.meta);
            let answer = writer.patch_status(&nodes, &node.meta.key, &known, Patch::Strategic(patch));
            unless_changed(answer.await).map(drop)
        }
        .boxed()
    }

    /// Gives a node these taints.
    pub(super) fn taint(&self, node: Arc<Node>, taints: &[Taint]) -> Action<()> {
        let Self { writer, nodes, .. } = self.clone();
        let patch = Patch::Merge(json!({"spec": {"taints": taints}}));
        async move {
            // The whole list is replaced, so it must be the list that was read.
            let known = Precondition::version(&node.meta);
            unless_changed(writer.patch(&nodes, &node.meta.key, &known, patch).await).map(drop)
        }
        .boxed()
    }

    /// Changes the status of a pod.
    pub(super) fn patch_pod(&self, pod: Arc<BoundPod>, status: Value) -> Action<()> {
        let requests = self.clone();
        async move { requests.write_pod_status(&pod.meta, status).await }.boxed()
    }

    async fn write_pod_status(&self, pod: &Meta, status: Value) -> Result<(), WriteError> {
        let (known, patch) = (Precondition::uid(pod), Patch::Strategic(json!({"status": status})));
        let answer = self.writer.patch_status(&self.pods, &pod.key, &known, patch);
        unless_changed(answer.await).map(drop)
    }

    /// Notes why the pod goes, then deletes it.
    pub(super) fn disrupt(
        &self,
        pod: Arc<BoundPod>,
        reason: &'static str,
        message: &'static str,
        grace: Option<u32>,
        now: Timestamp,
    ) -> Action<()> {
        let requests = self.clone();
        async move {
            let mut status = json!({"conditions": [{
                "type": "DisruptionTarget", "status": "True", "reason": reason, "message": message,
                "lastTransitionTime": whole_second(now),
            }]});
            if grace == Some(0) {
                status["phase"] = json!("Failed");
            }
            if !pod.terminal {
                requests.write_pod_status(&pod.meta, status).await?;
            }
            let options = DeleteOptions {
                grace_seconds: grace,
                ..DeleteOptions::default()
            };
            unless_changed(requests.writer.delete(&requests.pods, &pod.meta, options).await).map(drop)
        }
        .boxed()
    }

    /// Removes a pod whose node is gone, after asking the API server whether it really is.
    pub(super) fn collect_orphan(&self, pod: Arc<BoundPod>, now: Timestamp) -> Action<()> {
        let nodes: Api<ApiNode> = Api::all(self.client.clone());
        let node = pod.node.name.clone();
        let message = "PodGC: node no longer exists";
        let removal = self.disrupt(pod, "DeletionByPodGC", message, Some(0), now);
        async move {
            match nodes.get_metadata_opt(&node).await? {
                Some(_) => Ok(()),
                None => removal.await,
            }
        }
        .boxed()
    }
}
