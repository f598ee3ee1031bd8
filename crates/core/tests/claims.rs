//! Shared resource claims against a small world: created before their users, deleted after them, never rewritten.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod world;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use world::World;

const RS: &str = "
metadata: {name: rs, namespace: test, uid: u}
spec:
  replicas: 1
  template:
    resourceClaimTemplates:
    - {name: own, templateSpec: {spec: {devices: {requests: [{name: d, exactly: {deviceClassName: own}}]}}}}
    resourceSharing:
    - {name: own, scope: AllReplicas}
    - {name: away, scope: PerReplica}
    cliques:
    - name: a
      resourceSharing: [{name: own, scope: PerReplica}]
      spec: {roleName: a, replicas: 2, minAvailable: 1, podSpec: {containers: [{name: m, image: a}]}}
    - name: b
      resourceSharing: [{name: own, scope: AllReplicas}]
      spec: {roleName: b, replicas: 1, minAvailable: 1, podSpec: {initContainers: [{name: i, image: b}], containers: [{name: m, image: b}]}}
    podCliqueScalingGroups:
    - name: g
      cliqueNames: [b]
      replicas: 2
      resourceSharing: [{name: own, scope: PerReplica, filter: {childCliqueNames: [b]}}]
";

/// A ResourceClaimTemplate object that is shared with other namespaces.
fn template(namespace: &str, shared: &str, content: &Value) -> Arc<Value> {
    let annotations = json!({"grove.io/shared-with-namespaces": shared});
    Arc::new(json!({"metadata": {"namespace": namespace, "annotations": annotations}, "spec": {"spec": content}}))
}

fn world() -> World {
    let mut world = World::new(RS);
    let content = json!({"devices": {"requests": [{"name": "d", "exactly": {"deviceClassName": "away"}}]}});
    world
        .claim_templates
        .insert(("test".into(), "away".into()), template("test", "", &content));
    world
}

fn claims(world: &World) -> BTreeSet<String> {
    world.names("ResourceClaim").into_iter().collect()
}

fn names<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

/// The claims that pods name exist, whatever is going on.
fn no_pod_without_its_claims(world: &World) {
    let existing = claims(world);
    for pod in world.pods() {
        for claim in pod["spec"]["resourceClaims"].as_array().into_iter().flatten() {
            let name = claim["resourceClaimName"].as_str().unwrap();
            assert!(
                existing.contains(name),
                "{} uses {name}, which is gone",
                pod["metadata"]["name"]
            );
        }
    }
}

fn settle_watching(world: &mut World) {
    for round in 0.. {
        let planned = world.step();
        no_pod_without_its_claims(world);
        let moved = world.kubelets();
        no_pod_without_its_claims(world);
        if planned == 0 && !moved {
            return;
        }
        assert!(round < 500, "does not settle");
    }
}

#[test]
fn claims_follow_sizes_at_all_levels_and_never_leave_before_their_users() {
    let mut world = world();
    settle_watching(&mut world);
    let base = names([
        "rs-all-own",
        "rs-0-away",
        "rs-0-a-0-own",
        "rs-0-a-1-own",
        "rs-0-g-0-own",
        "rs-0-g-1-own",
        "rs-0-g-0-b-all-own",
        "rs-0-g-1-b-all-own",
    ]);
    assert_eq!(claims(&world), base);
    let owner = |name: &str| world.get("ResourceClaim", name)["metadata"]["ownerReferences"][0]["name"].clone();
    assert_eq!(owner("rs-all-own"), "rs");
    assert_eq!(owner("rs-0-away"), "rs");
    assert_eq!(owner("rs-0-a-0-own"), "rs-0-a");
    assert_eq!(owner("rs-0-g-1-own"), "rs-0-g");
    assert_eq!(owner("rs-0-g-1-b-all-own"), "rs-0-g-1-b");
    let pod = world::pods_of(&world, "rs-0-g-1-b")[0];
    let used: Vec<&Value> = pod["spec"]["resourceClaims"]
        .as_array()
        .unwrap()
        .iter()
        .map(|claim| &claim["name"])
        .collect();
    assert_eq!(used, ["rs-all-own", "rs-0-away", "rs-0-g-1-own", "rs-0-g-1-b-all-own"]);
    for container in [&pod["spec"]["containers"][0], &pod["spec"]["initContainers"][0]] {
        assert_eq!(container["resources"]["claims"].as_array().unwrap().len(), 4);
    }

    // W31: the pods of a copy are still leaving when its size is already smaller.
    world.edit("PodCliqueScalingGroup", "rs-0-g", |group| {
        group["spec"]["replicas"] = 1.into();
    });
    settle_watching(&mut world);
    world.delete("ResourceClaim", "rs-0-g-1-b-all-own"); // the garbage collector, after the clique
    assert_eq!(claims(&world).len(), 6, "{:?}", claims(&world));

    // W13: the pod with the highest index serves, the one below it does not.
    world.edit("PodClique", "rs-0-a", |clique| clique["spec"]["replicas"] = 1.into());
    let idle = world::pods_of(&world, "rs-0-a")
        .iter()
        .find(|pod| pod["metadata"]["labels"]["grove.io/podclique-pod-index"] == "0")
        .unwrap()["metadata"]["name"]
        .as_str()
        .unwrap()
        .to_owned();
    world.edit("Pod", &idle, |pod| {
        pod["status"] = json!({"ready": false, "stuck": true});
    });
    settle_watching(&mut world);
    assert!(claims(&world).contains("rs-0-a-1-own") && !claims(&world).contains("rs-0-a-0-own"));

    world.edit("PodCliqueSet", "rs", |set| set["spec"]["replicas"] = 0.into());
    settle_watching(&mut world);
    assert_eq!(claims(&world), names(["rs-all-own"]));
}

#[test]
fn w21_a_settled_set_writes_no_claim() {
    let mut world = world();
    world.settle();
    world.writes.clear();
    world.edit("PodCliqueSet", "rs", |set| {
        set["metadata"]["annotations"] = json!({"grove.io/reconcile-trigger": "1"});
    });
    world.settle();
    assert!(
        world.writes.keys().all(|write| !write.ends_with("ResourceClaim")),
        "{:?}",
        world.writes
    );
}

#[test]
fn a_missing_template_holds_back_only_its_users_and_is_told() {
    let mut world = world();
    let content = world.claim_templates.clone();
    world.claim_templates.clear();
    world.edit("PodCliqueSet", "rs", |set| {
        let sharing = &mut set["spec"]["template"]["resourceSharing"][1];
        sharing["filter"] = json!({"childCliqueNames": ["a"]});
    });
    world.settle();
    assert_eq!(world.pods().len(), 2, "only b runs");
    let status = &world.get("PodCliqueSet", "rs")["status"];
    assert_eq!(status["lastErrors"][0]["code"], "ERR_GET_RESOURCECLAIMTEMPLATE");
    assert!(
        status["lastErrors"][0]["description"]
            .as_str()
            .unwrap()
            .contains("test/away")
    );
    let told = |world: &World| {
        let all = world.events.iter();
        all.filter(|event| event.starts_with("ResourceClaimTemplateNotFound"))
            .count()
    };
    let once = told(&world);
    assert!(once > 0);
    world.edit("PodCliqueSet", "rs", |_| {});
    world.settle();
    assert_eq!(told(&world), once, "told when it begins, and not again");
    world.claim_templates = content;
    world.settle();
    assert_eq!(world.pods().len(), 4);
    assert!(world.get("PodCliqueSet", "rs")["status"]["lastErrors"].is_null());
}

#[test]
fn w13_a_surviving_pod_keeps_its_claim_whatever_its_index() {
    let mut world = world();
    settle_watching(&mut world);
    // The pod with the highest index serves, the one below it does not: that one goes.
    let pods = world::pods_of(&world, "rs-0-a");
    let first = pods
        .iter()
        .find(|pod| pod["metadata"]["labels"]["grove.io/podclique-pod-index"] == "0");
    let idle = first.unwrap()["metadata"]["name"].as_str().unwrap().to_owned();
    world.edit("PodClique", "rs-0-a", |clique| clique["spec"]["replicas"] = 1.into());
    world.edit("Pod", &idle, |pod| {
        pod["status"] = json!({"ready": false, "stuck": true});
    });
    settle_watching(&mut world);
    let left: Vec<Value> = world::pods_of(&world, "rs-0-a")
        .into_iter()
        .map(|pod| pod["metadata"]["labels"]["grove.io/podclique-pod-index"].clone())
        .collect();
    assert_eq!(left, ["1"]);
    assert!(claims(&world).contains("rs-0-a-1-own"), "it is in use");
    assert!(!claims(&world).contains("rs-0-a-0-own"), "nobody uses it any more");
}

#[test]
fn w31_claims_go_after_their_users() {
    for level in ["PodCliqueScalingGroup", "PodCliqueSet"] {
        let mut world = world();
        settle_watching(&mut world);
        let before = claims(&world).len();
        let (name, size) = if level == "PodCliqueSet" {
            ("rs", 0)
        } else {
            ("rs-0-g", 1)
        };
        world.edit(level, name, |object| object["spec"]["replicas"] = size.into());
        world.step();
        assert!(
            world
                .pods()
                .iter()
                .any(|pod| pod["metadata"]["deletionTimestamp"].is_string()),
            "pods are leaving"
        );
        assert_eq!(claims(&world).len(), before, "and their claims are still there");
        settle_watching(&mut world);
        assert!(claims(&world).len() < before);
    }
}

#[test]
fn a_template_of_another_namespace_counts_when_that_namespace_shares_it() {
    let mut world = world();
    let content = json!({"devices": {"requests": [{"name": "d", "exactly": {"deviceClassName": "secret"}}]}});
    let key = ("far".to_owned(), "away".to_owned());
    let other = template("far", "others", &content);
    world.claim_templates.insert(key.clone(), other);
    world.edit("PodCliqueSet", "rs", |set| {
        set["spec"]["template"]["resourceSharing"][1]["namespace"] = json!("far");
    });
    world.settle();
    assert!(world.pods().is_empty(), "every pod shares the claim");
    let status = &world.get("PodCliqueSet", "rs")["status"];
    let description = status["lastErrors"][0]["description"].as_str().unwrap();
    let expected = "far/away with annotation grove.io/shared-with-namespaces: test";
    assert!(description.contains(expected), "{description}");
    assert!(claims(&world).iter().all(|name| !name.ends_with("away")));
    world
        .claim_templates
        .insert(key.clone(), template("far", "others, test", &content));
    world.settle();
    assert_eq!(world.pods().len(), 4);
    // Consent that is taken back does not touch what exists.
    world.claim_templates.insert(key, template("far", "", &content));
    let before = claims(&world);
    world.settle();
    assert_eq!(claims(&world), before);
    assert_eq!(world.pods().len(), 4);
}
