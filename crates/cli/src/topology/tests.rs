//! Topologies of a small cluster, against golden files.

use serde_json::{Value, json};

use super::unknown;
use crate::golden;
use crate::view::text::Style;
use crate::view::topology::{build, text};

fn object<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_value(value.clone()).expect("a valid object")
}

fn node(name: &str, labels: &[(&str, &str)], more: &Value) -> Value {
    let labels: serde_json::Map<String, Value> = labels
        .iter()
        .map(|(key, value)| ((*key).to_owned(), json!(value)))
        .collect();
    let mut node = json!({"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {
        "allocatable": {"nvidia.com/gpu": "4", "cpu": "64"}, "conditions": [{"type": "Ready", "status": "True"}]}});
    json_patch::merge(&mut node, more);
    node
}

fn rack(name: &str, rack: &str, more: &Value) -> Value {
    let zone = "topology.kubernetes.io/zone";
    node(
        name,
        &[
            (zone, "z1"),
            ("topology.kubernetes.io/rack", rack),
            ("kubernetes.io/hostname", name),
        ],
        more,
    )
}

fn cluster() -> Vec<Value> {
    vec![
        rack("n1", "r1", &json!({})),
        rack("n2", "r1", &json!({"spec": {"unschedulable": true}})),
        rack(
            "n3",
            "r2",
            &json!({"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
        ),
        rack(
            "n4",
            "r2",
            &json!({"spec": {"taints": [{"key": "maintenance", "effect": "NoSchedule"}]}}),
        ),
        node("n5", &[("topology.kubernetes.io/zone", "z2")], &json!({})),
    ]
}

fn pod(name: &str, gang: Option<&str>, node: &str, gpus: &str, phase: &str) -> Value {
    let mut pod = json!({"metadata": {"name": name, "namespace": "serving", "labels": {}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]},
        "status": {"phase": phase}});
    if let Some(gang) = gang {
        pod["metadata"]["labels"]["grove.io/podgang"] = json!(gang);
    }
    pod
}

fn pods() -> Vec<Value> {
    vec![
        pod("a", Some("llm-0"), "n1", "2", "Running"),
        pod("b", Some("llm-0"), "n1", "1", "Running"),
        pod("c", Some("chat-0"), "n2", "4", "Running"),
        pod("other", None, "n4", "1", "Running"),
        // Has given its GPUs back.
        pod("done", Some("llm-0"), "n1", "4", "Succeeded"),
    ]
}

fn drawn(levels: Option<Value>, nodes: &[Value], style: Style) -> (String, String) {
    let binding = levels.map(|levels| {
        object(
            &json!({"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding",
            "metadata": {"name": "cluster"}, "spec": {"levels": levels}}),
        )
    });
    let nodes: Vec<_> = nodes.iter().map(object).collect();
    let pods: Vec<_> = pods().iter().map(object).collect();
    let view = build::view(&binding.into_iter().collect::<Vec<_>>(), &nodes, &pods);
    let json = serde_json::to_string_pretty(&view).expect("it can be written");
    (text::draw(&view, style), json + "\n")
}

fn levels() -> Value {
    json!([{"domain": "zone", "key": "topology.kubernetes.io/zone"},
        {"domain": "rack", "key": "topology.kubernetes.io/rack"},
        {"domain": "host", "key": "kubernetes.io/hostname"}])
}

#[test]
fn domains_nodes_and_gangs_by_level() {
    let (text, json) = drawn(Some(levels()), &cluster(), Style::default());
    golden::check("topology/golden/binding.txt", &text);
    golden::check("topology/golden/binding.json", &json);
    let style = Style {
        pods: true,
        terminal: false,
    };
    golden::check("topology/golden/nodes.txt", &drawn(Some(levels()), &cluster(), style).0);
    let style = Style {
        pods: false,
        terminal: true,
    };
    golden::check(
        "topology/golden/terminal.txt",
        &drawn(Some(levels()), &cluster(), style).0,
    );
}

#[test]
fn without_a_binding_labels_tell() {
    golden::check(
        "topology/golden/labels.txt",
        &drawn(None, &cluster(), Style::default()).0,
    );
    let bare = [node("n1", &[], &json!({}))];
    golden::check("topology/golden/bare.txt", &drawn(None, &bare, Style::default()).0);
}

#[test]
fn a_topology_that_is_not_there_is_named_with_those_that_are() {
    assert!(unknown("x", &[]).contains("next: leave the name out"));
    assert!(unknown("x", &["a".to_owned(), "b".to_owned()]).ends_with("x\nnext: name one of these: a, b"));
}
