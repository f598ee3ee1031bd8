//! What cliques and gangs wait for is said where people look, with an absolute time where there is one, and time that
//! passes is nothing to write.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use world::{WL1, WL2, World, pods_of};

/// Reason and message of a condition that is True.
fn condition(world: &World, kind: &str, name: &str, wanted: &str) -> Option<(String, String)> {
    let conditions = world.get(kind, name)["status"]["conditions"].as_array()?;
    let found = |condition: &&Value| condition["type"] == wanted && condition["status"] == "True";
    let found = conditions.iter().find(found)?;
    let text = |field: &str| found[field].as_str().unwrap().to_owned();
    Some((text("reason"), text("message")))
}

fn waits(world: &World, kind: &str, name: &str) -> Option<(String, String)> {
    condition(world, kind, name, "Waiting")
}

#[test]
fn a_clique_below_its_minimum_says_when_its_replica_is_replaced() {
    let mut world = World::new(WL1);
    world.settle();
    assert_eq!(waits(&world, "PodClique", "wl-0-pc-a"), None);
    world.capacity = Some(9);
    let victim = pods_of(&world, "wl-0-pc-a")[0]["metadata"]["name"].clone();
    world.delete("Pod", victim.as_str().unwrap());
    world.settle();

    let (reason, message) = waits(&world, "PodClique", "wl-0-pc-a").expect("a wait");
    assert_eq!(reason, "WaitingForTerminationDelay");
    let conditions = world.get("PodClique", "wl-0-pc-a")["status"]["conditions"]
        .as_array()
        .unwrap();
    let breach = conditions
        .iter()
        .find(|condition| condition["type"] == "MinAvailableBreached");
    let since: Timestamp = breach.unwrap()["lastTransitionTime"].as_str().unwrap().parse().unwrap();
    // The delay of the set is ten seconds, and one more because the API keeps whole seconds.
    let due = since + SignedDuration::from_secs(11);
    assert!(message.contains(&format!("since {since}; ")), "{message}");
    let replaced = format!("all pods of replica 0 are replaced at {due} unless");
    assert!(message.contains(&replaced), "{message}");
    let gang = world.names("PodGang")[0].clone();
    let (reason, of_gang) = waits(&world, "PodGang", &gang).expect("a wait of the gang");
    assert_eq!(
        (reason.as_str(), of_gang),
        ("WaitingForTerminationDelay", format!("wl-0-pc-a: {message}"))
    );
    let (_, of_set) = condition(&world, "PodCliqueSet", "wl", "Degraded").expect("a degraded set");
    assert!(
        of_set.ends_with(&format!("replica 0, wl-0-pc-a: {message}")),
        "{of_set}"
    );
    let told = |world: &World| {
        let events = world.events.iter();
        events
            .filter(|event| event.starts_with("WaitingForTerminationDelay"))
            .count()
    };
    assert_eq!(told(&world), 1);

    let before = world.writes.clone();
    world.advance(5);
    world.settle();
    assert_eq!(world.writes, before, "time that passes is not written");
    assert_eq!(told(&world), 1);

    world.capacity = None;
    world.settle();
    assert_eq!(waits(&world, "PodClique", "wl-0-pc-a"), None);
    assert_eq!(waits(&world, "PodGang", &gang), None);
    assert_eq!(condition(&world, "PodCliqueSet", "wl", "Degraded"), None);
}

#[test]
fn pods_of_a_further_copy_wait_for_the_base_gang_and_say_so() {
    let mut world = World::new(WL2);
    world.capacity = Some(0);
    world.settle();
    let (reason, message) = waits(&world, "PodClique", "wl-0-sg-x-1-pc-b").expect("a wait");
    assert_eq!(reason, "WaitingForBaseGang");
    assert!(message.contains("until gang wl-0-"), "{message}");
    assert_eq!(
        waits(&world, "PodClique", "wl-0-pc-a"),
        None,
        "the base gang waits for nodes alone"
    );
    world.capacity = None;
    world.settle();
    assert_eq!(waits(&world, "PodClique", "wl-0-sg-x-1-pc-b"), None);
}

#[test]
fn a_replica_whose_turn_it_is_not_says_so() {
    let mut world = World::new(WL2);
    world.edit("PodCliqueSet", "wl", |set| set["spec"]["replicas"] = json!(2));
    world.settle();
    world.capacity = Some(0);
    world.edit("PodCliqueSet", "wl", |set| {
        set["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"] =
            json!([{"name": "new", "image": "new"}]);
    });
    world.settle();
    let waiting: Vec<String> = ["wl-0-pc-a", "wl-1-pc-a"]
        .into_iter()
        .filter_map(|name| Some(waits(&world, "PodClique", name)?.0))
        .collect();
    assert_eq!(
        waiting,
        ["WaitingForUpdateTurn"],
        "one replica is updated, the other waits"
    );
}
