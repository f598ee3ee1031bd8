//! The first gang of a replica decides for all of them, before the others have pods.

use std::sync::Arc;

use coppice_placement::{Options, Outcome, Plan, plan};
use serde_json::{Value, json};

use super::testing::{PodSketch, gang_id, node};
use super::*;

/// Two racks: four hosts with one processor each in `r0`, six with three in `r1`.
fn racks() -> Model {
    let mut model = Model::new(["coppice"]);
    let levels = vec!["rack".to_owned(), "kubernetes.io/hostname".to_owned()];
    model.set_topologies(BTreeMap::from([("t".to_owned(), levels)]));
    model.put_nodes((0..4).map(|host| node(&format!("a{host}"), "r0", 1)));
    model.put_nodes((0..6).map(|host| node(&format!("b{host}"), "r1", 3)));
    model
}

/// The gang of a copy of the scaling group `g` in replica 0 of the set `s`: the anchor has copy 0.
fn gang_name(copy: u32) -> String {
    if copy == 0 {
        "anchor".to_owned()
    } else {
        format!("tail-{copy}")
    }
}

fn clique_name(copy: u32) -> String {
    format!("s-0-g-{copy}-c")
}

/// Such a gang: one clique, of which so many pods are listed.
fn put_gang(model: &mut Model, copy: u32, pods: u32) {
    let (name, clique) = (gang_name(copy), clique_name(copy));
    let (epoch, role) = if copy == 0 { (1, "Anchor") } else { (2, "Tail") };
    let listed: Vec<Value> = (0..pods)
        .map(|pod| json!({"namespace": "n", "name": format!("{clique}-{pod}")}))
        .collect();
    let config = json!([{"name": name, "podGroupNames": [clique],
        "topologyConstraint": {"packConstraint": {"required": "kubernetes.io/hostname"}}}]);
    let object = json!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1",
            "annotations": {"grove.io/topology-name": "t"},
            "labels": {"app.kubernetes.io/part-of": "s", "grove.io/podcliqueset-replica-index": "0",
                "grove.io/epoch": epoch.to_string(), "grove.io/podgang-role": role}},
        "spec": {"podgroups": [{"name": clique, "podReferences": listed, "minReplicas": pods}],
            "topologyConstraint": {"packConstraint": {"required": "rack"}},
            "topologyConstraintGroupConfigs": if copy > 0 { config } else { json!([]) }},
    });
    let record = GangRecord::of(&serde_json::from_value(object).unwrap()).unwrap();
    model.put_gang(Arc::new(record));
}

fn pod(copy: u32, number: u32) -> PodSketch {
    let clique = clique_name(copy);
    let mut pod = PodSketch::new(&format!("{clique}-{number}"), &gang_name(copy), &clique);
    pod.copy = Some(("s-0-g".to_owned(), copy));
    pod
}

fn put_pods(model: &mut Model, copy: u32, pods: u32) {
    for number in 0..pods {
        model.put_pod(&pod(copy, number).record());
    }
}

fn place(model: &mut Model, gang: &str) -> Plan {
    let question = model.question(&gang_id(gang)).unwrap();
    let options = Options {
        scheduled: question.scheduled.clone(),
        ..Options::default()
    };
    match plan(model.state_mut(), &question.gang, &options) {
        Outcome::Placed(plan) => plan,
        other => panic!("{gang}: {other:?}"),
    }
}

fn bind(model: &mut Model, copy: u32, plan: &Plan) {
    for (number, binding) in (0..).zip(&plan.bindings) {
        let mut pod = pod(copy, number);
        pod.node = Some(binding.node.clone());
        model.put_pod(&pod.record());
    }
}

#[test]
fn a_domain_is_chosen_for_gangs_that_have_no_pods_yet() {
    let mut model = racks();
    (0..6).for_each(|copy| put_gang(&mut model, copy, 2));
    put_pods(&mut model, 0, 2);
    let base = place(&mut model, "anchor");
    assert!(
        base.bindings.iter().all(|binding| binding.node.starts_with('b')),
        "the rack with single slots is tighter, but has no host for a pair: {base:?}"
    );
    bind(&mut model, 0, &base);
    for copy in 1..6 {
        put_pods(&mut model, copy, 2);
        let scaled = place(&mut model, &gang_name(copy));
        let nodes: BTreeSet<&str> = scaled.bindings.iter().map(|binding| binding.node.as_str()).collect();
        assert_eq!(nodes.len(), 1, "{scaled:?}");
        bind(&mut model, copy, &scaled);
    }
}

#[test]
fn the_first_gang_waits_for_a_moment_for_what_is_not_known_of_the_others() {
    let mut model = racks();
    put_gang(&mut model, 0, 1);
    put_gang(&mut model, 1, 2);
    let arriving = |model: &mut Model| {
        let question = model.question(&gang_id("anchor")).unwrap();
        question.arriving.map(|reason| reason.message)
    };
    // This pod does not say of which group it is.
    let mut unlabelled = pod(0, 0);
    unlabelled.copy = None;
    model.put_pod(&unlabelled.record());
    assert!(arriving(&mut model).unwrap().contains("pods of s-0-g-1-c"));
    put_pods(&mut model, 0, 1);
    assert_eq!(arriving(&mut model), None, "copies are alike");
    model.put_pod(&unlabelled.record());
    put_pods(&mut model, 1, 1);
    assert_eq!(arriving(&mut model), None, "a pod of its own is there");
}

#[test]
fn gangs_without_packing_of_their_own_are_placed_near_their_replica() {
    let mut model = racks();
    for (name, role) in [("anchor", (1, "Anchor")), ("tail", (2, "Tail"))] {
        model.put_gang(testing::gang_of_epoch(("s", name), role, &[("c", 1)], None));
    }
    let mut placed = PodSketch::new("a-0", "anchor", "c");
    placed.node = Some("b4".into());
    model.put_pod(&placed.record());
    model.put_pod(&PodSketch::new("t-0", "tail", "c").record());
    assert_eq!(
        place(&mut model, "tail").bindings[0].node,
        "b4",
        "not the tightest node"
    );
}
