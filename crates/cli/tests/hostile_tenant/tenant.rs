//! A tenant who only wants to serve models.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::{Api, DynamicObject, ListParams, PostParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::runtime::wait::await_condition;
use kube::{Client, ResourceExt as _};
use serde_json::{Value, json};

use crate::programs::PATIENCE;

pub(crate) struct Tenant {
    client: Client,
    namespace: String,
}

pub(crate) fn resource(group: &str, version: &str, kind: &str) -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind))
}

/// A set of a router and a group of a leader with its worker.
pub(crate) fn set(name: &str) -> Value {
    let clique = |name: &str| {
        json!({"name": name, "spec": {"roleName": name, "replicas": 1, "minAvailable": 1, "podSpec": {
            "containers": [{"name": "main", "image": "model", "resources": {"requests": {"cpu": "100m"}}}]}}})
    };
    json!({"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": name}, "spec": {
        "replicas": 1, "template": {
            "cliques": [clique("router"), clique("leader"), clique("worker")],
            "podCliqueScalingGroups": [{"name": "pair", "cliqueNames": ["leader", "worker"], "replicas": 1, "minAvailable": 1}]}}})
}

impl Tenant {
    pub(crate) async fn new(client: &Client, namespace: &str) -> Self {
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let object = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
        namespaces.create(&PostParams::default(), &object).await.unwrap();
        Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
        }
    }

    pub(crate) async fn create_set(&self, name: &str) {
        let sets = resource("grove.io", "v1alpha1", "PodCliqueSet");
        let sets: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &sets);
        let set = serde_json::from_value(set(name)).unwrap();
        sets.create(&PostParams::default(), &set).await.unwrap();
    }

    /// Waits until the set is available; returns the UIDs of its pods.
    pub(crate) async fn ready_pods(&self, set: &str) -> BTreeSet<String> {
        let sets = resource("grove.io", "v1alpha1", "PodCliqueSet");
        let sets: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &sets);
        let available =
            |set: Option<&DynamicObject>| set.is_some_and(|set| set.data["status"]["availableReplicas"] == 1);
        let waiting = await_condition(sets, set, available);
        let waited = tokio::time::timeout(PATIENCE, waiting).await;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        let selector = format!("app.kubernetes.io/part-of={set}");
        let pods = pods.list(&ListParams::default().labels(&selector)).await.unwrap();
        assert!(
            matches!(waited, Ok(Ok(_))),
            "{}/{set} is not available; its pods: {:?}",
            self.namespace,
            pods.items
                .iter()
                .map(|pod| (pod.name_any(), &pod.status))
                .collect::<Vec<_>>()
        );
        assert_eq!(pods.items.len(), 3);
        pods.items.into_iter().filter_map(|pod| pod.metadata.uid).collect()
    }
}
