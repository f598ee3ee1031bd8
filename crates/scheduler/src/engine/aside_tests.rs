//! Gangs about which deciding panics: they are set aside, and everything else goes on as if they were not there.

use std::sync::Arc;

use super::tests::{acknowledge, at, bind, engine, pods, sizes};
use super::*;
use crate::model::testing::{PodSketch, gang, gang_id, key, node};

/// An engine with room for two pods, and gangs `a` and `b` of two pods each; planning for `a` panics.
fn faulty(fault: impl Fn(&Question, &mut Model) + Send + Sync + 'static) -> Engine {
    let mut engine = engine(&[("n0", 1), ("n1", 1)]);
    for name in ["a", "b"] {
        let mut record = (*gang(name, &[("c", 2)], None)).clone();
        record.replica = None;
        engine.model.put_gang(Arc::new(record));
        pods(&mut engine, name, "c", 2);
    }
    engine.before_plan = Some(Arc::new(move |question, model| {
        if question.gang.name == "n/a" {
            fault(question, model);
        }
    }));
    engine
}

#[test]
fn a_panic_sets_its_gang_aside_and_every_other_gang_goes_on() {
    let mut engine = faulty(|_, _| panic!("a bug"));
    let decision = engine.decide(at(0));
    assert_eq!(sizes(&decision), [("n/b".into(), 2)]);
    assert_eq!(decision.set_aside.len(), 1);
    assert_eq!(decision.set_aside[0].message, "a bug");
    let report = &decision.reports[0];
    assert_eq!(report.reason.code, ReasonCode::InternalError);
    assert!(report.whole && report.reason.message.contains("a bug"), "{report:?}");
    assert_eq!(decision.wake, Some(at(10)), "a time, not a loop");
}

#[test]
fn a_gang_that_is_set_aside_is_tried_again_later_and_later() {
    let mut engine = faulty(|_, _| panic!("a bug"));
    let mut now = 0;
    for delay in [10, 20, 40, 80, 160, 320, 600, 600] {
        let decision = engine.decide(at(now));
        acknowledge(&mut engine, &decision);
        assert_eq!(decision.set_aside.len(), 1, "{now}");
        let decision = engine.decide(at(now + delay - 1));
        acknowledge(&mut engine, &decision);
        assert_eq!((decision.set_aside.len(), decision.wake), (0, Some(at(now + delay))));
        now += delay;
    }
    engine.before_plan = None;
    engine.model.put_nodes([node("n2", "r", 2)]);
    assert!(sizes(&engine.decide(at(now))).contains(&("n/a".into(), 2)));
    assert!(engine.aside.is_empty(), "the next panic counts from the beginning");
}

#[test]
fn whatever_was_placed_tentatively_is_taken_back() {
    let mut engine = faulty(|question, model| {
        let (node, shape) = (model.state().node_id("n0").unwrap(), question.gang.groups[0].shape);
        model.state_mut().place(node, shape, 1);
        panic!("half way");
    });
    engine.model.remove_gang(&key("b"));
    engine.model.question(&gang_id("a")).expect("its pods wait");
    let before = engine.model.state().clone();
    assert_eq!(engine.decide(at(0)).set_aside.len(), 1);
    assert_eq!(*engine.model.state(), before);
}

#[test]
fn a_model_that_a_panic_left_half_changed_is_built_again() {
    let mut engine = faulty(|_, model| {
        // A pod is taken away that is not there: the sums of the state are half changed when that is noticed.
        let (node, shape) = (model.state().node_id("n0").unwrap(), Default::default());
        let shape = model.state_mut().shape(&shape);
        model.state_mut().lift(node, shape, 1);
    });
    let decision = engine.decide(at(0));
    assert_eq!(sizes(&decision), [("n/b".into(), 2)]);
    assert_eq!(decision.set_aside.len(), 1);
    assert_eq!(engine.model.state().recomputed(), *engine.model.state());
    bind(&mut engine, &decision.commits[0]);
    assert!(!engine.model.is_torn());
    assert_eq!(sizes(&engine.decide(at(1))), []);
}

#[test]
fn a_panic_over_extras_leaves_the_floors() {
    let mut engine = engine(&[("n0", 3)]);
    engine.model.put_gang(gang("a", &[("c", 2)], None));
    pods(&mut engine, "a", "c", 3);
    engine.before_plan = Some(Arc::new(|question, _| {
        assert!(!question.begun, "a bug that only extras meet");
    }));
    let decision = engine.decide(at(0));
    assert_eq!(sizes(&decision), [("n/a".into(), 2)]);
    assert_eq!(decision.set_aside.len(), 1);
}

#[test]
fn an_object_that_makes_the_model_panic_is_left_out() {
    let mut engine = faulty(|_, _| ());
    engine.model.faulty.insert(key("x"));
    let mut pod = PodSketch::new("x", "b", "c");
    for placed in [None, Some("n1".to_owned())] {
        pod.node = placed;
        engine.model.take_in_pod(&pod.record());
        let rejected = engine.model.take_rejected();
        assert!(rejected.iter().all(|rejected| rejected.key == key("x")) && !rejected.is_empty());
        assert!(engine.model.pod(&key("x")).is_none());
        assert!(!engine.model.is_torn());
    }
    assert_eq!(
        sizes(&engine.decide(at(0))),
        [("n/a".into(), 2)],
        "the others are placed"
    );
    engine.model.faulty.clear();
    engine.model.take_in_pod(&pod.record());
    assert!(
        engine.model.pod(&key("x")).is_some(),
        "it is taken in when it has changed"
    );
}

#[test]
fn pods_that_make_a_recovery_panic_are_left_out_too() {
    let mut engine = faulty(|_, _| ());
    engine.model.faulty.extend([key("a-c-0"), key("b-c-1")]);
    engine.model.recover();
    let rejected: Vec<_> = engine.model.take_rejected().into_iter().map(|it| it.key).collect();
    assert_eq!(rejected, [key("a-c-0"), key("b-c-1")]);
    assert_eq!(engine.model.pods().count(), 2);
}
