//! What others write into objects of the operator: it is put back and reported, or has no effect.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use serde_json::{Value, json};
use world::{WL1, WL2, World, pods_of, uids};

fn name_of(object: &Value) -> String {
    object["metadata"]["name"].as_str().unwrap().to_owned()
}

fn edit_image(world: &mut World, clique: &str, image: &str) {
    world.edit("PodClique", clique, |clique| {
        clique["spec"]["podSpec"]["containers"][0]["image"] = image.into();
    });
}

fn reverted(world: &World, name: &str) -> usize {
    let wanted = format!("ManagedFieldsRestored {name}");
    world.events.iter().filter(|event| **event == wanted).count()
}

#[test]
fn a_clique_that_was_edited_by_hand_is_put_back_and_no_pod_runs_the_edit() {
    for clique in ["wl-0-pc-a", "wl-0-sg-x-1-pc-c"] {
        let mut world = World::new(WL1);
        world.settle();
        let before = world.get("PodClique", clique)["spec"].clone();
        let pods = uids(&world);
        edit_image(&mut world, clique, "evil");
        let victim = name_of(pods_of(&world, clique)[0]);
        world.delete("Pod", &victim);
        world.settle();
        assert_eq!(world.get("PodClique", clique)["spec"], before);
        for pod in pods_of(&world, clique) {
            assert_ne!(pod["spec"]["containers"][0]["image"], "evil", "{pod}");
        }
        assert_eq!(reverted(&world, clique), 1, "{:?}", world.events);
        assert_eq!(pods.intersection(&uids(&world)).count(), 9, "no other pod is replaced");
        world.writes.clear();
        world.settle();
        assert!(world.writes.is_empty(), "{:?}", world.writes);
    }
}

#[test]
fn an_edit_is_found_before_a_pod_is_made_from_it_whatever_the_status_claims() {
    let mut world = World::new(WL1);
    world.settle();
    world.edit("PodClique", "wl-0-pc-a", |clique| {
        clique["spec"]["podSpec"]["containers"][0]["image"] = "evil".into();
        clique["metadata"]["annotations"]["injected"] = "yes".into();
        clique["status"]["observedGeneration"] = json!(clique["metadata"]["generation"].as_i64().unwrap() + 1);
    });
    let victim = name_of(pods_of(&world, "wl-0-pc-a")[0]);
    world.delete("Pod", &victim);
    world.settle();
    for pod in pods_of(&world, "wl-0-pc-a") {
        assert_ne!(pod["spec"]["containers"][0]["image"], "evil", "{pod}");
        assert_eq!(pod["metadata"]["annotations"]["injected"], Value::Null, "{pod}");
    }
}

#[test]
fn a_template_hash_that_was_edited_by_hand_restarts_nothing() {
    let mut world = World::new(WL1);
    world.settle();
    let pods = uids(&world);
    let before = world.get("PodClique", "wl-0-pc-a")["metadata"]["labels"].clone();
    world.edit("PodClique", "wl-0-pc-a", |clique| {
        clique["metadata"]["labels"]["grove.io/pod-template-hash"] = "abc".into();
    });
    world.settle();
    assert_eq!(uids(&world), pods);
    assert_eq!(world.get("PodClique", "wl-0-pc-a")["metadata"]["labels"], before);
}

#[test]
fn scaling_is_not_taken_for_an_edit() {
    let mut world = World::new(WL2);
    world.settle();
    world.edit("PodClique", "wl-0-pc-a", |clique| clique["spec"]["replicas"] = 3.into());
    world.edit("PodCliqueScalingGroup", "wl-0-sg-x", |group| {
        group["spec"]["replicas"] = 3.into();
    });
    world.settle();
    assert_eq!(pods_of(&world, "wl-0-pc-a").len(), 3);
    let restored = world
        .events
        .iter()
        .filter(|event| event.starts_with("ManagedFieldsRestored"));
    assert_eq!(restored.count(), 0, "{:?}", world.events);
}

#[test]
fn a_scaling_group_that_was_edited_by_hand_is_put_back_and_that_is_reported() {
    let mut world = World::new(WL2);
    world.settle();
    let before = world.get("PodCliqueScalingGroup", "wl-0-sg-x")["spec"].clone();
    world.edit("PodCliqueScalingGroup", "wl-0-sg-x", |group| {
        group["spec"]["cliqueNames"] = json!(["pc-b"]);
        group["spec"]["minAvailable"] = 2.into();
    });
    world.settle();
    assert_eq!(world.get("PodCliqueScalingGroup", "wl-0-sg-x")["spec"], before);
    assert_eq!(reverted(&world, "wl-0-sg-x"), 1, "{:?}", world.events);
}

#[test]
fn a_pod_that_was_relabelled_into_another_replica_is_replaced() {
    let mut world = World::new(WL1);
    world.edit("PodCliqueSet", "wl", |set| set["spec"]["replicas"] = 2.into());
    world.settle();
    let (pods, moved) = (uids(&world), name_of(pods_of(&world, "wl-0-pc-a")[0]));
    world.edit("Pod", &moved, |pod| {
        pod["metadata"]["labels"]["grove.io/podcliqueset-replica-index"] = "1".into();
        pod["metadata"]["labels"]["grove.io/podclique"] = "wl-1-pc-a".into();
    });
    world.settle();
    for replica in 0..2 {
        let pods = pods_of(&world, &format!("wl-{replica}-pc-a"));
        assert_eq!(pods.len(), 2);
        assert!(pods.iter().all(|pod| pod["status"]["ready"] == true));
        assert!(
            pods.iter().all(|pod| name_of(pod) != moved),
            "the relabelled pod is gone"
        );
    }
    assert_eq!(pods.intersection(&uids(&world)).count(), 19, "no other pod is touched");
}

#[test]
fn a_pod_that_was_relabelled_out_of_the_set_is_left_alone_and_replaced() {
    let mut world = World::new(WL1);
    world.settle();
    let moved = name_of(pods_of(&world, "wl-0-pc-a")[0]);
    world.edit("Pod", &moved, |pod| pod["metadata"]["labels"] = json!({"app": "debug"}));
    world.settle();
    assert_eq!(world.get("Pod", &moved)["metadata"]["deletionTimestamp"], Value::Null);
    let pods = pods_of(&world, "wl-0-pc-a");
    assert_eq!(pods.len(), 2);
    assert!(pods.iter().all(|pod| pod["status"]["ready"] == true));
}

#[test]
fn a_termination_that_another_client_announces_deletes_no_healthy_pod() {
    let mut world = World::new(WL1);
    world.settle();
    let pods = uids(&world);
    for clique in world.names("PodClique") {
        world.edit("PodClique", &clique, |clique| {
            let conditions = clique["status"]["conditions"].as_array_mut().unwrap();
            conditions.push(
                json!({"type": "GangTerminationInProgress", "status": "True", "reason": "GangTerminated",
                "message": "", "lastTransitionTime": "2020-01-01T00:00:00Z"}),
            );
        });
    }
    world.settle();
    assert_eq!(uids(&world), pods);
    for clique in world.names("PodClique") {
        let conditions = world.get("PodClique", &clique)["status"]["conditions"].to_string();
        assert!(
            !conditions.contains(r#""status":"True","type":"GangTerminationInProgress""#),
            "{conditions}"
        );
    }
    let victim = name_of(pods_of(&world, "wl-0-pc-a")[0]);
    world.delete("Pod", &victim);
    world.settle();
    assert_eq!(world.pods().len(), 10, "nothing is held back by it");
}
