//! Sets with many replicas on an API server that takes its time: what users wait for comes first, and what is deleted goes
//! with as few requests as it has objects, one replica after the other.
#![allow(clippy::print_stdout, reason = "the log of a test run shows what was counted")]

use std::collections::BTreeMap;
use std::time::Duration;

use coppice_proofs::audit::Entry;
use coppice_proofs::stage::{LONG, Stage, in_virtual_time};
use coppice_proofs::{state, story};
use coppice_runtime::layers::{Call, Fault};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

/// How long each write of the operator takes.
const LATENCY: Duration = Duration::from_millis(20);

fn slow_writes(call: &Call) -> Fault {
    if ["get", "list", "watch"].contains(&call.verb.as_str()) {
        return Fault::Pass;
    }
    Fault::Delay(LATENCY, Box::new(Fault::Pass))
}

fn clique(name: &str, replicas: u32) -> Value {
    json!({"name": name, "spec": {"roleName": name, "replicas": replicas, "minAvailable": replicas, "podSpec": {
        "containers": [{"name": "main", "image": "main:1", "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]}}})
}

fn set(name: &str, replicas: u32, template: Value) -> Value {
    let mut template = template;
    template["headlessServiceConfig"] = json!({"publishNotReadyAddresses": true});
    template["terminationDelay"] = "4h".into();
    json!({"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": name, "namespace": "default"},
           "spec": {"replicas": replicas, "template": template}})
}

async fn cordon(stage: &Stage, nodes: u32, cordoned: bool) {
    let api: Api<Node> = Api::all(stage.client.clone());
    for node in 0..nodes {
        let patch = Patch::Merge(json!({"spec": {"unschedulable": cordoned}}));
        let name = format!("node-{node:05}");
        api.patch(&name, &PatchParams::default(), &patch).await.expect("a node");
    }
}

fn is_ready(entry: &Entry) -> bool {
    let conditions = entry.answer["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    entry.call.resource == "pods" && conditions.any(|found| found["type"] == "Ready" && found["status"] == "True")
}

#[test]
fn a_set_says_that_it_is_available_soon_after_its_last_pod_is_ready_whatever_else_is_to_be_written() {
    const REPLICAS: u32 = 500;
    const NODES: u32 = 6;
    in_virtual_time(async {
        let stage = Stage::with_nodes(NODES).await;
        cordon(&stage, NODES, true).await;
        let operator = stage.operator("operator", slow_writes).await;
        let template = json!({"cliques": [clique("worker", 1)]});
        story::create(&stage.client, &set("many", REPLICAS, template)).await;
        tokio::time::sleep(LONG).await;
        let since = stage.audit.len();
        // All pods get their nodes, and become ready, at nearly the same time: statuses of everything are due at once.
        cordon(&stage, NODES, false).await;
        tokio::time::sleep(LONG).await;
        let all = stage.audit.of("", since);
        let last_ready = all.iter().filter(|entry| is_ready(entry)).map(|entry| entry.at).max();
        let last_ready = last_ready.expect("pods became ready");
        let says = |entry: &&Entry| {
            entry.call.resource == "podcliquesets" && entry.answer["status"]["availableReplicas"] == REPLICAS
        };
        let said = all.iter().find(says).expect("the set is available").at;
        let latencies = said.duration_since(last_ready).as_secs_f64() / LATENCY.as_secs_f64();
        let mut writes: BTreeMap<String, usize> = BTreeMap::new();
        for entry in all.iter().filter(|entry| entry.who == "operator" && entry.succeeded()) {
            *writes.entry(entry.what()).or_default() += 1;
        }
        println!("available {latencies:.1} writes after the last pod was ready; {writes:?}");
        assert!(
            latencies <= 12.0,
            "{latencies:.1} writes after the last pod was ready; {writes:?}"
        );
        let most = |what: &str| writes.get(what).copied().unwrap_or(0);
        assert!(most("patch podcliques/status") <= 2 * REPLICAS as usize, "{writes:?}");
        assert!(most("patch podgangs/status") <= 2 * REPLICAS as usize, "{writes:?}");
        assert!(most("patch podcliquesets/status") <= 12, "{writes:?}");
        operator.stop().await;
    });
}

#[test]
fn a_deleted_set_costs_no_more_requests_than_it_has_objects_and_goes_one_replica_after_the_other() {
    const REPLICAS: u32 = 100;
    in_virtual_time(async {
        let stage = Stage::with_nodes(6).await;
        let operator = stage.operator("operator", slow_writes).await;
        let template = json!({
            "cliques": [clique("router", 1), clique("worker", 2)],
            "podCliqueScalingGroups": [{"name": "group", "cliqueNames": ["worker"], "replicas": 2, "minAvailable": 1}],
        });
        story::create(&stage.client, &set("many", REPLICAS, template)).await;
        tokio::time::sleep(LONG).await;
        let before = objects(&stage).await;
        let since = stage.audit.len();
        let begun = tokio::time::Instant::now();
        story::delete(&stage.client, "PodCliqueSet", "many").await;
        tokio::time::sleep(LONG).await;
        assert_eq!(objects(&stage).await, BTreeMap::new(), "nothing is left");
        let all = stage.audit.of("", since);
        let ours: Vec<&Entry> = all.iter().filter(|entry| entry.who == "operator").collect();
        assert!(ours.iter().all(|entry| entry.succeeded()), "no request is in vain");
        let objects: usize = before.values().sum();
        let mut writes: BTreeMap<String, usize> = BTreeMap::new();
        for entry in &ours {
            *writes.entry(entry.what()).or_default() += 1;
        }
        let deletes =
            |entry: &&Entry| entry.who == "cluster" && entry.call.verb == "delete" && entry.call.resource != "pods";
        let collected = all.iter().filter(deletes).count();
        println!(
            "{objects} objects {before:?}; {} requests {writes:?}; {collected} collected",
            ours.len()
        );
        assert!(
            ours.len() <= objects,
            "{} requests for {objects} objects: {writes:?}",
            ours.len()
        );
        // With those of the garbage collector, only what a finalizer held has cost a second request.
        let held = before["PodClique"] + before["PodCliqueScalingGroup"] + 1;
        assert!(
            ours.len() + collected <= objects + held,
            "{collected} objects were collected"
        );

        // The first replica is gone before a quarter of the pods was asked to go.
        let replica = |entry: &Entry| {
            entry
                .call
                .name
                .as_deref()
                .and_then(|name| name.split('-').nth(1)?.parse::<u32>().ok())
        };
        let let_go = |entry: &&&Entry| entry.call.resource == "podcliques" && entry.call.verb == "patch";
        let mut left: BTreeMap<u32, usize> = (0..REPLICAS).map(|index| (index, 3)).collect();
        let first_gone = ours.iter().filter(let_go).find(|entry| {
            let cliques = left.get_mut(&replica(entry).expect("an index")).expect("a replica");
            *cliques -= 1;
            *cliques == 0
        });
        let first_gone = first_gone.expect("replicas go").at;
        let asked = ours
            .iter()
            .filter(|entry| entry.call.resource == "pods" && entry.at <= first_gone)
            .count();
        assert!(
            asked * 4 <= before["Pod"],
            "{asked} of {} pods were asked to go",
            before["Pod"]
        );
        // The set does not wait for the last pod.
        let set_gone = ours
            .iter()
            .rfind(|entry| entry.call.resource == "podcliquesets")
            .expect("it goes")
            .at;
        let last = ours.iter().map(|entry| entry.at).max().expect("there are some");
        println!(
            "the set went after {:?}, the last write came after {:?}",
            set_gone - begun,
            last - begun
        );
        assert!(set_gone <= last);
        operator.stop().await;
    });
}

/// How many objects of a set there are, by kind.
async fn objects(stage: &Stage) -> BTreeMap<&'static str, usize> {
    let kinds = [
        ("grove.io", "v1alpha1", "PodCliqueSet"),
        ("grove.io", "v1alpha1", "PodCliqueScalingGroup"),
        ("grove.io", "v1alpha1", "PodClique"),
        ("grove.io", "v1alpha1", "PodGangMap"),
        ("scheduler.grove.io", "v1alpha1", "PodGang"),
        ("apps", "v1", "ControllerRevision"),
        ("", "v1", "Pod"),
    ];
    let mut found = BTreeMap::new();
    for (group, version, kind) in kinds {
        let count = state::list(&stage.client, "default", group, version, kind).await.len();
        if count > 0 {
            found.insert(kind, count);
        }
    }
    let services = state::list(&stage.client, "default", "", "v1", "Service").await;
    let ours = services
        .iter()
        .filter(|service| service["metadata"]["labels"]["app.kubernetes.io/part-of"] == "many");
    let count = ours.count();
    if count > 0 {
        found.insert("Service", count);
    }
    found
}
