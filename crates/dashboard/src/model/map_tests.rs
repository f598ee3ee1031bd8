//! The map of small and of absurd clusters.

use serde_json::{Value, json};

use super::*;

fn object<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).expect("an object")
}

fn node(number: usize, racks: usize, gpus: &str) -> Node {
    let name = format!("node-{number}");
    object(json!({"metadata": {"name": name, "labels": {
            "topology.kubernetes.io/zone": format!("z{}", number % racks % 2),
            "topology.kubernetes.io/rack": format!("rack-{}", number % racks)}},
        "status": {"allocatable": {"nvidia.com/gpu": gpus}, "conditions": [{"type": "Ready", "status": "True"}]}}))
}

fn pod(name: &str, gang: &str, node: &str, gpus: &str) -> Pod {
    object(
        json!({"metadata": {"name": name, "namespace": "ns", "labels": {"grove.io/podgang": gang,
            "app.kubernetes.io/part-of": "llm"}},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]}}),
    )
}

fn nodes_in(area: &Area) -> usize {
    match &area.content {
        Content::Areas { areas, .. } => areas.iter().map(nodes_in).sum(),
        Content::Nodes { nodes, .. } => nodes.len(),
        Content::Sums => 0,
    }
}

fn tiles_in(area: &Area) -> usize {
    match &area.content {
        Content::Areas { areas, .. } => areas.iter().map(tiles_in).sum(),
        Content::Nodes { .. } => 0,
        Content::Sums => 1,
    }
}

#[test]
fn cells_say_who_has_each_gpu() {
    let nodes = [node(0, 1, "4"), node(1, 1, "4"), node(2, 1, "4")];
    let mut cordoned = nodes[2].clone();
    cordoned.spec = Some(object(json!({"unschedulable": true})));
    let nodes = [nodes[0].clone(), nodes[1].clone(), cordoned];
    let pods = [pod("a", "g1", "node-0", "3")];
    let map = map(&Question::default(), [], &nodes, &pods);
    let expected = Sums {
        nodes: 3,
        unusable_nodes: 1,
        gpus: 12,
        used: 3,
        free: 4,
        fragmented: 1,
        out_of_use: 4,
    };
    assert_eq!(map.sums, expected);
    assert_eq!(map.legend.len(), 1);
    let Content::Areas { areas, .. } = &map.area.content else {
        panic!("zones")
    };
    let Content::Areas { areas, .. } = &areas[0].content else {
        panic!("racks")
    };
    let Content::Nodes { nodes, .. } = &areas[0].content else {
        panic!("nodes")
    };
    let used = Cell::Used {
        colour: Some(0),
        pod: "ns/a".into(),
        owner: Some("g1".into()),
    };
    assert_eq!(nodes[0].cells, [used.clone(), used.clone(), used, Cell::Fragmented]);
    assert_eq!(nodes[1].cells, vec![Cell::Free; 4]);
    assert_eq!(nodes[2].cells, vec![Cell::OutOfUse; 4]);
}

#[test]
fn a_large_cluster_is_tiles_and_a_domain_of_it_is_nodes() {
    let nodes: Vec<Node> = (0..5_000).map(|number| node(number, 278, "4")).collect();
    let all = map(&Question::default(), [], &nodes, []);
    assert_eq!((nodes_in(&all.area), tiles_in(&all.area)), (0, 278));
    let within = ["z0".to_owned(), "rack-4".to_owned()];
    let question = Question {
        within: &within,
        ..Question::default()
    };
    let rack = map(&question, [], &nodes, []);
    assert_eq!(nodes_in(&rack.area), rack.sums.nodes);
    assert_eq!(rack.sums.nodes, 18);
}

#[test]
fn a_page_is_bounded_whatever_labels_say() {
    // Every node is a rack of its own, claims a million GPUs, and has no zone.
    let nodes: Vec<Node> = (0..3_000)
        .map(|number| {
            object(json!({"metadata": {"name": format!("n{number}"), "labels": {"topology.kubernetes.io/rack": format!("r{number}")}},
                "status": {"allocatable": {"nvidia.com/gpu": "1000000"}, "conditions": [{"type": "Ready", "status": "True"}]}}))
        })
        .collect();
    let all = map(&Question::default(), [], &nodes, []);
    assert!(tiles_in(&all.area) <= TILES, "{}", tiles_in(&all.area));
    // No labels at all.
    let bare: Vec<Node> = (0..3_000)
        .map(|number| object(json!({"metadata": {"name": format!("n{number}")}, "status": {"allocatable": {"nvidia.com/gpu": "99999"}}})))
        .collect();
    let all = map(&Question::default(), [], &bare, []);
    assert_eq!(nodes_in(&all.area), DRAWN_NODES);
    let Content::Nodes { nodes, hidden } = &all.area.content else {
        panic!("nodes")
    };
    assert_eq!(*hidden, 3_000 - DRAWN_NODES);
    assert!(nodes.iter().all(|node| node.cells.len() == 16));
}

#[test]
fn names_are_counted_as_people_count() {
    let mut names = ["rack-10", "rack-9", "a", "rack-9b"];
    names.sort_by_key(|name| natural(name));
    assert_eq!(names, ["a", "rack-9", "rack-9b", "rack-10"]);
}

#[test]
fn nodes_of_an_nvlink_domain_stand_together() {
    let nodes: Vec<Node> = (0..4)
        .map(|number| {
            let mut node = node(number, 1, "4");
            let labels = node.metadata.labels.get_or_insert_default();
            labels.insert("nvidia.com/gpu.clique".into(), format!("domain-{}", number % 2));
            node
        })
        .collect();
    let racks: ClusterTopologyBinding = object(
        json!({"apiVersion": "grove.io/v1alpha1", "kind": "ClusterTopologyBinding",
        "metadata": {"name": "racks"}, "spec": {"levels": [{"domain": "rack", "key": "topology.kubernetes.io/rack"}]}}),
    );
    let map = map(&Question::default(), [&racks], &nodes, []);
    let Content::Areas { areas, .. } = &map.area.content else {
        panic!("racks")
    };
    let Content::Nodes { nodes, .. } = &areas[0].content else {
        panic!("nodes")
    };
    let order: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(order, ["node-0", "node-2", "node-1", "node-3"]);
}
