//! Updates with a budget: how many units are taken at once, what unhealthy units cost, when an update ends, and what is
//! reported of one that does not.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use world::history::Trouble;
use world::{WL2, World, pods_of, uids};

/// `a` alone with five pods and a budget of three; `g` with four copies of `b` and a budget of two.
const SET: &str = "
metadata: {name: wl}
spec:
  replicas: 1
  template:
    terminationDelay: 1h
    cliques:
    - {name: a, rollingUpdate: {maxUnavailable: 3, progressDeadline: 60s}, spec: {roleName: a, replicas: 5, minAvailable: 4, podSpec: {containers: [{name: m, image: a}]}}}
    - {name: b, spec: {roleName: b, replicas: 1, minAvailable: 1, podSpec: {containers: [{name: m, image: b}]}}}
    podCliqueScalingGroups:
    - {name: g, cliqueNames: [b], replicas: 4, minAvailable: 3, rollingUpdate: {maxUnavailable: 2, progressDeadline: 60s}}
";

fn edit(world: &mut World, clique: usize, image: &str) {
    world.edit("PodCliqueSet", "wl", |set| {
        set["spec"]["template"]["cliques"][clique]["spec"]["podSpec"]["containers"][0]["image"] = image.into();
    });
}

/// Plans until the planners have nothing more to do, while no pod moves.
fn plan_only(world: &mut World) {
    for _ in 0..50 {
        if world.step() == 0 {
            return;
        }
    }
    panic!("the planners do not come to rest");
}

fn ready(world: &World, clique: &str) -> usize {
    pods_of(world, clique)
        .iter()
        .filter(|pod| pod["status"]["ready"] == true && !pod["metadata"]["deletionTimestamp"].is_string())
        .count()
}

fn images(world: &World, clique: &str) -> BTreeSet<String> {
    let pods = pods_of(world, clique);
    let image = |pod: &&Value| pod["spec"]["containers"][0]["image"].as_str().unwrap().to_owned();
    pods.iter().map(image).collect()
}

fn break_pods(world: &mut World, clique: &str, count: usize) {
    let names: Vec<String> = pods_of(world, clique)
        .iter()
        .take(count)
        .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    for name in names {
        world.edit("Pod", &name, |pod| {
            pod["status"]["ready"] = json!(false);
            pod["status"]["stuck"] = json!(true);
        });
    }
}

fn condition(object: &Value) -> (String, String) {
    let conditions = object["status"]["conditions"].as_array();
    let found = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "UpdateInProgress");
    let text = |key: &str| found.map_or("", |found| found[key].as_str().unwrap()).to_owned();
    (text("status"), text("reason"))
}

fn is(status: &str, reason: &str) -> (String, String) {
    (status.to_owned(), reason.to_owned())
}

fn available_copies(world: &World) -> usize {
    (0..4)
        .filter(|copy| ready(world, &format!("wl-0-g-{copy}-b")) == 1)
        .count()
}

#[test]
fn a_clique_loses_as_many_ready_pods_as_its_budget_even_below_its_minimum() {
    let mut world = World::new(SET);
    world.settle();
    edit(&mut world, 0, "a:2");
    plan_only(&mut world);
    assert_eq!(ready(&world, "wl-0-a"), 2, "three of five are taken, and no more");
    world.settle();
    assert_eq!(images(&world, "wl-0-a"), BTreeSet::from(["a:2".to_owned()]));
}

#[test]
fn a_group_loses_as_many_copies_as_its_budget() {
    let mut world = World::new(SET);
    world.settle();
    edit(&mut world, 1, "b:2");
    plan_only(&mut world);
    assert_eq!(available_copies(&world), 2, "two of four are taken, and no more");
    world.settle();
    assert_eq!(available_copies(&world), 4);
}

#[test]
fn unhealthy_old_units_go_at_once_and_never_stall_an_update() {
    let mut world = World::new(SET);
    world.settle();
    break_pods(&mut world, "wl-0-a", 4);
    for copy in 0..3 {
        break_pods(&mut world, &format!("wl-0-g-{copy}-b"), 1);
    }
    edit(&mut world, 0, "a:2");
    edit(&mut world, 1, "b:2");
    plan_only(&mut world);
    assert_eq!(
        (ready(&world, "wl-0-a"), available_copies(&world)),
        (1, 1),
        "what is ready is spared while more than the budget is not"
    );
    world.settle();
    assert_eq!((ready(&world, "wl-0-a"), available_copies(&world)), (5, 4));
    let status = &world.get("PodCliqueSet", "wl")["status"];
    assert!(status["updateProgress"]["updateEndedAt"].is_string(), "{status}");
}

#[test]
fn an_update_ends_only_when_all_replacements_are_ready() {
    let mut world = World::new(SET);
    world.settle();
    edit(&mut world, 0, "a:2");
    // Replacements become ready, but for the last one: its clique has its minimum then.
    for _ in 0..50 {
        world.step();
        world.kubelets();
        let new = pods_of(&world, "wl-0-a")
            .iter()
            .all(|pod| pod["spec"]["containers"][0]["image"] == "a:2");
        if new {
            break;
        }
    }
    world.settle();
    break_and_report(&mut world);
}

/// Starts an update whose last replacement is never ready.
fn break_and_report(world: &mut World) {
    edit(world, 0, "a:3");
    for _ in 0..80 {
        world.step();
        world.kubelets();
        let last: Vec<String> = pods_of(world, "wl-0-a")
            .iter()
            .filter(|pod| pod["spec"]["containers"][0]["image"] == "a:3")
            .filter(|pod| pod["metadata"]["labels"]["grove.io/podclique-pod-index"] == "4")
            .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
            .collect();
        for name in last {
            world.edit("Pod", &name, |pod| {
                pod["status"]["ready"] = json!(false);
                pod["status"]["stuck"] = json!(true);
            });
        }
    }
    assert_eq!(images(world, "wl-0-a"), BTreeSet::from(["a:3".to_owned()]));
    assert_eq!(ready(world, "wl-0-a"), 4, "its minimum is ready");
    let clique = world.get("PodClique", "wl-0-a");
    assert!(
        !clique["status"]["updateProgress"]["updateEndedAt"].is_string(),
        "{clique}"
    );
    assert_eq!(condition(clique), is("True", "Progressing"));
    let set = world.get("PodCliqueSet", "wl");
    assert!(!set["status"]["updateProgress"]["updateEndedAt"].is_string(), "{set}");
    assert_eq!(condition(set), is("True", "Progressing"));
    world.heal();
    world.settle();
    for (kind, name) in [("PodClique", "wl-0-a"), ("PodCliqueSet", "wl")] {
        let object = world.get(kind, name);
        assert!(
            object["status"]["updateProgress"]["updateEndedAt"].is_string(),
            "{object}"
        );
        assert_eq!(condition(object), is("False", "NoActiveUpdate"));
    }
}

#[test]
fn an_update_without_progress_is_reported_when_its_deadline_passes_and_goes_on() {
    let mut world = World::new(SET);
    world.settle();
    for (kind, name) in [
        ("PodClique", "wl-0-a"),
        ("PodCliqueScalingGroup", "wl-0-g"),
        ("PodCliqueSet", "wl"),
    ] {
        assert_eq!(
            condition(world.get(kind, name)),
            is("False", "NoActiveUpdate"),
            "{name}"
        );
    }
    world.loading = true;
    edit(&mut world, 0, "a:2");
    edit(&mut world, 1, "b:2");
    world.settle();
    let progress = |world: &World| world.get("PodClique", "wl-0-a")["status"]["updateProgress"].clone();
    assert_eq!(progress(&world)["updatedScheduledReplicas"], 3);
    assert!(progress(&world)["lastProgressedAt"].is_string());
    assert!(
        world.next_deadline().is_some(),
        "the planner asks to be called at the deadline"
    );
    world.advance(30);
    world.settle();
    assert_eq!(condition(world.get("PodClique", "wl-0-a")), is("True", "Progressing"));
    world.advance(31);
    world.settle();
    for (kind, name) in [
        ("PodClique", "wl-0-a"),
        ("PodCliqueScalingGroup", "wl-0-g"),
        ("PodCliqueSet", "wl"),
    ] {
        let found = condition(world.get(kind, name));
        assert_eq!(found, is("Unknown", "ProgressDeadlineExceeded"), "{name}");
    }
    let conditions = world.get("PodCliqueSet", "wl")["status"]["conditions"].to_string();
    let named = conditions.matches("wl-0-g and wl-0-a made no progress").count();
    assert_eq!(
        named, 2,
        "what stands still is named in UpdateInProgress and Progressing: {conditions}"
    );
    assert_eq!(world.next_deadline(), None, "there is nothing left to wake up for");
    world.writes.clear();
    world.advance(3600);
    world.settle();
    assert!(world.writes.is_empty(), "it is reported once: {:?}", world.writes);
    world.loading = false;
    world.settle();
    let set = world.get("PodCliqueSet", "wl");
    assert_eq!(condition(set), is("False", "NoActiveUpdate"));
    let ended = progress(&world);
    assert!(
        ended["updateEndedAt"].is_string() && ended["lastProgressedAt"].is_null(),
        "{ended}"
    );
}

#[test]
fn times_of_the_first_scheduling_stay() {
    let mut world = World::new(SET);
    world.settle();
    let times = |world: &World| {
        let gang = world.of_kind("PodGang").next().unwrap()["status"].clone();
        let clique = world.get("PodClique", "wl-0-a")["status"]["lastScheduled"].clone();
        [gang["lastScheduled"].clone(), gang["lastReady"].clone(), clique]
    };
    let first = times(&world);
    assert!(first.iter().all(Value::is_string), "{first:?}");
    world.advance(100);
    break_pods(&mut world, "wl-0-a", 5);
    world.settle();
    assert_eq!(times(&world), first, "losing readiness resets nothing");
}

#[test]
fn a_copy_that_is_scaled_away_but_still_runs_with_the_old_template_is_not_done() {
    let mut world = World::new(SET);
    world.settle();
    world.edit("PodCliqueScalingGroup", "wl-0-g", |group| {
        group["spec"]["replicas"] = 0.into();
    });
    edit(&mut world, 1, "b:2");
    for _ in 0..4 {
        world.troubles = vec![Trouble::Before; 4];
        world.step();
        world.check_done();
    }
    world.troubles.clear();
    world.settle();
    assert_eq!(world.get("PodCliqueSet", "wl")["status"]["updatedReplicas"], 1);
}

#[test]
fn a_paused_update_replaces_no_pod_until_it_is_resumed_and_lost_pods_come_back() {
    let mut world = World::new(WL2);
    world.settle();
    world.edit("PodCliqueSet", "wl", |set| {
        set["spec"]["updateStrategy"] = json!({"type": "RollingRecreate", "paused": true});
        set["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = "a:2".into();
    });
    let before = uids(&world);
    world.settle();
    assert_eq!(uids(&world), before, "nothing is replaced");
    let set = world.get("PodCliqueSet", "wl").clone();
    let conditions = set["status"]["conditions"].as_array().unwrap();
    let updating = conditions.iter().find(|one| one["type"] == "UpdateInProgress").unwrap();
    assert_eq!(
        (&updating["status"], &updating["reason"]),
        (&json!("True"), &json!("UpdatePaused"))
    );
    let lost = pods_of(&world, "wl-0-pc-a")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world.delete("Pod", &lost);
    world.settle();
    let images: Vec<Value> = pods_of(&world, "wl-0-pc-a")
        .iter()
        .map(|pod| pod["spec"]["containers"][0]["image"].clone())
        .collect();
    assert_eq!(
        images,
        vec![json!("a"); 2],
        "the pod comes back with the template of its clique"
    );
    world.edit("PodCliqueSet", "wl", |set| {
        set["spec"]["updateStrategy"]["paused"] = false.into();
    });
    world.settle();
    assert!(
        pods_of(&world, "wl-0-pc-a")
            .iter()
            .all(|pod| pod["spec"]["containers"][0]["image"] == "a:2")
    );
    assert!(world.get("PodCliqueSet", "wl")["status"]["updateProgress"]["updateEndedAt"].is_string());
}
