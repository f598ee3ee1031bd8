//! Decisions on small clusters, and a simulation that loses bindings, crashes and starts anew at any point.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coppice_placement::resources::Column;
use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::model::GangRecord;
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

fn with_priority(record: &Arc<GangRecord>, class: &str) -> Arc<GangRecord> {
    let mut record = (**record).clone();
    record.priority_class = Some(class.to_owned());
    Arc::new(record)
}

pub(super) fn bind(engine: &mut Engine, commit: &Commit) {
    for bind in &commit.bindings {
        let mut pod = sketch(engine, &bind.pod.key);
        pod.node = Some(bind.node.clone());
        engine.model.put_pod(&pod.record());
    }
    engine.done(&commit.gang);
}

pub(super) fn told_all(engine: &mut Engine, decision: &Decision) {
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
    told_all(&mut engine, &decision);
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
    record.plan = StoredPlan::new([("a-c-0", "n0"), ("a-c-1", "n1")]);
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

fn two_priorities() -> Engine {
    let mut engine = engine(&[("n0", 2), ("n1", 2)]);
    engine
        .model
        .set_priorities([("high".to_owned(), 10), ("low".to_owned(), 1)].into());
    engine
        .model
        .put_gang(with_priority(&gang("old", &[("c", 4)], None), "low"));
    pods(&mut engine, "old", "c", 4);
    let decision = engine.decide(at(0));
    bind(&mut engine, &decision.commits[0]);
    engine
        .model
        .put_gang(with_priority(&gang("new", &[("c", 2)], None), "high"));
    pods(&mut engine, "new", "c", 2);
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
    assert_eq!(plan.nodes.values().flatten().count(), 2);
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
    told_all(&mut engine, &decision);
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
        told_all(&mut engine, &decision);
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
            json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "models"}}]}),
            "models",
        ),
        (json!({"volumes": [{"name": "scratch", "ephemeral": {}}]}), "scratch"),
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
    told_all(&mut engine, &decision);
    (0..2).for_each(|index| engine.model.remove_pod(&key(&format!("large-c-{index}"))));
    assert_eq!(sizes(&engine.decide(at(1))), [("n/small".into(), 1)]);
}

#[test]
fn nobody_is_evicted_for_an_equal_or_by_a_lower_one() {
    let mut engine = two_priorities();
    engine
        .model
        .set_priorities([("high".to_owned(), 1), ("low".to_owned(), 1)].into());
    assert_eq!(engine.decide(at(1)).evictions, []);
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
    told_all(&mut engine, &decision);
    engine.settings.starvation = SignedDuration::MAX;
    assert_eq!(
        sizes(&engine.decide(at(2))),
        [("n/small".into(), 1)],
        "otherwise the small one slips in"
    );
}

#[test]
fn messages_are_bounded() {
    let text = bounded(&"ä".repeat(1000));
    assert!(text.len() <= LONGEST_MESSAGE && text.ends_with("..."));
}

/// The API server's side of a simulation.
#[derive(Debug, Clone, Default)]
struct Server {
    nodes: BTreeMap<String, u32>,
    pods: BTreeMap<String, PodSketch>,
    gangs: BTreeMap<String, (u32, StoredPlan)>,
    /// Gangs whose floor was bound once.
    whole: BTreeSet<String>,
}

#[derive(Debug, Clone)]
enum Event {
    Node(u8, u32),
    Gang(u8, u32, u32),
    PodGone(u8),
    /// So many of the writes of the next decision succeed; then the scheduler starts anew.
    Crash(u8),
    Decide,
    Later,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        2 => (0..4_u8, 0..4_u32).prop_map(|(name, cpu)| Event::Node(name, cpu)),
        3 => (0..5_u8, 0..4_u32, 0..3_u32).prop_map(|(name, floor, extra)| Event::Gang(name, floor, extra)),
        1 => any::<u8>().prop_map(Event::PodGone),
        2 => (0..6_u8).prop_map(Event::Crash),
        4 => Just(Event::Decide),
        1 => Just(Event::Later),
    ]
}

impl Server {
    fn model(&self) -> Model {
        let mut model = Model::new(["coppice"]);
        self.show(&mut model);
        model
    }

    fn show(&self, model: &mut Model) {
        model.put_nodes(self.nodes.iter().map(|(name, cpu)| node(name, "r", *cpu)));
        for (name, (floor, plan)) in &self.gangs {
            let mut record = (*gang(name, &[("c", *floor)], None)).clone();
            record.plan = plan.clone();
            model.put_gang(Arc::new(record));
        }
        let gone: Vec<ObjectKey> = model
            .pods()
            .map(|pod| pod.meta.key.clone())
            .filter(|key| !self.pods.contains_key(&*key.name))
            .collect();
        gone.iter().for_each(|key| model.remove_pod(key));
        self.pods.values().for_each(|pod| model.put_pod(&pod.record()));
    }

    /// Carries out a decision up to so many writes; returns whether all were made.
    fn carry_out(&mut self, engine: &mut Engine, decision: &Decision, mut writes: usize) -> bool {
        let mut may = || {
            let yes = writes > 0;
            writes = writes.saturating_sub(1);
            yes
        };
        for commit in &decision.commits {
            if let (GangId::Gang(key), Some(plan)) = (&commit.gang, &commit.store) {
                if !may() {
                    return false;
                }
                self.gangs.get_mut(&*key.name).expect("it exists").1 = plan.clone();
            }
            for bind in &commit.bindings {
                if !may() {
                    return false;
                }
                if let Some(pod) = self.pods.get_mut(&*bind.pod.key.name) {
                    pod.node = Some(bind.node.clone());
                }
            }
            engine.done(&commit.gang);
        }
        told_all(engine, decision);
        for release in &decision.releases {
            for pod in &release.pods {
                if !may() {
                    return false;
                }
                self.pods.remove(&*pod.key.name);
            }
            engine.done(&release.gang);
        }
        true
    }

    fn check(&mut self) -> Result<(), TestCaseError> {
        let mut model = self.model();
        for name in self.nodes.keys() {
            let id = model.state_mut().node_id(name).expect("known");
            prop_assert!(
                model.state().free_on(id, Column::CPU) >= 0,
                "{name} is overcommitted: {self:?}"
            );
        }
        for (name, (floor, plan)) in &self.gangs {
            let of_gang = |pod: &&PodSketch| pod.gang.as_ref().is_some_and(|(gang, _)| gang == name);
            let bound: Vec<&PodSketch> = self
                .pods
                .values()
                .filter(of_gang)
                .filter(|pod| pod.node.is_some())
                .collect();
            if bound.len() >= *floor as usize {
                self.whole.insert(name.clone());
            }
            let planned = bound.iter().all(|pod| plan.node_of(&pod.name) == pod.node.as_deref());
            // When a pod was replaced half-way, the plan is made anew for those that have no node yet.
            let unbound = self.pods.values().filter(of_gang).filter(|pod| pod.node.is_none());
            let coming = unbound.filter(|pod| plan.node_of(&pod.name).is_some()).count();
            let completed = bound.len() + coming >= *floor as usize;
            let ok = bound.is_empty() || self.whole.contains(name) || planned || completed;
            prop_assert!(ok, "a part of {name} is bound without a stored plan: {self:?}");
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn no_overcommit_and_no_partial_gang_whatever_crashes(events in proptest::collection::vec(event(), 1..40)) {
        let mut server = Server::default();
        let mut engine = Engine::new(server.model(), Settings::default());
        let (mut now, mut created) = (0, 0);
        for event in events {
            match event {
                // A node only grows: pods that run do not shrink with it.
                Event::Node(name, cpu) => {
                    let node = server.nodes.entry(format!("n{name}")).or_default();
                    *node = (*node).max(cpu);
                }
                Event::Gang(name, floor, extra) => {
                    let name = format!("g{name}");
                    if !server.gangs.contains_key(&name) {
                        server.gangs.insert(name.clone(), (floor, StoredPlan::default()));
                        for index in 0..floor + extra {
                            let pod = PodSketch::new(&format!("{name}-{index}"), &name, "c");
                            server.pods.insert(pod.name.clone(), pod);
                        }
                    }
                }
                Event::PodGone(which) => {
                    let name = server.pods.keys().nth(usize::from(which) % server.pods.len().max(1)).cloned();
                    if let Some(mut pod) = name.and_then(|name| server.pods.remove(&name)) {
                        // Its clique replaces it under another name.
                        created += 1;
                        pod.name = format!("{}x{created}", pod.name);
                        pod.node = None;
                        server.pods.insert(pod.name.clone(), pod);
                    }
                }
                Event::Crash(writes) => {
                    server.show(&mut engine.model);
                    let decision = engine.decide(at(now));
                    server.carry_out(&mut engine, &decision, usize::from(writes));
                    engine = Engine::new(server.model(), Settings::default());
                }
                Event::Decide => {
                    server.show(&mut engine.model);
                    let decision = engine.decide(at(now));
                    server.carry_out(&mut engine, &decision, usize::MAX);
                }
                Event::Later => now += 20,
            }
            server.check()?;
        }
    }
}
