//! Operator and scheduler work on the same gangs: each writes its own part of them, and neither is in the way of the other.
#![allow(clippy::print_stdout, reason = "the log of a test run shows what was counted")]

use std::time::Duration;

use coppice_operator::{Operator, Options};
use coppice_proofs::counted::Requests;
use coppice_proofs::stage::{LONG, Stage, in_virtual_time};
use coppice_proofs::{state, story};
use coppice_runtime::layers::{Call, Fault};
use coppice_runtime::metrics::Metrics;
use coppice_scheduler::{Options as SchedulerOptions, Scheduler};
use serde_json::{Value, json};

/// Replicas with a standalone clique and a scaling group of which one copy is above the minimum.
fn workload(replicas: u32) -> Value {
    let pod = json!({"schedulerName": "coppice", "containers": [{"name": "main", "image": "main:1",
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}}]});
    let clique = |name: &str| json!({"name": name, "spec": {"roleName": name, "replicas": 2, "minAvailable": 2, "podSpec": pod}});
    json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet", "metadata": {"name": "both", "namespace": "default"},
        "spec": {"replicas": replicas, "template": {
            "terminationDelay": "4h",
            "cliques": [clique("router"), clique("worker")],
            "podCliqueScalingGroups": [{"name": "group", "cliqueNames": ["worker"], "replicas": 2, "minAvailable": 1}],
        }},
    })
}

/// Requests take a while, not always the same: so the writes of both overlap.
fn latency(call: &Call, milliseconds: u64) -> Fault {
    let reads = ["get", "list", "watch"].contains(&call.verb.as_str());
    if reads || milliseconds == 0 {
        return Fault::Pass;
    }
    let jitter = call.number * 7 % (milliseconds + 1);
    Fault::Delay(Duration::from_millis(milliseconds + jitter), Box::new(Fault::Pass))
}

#[test]
fn an_undisturbed_run_of_both_has_no_conflict() {
    for latencies in [
        (0, 0),
        (2, 2),
        (5, 40),
        (40, 5),
        (30, 30),
        (200, 200),
        (200, 20),
        (20, 200),
    ] {
        run(latencies);
    }
}

fn run(latencies: (u64, u64)) {
    const REPLICAS: u32 = 4;
    in_virtual_time(async {
        let stage = Stage::start().await;
        let (of_operator, of_scheduler) = (Metrics::default(), Metrics::default());
        let operator = Operator::start(
            stage.counted_client("operator", of_operator.clone(), move |call: &Call| {
                latency(call, latencies.0)
            }),
            Options {
                metrics: of_operator.clone(),
                ..stage.options()
            },
        )
        .await;
        let scheduler = Scheduler::start(
            stage.counted_client("scheduler", of_scheduler.clone(), move |call: &Call| {
                latency(call, latencies.1)
            }),
            SchedulerOptions {
                clock: stage.clock(),
                metrics: of_scheduler.clone(),
                ..SchedulerOptions::default()
            },
        )
        .await;
        story::create(&stage.client, &workload(REPLICAS)).await;
        tokio::time::sleep(LONG).await;
        let sets = state::list(&stage.client, "default", "grove.io", "v1alpha1", "PodCliqueSet").await;
        assert_eq!(
            sets[0]["status"]["availableReplicas"], REPLICAS,
            "{}",
            sets[0]["status"]
        );
        let gangs = state::list(&stage.client, "default", "scheduler.grove.io", "v1alpha1", "PodGang").await;
        assert_eq!(gangs.len(), 2 * REPLICAS as usize);
        for gang in &gangs {
            let conditions = gang["status"]["conditions"].as_array().cloned().unwrap_or_default();
            let mut kinds: Vec<&str> = conditions
                .iter()
                .filter_map(|condition| condition["type"].as_str())
                .collect();
            kinds.sort_unstable();
            assert_eq!(
                kinds,
                ["Initialized", "Placed", "Ready", "Scheduled"],
                "each once: {gang}"
            );
            let holds = conditions.iter().all(|condition| condition["status"] == "True");
            assert!(holds && gang["status"]["phase"] == "Running", "{}", gang["status"]);
            assert_eq!(gang["status"]["placementScore"], 1.0, "{}", gang["status"]);
        }
        let (operator_asked, scheduler_asked) = (Requests::of(&of_operator), Requests::of(&of_scheduler));
        println!("latencies {latencies:?} ms; operator:\n{operator_asked}\nscheduler:\n{scheduler_asked}");
        assert_eq!(operator_asked.failures(), 0, "{latencies:?} operator\n{operator_asked}");
        assert_eq!(
            scheduler_asked.failures(),
            0,
            "{latencies:?} scheduler\n{scheduler_asked}"
        );
        scheduler.stop().await;
        operator.stop().await;
    });
}
