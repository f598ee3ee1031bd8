//! What a stored plan may still do once pods of it run, are gone, or have successors under their names.

use std::sync::Arc;

use super::tests::{acknowledge, at, bind, engine, pods, sizes, sketch};
use super::*;
use crate::model::testing::{PodSketch, gang, key, node};

/// Stores what a commit wants stored, and binds its pods.
fn carry_out(engine: &mut Engine, commit: &Commit, floors: &[(&str, u32)]) {
    let GangId::Gang(gang_key) = &commit.gang else {
        panic!("a gang")
    };
    let mut record = (*gang(&gang_key.name, floors, None)).clone();
    record.plan = commit.store.clone().expect("several bindings");
    engine.model.put_gang(Arc::new(record));
    bind(engine, commit);
}

fn make_ready(engine: &mut Engine, pod: &ObjectKey) {
    let mut pod = sketch(engine, pod);
    pod.ready = true;
    engine.model.put_pod(&pod.record());
}

fn replacement(name: &str, gang: &str, clique: &str, uid: u32) -> PodSketch {
    let mut pod = PodSketch::new(name, gang, clique);
    pod.uid = uid;
    pod
}

/// Ten nodes with room for one pod each, and a gang of ten that runs on them.
fn ten_run() -> (Engine, Vec<Bind>) {
    let names: Vec<String> = (0..10).map(|index| format!("n{index}")).collect();
    let nodes: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let mut engine = engine(&nodes);
    engine.model.put_gang(gang("a", &[("c", 10)], None));
    pods(&mut engine, "a", "c", 10);
    let decision = engine.decide(at(0));
    carry_out(&mut engine, &decision.commits[0], &[("c", 10)]);
    let bindings = decision.commits[0].bindings.clone();
    assert_eq!(bindings.len(), 10);
    (engine, bindings)
}

fn decide_for_a_while(engine: &mut Engine) -> Vec<Release> {
    let mut releases = Vec::new();
    for seconds in [1, 2, 31, 32, 61, 62, 1000] {
        let decision = engine.decide(at(seconds));
        acknowledge(engine, &decision);
        releases.extend(decision.releases);
    }
    releases
}

#[test]
fn a_replacement_with_the_first_ones_name_releases_nothing() {
    let (mut engine, bindings) = ten_run();
    bindings.iter().for_each(|bind| make_ready(&mut engine, &bind.pod.key));
    let lost = &bindings[3];
    let mut cordoned = node(&lost.node, "r", 1);
    cordoned.unschedulable = true;
    engine.model.put_nodes([cordoned]);
    engine.model.remove_pod(&lost.pod.key);
    engine.model.put_pod(&replacement("a-c-other", "a", "c", 2).record());
    assert_eq!(engine.decide(at(1)).releases, []);
    engine.model.remove_pod(&key("a-c-other"));
    engine
        .model
        .put_pod(&replacement(&lost.pod.key.name, "a", "c", 3).record());
    assert_eq!(decide_for_a_while(&mut engine), []);
}

#[test]
fn pods_that_were_never_ready_stay_too_when_their_plan_was_carried_out() {
    let (mut engine, bindings) = ten_run();
    let lost = &bindings[3];
    engine.model.remove_nodes([lost.node.as_str()]);
    engine.model.remove_pod(&lost.pod.key);
    engine
        .model
        .put_pod(&replacement(&lost.pod.key.name, "a", "c", 2).record());
    assert_eq!(decide_for_a_while(&mut engine), []);
}

#[test]
fn new_pods_with_the_old_names_are_never_bound_in_part_to_the_old_plan() {
    // A router that goes on, and a clique of four on nodes of its own, which gang termination replaces.
    let mut engine = engine(&[("n0", 1), ("n1", 1), ("n2", 1), ("n3", 1), ("n4", 1)]);
    let floors = [("c", 4), ("router", 1)];
    engine.model.put_gang(gang("a", &floors, None));
    pods(&mut engine, "a", "c", 4);
    pods(&mut engine, "a", "router", 1);
    let decision = engine.decide(at(0));
    carry_out(&mut engine, &decision.commits[0], &floors);
    let bindings = &decision.commits[0].bindings;
    bindings.iter().for_each(|bind| make_ready(&mut engine, &bind.pod.key));
    let confirmed = engine.decide(at(1));
    acknowledge(&mut engine, &confirmed);
    let old: Vec<&Bind> = bindings
        .iter()
        .filter(|bind| bind.pod.key.name.starts_with("a-c-"))
        .collect();
    engine.model.remove_nodes([old[3].node.as_str()]);
    old.iter().for_each(|bind| engine.model.remove_pod(&bind.pod.key));
    // They come one after another, and there is room for three.
    for (index, bind) in old.iter().enumerate() {
        engine
            .model
            .put_pod(&replacement(&bind.pod.key.name, "a", "c", 2).record());
        let decision = engine.decide(at(2));
        assert_eq!(sizes(&decision), [], "{index} of the four are there");
        acknowledge(&mut engine, &decision);
    }
    assert_eq!(decide_for_a_while(&mut engine), [], "the router goes on");
    engine.model.put_nodes([node("n9", "r", 1)]);
    assert_eq!(sizes(&engine.decide(at(2000))), [("n/a".into(), 4)]);
}

#[test]
fn a_plan_that_lost_a_pod_is_made_again_for_all() {
    let mut engine = engine(&[("n0", 1), ("n1", 1), ("n2", 3)]);
    engine.model.put_gang(gang("a", &[("c", 2)], None));
    pods(&mut engine, "a", "c", 2);
    let decision = engine.decide(at(0));
    let commit = &decision.commits[0];
    let mut record = (*gang("a", &[("c", 2)], None)).clone();
    record.plan = commit.store.clone().expect("two bindings");
    engine.model.put_gang(Arc::new(record));
    // Neither was bound, and one was replaced under its name meanwhile.
    commit.bindings.iter().for_each(|bind| engine.not_bound(&bind.pod.key));
    engine.done(&commit.gang);
    engine
        .model
        .put_pod(&replacement(&commit.bindings[0].pod.key.name, "a", "c", 2).record());
    let again = engine.decide(at(1));
    assert_eq!(sizes(&again), [("n/a".into(), 2)]);
    assert!(again.commits[0].store.is_some(), "it is another plan");
}

#[test]
fn a_gang_bound_in_part_stays_when_one_of_its_pods_has_been_ready() {
    let mut engine = engine(&[("n0", 1), ("n1", 1)]);
    engine.model.put_gang(gang("a", &[("c", 2)], None));
    pods(&mut engine, "a", "c", 2);
    let decision = engine.decide(at(0));
    let mut commit = decision.commits[0].clone();
    let lost = commit.bindings.pop().expect("two bindings");
    carry_out(&mut engine, &commit, &[("c", 2)]);
    engine.not_bound(&lost.pod.key);
    engine.model.remove_nodes([lost.node.as_str()]);
    make_ready(&mut engine, &commit.bindings[0].pod.key);
    // It is no longer ready, and nothing of its status says that it was.
    let unready = sketch(&engine, &commit.bindings[0].pod.key);
    engine.model.put_pod(&unready.record());
    assert_eq!(decide_for_a_while(&mut engine), []);
}

#[test]
fn pods_that_were_to_complete_a_gang_are_not_released_with_the_rest() {
    let mut engine = engine(&[("n0", 1), ("n1", 1), ("n2", 1)]);
    engine.model.put_gang(gang("a", &[("c", 3)], None));
    pods(&mut engine, "a", "c", 3);
    let decision = engine.decide(at(0));
    carry_out(&mut engine, &decision.commits[0], &[("c", 3)]);
    // Two pods are replaced; one of the two is bound, and there is no room for the other.
    let bindings = &decision.commits[0].bindings;
    for bind in &bindings[..2] {
        engine.model.remove_pod(&bind.pod.key);
        engine
            .model
            .put_pod(&replacement(&bind.pod.key.name, "a", "c", 2).record());
    }
    let decision = engine.decide(at(1));
    let mut commit = decision.commits[0].clone();
    assert_eq!(commit.bindings.len(), 2);
    let lost = commit.bindings.pop().expect("two bindings");
    carry_out(&mut engine, &commit, &[("c", 3)]);
    engine.not_bound(&lost.pod.key);
    engine.model.remove_nodes([lost.node.as_str()]);
    assert_eq!(decide_for_a_while(&mut engine), []);
}
