//! Multi-node NVLink: who shares a domain, and that a domain lives as long as its users (W19).
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use coppice_core::facts::SetFacts;
use coppice_core::mnnvl::group_of;
use coppice_core::settings::Settings;
use serde_json::{Value, json};
use world::history::{Event, Trouble};
use world::{World, pods_of};

const NV: &str = r#"
metadata: {name: nv, namespace: test, uid: u, annotations: {grove.io/mnnvl-group: all}}
spec:
  replicas: 2
  template:
    cliques:
    - {name: cpu, spec: {roleName: cpu, replicas: 1, podSpec: {containers: [{name: m, image: a}]}}}
    - name: gpu
      spec:
        roleName: gpu
        replicas: 1
        podSpec:
          containers:
          - {name: side, image: a}
          - {name: m, image: a, resources: {limits: {nvidia.com/gpu: "8"}}}
"#;

fn world(auto_mnnvl: bool) -> World {
    let mut world = World::new(NV);
    world.settings = Settings {
        auto_mnnvl,
        ..Settings::default()
    };
    world
}

#[test]
fn the_nearest_annotation_wins_and_none_opts_out() {
    let layers = [None, Some("x"), Some("none")];
    for of_set in layers {
        for of_group in layers {
            for of_clique in layers {
                let annotation =
                    |value: Option<&str>| value.map_or(json!({}), |value| json!({"grove.io/mnnvl-group": value}));
                let set = json!({
                    "metadata": {"name": "s", "annotations": annotation(of_set.map(|it| if it == "x" { "set" } else { it }))},
                    "spec": {"replicas": 1, "template": {
                        "cliques": [{
                            "name": "c",
                            "annotations": annotation(of_clique.map(|it| if it == "x" { "clique" } else { it })),
                            "spec": {"roleName": "c", "replicas": 1, "podSpec": {"containers": []}},
                        }],
                        "podCliqueScalingGroups": [{
                            "name": "g",
                            "cliqueNames": ["c"],
                            "annotations": annotation(of_group.map(|it| if it == "x" { "group" } else { it })),
                        }],
                    }},
                });
                let set = serde_json::from_value(set).unwrap();
                let expected = match (of_clique, of_group, of_set) {
                    (Some("x"), _, _) => Some("clique"),
                    (None, Some("x"), _) => Some("group"),
                    (None, None, Some("x")) => Some("set"),
                    _ => None,
                };
                assert_eq!(
                    group_of(&SetFacts::of(&set), 0),
                    expected,
                    "{of_set:?} {of_group:?} {of_clique:?}"
                );
            }
        }
    }
}

fn claim_names(container: &Value) -> Vec<&Value> {
    let claims = container["resources"]["claims"].as_array();
    claims.into_iter().flatten().map(|claim| &claim["name"]).collect()
}

#[test]
fn each_replica_has_a_domain_and_only_containers_with_gpus_claim_a_channel() {
    let mut world = world(true);
    world.settle();
    assert_eq!(world.names("ComputeDomain"), ["nv-0-all", "nv-1-all"]);
    let domain = world.get("ComputeDomain", "nv-1-all");
    assert_eq!(
        domain["spec"],
        json!({"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": "nv-1-all"}}})
    );
    assert_eq!(
        domain["metadata"]["finalizers"],
        json!(["grove.io/computedomain-finalizer"])
    );
    let pod = pods_of(&world, "nv-1-gpu")[0];
    assert_eq!(
        pod["spec"]["resourceClaims"],
        json!([{"name": "mnnvl-claim", "resourceClaimTemplateName": "nv-1-all"}])
    );
    assert!(claim_names(&pod["spec"]["containers"][0]).is_empty());
    assert_eq!(claim_names(&pod["spec"]["containers"][1]), ["mnnvl-claim"]);
    assert!(pods_of(&world, "nv-1-cpu")[0]["spec"]["resourceClaims"].is_null());
}

/// The domain of a replica never goes while a pod of the clique with GPUs is there.
fn settle_watching(world: &mut World) {
    for round in 0.. {
        let planned = world.step();
        for index in 0..2 {
            let used = !pods_of(world, &format!("nv-{index}-gpu")).is_empty();
            let there = world.names("ComputeDomain").contains(&format!("nv-{index}-all"));
            assert!(!used || there, "replica {index} lost its domain before its pods");
        }
        if planned == 0 && !world.kubelets() {
            return;
        }
        assert!(round < 500, "does not settle");
    }
}

#[test]
fn w19_domains_go_after_their_pods_and_are_never_left_behind() {
    let mut world = world(true);
    world.settle();
    world.edit("PodCliqueSet", "nv", |set| set["spec"]["replicas"] = 1.into());
    settle_watching(&mut world);
    assert_eq!(world.names("ComputeDomain"), ["nv-0-all"]);
    world.delete("ComputeDomain", "nv-0-all");
    settle_watching(&mut world);
    assert!(
        world.get("ComputeDomain", "nv-0-all")["metadata"]["deletionTimestamp"].is_string(),
        "held by our finalizer"
    );
    world.edit("PodCliqueSet", "nv", |set| set["spec"]["replicas"] = 0.into());
    settle_watching(&mut world);
    assert!(world.names("ComputeDomain").is_empty());
}

#[test]
fn w19_without_gpus_the_domain_goes_when_the_old_pods_are_gone() {
    let mut world = world(true);
    world.settle();
    world.edit("PodCliqueSet", "nv", |set| {
        set["spec"]["template"]["cliques"][1]["spec"]["podSpec"]["containers"][1]["resources"] = json!({});
    });
    world.settle();
    assert!(
        world.names("ComputeDomain").is_empty(),
        "{:?}",
        world.names("ComputeDomain")
    );
}

#[test]
fn w19_switched_off_new_pods_get_no_claim_and_the_domain_goes_with_the_old_ones() {
    let mut world = world(true);
    world.settle();
    world.settings.auto_mnnvl = false;
    settle_watching(&mut world);
    assert_eq!(world.names("ComputeDomain").len(), 2, "its users are running");
    let old = pods_of(&world, "nv-0-gpu")[0]["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world.delete("Pod", &old);
    world.settle();
    assert!(
        pods_of(&world, "nv-0-gpu")[0]["spec"]["resourceClaims"]
            .as_array()
            .is_none_or(Vec::is_empty)
    );
    world.delete("PodCliqueSet", "nv");
    world.settle();
    assert!(
        world.names("ComputeDomain").is_empty(),
        "nothing is left behind by a feature that is off"
    );
}

#[test]
fn nothing_is_left_of_a_set_that_is_deleted_at_any_moment() {
    for rounds in 0..4 {
        for commands in 0..40 {
            let mut world = world(true);
            for _ in 0..rounds {
                world.step();
            }
            let mut troubles = vec![Trouble::None; commands];
            troubles.push(Trouble::Before);
            world.happen(&Event::Plan(troubles));
            world.delete("PodCliqueSet", "nv");
            world.settle();
            let left: Vec<_> = world.objects.keys().collect();
            assert!(
                left.is_empty(),
                "after {rounds} plans and {commands} commands: {left:?}"
            );
        }
    }
}

#[test]
fn a_domain_that_a_lost_set_left_behind_is_let_go() {
    let mut world = world(true);
    world.settle();
    world.objects.remove(&("PodCliqueSet".to_owned(), "nv".to_owned()));
    world.settle();
    let left: Vec<_> = world.objects.keys().collect();
    assert!(left.is_empty(), "{left:?}");
}
