//! Names of pods: none comes twice in the life of a clique, whatever becomes of its pods and of the operator.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use world::{WL1, World, pods_of};

const CLIQUE: &str = "wl-0-pc-a";

fn names(world: &World) -> BTreeSet<String> {
    let pods = pods_of(world, CLIQUE);
    pods.iter()
        .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

fn attempt(world: &World) -> Value {
    world.get("PodClique", CLIQUE)["status"]["podAttempt"].clone()
}

#[test]
fn a_name_never_comes_twice_however_pods_go() {
    let mut world = World::new(WL1);
    world.settle();
    assert_eq!(
        attempt(&world),
        Value::Null,
        "nothing is recorded of an undisturbed deployment"
    );
    let mut used = names(&world);
    for round in 0..12 {
        let victim = names(&world).into_iter().next_back().unwrap();
        match round % 4 {
            // Gracefully, at once, by its own end, and by scaling.
            0 => world.delete("Pod", &victim),
            1 => drop(world.objects.remove(&("Pod".to_owned(), victim.clone()))),
            2 => world.edit("Pod", &victim, |pod| pod["status"] = json!({"phase": "Failed"})),
            _ => {
                world.edit("PodClique", CLIQUE, |clique| clique["spec"]["replicas"] = 1.into());
                world.settle();
                world.edit("PodClique", CLIQUE, |clique| clique["spec"]["replicas"] = 2.into());
            }
        }
        world.settle();
        let mut now = names(&world);
        now.retain(|name| world.get("Pod", name)["status"]["ready"] == true);
        assert_eq!(now.len(), 2);
        let fresh: Vec<&String> = now.iter().filter(|name| !used.contains(*name)).collect();
        assert_eq!(fresh.len(), 1, "round {round}: {now:?} after {used:?}");
        used.extend(now);
    }
}

#[test]
fn a_name_does_not_come_twice_when_the_pod_went_while_no_operator_ran() {
    let mut world = World::new(WL1);
    world.settle();
    let used = names(&world);
    for name in &used {
        world.objects.remove(&("Pod".to_owned(), name.clone()));
    }
    world.forget_pods();
    world.settle();
    let now = names(&world);
    assert_eq!(
        (now.len(), now.intersection(&used).count()),
        (2, 0),
        "{now:?} after {used:?}"
    );
}

#[test]
fn a_pod_that_is_only_not_visible_yet_is_not_made_a_second_time() {
    let mut world = World::new(WL1);
    world.settle();
    let used = names(&world);
    world.forget_pods();
    world.hidden.extend(used.iter().cloned());
    world.writes.clear();
    world.step();
    assert!(!world.writes.contains_key("create Pod"), "{:?}", world.writes);
    assert!(world.hidden.is_empty(), "what exists was read");
    world.settle();
    assert_eq!(names(&world), used);
}

#[test]
fn a_replacement_costs_at_most_one_write_more() {
    let mut world = World::new(WL1);
    world.settle();
    world.writes.clear();
    let victim = names(&world).into_iter().next().unwrap();
    world.delete("Pod", &victim);
    world.settle();
    assert_eq!(world.writes["create Pod"], 1);
    assert!(world.writes["status PodClique"] <= 4, "{:?}", world.writes);
    assert_eq!(attempt(&world), 1);
}
