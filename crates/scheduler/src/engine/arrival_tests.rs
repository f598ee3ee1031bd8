//! Gangs that come one after another, or pod by pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::tests::{acknowledge, at, engine, pods};
use super::*;
use crate::model::testing::{PodSketch, gang, key, node};

#[test]
fn copies_that_are_decided_on_together_keep_apart() {
    let mut model = Model::new(["coppice"]);
    model.set_topologies(BTreeMap::from([("t".to_owned(), vec!["rack".to_owned()])]));
    model.put_nodes([node("n0", "r0", 4), node("n1", "r1", 4)]);
    let mut engine = Engine::new(model, Settings::default());
    for index in 0..2 {
        let name = format!("s-{index}");
        let mut record = (*gang(&name, &[("a", 1)], None)).clone();
        record.replica = Some((key("s"), index));
        record.spread = Some(("rack".to_owned(), false));
        engine.model.put_gang(Arc::new(record));
        pods(&mut engine, &name, "a", 1);
    }
    let decision = engine.decide(at(0));
    let nodes: BTreeSet<&str> = decision
        .commits
        .iter()
        .map(|commit| commit.bindings[0].node.as_str())
        .collect();
    assert_eq!(nodes, BTreeSet::from(["n0", "n1"]));
}

#[test]
fn that_pods_are_missing_is_told_when_they_have_had_time_to_come() {
    let mut engine = engine(&[("n1", 4)]);
    engine.model.put_gang(gang("g", &[("a", 2)], None));
    let young = |index: u32| {
        let mut record = (*PodSketch::new(&format!("g-a-{index}"), "g", "a").record()).clone();
        record.created = Some(at(0));
        Arc::new(record)
    };
    engine.model.put_pod(&young(0));
    let decision = engine.decide(at(0));
    assert!(decision.reports.is_empty(), "{:?}", decision.reports);
    assert_eq!(decision.wake, Some(at(2)));
    let decision = engine.decide(at(2));
    assert_eq!(decision.reports[0].reason.code, ReasonCode::WaitingForPods);
    acknowledge(&mut engine, &decision);
    engine.model.put_pod(&young(1));
    assert_eq!(engine.decide(at(2)).commits.len(), 1);
}
