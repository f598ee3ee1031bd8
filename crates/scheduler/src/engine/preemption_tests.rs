//! Who may preempt, and whom.

use super::tests::{acknowledge, at, bind, engine, pods_of_priority, two_priorities};
use crate::model::testing::{PodSketch, budget, gang, gang_of_class};

#[test]
fn a_gang_that_claims_a_class_its_pods_do_not_have_evicts_nobody() {
    let mut engine = two_priorities();
    engine.model.put_gang(gang_of_class("new", &[("c", 2)], "claimed"));
    pods_of_priority(&mut engine, "new", "c", 2, 1);
    assert_eq!(engine.decide(at(1)).evictions, []);
}

#[test]
fn the_least_important_pod_of_a_gang_decides_whom_it_may_evict() {
    let mut engine = two_priorities();
    let mut pod = PodSketch::new("new-c-1", "new", "c");
    pod.priority = 1;
    engine.model.put_pod(&pod.record());
    assert_eq!(engine.decide(at(1)).evictions, []);
}

#[test]
fn the_most_important_pod_of_a_gang_decides_who_may_evict_it() {
    let mut engine = two_priorities();
    let mut pod = super::tests::sketch(&engine, &crate::model::testing::key("old-c-3"));
    pod.priority = 10;
    engine.model.put_pod(&pod.record());
    assert_eq!(engine.decide(at(1)).evictions, []);
}

#[test]
fn a_gang_with_a_pod_that_never_preempts_evicts_nobody() {
    let mut engine = two_priorities();
    let mut pod = PodSketch::new("new-c-1", "new", "c");
    (pod.priority, pod.never_preempts) = (10, true);
    engine.model.put_pod(&pod.record());
    assert_eq!(engine.decide(at(1)).evictions, []);
}

#[test]
fn nobody_is_evicted_whom_a_disruption_budget_protects() {
    for (allowed, evicted) in [(0, 0), (3, 0), (4, 1)] {
        let mut engine = two_priorities();
        engine.model.put_budget(budget("b", "old", allowed, 1));
        let decision = engine.decide(at(1));
        assert_eq!(
            decision.evictions.len(),
            evicted,
            "{allowed} may go, and the gang has four pods"
        );
        let protected = decision.evictions.iter().map(|eviction| eviction.protected.len());
        assert_eq!(protected.sum::<usize>(), evicted * 4, "the API server is asked");
    }
}

#[test]
fn what_a_budget_allows_is_used_once_until_its_status_has_changed() {
    let mut engine = engine(&[("n0", 1), ("n1", 1)]);
    for name in ["one", "two"] {
        let mut pod = PodSketch::new(name, "", "");
        (pod.gang, pod.node) = (None, Some(if name == "one" { "n0" } else { "n1" }.to_owned()));
        engine.model.put_pod(&pod.record());
    }
    engine.model.put_budget(budget("b", "", 1, 1));
    for name in ["x", "y"] {
        let mut record = (*gang(name, &[("c", 1)], None)).clone();
        record.replica = None;
        engine.model.put_gang(std::sync::Arc::new(record));
        pods_of_priority(&mut engine, name, "c", 1, 10);
    }
    let decision = engine.decide(at(1));
    assert_eq!(decision.evictions.len(), 1, "in one decision");
    acknowledge(&mut engine, &decision);
    let meanwhile = engine.decide(at(2));
    assert_eq!(meanwhile.evictions, [], "while it is under way");
    acknowledge(&mut engine, &meanwhile);
    let eviction = &decision.evictions[0];
    let victim = eviction.victims.values().flatten().next().expect("one");
    engine.model.remove_pod(&victim.key);
    engine.done(&eviction.gang);
    let decision = engine.decide(at(3));
    assert_eq!(decision.evictions, [], "the status of the budget is as it was");
    acknowledge(&mut engine, &decision);
    decision.commits.iter().for_each(|commit| bind(&mut engine, commit));
    engine.model.put_budget(budget("b", "", 1, 2));
    let decision = engine.decide(at(4));
    assert_eq!(decision.evictions.len(), 1, "a replacement is healthy: {decision:?}");
}
