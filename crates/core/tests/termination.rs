//! Gang termination against a small world: what has too few pods for too long is replaced as a whole, and nothing else is.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use serde_json::json;
use world::{WL1, WL2, World, pods_of, uids};

/// A pod of the clique pc-a goes.
fn lose_a_pod(world: &mut World) {
    let victim = pods_of(world, "wl-0-pc-a")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world.delete("Pod", &victim);
}

#[test]
fn a_gang_that_stays_below_its_minimum_is_replaced_as_a_whole_and_keeps_its_size() {
    let mut world = World::new(WL1);
    world.settle();
    let before = uids(&world);
    world.capacity = Some(9);
    lose_a_pod(&mut world);
    world.settle();
    assert_eq!(
        before.intersection(&uids(&world)).count(),
        9,
        "nothing is touched before the delay is over"
    );
    world.advance(11);
    world.capacity = None;
    world.step();
    assert!(
        world
            .events
            .iter()
            .any(|event| event.starts_with("GangTerminationActive"))
    );
    world.settle();
    assert_eq!(before.intersection(&uids(&world)).count(), 0, "no old pod survives");
    assert_eq!(world.pods().len(), 10);
    assert!(world.pods().iter().all(|pod| pod["status"]["ready"] == true));
    let conditions = world.get("PodClique", "wl-0-pc-a")["status"]["conditions"]
        .as_array()
        .unwrap()
        .clone();
    assert!(
        conditions
            .iter()
            .any(|condition| condition["type"] == "GangTerminationInProgress"
                && condition["status"] == "False"
                && condition["reason"] == "GangTerminated"),
        "{conditions:?}"
    );
}

#[test]
fn a_pod_that_has_failed_when_its_gang_is_terminated_goes_with_it() {
    let mut world = World::new(WL1);
    world.settle();
    world.capacity = Some(9);
    lose_a_pod(&mut world);
    world.settle();
    world.advance(11);
    let failed = pods_of(&world, "wl-0-sg-x-1-pc-b")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world.fail(&failed);
    world.capacity = None;
    world.settle();
    assert_eq!(world.pods().len(), 10);
    assert!(world.pods().iter().all(|pod| pod["status"]["ready"] == true));
}

#[test]
fn pods_that_take_long_to_start_are_not_a_breach_at_first_or_after_a_termination() {
    let mut world = World::new(WL1);
    world.loading = true;
    world.capacity = Some(9);
    world.settle();
    world.capacity = None;
    world.settle();
    let first = uids(&world);
    world.advance(60);
    world.settle();
    assert_eq!(first, uids(&world), "all pods have nodes and are starting");

    world.loading = false;
    world.settle();
    world.capacity = Some(9);
    lose_a_pod(&mut world);
    world.settle();
    world.loading = true;
    world.capacity = None;
    world.advance(11);
    world.step();
    world.settle();
    let second = uids(&world);
    assert!(first.is_disjoint(&second), "the replica was replaced");
    world.advance(60);
    world.settle();
    assert_eq!(second, uids(&world), "its new pods may take as long as the first ones");
}

#[test]
fn a_replica_that_recovers_in_time_is_left_alone() {
    let mut world = World::new(WL1);
    world.settle();
    let before = uids(&world);
    world.capacity = Some(9);
    lose_a_pod(&mut world);
    world.settle();
    world.advance(5);
    world.capacity = None;
    world.settle();
    world.advance(60);
    world.settle();
    assert_eq!(before.intersection(&uids(&world)).count(), 9);
}

#[test]
fn a_broken_copy_is_replaced_alone_while_the_group_has_its_minimum() {
    let mut world = World::new(WL2);
    world.settle();
    world.edit("PodCliqueSet", "wl", |_| {});
    let before = uids(&world);
    let broken = pods_of(&world, "wl-0-sg-x-1-pc-b")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world.edit("Pod", &broken, |pod| {
        pod["status"] = json!({"ready": false, "stuck": true});
    });
    world.settle();
    world.advance(11);
    world.settle();
    let after = uids(&world);
    let survivors: Vec<_> = before.intersection(&after).collect();
    assert_eq!(survivors.len(), 6, "pc-a and the other copy keep their pods");
    assert_eq!(world.pods().len(), 10);
}

#[test]
fn losing_every_scheduled_pod_is_no_breach_unless_the_settings_say_so() {
    for replaces in [false, true] {
        let mut world = World::new(WL1);
        world.settings.terminate_when_all_lost = replaces;
        world.settle();
        let before = uids(&world);
        world.capacity = Some(8);
        let lost: Vec<String> = pods_of(&world, "wl-0-pc-a")
            .iter()
            .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        for pod in &lost {
            world.delete("Pod", pod);
        }
        world.settle();
        assert!(
            world
                .events
                .iter()
                .any(|event| event.starts_with("AllScheduledReplicasLost")),
            "{:?}",
            world.events
        );
        let survivors = |world: &World| before.intersection(&uids(world)).count();
        let others = survivors(&world);
        assert_eq!(others, 8);
        world.advance(11);
        world.settle();
        assert_eq!(survivors(&world), if replaces { 0 } else { others });
        world.capacity = None;
        world.settle();
        assert!(world.pods().iter().all(|pod| pod["status"]["ready"] == true));
    }
}

/// Breaks the gang of WL1 and says after how many seconds it was replaced.
fn seconds_until_replaced(world: &mut World) -> i64 {
    let before = uids(world);
    world.capacity = Some(9);
    lose_a_pod(world);
    world.settle();
    let mut seconds = 0;
    while before.intersection(&uids(world)).count() > 0 {
        world.advance(1);
        seconds += 1;
        assert!(seconds < 1000, "it is never replaced");
        world.settle();
    }
    world.capacity = None;
    world.settle();
    assert!(world.pods().iter().all(|pod| pod["status"]["ready"] == true));
    seconds
}

#[test]
fn what_breaks_again_soon_is_given_longer_each_time_until_it_holds() {
    let mut world = World::new(WL1);
    world.settle();
    let given: Vec<i64> = (0..5).map(|_| seconds_until_replaced(&mut world)).collect();
    assert_eq!(
        given,
        [11, 21, 41, 81, 81],
        "the delay is 10 s; a second is the rounding of stored times"
    );
    world.advance(100);
    world.settle();
    assert_eq!(seconds_until_replaced(&mut world), 11, "it held for long enough");
}

#[test]
fn nothing_is_replaced_before_the_delay_is_over_though_stored_times_are_whole_seconds() {
    let mut world = World::new(WL1);
    world.now = world
        .now
        .saturating_add(jiff::SignedDuration::from_millis(900))
        .unwrap();
    world.settle();
    let before = uids(&world);
    world.capacity = Some(9);
    lose_a_pod(&mut world);
    world.settle();
    world.now = world
        .now
        .saturating_add(jiff::SignedDuration::from_millis(9_900))
        .unwrap();
    world.settle();
    assert_eq!(
        before.intersection(&uids(&world)).count(),
        9,
        "9.9 of 10 seconds have passed"
    );
}

#[test]
fn growing_back_past_the_minimum_is_no_breach_however_long_the_new_pods_wait() {
    let mut world = World::new(WL1);
    world.settle();
    world.edit("PodClique", "wl-0-pc-a", |clique| clique["spec"]["replicas"] = 1.into());
    world.settle();
    let kept = uids(&world);
    world.capacity = Some(world.pods().len());
    world.edit("PodClique", "wl-0-pc-a", |clique| clique["spec"]["replicas"] = 2.into());
    world.settle();
    world.advance(60);
    world.settle();
    assert!(
        kept.is_subset(&uids(&world)),
        "what runs is left alone while there is no room for more"
    );
    world.capacity = None;
    world.settle();
    assert!(world.pods().iter().all(|pod| pod["status"]["ready"] == true));
    let given = seconds_until_replaced(&mut world);
    assert_eq!(
        given, 11,
        "once the new minimum was ready, falling below it is a breach again"
    );
}

fn condition(world: &World, kind: &str, name: &str, wanted: &str) -> serde_json::Value {
    let conditions = world.get(kind, name)["status"]["conditions"].as_array().cloned();
    let mut conditions = conditions.unwrap_or_default().into_iter();
    conditions
        .find(|condition| condition["type"] == wanted)
        .unwrap_or(serde_json::Value::Null)
}

/// The clique pc-a of WL1 loses both of its pods, and there is room for so many others.
fn lose_all(world: &mut World, capacity: usize) {
    world.capacity = Some(capacity);
    let lost: Vec<String> = pods_of(world, "wl-0-pc-a")
        .iter()
        .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    for pod in &lost {
        world.delete("Pod", pod);
    }
    world.settle();
}

#[test]
fn a_clique_with_nothing_running_says_that_it_is_below_its_minimum_and_why_that_is_not_acted_on() {
    let mut world = World::new(WL1);
    world.settle();
    lose_all(&mut world, 8);
    let breach = condition(&world, "PodClique", "wl-0-pc-a", "MinAvailableBreached");
    assert_eq!(breach["status"], "True", "{breach}");
    assert_eq!(breach["reason"], "AllScheduledReplicasLost", "{breach}");
    let message = breach["message"].as_str().unwrap();
    assert!(message.contains("gangTermination.whenAllLost"), "{message}");
    let waiting = condition(&world, "PodClique", "wl-0-pc-a", "Waiting");
    assert_ne!(waiting["reason"], "WaitingForTerminationDelay", "{waiting}");
    let degraded = condition(&world, "PodCliqueSet", "wl", "Degraded");
    assert_eq!(degraded["status"], "True", "{degraded}");
}

#[test]
fn the_delay_of_a_clique_that_lost_everything_counts_from_the_first_pod_that_came_back() {
    let mut world = World::new(WL1);
    world.settle();
    lose_all(&mut world, 8);
    let before = uids(&world);
    world.advance(60);
    world.settle();
    world.capacity = Some(9);
    world.settle();
    let survivors = |world: &World| before.intersection(&uids(world)).count();
    assert_eq!(
        survivors(&world),
        before.len(),
        "one of two pods is back: the delay begins"
    );
    world.advance(5);
    world.settle();
    assert_eq!(survivors(&world), before.len());
    world.advance(7);
    world.settle();
    assert_eq!(
        survivors(&world),
        0,
        "one of two pods was not enough for longer than the delay"
    );
}

#[test]
fn a_group_that_lost_a_copy_completely_says_so_and_is_not_replaced_for_it() {
    let mut world = World::new(WL1);
    world.settle();
    let before = uids(&world);
    world.capacity = Some(6);
    let lost: Vec<String> = ["wl-0-sg-x-1-pc-b", "wl-0-sg-x-1-pc-c"]
        .iter()
        .flat_map(|clique| pods_of(&world, clique))
        .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    for pod in &lost {
        world.delete("Pod", pod);
    }
    world.settle();
    let breach = condition(&world, "PodCliqueScalingGroup", "wl-0-sg-x", "MinAvailableBreached");
    assert_eq!(breach["status"], "True", "{breach}");
    world.advance(60);
    world.settle();
    assert_eq!(before.intersection(&uids(&world)).count(), 6, "the others stay");
}

#[test]
fn a_termination_is_reported_on_the_clique_that_caused_it() {
    let mut world = World::new(WL1);
    world.settle();
    world.capacity = Some(9);
    let victim = pods_of(&world, "wl-0-sg-x-1-pc-c")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world.delete("Pod", &victim);
    world.settle();
    world.advance(11);
    world.step();
    let active: Vec<&String> = world
        .events
        .iter()
        .filter(|event| event.starts_with("GangTerminationActive"))
        .collect();
    assert_eq!(active, ["GangTerminationActive wl-0-sg-x-1-pc-c"]);
    let mark = condition(&world, "PodClique", "wl-0-pc-a", "GangTerminationInProgress");
    let message = mark["message"].as_str().unwrap();
    assert!(message.contains("wl-0-sg-x-1-pc-c"), "{message}");
    world.capacity = None;
    world.settle();
    assert!(world.pods().iter().all(|pod| pod["status"]["ready"] == true));
}
