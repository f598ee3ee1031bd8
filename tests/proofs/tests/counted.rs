//! The writes of a workload from nothing to ready, counted on the embedded control plane: what an object may cost, and
//! that nothing is written once all is done, nor after a trigger that changes nothing.
#![allow(clippy::print_stdout, reason = "the log of a test run shows what was counted")]

use coppice_operator::{Operator, Options};
use coppice_proofs::counted::{Requests, workload};
use coppice_proofs::stage::{LONG, Stage, in_virtual_time};
use coppice_proofs::{state, story};
use coppice_runtime::layers::{Call, Fault};
use coppice_runtime::metrics::Metrics;
use serde_json::json;

const REPLICAS: u32 = 25;

#[test]
fn every_object_is_written_as_rarely_as_possible() {
    in_virtual_time(async {
        let stage = Stage::start().await;
        let metrics = Metrics::default();
        let client = stage.counted_client("operator", metrics.clone(), |_: &Call| Fault::Pass);
        let options = Options {
            metrics: metrics.clone(),
            ..stage.options()
        };
        let operator = Operator::start(client, options).await;
        story::create(&stage.client, &workload(REPLICAS)).await;
        tokio::time::sleep(LONG).await;
        let sets = state::list(&stage.client, "default", "grove.io", "v1alpha1", "PodCliqueSet").await;
        assert_eq!(
            sets[0]["status"]["availableReplicas"], REPLICAS,
            "{}",
            sets[0]["status"]
        );
        let ready = Requests::of(&metrics);
        println!("{REPLICAS} replicas of 2 pods:\n{ready}");
        ready.within_budget(u64::from(REPLICAS), 1).expect("within the budget");

        let trigger = json!({"metadata": {"annotations": {"grove.io/reconcile-trigger": "1"}}});
        story::patch(&stage.client, "PodCliqueSet", "scale", trigger).await;
        tokio::time::sleep(LONG).await;
        let quiet = Requests::of(&metrics).since(&ready);
        println!("after a trigger that changes nothing:\n{quiet}");
        assert!(quiet.reconciles > u64::from(REPLICAS), "the trigger was seen");
        assert_eq!(quiet.writes(None), 0, "{quiet}");
        operator.stop().await;
    });
}
