//! The examination of healthy and broken installations, against golden files, and each verdict by itself.
#![allow(
    clippy::needless_pass_by_value,
    reason = "JSON written in place reads better without a reference"
)]

use std::collections::BTreeSet;
use std::sync::LazyLock;

use coppice_operator::certificates::bundles::with_bundle;
use coppice_operator::certificates::issue::{Issued, issue};
use coppice_operator::certificates::plan::Stored;
use coppice_operator::webhooks::configurations::{Address, configuration};
use coppice_operator::webhooks::{Endpoint, in_process};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use serde_json::{Value, json};

use super::facts::{Facts, RIGHTS};
use super::{DoctorView, Finding, Status, draw, examine};
use crate::golden;
use crate::view::text::Style;

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().expect("a time")
}

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("a valid object")
}

fn issued(at: Timestamp) -> Issued {
    issue(&BTreeSet::from(["grove-operator.grove.svc".to_owned()]), at).expect("a certificate")
}

fn secret(issued: &Issued) -> Secret {
    Secret {
        data: Some(Stored::of(issued).expect("it can be read").data()),
        ..Secret::default()
    }
}

fn served(endpoint: Endpoint, bundle: &str) -> Value {
    let address = Address::Service {
        namespace: "grove".to_owned(),
        name: "grove-operator".to_owned(),
        port: 9443,
    };
    let bare = configuration(endpoint, &address);
    with_bundle(&bare, bundle).unwrap_or(bare)
}

fn definitions() -> Vec<Value> {
    let mut all = coppice_api::crd::all();
    for definition in &mut all {
        definition["status"] = json!({"conditions": [{"type": "Established", "status": "True"}]});
        // What servers add is no difference.
        definition["spec"]["conversion"] = json!({"strategy": "None"});
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = json!("other words");
    }
    all
}

fn deployment(name: &str, component: &str, available: i32) -> Value {
    json!({"metadata": {"name": name, "namespace": "grove", "labels": {"app.kubernetes.io/component": component}},
        "spec": {"replicas": 2, "selector": {}, "template": {}}, "status": {"availableReplicas": available}})
}

fn lease(name: &str, holder: &str, renewed: &str) -> Value {
    json!({"metadata": {"name": name, "namespace": "grove"}, "spec": {
        "holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": format!("2026-03-01T{renewed}.000000Z")}})
}

fn node(name: &str, ready: &str, labels: Value) -> Value {
    json!({"metadata": {"name": name, "labels": labels}, "status": {"conditions": [{"type": "Ready", "status": ready}]}})
}

fn set(name: &str, scheduler: &str, ready: &str) -> Value {
    let condition = json!({"type": "Ready", "status": ready, "reason": "R", "message": "0 of 1 replicas are available",
        "lastTransitionTime": "2026-03-01T11:00:00Z"});
    json!({"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": "serving", "generation": 2},
        "spec": {"replicas": 1, "template": {"cliques": [{"name": "router", "spec": {
            "roleName": "router", "replicas": 1, "podSpec": {"schedulerName": scheduler, "containers": []}}}]}},
        "status": {"observedGeneration": 2, "conditions": [condition]}})
}

fn binding() -> Value {
    json!({"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding", "metadata": {"name": "cluster"},
        "spec": {"levels": [{"domain": "zone", "key": "zone"}, {"domain": "rack", "key": "rack"}]}})
}

/// Keys take a while to make.
static CURRENT: LazyLock<Issued> = LazyLock::new(|| issued(now() - SignedDuration::from_hours(24)));
static OLD: LazyLock<Issued> = LazyLock::new(|| issued(now() - SignedDuration::from_hours(400 * 24)));

fn healthy() -> Facts {
    let issued = &*CURRENT;
    let webhooks = Endpoint::ALL.map(|endpoint| match endpoint {
        Endpoint::Authorize => (endpoint, Ok(None)),
        _ => (endpoint, Ok(Some(served(endpoint, &issued.authority)))),
    });
    Facts {
        version: Ok("v1.36.3".to_owned()),
        definitions: Ok(definitions()),
        deployments: Ok(vec![
            object(deployment("grove-operator", "operator-deployment", 2)),
            object(deployment("coppice-scheduler", "scheduler-deployment", 2)),
        ]),
        leases: Ok(vec![
            object(lease("grove-operator-leader-election", "operator-a_1", "11:59:57")),
            object(lease("coppice-scheduler", "scheduler-b_1", "11:59:55")),
        ]),
        webhooks: webhooks.into(),
        certificate: Ok(Some(secret(issued))),
        rights: RIGHTS.map(|right| (right, Ok(true))).into(),
        nodes: Ok(vec![
            object(node("n1", "True", json!({"zone": "z1", "rack": "r1"}))),
            object(node("n2", "True", json!({"zone": "z1", "rack": "r2"}))),
        ]),
        topologies: Ok(vec![object(binding())]),
        sets: Ok(vec![object(set("llm", "coppice", "True"))]),
        gangs: Ok(Vec::new()),
        ..Facts::unknown("https://cluster.example:6443", String::new())
    }
}

fn text(view: &DoctorView) -> String {
    draw(view, Style::default())
}

/// The findings of a check after a change of the healthy installation.
fn after(check: &str, change: impl FnOnce(&mut Facts)) -> Vec<Finding> {
    let mut facts = healthy();
    change(&mut facts);
    let findings = examine(&facts, now(), PATIENCE).findings.into_iter();
    findings.filter(|finding| finding.check == check).collect()
}

#[track_caller]
fn found(check: &str, status: Status, words: &str, change: impl FnOnce(&mut Facts)) {
    let findings = after(check, change);
    let matching = findings
        .iter()
        .find(|finding| finding.status == status && finding.message.contains(words));
    let finding = matching.unwrap_or_else(|| panic!("no {status:?} with {words:?} in {findings:#?}"));
    assert!(
        status == Status::Ok || finding.next.is_some(),
        "{finding:?} says nothing of a next step"
    );
}

#[test]
fn a_healthy_installation_is_all_right() {
    let view = examine(&healthy(), now(), PATIENCE);
    assert!(
        view.findings.iter().all(|finding| finding.status == Status::Ok),
        "{}",
        text(&view)
    );
    golden::check("doctor/golden/healthy.txt", &text(&view));
}

#[test]
fn a_broken_installation_says_what_to_do() {
    let mut facts = healthy();
    facts.definitions = Ok(definitions().split_off(2));
    facts.deployments = Ok(vec![object(deployment("grove-operator", "operator-deployment", 0))]);
    facts.leases = Ok(Vec::new());
    facts.certificate = Ok(Some(secret(&issued(now()))));
    facts.rights[1].1 = Ok(false);
    facts.nodes = Ok(vec![object(node("n1", "Unknown", json!({"zone": "z1"})))]);
    facts.sets = Ok(vec![object(set("llm", "coppice", "False"))]);
    facts.gangs = Ok(vec![object(
        json!({"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang",
        "metadata": {"name": "llm-0", "namespace": "serving", "labels": {"app.kubernetes.io/part-of": "llm"}},
        "spec": {"podgroups": []}, "status": {"phase": "Pending", "conditions": [{"type": "Scheduled", "status": "False",
            "reason": "GangNotScheduled", "message": "no rack has 12 GPUs", "lastTransitionTime": "2026-03-01T11:00:00Z"}]}}),
    )]);
    let view = examine(&facts, now(), PATIENCE);
    golden::check("doctor/golden/broken.txt", &text(&view));
    let json = serde_json::to_string_pretty(&view).expect("it can be written");
    golden::check("doctor/golden/broken.json", &(json + "\n"));
}

#[test]
fn without_an_api_server_there_is_nothing_else_to_check() {
    let facts = Facts::unknown("https://cluster.example:6443", "connection refused".to_owned());
    let view = examine(&facts, now(), PATIENCE);
    golden::check("doctor/golden/unreachable.txt", &text(&view));
}

#[test]
fn an_embedded_cluster_is_all_right() {
    let mut facts = healthy();
    facts.deployments = Ok(Vec::new());
    facts.leases = Ok(Vec::new());
    facts.certificate = Ok(None);
    let address = Address::Url(in_process::ADDRESS.to_owned());
    for (endpoint, found) in &mut facts.webhooks {
        *found = found
            .clone()
            .map(|found| found.map(|_| configuration(*endpoint, &address)));
    }
    let view = examine(&facts, now(), PATIENCE);
    assert!(
        view.findings.iter().all(|finding| finding.status == Status::Ok),
        "{}",
        text(&view)
    );
    golden::check("doctor/golden/embedded.txt", &text(&view));
}

#[test]
fn definitions_are_judged() {
    found("crds", Status::Fail, "not established: podcliques.grove.io", |facts| {
        let mut all = definitions();
        all[0]["status"] = json!({});
        facts.definitions = Ok(all);
    });
    found(
        "crds",
        Status::Warn,
        "of another version: podcliques.grove.io",
        |facts| {
            let mut all = definitions();
            all[0]["spec"]["versions"][0]["name"] = json!("v1alpha0");
            facts.definitions = Ok(all);
        },
    );
    found("crds", Status::Warn, "cannot be listed: no", |facts| {
        facts.definitions = Err("no".to_owned());
    });
}

#[test]
fn programs_live_by_their_leases_and_deployments() {
    found("operator", Status::Fail, "has not renewed it for 3600 s", |facts| {
        facts.leases = Ok(vec![object(lease("grove-operator-leader-election", "a", "11:00:00"))]);
    });
    found("operator", Status::Fail, "no process holds the lease", |facts| {
        facts.leases = Ok(vec![object(lease("grove-operator-leader-election", "", "11:59:59"))]);
    });
    found("operator", Status::Warn, "has 1 of 2 pods available", |facts| {
        facts.deployments = Ok(vec![object(deployment("grove-operator", "operator-deployment", 1))]);
    });
    let scaled_down = |facts: &mut Facts| {
        let mut none = deployment("grove-operator", "operator-deployment", 0);
        none["spec"]["replicas"] = json!(0);
        facts.deployments = Ok(vec![object(none)]);
    };
    found("operator", Status::Ok, "operator-a_1 holds the lease", scaled_down);
    found(
        "operator",
        Status::Fail,
        "has no replicas, and no process holds its lease",
        |facts| {
            scaled_down(facts);
            facts.leases = Ok(Vec::new());
        },
    );
    let nothing = |facts: &mut Facts| {
        facts.leases = Ok(Vec::new());
        facts.deployments = Ok(Vec::new());
    };
    found(
        "operator",
        Status::Ok,
        "but all 1 PodCliqueSets are being reconciled",
        nothing,
    );
    found("operator", Status::Warn, "no set to tell by", |facts| {
        nothing(facts);
        facts.sets = Ok(Vec::new());
    });
    found(
        "operator",
        Status::Fail,
        "serving/new is not being reconciled",
        |facts| {
            nothing(facts);
            let mut new = set("new", "coppice", "False");
            new["status"] = json!(null);
            facts.sets = Ok(vec![object(new)]);
        },
    );
    found("operator", Status::Warn, "cannot be looked at: no", |facts| {
        facts.leases = Err("no".to_owned());
    });
    found(
        "scheduler",
        Status::Warn,
        "schedulerName coppice is used by serving/llm",
        nothing,
    );
    found("scheduler", Status::Ok, "no set has schedulerName coppice", |facts| {
        nothing(facts);
        facts.sets = Ok(vec![object(set("llm", "kai-scheduler", "True"))]);
    });
}

#[test]
fn webhooks_must_be_trusted() {
    let replace = |facts: &mut Facts, bundle: &str| {
        for (endpoint, found) in &mut facts.webhooks {
            *found = found.clone().map(|found| found.map(|_| served(*endpoint, bundle)));
        }
    };
    found("webhooks", Status::Fail, "has no CA bundle", |facts| replace(facts, ""));
    found("webhooks", Status::Fail, "is empty", |facts| replace(facts, "nonsense"));
    found(
        "webhooks",
        Status::Fail,
        "not signed by any CA in the bundle",
        |facts| {
            replace(facts, &issued(now()).authority);
        },
    );
    found(
        "webhooks",
        Status::Fail,
        "every authority in its CA bundle has expired",
        |facts| {
            replace(facts, &OLD.authority);
        },
    );
    found(
        "webhooks",
        Status::Fail,
        "the certificate expired on 2026-01-25",
        |facts| {
            facts.certificate = Ok(Some(secret(&OLD)));
        },
    );
    found(
        "webhooks",
        Status::Warn,
        "the certificate expires on 2026-03-06",
        |facts| {
            let nearly = issued(now() - SignedDuration::from_hours(360 * 24));
            replace(facts, &nearly.authority);
            facts.certificate = Ok(Some(secret(&nearly)));
        },
    );
    found("webhooks", Status::Fail, "the certificate cannot be used", |facts| {
        facts.certificate = Ok(Some(Secret::default()));
    });
    found("webhooks", Status::Ok, "may not be read with your rights", |facts| {
        facts.certificate = Err("secrets is forbidden".to_owned());
    });
    found(
        "webhooks",
        Status::Fail,
        "missing: podcliqueset-defaulting-webhook",
        |facts| {
            facts.webhooks[0].1 = Ok(None);
        },
    );
    found(
        "webhooks",
        Status::Warn,
        "none: sets are neither defaulted nor judged",
        |facts| {
            facts.webhooks.iter_mut().for_each(|(_, found)| *found = Ok(None));
        },
    );
    found("webhooks", Status::Warn, "cannot be read: no", |facts| {
        facts.webhooks[1].1 = Err("no".to_owned());
    });
}

#[test]
fn rights_nodes_and_topologies_are_judged() {
    found("rights", Status::Fail, "you may not list podcliquesets", |facts| {
        facts.rights[0].1 = Ok(false);
    });
    found("rights", Status::Warn, "you may not create podcliquesets", |facts| {
        facts.rights[1].1 = Ok(false);
    });
    found("rights", Status::Warn, "cannot be asked for: no", |facts| {
        facts.rights[2].1 = Err("no".to_owned());
    });
    found("nodes", Status::Fail, "there are none", |facts| {
        facts.nodes = Ok(Vec::new());
    });
    found("nodes", Status::Warn, "cannot be listed: no", |facts| {
        facts.nodes = Err("no".to_owned());
    });
    found("topology", Status::Ok, "no ClusterTopologyBinding", |facts| {
        facts.topologies = Ok(Vec::new());
    });
    found("topology", Status::Warn, "cannot be listed: no", |facts| {
        facts.topologies = Err("no".to_owned());
    });
    found("topology", Status::Warn, "1 of 1 nodes have no label rack", |facts| {
        facts.nodes = Ok(vec![object(node("n1", "True", json!({"zone": "z1"})))]);
    });
}

const PATIENCE: jiff::SignedDuration = jiff::SignedDuration::from_mins(5);

#[test]
fn sets_need_attention_after_a_while() {
    found("sets", Status::Ok, "0 of 1 ready, and none needs attention", |facts| {
        let mut young = set("llm", "coppice", "False");
        young["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-03-01T11:58:00Z");
        facts.sets = Ok(vec![object(young)]);
    });
    found(
        "sets",
        Status::Warn,
        "serving/llm has been Progressing for 60m; 0 of 1 replicas",
        |facts| {
            facts.sets = Ok(vec![object(set("llm", "coppice", "False"))]);
        },
    );
    found("sets", Status::Warn, "2 more need attention", |facts| {
        let many = (0..12).map(|index| object(set(&format!("set-{index}"), "coppice", "False")));
        facts.sets = Ok(many.collect());
    });
    found("sets", Status::Warn, "cannot be listed: no", |facts| {
        facts.sets = Err("no".to_owned());
    });
}

#[test]
fn what_cannot_be_placed_has_degraded_or_stalls_is_reported_also_of_ready_sets() {
    let unplaced = "serving/llm is Ready; gang llm-0-decode-3 cannot be placed: InsufficientResources: room for 0 of 4";
    found("sets", Status::Warn, unplaced, |facts| {
        facts.sets = Ok(vec![object(set("llm", "coppice", "True"))]);
        facts.gangs = Ok(vec![object(json!({
            "apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang",
            "metadata": {"name": "llm-0-decode-3", "namespace": "serving",
                "labels": {"app.kubernetes.io/part-of": "llm"}},
            "spec": {"podgroups": []},
            "status": {"phase": "Pending", "conditions": [{"type": "Placed", "status": "False",
                "reason": "InsufficientResources", "message": "room for 0 of 4",
                "lastTransitionTime": "2026-03-01T11:59:59Z"}]},
        }))]);
    });
    found(
        "sets",
        Status::Warn,
        "serving/llm has been Degraded for 5s; lost",
        |facts| {
            let mut degraded = set("llm", "coppice", "False");
            degraded["status"]["conditions"] = json!([{"type": "Degraded", "status": "True", "reason": "R",
            "message": "lost", "lastTransitionTime": "2026-03-01T11:59:55Z"}]);
            facts.sets = Ok(vec![object(degraded)]);
        },
    );
    found("sets", Status::Warn, "serving/llm has been Updating for 10m", |facts| {
        let mut stalled = set("llm", "coppice", "False");
        stalled["status"]["conditions"][0]["lastTransitionTime"] = json!("2026-03-01T11:59:59Z");
        stalled["status"]["updateProgress"] = json!({"updateStartedAt": "2026-03-01T11:50:00Z"});
        facts.sets = Ok(vec![object(stalled)]);
    });
}
