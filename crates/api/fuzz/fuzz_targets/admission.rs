//! Arbitrary bytes into decode, default and validate: nothing may panic.
//!
//! The bytes are one or two JSON documents, one after the other: a new object, and the stored one that it replaces. Run
//! with `cargo fuzz run admission` in `crates/api`; the manifests of `corpus`, as JSON, are good seeds.

#![no_main]

use std::sync::LazyLock;

use coppice_api::admission::{
    Context, Outcome, QueueState, Schedulers, default_pod_clique_set, validate_cluster_topology_binding,
    validate_pod_clique_set,
};
use coppice_api::types::{ClusterTopologyBinding, ClusterTopologyBindingSpec, PodCliqueSet, TopologyLevel};
use libfuzzer_sys::fuzz_target;
use serde_json::Value;

static CONTEXT: LazyLock<Context> = LazyLock::new(|| {
    let level = |domain: &str| TopologyLevel {
        domain: domain.to_owned(),
        key: format!("example.com/{domain}"),
        ..TopologyLevel::default()
    };
    let topology = ClusterTopologyBindingSpec {
        levels: ["zone", "block", "rack", "host"].map(level).to_vec(),
        ..ClusterTopologyBindingSpec::default()
    };
    Context {
        schedulers: Schedulers::named(["default-scheduler", "kai-scheduler", "volcano", "lpx-scheduler"]),
        topology_aware_scheduling: true,
        auto_mnnvl: true,
        topologies: [("gb200".to_owned(), topology)].into(),
        volcano_queues: Some([("default".to_owned(), QueueState::Open)].into()),
    }
});

fn judge_set(new: Value, old: Option<Value>) -> serde_json::Result<Outcome> {
    let old: Option<PodCliqueSet> = old.map(serde_json::from_value).transpose()?;
    let mut new: PodCliqueSet = serde_json::from_value(new)?;
    default_pod_clique_set(&mut new, old.as_ref());
    Ok(validate_pod_clique_set(&new, old.as_ref(), &CONTEXT))
}

fn judge_binding(new: Value, old: Option<Value>) -> serde_json::Result<Outcome> {
    let old: Option<ClusterTopologyBinding> = old.map(serde_json::from_value).transpose()?;
    let new = serde_json::from_value(new)?;
    Ok(validate_cluster_topology_binding(&new, old.as_ref(), &CONTEXT))
}

fuzz_target!(|bytes: &[u8]| {
    let mut documents = serde_json::Deserializer::from_slice(bytes).into_iter::<Value>();
    let Some(Ok(new)) = documents.next() else { return };
    let old = documents.next().and_then(Result::ok);
    for judge in [judge_set, judge_binding] {
        if let Ok(outcome) = judge(new.clone(), old.clone()) {
            let status = outcome.to_status("grove.io", "PodCliqueSet", "fuzzed");
            assert_eq!(status.is_none(), outcome.is_admitted());
        }
    }
});
