//! One situation after the other, each with the sentence that it must have.

use serde_json::{Value, json};

use super::causes::report;
use super::{DomainObjects, DomainReport, render, target};

const UID: &str = "0b5e0a0c-1ad6-4c3c-9c5e-0d5e4f0a9b11";
const CLIQUE: &str = "7a8e0c5e.1";

fn domain() -> Value {
    json!({"kind": "ComputeDomain", "metadata": {"namespace": "team", "name": "imex", "uid": UID,
        "finalizers": ["resource.nvidia.com/computeDomain"]},
        "spec": {"channel": {"resourceClaimTemplate": {"name": "ch"}}}, "status": {"status": "NotReady"}})
}

fn template() -> Value {
    json!({"kind": "ResourceClaimTemplate", "metadata": {"namespace": "team", "name": "ch",
        "labels": {"resource.nvidia.com/computeDomain": UID}}})
}

fn pod(node: &str) -> Value {
    json!({"kind": "Pod", "metadata": {"namespace": "team", "name": "work", "uid": "w"},
        "spec": {"nodeName": node, "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "ch"}]},
        "status": {"phase": "Pending", "resourceClaimStatuses": [{"name": "c", "resourceClaimName": "work-c"}]}})
}

fn claim(allocated: bool) -> Value {
    let mut claim = json!({"kind": "ResourceClaim", "metadata": {"namespace": "team", "name": "work-c"}});
    if allocated {
        claim["status"]["allocation"] = json!({"devices": {"results": []}});
    }
    claim
}

fn node(domain: Option<&str>) -> Value {
    json!({"kind": "Node", "metadata": {"name": "node-a", "labels": {"resource.nvidia.com/computeDomain": domain}}})
}

fn slice(clique: &str) -> Value {
    json!({"kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": {"driver": "compute-domain.nvidia.com",
        "nodeName": "node-a", "devices": [{"name": "channel-0", "attributes": {"cliqueID": {"string": clique}}}]}})
}

fn daemon_set() -> Value {
    json!({"kind": "DaemonSet", "metadata": {"name": format!("computedomain-daemon-{UID}")}})
}

fn daemon(ready: &str) -> Value {
    json!({"kind": "Pod", "metadata": {"namespace": "nv", "name": "daemon-x", "uid": "d",
        "labels": {"resource.nvidia.com/computeDomain": UID}}, "spec": {"nodeName": "node-a"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready}]}})
}

fn clique(rows: &Value) -> Value {
    json!({"kind": "ComputeDomainClique", "metadata": {"name": format!("{UID}.{CLIQUE}")}, "daemons": rows})
}

fn row(node: &str) -> Value {
    json!({"nodeName": node, "cliqueID": CLIQUE, "index": 0, "status": "NotReady"})
}

fn probe_says(words: &str) -> Value {
    json!({"kind": "Event", "metadata": {}, "type": "Warning", "reason": "Unhealthy", "lastTimestamp": "2026-01-01T00:00:00Z",
        "involvedObject": {"kind": "Pod", "uid": "d"}, "message": format!("Readiness probe failed: IMEX daemon not ready: {words}")})
}

fn explained(objects: impl IntoIterator<Item = Value>) -> DomainReport {
    report(&DomainObjects::of(objects), "team", "imex").unwrap()
}

/// The first cause.
fn cause(objects: impl IntoIterator<Item = Value>) -> String {
    explained(objects).waits.remove(0).cause
}

#[test]
fn targets_name_domains() {
    let of = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        target(&words).map(str::to_owned)
    };
    assert_eq!(of(&["computedomain/imex"]), Some("imex".into()));
    assert_eq!(of(&["computedomains", "imex"]), Some("imex".into()));
    assert_eq!(of(&["podgang/imex"]), None);
    assert!(report(&DomainObjects::default(), "team", "imex").is_none());
}

#[test]
fn each_step_that_is_missing_is_named() {
    let mut fresh = domain();
    fresh["metadata"]["finalizers"] = json!([]);
    assert_eq!(cause([fresh]), "no controller has taken the ComputeDomain up");
    assert_eq!(cause([domain()]), "ResourceClaimTemplate ch does not exist yet");
    let mut taken = template();
    taken["metadata"]["labels"] = json!({});
    assert_eq!(
        cause([domain(), taken]),
        "ResourceClaimTemplate ch belongs to something else"
    );
    assert_eq!(
        cause([domain(), template()]),
        "no pod has a claim from ResourceClaimTemplate ch"
    );
    assert_eq!(cause([domain(), template(), pod("")]), "pods are not scheduled yet");
    assert_eq!(
        cause([domain(), template(), pod("node-a"), node(None)]),
        "nodes publish no devices of compute-domain.nvidia.com"
    );
    let until_claim = || [domain(), template(), pod("node-a"), node(None), slice(CLIQUE)];
    assert_eq!(cause(until_claim()), "pods have no ResourceClaim yet");
    assert_eq!(
        cause(until_claim().into_iter().chain([claim(false)])),
        "claims are not allocated"
    );
    let holder = json!({"kind": "ResourceClaim", "metadata": {"namespace": "other", "name": "theirs"}, "status": {"allocation":
        {"devices": {"results": [{"driver": "compute-domain.nvidia.com", "pool": "node-a", "device": "channel-0"}]}}}});
    assert_eq!(
        cause(until_claim().into_iter().chain([claim(false), holder])),
        "claims are not allocated: channel-0 of node node-a is held by ResourceClaim other/theirs"
    );
    let serving = |uid| {
        [
            domain(),
            template(),
            pod("node-a"),
            claim(true),
            slice(CLIQUE),
            node(Some(uid)),
        ]
    };
    assert_eq!(
        cause(serving("e")),
        "nodes still serve ComputeDomain with UID e, which is gone"
    );
    let set = format!("computedomain-daemon-{UID}");
    assert_eq!(cause(serving(UID)), format!("DaemonSet {set} does not exist"));
    let with_set = || serving(UID).into_iter().chain([daemon_set()]);
    assert_eq!(cause(with_set()), format!("DaemonSet {set} has no pod on nodes"));
    let with_daemon = || with_set().chain([daemon("False")]);
    assert_eq!(cause(with_daemon()), "nodes have no index yet");
    let with_row = || with_daemon().chain([clique(&json!([row("node-a")]))]);
    assert_eq!(cause(with_row()), "daemons are not ready");
    assert_eq!(
        cause(with_row().chain([probe_says(
            "another nvidia-imex uses the GPU driver (NV_ERR_IN_USE); disable it"
        )])),
        "a service of the host holds the GPU driver (NV_ERR_IN_USE)"
    );
    assert_eq!(
        cause(with_row().chain([probe_says("nvidia-imex keeps exiting; see the log")])),
        "nvidia-imex keeps exiting"
    );
}

#[test]
fn full_cliques_and_nodes_without_fabric_are_told_apart() {
    let full: Vec<Value> = (0..18).map(|number| row(&format!("other-{number}"))).collect();
    let objects = [
        domain(),
        template(),
        pod("node-a"),
        claim(true),
        slice(CLIQUE),
        node(Some(UID)),
        clique(&json!(full)),
    ];
    assert_eq!(
        cause(objects),
        format!("clique {CLIQUE} already has 18 of 18 nodes (maxNodesPerIMEXDomain)")
    );
    let objects = [
        domain(),
        template(),
        pod("node-a"),
        claim(true),
        slice(""),
        node(Some(UID)),
        daemon("False"),
    ];
    assert_eq!(cause(objects), "daemons on nodes without NVLink fabric are not ready");
    let mut silent = slice("");
    silent["spec"]["devices"] = json!([{"name": "channel-0"}]);
    let objects = [
        domain(),
        template(),
        pod("node-a"),
        claim(true),
        silent,
        node(Some(UID)),
    ];
    assert_eq!(cause(objects), "the NVLink clique of nodes is not known");
}

#[test]
fn a_ready_domain_lists_its_nodes_and_waits_for_nothing() {
    let mut ready = domain();
    ready["status"] = json!({"status": "Ready", "conditions": [{"type": "Ready", "reason": "AllNodesReady", "message": "1 of 1 nodes ready"}]});
    let mut row = row("node-a");
    row["status"] = json!("Ready");
    let mut work = pod("node-a");
    work["status"]["phase"] = json!("Running");
    let report = explained([ready, template(), work, node(Some(UID)), clique(&json!([row]))]);
    assert_eq!(
        render(&report),
        "ComputeDomain team/imex is Ready (AllNodesReady: 1 of 1 nodes ready)\n  clique 7a8e0c5e.1: 1 of 1 ready: 0=node-a\n"
    );
}
