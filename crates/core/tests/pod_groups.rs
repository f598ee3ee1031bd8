//! The objects of other schedulers over the life of a set: written once with their gangs, corrected, deleted, read back.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use coppice_core::settings::Settings;
use serde_json::{Value, json};
use world::{WL1, WL2, World, pods_of};

/// A workload under a scheduler that gets PodGroups.
fn world(workload: &str, scheduler: &str) -> World {
    let mut set: Value = serde_saphyr::from_str(workload).unwrap();
    for clique in set["spec"]["template"]["cliques"].as_array_mut().unwrap() {
        clique["spec"]["podSpec"]["schedulerName"] = scheduler.into();
    }
    set["metadata"]["labels"] = json!({"kai.scheduler/queue": "research"});
    let mut world = World::with(set);
    world.settings = Settings {
        kai: true,
        volcano: true,
        native_gangs: true,
        ..Settings::default()
    };
    world
}

const SCHEDULERS: [&str; 3] = ["kai-scheduler", "volcano", "default-scheduler"];

fn condition<'a>(world: &'a World, gang: &str, kind: &str) -> Option<&'a Value> {
    let conditions = world.get("PodGang", gang)["status"]["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == kind)
}

fn version(object: &Value) -> u64 {
    // Uids of this world count creations.
    let uid = object["metadata"]["uid"].as_str().unwrap();
    uid.trim_start_matches("uid-").parse().unwrap()
}

#[test]
fn each_gang_gets_one_object_with_one_write_before_its_pods_and_none_when_idle() {
    for scheduler in SCHEDULERS {
        let mut world = world(WL2, scheduler);
        world.settle();
        assert_eq!(world.names("PodGroup"), world.names("PodGang"), "{scheduler}");
        assert_eq!(world.writes.get("create PodGroup"), Some(&2), "{scheduler}");
        for verb in ["patch PodGroup", "delete PodGroup", "status PodGroup"] {
            assert_eq!(world.writes.get(verb), None, "{scheduler}: {verb}");
        }
        for pod in world.pods() {
            let gang = pod["metadata"]["labels"]["grove.io/podgang"].as_str().unwrap();
            let group = world.get("PodGroup", gang);
            assert!(
                version(group) < version(pod),
                "{scheduler}: {gang} is known before its pods"
            );
            assert_eq!(
                group["metadata"]["ownerReferences"][0]["uid"],
                world.get("PodGang", gang)["metadata"]["uid"]
            );
        }
        world.writes.clear();
        world.advance(3600);
        world.settle();
        assert_eq!(world.writes.get("patch PodGroup"), None, "{scheduler}");
        assert!(world.writes.is_empty(), "{scheduler}: {:?}", world.writes);
    }
}

#[test]
fn pods_are_stamped_when_they_are_created() {
    let stamped = |scheduler: &str| {
        let mut world = world(WL2, scheduler);
        world.settle();
        pods_of(&world, "wl-0-sg-x-1-pc-b")[0].clone()
    };
    let pod = stamped("kai-scheduler");
    assert_eq!(pod["metadata"]["annotations"]["pod-group-name"], "wl-0-100002-sg-x-1");
    assert_eq!(pod["metadata"]["annotations"]["kai.scheduler/skip-podgrouper"], "true");
    assert_eq!(
        pod["metadata"]["labels"]["kai.scheduler/subgroup-name"],
        "wl-0-sg-x-1-pc-b"
    );
    let pod = stamped("volcano");
    for key in ["scheduling.volcano.sh/group-name", "scheduling.k8s.io/group-name"] {
        assert_eq!(pod["metadata"]["annotations"][key], "wl-0-100002-sg-x-1");
    }
    let pod = stamped("default-scheduler");
    assert_eq!(
        pod["spec"]["schedulingGroup"],
        json!({"podGroupName": "wl-0-100002-sg-x-1"})
    );
}

/// Pods of an interrupted migration still name the group of their former gang (#837).
#[test]
fn a_pod_that_names_a_former_group_is_relabelled_and_not_replaced() {
    let cases = [
        ("kai-scheduler", "pod-group-name"),
        ("volcano", "scheduling.volcano.sh/group-name"),
    ];
    for (scheduler, key) in cases {
        let mut world = world(WL2, scheduler);
        world.settle();
        let pod = pods_of(&world, "wl-0-sg-x-1-pc-b")[0].clone();
        let name = pod["metadata"]["name"].as_str().unwrap();
        world.edit("Pod", name, |pod| {
            pod["metadata"]["annotations"][key] = "wl-0-sg-x-0".into();
            pod["metadata"]["labels"]["grove.io/base-podgang"] = "wl-0".into();
        });
        world.writes.clear();
        world.settle();
        let after = world.get("Pod", name);
        assert_eq!(after["metadata"]["uid"], pod["metadata"]["uid"], "{scheduler}");
        assert_eq!(
            after["metadata"]["annotations"][key], "wl-0-100002-sg-x-1",
            "{scheduler}"
        );
        assert!(
            after["metadata"]["labels"]["grove.io/base-podgang"].is_null(),
            "{scheduler}"
        );
        assert_eq!(
            world.writes.get("patch Pod"),
            Some(&1),
            "{scheduler}: {:?}",
            world.writes
        );
        assert_eq!(world.writes.get("delete Pod"), None, "{scheduler}");
    }
}

#[test]
fn a_gang_under_kai_is_kept_from_its_own_grouping_also_when_it_was_created_before() {
    let mut world = world(WL2, "kai-scheduler");
    world.settle();
    let skip = |world: &World| {
        world.get("PodGang", "wl-0-100001")["metadata"]["annotations"]["kai.scheduler/skip-podgrouper"].clone()
    };
    assert_eq!(skip(&world), "true");
    world.edit("PodGang", "wl-0-100001", |gang| {
        gang["metadata"]["annotations"] = json!({});
    });
    world.writes.clear();
    world.settle();
    assert_eq!(skip(&world), "true");
    assert_eq!(world.writes.get("patch PodGang"), Some(&1));
}

#[test]
fn the_object_goes_when_nothing_is_left_to_place_and_comes_back() {
    for scheduler in SCHEDULERS {
        let mut world = world(WL1, scheduler);
        world.settle();
        assert_eq!(world.names("PodGroup"), ["wl-0-100001"], "{scheduler}");
        let sizes: Vec<(String, Value)> = world
            .of_kind("PodClique")
            .map(|clique| {
                let name = clique["metadata"]["name"].as_str().unwrap().to_owned();
                (name, clique["spec"]["replicas"].clone())
            })
            .collect();
        for (name, _) in &sizes {
            world.edit("PodClique", name, |clique| clique["spec"]["replicas"] = 0.into());
        }
        world.settle();
        assert_eq!(world.names("PodGroup"), Vec::<String>::new(), "{scheduler}");
        assert_eq!(world.names("PodGang"), ["wl-0-100001"], "{scheduler}: the gang stays");
        for (name, size) in &sizes {
            world.edit("PodClique", name, |clique| clique["spec"]["replicas"] = size.clone());
        }
        world.settle();
        assert_eq!(world.names("PodGroup"), ["wl-0-100001"], "{scheduler}");
        assert_eq!(world.pods().len(), 10, "{scheduler}");
    }
}

#[test]
fn a_scaled_gang_takes_its_object_along() {
    for scheduler in SCHEDULERS {
        let mut world = world(WL2, scheduler);
        world.settle();
        world.edit("PodCliqueScalingGroup", "wl-0-sg-x", |group| {
            group["spec"]["replicas"] = 1.into();
        });
        world.settle();
        assert_eq!(world.names("PodGroup"), ["wl-0-100001"], "{scheduler}");
        world.edit("PodCliqueScalingGroup", "wl-0-sg-x", |group| {
            group["spec"]["replicas"] = 3.into();
        });
        world.settle();
        assert_eq!(
            world.names("PodGroup"),
            ["wl-0-100001", "wl-0-100002-sg-x-1", "wl-0-100003-sg-x-2"],
            "{scheduler}"
        );
        world.delete("PodCliqueSet", "wl");
        world.settle();
        assert_eq!(world.names("PodGroup"), Vec::<String>::new(), "{scheduler}");
    }
}

#[test]
fn an_object_that_is_edited_or_deleted_by_hand_is_put_right_with_one_write() {
    for (scheduler, field) in [("kai-scheduler", "minMember"), ("volcano", "minMember")] {
        let mut world = world(WL1, scheduler);
        world.settle();
        world.edit("PodGroup", "wl-0-100001", |group| group["spec"][field] = 99.into());
        world.writes.clear();
        world.settle();
        assert_eq!(world.get("PodGroup", "wl-0-100001")["spec"][field], 10, "{scheduler}");
        assert_eq!(world.writes.get("patch PodGroup"), Some(&1), "{scheduler}");
        world.delete("PodGroup", "wl-0-100001");
        world.settle();
        assert_eq!(world.get("PodGroup", "wl-0-100001")["spec"][field], 10, "{scheduler}");
    }
}

#[test]
fn an_object_of_others_is_left_alone_and_reported() {
    for scheduler in SCHEDULERS {
        let mut world = world(WL1, scheduler);
        let version = match scheduler {
            "kai-scheduler" => "scheduling.run.ai/v2alpha2",
            "volcano" => "scheduling.volcano.sh/v1beta1",
            _ => "scheduling.k8s.io/v1alpha2",
        };
        world.create(json!({
            "apiVersion": version,
            "kind": "PodGroup",
            "metadata": {
                "name": "wl-0-100001",
                "labels": {"app.kubernetes.io/part-of": "wl", "grove.io/podcliqueset-replica-index": "0"},
            },
            "spec": {"minMember": 1},
        }));
        world.writes.clear();
        world.settle();
        assert_eq!(
            world.get("PodGroup", "wl-0-100001")["spec"],
            json!({"minMember": 1}),
            "{scheduler}"
        );
        let limited = condition(&world, "wl-0-100001", "SchedulerBackendLimited").unwrap();
        assert_eq!(limited["reason"], "NotExpressible");
        let message = limited["message"].as_str().unwrap();
        assert!(message.contains("belongs to something else"), "{scheduler}: {message}");
        world.delete("PodGroup", "wl-0-100001");
        world.settle();
        assert_eq!(
            world.get("PodGroup", "wl-0-100001")["apiVersion"],
            version,
            "{scheduler}"
        );
    }
}

#[test]
fn why_a_gang_waits_is_read_from_the_object_of_its_scheduler() {
    let status = [
        (
            "kai-scheduler",
            json!({"schedulingConditions": [
                {"type": "UnschedulableOnNodePool", "status": "True", "reasons": [{"reason": "OverLimit", "message": "queue research is over its limit"}]},
            ]}),
        ),
        (
            "volcano",
            json!({"conditions": [{"type": "Unschedulable", "status": "True", "message": "queue research is over its limit"}]}),
        ),
        (
            "default-scheduler",
            json!({"conditions": [{"type": "PodGroupScheduled", "status": "False", "message": "queue research is over its limit"}]}),
        ),
    ];
    for (scheduler, status) in status {
        let mut world = world(WL1, scheduler);
        world.capacity = Some(0);
        world.settle();
        world.edit("PodGroup", "wl-0-100001", |group| group["status"] = status.clone());
        world.settle();
        let scheduled = condition(&world, "wl-0-100001", "Scheduled").unwrap();
        assert_eq!(scheduled["status"], "False", "{scheduler}");
        let message = scheduled["message"].as_str().unwrap();
        assert!(
            message.ends_with("needed pods on nodes: queue research is over its limit"),
            "{scheduler}: {message}"
        );
        world.capacity = None;
        world.settle();
        assert_eq!(
            condition(&world, "wl-0-100001", "Scheduled").unwrap()["status"],
            "True",
            "{scheduler}"
        );
    }
}

#[test]
fn what_a_scheduler_is_not_told_is_a_condition_of_the_gang_while_it_is_so() {
    let mut native = world(WL1, "default-scheduler");
    native.settle();
    assert_eq!(condition(&native, "wl-0-100001", "SchedulerBackendLimited"), None);
    native.edit("PodClique", "wl-0-pc-a", |clique| clique["spec"]["replicas"] = 3.into());
    native.settle();
    let limited = condition(&native, "wl-0-100001", "SchedulerBackendLimited").unwrap();
    assert!(limited["message"].as_str().unwrap().contains("wl-0-pc-a"), "{limited}");
    native.edit("PodClique", "wl-0-pc-a", |clique| clique["spec"]["replicas"] = 2.into());
    native.settle();
    assert_eq!(condition(&native, "wl-0-100001", "SchedulerBackendLimited"), None);

    let mut without_queue = world(WL1, "kai-scheduler");
    without_queue.edit("PodCliqueSet", "wl", |set| set["metadata"]["labels"] = json!({}));
    without_queue.settle();
    assert_eq!(without_queue.names("PodGroup"), Vec::<String>::new());
    let limited = condition(&without_queue, "wl-0-100001", "SchedulerBackendLimited").unwrap();
    assert!(
        limited["message"].as_str().unwrap().contains("needs a queue"),
        "{limited}"
    );
}

#[test]
fn gangs_are_said_not_to_be_guaranteed_only_where_no_object_stands_for_them() {
    let not_guaranteed = |native_gangs: bool| {
        let mut world = world(WL1, "default-scheduler");
        world.settings.native_gangs = native_gangs;
        world.settle();
        let set = world.get("PodCliqueSet", "wl");
        let conditions = set["status"]["conditions"].as_array().unwrap();
        let found = conditions
            .iter()
            .any(|condition| condition["type"] == "GangsNotGuaranteed");
        assert_eq!(world.names("PodGroup").is_empty(), !native_gangs);
        found
    };
    assert!(not_guaranteed(false));
    assert!(!not_guaranteed(true));
}
