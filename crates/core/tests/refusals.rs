//! Writes that the API server refuses are told where people look, and no longer told when they succeed (W23); so is what
//! the scheduler of a set does not give.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use coppice_api::types::PodClique;
use coppice_core::command::{Command, Kind};
use coppice_core::context::SetContext;
use coppice_core::failure::{Failure, Subject};
use coppice_core::object::{Body, Metadata, NewObject, Owner};
use coppice_core::reasons::Reason;
use coppice_core::replica::plan_replica;
use coppice_core::report;
use coppice_core::set::{SetSnapshot, plan_set};
use coppice_core::snapshot::target_of;
use jiff::Timestamp;
use serde_json::{Value, json};
use world::{WL2, World};

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

/// The status patch for an object among the commands of a plan.
fn status_of<'a>(stages: &'a [Vec<Command>], name: &str) -> Option<&'a Value> {
    stages.iter().flatten().find_map(|command| match command {
        Command::Status { target, patch, .. } if target.name == name => Some(patch),
        _ => None,
    })
}

fn pod(name: &str, clique: &Value) -> Command {
    let clique: PodClique = serde_json::from_value(clique.clone()).unwrap();
    Command::Create(NewObject {
        kind: Kind::Pod,
        metadata: Metadata {
            name: name.to_owned(),
            ..Metadata::default()
        },
        owner: Some(Owner::of(Kind::PodClique, &clique.metadata)),
        body: Body::default(),
    })
}

fn refused(world: &World, command: &Command, second: i64) -> Failure {
    Failure {
        subject: Subject::of(command).unwrap(),
        owner: report::owner(command, &world.set().unwrap(), Some(&world.snapshot(0))),
        cause: "forbidden: exceeded quota".to_owned(),
        since: at(second),
    }
}

#[test]
fn w23_a_refused_pod_is_told_by_its_clique_and_by_the_set_until_it_succeeds() {
    let mut world = World::new(WL2);
    world.settle();
    let clique = world.get("PodClique", "wl-0-pc-a").clone();
    let failures = vec![
        refused(&world, &pod("wl-0-pc-a-1-x", &clique), 200),
        refused(&world, &pod("wl-0-pc-a-0-x", &clique), 100),
    ];
    let set = world.set().unwrap();
    let context = SetContext::new(&set, &world.settings, None);
    let mut snapshot = world.snapshot(0);
    snapshot.failures = failures.clone();
    let plan = plan_replica(&context, &snapshot, world.now);
    let told = &status_of(&plan.stages, "wl-0-pc-a").unwrap()["lastErrors"][0];
    assert_eq!(told["code"], "ERR_CREATE_POD");
    let text = told["description"].as_str().unwrap();
    assert!(
        text.contains("Pod wl-0-pc-a-0-x") && text.contains("exceeded quota") && text.contains("1 more"),
        "{text}"
    );
    assert_eq!(told["observedAt"], json!(at(100)), "since the first of them");
    assert_eq!(
        status_of(&plan.stages, "wl-0-sg-x"),
        None,
        "the group has nothing to do with it"
    );

    let mut of_set = SetSnapshot::default();
    for index in 0..context.facts.replicas() {
        let mut snapshot = world.snapshot(index);
        snapshot
            .failures
            .extend(failures.iter().filter(|_| index == 0).cloned());
        of_set
            .replicas
            .insert(index, plan_replica(&context, &snapshot, world.now).summary);
    }
    let stages = plan_set(&context, &of_set, world.now).stages;
    let told = status_of(&stages, "wl").unwrap();
    assert_eq!(told["lastErrors"][0]["code"], "ERR_CREATE_POD");
    let degraded = told["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["type"] == "Degraded")
        .unwrap();
    assert_eq!(
        (&degraded["status"], &degraded["reason"]),
        (&json!("True"), &json!("WriteRefused"))
    );
    for command in stages.iter().chain(&plan.stages).flatten() {
        world.carry_out(command);
    }
    assert!(world.get("PodCliqueSet", "wl")["status"]["lastErrors"].is_array());

    world.settle();
    assert!(
        world.get("PodCliqueSet", "wl")["status"]["lastErrors"].is_null(),
        "cleared once it succeeds"
    );
    assert!(world.get("PodClique", "wl-0-pc-a")["status"]["lastErrors"].is_null());
}

#[test]
fn another_attempt_with_the_same_outcome_is_nothing_to_write() {
    let mut world = World::new(WL2);
    world.settle();
    let clique = world.get("PodClique", "wl-0-pc-a").clone();
    let command = pod("wl-0-pc-a-0-x", &clique);
    let first = report::last_errors([refused(&world, &command, 100)].iter(), &[]);
    let again = report::last_errors([refused(&world, &command, 900)].iter(), &first);
    assert_eq!(first, again);
}

#[test]
fn events_go_to_the_owner_and_many_objects_make_one_event() {
    let mut world = World::new(WL2);
    world.settle();
    let clique = world.get("PodClique", "wl-0-pc-a").clone();
    let pods: Vec<Command> = (0..5)
        .map(|index| pod(&format!("wl-0-pc-a-{index}-x"), &clique))
        .collect();
    let (set, snapshot) = (world.set().unwrap(), world.snapshot(0));
    let events = report::successes(pods.iter(), &set, Some(&snapshot));
    let [
        Command::Event {
            target,
            warning: false,
            reason: Reason::PodCreateSuccessful,
            message,
        },
    ] = events.as_slice()
    else {
        panic!("{events:?}")
    };
    assert_eq!((target.kind, target.name.as_str()), (Kind::PodClique, "wl-0-pc-a"));
    assert_eq!(
        message,
        "created Pod wl-0-pc-a-0-x, wl-0-pc-a-1-x, wl-0-pc-a-2-x and 2 more"
    );

    let member = target_of(Kind::PodClique, &snapshot.cliques["wl-0-sg-x-0-pc-b"].metadata);
    let delete = Command::Delete { target: member };
    assert_eq!(
        report::owner(&delete, &set, Some(&snapshot)).name,
        "wl-0-sg-x",
        "a member's owner is its group"
    );
    let gang = target_of(Kind::PodGang, &snapshot.gangs["wl-0-100001"].metadata);
    assert_eq!(
        report::owner(&Command::Delete { target: gang }, &set, Some(&snapshot)).name,
        "wl"
    );
}

/// The API server refuses the status of a gang without a phase, also when the phase is the one that goes without saying.
#[test]
fn the_first_status_of_a_gang_says_its_phase() {
    let mut world = World::new(WL2);
    world.capacity = Some(0);
    world.settle();
    assert_eq!(world.get("PodGang", "wl-0-100001")["status"]["phase"], "Pending");
}

fn guarantee(world: &World) -> Option<Value> {
    let conditions = world.get("PodCliqueSet", "wl")["status"]["conditions"]
        .as_array()
        .cloned();
    let mut all = conditions.into_iter().flatten();
    all.find(|condition| condition["type"] == "GangsNotGuaranteed")
}

#[test]
fn a_set_whose_scheduler_places_pods_one_by_one_says_so_and_tells_it_once() {
    let mut world = World::new(WL2);
    world.settle();
    let said = guarantee(&world).unwrap();
    assert_eq!(
        (&said["status"], &said["reason"]),
        (&json!("True"), &json!("PodsPlacedOneByOne"))
    );
    assert!(
        said["message"].as_str().unwrap().contains("default-scheduler"),
        "{said}"
    );
    let told = |world: &World| {
        let events = world.events.iter();
        events
            .filter(|event| format!("{event:?}").contains("PodsPlacedOneByOne"))
            .count()
    };
    assert_eq!(told(&world), 1);
    world.writes.clear();
    world.edit("PodCliqueSet", "wl", |set| set["spec"]["replicas"] = 2.into());
    world.settle();
    assert_eq!(told(&world), 1, "scaling is no news about the scheduler");
    world.writes.clear();
    world.settle();
    assert!(world.writes.is_empty(), "{:?}", world.writes);
}

#[test]
fn a_set_with_a_scheduler_that_knows_gangs_says_nothing_of_them() {
    let mut world = World::new(WL2);
    world.settings.default_scheduler = "coppice".to_owned();
    world.settle();
    assert_eq!(guarantee(&world), None);
}
