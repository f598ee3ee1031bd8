//! What becomes of the objects of a set that is deleted, and of a set that has the name of an earlier one.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::collections::BTreeSet;

use serde_json::Value;
use world::{WL1, World, pods_of, uids};

fn uids_of(world: &World, kind: &str) -> BTreeSet<String> {
    let objects = world.of_kind(kind);
    objects
        .map(|object| object["metadata"]["uid"].as_str().unwrap().to_owned())
        .collect()
}

fn create_again(world: &mut World) {
    let mut set: Value = serde_saphyr::from_str(WL1).unwrap();
    set["apiVersion"] = "grove.io/v1alpha1".into();
    set["kind"] = "PodCliqueSet".into();
    set["metadata"]["namespace"] = "test".into();
    world.create(set);
}

#[test]
fn a_deleted_set_waits_for_no_pod_and_leaves_to_the_garbage_collector_what_nothing_holds() {
    let mut world = World::new(WL1);
    world.settle();
    world.writes.clear();
    world.delete("PodCliqueSet", "wl");
    world.step();
    world.step();
    assert!(world.set().is_none(), "the set is gone");
    assert_eq!(world.pods().len(), 10, "its pods are still stopping");
    assert!(
        world
            .pods()
            .iter()
            .all(|pod| pod["metadata"]["deletionTimestamp"].is_string())
    );
    for kind in ["PodClique", "PodCliqueScalingGroup"] {
        let mut objects = world.of_kind(kind);
        assert!(
            objects.all(|object| object["metadata"]["deletionTimestamp"].is_string()),
            "{kind}"
        );
    }
    for kind in ["PodGang", "PodGangMap", "Service"] {
        assert_eq!(world.writes.get(&format!("delete {kind}")), None, "{kind}");
        assert_eq!(world.names(kind).len(), 1, "{kind}");
    }
    world.settle();
    assert!(world.objects.is_empty(), "{:?}", world.objects.keys());
    assert_eq!(world.writes.get("status PodClique"), None);
}

#[test]
fn a_set_that_is_deleted_without_its_dependents_touches_none_of_them() {
    let mut world = World::new(WL1);
    world.settle();
    let (pods, cliques) = (uids(&world), uids_of(&world, "PodClique"));
    world.edit("PodCliqueSet", "wl", |set| {
        set["metadata"]["finalizers"]
            .as_array_mut()
            .unwrap()
            .push("orphan".into());
    });
    world.delete("PodCliqueSet", "wl");
    world.step();
    world.step();
    assert_eq!(
        world.get("PodCliqueSet", "wl")["metadata"]["finalizers"],
        serde_json::json!(["orphan"])
    );
    assert_eq!((uids(&world), uids_of(&world, "PodClique")), (pods, cliques));
    assert!(
        world
            .objects
            .values()
            .all(|object| { object["kind"] == "PodCliqueSet" || !object["metadata"]["deletionTimestamp"].is_string() })
    );
}

#[test]
fn a_set_of_the_same_name_takes_nothing_of_its_predecessor_for_its_own() {
    let mut world = World::new(WL1);
    world.settle();
    let kinds = [
        "Pod",
        "PodClique",
        "PodCliqueScalingGroup",
        "PodGang",
        "PodGangMap",
        "Service",
        "ControllerRevision",
    ];
    let before: Vec<BTreeSet<String>> = kinds.iter().map(|kind| uids_of(&world, kind)).collect();
    world.delete("PodCliqueSet", "wl");
    world.step();
    world.step();
    assert!(world.set().is_none());
    create_again(&mut world);
    // No garbage collector: what is left goes by our own hand, and nothing is created beside it.
    for _ in 0..200 {
        let old_pods = uids(&world).intersection(&before[0]).count();
        assert!(
            old_pods == 0 || uids(&world).len() == old_pods,
            "no new pod beside an old one"
        );
        if world.step() == 0 && !world.kubelets() {
            break;
        }
    }
    for (kind, before) in kinds.iter().zip(before) {
        let now = uids_of(&world, kind);
        assert!(
            !now.is_empty() && now.is_disjoint(&before),
            "{kind}: {now:?} after {before:?}"
        );
    }
    assert_eq!(world.pods().len(), 10);
    assert!(
        pods_of(&world, "wl-0-pc-a")
            .iter()
            .all(|pod| pod["status"]["ready"] == true)
    );
    let set = world.get("PodCliqueSet", "wl");
    assert_eq!(set["status"]["availableReplicas"], 1);
}

#[test]
fn a_pod_whose_clique_was_never_marked_is_taken_down_when_the_set_is_gone_already() {
    let mut world = World::new(WL1);
    world.settle();
    world.objects.remove(&("PodCliqueSet".to_owned(), "wl".to_owned()));
    world.settle();
    assert!(
        world.objects.is_empty(),
        "the garbage collector marks, and we let go: {:?}",
        world.objects.keys()
    );
}
