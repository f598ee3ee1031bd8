//! The first gang of a replica decides for all of them, before the others have pods.

use std::sync::Arc;

use coppice_placement::{Options, Outcome, Plan, plan};
use serde_json::{Value, json};

use super::testing::{PodSketch, gang_id, key, node, project};
use super::*;

/// Two racks: three hosts with four processors each in `r0`, of which each has one free, and six empty ones with three in `r1`.
fn racks() -> Model {
    let mut model = Model::new(["coppice"]);
    let levels = vec!["rack".to_owned(), "kubernetes.io/hostname".to_owned()];
    model.set_topologies(BTreeMap::from([("t".to_owned(), levels)]));
    model.put_nodes((0..4).map(|host| node(&format!("a{host}"), "r0", 1)));
    model.put_nodes((0..6).map(|host| node(&format!("b{host}"), "r1", 3)));
    model
}

/// A gang of replica 0 of the set `s`: one clique, of which so many pods are listed.
fn put_gang(model: &mut Model, name: &str, (epoch, role): (u32, &str), pods: u32, on_one_host: bool) {
    let clique = format!("{name}-c");
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
            "topologyConstraintGroupConfigs": if on_one_host { config } else { json!([]) }},
    });
    let record = GangRecord::of(&serde_json::from_value(object).unwrap()).unwrap();
    model.put_gang(Arc::new(record));
}

fn put_clique(model: &mut Model, gang: &str) {
    let object = json!({
        "metadata": {"name": format!("{gang}-c"), "namespace": "n", "uid": format!("{gang}-c"), "resourceVersion": "1",
            "labels": {"app.kubernetes.io/part-of": "s", "grove.io/podcliqueset-replica-index": "0", "grove.io/podgang": gang}},
        "spec": {"podSpec": {"containers": [{"resources": {"requests": {"cpu": "1"}}}]}},
    });
    model.put_clique(Arc::new(project(&CliqueRecords(PodRecords::default()), &object)));
}

fn put_pods(model: &mut Model, gang: &str, pods: u32) {
    for pod in 0..pods {
        let sketch = PodSketch::new(&format!("{gang}-c-{pod}"), gang, &format!("{gang}-c"));
        model.put_pod(&sketch.record());
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

fn bind(model: &mut Model, gang: &str, plan: &Plan) {
    for binding in &plan.bindings {
        let name = binding.pod.split_once('/').unwrap().1;
        let mut pod = PodSketch::new(name, gang, &format!("{gang}-c"));
        pod.node = Some(binding.node.clone());
        model.put_pod(&pod.record());
    }
}

#[test]
fn a_domain_is_chosen_for_gangs_that_have_no_pods_yet() {
    let mut model = racks();
    put_gang(&mut model, "anchor", (1, "Anchor"), 2, false);
    for copy in 0..5 {
        let name = format!("tail-{copy}");
        put_gang(&mut model, &name, (2, "Tail"), 2, true);
        put_clique(&mut model, &name);
    }
    put_pods(&mut model, "anchor", 2);
    let base = place(&mut model, "anchor");
    assert!(
        base.bindings.iter().all(|binding| binding.node.starts_with('b')),
        "the rack with single slots is tighter, but has no host for a pair: {base:?}"
    );
    bind(&mut model, "anchor", &base);
    for copy in 0..5 {
        let name = format!("tail-{copy}");
        put_pods(&mut model, &name, 2);
        let scaled = place(&mut model, &name);
        let nodes: BTreeSet<&str> = scaled.bindings.iter().map(|binding| binding.node.as_str()).collect();
        assert_eq!(nodes.len(), 1, "{scaled:?}");
        bind(&mut model, &name, &scaled);
    }
}

#[test]
fn the_first_gang_waits_for_a_moment_until_the_others_are_known() {
    let mut model = racks();
    put_gang(&mut model, "anchor", (1, "Anchor"), 2, false);
    put_pods(&mut model, "anchor", 2);
    let arriving = |model: &mut Model| {
        model
            .question(&gang_id("anchor"))
            .unwrap()
            .arriving
            .map(|reason| reason.message)
    };
    assert_eq!(arriving(&mut model), None);
    put_clique(&mut model, "tail");
    assert!(arriving(&mut model).unwrap().contains("PodGang n/tail"));
    put_gang(&mut model, "tail", (2, "Tail"), 2, true);
    assert_eq!(arriving(&mut model), None);
    model.remove_clique(&key("tail-c"));
    assert!(arriving(&mut model).unwrap().contains("pods of tail-c"));
    put_pods(&mut model, "tail", 1);
    assert_eq!(arriving(&mut model), None, "a pod says what its clique asks for");
}

#[test]
fn gangs_without_packing_of_their_own_are_placed_near_their_replica() {
    let mut model = racks();
    let free = |name: &str, role: (u32, &str)| {
        let mut record = (*testing::gang_of_epoch(("s", name), role, &[("c", 1)], None)).clone();
        record.groups[0].name = format!("{name}-c");
        Arc::new(record)
    };
    model.put_gang(free("anchor", (1, "Anchor")));
    model.put_gang(free("tail", (2, "Tail")));
    let mut pod = PodSketch::new("anchor-c-0", "anchor", "anchor-c");
    pod.node = Some("b4".into());
    model.put_pod(&pod.record());
    put_pods(&mut model, "tail", 1);
    assert_eq!(
        place(&mut model, "tail").bindings[0].node,
        "b4",
        "not the tightest node"
    );
}
