//! Pods that ended: replaced at once, kept for a while, counted for nothing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::collections::BTreeSet;

use coppice_core::command::{Command, Kind, Target};
use coppice_core::context::SetContext;
use coppice_core::failure::{Failure, Subject, Verb};
use coppice_core::replica::plan_replica;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use world::{WL1, World, pods_of};

const CLIQUE: &str = "wl-0-pc-a";

fn name_of(pod: &Value) -> String {
    pod["metadata"]["name"].as_str().unwrap().to_owned()
}

fn index_of(pod: &Value) -> &Value {
    &pod["metadata"]["labels"]["grove.io/podclique-pod-index"]
}

/// The pods that ended and are not being deleted.
fn ended(world: &World) -> BTreeSet<String> {
    let pods = world.pods().into_iter();
    let failed =
        pods.filter(|pod| pod["status"]["phase"] == "Failed" && pod["metadata"]["deletionTimestamp"].is_null());
    failed.map(name_of).collect()
}

/// The first pod of the clique fails, and everything settles.
fn fail_one(world: &mut World) -> String {
    let victim = name_of(pods_of(world, CLIQUE)[0]);
    world.fail(&victim);
    world.settle();
    victim
}

#[test]
fn a_pod_that_failed_is_replaced_at_its_index_at_once_and_kept_for_its_logs() {
    let mut world = World::new(WL1);
    world.settle();
    let index = index_of(pods_of(&world, CLIQUE)[0]).clone();
    world.writes.clear();
    let victim = fail_one(&mut world);
    assert_eq!(ended(&world), BTreeSet::from([victim.clone()]));
    let pods = pods_of(&world, CLIQUE);
    assert_eq!(pods.len(), 2);
    assert!(pods.iter().all(|pod| pod["status"]["ready"] == true));
    assert!(pods.iter().any(|pod| *index_of(pod) == index), "at the same index");
    assert_eq!(world.writes.get("delete Pod"), None);
    let status = &world.get("PodClique", CLIQUE)["status"];
    assert_eq!((&status["replicas"], &status["readyReplicas"]), (&2.into(), &2.into()));
    let listed = world.get("PodGang", "wl-0-100001")["spec"]["podgroups"].to_string();
    assert!(!listed.contains(&victim), "no gang waits for it: {listed}");
    let reported = world.events.iter().filter(|event| event.starts_with("PodReplaced"));
    assert_eq!(reported.count(), 1, "{:?}", world.events);
    world.writes.clear();
    world.settle();
    assert!(world.writes.is_empty(), "{:?}", world.writes);
}

#[test]
fn it_goes_when_its_time_is_over_and_no_event_is_needed_for_that() {
    let mut world = World::new(WL1);
    world.settle();
    let (victim, failed) = (fail_one(&mut world), world.now);
    let due = world.next_deadline().unwrap();
    let keep_for = world.settings.ended_pods.keep_for;
    let kept_for = due.duration_since(failed);
    assert!(
        kept_for <= keep_for && kept_for > keep_for - SignedDuration::from_secs(1),
        "{kept_for}"
    );
    world.now = due;
    world.settle();
    assert!(!world.names("Pod").contains(&victim));
    assert_eq!(world.pods().len(), 10);
}

#[test]
fn a_pod_that_fails_again_and_again_leaves_the_last_few_behind() {
    let mut world = World::new(WL1);
    world.settle();
    let mut failed = Vec::new();
    for _ in 0..10 {
        failed.push(fail_one(&mut world));
        world.advance(1);
    }
    let last: BTreeSet<String> = failed[8..].iter().cloned().collect();
    assert_eq!(ended(&world), last);
    assert_eq!(world.pods().len(), 12);
}

#[test]
fn none_is_kept_where_the_settings_say_so() {
    let mut world = World::new(WL1);
    world.settings.ended_pods.per_clique = 0;
    world.settle();
    fail_one(&mut world);
    assert_eq!((ended(&world).len(), world.pods().len()), (0, 10));
}

#[test]
fn nothing_of_them_is_left_when_their_clique_goes() {
    let mut world = World::new(WL1);
    world.edit("PodCliqueSet", "wl", |set| set["spec"]["replicas"] = 2.into());
    world.settle();
    fail_one(&mut world);
    let other = name_of(pods_of(&world, "wl-1-pc-a")[0]);
    world.fail(&other);
    world.settle();
    assert_eq!(ended(&world).len(), 2);
    world.edit("PodCliqueSet", "wl", |set| set["spec"]["replicas"] = 1.into());
    world.settle();
    assert_eq!(
        ended(&world).len(),
        1,
        "a replica that is scaled away takes its own along"
    );
    world.delete("PodCliqueSet", "wl");
    world.settle();
    assert!(world.pods().is_empty());
}

#[test]
fn they_make_room_when_the_api_server_refuses_new_pods() {
    let mut world = World::new(WL1);
    world.settle();
    let victim = fail_one(&mut world);
    let mut snapshot = world.snapshot(0);
    let clique = &snapshot.cliques[CLIQUE].metadata;
    snapshot.failures.push(Failure {
        subject: Subject {
            kind: Kind::Pod,
            name: "wl-0-pc-a-1-zzzzz".into(),
            verb: Verb::Create,
        },
        owner: Target {
            kind: Kind::PodClique,
            namespace: "test".into(),
            name: CLIQUE.into(),
            uid: clique.uid.clone().unwrap(),
            resource_version: String::new(),
        },
        cause: "exceeded quota: pods".into(),
        since: Timestamp::UNIX_EPOCH,
    });
    let set = world.set().unwrap();
    let context = SetContext::new(&set, &world.settings, None);
    let plan = plan_replica(&context, &snapshot, world.now);
    let mut commands = plan.stages.iter().flatten();
    assert!(
        commands.any(|command| matches!(command, Command::Delete { target } if target.name == victim)),
        "{:?}",
        plan.stages
    );
}

#[test]
fn a_clique_all_of_whose_pods_ended_is_whole_again_without_their_going() {
    let mut world = World::new(WL1);
    world.settle();
    let all: Vec<String> = pods_of(&world, CLIQUE).into_iter().map(name_of).collect();
    for pod in &all {
        world.fail(pod);
    }
    world.settle();
    assert_eq!(ended(&world), all.into_iter().collect());
    assert_eq!(pods_of(&world, CLIQUE).len(), 2);
    world.advance(60);
    world.settle();
    assert_eq!(world.pods().len(), 12, "no gang is replaced for them");
}
