//! What the hostile tenant writes. Everything is in its own namespace, with rights that every tenant has.

use std::net::SocketAddr;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::{Namespace, Pod};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::wait::{await_condition, conditions};
use kube::{Client, ResourceExt as _};
use serde_json::{Map, Value, json};
use tokio::net::{TcpSocket, TcpStream};

use crate::programs::PATIENCE;
use crate::tenant::{Tenant, resource, set};

/// Connections that are opened and never used: more than the webhook server has places.
const CONNECTIONS: usize = 600;

/// A set whose pods fit no node: taking all the room there is would be the business of a quota.
fn homeless(name: &str) -> Value {
    let mut set = set(name);
    for clique in set["spec"]["template"]["cliques"].as_array_mut().unwrap() {
        clique["spec"]["podSpec"]["nodeSelector"] = json!({"tenant": "hostile"});
    }
    set
}

pub(crate) struct Attacker {
    client: Client,
    namespace: String,
}

impl Attacker {
    pub(crate) async fn new(client: &Client, namespace: &str) -> Self {
        Tenant::new(client, namespace).await;
        Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
        }
    }

    fn objects(&self, group: &str, kind: &str) -> Api<DynamicObject> {
        let resource = resource(group, "v1alpha1", kind);
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    async fn create(&self, group: &str, kind: &str, object: Value) {
        let object = serde_json::from_value(object).unwrap();
        let created = self.objects(group, kind).create(&PostParams::default(), &object).await;
        created.unwrap_or_else(|error| panic!("{kind} {}: {error}", object.name_any()));
    }

    async fn create_pods(&self, pods: impl IntoIterator<Item = Value>) {
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        for pod in pods {
            let pod: Pod = serde_json::from_value(pod).unwrap();
            let created = api.create(&PostParams::default(), &pod).await;
            created.unwrap_or_else(|error| panic!("pod {}: {error}", pod.name_any()));
        }
    }

    /// The API server refuses numbers that no cluster could hold, also through `/scale`.
    pub(crate) async fn sizes_beyond_the_bounds_are_refused(&self) {
        self.create("grove.io", "PodCliqueSet", homeless("large")).await;
        self.wait_for_children("large").await;
        for (kind, name) in [
            ("PodCliqueSet", "large"),
            ("PodClique", "large-0-router"),
            ("PodCliqueScalingGroup", "large-0-pair"),
        ] {
            let error = self.scale(kind, name, i32::MAX).await.unwrap_err();
            assert!(error.to_string().contains("spec.replicas"), "{kind}: {error}");
        }
    }

    async fn wait_for_children(&self, name: &str) {
        for (kind, child) in [("PodClique", "router"), ("PodCliqueScalingGroup", "pair")] {
            let exists = |object: Option<&DynamicObject>| object.is_some();
            let child = format!("{name}-0-{child}");
            let waiting = await_condition(self.objects("grove.io", kind), &child, exists);
            tokio::time::timeout(PATIENCE, waiting).await.unwrap().unwrap();
        }
    }

    async fn scale(&self, kind: &str, name: &str, replicas: i32) -> kube::Result<()> {
        let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let objects = self.objects("grove.io", kind);
        objects
            .patch_scale(name, &PatchParams::default(), &patch)
            .await
            .map(drop)
    }

    /// Opens connections and says nothing.
    pub(crate) async fn hold_connections(&self, server: SocketAddr) -> Vec<TcpStream> {
        let opening = (0..CONNECTIONS).map(|_| async move {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(([127, 0, 0, 3], 0).into()).unwrap();
            // A server that refuses some of them does right.
            socket.connect(server).await.ok()
        });
        let opened: Vec<_> = futures::stream::iter(opening).buffer_unordered(64).collect().await;
        opened.into_iter().flatten().collect()
    }

    pub(crate) async fn write_everything(&self) {
        self.create_pods((0..4).map(|index| self.pod_with_many_resources(index)))
            .await;
        self.create_pods((0..100).map(|index| self.pod_with_many_terms(index)))
            .await;
        self.create_pods([self.stray_pod("stray", u32::MAX - 1), self.stray_pod("other", 7)])
            .await;
        self.create("scheduler.grove.io", "PodGang", self.gang_of_many_groups())
            .await;
        self.create("scheduler.grove.io", "PodGang", self.gang_that_claims_priority())
            .await;
        self.create_pods((0..40).map(|index| self.pod_of_claimed_priority(index)))
            .await;
        self.lie_in_statuses().await;
    }

    /// More names than fit a small number, together with those of its kind.
    fn pod_with_many_resources(&self, index: usize) -> Value {
        let names: Map<String, Value> = (0..17_000)
            .map(|number| (format!("x.test/{index}-{number}"), json!("1")))
            .collect();
        json!({"metadata": {"name": format!("resources-{index}")}, "spec": {"schedulerName": "coppice",
            "containers": [{"name": "main", "image": "x", "resources": {"requests": names, "limits": names}}]}})
    }

    fn pod_with_many_terms(&self, index: usize) -> Value {
        let terms: Vec<Value> = (0..500)
            .map(|term| {
                json!({"matchExpressions": [
                    {"key": format!("key-{index}-{term}"), "operator": "In", "values": ["a".repeat(63), "b".repeat(63)]}]})
            })
            .collect();
        let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": terms}}});
        json!({"metadata": {"name": format!("terms-{index}")}, "spec": {"schedulerName": "coppice",
            "affinity": affinity, "containers": [{"name": "main", "image": "x"}]}})
    }

    /// Says that it belongs to a replica of a set that never had one.
    fn stray_pod(&self, name: &str, replica: u32) -> Value {
        json!({"metadata": {"name": name, "labels": {
                "app.kubernetes.io/managed-by": "grove-operator",
                "app.kubernetes.io/part-of": "large",
                "grove.io/podcliqueset-replica-index": replica.to_string(),
                "grove.io/podclique": format!("large-{replica}-router"),
                "grove.io/podgang": "x".repeat(63)}},
            "spec": {"containers": [{"name": "main", "image": "x"}]}})
    }

    fn gang_of_many_groups(&self) -> Value {
        let groups: Vec<Value> = (0..3_000)
            .map(|index| {
                json!({"name": format!("group-{index}"), "minReplicas": i32::MAX, "podReferences": [
                    {"namespace": "models", "name": format!("pod-{index}")}]})
            })
            .collect();
        json!({"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "metadata": {"name": "groups"},
            "spec": {"podgroups": groups}})
    }

    /// The class is a claim; the pods have no priority.
    fn gang_that_claims_priority(&self) -> Value {
        json!({"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "metadata": {"name": "claims"},
            "spec": {"priorityClassName": "system-node-critical", "podgroups": [
                {"name": "claims-0-c", "minReplicas": 40, "podReferences": []}]}})
    }

    fn pod_of_claimed_priority(&self, index: usize) -> Value {
        json!({"metadata": {"name": format!("claims-{index}"), "labels": {
                "grove.io/podgang": "claims", "grove.io/podclique": "claims-0-c"}},
            "spec": {"schedulerName": "coppice", "containers": [
                {"name": "main", "image": "x", "resources": {"requests": {"cpu": "4"}}}]}})
    }

    async fn lie_in_statuses(&self) {
        let condition = |kind: &str, reason: &str| {
            json!({"type": kind, "status": "True", "reason": reason, "message": "x".repeat(30_000),
                "lastTransitionTime": "1970-01-01T00:00:00Z"})
        };
        let lies = json!({"replicas": i32::MAX, "readyReplicas": i32::MAX, "scheduledReplicas": -1,
            "updatedReplicas": i32::MAX, "observedGeneration": i64::MAX, "conditions": [
                condition("MinAvailableBreached", "InsufficientReadyPods"),
                condition("GangTerminationInProgress", "TerminationDelayExceeded")]});
        for (group, kind, name) in [
            ("grove.io", "PodCliqueSet", "large"),
            ("grove.io", "PodClique", "large-0-router"),
            ("grove.io", "PodCliqueScalingGroup", "large-0-pair"),
            ("scheduler.grove.io", "PodGang", "claims"),
        ] {
            let patch = Patch::Merge(json!({"status": lies}));
            // What the schema refuses is refused; the rest is for the programs to cope with.
            let _ = self
                .objects(group, kind)
                .patch_status(name, &PatchParams::default(), &patch)
                .await;
        }
    }

    /// From here on the definitions are those of another operator, without upper bounds.
    pub(crate) async fn lift_the_bounds(&self) {
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client.clone());
        for name in ["podcliquesets", "podcliques", "podcliquescalinggroups"] {
            let name = format!("{name}.grove.io");
            let definition = definitions.get(&name).await.unwrap();
            let mut definition = serde_json::to_value(definition).unwrap();
            remove_bounds(&mut definition);
            let definition = serde_json::from_value(definition).unwrap();
            let replaced = definitions.replace(&name, &PostParams::default(), &definition).await;
            replaced.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }

    pub(crate) async fn write_absurd_sizes(&self) {
        for name in ["sets", "groups", "cliques"] {
            self.create("grove.io", "PodCliqueSet", homeless(name)).await;
            self.wait_for_children(name).await;
        }
        self.scale("PodCliqueSet", "sets", i32::MAX).await.unwrap();
        self.scale("PodCliqueScalingGroup", "groups-0-pair", i32::MAX)
            .await
            .unwrap();
        self.scale("PodClique", "cliques-0-router", i32::MAX).await.unwrap();
    }

    /// Deletes its namespace with all that is in it, and waits until that is gone.
    pub(crate) async fn leave(self) {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let namespace = namespaces
            .delete(&self.namespace, &DeleteParams::default())
            .await
            .unwrap();
        let uid = namespace.left().unwrap().metadata.uid.unwrap();
        let gone = await_condition(namespaces, &self.namespace, conditions::is_deleted(&uid));
        if tokio::time::timeout(PATIENCE, gone).await.is_err() {
            panic!(
                "the namespace is still there, with {}",
                self.what_is_left().await.join("; ")
            );
        }
    }

    async fn what_is_left(&self) -> Vec<String> {
        let mut left = Vec::new();
        for (group, version, kind) in [
            ("", "v1", "Pod"),
            ("grove.io", "v1alpha1", "PodCliqueSet"),
            ("grove.io", "v1alpha1", "PodClique"),
            ("grove.io", "v1alpha1", "PodCliqueScalingGroup"),
            ("scheduler.grove.io", "v1alpha1", "PodGang"),
        ] {
            let resource = resource(group, version, kind);
            let objects: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &self.namespace, &resource);
            let found = objects.list(&ListParams::default()).await.unwrap().items;
            if let Some(first) = found.first() {
                left.push(format!("{} x {kind}, such as {:?}", found.len(), first.metadata));
            }
        }
        left
    }
}

fn remove_bounds(value: &mut Value) {
    match value {
        Value::Object(members) => {
            // A property may be called `maximum`; its value is not a number then.
            if members.get("maximum").is_some_and(Value::is_number) {
                members.remove("maximum");
            }
            members.values_mut().for_each(remove_bounds);
        }
        Value::Array(items) => items.iter_mut().for_each(remove_bounds),
        _ => {}
    }
}
