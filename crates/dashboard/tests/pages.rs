//! Pages as text: what a tenant writes is shown as text, and a page is bounded by what is shown.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use coppice_api::types::{PodClique, PodCliqueSet, PodGang};
use coppice_dashboard::model::address::Page;
use coppice_dashboard::model::{self, Shown};
use coppice_dashboard::page::{self, Frame};
use coppice_view::build::Objects;
use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::{Value, json};

const HOSTILE: &str = "<script>alert(1)</script><img src=x onerror=\"alert(1)\">'\"&\u{202e}";

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn set(name: &str, replicas: i32) -> PodCliqueSet {
    object(json!({"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": "ns", "generation": 1},
        "spec": {"replicas": replicas, "template": {"cliques": [
            {"name": "router", "spec": {"roleName": "router", "replicas": 2, "podSpec": {"containers": [{"name": "c", "image": name}]}}},
            {"name": "worker", "spec": {"roleName": "worker", "replicas": 4, "podSpec": {"containers": [{"name": "c", "image": name}]}}}],
            "podCliqueScalingGroups": [{"name": "decode", "cliqueNames": ["worker"], "replicas": 3}]}},
        "status": {"conditions": [{"type": name, "status": name, "reason": name, "message": name, "lastTransitionTime": "2026-01-01T00:00:00Z"},
            {"type": "Degraded", "status": "True", "reason": "R", "message": name, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "lastErrors": [{"code": "E", "description": name, "observedAt": "2026-01-01T00:00:00Z"}]}}))
}

fn gang(name: &str, set: &str, replica: usize, message: &str) -> PodGang {
    object(json!({"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang",
        "metadata": {"name": name, "namespace": "ns", "labels": {"app.kubernetes.io/part-of": set,
            "grove.io/podcliqueset-replica-index": replica.to_string(), "grove.io/podgang-role": "Anchor"}},
        "spec": {"podgroups": []}, "status": {"phase": "Pending", "conditions": [{"type": "Placed", "status": "False",
            "reason": message, "message": message, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}))
}

fn pod(name: &str, set: &str, clique: &str, gang: &str, node: Option<&str>) -> Pod {
    object(
        json!({"metadata": {"name": name, "namespace": "ns", "uid": name, "labels": {"app.kubernetes.io/part-of": set,
            "grove.io/podclique": clique, "grove.io/podgang": gang, "grove.io/pod-template-hash": set}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "4"}}}]},
        "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": gang}]}}),
    )
}

fn clique(name: &str, set: &str, replica: usize, gang: &str) -> PodClique {
    object(json!({"apiVersion": "grove.io/v1alpha1", "kind": "PodClique",
        "metadata": {"name": name, "namespace": "ns", "labels": {"app.kubernetes.io/part-of": set, "grove.io/podgang": gang,
            "grove.io/podcliqueset-replica-index": replica.to_string()}},
        "spec": {"roleName": "router", "replicas": 2, "podSpec": {"containers": []}}}))
}

/// No text of a tenant is markup, in an element or in an attribute.
fn harmless(name: &str, markup: &maud::Markup) {
    let page = Page::map();
    let frame = Frame {
        cluster: HOSTILE.into(),
        notices: vec![HOSTILE.into()],
        loading: vec![HOSTILE.into()],
        ..Frame::default()
    };
    let text = page::document(HOSTILE, &page, &page::body(&frame, &page, markup)).into_string();
    assert!(
        !text.contains("<img src=x") && !text.contains("<script>alert"),
        "{name}: {text}"
    );
    assert!(
        markup.0.contains("&lt;script&gt;alert(1)"),
        "{name} does not show the text at all"
    );
    // Scripts come from a file, and nothing runs from an attribute.
    assert_eq!(text.matches("<script").count(), 1, "{name}");
    for attribute in [" onerror=\"", " onclick=", " style=", "javascript:"] {
        let harmless = text.replace("onerror=&quot;", "");
        assert!(!harmless.contains(attribute), "{name} has {attribute}");
    }
    for link in text.split("href=\"").skip(1) {
        let target = link.split('"').next().unwrap();
        assert!(
            target.starts_with('/') && !target.starts_with("//") || target == "#main",
            "{name} links to {target}"
        );
    }
}

#[test]
fn what_tenants_write_is_text_on_every_page() {
    let (set, gang) = (set(HOSTILE, 1), gang(HOSTILE, HOSTILE, 0, HOSTILE));
    let pods = [
        pod(HOSTILE, HOSTILE, HOSTILE, HOSTILE, Some(HOSTILE)),
        pod("b", HOSTILE, HOSTILE, HOSTILE, None),
    ];
    let node: Node = object(json!({"metadata": {"name": HOSTILE, "labels": {HOSTILE: HOSTILE}},
        "spec": {"taints": [{"key": HOSTILE, "effect": HOSTILE}]},
        "status": {"allocatable": {"nvidia.com/gpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}}));
    let cliques = [clique(HOSTILE, HOSTILE, 0, HOSTILE)];
    let map = model::map::map(&model::map::Question::default(), [], [&node], &pods);
    let contents = model::gang::contents([&gang], [&set], &cliques);
    harmless("map", &page::map(&map, &contents, &Page::map()));
    harmless(
        "node",
        &page::node(&model::node::node(HOSTILE, [&node], &pods).unwrap()),
    );
    harmless(
        "pending",
        &page::pending(&model::pending::pending(None, [&gang], [&set], &cliques, &pods)),
    );
    harmless("sets", &page::sets(&model::sets::sets(None, [&set], [&gang], &pods)));
    harmless("nothing", &page::gang_failed(HOSTILE, HOSTILE));
    let entries = model::timeline::of_gang(None, Some(&gang), jiff::Timestamp::UNIX_EPOCH);
    harmless(
        "timeline",
        &page::timeline(&entries, jiff::Timestamp::UNIX_EPOCH, None, None),
    );
    let failed = page::PlanAnswer::Failed(HOSTILE.into());
    harmless("plan", &page::plan(HOSTILE, HOSTILE, Some(&failed)));
    let objects = Objects {
        cliques: cliques.to_vec(),
        gangs: vec![gang],
        pods: pods.to_vec(),
        ..Objects::default()
    };
    let view = model::set::set(&set, &objects, None);
    harmless("set", &page::set(&view, &Shown::first(Vec::new(), 1)));
}

#[test]
fn a_gang_is_explained_with_remedies_that_can_be_tried() {
    let node = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
            "status": {"allocatable": {"cpu": "8", "pods": "10", "nvidia.com/gpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]}})
    };
    let pod = |name: &str| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "ns", "uid": name, "resourceVersion": "1",
                "labels": {"grove.io/podgang": "g", "grove.io/podclique": "c"}},
            "spec": {"schedulerName": "coppice", "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "4"}}}]}})
    };
    let mut snapshot = coppice_view::explain::Snapshot::default();
    for object in [node("n1"), pod("a"), pod("b")] {
        snapshot.add(object);
    }
    snapshot.add(json!({"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang",
        "metadata": {"name": "g", "namespace": "ns", "uid": "g", "resourceVersion": "1"},
        "spec": {"podgroups": [{"name": "c", "minReplicas": 2, "podReferences": [{"namespace": "ns", "name": "a"}, {"namespace": "ns", "name": "b"}]}]}}));
    let view = model::gang::gang(&snapshot, "ns", "g", None).unwrap();
    let remedies = &view.now.explanation.as_ref().unwrap().remedies;
    let remedy = remedies
        .iter()
        .find(|remedy| remedy.text.contains("like n1"))
        .expect("nodes help");
    let text = page::gang(&view, "ns", "g", Some("set"), None).into_string();
    assert!(text.contains("It does not fit.") && text.contains("Try"), "{text}");

    let identity = model::gang::identity(&remedy.text);
    let view = model::gang::gang(&snapshot, "ns", "g", Some(&identity)).unwrap();
    let text = page::gang(&view, "ns", "g", None, None).into_string();
    assert!(text.contains("It would fit") && text.contains("n1-copy-1"), "{text}");
    let view = model::gang::gang(&snapshot, "ns", "g", Some("ffffffffffff")).unwrap();
    let text = page::gang(&view, "ns", "g", None, None).into_string();
    assert!(text.contains("not among those that help now"), "{text}");
    assert!(model::gang::gang(&snapshot, "ns", "other", None).is_err());
}

#[test]
fn a_set_of_500_replicas_is_a_bounded_page() {
    const REPLICAS: usize = 500;
    let set = set("llm", i32::try_from(REPLICAS).unwrap());
    let mut objects = Objects::default();
    for replica in 0..REPLICAS {
        let name = format!("llm-{replica}");
        objects.gangs.push(gang(&name, "llm", replica, "NoRoom"));
        let clique_name = format!("llm-{replica}-router");
        objects.cliques.push(clique(&clique_name, "llm", replica, &name));
        for index in 0..2 {
            let mut pod = pod(&format!("{clique_name}-{index}"), "llm", &clique_name, &name, Some("n"));
            pod.status = Some(object(json!({"conditions": [{"type": "Ready", "status": "True"}]})));
            objects.pods.push(pod);
        }
    }
    let view = model::set::set(&set, &objects, None);
    assert_eq!((view.replicas.items.len(), view.replicas.all), (100, REPLICAS));
    let text = page::set(&view, &Shown::first(Vec::new(), 1)).into_string();
    assert!(text.len() < 200_000, "{} bytes", text.len());
    // Any of them can be asked for.
    let view = model::set::set(&set, &objects, Some(321));
    assert_eq!(view.replicas.items[0].view.index, 321);
    assert!(view.replicas.items[0].open);

    let pending = model::pending::pending(None, &objects.gangs, [&set], &objects.cliques, &objects.pods);
    assert_eq!((pending.gangs.items.len(), pending.gangs.all), (200, REPLICAS));
    let text = page::pending(&pending).into_string();
    assert!(
        text.len() < 400_000 && text.contains("and 300 more gangs"),
        "{} bytes",
        text.len()
    );
}
