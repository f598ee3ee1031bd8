//! Room that is held: how long, for whom, and who may pass.

use std::sync::Arc;

use super::tests::{acknowledge, at, bind, engine, pods, sizes};
use super::*;
use crate::model::testing::{PodSketch, gang, node};

const MINUTE: i64 = 60;

/// Ten nodes with room for one pod each, one of them taken, and a gang of ten pods that has waited for long.
fn ten_nodes() -> Engine {
    let names: Vec<String> = (0..10).map(|number| format!("n{number}")).collect();
    let nodes: Vec<(&str, u32)> = names.iter().map(|name| (name.as_str(), 1)).collect();
    let mut engine = engine(&nodes);
    engine.settings.starvation = SignedDuration::from_mins(5);
    resident(&mut engine, "taken", "n0");
    add(&mut engine, "large", 10);
    engine
}

fn resident(engine: &mut Engine, name: &str, node: &str) {
    let mut pod = PodSketch::new(name, "", "");
    (pod.gang, pod.node) = (None, Some(node.to_owned()));
    engine.model.put_pod(&pod.record());
}

fn add(engine: &mut Engine, name: &str, floor: u32) {
    let mut record = (*gang(name, &[("c", floor)], None)).clone();
    record.replica = None;
    engine.model.put_gang(Arc::new(record));
    pods(engine, name, "c", floor);
}

fn reason_of(decision: &Decision, gang: &str) -> String {
    let report = decision.reports.iter().find(|report| report.gang.to_string() == gang);
    report.map(|report| reason_text(&report.reason)).unwrap_or_default()
}

fn decide(engine: &mut Engine, seconds: i64) -> Decision {
    let decision = engine.decide(at(seconds));
    acknowledge(engine, &decision);
    decision
}

#[test]
fn room_is_held_for_a_limited_time_and_then_others_have_their_turn() {
    let mut engine = ten_nodes();
    add(&mut engine, "small", 1);
    let decision = decide(&mut engine, 0);
    assert_eq!(sizes(&decision), [], "room is held for the large gang");
    let reason = reason_of(&decision, "n/small");
    assert_eq!(reason, "RoomHeld: there is room, and it is held for n/large");
    assert_eq!(sizes(&decide(&mut engine, 5 * MINUTE - 1)), []);
    assert_eq!(sizes(&decide(&mut engine, 5 * MINUTE)), [("n/small".into(), 1)]);
}

#[test]
fn the_deadlines_of_holding_wake_the_scheduler() {
    let mut engine = ten_nodes();
    engine.settings.retell = SignedDuration::from_hours(1);
    assert_eq!(
        decide(&mut engine, 0).wake,
        Some(at(5 * MINUTE)),
        "the room is given up"
    );
    let decision = decide(&mut engine, 5 * MINUTE);
    assert_eq!(decision.wake, Some(at(10 * MINUTE)), "the gang may have it again");
}

#[test]
fn a_small_gang_passes_where_the_holder_waits_for_no_more_than_before() {
    // Two racks of two: the large gang needs one whole rack. In each one pod must leave first.
    let mut engine = engine(&[]);
    engine.settings.starvation = SignedDuration::from_mins(5);
    engine
        .model
        .set_topologies([("t".to_owned(), vec!["rack".to_owned()])].into());
    let nodes = [("a0", "a"), ("a1", "a"), ("b0", "b"), ("b1", "b")];
    engine.model.put_nodes(nodes.map(|(name, rack)| node(name, rack, 1)));
    resident(&mut engine, "one", "a0");
    resident(&mut engine, "two", "b0");
    let mut record = (*gang("large", &[("c", 2)], Some("rack"))).clone();
    record.replica = None;
    engine.model.put_gang(Arc::new(record));
    pods(&mut engine, "large", "c", 2);
    add(&mut engine, "small", 1);
    let decision = decide(&mut engine, 0);
    assert_eq!(
        sizes(&decision),
        [("n/small".into(), 1)],
        "one rack is enough for the holder"
    );
    bind(&mut engine, &decision.commits[0]);
    add(&mut engine, "late", 1);
    let decision = decide(&mut engine, 1);
    assert_eq!(sizes(&decision), [], "the other rack is not given away");
    assert!(
        reason_of(&decision, "n/late").contains("held for n/large"),
        "{decision:?}"
    );
}

#[test]
fn pods_that_never_end_do_not_hold_room_for_ever() {
    let mut engine = engine(&[("n0", 1), ("n1", 1)]);
    let mut stuck = PodSketch::new("stuck", "", "");
    (stuck.gang, stuck.node, stuck.deleting) = (None, Some("n0".into()), true);
    engine.model.put_pod(&stuck.record());
    add(&mut engine, "large", 2);
    add(&mut engine, "small", 1);
    assert_eq!(sizes(&decide(&mut engine, 0)), []);
    assert_eq!(sizes(&decide(&mut engine, 5 * MINUTE)), [("n/small".into(), 1)]);
}

#[test]
fn gangs_take_turns_in_holding_room() {
    let mut engine = ten_nodes();
    add(&mut engine, "larger", 10);
    let mut holders = Vec::new();
    for round in 0..4 {
        let now = round * 5 * MINUTE;
        let decision = decide(&mut engine, now);
        assert_eq!(sizes(&decision), []);
        holders.extend(
            decision
                .reports
                .iter()
                .filter(|it| it.reason.message.contains("kept for it"))
                .map(|it| it.gang.to_string()),
        );
    }
    assert_eq!(holders, ["n/large", "n/larger", "n/large", "n/larger"]);
}

#[test]
fn namespaces_take_turns_in_holding_room() {
    let mut engine = ten_nodes();
    let questions: Vec<Question> = ["n/a", "n/b", "m/c"]
        .map(|name| {
            let id = GangId::Gang(attempt::key_of(name));
            let asked = engine.model.question(&crate::model::testing::gang_id("large"));
            Question {
                id,
                ..asked.expect("it waits")
            }
        })
        .into();
    let mut round = engine.round(at(0));
    let due: Vec<String> = engine
        .due(&questions, &mut round)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(due, ["m/c", "n/a", "n/b"]);
    engine.holding.serve(&questions[2].id, at(0));
    let due: Vec<String> = engine
        .due(&questions, &mut round)
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(due, ["n/a", "n/b", "m/c"]);
}
