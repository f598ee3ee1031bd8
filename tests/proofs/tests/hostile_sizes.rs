//! Sizes that nobody means, stored where no bound checks them (an older CRD): the operator's memory stays bounded by what
//! exists, another tenant's sets become and stay ready, and the hostile ones can be deleted. Alone in its binary, so that
//! nothing else counts.
#![allow(clippy::print_stdout, reason = "the log of a test run says how much was needed")]

use std::alloc::System;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use coppice_proofs::stage::{LONG, Stage, in_virtual_time};
use coppice_proofs::state::list;
use coppice_runtime::layers::{Call, Fault};
use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Bytes that may be live at any moment: of the operator, the API server and the simulated cluster together.
const LIMIT: usize = 256 << 20;

fn live() -> usize {
    let stats = ALLOCATOR.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

/// Watches the live bytes from a thread of its own, and ends the process when they pass the limit: a planner that
/// materialises two thousand million replicas never comes back to be asked.
struct Watch {
    most: Arc<AtomicUsize>,
    done: Arc<AtomicBool>,
}

impl Watch {
    fn start() -> Self {
        let (most, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
        let (seen, end) = (most.clone(), done.clone());
        std::thread::spawn(move || {
            while !end.load(Ordering::Relaxed) {
                let now = live();
                seen.fetch_max(now, Ordering::Relaxed);
                if now > LIMIT {
                    println!("{} MiB are live, the limit is {} MiB", now >> 20, LIMIT >> 20);
                    std::process::exit(101);
                }
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Self { most, done }
    }

    fn end(&self) -> usize {
        self.done.store(true, Ordering::Relaxed);
        self.most.load(Ordering::Relaxed)
    }
}

fn api(client: &Client, namespace: &str, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    if namespace.is_empty() {
        Api::all_with(client.clone(), &resource)
    } else {
        Api::namespaced_with(client.clone(), namespace, &resource)
    }
}

fn grove(client: &Client, namespace: &str, kind: &str) -> Api<DynamicObject> {
    api(client, namespace, "grove.io", "v1alpha1", kind)
}

/// CRDs as an operator without bounds installs them.
async fn without_bounds(client: &Client) {
    fn strip(value: &mut Value) {
        match value {
            Value::Object(fields) => {
                if fields.get("format") == Some(&json!("int32")) {
                    fields.remove("maximum");
                }
                fields.values_mut().for_each(strip);
            }
            Value::Array(items) => items.iter_mut().for_each(strip),
            _ => {}
        }
    }
    let definitions = api(client, "", "apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    for name in ["podcliquesets", "podcliques", "podcliquescalinggroups"] {
        let name = format!("{name}.grove.io");
        let mut definition = json!(definitions.get(&name).await.expect("installed"));
        strip(&mut definition["spec"]);
        let definition: DynamicObject = serde_json::from_value(definition).expect("an object");
        definitions
            .replace(&name, &PostParams::default(), &definition)
            .await
            .expect("replaced");
    }
}

fn set(name: &str, namespace: &str, pods: i32) -> DynamicObject {
    let clique = |name: &str, pods: i32| {
        json!({"name": name, "spec": {"roleName": name, "replicas": pods, "minAvailable": 1,
            "podSpec": {"containers": [{"name": "m", "image": "registry.example/m:1"}]}}})
    };
    serde_json::from_value(json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"replicas": 1, "template": {
            "cliques": [clique("a", pods), clique("b", 1)],
            "podCliqueScalingGroups": [{"name": "g", "cliqueNames": ["b"], "replicas": 1, "minAvailable": 1}],
        }},
    }))
    .expect("a set")
}

async fn create_set(client: &Client, name: &str, namespace: &str, pods: i32) {
    let sets = grove(client, namespace, "PodCliqueSet");
    let created = sets.create(&PostParams::default(), &set(name, namespace, pods)).await;
    created.expect("created");
}

async fn scale(client: &Client, namespace: &str, kind: &str, name: &str, replicas: i32) -> Result<(), kube::Error> {
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    let objects = grove(client, namespace, kind);
    objects
        .patch_scale(name, &PatchParams::default(), &patch)
        .await
        .map(drop)
}

async fn available(client: &Client, namespace: &str, name: &str) -> Value {
    let set = json!(grove(client, namespace, "PodCliqueSet").get(name).await.expect("a set"));
    set["status"]["availableReplicas"].clone()
}

async fn pods(client: &Client, namespace: &str) -> BTreeSet<String> {
    let pods = list(client, namespace, "", "v1", "Pod").await;
    let uid = |pod: &Value| pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
    pods.iter().map(uid).collect()
}

/// A pod of nobody that carries the labels of a replica of a set.
async fn stray_pod(client: &Client, name: &str, replica: u32) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "hostile", "labels": {
            "app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": "set",
            "grove.io/podcliqueset-replica-index": replica.to_string(), "grove.io/podclique": format!("set-{replica}-a"),
        }},
        "spec": {"containers": [{"name": "m", "image": "registry.example/m:1"}]},
    });
    let pod: DynamicObject = serde_json::from_value(pod).expect("a pod");
    let pods = api(client, "hostile", "", "v1", "Pod");
    pods.create(&PostParams::default(), &pod).await.expect("created");
}

const HOSTILE: [(&str, &str, &str); 3] = [
    ("set", "PodCliqueSet", "set"),
    ("clique", "PodClique", "clique-0-a"),
    ("group", "PodCliqueScalingGroup", "group-0-g"),
];

#[test]
fn no_number_exhausts_the_operator_or_harms_another_tenant() {
    let watch = Watch::start();
    in_virtual_time(async {
        let stage = Stage::start().await;
        let client = &stage.client;
        for namespace in ["peaceful", "hostile"] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
            let namespace = serde_json::from_value(namespace).expect("a namespace");
            let namespaces = api(client, "", "", "v1", "Namespace");
            namespaces
                .create(&PostParams::default(), &namespace)
                .await
                .expect("created");
        }
        let operator = stage.operator("operator", |_: &Call| Fault::Pass).await;
        create_set(client, "tenant", "peaceful", 2).await;
        for (name, _, _) in HOSTILE {
            create_set(client, name, "hostile", 1).await;
        }
        tokio::time::sleep(LONG).await;
        assert_eq!(available(client, "peaceful", "tenant").await, 1);
        let (peaceful, hostile) = (pods(client, "peaceful").await, pods(client, "hostile").await);
        assert_eq!((peaceful.len(), hostile.len()), (3, 6));

        for (_, kind, name) in HOSTILE {
            let refused = scale(client, "hostile", kind, name, i32::MAX).await;
            let refused = refused.expect_err("the CRD has a bound").to_string();
            assert!(refused.contains("should be less than or equal to"), "{kind}: {refused}");
        }
        without_bounds(client).await;
        for (_, kind, name) in HOSTILE {
            scale(client, "hostile", kind, name, i32::MAX).await.expect("no bound");
        }
        create_set(client, "template", "hostile", 100_000).await;
        for (number, replica) in [4_294_967_294, 1_000_000, 7].into_iter().enumerate() {
            stray_pod(client, &format!("stray-{number}"), replica).await;
        }
        tokio::time::sleep(LONG).await;
        create_set(client, "second", "peaceful", 1).await;
        tokio::time::sleep(LONG).await;
        assert_eq!(
            available(client, "peaceful", "second").await,
            1,
            "others are reconciled"
        );
        assert!(pods(client, "peaceful").await.is_superset(&peaceful), "and kept");
        let now = pods(client, "hostile").await;
        assert!(now.is_superset(&hostile), "what exists is kept");
        assert!(
            now.len() <= hostile.len() + 3 + 2,
            "and nothing but the strays was added: {}",
            now.len()
        );
        for name in ["set", "clique", "group", "template"] {
            let set = json!(grove(client, "hostile", "PodCliqueSet").get(name).await.expect("a set"));
            let errors = set["status"]["lastErrors"].to_string();
            assert!(errors.contains("ERR_TOO_LARGE"), "{name}: {errors}");
        }

        // A restart meets all of it at once.
        operator.abort();
        let operator = stage.operator("successor", |_: &Call| Fault::Pass).await;
        tokio::time::sleep(LONG).await;
        let audit = stage.audit.len();
        tokio::time::sleep(LONG).await;
        let writes = stage.audit.of("successor", audit);
        assert!(writes.is_empty(), "nothing is tried for ever: {:?}", writes.first());
        assert!(pods(client, "hostile").await.is_superset(&hostile));

        for name in ["set", "clique", "group", "template"] {
            let sets = grove(client, "hostile", "PodCliqueSet");
            sets.delete(name, &Default::default()).await.expect("deleted");
        }
        tokio::time::sleep(LONG).await;
        for kind in ["PodCliqueSet", "PodClique", "PodCliqueScalingGroup"] {
            let left = list(client, "hostile", "grove.io", "v1alpha1", kind).await;
            assert!(left.is_empty(), "{kind}: {}", left.len());
        }
        assert_eq!(
            pods(client, "hostile").await.len(),
            3,
            "pods of nobody are not ours to delete"
        );
        assert_eq!(available(client, "peaceful", "tenant").await, 1);
        operator.abort();
    });
    println!("{} MiB were live at most", watch.end() >> 20);
}
