//! What volumes ask of nodes, and what they make pods wait for.

use std::sync::Arc;

use coppice_placement::{Options, Outcome, ReasonCode, plan};
use k8s_openapi::api::storage::v1::{CSINode, CSIStorageCapacity, StorageClass};
use serde_json::{Value, json};

use super::*;
use crate::model::testing::{PodSketch, gang, gang_id, key, two_racks};
use crate::model::{GangId, Model, Question};

#[allow(clippy::needless_pass_by_value, reason = "tests pass literals")]
pub(crate) fn claim(name: &str, annotations: Value, spec: Value) -> ClaimRecord {
    let mut whole = json!({"storageClassName": "late", "accessModes": ["ReadWriteMany"],
        "resources": {"requests": {"storage": "10"}}});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let object = json!({"metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1", "annotations": annotations},
        "spec": whole});
    ClaimRecord::of(&serde_json::from_value(object).unwrap()).unwrap()
}

#[allow(clippy::needless_pass_by_value, reason = "tests pass literals")]
pub(crate) fn volume(name: &str, spec: Value) -> VolumeRecord {
    let mut whole =
        json!({"storageClassName": "late", "accessModes": ["ReadWriteMany"], "capacity": {"storage": "10"}});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let object = json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "spec": whole,
        "status": {"phase": "Available"}});
    VolumeRecord::of(&serde_json::from_value(object).unwrap()).unwrap()
}

#[allow(clippy::needless_pass_by_value, reason = "tests pass literals")]
pub(crate) fn class(name: &str, provisioner: &str, waits: bool, more: Value) -> Arc<ClassRecord> {
    let mode = if waits { "WaitForFirstConsumer" } else { "Immediate" };
    let mut object = json!({"metadata": {"name": name, "uid": name, "resourceVersion": "1"}, "provisioner": provisioner,
        "volumeBindingMode": mode});
    object
        .as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let class: StorageClass = serde_json::from_value(object).unwrap();
    Arc::new(ClassRecord::of(&class).unwrap())
}

pub(crate) fn drivers(driver: &str, limit: Option<u32>, keys: &[&str]) -> NodeDrivers {
    let object = json!({"metadata": {"name": "x"}, "spec": {"drivers": [{"name": driver, "nodeID": "x", "topologyKeys": keys,
        "allocatable": limit.map(|count| json!({"count": count}))}]}});
    NodeDrivers::of(&serde_json::from_value::<CSINode>(object).unwrap())
}

pub(crate) fn in_rack(rack: &str) -> Value {
    json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "In", "values": [rack]}]}]}})
}

pub(crate) fn uses(claim: &str) -> Value {
    json!({"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]})
}

/// Two racks of two nodes with four processors each, and a gang of so many pods that use one claim.
pub(crate) fn sharing(pods: u32) -> Model {
    let mut model = two_racks(1, 1);
    model.set_storage_class("late", Some(class("late", "disk", true, json!({}))));
    model.put_gang(gang("g", &[("c", pods)], None));
    for index in 0..pods {
        let pod = PodSketch::new(&format!("p{index}"), "g", "c");
        model.put_pod(&pod.record_with(&uses("c")));
    }
    model
}

fn question(model: &mut Model) -> Question {
    model.question(&gang_id("g")).expect("it waits")
}

fn outcome(model: &mut Model) -> Outcome {
    let question = question(model);
    assert_eq!(question.obstacle, None);
    let options = Options {
        scheduled: question.scheduled.clone(),
        ..Options::default()
    };
    plan(model.state_mut(), &question.gang, &options)
}

fn nodes(model: &mut Model) -> Vec<String> {
    match outcome(model) {
        Outcome::Placed(plan) => plan.bindings.into_iter().map(|binding| binding.node).collect(),
        other => panic!("{other:?}"),
    }
}

fn reason(model: &mut Model) -> (ReasonCode, String) {
    match outcome(model) {
        Outcome::Infeasible(reasons) => (reasons[0].code, reasons[0].message.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_bound_claim_keeps_its_pods_where_its_volume_is() {
    let mut model = sharing(2);
    let bound = json!({"pv.kubernetes.io/bind-completed": "yes"});
    model.put_claim(Arc::new(claim("c", bound, json!({"volumeName": "v"}))));
    let reference = json!({"namespace": "n", "name": "c", "uid": "c"});
    model.put_volume(Arc::new(volume(
        "v",
        json!({"claimRef": reference, "nodeAffinity": in_rack("r1")}),
    )));
    assert_eq!(nodes(&mut model), ["n2", "n3"]);
    assert!(question(&mut model).gang.claims.is_empty(), "nothing is left to choose");
    model.put_gang(gang("g", &[("c", 3)], None));
    model.put_pod(&PodSketch::new("p2", "g", "c").record_with(&uses("c")));
    model.put_volume(Arc::new(volume(
        "v",
        json!({"claimRef": reference, "nodeAffinity": in_rack("r9")}),
    )));
    let (code, message) = reason(&mut model);
    assert_eq!(code, ReasonCode::NoEligibleNodes);
    assert!(
        message.contains(r#"VolumeOutOfReach volume claim "c" (volume "v")"#),
        "{message}"
    );
}

#[test]
fn pods_that_share_a_claim_stay_within_one_place_of_the_driver() {
    let mut model = sharing(2);
    model.put_claim(Arc::new(claim("c", json!({}), json!({}))));
    model.set_node_drivers([("n0".into(), Some(drivers("disk", None, &["rack"])))]);
    assert_eq!(nodes(&mut model), ["n0", "n1"]);
    let mut model = sharing(3);
    model.put_claim(Arc::new(claim("c", json!({}), json!({}))));
    assert_eq!(nodes(&mut model).len(), 3, "nothing says that the volume has a place");
    model.set_node_drivers([("n0".into(), Some(drivers("disk", None, &["rack"])))]);
    let (code, message) = reason(&mut model);
    assert_eq!(code, ReasonCode::VolumeOutOfReach);
    assert!(message.starts_with(r#"volume claim "c": no one place"#), "{message}");
}

#[test]
fn a_selected_node_and_a_promise_decide_the_place() {
    let mut model = sharing(1);
    model.set_node_drivers([("n0".into(), Some(drivers("disk", None, &["rack"])))]);
    let selected = json!({"volume.kubernetes.io/selected-node": "n3"});
    model.put_claim(Arc::new(claim("c", selected, json!({}))));
    assert!(["n2", "n3"].contains(&nodes(&mut model)[0].as_str()));
    model.put_claim(Arc::new(claim("c", json!({}), json!({}))));
    let promise = Promise {
        volume: None,
        node: "n2".into(),
    };
    model.promise(&key("c"), promise);
    assert!(["n2", "n3"].contains(&nodes(&mut model)[0].as_str()));
    model.end_promise(&key("c"));
    assert_eq!(nodes(&mut model), ["n0"]);
}

#[test]
fn the_smallest_volume_that_suits_is_chosen_and_its_place_decides() {
    let mut model = sharing(1);
    model.set_storage_class(
        "late",
        Some(class("late", "kubernetes.io/no-provisioner", true, json!({}))),
    );
    model.put_claim(Arc::new(claim("c", json!({}), json!({}))));
    assert_eq!(reason(&mut model).0, ReasonCode::NoEligibleNodes);
    for (name, size, rack) in [("small", "5", "r0"), ("right", "10", "r1"), ("large", "99", "r0")] {
        let spec = json!({"capacity": {"storage": size}, "nodeAffinity": in_rack(rack)});
        model.put_volume(Arc::new(volume(name, spec)));
    }
    let Outcome::Placed(plan) = outcome(&mut model) else {
        panic!()
    };
    // The nodes are chosen first; then the smallest volume that reaches them.
    let chosen = &plan.volumes["n/c"];
    assert_eq!(
        (chosen.volume.as_deref(), plan.bindings[0].node.as_str()),
        (Some("large"), "n0")
    );
    model.remove_volume("large");
    let Outcome::Placed(plan) = outcome(&mut model) else {
        panic!()
    };
    assert_eq!(plan.volumes["n/c"].volume.as_deref(), Some("right"));
    assert_eq!(plan.bindings[0].node, "n2");
}

#[test]
fn classes_and_capacities_say_where_volumes_can_be_made() {
    let mut model = sharing(1);
    model.put_claim(Arc::new(claim("c", json!({}), json!({}))));
    let topologies = json!({"allowedTopologies": [{"matchLabelExpressions": [{"key": "rack", "values": ["r1"]}]}]});
    model.set_storage_class("late", Some(class("late", "disk", true, topologies)));
    assert_eq!(nodes(&mut model), ["n2"]);
    model.set_storage_class("late", Some(class("late", "disk", true, json!({}))));
    model.set_minds_capacity("disk", true);
    assert_eq!(
        reason(&mut model).0,
        ReasonCode::NoEligibleNodes,
        "no capacity is reported"
    );
    let capacity = |name: &str, size: &str, rack: &str| {
        let object = json!({"metadata": {"name": name, "namespace": "n", "uid": name, "resourceVersion": "1"}, "storageClassName": "late",
            "capacity": size, "nodeTopology": {"matchLabels": {"rack": rack}}});
        let capacity: CSIStorageCapacity = serde_json::from_value(object).unwrap();
        Some(Arc::new(CapacityRecord::of(&capacity).unwrap()))
    };
    model.set_capacity(&key("a"), capacity("a", "9", "r0"));
    model.set_capacity(&key("b"), capacity("b", "10", "r1"));
    assert_eq!(nodes(&mut model), ["n2"]);
    model.set_minds_capacity("disk", false);
    assert_eq!(nodes(&mut model), ["n0"]);
}

#[test]
fn a_node_takes_no_more_volumes_than_its_driver_says_and_a_shared_one_counts_once() {
    let mut model = two_racks(4, 4);
    model.remove_nodes(["n1", "n2", "n3"]);
    model.set_storage_class("late", Some(class("late", "disk", true, json!({}))));
    model.set_node_drivers([("n0".into(), Some(drivers("disk", Some(1), &[])))]);
    model.put_gang(gang("g", &[("c", 1)], None));
    for (pod, of) in [("p0", "c"), ("p1", "c"), ("p2", "d")] {
        let mut sketch = PodSketch::new(pod, "g", "c");
        if pod == "p0" {
            sketch.node = Some("n0".into());
        }
        model.put_pod(&sketch.record_with(&uses(of)));
    }
    for name in ["c", "d"] {
        let bound = json!({"pv.kubernetes.io/bind-completed": "yes"});
        model.put_claim(Arc::new(claim(name, bound, json!({"volumeName": name}))));
        let csi = json!({"driver": "disk", "volumeHandle": name});
        let reference = json!({"namespace": "n", "name": name, "uid": name});
        model.put_volume(Arc::new(volume(name, json!({"csi": csi, "claimRef": reference}))));
    }
    let room = |model: &mut Model, pod: &str| {
        let pod = model.pod(&key(pod)).unwrap().clone();
        let shape = model.shape(&pod);
        let node = model.state().node_id("n0").unwrap();
        model.state().room(node, shape)
    };
    assert_eq!(room(&mut model, "p1"), 3, "its volume is there already");
    assert_eq!(room(&mut model, "p2"), 0);
    model.set_node_drivers([("n0".into(), Some(drivers("disk", Some(2), &[])))]);
    assert_eq!(room(&mut model, "p2"), 3);
    model.set_node_drivers([("n0".into(), None)]);
    assert_eq!(room(&mut model, "p2"), 3, "without a limit any number");
    let fresh = model.rebuilt();
    assert_eq!(fresh.state().recomputed(), *fresh.state());
}

#[test]
fn each_reason_to_wait_is_said() {
    let waits = |prepare: &dyn Fn(&mut Model)| {
        let mut model = sharing(1);
        prepare(&mut model);
        let reason = question(&mut model).obstacle.expect("an obstacle");
        assert_eq!(reason.code, ReasonCode::VolumeNotReady);
        reason.message
    };
    let put = |annotations: Value, spec: Value| {
        move |model: &mut Model| model.put_claim(Arc::new(claim("c", annotations.clone(), spec.clone())))
    };
    let once = |model: &mut Model| model.set_storage_class("once", Some(class("once", "disk", false, json!({}))));
    let bound = json!({"pv.kubernetes.io/bind-completed": "yes"});
    for (message, expected) in [
        (waits(&|_| ()), "does not exist"),
        (
            waits(&put(json!({}), json!({"storageClassName": "none"}))),
            "storage class \"none\"",
        ),
        (
            waits(&put(json!({}), json!({"storageClassName": null}))),
            "names no storage class",
        ),
        (waits(&put(json!({}), json!({"volumeName": "v"}))), "is being bound"),
        (
            waits(&put(bound, json!({"volumeName": "v"}))),
            "volume \"v\" of volume claim",
        ),
        (
            waits(&|model| {
                once(model);
                put(json!({}), json!({"storageClassName": "once"}))(model);
            }),
            "binds it before its pods are placed",
        ),
    ] {
        assert!(message.starts_with("c: ") && message.contains(expected), "{message}");
    }
}

#[test]
fn one_pod_at_a_time_uses_a_claim_for_one_pod() {
    let mut model = sharing(2);
    let once = json!({"accessModes": ["ReadWriteOncePod"]});
    model.put_claim(Arc::new(claim("c", json!({}), once)));
    let obstacle = question(&mut model).obstacle.expect("two pods never fit");
    assert!(obstacle.message.contains("only one pod at a time"), "{obstacle:?}");
    model.put_gang(gang("g", &[("c", 1)], None));
    let asked = question(&mut model);
    assert_eq!((asked.obstacle, asked.gang.groups[0].pending.len()), (None, 1));
    assert!(asked.waits_for_volume.is_some());
    let mut other = PodSketch::new("other", "x", "x");
    other.node = Some("n0".into());
    model.put_pod(&other.record_with(&uses("c")));
    let obstacle = question(&mut model).obstacle.expect("it is in use");
    assert!(obstacle.message.contains("in use by pod n/other"), "{obstacle:?}");
}

#[test]
fn pods_with_ephemeral_volumes_stay_alike_and_wait_for_their_claims() {
    let mut model = two_racks(1, 1);
    model.set_storage_class("late", Some(class("late", "disk", true, json!({}))));
    model.put_gang(gang("g", &[("c", 2)], None));
    for name in ["p0", "p1"] {
        let volumes = json!({"volumes": [{"name": "cache", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}]});
        model.put_pod(&PodSketch::new(name, "g", "c").record_with(&volumes));
    }
    let obstacle = question(&mut model).obstacle.expect("the claims are missing");
    assert!(obstacle.message.contains("has not been created yet"), "{obstacle:?}");
    for name in ["p0", "p1"] {
        let object = json!({"metadata": {"name": format!("{name}-cache"), "namespace": "n", "uid": name, "resourceVersion": "1",
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": name, "uid": format!("{name}-1"), "controller": true}]},
            "spec": {"storageClassName": "late"}});
        model.put_claim(Arc::new(
            ClaimRecord::of(&serde_json::from_value(object).unwrap()).unwrap(),
        ));
    }
    let asked = question(&mut model);
    assert_eq!((asked.obstacle, asked.gang.groups.len()), (None, 1));
    assert!(asked.gang.claims.is_empty(), "each gets a volume where its pod goes");
    let pod = model.pod(&key("p0")).unwrap().clone();
    let provisions = model.provisions(&pod, "n1", &Default::default());
    assert_eq!(provisions.len(), 1);
    assert_eq!(
        (&*provisions[0].claim.name, &*provisions[0].promise.node),
        ("p0-cache", "n1")
    );
    let _: GangId = asked.id;
}
