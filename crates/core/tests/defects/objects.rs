//! Defects in what objects contain and in what is left of them.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::types::PodCliqueSet;
use coppice_core::context::SetContext;
use coppice_core::replica::plan_replica;
use coppice_core::settings::{Settings, TopologyLevels};
use serde_json::{Value, json};

use crate::condition;
use crate::world::{WL1, WL2, World, pods_of};

const ALIKE: &str = "
metadata: {name: wl}
spec:
  replicas: 1
  template:
    cliqueStartupType: CliqueStartupTypeExplicit
    cliques:
    - {name: worker, spec: {roleName: w, replicas: 3, minAvailable: 3, podSpec: {containers: [{name: m, image: cpu}]}}}
    - {name: gpu-worker, spec: {roleName: g, replicas: 2, minAvailable: 1, podSpec: {containers: [{name: m, image: gpu}]}}}
    - {name: work, spec: {roleName: x, replicas: 1, minAvailable: 1, startsAfter: [gpu-worker], podSpec: {containers: [{name: m, image: x}]}}}
    - {name: member, spec: {roleName: m, replicas: 1, minAvailable: 1, podSpec: {containers: [{name: m, image: y}]}}}
    podCliqueScalingGroups:
    - {name: group, cliqueNames: [member], replicas: 2, minAvailable: 1}
";

#[test]
fn w06_names_that_end_alike_are_not_mixed_up() {
    let mut world = World::new(ALIKE);
    world.settle();
    for (clique, image, count) in [
        ("wl-0-worker", "cpu", 3),
        ("wl-0-gpu-worker", "gpu", 2),
        ("wl-0-work", "x", 1),
    ] {
        let pods = pods_of(&world, clique);
        assert_eq!(pods.len(), count, "{clique}");
        assert!(
            pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == image),
            "{clique}"
        );
    }
    let waiter = &pods_of(&world, "wl-0-work")[0]["spec"]["initContainers"][0];
    assert_eq!(
        waiter["args"],
        json!(["--podcliques=wl-0-gpu-worker:1"]),
        "its own minimum"
    );
    assert_eq!(
        world.get("PodCliqueSet", "wl")["status"]["updatedReplicas"],
        1,
        "and it converges"
    );
}

#[test]
fn w19_a_smaller_set_leaves_nothing_behind() {
    let mut world = World::new(&WL2.replace("replicas: 1\n  template", "replicas: 3\n  template"));
    world.settle();
    let kinds = ["Service", "PodClique", "PodCliqueScalingGroup", "PodGang", "Pod"];
    let of = |world: &World, index: &str| -> Vec<String> {
        let belongs = |name: &String| name.starts_with(&format!("wl-{index}-")) || *name == format!("wl-{index}");
        let all = kinds.iter().flat_map(|kind| world.names(kind));
        all.filter(belongs).collect()
    };
    assert_eq!(of(&world, "2").len(), of(&world, "0").len());
    world.edit("PodCliqueSet", "wl", |set| set["spec"]["replicas"] = 1.into());
    world.settle();
    assert_eq!((of(&world, "1"), of(&world, "2")), (vec![], vec![]));
    world.edit("PodCliqueSet", "wl", |set| set["spec"]["replicas"] = 0.into());
    world.settle();
    let left: BTreeSet<&str> = world.objects.keys().map(|(kind, _)| kind.as_str()).collect();
    assert_eq!(left, BTreeSet::from(["ControllerRevision", "PodCliqueSet"]));
}

#[test]
fn w20_no_token_is_stored_and_nothing_waits_for_one() {
    let mut world = World::new(WL1);
    for _ in 0..3 {
        world.step();
    }
    assert_eq!(
        world.pods().len(),
        10,
        "groups, their cliques, pods: three plans and no wait"
    );
    for kind in ["Secret", "ServiceAccount", "Role", "RoleBinding"] {
        assert_eq!(
            world.names(kind),
            Vec::<String>::new(),
            "nobody waits, so nobody needs a {kind}"
        );
    }
    let mut ordered = World::new(ALIKE);
    ordered.settle();
    assert_eq!(ordered.names("Secret"), Vec::<String>::new());
    let volumes = &pods_of(&ordered, "wl-0-work")[0]["spec"]["volumes"];
    let token = volumes.as_array().unwrap().iter().find_map(|volume| {
        let sources = volume["projected"]["sources"].as_array()?;
        sources
            .iter()
            .find_map(|source| source["serviceAccountToken"]["expirationSeconds"].as_i64())
    });
    assert!(
        token.is_some_and(|seconds| seconds <= 3607),
        "the token of the waiter expires"
    );
}

#[test]
fn w24_what_a_scheduler_says_of_a_gang_is_kept_and_health_is_told() {
    let mut world = World::new(WL1);
    world.loading = true;
    world.settle();
    let said = json!({
        "type": "Unhealthy", "status": "False", "reason": "Placed", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    world.edit("PodGang", "wl-0-100001", |gang| {
        gang["status"]["conditions"].as_array_mut().unwrap().push(said.clone());
        gang["status"]["placementScore"] = json!(0.5);
    });
    let gang = world.get("PodGang", "wl-0-100001");
    assert_eq!(gang["status"]["phase"], "Starting");
    assert_eq!(condition(gang, "Scheduled")["status"], "True");
    assert_eq!(condition(gang, "Ready")["status"], "False");
    world.loading = false;
    world.settle();
    let gang = world.get("PodGang", "wl-0-100001");
    assert_eq!(gang["status"]["phase"], "Running");
    assert_eq!(condition(gang, "Ready")["status"], "True");
    assert_eq!(condition(gang, "Unhealthy"), &said);
    assert_eq!(gang["status"]["placementScore"], 0.5);
}

#[test]
fn w25_metadata_of_others_on_a_gang_is_left_alone() {
    let mut world = World::new(WL1);
    world.settle();
    world.edit("PodGang", "wl-0-100001", |gang| {
        gang["metadata"]["annotations"]["kai.scheduler/skip-podgrouper"] = "true".into();
        gang["metadata"]["labels"]["example.com/theirs"] = "yes".into();
    });
    world.writes.clear();
    world.settle();
    world.edit("PodCliqueSet", "wl", |set| {
        set["metadata"]["labels"] = json!({"team": "infer"});
    });
    world.settle();
    let gang = &world.get("PodGang", "wl-0-100001")["metadata"];
    assert_eq!(gang["annotations"]["kai.scheduler/skip-podgrouper"], "true");
    assert_eq!(gang["labels"]["example.com/theirs"], "yes");
}

#[test]
fn w26_a_topology_that_is_lost_does_not_unpack_a_placed_gang() {
    let mut world = World::new(WL1);
    world.edit("PodCliqueSet", "wl", |set| {
        let template = &mut set["spec"]["template"];
        template["topologyConstraint"] =
            json!({"topologyName": "dgx", "pack": {"required": "zone", "preferred": "rack"}});
        template["cliques"][0]["topologyConstraint"] = json!({"pack": {"required": "rack"}});
        template["podCliqueScalingGroups"][0]["topologyConstraint"] = json!({"pack": {"required": "rack"}});
    });
    let settings = Settings {
        topology_aware: true,
        ..Settings::default()
    };
    let levels = |domains: &[(&str, &str)]| TopologyLevels {
        name: "dgx".to_owned(),
        keys: domains
            .iter()
            .map(|(domain, key)| ((*domain).to_owned(), (*key).to_owned()))
            .collect(),
    };
    let step = |world: &mut World, topology: Option<&TopologyLevels>| {
        let set: PodCliqueSet = world.set().unwrap();
        let plan = plan_replica(
            &SetContext::new(&set, &settings, topology),
            &world.snapshot(0),
            world.now,
        );
        for command in plan.stages.iter().flatten() {
            world.carry_out(command);
        }
        world.kubelets();
    };
    let whole = levels(&[("zone", "example.com/zone"), ("rack", "example.com/rack")]);
    for _ in 0..20 {
        step(&mut world, Some(&whole));
    }
    let packed = |world: &World| world.get("PodGang", "wl-0-100001")["spec"].clone();
    let before = packed(&world);
    let rack = json!({"required": "example.com/rack"});
    assert_eq!(
        before["topologyConstraint"]["packConstraint"]["preferred"],
        "example.com/rack"
    );
    assert_eq!(before["podgroups"][0]["topologyConstraint"]["packConstraint"], rack);
    assert_eq!(
        before["topologyConstraintGroupConfigs"][0]["topologyConstraint"]["packConstraint"],
        rack
    );
    let without_rack = levels(&[("zone", "example.com/zone")]);
    for topology in [None, Some(&without_rack)] {
        for _ in 0..5 {
            step(&mut world, topology);
        }
        assert_eq!(packed(&world), before, "with {topology:?}");
    }
}

#[test]
fn w28_whatever_is_deleted_by_hand_comes_back() {
    let set = ALIKE.replace(
        "replicas: 2, minAvailable: 1,",
        "replicas: 2, minAvailable: 1, autoScalingConfig: {minReplicas: 1, maxReplicas: 4},",
    );
    let mut world = World::new(&set);
    world.settle();
    let names = |world: &World| -> BTreeMap<String, BTreeSet<String>> {
        let mut names: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (kind, name) in world.objects.keys().filter(|(kind, _)| kind != "Pod") {
            names.entry(kind.clone()).or_default().insert(name.clone());
        }
        names
    };
    let before = names(&world);
    for kind in [
        "Service",
        "HorizontalPodAutoscaler",
        "Role",
        "RoleBinding",
        "PodGang",
        "PodClique",
        "PodCliqueScalingGroup",
    ] {
        assert!(before.contains_key(kind), "{kind} is there");
        let uid = |world: &World, name: &str| world.get(kind, name)["metadata"]["uid"].clone();
        let first: Vec<Value> = before[kind].iter().map(|name| uid(&world, name)).collect();
        for name in &before[kind] {
            world.delete(kind, name);
        }
        world.settle();
        assert_eq!(names(&world), before, "after all of {kind} were deleted");
        for (name, first) in before[kind].iter().zip(first) {
            assert_ne!(uid(&world, name), first, "{kind} {name} is a new one");
        }
    }
    assert_eq!(world.pods().len(), 8);
}

#[test]
fn w30_the_priority_of_a_set_reaches_its_pods() {
    let set = WL1.replace(
        "terminationDelay: 10s",
        "terminationDelay: 10s\n    priorityClassName: inference-high",
    );
    let mut world = World::new(&set);
    world.settle();
    let with_priority = |pod: &&Value| pod["spec"]["priorityClassName"] == "inference-high";
    assert!(world.pods().iter().all(with_priority));
    assert_eq!(
        world.get("PodGang", "wl-0-100001")["spec"]["priorityClassName"],
        "inference-high"
    );
}
