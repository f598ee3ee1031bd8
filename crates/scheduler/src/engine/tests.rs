//! Decisions on small clusters.

use std::sync::Arc;

use serde_json::json;

use super::*;
use crate::model::StoredPlan;
use crate::model::testing::{PodSketch, gang, key, node};

pub(super) fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).expect("in range")
}

pub(super) fn engine(nodes: &[(&str, u32)]) -> Engine {
    let mut model = Model::new(["coppice"]);
    model.put_nodes(nodes.iter().map(|(name, cpu)| node(name, "r", *cpu)));
    let settings = Settings {
        // Sketches of pods are as old as the world; only tests about starvation mind that.
        starvation: SignedDuration::MAX,
        // There is no operator.
        first_word: SignedDuration::ZERO,
        ..Settings::default()
    };
    Engine::new(model, settings)
}

pub(super) fn pods(engine: &mut Engine, gang: &str, clique: &str, count: u32) {
    for index in 0..count {
        let pod = PodSketch::new(&format!("{gang}-{clique}-{index}"), gang, clique);
        engine.model.put_pod(&pod.record());
    }
}

pub(super) fn pods_of_priority(engine: &mut Engine, gang: &str, clique: &str, count: u32, priority: i32) {
    for index in 0..count {
        let mut pod = PodSketch::new(&format!("{gang}-{clique}-{index}"), gang, clique);
        pod.priority = priority;
        engine.model.put_pod(&pod.record());
    }
}

pub(super) fn bind(engine: &mut Engine, commit: &Commit) {
    for bind in &commit.bindings {
        let mut pod = sketch(engine, &bind.pod.key);
        pod.node = Some(bind.node.clone());
        engine.model.put_pod(&pod.record());
    }
    engine.done(&commit.gang);
}

pub(super) fn acknowledge(engine: &mut Engine, decision: &Decision) {
    let whole = decision.reports.iter().filter(|report| report.whole);
    whole.for_each(|report| engine.done(&report.gang));
    for confirmation in &decision.confirmations {
        engine.done(&GangId::Gang(confirmation.gang.clone()));
        engine.confirmed(&confirmation.gang, true, at(0));
    }
}

pub(super) fn sketch(engine: &Engine, key: &ObjectKey) -> PodSketch {
    let record = engine.model.pod(key).expect("it exists");
    let label = |name: &str| record.label(name).map(ToString::to_string).unwrap_or_default();
    let mut pod = PodSketch::new(&key.name, &label("grove.io/podgang"), &label("grove.io/podclique"));
    pod.node = record.node.as_ref().map(ToString::to_string);
    pod.deleting = record.deleting;
    pod.priority = record.priority;
    pod.uid = record
        .meta
        .uid
        .rsplit('-')
        .next()
        .and_then(|uid| uid.parse().ok())
        .expect("as sketched");
    pod
}

pub(super) fn sizes(decision: &Decision) -> Vec<(String, usize)> {
    let size = |commit: &Commit| (commit.gang.to_string(), commit.bindings.len());
    decision.commits.iter().map(size).collect()
}

#[test]
fn floors_of_all_come_before_extras_of_anyone() {
    let mut engine = engine(&[("n0", 5)]);
    for name in ["a", "b"] {
        engine.model.put_gang(gang(name, &[("c", 2)], None));
        pods(&mut engine, name, "c", 4);
    }
    let decision = engine.decide(at(0));
    assert_eq!(sizes(&decision), [("n/a".into(), 3), ("n/b".into(), 2)]);
    assert!(decision.commits.iter().all(|commit| commit.store.is_some()));
    assert_eq!(engine.decide(at(1)).commits, [], "everything is under way");
}

#[test]
fn a_gang_that_does_not_fit_gets_nothing_and_is_told_once() {
    let mut engine = engine(&[("n0", 2)]);
    engine.model.put_gang(gang("a", &[("c", 3)], None));
    pods(&mut engine, "a", "c", 3);
    let decision = engine.decide(at(0));
    assert_eq!(decision.commits, []);
    assert_eq!(decision.reports[0].reason.code, ReasonCode::InsufficientResources);
    assert_eq!(decision.reports[0].pods.len(), 3);
    acknowledge(&mut engine, &decision);
    // As long as the pods do not carry the message, it is told again, but not at once.
    engine.model.put_nodes([node("n1", "r", 5)]);
    assert_eq!(sizes(&engine.decide(at(1))), [("n/a".into(), 3)]);
}

#[test]
fn a_binding_that_failed_is_planned_again() {
    let mut engine = engine(&[("n0", 1), ("n1", 1), ("n2", 1)]);
    engine.model.put_gang(gang("a", &[("c", 2)], None));
    pods(&mut engine, "a", "c", 2);
    let mut decision = engine.decide(at(0));
    let commit = &mut decision.commits[0];
    let lost = commit.bindings.pop().expect("two bindings");
    bind(&mut engine, &commit.clone());
    engine.not_bound(&lost.pod.key);
    engine.model.remove_nodes([lost.node.as_str()]);
    let again = engine.decide(at(1));
    assert_eq!(sizes(&again), [("n/a".into(), 1)]);
    assert_eq!(again.commits[0].store, None, "one binding is one write");
    assert_ne!(again.commits[0].bindings[0].node, lost.node);
}

fn half_bound(cpu: u32) -> Engine {
    let mut engine = engine(&[("n0", 1), ("n1", cpu)]);
    let mut record = (*gang("a", &[("c", 2)], None)).clone();
    record.plan = StoredPlan::new([("a-c-0-1", "n0"), ("a-c-1-1", "n1")]);
    engine.model.put_gang(Arc::new(record));
    pods(&mut engine, "a", "c", 2);
    let mut bound = PodSketch::new("a-c-0", "a", "c");
    bound.node = Some("n0".into());
    engine.model.put_pod(&bound.record());
    engine
}

#[test]
fn a_stored_plan_is_completed_by_whoever_starts_next() {
    let mut engine = half_bound(3);
    engine.model.put_nodes([node("n2", "r", 1)]);
    let decision = engine.decide(at(0));
    assert_eq!(
        decision.commits[0].bindings[0].node, "n1",
        "as planned, though n2 would be tighter"
    );
    assert_eq!(decision.commits[0].store, None);
}

#[test]
fn a_gang_bound_in_part_is_released_when_it_cannot_be_completed() {
    let mut engine = half_bound(0);
    let decision = engine.decide(at(0));
    assert_eq!((decision.commits.len(), decision.releases.len()), (0, 0));
    assert_eq!(decision.wake, Some(at(30)));
    let decision = engine.decide(at(30));
    let names: Vec<&str> = decision.releases[0].pods.iter().map(|pod| &*pod.key.name).collect();
    assert_eq!(names, ["a-c-0"]);
}

#[test]
fn a_gang_that_was_whole_is_never_released() {
    let mut engine = half_bound(0);
    engine.model.remove_pod(&key("a-c-1"));
    engine.model.put_pod(&PodSketch::new("a-c-2", "a", "c").record());
    engine.decide(at(0));
    assert_eq!(engine.decide(at(1000)).releases, []);
}

pub(super) fn two_priorities() -> Engine {
    let mut engine = engine(&[("n0", 2), ("n1", 2)]);
    engine.model.put_gang(gang("old", &[("c", 4)], None));
    pods_of_priority(&mut engine, "old", "c", 4, 1);
    let decision = engine.decide(at(0));
    bind(&mut engine, &decision.commits[0]);
    engine.model.put_gang(gang("new", &[("c", 2)], None));
    pods_of_priority(&mut engine, "new", "c", 2, 10);
    engine
}

#[test]
fn a_gang_of_high_priority_evicts_a_whole_gang_and_its_room_is_held() {
    let mut engine = two_priorities();
    let decision = engine.decide(at(1));
    assert_eq!(decision.commits, []);
    let eviction = &decision.evictions[0];
    assert_eq!(eviction.victims["n/old"].len(), 4, "a gang goes as a whole");
    let plan = eviction.store.clone().expect("without a stored plan nobody goes");
    assert_eq!(plan.uids.values().flatten().count(), 2);
    // Somebody small comes by while the victims end.
    engine.model.put_gang(gang("late", &[("c", 1)], None));
    pods(&mut engine, "late", "c", 1);
    for victim in eviction.victims.values().flatten() {
        let mut pod = sketch(&engine, &victim.key);
        pod.deleting = true;
        engine.model.put_pod(&pod.record());
    }
    engine.done(&eviction.gang);
    let decision = engine.decide(at(2));
    assert_eq!(
        (decision.commits.len(), decision.evictions.len()),
        (0, 0),
        "{decision:?}"
    );
    acknowledge(&mut engine, &decision);
    for index in 0..3 {
        engine.model.remove_pod(&key(&format!("old-c-{index}")));
    }
    let decision = engine.decide(at(3));
    assert_eq!(sizes(&decision)[0], ("n/new".into(), 2));
}

#[test]
fn the_index_of_running_gangs_is_kept_between_decisions() {
    let mut engine = two_priorities();
    let decision = engine.decide(at(1));
    assert_eq!((engine.incumbency.built, decision.evictions.len()), (1, 1));
    engine.done(&decision.evictions[0].gang);
    let before = engine.incumbency.changed;
    for round in 0..20 {
        let decision = engine.decide(at(2 + round));
        acknowledge(&mut engine, &decision);
        // Victims that were not evicted after all are found again.
        assert_eq!(decision.evictions.len(), 1, "{decision:?}");
        engine.done(&decision.evictions[0].gang);
    }
    assert_eq!(engine.incumbency.built, 1, "nothing happened that moves everything");
    assert_eq!(
        engine.incumbency.changed - before,
        20,
        "one gang in each decision: the victim"
    );
    engine.model.put_nodes([node("n2", "r", 0)]);
    engine.decide(at(100));
    assert_eq!(engine.incumbency.built, 2, "a node came");
}

#[test]
fn what_the_scheduler_cannot_honour_is_refused_for_the_whole_gang() {
    for (fields, names) in [
        (
            json!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "x"}]}),
            "gpu",
        ),
        (
            json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]}),
            "spread",
        ),
        (
            json!({"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "z"}]}}}),
            "affinity",
        ),
        (
            json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}]}}}),
            "zone",
        ),
    ] {
        let mut engine = engine(&[("n0", 8)]);
        engine.model.put_gang(gang("a", &[("c", 1), ("d", 1)], None));
        pods(&mut engine, "a", "c", 1);
        engine
            .model
            .put_pod(&PodSketch::new("a-d-0", "a", "d").record_with(&fields));
        let decision = engine.decide(at(0));
        assert_eq!((decision.commits.len(), decision.evictions.len()), (0, 0), "{fields}");
        let reason = &decision.reports[0].reason;
        assert_eq!(reason.code, ReasonCode::Unsupported, "{fields}");
        assert!(reason.message.contains(names), "{fields}: {}", reason.message);
    }
}

#[test]
fn who_was_refused_because_of_held_room_gets_it_when_it_is_held_no_longer() {
    let mut engine = engine(&[("n0", 2)]);
    let mut ending = PodSketch::new("ending", "", "");
    (ending.gang, ending.node, ending.deleting) = (None, Some("n0".into()), true);
    engine.model.put_pod(&ending.record());
    for (name, floor) in [("large", 2), ("small", 1)] {
        let mut record = (*gang(name, &[("c", floor)], None)).clone();
        record.replica = None;
        engine.model.put_gang(Arc::new(record));
        pods(&mut engine, name, "c", floor);
    }
    let decision = engine.decide(at(0));
    assert_eq!(
        sizes(&decision),
        [],
        "the room is held for the large one, which waits for the pod that ends"
    );
    acknowledge(&mut engine, &decision);
    (0..2).for_each(|index| engine.model.remove_pod(&key(&format!("large-c-{index}"))));
    assert_eq!(sizes(&engine.decide(at(1))), [("n/small".into(), 1)]);
}

#[test]
fn nobody_is_evicted_for_an_equal_or_by_a_lower_one() {
    for priority in [0, 1] {
        let mut engine = two_priorities();
        pods_of_priority(&mut engine, "new", "c", 2, priority);
        assert_eq!(engine.decide(at(1)).evictions, []);
    }
}

#[test]
fn room_is_kept_for_whoever_has_waited_for_long() {
    let mut engine = engine(&[("n0", 4)]);
    engine.settings.starvation = SignedDuration::from_secs(60);
    engine.model.put_gang(gang("first", &[("c", 2)], None));
    pods(&mut engine, "first", "c", 2);
    let decision = engine.decide(at(0));
    bind(&mut engine, &decision.commits[0]);
    engine.model.put_gang(gang("large", &[("c", 4)], None));
    pods(&mut engine, "large", "c", 4);
    engine.model.put_gang(gang("small", &[("c", 1)], None));
    pods(&mut engine, "small", "c", 1);
    let decision = engine.decide(at(1));
    assert_eq!(sizes(&decision), [], "pods without a date have waited for ever");
    acknowledge(&mut engine, &decision);
    engine.settings.starvation = SignedDuration::MAX;
    assert_eq!(
        sizes(&engine.decide(at(2))),
        [("n/small".into(), 1)],
        "otherwise the small one slips in"
    );
}

#[test]
fn messages_are_bounded() {
    let text = report::bounded(&"ä".repeat(1000));
    assert!(text.len() <= LONGEST_MESSAGE && text.ends_with("..."));
}
