//! The planners against a small world: from any state they reach a fixed point, and on the way they keep their word.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::collections::{BTreeMap, BTreeSet};

use coppice_core::command::Command;
use coppice_core::context::SetContext;
use coppice_core::replica::plan_replica;
use coppice_core::set::{SetSnapshot, plan_set};
use serde_json::{Value, json};
use world::{WL1, WL2, World, pods_of, uids};

fn unique_indices(world: &World) {
    let mut seen = BTreeSet::new();
    for pod in world
        .pods()
        .iter()
        .filter(|pod| !pod["metadata"]["deletionTimestamp"].is_string() && pod["status"]["phase"] != "Failed")
    {
        let labels = &pod["metadata"]["labels"];
        let key = (
            labels["grove.io/podclique"].to_string(),
            labels["grove.io/podclique-pod-index"].to_string(),
        );
        assert!(seen.insert(key.clone()), "two live pods with one index: {key:?}");
    }
}

#[test]
fn a_clique_or_group_that_is_idle_by_the_template_is_not_waited_for_and_starts_when_it_is_scaled() {
    let mut world = World::new(WL2);
    world.edit("PodCliqueSet", "wl", |set| {
        let template = &mut set["spec"]["template"];
        template["cliqueStartupType"] = "CliqueStartupTypeInOrder".into();
        template["cliques"][0]["spec"]["replicas"] = 0.into();
        template["podCliqueScalingGroups"][0]["replicas"] = 0.into();
    });
    world.settle();
    assert_eq!(world.pods().len(), 0);
    assert_eq!(world.get("PodCliqueSet", "wl")["status"]["availableReplicas"], 1);
    let breached = world.get("PodClique", "wl-0-pc-a")["status"]["conditions"].to_string();
    assert!(
        !breached.contains(r#""status":"True","type":"MinAvailableBreached""#),
        "{breached}"
    );
    world.edit("PodCliqueScalingGroup", "wl-0-sg-x", |group| {
        group["spec"]["replicas"] = 1.into();
    });
    world.settle();
    assert_eq!(world.pods().len(), 4);
    let first = pods_of(&world, "wl-0-sg-x-0-pc-b")[0];
    assert_eq!(
        first["spec"]["initContainers"],
        Value::Null,
        "it waits for nothing that is idle: {first}"
    );
}

#[test]
fn a_new_set_becomes_pods_and_then_nothing_is_written() {
    let mut world = World::new(WL2);
    world.settle();
    assert_eq!(world.pods().len(), 10);
    assert_eq!(world.names("PodGang"), ["wl-0-100001", "wl-0-100002-sg-x-1"]);
    let status = &world.get("PodCliqueSet", "wl")["status"];
    assert_eq!(
        (&status["availableReplicas"], &status["updatedReplicas"]),
        (&json!(1), &json!(1))
    );
    assert!(
        status["conditions"]
            .as_array()
            .unwrap()
            .iter()
            .any(|c| c["type"] == "Ready" && c["status"] == "True")
    );
    assert_eq!(
        status["podGangStatuses"],
        json!([{"name": "wl-0-100001", "phase": "Running"}, {"name": "wl-0-100002-sg-x-1", "phase": "Running"}])
    );
    let clique = &world.get("PodClique", "wl-0-pc-a")["status"];
    assert_eq!(
        clique["updateProgress"],
        Value::Null,
        "a new clique is not an update (W20)"
    );
    world.writes.clear();
    world.settle();
    assert_eq!(world.writes, BTreeMap::new(), "steady state writes nothing");
    unique_indices(&world);
}

#[test]
fn pods_are_written_once_and_gangs_before_their_pods() {
    let mut world = World::new(WL1);
    world.step();
    world.step();
    let gang = world.get("PodGang", "wl-0-100001");
    let listed: usize = gang["spec"]["podgroups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| group["podReferences"].as_array().unwrap().len())
        .sum();
    assert_eq!(listed, 10, "a gang lists all its pods from the start");
    world.settle();
    assert_eq!(world.writes["create Pod"], 10);
    assert_eq!(world.writes.get("gate Pod"), None, "pods of a base gang need no gate");
    assert_eq!(world.writes.get("patch PodGang"), None, "a gang is written once");
    assert_eq!(world.writes["create PodClique"], 5);
    assert_eq!(world.writes.get("patch PodClique"), None);
}

#[test]
fn scaled_gangs_wait_for_their_base() {
    let mut world = World::new(WL2);
    world.capacity = Some(0);
    world.settle();
    let gated = |world: &World| {
        world
            .pods()
            .iter()
            .filter(|pod| {
                pod["spec"]["schedulingGates"]
                    .as_array()
                    .is_some_and(|gates| !gates.is_empty())
            })
            .count()
    };
    assert_eq!(gated(&world), 4);
    world.capacity = None;
    world.settle();
    assert_eq!(gated(&world), 0);
    assert!(world.pods().iter().all(|pod| pod["status"]["ready"] == true));
}

#[test]
fn an_ended_pod_is_replaced_at_its_index_w3() {
    let mut world = World::new(WL1);
    world.settle();
    let victim = pods_of(&world, "wl-0-pc-a")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    let index = world.get("Pod", &victim)["metadata"]["labels"]["grove.io/podclique-pod-index"].clone();
    world.edit("Pod", &victim, |pod| {
        pod["status"] = json!({"phase": "Failed"});
    });
    world.settle();
    let pods = pods_of(&world, "wl-0-pc-a");
    assert_eq!(pods.len(), 2);
    assert!(
        pods.iter()
            .any(|pod| pod["metadata"]["labels"]["grove.io/podclique-pod-index"] == index)
    );
    assert!(world.events.iter().any(|event| event.starts_with("PodReplaced")));
    unique_indices(&world);
}

#[test]
fn live_sizes_survive_template_edits_and_scaling_works_at_all_levels() {
    let mut world = World::new(WL2);
    world.settle();
    world.edit("PodClique", "wl-0-pc-a", |clique| clique["spec"]["replicas"] = 4.into());
    world.edit("PodCliqueScalingGroup", "wl-0-sg-x", |group| {
        group["spec"]["replicas"] = 3.into();
    });
    world.settle();
    assert_eq!((pods_of(&world, "wl-0-pc-a").len(), world.pods().len()), (4, 16));
    world.edit("PodCliqueSet", "wl", |set| {
        set["spec"]["template"]["cliques"][0]["spec"]["replicas"] = 7.into();
    });
    world.settle();
    assert_eq!(
        pods_of(&world, "wl-0-pc-a").len(),
        4,
        "a template's size is only the first one"
    );
    world.edit("PodCliqueScalingGroup", "wl-0-sg-x", |group| {
        group["spec"]["replicas"] = 0.into();
    });
    world.settle();
    assert_eq!(world.names("PodGang"), ["wl-0-100001"]);
    assert_eq!(world.pods().len(), 4);
    world.edit("PodCliqueSet", "wl", |set| set["spec"]["replicas"] = 2.into());
    world.settle();
    assert_eq!(world.names("Service"), ["wl-0", "wl-1"]);
    world.edit("PodCliqueSet", "wl", |set| set["spec"]["replicas"] = 1.into());
    world.settle();
    assert_eq!(world.names("Service"), ["wl-0"], "no service is left behind (W19)");
    assert!(world.names("PodClique").iter().all(|name| name.starts_with("wl-0-")));
}

#[test]
fn scale_in_with_holes_leaves_no_copy_behind_w12() {
    let mut world = World::new(WL2);
    world.edit("PodCliqueSet", "wl", |set| {
        set["spec"]["template"]["podCliqueScalingGroups"][0]["replicas"] = 5.into();
    });
    world.settle();
    world.delete("PodClique", "wl-0-sg-x-0-pc-b");
    world.edit("PodCliqueScalingGroup", "wl-0-sg-x", |group| {
        group["spec"]["replicas"] = 3.into();
    });
    world.settle();
    let copies: BTreeSet<String> = world
        .of_kind("PodClique")
        .filter_map(|clique| {
            Some(
                clique["metadata"]["labels"]["grove.io/podcliquescalinggroup-replica-index"]
                    .as_str()?
                    .to_owned(),
            )
        })
        .collect();
    assert_eq!(copies, BTreeSet::from(["0".into(), "1".into(), "2".into()]));
}

/// Settles step by step, and checks after every step that no clique has fewer ready pods than its floor.
fn settle_with_floor(world: &mut World, floor: &BTreeMap<&str, usize>) {
    for _ in 0..500 {
        let planned = world.step();
        for (clique, least) in floor {
            let serving = pods_of(world, clique)
                .iter()
                .filter(|pod| pod["status"]["ready"] == true && !pod["metadata"]["deletionTimestamp"].is_string())
                .count();
            assert!(
                serving >= *least,
                "{clique} has {serving} ready pods, its floor is {least}"
            );
        }
        unique_indices(world);
        let moved = world.kubelets();
        if planned == 0 && !moved {
            return;
        }
    }
    panic!("does not settle");
}

#[test]
fn a_rolling_update_takes_one_pod_and_one_copy_at_a_time() {
    let mut world = World::new(WL2);
    world.settle();
    let before = uids(&world);
    world.edit("PodCliqueSet", "wl", |set| {
        for clique in 0..3 {
            set["spec"]["template"]["cliques"][clique]["spec"]["podSpec"]["containers"][0]["env"] =
                json!([{"name": "V", "value": "2"}]);
        }
    });
    settle_with_floor(&mut world, &BTreeMap::from([("wl-0-pc-a", 1)]));
    assert_eq!(before.intersection(&uids(&world)).count(), 0);
    let status = &world.get("PodCliqueSet", "wl")["status"];
    assert!(status["updateProgress"]["updateEndedAt"].is_string(), "{status}");
    assert_eq!(status["updatedReplicas"], 1);
    let clique = &world.get("PodClique", "wl-0-pc-a")["status"];
    assert_eq!(
        clique["currentPodTemplateHash"],
        world.get("PodClique", "wl-0-pc-a")["metadata"]["labels"]["grove.io/pod-template-hash"]
    );
    world.writes.clear();
    world.settle();
    assert_eq!(world.writes, BTreeMap::new());
}

#[test]
fn an_update_is_never_a_breach_down_to_its_last_pod() {
    let mut world = World::new(WL1);
    world.settle();
    world.edit("PodCliqueSet", "wl", |set| {
        for clique in 0..3 {
            set["spec"]["template"]["cliques"][clique]["spec"]["podSpec"]["containers"][0]["env"] =
                json!([{"name": "V", "value": "2"}]);
        }
    });
    for _ in 0..500 {
        let planned = world.step();
        for object in world.of_kind("PodClique").chain(world.of_kind("PodCliqueScalingGroup")) {
            let conditions = object["status"]["conditions"].as_array().unwrap();
            let breached = conditions
                .iter()
                .any(|condition| condition["type"] == "MinAvailableBreached" && condition["status"] == "True");
            assert!(!breached, "{}: {}", object["metadata"]["name"], object["status"]);
        }
        let moved = world.kubelets();
        if planned == 0 && !moved {
            let status = &world.get("PodCliqueSet", "wl")["status"];
            assert!(status["updateProgress"]["updateEndedAt"].is_string(), "{status}");
            return;
        }
    }
    panic!("does not settle");
}

#[test]
fn only_the_changed_clique_is_rolled_and_replicas_take_turns() {
    let mut world = World::new(&WL1.replace("replicas: 1\n  template", "replicas: 2\n  template"));
    world.settle();
    let others: BTreeSet<String> = world
        .pods()
        .iter()
        .filter(|pod| {
            !pod["metadata"]["labels"]["grove.io/podclique"]
                .as_str()
                .unwrap()
                .ends_with("-pc-a")
        })
        .map(|pod| pod["metadata"]["uid"].as_str().unwrap().to_owned())
        .collect();
    world.edit("PodCliqueSet", "wl", |set| {
        set["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = "a:2".into();
    });
    settle_with_floor(&mut world, &BTreeMap::from([("wl-0-pc-a", 1), ("wl-1-pc-a", 1)]));
    assert_eq!(
        others.intersection(&uids(&world)).count(),
        16,
        "pods of other cliques are never touched"
    );
    assert!(
        world
            .pods()
            .iter()
            .filter(|pod| pod["metadata"]["labels"]["grove.io/podclique"]
                .as_str()
                .unwrap()
                .ends_with("-pc-a"))
            .all(|pod| pod["spec"]["containers"][0]["image"] == "a:2")
    );
}

#[test]
fn the_first_to_be_updated_is_chosen_when_all_replicas_were_seen_with_the_new_template() {
    let mut world = World::new(&WL1.replace("replicas: 1\n  template", "replicas: 2\n  template"));
    world.settle();
    let settings = world.settings.clone();
    let summary = |world: &World, index| {
        let set = world.set().unwrap();
        let context = SetContext::new(&set, &settings, None);
        plan_replica(&context, &world.snapshot(index), world.now).summary
    };
    let before_the_edit = summary(&world, 0);
    assert!(before_the_edit.updated);
    world.edit("PodCliqueSet", "wl", |set| {
        set["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = "a:2".into();
    });
    // Once to record the new template, once more to choose.
    for chosen in [None, Some(0)] {
        let set = world.set().unwrap();
        let context = SetContext::new(&set, &settings, None);
        let mut snapshot = SetSnapshot {
            replicas: BTreeMap::from([(0, before_the_edit.clone()), (1, summary(&world, 1))]),
            ..SetSnapshot::default()
        };
        let plan = plan_set(&context, &snapshot, world.now);
        assert_eq!((plan.unseen, plan.stages), (vec![0], vec![]));
        snapshot.replicas.insert(0, summary(&world, 0));
        let plan = plan_set(&context, &snapshot, world.now);
        for command in plan.stages.iter().flatten() {
            if matches!(command, Command::Status { .. }) {
                world.carry_out(command);
            }
        }
        let progress = &world.get("PodCliqueSet", "wl")["status"]["updateProgress"];
        assert_eq!(progress["currentlyUpdating"][0]["replicaIndex"].as_i64(), chosen);
        assert_eq!(
            progress["updatedPodCliquesCount"], 0,
            "wl-0-pc-a and wl-1-pc-a are still to come"
        );
    }
}

#[test]
fn an_edit_during_an_update_supersedes_it() {
    let mut world = World::new(WL1);
    world.settle();
    let image = |world: &mut World, image: &str| {
        world.edit("PodCliqueSet", "wl", |set| {
            set["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = image.into();
        });
    };
    image(&mut world, "a:2");
    for _ in 0..4 {
        world.step();
        world.kubelets();
    }
    image(&mut world, "a:3");
    world.settle();
    assert!(
        pods_of(&world, "wl-0-pc-a")
            .iter()
            .all(|pod| pod["spec"]["containers"][0]["image"] == "a:3")
    );
}

#[test]
fn a_change_without_meaning_restarts_nothing() {
    let mut world = World::new(WL1);
    world.settle();
    let before = uids(&world);
    world.edit("PodCliqueSet", "wl", |set| {
        let template = &mut set["spec"]["template"];
        template["cliques"].as_array_mut().unwrap().reverse();
        template["cliques"][0]["spec"]["podSpec"]["restartPolicy"] = "Always".into();
        template["terminationDelay"] = "20s".into();
    });
    world.settle();
    assert_eq!(before, uids(&world));
}

#[test]
fn gangs_follow_a_change_of_mind_about_spreading_and_nothing_restarts() {
    let mut world = World::new(WL1);
    world.settle();
    let before = uids(&world);
    let (preferred, required) = ("grove.io/spread-preferred", "grove.io/spread-required");
    for (gone, there) in [(required, preferred), (preferred, required)] {
        world.edit("PodCliqueSet", "wl", |set| {
            set["metadata"]["annotations"] = json!({there: "topology.kubernetes.io/zone"});
        });
        world.settle();
        let annotations = &world.get("PodGang", "wl-0-100001")["metadata"]["annotations"];
        assert_eq!(annotations[there], "topology.kubernetes.io/zone");
        assert_eq!(annotations.get(gone), None);
    }
    assert_eq!(uids(&world), before);
}

#[test]
fn with_on_delete_only_deleted_pods_come_back_new() {
    let mut world = World::new(&WL1.replace("  template:\n", "  updateStrategy: {type: OnDelete}\n  template:\n"));
    world.settle();
    let before = uids(&world);
    world.edit("PodCliqueSet", "wl", |set| {
        set["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = "a:2".into();
    });
    world.settle();
    assert_eq!(before, uids(&world));
    let status = &world.get("PodCliqueSet", "wl")["status"];
    assert!(status["updateProgress"]["updateEndedAt"].is_string());
    let victim = pods_of(&world, "wl-0-pc-a")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world.delete("Pod", &victim);
    world.settle();
    let images: Vec<&Value> = pods_of(&world, "wl-0-pc-a")
        .iter()
        .map(|pod| &pod["spec"]["containers"][0]["image"])
        .collect();
    assert_eq!(images.iter().filter(|image| **image == "a:2").count(), 1);
}

#[test]
fn taking_over_from_another_operator_restarts_nothing_and_the_next_edit_rolls_only_what_changed() {
    let mut world = World::new(WL1);
    world.settle();
    // As the Go operator leaves it: hashes of its own everywhere, no revisions.
    for key in world.objects.keys().cloned().collect::<Vec<_>>() {
        let object = world.objects.get_mut(&key).unwrap();
        if object["metadata"]["labels"]["grove.io/pod-template-hash"].is_string() {
            let clique = object["metadata"]["labels"]["grove.io/podclique"]
                .as_str()
                .unwrap_or(&key.1)
                .rsplit('-')
                .next()
                .unwrap()
                .to_owned();
            object["metadata"]["labels"]["grove.io/pod-template-hash"] = format!("5d8b6f{clique}").into();
        }
        if key.0 == "PodClique" || key.0 == "PodCliqueScalingGroup" || key.0 == "PodCliqueSet" {
            object["status"]["currentPodCliqueSetGenerationHash"] = "7c9f8".into();
            object["status"]["currentPodTemplateHash"] =
                object["metadata"]["labels"]["grove.io/pod-template-hash"].clone();
        }
    }
    world.objects.retain(|(kind, _), _| kind != "ControllerRevision");
    world.edit("PodCliqueSet", "wl", |set| {
        set["status"]["currentGenerationHash"] = "7c9f8".into();
    });
    let before = uids(&world);
    world.writes.clear();
    world.settle();
    assert_eq!(before, uids(&world));
    assert_eq!(
        world.writes.get("patch PodClique"),
        None,
        "no template is written: {:?}",
        world.writes
    );
    assert_eq!(
        world.get("PodCliqueSet", "wl")["status"]["currentGenerationHash"],
        "7c9f8",
        "clients keep the hash they know"
    );
    world.edit("PodCliqueSet", "wl", |set| {
        set["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = "a:2".into();
    });
    world.settle();
    assert_eq!(before.intersection(&uids(&world)).count(), 8, "only pc-a was rolled");
}

#[test]
fn pods_that_wait_while_we_take_over_keep_their_permission() {
    let ordered = "  template:\n    cliqueStartupType: CliqueStartupTypeInOrder\n";
    let mut world = World::new(&WL1.replace("  template:\n", ordered));
    world.settle();
    let ours = world.get("RoleBinding", "grove.io:pcs:wl")["subjects"][0].clone();
    let theirs = json!({"kind": "ServiceAccount", "name": "wl", "namespace": "test"});
    world.edit("RoleBinding", "grove.io:pcs:wl", |binding| {
        binding["subjects"] = json!([theirs]);
    });
    world.settle();
    assert_eq!(
        world.get("RoleBinding", "grove.io:pcs:wl")["subjects"],
        json!([theirs, ours])
    );
    world.edit("RoleBinding", "grove.io:pcs:wl", |binding| {
        binding["subjects"] = json!([{"kind": "ServiceAccount", "name": "stranger", "namespace": "test"}]);
    });
    world.settle();
    assert_eq!(world.get("RoleBinding", "grove.io:pcs:wl")["subjects"], json!([ours]));
}

#[test]
fn a_deleted_set_leaves_nothing_behind() {
    let mut world = World::new(WL2);
    world.settle();
    world.delete("PodCliqueSet", "wl");
    world.settle();
    // Revisions are owned by the set; garbage collection takes them.
    let left: Vec<_> = world
        .objects
        .keys()
        .filter(|(kind, _)| kind != "ControllerRevision")
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_wanted_clique_that_somebody_deletes_comes_back_after_its_old_pods_are_gone_w5() {
    let mut world = World::new(WL1);
    world.settle();
    world.delete("PodClique", "wl-0-pc-a");
    for _ in 0..50 {
        world.step();
        let owners: BTreeSet<String> = pods_of(&world, "wl-0-pc-a")
            .iter()
            .map(|pod| pod["metadata"]["ownerReferences"][0]["uid"].to_string())
            .collect();
        assert!(owners.len() <= 1, "pods of two objects at once: {owners:?}");
        world.kubelets();
    }
    world.settle();
    assert_eq!(pods_of(&world, "wl-0-pc-a").len(), 2);
}

#[test]
fn a_set_that_is_not_ready_never_gives_the_availability_of_all_replicas_as_the_reason() {
    let mut world = World::new(WL2);
    world.settle();
    world.edit("PodCliqueSet", "wl", |set| {
        set["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = "a:2".into();
    });
    let mut reasons = BTreeSet::new();
    for _ in 0..60 {
        world.step();
        world.kubelets();
        let conditions = world.get("PodCliqueSet", "wl")["status"]["conditions"].clone();
        let conditions = conditions.as_array().unwrap().iter();
        for ready in conditions.filter(|condition| condition["type"] == "Ready" && condition["status"] == "False") {
            reasons.insert(ready["reason"].as_str().unwrap().to_owned());
        }
    }
    assert!(reasons.contains("UpdateInProgress"), "{reasons:?}");
    assert!(!reasons.contains("AllReplicasAvailable"), "{reasons:?}");
}

#[test]
fn a_group_that_is_scaled_beyond_what_there_is_room_for_is_still_updated() {
    let mut world = World::new(WL2);
    world.settle();
    world.capacity = Some(world.pods().len());
    assert_eq!(world.get("PodCliqueSet", "wl")["status"]["updatedReplicas"], 1);
    world.edit("PodCliqueScalingGroup", "wl-0-sg-x", |group| {
        group["spec"]["replicas"] = 6.into();
    });
    world.edit("PodClique", "wl-0-pc-a", |clique| clique["spec"]["replicas"] = 5.into());
    world.settle();
    let status = &world.get("PodCliqueSet", "wl")["status"];
    assert_eq!(
        (&status["availableReplicas"], &status["updatedReplicas"]),
        (&json!(1), &json!(1)),
        "{status}"
    );
}

#[test]
fn a_revision_carries_the_cause_that_its_set_names() {
    let cause = |world: &World| -> Vec<String> {
        let mut revisions: Vec<_> = world.of_kind("ControllerRevision").collect();
        revisions.sort_by_key(|revision| revision["revision"].as_i64());
        let causes = revisions
            .iter()
            .map(|revision| &revision["metadata"]["annotations"]["kubernetes.io/change-cause"]);
        causes.map(|cause| cause.as_str().unwrap_or("-").to_owned()).collect()
    };
    let say = |world: &mut World, words: &str| {
        world.edit("PodCliqueSet", "wl", |set| {
            set["metadata"]["annotations"]["kubernetes.io/change-cause"] = words.into();
        });
    };
    let image = |world: &mut World, image: &str| {
        world.edit("PodCliqueSet", "wl", |set| {
            set["spec"]["template"]["cliques"][0]["spec"]["podSpec"]["containers"][0]["image"] = image.into();
        });
    };
    let mut world = World::new(WL1);
    world.settle();
    assert_eq!(cause(&world), ["-"]);
    say(&mut world, "first");
    world.settle();
    assert_eq!(
        cause(&world),
        ["first"],
        "the cause of a template may be named afterwards"
    );
    image(&mut world, "a:2");
    say(&mut world, "second");
    world.settle();
    assert_eq!(cause(&world), ["first", "second"]);
    world.writes.clear();
    world.settle();
    assert!(world.writes.is_empty(), "{:?}", world.writes);
}
