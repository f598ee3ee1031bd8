//! What pods and gangs that wait are told, how often, and whether it is true.

use std::sync::Arc;

use super::tests::{acknowledge, at, bind, engine, pods, sizes, sketch};
use super::*;
use crate::model::Standing;
use crate::model::testing::{PodSketch, gang, key, node};

/// Puts what was reported into the conditions of the pods and of the gang, as the API server would.
fn tell(engine: &mut Engine, decision: &Decision) {
    for report in &decision.reports {
        for pod in &report.pods {
            let mut record = (**engine.model.pod(&pod.key).expect("it exists")).clone();
            record.reported_reason = Some(reason_text(&report.reason).into());
            engine.model.put_pod(&Arc::new(record));
        }
        if let GangId::Gang(key) = &report.gang {
            let mut record = (**engine.model.gang(key).expect("it exists")).clone();
            record.standing = Some(Standing::refused(&report.reason));
            engine.model.put_gang(Arc::new(record));
        }
    }
    acknowledge(engine, decision);
}

fn reasons(decision: &Decision) -> Vec<String> {
    decision
        .reports
        .iter()
        .map(|report| report.reason.message.clone())
        .collect()
}

#[test]
fn the_reason_of_a_gang_that_waits_follows_the_truth_in_bounded_writes() {
    let names: Vec<String> = (0..5).map(|number| format!("n{number}")).collect();
    let mut engine = engine(&names.iter().map(|name| (name.as_str(), 1)).collect::<Vec<_>>());
    engine.model.put_gang(gang("a", &[("c", 6)], None));
    pods(&mut engine, "a", "c", 6);
    let decision = engine.decide(at(0));
    assert_eq!(
        reasons(&decision),
        ["n/a: the whole cluster is the best place and has room for 5 of 6 pods"]
    );
    tell(&mut engine, &decision);
    for number in 0..3 {
        let mut taken = PodSketch::new(&format!("taken-{number}"), "", "");
        (taken.gang, taken.node) = (None, Some(format!("n{number}")));
        engine.model.put_pod(&taken.record());
        let decision = engine.decide(at(10 + number));
        assert_eq!(
            (reasons(&decision), decision.wake),
            (vec![], Some(at(30))),
            "soon, not at once"
        );
    }
    let decision = engine.decide(at(30));
    assert_eq!(
        reasons(&decision),
        ["n/a: the whole cluster is the best place and has room for 2 of 6 pods"]
    );
    assert!(
        !decision.reports[0].events,
        "the condition says it; another event would say it twice"
    );
    tell(&mut engine, &decision);
    assert_eq!(reasons(&engine.decide(at(1000))), [""; 0], "nothing has changed");
}

#[test]
fn pods_get_an_event_when_the_reason_is_new_and_then_seldom() {
    let mut engine = engine(&[("n0", 1)]);
    engine.model.put_gang(gang("a", &[("c", 2)], None));
    pods(&mut engine, "a", "c", 2);
    let decision = engine.decide(at(0));
    assert!(decision.reports[0].events && decision.reports[0].pods.len() == 2);
    tell(&mut engine, &decision);
    for (number, (seconds, events)) in [(60, false), (120, false), (300, true), (360, false)]
        .into_iter()
        .enumerate()
    {
        engine
            .model
            .put_nodes([node("n0", "r", 1), node(&format!("m{number}"), "r", 0)]);
        let size = u32::from(number % 2 == 0);
        let mut taken = PodSketch::new("taken", "", "");
        (taken.gang, taken.node, taken.cpu) = (None, Some("n0".into()), size);
        engine.model.put_pod(&taken.record());
        let decision = engine.decide(at(seconds));
        assert_eq!(decision.reports.len(), 1, "{seconds}");
        assert_eq!(decision.reports[0].events, events, "{seconds}");
        tell(&mut engine, &decision);
    }
}

#[test]
fn the_replacement_of_one_clique_is_placed_while_another_lacks_a_node() {
    let mut engine = engine(&[("cpu", 1), ("gpu", 4)]);
    engine.model.put_gang(gang("a", &[("router", 1), ("decode", 1)], None));
    pods(&mut engine, "a", "router", 1);
    let mut decode = PodSketch::new("a-decode-0", "a", "decode");
    decode.cpu = 4;
    engine.model.put_pod(&decode.record());
    let decision = engine.decide(at(0));
    assert_eq!(sizes(&decision), [("n/a".into(), 2)]);
    bind(&mut engine, &decision.commits[0]);
    // Both lose their pods but for a third one, and the large node is gone.
    engine
        .model
        .put_gang(gang("a", &[("router", 1), ("decode", 1), ("rest", 1)], None));
    let mut rest = PodSketch::new("a-rest-0", "a", "rest");
    (rest.cpu, rest.node) = (0, Some("cpu".into()));
    engine.model.put_pod(&rest.record());
    let mut gone = node("gpu", "r", 4);
    gone.unschedulable = true;
    engine.model.put_nodes([gone]);
    for (name, cpu) in [("a-router-0", 1), ("a-decode-0", 4)] {
        let mut pod = sketch(&engine, &key(name));
        (pod.uid, pod.node, pod.cpu) = (2, None, cpu);
        engine.model.put_pod(&pod.record());
    }
    let decision = engine.decide(at(1));
    assert_eq!(sizes(&decision), [("n/a".into(), 1)], "{decision:?}");
    assert_eq!(&*decision.commits[0].bindings[0].pod.key.name, "a-router-0");
    bind(&mut engine, &decision.commits[0]);
    let decision = engine.decide(at(2));
    assert_eq!(sizes(&decision), []);
    assert!(
        decision.reports[0]
            .pods
            .iter()
            .all(|pod| &*pod.key.name == "a-decode-0")
    );
}
