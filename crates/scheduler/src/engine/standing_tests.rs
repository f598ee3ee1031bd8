//! What gangs are told of themselves, when writes of their status are lost, come late, or are made by others.

use std::sync::Arc;

use serde_json::json;

use super::tests::{acknowledge, at, bind, engine, pods, sizes};
use super::*;
use crate::model::GangRecord;
use crate::model::testing::{PodSketch, gang, key};

/// The gang, as it is read when its condition says this.
fn saying(floor: u32, says: Option<(&str, &str, &str)>) -> Arc<GangRecord> {
    let conditions = says.map(|(status, reason, message)| {
        json!([{"type": "Placed", "status": status, "reason": reason, "message": message,
            "lastTransitionTime": "2026-01-01T00:00:00Z"}])
    });
    let object = json!({
        "metadata": {"name": "a", "namespace": "n", "uid": "a", "resourceVersion": "2"},
        "spec": {"podgroups": [{"name": "c", "podReferences": [], "minReplicas": floor}]},
        "status": {"phase": "Pending", "conditions": conditions.unwrap_or_else(|| json!([]))},
    });
    Arc::new(GangRecord::of(&serde_json::from_value(object).expect("a gang")).expect("stored"))
}

fn names(decision: &Decision) -> Vec<&str> {
    let gangs = decision
        .confirmations
        .iter()
        .map(|confirmation| &*confirmation.gang.name);
    gangs.collect()
}

#[test]
fn a_gang_is_called_placed_once_its_pods_are_seen_bound() {
    let mut engine = engine(&[("n0", 2)]);
    engine.model.put_gang(saying(2, None));
    pods(&mut engine, "a", "c", 2);
    let decision = engine.decide(at(0));
    engine.done(&decision.commits[0].gang);
    assert_eq!(names(&engine.decide(at(1))), [""; 0], "they are not seen bound yet");
    bind(&mut engine, &decision.commits[0]);
    let decision = engine.decide(at(2));
    assert_eq!(decision.confirmations[0].message, "2 pods are bound");
    acknowledge(&mut engine, &decision);
    engine
        .model
        .put_gang(saying(2, Some(("True", "Placed", "2 pods are bound"))));
    assert_eq!(engine.decide(at(3)), Decision::default(), "it says so now");
}

#[test]
fn a_late_no_does_not_outlive_the_binding_of_the_pods() {
    let mut engine = engine(&[("n0", 2)]);
    engine.model.put_gang(saying(2, None));
    pods(&mut engine, "a", "c", 2);
    let decision = engine.decide(at(0));
    bind(&mut engine, &decision.commits[0]);
    let decision = engine.decide(at(1));
    assert_eq!(names(&decision), ["a"]);
    acknowledge(&mut engine, &decision);
    // A write of somebody who no longer leads arrives after ours.
    engine
        .model
        .put_gang(saying(2, Some(("False", "WaitingForPods", "c: 1 of 2 pods"))));
    assert_eq!(names(&engine.decide(at(2))), ["a"]);
}

#[test]
fn what_a_gang_could_not_be_told_is_told_after_a_while() {
    let mut engine = engine(&[("n0", 2)]);
    engine
        .model
        .put_gang(saying(2, Some(("False", "InsufficientResources", "no room"))));
    pods(&mut engine, "a", "c", 2);
    let decision = engine.decide(at(0));
    bind(&mut engine, &decision.commits[0]);
    let decision = engine.decide(at(1));
    assert_eq!(names(&decision), ["a"]);
    assert_eq!(names(&engine.decide(at(1))), [""; 0], "one writer at a time");
    engine.done(&GangId::Gang(key("a")));
    engine.confirmed(&key("a"), false, at(1));
    let decision = engine.decide(at(2));
    assert_eq!((names(&decision).len(), decision.wake), (0, Some(at(6))));
    assert_eq!(names(&engine.decide(at(6))), ["a"]);
}

#[test]
fn whoever_starts_next_calls_placed_what_others_bound() {
    let mut first = engine(&[("n0", 2)]);
    first
        .model
        .put_gang(saying(2, Some(("False", "InsufficientResources", "no room"))));
    pods(&mut first, "a", "c", 2);
    let decision = first.decide(at(0));
    bind(&mut first, &decision.commits[0]);
    let mut next = Engine::new(first.model.rebuilt(), Settings::default());
    assert_eq!(names(&next.decide(at(1))), [""; 0], "the operator may report first");
    let decision = next.decide(at(3));
    assert_eq!(names(&decision), ["a"]);
    assert!((decision.confirmations[0].score - 1.0).abs() < f64::EPSILON);
}

#[test]
fn gangs_of_other_schedulers_and_gangs_below_their_floors_are_not_ours_to_call_placed() {
    let mut engine = engine(&[("n0", 3)]);
    engine.model.put_gang(saying(2, None));
    for (index, foreign) in [(0, true), (1, true)] {
        let mut pod = PodSketch::new(&format!("a-c-{index}"), "a", "c");
        (pod.foreign, pod.node) = (foreign, Some("n0".into()));
        engine.model.put_pod(&pod.record());
    }
    assert_eq!(names(&engine.decide(at(0))), [""; 0]);
    let mut pod = PodSketch::new("a-c-0", "a", "c");
    pod.node = Some("n0".into());
    engine.model.put_pod(&pod.record());
    engine.model.remove_pod(&key("a-c-1"));
    assert_eq!(names(&engine.decide(at(1))), [""; 0], "one of two");
}

#[test]
fn a_gang_is_told_no_again_when_only_its_own_condition_is_missing() {
    let mut engine = engine(&[("n0", 1)]);
    engine.model.put_gang(saying(2, None));
    pods(&mut engine, "a", "c", 2);
    let decision = engine.decide(at(0));
    let reason = decision.reports[0].reason.clone();
    acknowledge(&mut engine, &decision);
    let decision = engine.decide(at(10));
    assert!(decision.reports[0].whole, "the write of the condition was lost");
    acknowledge(&mut engine, &decision);
    engine
        .model
        .put_gang(saying(2, Some(("False", reason.code.as_str(), &reason.message))));
    for index in 0..2 {
        let mut pod = (**engine.model.pod(&key(&format!("a-c-{index}"))).expect("there")).clone();
        pod.reported_reason = Some(reason_text(&reason).into());
        engine.model.put_pod(&Arc::new(pod));
    }
    assert_eq!(sizes(&engine.decide(at(20))), []);
    assert_eq!(engine.decide(at(30)).reports, [], "everybody knows");
}

#[test]
fn the_operator_has_the_first_word() {
    let mut engine = engine(&[("n0", 2)]);
    engine.settings.first_word = SignedDuration::from_secs(2);
    engine.model.put_gang(gang("a", &[("c", 1)], None));
    pods(&mut engine, "a", "c", 1);
    let decision = engine.decide(at(0));
    bind(&mut engine, &decision.commits[0]);
    let decision = engine.decide(at(1));
    assert_eq!(decision.confirmations, [], "the operator has reported nothing yet");
    assert_eq!(decision.wake, Some(at(3)));
    let mut reported = engine.model.clone();
    let mut record = (**engine.model.gang(&key("a")).unwrap()).clone();
    record.phase = Some(coppice_api::types::PodGangPhase::Running);
    engine.model.put_gang(std::sync::Arc::new(record));
    assert_eq!(
        engine.decide(at(1)).confirmations.len(),
        1,
        "it has reported all there is"
    );
    // An operator that reports nothing is not waited for.
    std::mem::swap(&mut engine.model, &mut reported);
    engine.done(&GangId::Gang(key("a")));
    assert_eq!(engine.decide(at(3)).confirmations.len(), 1);
}
