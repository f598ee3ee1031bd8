//! Sizes that nobody means: a plan stays small, what exists is kept, and the set says why nothing is added.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use coppice_core::command::Command;
use coppice_core::context::SetContext;
use coppice_core::replica::plan_replica;
use serde_json::{Value, json};
use world::{WL2, World, uids};

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind).unwrap()
}

fn says_too_large(world: &World) {
    let set = world.get("PodCliqueSet", "wl");
    assert_eq!(condition(set, "Degraded")["reason"], "TooLarge");
    let errors = set["status"]["lastErrors"].as_array().unwrap();
    assert!(
        errors.iter().any(|error| error["code"] == "ERR_TOO_LARGE"),
        "{errors:?}"
    );
    assert!(
        world.events.iter().any(|event| event.starts_with("TooLarge")),
        "{:?}",
        world.events
    );
}

#[test]
fn an_object_scaled_beyond_the_bounds_keeps_what_it_has_and_says_so() {
    for (kind, name) in [
        ("PodCliqueSet", "wl"),
        ("PodClique", "wl-0-pc-a"),
        ("PodCliqueScalingGroup", "wl-0-sg-x"),
    ] {
        let mut world = World::new(WL2);
        world.settle();
        let before = uids(&world);
        world.edit(kind, name, |object| object["spec"]["replicas"] = i32::MAX.into());
        world.settle_existing();
        assert_eq!(uids(&world), before, "{kind}");
        says_too_large(&world);
        let done = kind != "PodCliqueSet";
        let set = world.get("PodCliqueSet", "wl");
        assert_eq!(
            condition(set, "Ready")["status"] == "True",
            done,
            "cliques have their minimum, a set is all its replicas"
        );
        world.edit(kind, name, |object| object["spec"]["replicas"] = 1.into());
        world.settle();
        let set = world.get("PodCliqueSet", "wl");
        assert_eq!(condition(set, "Ready")["status"], "True", "{kind}: {set}");
        assert_eq!(set["status"]["lastErrors"].as_array().map(Vec::len).unwrap_or(0), 0);

        world.edit(kind, name, |object| object["spec"]["replicas"] = i32::MAX.into());
        world.settle_existing();
        world.delete("PodCliqueSet", "wl");
        world.settle_existing();
        assert!(world.objects.is_empty(), "{kind}: {:?}", world.objects.keys());
    }
}

#[test]
fn a_gang_that_cannot_be_stored_is_not_begun() {
    let mut world = World::new(WL2);
    world.edit("PodCliqueSet", "wl", |set| {
        for clique in set["spec"]["template"]["cliques"].as_array_mut().unwrap() {
            clique["spec"]["replicas"] = 4_000.into();
        }
    });
    world.settle();
    assert_eq!(world.pods().len(), 0);
    assert_eq!(world.names("PodGang").len(), 0);
    says_too_large(&world);
}

#[test]
fn one_plan_creates_a_bounded_number_of_objects_and_bytes_and_the_next_goes_on() {
    let most = |world: &World| {
        let set = world.set().unwrap();
        let context = SetContext::new(&set, &world.settings, None);
        let plan = plan_replica(&context, &world.snapshot(0), world.now);
        let created = plan.stages.iter().flatten().filter_map(|command| match command {
            Command::Create(object) => Some(json!(object).to_string().len()),
            _ => None,
        });
        created.fold((0, 0), |(count, bytes), size| (count + 1, bytes + size))
    };
    let mut world = World::new(WL2);
    world.edit("PodCliqueSet", "wl", |set| {
        let template = &mut set["spec"]["template"];
        template["cliques"][0]["spec"]["replicas"] = 520.into();
        template["podCliqueScalingGroups"][0]["replicas"] = 262.into();
        template["podCliqueScalingGroups"][0]["minAvailable"] = 260.into();
        template["cliques"][0]["spec"]["podSpec"]["containers"][0]["env"] =
            json!([{"name": "A", "value": "x".repeat(20_000)}]);
        template["cliques"][2]["spec"]["replicas"] = 1.into();
        // Every waiting pod would name all its predecessors.
        template["cliqueStartupType"] = "CliqueStartupTypeAnyOrder".into();
    });
    let mut rounds = 0;
    loop {
        let (count, bytes) = most(&world);
        assert!(count <= 1_000 && bytes < 8 << 20, "{count} objects, {bytes} bytes");
        if world.step() == 0 {
            break;
        }
        rounds += 1;
        assert!(rounds < 200, "goes on for ever");
        // The base gang is written once, with all its cliques and pods.
        if let Some(gang) = world.objects.get(&("PodGang".to_owned(), "wl-0-100001".to_owned())) {
            let groups = gang["spec"]["podgroups"].as_array().unwrap();
            assert_eq!(groups.len(), 521);
        }
    }
    assert_eq!(world.pods().len(), 520 + 262 * 2);
    assert_eq!(world.names("PodGang").len(), 3);
}
