//! What a set says of itself is what its user needs to know: which copies have no place, and that an update is going on.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use serde_json::{Value, json};
use world::{WL2, World};

fn ready(world: &World) -> Value {
    let conditions = world.get("PodCliqueSet", "wl")["status"]["conditions"]
        .as_array()
        .unwrap()
        .clone();
    conditions
        .into_iter()
        .find(|condition| condition["type"] == "Ready")
        .unwrap()
}

/// The scheduler says of a gang whether its pods have places.
fn say_placed(world: &mut World, gang: &str, placed: bool) {
    world.edit("PodGang", gang, |gang| {
        let conditions = gang["status"]["conditions"].as_array_mut().unwrap();
        conditions.retain(|condition| condition["type"] != "Placed");
        conditions.push(
            json!({"type": "Placed", "status": if placed { "True" } else { "False" }, "message": "",
            "reason": "InsufficientResources", "lastTransitionTime": "2026-01-01T00:00:00Z"}),
        );
    });
}

#[test]
fn a_group_that_was_scaled_beyond_the_capacity_says_which_copies_have_no_place_and_stays_updated() {
    let mut world = World::new(WL2);
    world.settle();
    world.capacity = Some(10);
    world.edit("PodCliqueScalingGroup", "wl-0-sg-x", |group| {
        group["spec"]["replicas"] = 4.into();
    });
    world.settle();
    let status = &world.get("PodCliqueSet", "wl")["status"];
    assert_eq!(
        (&status["availableReplicas"], &status["updatedReplicas"]),
        (&1.into(), &1.into())
    );
    let status = &world.get("PodCliqueScalingGroup", "wl-0-sg-x")["status"];
    assert_eq!(
        (&status["availableReplicas"], &status["updatedReplicas"]),
        (&2.into(), &2.into())
    );
    assert_eq!(
        (&ready(&world)["status"], &ready(&world)["reason"]),
        (&"True".into(), &"AllReplicasAvailable".into())
    );
    assert_eq!(
        ready(&world)["message"],
        "1 of 1 replicas are available",
        "nothing is known yet"
    );

    let gangs: Vec<String> = world
        .names("PodGang")
        .into_iter()
        .filter(|name| name.contains("sg-x"))
        .collect();
    assert_eq!(gangs.len(), 3, "{gangs:?}");
    for gang in &gangs[1..] {
        say_placed(&mut world, gang, false);
    }
    say_placed(&mut world, &gangs[0], true);
    world.settle();
    assert_eq!(
        ready(&world)["message"],
        "1 of 1 replicas are available; 2 of 4 copies of sg-x cannot be placed"
    );
    assert_eq!(ready(&world)["status"], "True", "the minimum is there");
    world.capacity = None;
    world.settle();
    assert_eq!(
        ready(&world)["message"],
        "1 of 1 replicas are available",
        "nodes were found, whatever was said before"
    );
}

#[test]
fn a_set_is_not_ready_during_an_update_because_of_the_update() {
    let mut world = World::new(WL2);
    world.settle();
    world.edit("PodCliqueSet", "wl", |set| {
        set["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = "new".into();
    });
    let mut seen = false;
    for _ in 0..100 {
        let said = ready(&world);
        if said["status"] == "False" {
            seen = true;
            assert_ne!(said["reason"], "AllReplicasAvailable", "{said}");
        }
        if world.step() == 0 && !world.kubelets() {
            break;
        }
    }
    assert!(seen, "the update was seen");
    assert_eq!(
        (&ready(&world)["status"], &ready(&world)["reason"]),
        (&"True".into(), &"AllReplicasAvailable".into())
    );
}
