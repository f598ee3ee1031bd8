//! Many replicas on a real kube-apiserver: what the operator writes, reconciles and computes from nothing to ready,
//! counted and held to its budget; and that it writes nothing afterwards. Kubelets and scheduler are clients of their
//! own and not counted. Needs `KUBEBUILDER_ASSETS`. A thousand pods and more, with times, are the business of `bench/`.
#![allow(clippy::print_stdout, reason = "the log of a test run shows what was counted")]

use std::time::Duration;

use coppice_cluster::profile::NodeProfile;
use coppice_cluster::{Controllers, SimulatedCluster};
use coppice_crds::{InstallOptions, install};
use coppice_harness::control_plane::{ControlPlane, Options as ControlPlaneOptions};
use coppice_operator::{Operator, Options};
use coppice_proofs::counted::{Requests, workload};
use coppice_proofs::story;
use coppice_runtime::layers;
use coppice_runtime::metrics::Metrics;
use futures::StreamExt;
use kube::api::{Api, DynamicObject};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::runtime::watcher;
use kube::{Client, Config};
use serde_json::{Value, json};

/// Replicas of two pods each, unless `COPPICE_COUNTED_REPLICAS` says otherwise.
const REPLICAS: u32 = 100;
/// The name of the threads on which the operator runs, by which their processor time is told from everybody else's.
const THREADS: &str = "operator-alone";
/// Nothing must happen for so long; an absence cannot be waited for otherwise.
const WINDOW: Duration = Duration::from_secs(3);
/// Long enough for a loaded machine.
const LIMIT: Duration = Duration::from_secs(300);

fn replicas() -> u32 {
    let asked = std::env::var("COPPICE_COUNTED_REPLICAS");
    asked.map_or(REPLICAS, |text| {
        text.parse().expect("COPPICE_COUNTED_REPLICAS is a number")
    })
}

/// Seconds of processor time of the operator's threads so far.
fn processor_seconds() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").expect("a Linux machine");
    let ticks: u64 = tasks
        .flatten()
        .filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok())
        .filter(|stat| stat.contains(&format!("({THREADS})")))
        .map(|stat| {
            let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
            let ticks = |at: usize| fields[at].parse::<u64>().unwrap_or(0);
            ticks(11) + ticks(12)
        })
        .sum();
    // Linux reports in hundredths of a second to programs, whatever its own clock.
    ticks as f64 / 100.0
}

async fn operator_client(control_plane: &ControlPlane, metrics: &Metrics) -> Client {
    let kubeconfig = Kubeconfig::read_from(control_plane.kubeconfig()).expect("a kubeconfig");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .expect("a usable kubeconfig");
    let options = layers::Options {
        metrics: metrics.clone(),
        ..layers::Options::default()
    };
    layers::client(config, &options).expect("a client")
}

/// Waits until every replica is available and the set says so. A workload that is stuck
/// fails with what the set says of itself.
async fn until_available(client: &Client) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("grove.io", "v1alpha1", "PodCliqueSet"));
    let sets: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
    let mut changes = watcher::watch_object(sets, "scale").boxed();
    let mut status = Value::Null;
    let available = async {
        while let Some(change) = changes.next().await {
            let Ok(Some(set)) = change else { continue };
            status = set.data["status"].clone();
            if status["availableReplicas"] == json!(replicas()) {
                return;
            }
        }
    };
    let in_time = tokio::time::timeout(LIMIT, available).await.is_ok();
    assert!(in_time, "not available after {LIMIT:?}: {status:#}");
}

#[test]
fn every_pod_costs_one_write() {
    let of_operator = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name(THREADS)
        .enable_all()
        .build()
        .expect("threads");
    let others = tokio::runtime::Runtime::new().expect("threads");
    others.block_on(async {
        let control_plane = ControlPlane::start(&ControlPlaneOptions::default())
            .await
            .expect("a control plane");
        let client = control_plane.client();
        install(client.clone(), &InstallOptions::default(), |_| {})
            .await
            .expect("the definitions fit");
        // Without the node lifecycle nobody would take away the taint with which a real API server creates every node.
        let controllers = Controllers {
            service_accounts: true,
            default_scheduler: true,
            node_lifecycle: true,
            ..Controllers::nodes_only()
        };
        let options = coppice_cluster::Options::default()
            .nodes(NodeProfile::Small, 50)
            .heartbeats(None)
            .controllers(controllers);
        let cluster = SimulatedCluster::start(client.clone(), options).await.expect("nodes");
        let metrics = Metrics::default();
        let of_client = operator_client(&control_plane, &metrics).await;
        let options = Options {
            metrics: metrics.clone(),
            ..Options::default()
        };
        let operator = of_operator
            .spawn(Operator::start(of_client, options))
            .await
            .expect("the operator starts");

        let before = processor_seconds();
        story::create(&client, &workload(replicas())).await;
        until_available(&client).await;
        operator.wait_idle().await;
        tokio::time::sleep(WINDOW).await;
        let (ready, spent) = (Requests::of(&metrics), processor_seconds() - before);
        let pods = u64::from(replicas()) * 2;
        println!(
            "{pods} pods in {} replicas, from nothing to ready:\n{ready}",
            replicas()
        );
        println!(
            "{:.2} writes for each pod in all",
            ready.writes(None) as f64 / pods as f64
        );
        for (resource, objects) in [
            ("pods", pods),
            ("podcliques", pods / 2),
            ("podgangmaps", pods / 2),
            ("podgangs", pods / 2),
            ("services", pods / 2),
        ] {
            println!(
                "{resource}: {:.2} writes each",
                ready.writes(Some(resource)) as f64 / objects as f64
            );
        }
        println!(
            "{:.3} s of processor time, {:.2} ms for each pod{}",
            spent,
            spent * 1000.0 / pods as f64,
            if cfg!(debug_assertions) {
                " (without optimisation)"
            } else {
                ""
            }
        );
        println!("{} requests answered 409", ready.conflicts());
        // On a busy machine the pods of a gang are scheduled further apart than a status waits for the next change.
        let statuses_of_a_gang = 2;
        ready
            .within_budget(u64::from(replicas()), statuses_of_a_gang)
            .expect("within the budget");

        tokio::time::sleep(WINDOW).await;
        let still = Requests::of(&metrics).since(&ready);
        assert_eq!(still.writes(None), 0, "written though nothing happened:\n{still}");
        let trigger = json!({"metadata": {"annotations": {"grove.io/reconcile-trigger": "1"}}});
        story::patch(&client, "PodCliqueSet", "scale", trigger).await;
        tokio::time::sleep(WINDOW).await;
        let quiet = Requests::of(&metrics).since(&ready);
        println!("after a trigger that changes nothing:\n{quiet}");
        assert!(quiet.reconciles > u64::from(replicas()), "the trigger was seen");
        assert_eq!(quiet.writes(None), 0, "{quiet}");
        of_operator.spawn(operator.stop()).await.expect("the operator stops");
        cluster.stop().await;
    });
    of_operator.shutdown_background();
}
