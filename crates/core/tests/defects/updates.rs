//! Defects of updates.

use serde_json::{Value, json};

use crate::world::{WL1, WL2, World, pods_of, uids};
use crate::{condition, name_of};

fn new_image(world: &mut World, image: &str) {
    world.edit("PodCliqueSet", "wl", |set| {
        set["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = image.into();
    });
}

fn image(pod: &Value) -> &str {
    pod["spec"]["containers"][0]["image"].as_str().unwrap()
}

fn ended(world: &World) -> bool {
    world.get("PodCliqueSet", "wl")["status"]["updateProgress"]["updateEndedAt"].is_string()
}

#[test]
fn w02_our_own_hand_never_goes_below_the_minimum() {
    let mut world = World::new(WL2);
    world.settle();
    // One of two is not ready, and one is the minimum: the other one must stay until its replacement serves.
    let weak = name_of(pods_of(&world, "wl-0-pc-a")[0]);
    world.edit("Pod", &weak, |pod| {
        pod["status"] = json!({"ready": false, "stuck": true});
    });
    new_image(&mut world, "a:2");
    for _ in 0..200 {
        let planned = world.step();
        let serving =
            |pod: &&&Value| pod["status"]["ready"] == true && !pod["metadata"]["deletionTimestamp"].is_string();
        assert!(pods_of(&world, "wl-0-pc-a").iter().filter(serving).count() >= 1);
        if !world.kubelets() && planned == 0 {
            break;
        }
    }
    assert!(ended(&world));
    assert!(pods_of(&world, "wl-0-pc-a").iter().all(|pod| image(pod) == "a:2"));
}

#[test]
fn w15_a_replacement_never_has_the_old_template() {
    let mut world = World::new(WL1);
    world.settle();
    let before = uids(&world);
    new_image(&mut world, "a:2");
    for _ in 0..100 {
        let planned = world.step();
        for pod in pods_of(&world, "wl-0-pc-a") {
            let old = before.contains(pod["metadata"]["uid"].as_str().unwrap());
            assert_eq!(image(pod), if old { "a" } else { "a:2" });
        }
        if !world.kubelets() && planned == 0 {
            break;
        }
    }
    assert!(ended(&world));
}

#[test]
fn w16_a_replica_whose_turn_has_not_come_keeps_its_template() {
    let mut world = World::new(&WL1.replace("replicas: 1\n  template", "replicas: 2\n  template"));
    world.settle();
    world.loading = true;
    new_image(&mut world, "a:2");
    world.settle();
    let turn = &world.get("PodCliqueSet", "wl")["status"]["updateProgress"]["currentlyUpdating"][0];
    assert_eq!(turn["replicaIndex"], 0, "the update stalls in the first replica");
    let victim = name_of(pods_of(&world, "wl-1-pc-a")[0]);
    world.edit("Pod", &victim, |pod| pod["status"] = json!({"phase": "Failed"}));
    world.settle();
    let images: Vec<&str> = pods_of(&world, "wl-1-pc-a").into_iter().map(image).collect();
    assert_eq!(images, ["a", "a"], "a crash is no reason to run another version");
    world.loading = false;
    world.settle();
    let all: Vec<&str> = pods_of(&world, "wl-1-pc-a").into_iter().map(image).collect();
    assert_eq!(all, ["a:2", "a:2"]);
}

#[test]
fn w17_an_update_ends_when_its_pods_serve_and_a_change_of_strategy_ends_it() {
    let mut world = World::new(WL1);
    world.settle();
    world.loading = true;
    new_image(&mut world, "a:2");
    world.settle();
    assert!(!ended(&world), "its replacement does not serve yet");
    world.edit("PodCliqueSet", "wl", |set| {
        set["spec"]["updateStrategy"] = json!({"type": "OnDelete"});
    });
    world.loading = false;
    world.settle();
    assert!(ended(&world));
    assert_eq!(
        condition(world.get("PodClique", "wl-0-pc-a"), "MinAvailableBreached")["status"],
        "False",
        "known again, so that gang termination is armed"
    );
    // And it is: a broken gang is replaced.
    let before = uids(&world);
    let victim = name_of(pods_of(&world, "wl-0-pc-a")[0]);
    world.edit("Pod", &victim, |pod| {
        pod["status"] = json!({"ready": false, "stuck": true});
    });
    world.settle();
    world.advance(11);
    world.settle();
    assert!(before.is_disjoint(&uids(&world)));
}

#[test]
fn w27_an_update_is_found_from_state_alone() {
    let mut world = World::new(WL1);
    world.settle();
    let before = uids(&world);
    for clique in 0..3 {
        world.edit("PodCliqueSet", "wl", |set| {
            set["spec"]["template"]["cliques"][clique]["spec"]["podSpec"]["containers"][0]["env"] =
                json!([{"name": "V", "value": "2"}]);
        });
    }
    // Each step is made by an operator that knows nothing of the steps and events before it.
    for _ in 0..200 {
        let mut fresh = World::new(WL1);
        fresh.objects.clone_from(&world.objects);
        fresh.now = world.now;
        fresh.skip_to(&world);
        let planned = fresh.step();
        let moved = fresh.kubelets();
        world = fresh;
        if planned == 0 && !moved {
            break;
        }
    }
    assert!(ended(&world));
    assert!(before.is_disjoint(&uids(&world)));
}

#[test]
fn w29_hashes_of_another_version_and_another_spelling_restart_nothing() {
    let mut world = World::new(WL1);
    world.settle();
    let before = uids(&world);
    let old = |label: &Value| label.as_str().map(|text| text.replacen("v1-", "v0-", 1)).unwrap();
    for ((kind, _), object) in &mut world.objects {
        let label = object["metadata"]["labels"]["grove.io/pod-template-hash"].clone();
        if label.is_string() {
            object["metadata"]["labels"]["grove.io/pod-template-hash"] = old(&label).into();
        }
        for field in [
            "currentGenerationHash",
            "currentPodCliqueSetGenerationHash",
            "currentPodTemplateHash",
        ] {
            if kind != "Pod" && object["status"][field].is_string() {
                object["status"][field] = old(&object["status"][field]).into();
            }
        }
    }
    world.objects.retain(|(kind, _), _| kind != "ControllerRevision");
    world.edit("PodCliqueSet", "wl", |set| {
        let cliques = set["spec"]["template"]["cliques"].as_array_mut().unwrap();
        cliques.reverse();
        for clique in cliques {
            clique["spec"]["podSpec"]["containers"][0]["resources"] = json!({});
            clique["spec"]["podSpec"]["dnsPolicy"] = "ClusterFirst".into();
        }
    });
    world.settle();
    assert_eq!(before, uids(&world));
    assert_eq!(world.get("PodCliqueSet", "wl")["status"].get("updateProgress"), None);
}
