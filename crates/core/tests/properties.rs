//! Properties of the planners: whatever the set, whatever happens to it and however often a command goes wrong, the
//! planners end at a fixed point, never with two pods at one index, never with more than the budget of an update missing by their own hand, never
//! with an update ended before its pods are ready, and where the
//! order of events does not matter, it does not matter.
//!
//! `COPPICE_PROPERTY_CASES` sets the number of cases, `COPPICE_PROPERTY_SEED` the seed and `COPPICE_PROPERTY_SHRINKING`
//! how long a failure is made smaller; all are fixed otherwise.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::RngSeed;
use serde_json::{Value, json};
use world::World;
use world::history::{Clique, Event, Group, Shape, Trouble};

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn config(cases: u64) -> ProptestConfig {
    ProptestConfig {
        cases: u32::try_from(setting("COPPICE_PROPERTY_CASES", cases)).unwrap_or(u32::MAX),
        rng_seed: RngSeed::Fixed(setting("COPPICE_PROPERTY_SEED", 20_260_101)),
        failure_persistence: None,
        max_shrink_iters: u32::try_from(setting("COPPICE_PROPERTY_SHRINKING", 2_000)).unwrap_or(u32::MAX),
        ..ProptestConfig::default()
    }
}

fn size_and_minimum() -> impl Strategy<Value = (u32, u32)> {
    (1..=3u32).prop_flat_map(|replicas| (Just(replicas), 1..=replicas))
}

fn budget() -> impl Strategy<Value = Option<u32>> {
    prop::option::of(1..=3u32)
}

fn shape() -> impl Strategy<Value = Shape> {
    let clique = (size_and_minimum(), prop::option::of(0..2usize), budget()).prop_map(
        |((replicas, min_available), group, budget)| Clique {
            replicas,
            min_available,
            group,
            budget,
        },
    );
    let group = (size_and_minimum(), budget()).prop_map(|((replicas, min_available), budget)| Group {
        replicas,
        min_available,
        budget,
    });
    (
        1..=2u32,
        prop::collection::vec(clique, 1..=3),
        prop::collection::vec(group, 2),
        any::<bool>(),
        prop_oneof![3 => Just(0_usize), 1 => Just(1_usize), 4 => Just(2_usize)],
    )
        .prop_map(|(replicas, cliques, groups, ordered, strategy)| Shape {
            replicas,
            cliques,
            groups,
            ordered,
            strategy,
        })
}

fn troubles() -> impl Strategy<Value = Vec<Trouble>> {
    let trouble = prop_oneof![8 => Just(Trouble::None), 1 => Just(Trouble::Before), 1 => Just(Trouble::After)];
    prop::collection::vec(trouble, 0..30)
}

fn event() -> impl Strategy<Value = Event> {
    let which = 0..20usize;
    prop_oneof![
        1 => (0..=3u32).prop_map(Event::ScaleSet),
        2 => (which.clone(), 0..=4u32).prop_map(|(number, size)| Event::ScaleClique(number, size)),
        2 => (which.clone(), 0..=4u32).prop_map(|(number, size)| Event::ScaleGroup(number, size)),
        2 => (which.clone(), 0..3u32).prop_map(|(number, version)| Event::Edit(number, version)),
        1 => (0..3usize).prop_map(Event::Strategy),
        2 => (0..7usize, which.clone()).prop_map(|(kind, number)| Event::Delete(kind, number)),
        2 => which.clone().prop_map(Event::Fail),
        2 => which.prop_map(Event::Break),
        1 => Just(Event::LoseNodes),
        1 => (0..8usize).prop_map(Event::Capacity),
        2 => (1..15u32).prop_map(Event::Wait),
        6 => Just(Event::Kubelets),
        8 => troubles().prop_map(Event::Plan),
    ]
}

/// Lives through a history, heals what is broken and lets the planners come to an end.
fn live_through(shape: &Shape, events: &[Event]) -> World {
    let mut world = World::with(shape.set());
    for event in events {
        world.happen(event);
    }
    world.heal();
    world.settle();
    world
}

fn is_settled(world: &mut World) {
    world.writes.clear();
    assert_eq!(world.step(), 0, "more commands at the fixed point: {:?}", world.writes);
    let set = world.set().unwrap();
    let status = set.status.unwrap();
    assert_eq!(status.observed_generation, set.metadata.generation);
    assert_eq!(status.available_replicas, set.spec.replicas, "{status:#?}");
    for clique in world.of_kind("PodClique") {
        let pods = world.of_kind("Pod").filter(|pod| {
            pod["metadata"]["ownerReferences"][0]["uid"] == clique["metadata"]["uid"] && pod["status"]["ready"] == true
        });
        assert_eq!(
            json!(pods.count()),
            clique["spec"]["replicas"],
            "{}",
            clique["metadata"]["name"]
        );
        let ready = clique["status"]["readyReplicas"].as_i64().unwrap_or(0);
        assert_eq!(json!(ready), clique["spec"]["replicas"], "{}", clique["status"]);
    }
    for object in world.objects.values() {
        assert!(
            !object["metadata"]["deletionTimestamp"].is_string(),
            "{} {} is never let go",
            object["kind"],
            object["metadata"]["name"]
        );
    }
}

/// What a world has come to: sizes, templates and pods, without names that depend on the way there.
fn end_state(world: &World) -> BTreeMap<String, Value> {
    let mut state = BTreeMap::new();
    for object in world.objects.values() {
        let name = object["metadata"]["name"].as_str().unwrap();
        let labels = &object["metadata"]["labels"];
        let (key, value) = match object["kind"].as_str().unwrap() {
            // How long pods that ended are kept depends on when they did.
            "Pod" if object["status"]["phase"] == "Failed" => continue,
            "Pod" => (
                format!(
                    "Pod {} {}",
                    labels["grove.io/podclique"], labels["grove.io/podclique-pod-index"]
                ),
                json!([
                    labels["grove.io/podgang"],
                    object["spec"]["containers"],
                    object["status"]["ready"]
                ]),
            ),
            "PodClique" => {
                let status = &object["status"];
                (
                    format!("PodClique {name}"),
                    json!([
                        object["spec"],
                        labels,
                        status["readyReplicas"],
                        status["updatedReplicas"],
                        status["currentPodTemplateHash"],
                        status["currentPodCliqueSetGenerationHash"]
                    ]),
                )
            }
            "PodCliqueScalingGroup" => (
                format!("PodCliqueScalingGroup {name}"),
                json!([
                    object["spec"],
                    object["status"]["availableReplicas"],
                    object["status"]["updatedReplicas"]
                ]),
            ),
            "PodGang" => {
                let groups = object["spec"]["podgroups"].as_array().unwrap();
                let groups: Vec<Value> = groups
                    .iter()
                    .map(|group| {
                        json!([
                            group["name"],
                            group["minReplicas"],
                            group["podReferences"].as_array().map(Vec::len)
                        ])
                    })
                    .collect();
                (format!("PodGang {name}"), json!([groups, object["status"]["phase"]]))
            }
            "PodCliqueSet" => (
                "PodCliqueSet".to_owned(),
                json!([
                    object["status"]["availableReplicas"],
                    object["status"]["currentGenerationHash"]
                ]),
            ),
            "ControllerRevision" => continue,
            kind => (format!("{kind} {name}"), json!(object["spec"])),
        };
        state.insert(key, value);
    }
    state
}

/// Events that do not depend on each other: each concerns something of its own.
fn independent() -> impl Strategy<Value = (Shape, Vec<Event>, Vec<Index>)> {
    let shape = shape().prop_map(|shape| Shape {
        replicas: 1,
        strategy: 0,
        ..shape
    });
    (
        shape,
        0..=3u32,
        0..3u32,
        1..3u32,
        any::<bool>(),
        prop::collection::vec(any::<Index>(), 4),
    )
        .prop_map(|(shape, size, copies, version, fail, order)| {
            let mut events = vec![Event::Edit(0, version), Event::ScaleSet(2)];
            if shape.cliques.iter().any(|clique| clique.group.is_some()) {
                events.push(Event::ScaleGroup(0, copies));
            } else {
                events.push(Event::ScaleClique(0, size));
            }
            if fail {
                events.push(Event::Fail(0));
            }
            (shape, events, order)
        })
}

proptest! {
    #![proptest_config(config(300))]

    #[test]
    fn every_history_ends_at_a_fixed_point(shape in shape(), events in prop::collection::vec(event(), 0..40)) {
        let mut world = live_through(&shape, &events);
        is_settled(&mut world);
    }

    #[test]
    fn every_history_can_be_ended_by_deleting_the_set(shape in shape(), events in prop::collection::vec(event(), 0..20)) {
        let mut world = World::with(shape.set());
        for event in &events {
            world.happen(event);
        }
        world.delete("PodCliqueSet", "wl");
        world.settle();
        let left: Vec<_> = world.objects.keys().collect();
        prop_assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn the_order_of_independent_events_does_not_matter((shape, events, order) in independent()) {
        let first = World::with(shape.set());
        let run = |mut world: World, events: &[Event], pause: bool| {
            world.settle();
            for event in events {
                world.happen(event);
                if pause {
                    world.settle();
                }
            }
            world.settle();
            end_state(&world)
        };
        let mut shuffled = events.clone();
        for (position, other) in order.iter().enumerate().take(shuffled.len()) {
            let length = shuffled.len();
            shuffled.swap(position, other.index(length));
        }
        let at_once = run(first, &events, false);
        prop_assert_eq!(&at_once, &run(World::with(shape.set()), &shuffled, false));
        prop_assert_eq!(&at_once, &run(World::with(shape.set()), &shuffled, true));
    }
}
