//! The index of a pod among all pods of its copy of a scaling group, and that nothing is restarted for it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use world::{World, uids};

const OFFSET: &str = "grove.io/podcliquescalinggroup-pod-index-offset";
const INDEX: &str = "grove.io/podcliquescalinggroup-pod-index";

/// One copy has a leader and three workers; the group lists them in the other order than the template.
const SET: &str = "
metadata: {name: wl}
spec:
  replicas: 1
  template:
    terminationDelay: 1h
    cliques:
    - {name: worker, spec: {roleName: w, replicas: 3, minAvailable: 3, podSpec: {containers: [{name: m, image: w, env: [{name: MINE, value: $(GROVE_PCSG_POD_INDEX)}]}]}}}
    - {name: leader, spec: {roleName: l, replicas: 1, minAvailable: 1, podSpec: {containers: [{name: m, image: l}]}}}
    - {name: alone, spec: {roleName: a, replicas: 1, minAvailable: 1, podSpec: {containers: [{name: m, image: a}]}}}
    podCliqueScalingGroups:
    - {name: g, cliqueNames: [leader, worker], replicas: 2, minAvailable: 1}
";

fn indices(world: &World, copy: u32) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    for pod in world.pods() {
        let labels = &pod["metadata"]["labels"];
        if labels["grove.io/podcliquescalinggroup-replica-index"].as_str() == Some(&copy.to_string()) {
            found
                .entry(text(&labels["grove.io/podclique"]))
                .or_default()
                .insert(text(&labels[INDEX]));
        }
    }
    found
}

fn set_of(numbers: &[&str]) -> BTreeSet<String> {
    numbers.iter().map(|number| (*number).to_owned()).collect()
}

#[test]
fn pods_are_numbered_through_their_copy_in_the_order_of_the_group() {
    let mut world = World::new(SET);
    world.settle();
    for copy in 0..2 {
        let expected = BTreeMap::from([
            (format!("wl-0-g-{copy}-leader"), set_of(&["0"])),
            (format!("wl-0-g-{copy}-worker"), set_of(&["1", "2", "3"])),
        ]);
        assert_eq!(indices(&world, copy), expected);
    }
    for pod in world.pods() {
        let annotations = &pod["metadata"]["annotations"];
        assert!(annotations.get(OFFSET).is_none(), "not copied to pods: {annotations}");
        let environment = pod["spec"]["containers"][0]["env"].as_array().unwrap();
        let names: Vec<&str> = environment
            .iter()
            .map(|entry| entry["name"].as_str().unwrap())
            .collect();
        let position = names.iter().position(|name| *name == "GROVE_PCLQ_POD_INDEX").unwrap();
        let is_member = pod["metadata"]["labels"]["grove.io/podclique"] != "wl-0-alone";
        assert_eq!(
            names.get(position + 1) == Some(&"GROVE_PCSG_POD_INDEX"),
            is_member,
            "{names:?}"
        );
        let label = format!("metadata.labels['{INDEX}']");
        if is_member {
            assert_eq!(environment[position + 1]["valueFrom"]["fieldRef"]["fieldPath"], label);
        }
    }
    assert_eq!(
        world.get("PodClique", "wl-0-g-1-worker")["metadata"]["annotations"][OFFSET],
        "1"
    );
    assert!(
        world.get("PodClique", "wl-0-alone")["metadata"]["annotations"]
            .get(OFFSET)
            .is_none()
    );
}

#[test]
fn objects_without_an_index_are_completed_and_no_pod_is_touched() {
    let mut world = World::new(SET);
    world.settle();
    // As an older version left them, under a hash of its own.
    for name in world.names("PodClique") {
        world.edit("PodClique", &name, |clique| {
            if let Some(annotations) = clique["metadata"]["annotations"].as_object_mut() {
                annotations.remove(OFFSET);
            }
            clique["metadata"]["labels"]["grove.io/pod-template-hash"] = json!("5dbfq7pzg7");
        });
    }
    for name in world.names("Pod") {
        world.edit("Pod", &name, |pod| {
            pod["metadata"]["labels"].as_object_mut().unwrap().remove(INDEX);
            pod["metadata"]["labels"]["grove.io/pod-template-hash"] = json!("5dbfq7pzg7");
        });
    }
    let before = uids(&world);
    world.settle();
    assert_eq!(uids(&world), before, "no pod is replaced");
    assert_eq!(
        world.get("PodClique", "wl-0-g-1-worker")["metadata"]["annotations"][OFFSET],
        "1"
    );
    let status = &world.get("PodCliqueSet", "wl")["status"];
    assert_eq!(status["updatedReplicas"], 1, "nor counted as outdated");
    world.writes.clear();
    world.settle();
    assert!(world.writes.is_empty(), "{:?}", world.writes);
}

#[test]
fn an_update_keeps_the_offset() {
    let mut world = World::new(SET);
    world.settle();
    world.edit("PodCliqueSet", "wl", |set| {
        set["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = "w:2".into();
    });
    for _ in 0..100 {
        world.step();
        world.kubelets();
        let clique = world.get("PodClique", "wl-0-g-0-worker");
        assert_eq!(clique["metadata"]["annotations"][OFFSET], "1");
    }
}

#[test]
fn indices_stay_unique_when_a_member_is_resized_and_no_pod_is_replaced() {
    let mut world = World::new(SET);
    world.settle();
    let before = uids(&world);
    world.edit("PodClique", "wl-0-g-0-leader", |clique| {
        clique["spec"]["replicas"] = 3.into();
    });
    world.settle();
    let grown = BTreeMap::from([
        ("wl-0-g-0-leader".to_owned(), set_of(&["0", "1", "2"])),
        ("wl-0-g-0-worker".to_owned(), set_of(&["3", "4", "5"])),
    ]);
    assert_eq!(indices(&world, 0), grown);
    assert_eq!(
        before.difference(&uids(&world)).count(),
        0,
        "pods are relabelled, not replaced"
    );
    world.writes.clear();
    world.settle();
    assert!(world.writes.is_empty(), "{:?}", world.writes);
    world.edit("PodClique", "wl-0-g-0-leader", |clique| {
        clique["spec"]["replicas"] = 1.into();
    });
    world.settle();
    assert_eq!(indices(&world, 0)["wl-0-g-0-worker"], set_of(&["1", "2", "3"]));
    assert_eq!(uids(&world), before);
}
