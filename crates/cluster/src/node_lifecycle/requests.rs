//! The requests the judge makes, and the pods they concern.
//!
//! Owns the projection of bound pods and the writes: what is gone or was changed by others is left to the watch.

use crate::clock::whole_second;
use crate::engine::Action;
use crate::engine::requests::{Deletion, delete, is_conflict, is_not_found, patch_as, version_number};
use crate::kubelet::pod::PodKey;
use crate::kubelet::status::PodStatus;
use crate::node_view::{Node, NodeObject};
use crate::tolerations::{Taint, Toleration};
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::Client;
use kube::api::{Api, ObjectMeta, Patch};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

const MANAGER: &str = "coppice-node-lifecycle";

#[derive(Clone, Debug, Serialize, Deserialize, kube::Resource)]
#[resource(inherit = ApiPod)]
pub(super) struct PodObject {
    metadata: ObjectMeta,
    spec: SpecObject,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SpecObject {
    node_name: String,
    tolerations: Vec<Toleration>,
}

/// A bound pod as the judge sees it.
pub(super) struct BoundPod {
    pub(super) key: PodKey,
    pub(super) uid: String,
    pub(super) version: u64,
    pub(super) node: String,
    pub(super) tolerations: Vec<Toleration>,
    pub(super) deleting: bool,
    pub(super) terminal: bool,
    pub(super) ready: bool,
}

impl From<PodObject> for BoundPod {
    fn from(object: PodObject) -> Self {
        Self {
            key: PodKey::of(&object.metadata),
            version: version_number(object.metadata.resource_version.as_deref()),
            uid: object.metadata.uid.unwrap_or_default(),
            node: object.spec.node_name,
            tolerations: object.spec.tolerations,
            deleting: object.metadata.deletion_timestamp.is_some(),
            terminal: object.status.is_terminal(),
            ready: object.status.is_ready(),
        }
    }
}

/// What a request brought back.
pub(super) enum Outcome {
    Node(Box<Node>),
    Done,
}

/// A change of a node.
pub(super) enum NodePatch {
    Status(Value),
    Spec(Value),
}

/// The patch that gives a node these taints.
pub(super) fn taint_patch(node: &Node, taints: &[Taint]) -> Value {
    // The whole list is replaced, so it must be the list that was read.
    json!({
        "metadata": {"uid": node.uid, "resourceVersion": node.resource_version},
        "spec": {"taints": taints},
    })
}

/// Changes a node.
pub(super) fn patch_node(client: Client, name: String, patch: NodePatch) -> Action<Outcome> {
    async move {
        let nodes: Api<NodeObject> = Api::all(client);
        let answer = match &patch {
            NodePatch::Status(patch) => {
                nodes
                    .patch_status(&name, &patch_as(MANAGER), &Patch::Strategic(patch))
                    .await
            }
            NodePatch::Spec(patch) => nodes.patch(&name, &patch_as(MANAGER), &Patch::Merge(patch)).await,
        };
        match answer {
            Ok(object) => Ok(Outcome::Node(Box::new(Node::from_object(object)))),
            // Someone else was faster; what they wrote is on its way here.
            Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(Outcome::Done),
            Err(error) => Err(error),
        }
    }
    .boxed()
}

/// Changes the status of a pod.
pub(super) fn patch_pod(client: Client, pod: &BoundPod, status: Value) -> Action<Outcome> {
    let (key, uid) = (pod.key.clone(), pod.uid.clone());
    async move {
        write_pod_status(&client, &key, &uid, status).await?;
        Ok(Outcome::Done)
    }
    .boxed()
}

async fn write_pod_status(client: &Client, key: &PodKey, uid: &str, status: Value) -> Result<(), kube::Error> {
    let pods: Api<PodObject> = Api::namespaced(client.clone(), &key.namespace);
    let patch = json!({"metadata": {"uid": uid}, "status": status});
    match pods
        .patch_status(&key.name, &patch_as(MANAGER), &Patch::Strategic(&patch))
        .await
    {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Notes why the pod goes, then deletes it.
pub(super) fn disrupt(
    client: Client,
    pod: &BoundPod,
    reason: &'static str,
    message: &'static str,
    grace: Option<u32>,
    now: Timestamp,
) -> Action<Outcome> {
    let (key, uid, terminal) = (pod.key.clone(), pod.uid.clone(), pod.terminal);
    async move {
        let mut status = json!({"conditions": [{
            "type": "DisruptionTarget", "status": "True", "reason": reason, "message": message,
            "lastTransitionTime": whole_second(now),
        }]});
        if grace == Some(0) {
            status["phase"] = json!("Failed");
        }
        if !terminal {
            write_pod_status(&client, &key, &uid, status).await?;
        }
        let pods: Api<PodObject> = Api::namespaced(client, &key.namespace);
        delete(
            &pods,
            &key.name,
            Deletion {
                uid,
                grace,
                ..Deletion::default()
            },
        )
        .await?;
        Ok(Outcome::Done)
    }
    .boxed()
}

/// Removes a pod whose node is gone, after asking the API server whether it really is.
pub(super) fn collect_orphan(client: Client, pod: &BoundPod, now: Timestamp) -> Action<Outcome> {
    let node = pod.node.clone();
    let message = "PodGC: node no longer exists";
    let removal = disrupt(client.clone(), pod, "DeletionByPodGC", message, Some(0), now);
    async move {
        let nodes: Api<NodeObject> = Api::all(client);
        if nodes.get_metadata_opt(&node).await?.is_some() {
            return Ok(Outcome::Done);
        }
        removal.await
    }
    .boxed()
}
