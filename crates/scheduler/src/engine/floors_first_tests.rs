//! Nodes that come back one by one go to gangs below their minimum.

use super::tests::{acknowledge, at, bind, engine, pods, sizes};
use super::*;
use crate::model::testing::{PodSketch, gang_of_epoch, node};
use coppice_placement::Reason;

/// Decides, carries it out, and says what was bound.
fn step(engine: &mut Engine, seconds: i64) -> (Vec<(String, usize)>, Decision) {
    let decision = engine.decide(at(seconds));
    decision.commits.iter().for_each(|commit| bind(engine, commit));
    acknowledge(engine, &decision);
    (sizes(&decision), decision)
}

fn put_anchor(engine: &mut Engine, set: &str, name: &str, floor: u32, count: u32) {
    engine.model.put_gang(gang_of_epoch(
        (set, name),
        (1, "Anchor"),
        &[(&format!("{name}-c"), floor)],
        None,
    ));
    pods(engine, name, &format!("{name}-c"), count);
}

fn reason_of<'a>(decision: &'a Decision, gang: &str) -> Option<&'a Reason> {
    let report = decision.reports.iter().find(|report| report.gang.to_string() == gang);
    report.map(|report| &report.reason)
}

/// A gang with extras that is placed, and one of the other set that needs three nodes.
fn extras_and_a_waiting_floor(set_of_floor: &str) -> Engine {
    let mut engine = engine(&[("n0", 1)]);
    put_anchor(&mut engine, "s", "a", 1, 3);
    assert_eq!(step(&mut engine, 0).0, [("n/a".into(), 1)]);
    put_anchor(&mut engine, set_of_floor, "b", 3, 3);
    assert_eq!(step(&mut engine, 100).0, []);
    engine
}

#[test]
fn extras_of_a_set_wait_while_a_floor_of_it_does() {
    let mut engine = extras_and_a_waiting_floor("s");
    for (number, seconds) in [(1, 200), (2, 300)] {
        engine.model.put_nodes([node(&format!("n{number}"), "r", 1)]);
        let (bound, decision) = step(&mut engine, seconds);
        assert_eq!(bound, [], "node {number}");
        let reason = reason_of(&decision, "n/a").expect("its extras are told");
        assert_eq!(reason.code, ReasonCode::RoomHeld);
        assert!(reason.message.contains("n/b"), "{}", reason.message);
        assert_eq!(step(&mut engine, seconds + 60).0, [], "however long it takes");
    }
    engine.model.put_nodes([node("n3", "r", 1)]);
    assert_eq!(step(&mut engine, 400).0, [("n/b".into(), 3)]);
    engine.model.put_nodes([node("n4", "r", 2)]);
    assert_eq!(step(&mut engine, 500).0, [("n/a".into(), 2)]);
}

#[test]
fn extras_of_other_sets_wait_while_capacity_settles() {
    let mut engine = extras_and_a_waiting_floor("t");
    engine.model.put_nodes([node("n1", "r", 1)]);
    let (bound, decision) = step(&mut engine, 200);
    assert_eq!(bound, []);
    assert_eq!(decision.wake, Some(at(205)), "the window ends");
    engine.model.put_nodes([node("n2", "r", 1)]);
    assert_eq!(step(&mut engine, 204).0, []);
    assert_eq!(step(&mut engine, 208).0, [], "the window was renewed");
    engine.model.put_nodes([node("n3", "r", 1)]);
    assert_eq!(step(&mut engine, 208).0, [("n/b".into(), 3)], "in time");

    let mut engine = extras_and_a_waiting_floor("t");
    engine.model.put_nodes([node("n1", "r", 1)]);
    step(&mut engine, 200);
    assert_eq!(step(&mut engine, 205).0, [("n/a".into(), 1)], "nothing more came");
}

#[test]
fn the_window_does_not_stay_open_for_ever() {
    let mut engine = extras_and_a_waiting_floor("t");
    engine.model.put_nodes([node("n1", "r", 1)]);
    for seconds in 200..230 {
        engine
            .model
            .put_nodes([node("small", "r", 0), node(&format!("none-{seconds}"), "r", 0)]);
        assert_eq!(step(&mut engine, seconds).0, [], "at {seconds}");
    }
    assert_eq!(step(&mut engine, 230).0, [("n/a".into(), 1)]);
}

#[test]
fn scaled_gangs_wait_like_extras() {
    let mut engine = engine(&[("n0", 1)]);
    put_anchor(&mut engine, "s", "a", 1, 1);
    step(&mut engine, 0);
    put_anchor(&mut engine, "s", "b", 2, 2);
    engine
        .model
        .put_gang(gang_of_epoch(("s", "more"), (2, "Tail"), &[("more-c", 1)], None));
    // Its anchor is the first one: the second waits.
    let mut other = (**engine.model.gang(&crate::model::testing::key("b")).unwrap()).clone();
    other.replica.as_mut().unwrap().1 = 1;
    engine.model.put_gang(std::sync::Arc::new(other));
    pods(&mut engine, "more", "more-c", 1);
    engine.model.put_nodes([node("n1", "r", 1)]);
    let (bound, decision) = step(&mut engine, 100);
    assert_eq!(bound, []);
    assert_eq!(reason_of(&decision, "n/more").unwrap().code, ReasonCode::RoomHeld);
    engine.model.put_nodes([node("n2", "r", 1)]);
    assert_eq!(step(&mut engine, 200).0, [("n/b".into(), 2)]);
    engine.model.put_nodes([node("n3", "r", 1)]);
    assert_eq!(step(&mut engine, 300).0, [("n/more".into(), 1)]);
}

#[test]
fn what_a_waiting_floor_cannot_use_is_not_kept() {
    let mut engine = engine(&[("n0", 1), ("large", 2)]);
    put_anchor(&mut engine, "s", "a", 1, 3);
    engine
        .model
        .put_gang(gang_of_epoch(("s", "b"), (1, "Anchor"), &[("b-c", 2)], None));
    for index in 0..2 {
        let mut pod = PodSketch::new(&format!("b-c-{index}"), "b", "b-c");
        pod.cpu = 2;
        engine.model.put_pod(&pod.record());
    }
    assert_eq!(step(&mut engine, 0).0, [("n/a".into(), 1)], "the large node is kept");
    engine.model.put_nodes([node("n1", "r", 1)]);
    assert_eq!(
        step(&mut engine, 100).0,
        [("n/a".into(), 1)],
        "a small one is of no use to it"
    );
    // A pod that fits on no node keeps nothing from anybody.
    for index in 0..2 {
        let mut pod = PodSketch::new(&format!("b-c-{index}"), "b", "b-c");
        pod.cpu = 9;
        engine.model.put_pod(&pod.record());
    }
    assert_eq!(step(&mut engine, 200).0, [("n/a".into(), 1)]);
}
