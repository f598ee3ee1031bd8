//! Defects of the Go operator that ours must not have, each in a test with its number; `docs/defects-not-repeated.md`
//! lists them all. Here are those that a planner decides.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod objects;
mod updates;
#[path = "../world/mod.rs"]
mod world;

use std::collections::BTreeSet;

use coppice_core::command::{Command, Kind};
use coppice_core::context::SetContext;
use coppice_core::replica::{ReplicaPlan, plan_replica};
use coppice_core::settings::Settings;
use serde_json::{Value, json};
use world::{WL1, WL2, World, pods_of, uids};

/// The plan for the first replica as the world is now, by an operator that has just started.
fn plan(world: &World) -> ReplicaPlan {
    let (set, settings) = (world.set().unwrap(), Settings::default());
    plan_replica(&SetContext::new(&set, &settings, None), &world.snapshot(0), world.now)
}

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap()
}

#[test]
fn w01_a_status_that_was_lost_or_overwritten_is_written_again() {
    let mut world = World::new(WL1);
    world.settle();
    let truth = world.get("PodClique", "wl-0-pc-a")["status"].clone();
    // An older state comes back, as after a write from a cache that lagged behind.
    world.edit("PodClique", "wl-0-pc-a", |clique| {
        clique["status"]["readyReplicas"] = 0.into();
        clique["status"]["scheduledReplicas"] = 0.into();
    });
    let stages = plan(&world).stages;
    let versions: Vec<&str> = stages
        .iter()
        .flatten()
        .filter_map(|command| match command {
            Command::Status { target, .. } => Some(target.resource_version.as_str()),
            _ => None,
        })
        .collect();
    let stored = world.get("PodClique", "wl-0-pc-a")["metadata"]["resourceVersion"].as_str();
    assert_eq!(versions, [stored.unwrap()], "one status, conditional on what was read");
    world.settle();
    let repaired = &world.get("PodClique", "wl-0-pc-a")["status"];
    for field in ["readyReplicas", "scheduledReplicas", "replicas"] {
        assert_eq!(repaired[field], truth[field], "{field}");
    }
}

#[test]
fn w03_a_failed_pod_counts_for_nothing_and_is_replaced_even_when_all_fail() {
    let mut world = World::new(WL1);
    world.settle();
    let before = uids(&world);
    let pods: Vec<String> = pods_of(&world, "wl-0-pc-a").into_iter().map(name_of).collect();
    for pod in &pods {
        world.edit("Pod", pod, |pod| pod["status"] = json!({"phase": "Failed"}));
    }
    world.settle();
    let pods = pods_of(&world, "wl-0-pc-a");
    assert_eq!(pods.len(), 2);
    assert!(pods.iter().all(|pod| pod["status"]["ready"] == true));
    assert_eq!(before.intersection(&uids(&world)).count(), 8, "nobody else is touched");
}

#[test]
fn w04_what_is_recreated_never_begins_with_no_replicas() {
    let mut world = World::new(WL2);
    world.settle();
    let before = uids(&world);
    world.delete("PodClique", "wl-0-pc-a");
    world.delete("PodCliqueScalingGroup", "wl-0-sg-x");
    for _ in 0..60 {
        world.step();
        for object in world.of_kind("PodClique").chain(world.of_kind("PodCliqueScalingGroup")) {
            assert!(object["spec"]["replicas"].as_i64() > Some(0), "{object}");
        }
        world.kubelets();
    }
    world.settle();
    assert_eq!(world.get("PodClique", "wl-0-pc-a")["spec"]["replicas"], 2);
    assert_eq!(world.get("PodCliqueScalingGroup", "wl-0-sg-x")["spec"]["replicas"], 2);
    assert_eq!(world.pods().len(), 10);
    assert!(before.is_disjoint(&uids(&world)), "with pods of its own");
}

#[test]
fn w05_a_terminated_gang_and_its_successor_never_overlap() {
    let mut world = World::new(WL1);
    world.settle();
    let before = uids(&world);
    let victim = name_of(pods_of(&world, "wl-0-pc-a")[0]);
    world.edit("Pod", &victim, |pod| {
        pod["status"] = json!({"ready": false, "stuck": true});
    });
    world.settle();
    world.advance(11);
    let mut replaced = false;
    for _ in 0..60 {
        world.step();
        let now = uids(&world);
        let (old, new) = (before.intersection(&now).count(), now.difference(&before).count());
        assert!(
            old == 0 || new == 0,
            "{old} pods of the old gang beside {new} of the new one"
        );
        replaced |= old == 0 && new == 10;
        world.kubelets();
    }
    assert!(replaced, "the gang was replaced");
}

#[test]
fn w07_a_set_that_is_seen_late_was_not_healthy_before() {
    let mut world = World::new(WL1);
    world.loading = true;
    // Nobody looks at it for a minute, and it takes an hour to load.
    world.advance(60);
    world.settle();
    let first = uids(&world);
    assert_eq!(first.len(), 10);
    world.advance(3600);
    world.settle();
    assert_eq!(first, uids(&world), "{:?}", world.events);
    world.loading = false;
    world.settle();
    assert_eq!(first, uids(&world));
}

#[test]
fn w08_a_pod_counts_as_scheduled_when_it_has_a_node_however_long_it_loads() {
    let mut world = World::new(WL2);
    world.loading = true;
    world.settle();
    assert!(world.pods().iter().all(|pod| pod["status"]["ready"] != true));
    assert_eq!(world.get("PodClique", "wl-0-pc-a")["status"]["scheduledReplicas"], 2);
    let scaled = pods_of(&world, "wl-0-sg-x-1-pc-c");
    assert_eq!(scaled.len(), 3);
    assert!(
        scaled.iter().all(|pod| pod["spec"]["nodeName"].is_string()),
        "the scaled gang waits for the base to be placed, not to be ready"
    );
}

#[test]
fn w09_a_pod_that_is_going_is_replaced_before_it_is_gone() {
    let mut world = World::new(WL1);
    world.settle();
    let victim = pods_of(&world, "wl-0-pc-a")[1].clone();
    world.delete("Pod", &name_of(&victim));
    world.step();
    let index = |pod: &Value| pod["metadata"]["labels"]["grove.io/podclique-pod-index"].clone();
    let twins: Vec<&Value> = pods_of(&world, "wl-0-pc-a")
        .into_iter()
        .filter(|pod| index(pod) == index(&victim))
        .collect();
    assert_eq!(twins.len(), 2, "the old one that is going, and its successor");
    let live = twins
        .iter()
        .filter(|pod| !pod["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(live.count(), 1);
}

#[test]
fn w11_a_restarted_operator_replaces_exactly_what_is_missing() {
    let mut world = World::new(WL1);
    world.settle();
    for pod in pods_of(&world, "wl-0-pc-a")
        .into_iter()
        .map(name_of)
        .collect::<Vec<_>>()
    {
        world.delete("Pod", &pod);
    }
    let creations = |world: &World| {
        let stages = plan(world).stages;
        let all = stages.into_iter().flatten();
        all.filter(|command| matches!(command, Command::Create(object) if object.kind == Kind::Pod))
            .count()
    };
    assert_eq!(creations(&world), 2, "pods that are going are not counted");
    world.step();
    assert_eq!(creations(&world), 0, "nor are their successors forgotten");
}

#[test]
fn w12_scale_in_with_holes_leaks_nothing() {
    for missing in 0..5 {
        let mut world = World::new(WL2);
        world.edit("PodCliqueSet", "wl", |set| {
            set["spec"]["template"]["podCliqueScalingGroups"][0]["replicas"] = 5.into();
        });
        world.settle();
        for clique in ["pc-b", "pc-c"] {
            world.delete("PodClique", &format!("wl-0-sg-x-{missing}-{clique}"));
        }
        world.edit("PodCliqueScalingGroup", "wl-0-sg-x", |group| {
            group["spec"]["replicas"] = 3.into();
        });
        world.settle();
        let copies: BTreeSet<&str> = world
            .of_kind("PodClique")
            .filter_map(|clique| clique["metadata"]["labels"]["grove.io/podcliquescalinggroup-replica-index"].as_str())
            .collect();
        assert_eq!(copies, BTreeSet::from(["0", "1", "2"]), "without copy {missing}");
        assert_eq!(
            world.names("PodGang"),
            ["wl-0-100001", "wl-0-100002-sg-x-1", "wl-0-100002-sg-x-2"]
        );
    }
}

#[test]
fn w18_a_size_below_the_minimum_is_a_wish_and_no_breach() {
    let mut world = World::new(WL1);
    world.settle();
    world.edit("PodClique", "wl-0-pc-a", |clique| clique["spec"]["replicas"] = 1.into());
    world.edit("PodCliqueScalingGroup", "wl-0-sg-x", |group| {
        group["spec"]["replicas"] = 1.into();
    });
    world.settle();
    let small = uids(&world);
    assert_eq!(small.len(), 5);
    world.advance(3600);
    world.settle();
    assert_eq!(small, uids(&world), "{:?}", world.events);
    assert_eq!(
        condition(world.get("PodClique", "wl-0-pc-a"), "MinAvailableBreached")["status"],
        "False"
    );
    world.writes.clear();
    world.settle();
    assert!(world.writes.is_empty(), "nothing is tried again and again");
}

#[test]
fn w21_nothing_is_written_in_vain_and_a_wait_has_a_deadline() {
    let mut world = World::new(WL1);
    world.settle();
    assert_eq!(plan(&world).deadline, None, "a healthy replica is not looked at again");
    let victim = name_of(pods_of(&world, "wl-0-pc-a")[0]);
    world.edit("Pod", &victim, |pod| {
        pod["status"] = json!({"ready": false, "stuck": true});
    });
    world.settle();
    let breach = condition(world.get("PodClique", "wl-0-pc-a"), "MinAvailableBreached");
    assert_eq!(breach["status"], "True");
    let since: jiff::Timestamp = breach["lastTransitionTime"].as_str().unwrap().parse().unwrap();
    // The delay, and a second because stored times are whole ones.
    let due = since.checked_add(jiff::SignedDuration::from_secs(10 + 1)).unwrap();
    assert_eq!(
        plan(&world).deadline,
        Some(due),
        "one deadline instead of looking every few seconds"
    );
    world.writes.clear();
    let events = world.events.len();
    for _ in 0..5 {
        world.advance(1);
        world.step();
    }
    assert!(world.writes.is_empty(), "{:?}", world.writes);
    assert_eq!(world.events.len(), events, "nor is anything told twice");
}
