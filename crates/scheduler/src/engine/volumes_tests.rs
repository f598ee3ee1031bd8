//! Gangs with volumes, decision by decision.

use std::sync::Arc;

use serde_json::json;

use super::tests::{acknowledge, at, bind};
use super::*;
use crate::model::testing::{PodSketch, gang, gang_id, key};
use crate::model::volumes::tests::{claim, drivers, in_rack, sharing, uses, volume};

fn engine_of(model: Model) -> Engine {
    let settings = Settings {
        starvation: SignedDuration::MAX,
        first_word: SignedDuration::ZERO,
        ..Settings::default()
    };
    Engine::new(model, settings)
}

fn with_claim(pods: u32) -> Engine {
    let mut model = sharing(pods);
    model.set_node_drivers([("n0".into(), Some(drivers("disk", None, &["rack"])))]);
    model.put_claim(Arc::new(claim("c", json!({}), json!({}))));
    engine_of(model)
}

#[test]
fn a_commit_says_what_its_claims_get_and_stores_its_plan() {
    let mut engine = with_claim(1);
    let commit = engine.decide(at(0)).commits.remove(0);
    assert!(commit.store.is_some(), "a crash must find the same node again");
    let [provision] = commit.volumes.as_slice() else {
        panic!("{:?}", commit.volumes)
    };
    assert_eq!((&*provision.claim.name, &*provision.promise.node), ("c", "n0"));
    assert_eq!(provision.promise.volume, None);
}

#[test]
fn two_gangs_that_share_a_claim_agree_on_its_place_in_one_decision() {
    let mut engine = with_claim(1);
    engine.model.put_gang(gang("h", &[("c", 1)], None));
    let other = PodSketch::new("q0", "h", "c").record_with(&uses("c"));
    engine.model.put_pod(&other);
    let decision = engine.decide(at(0));
    let nodes: Vec<&str> = decision
        .commits
        .iter()
        .map(|commit| commit.bindings[0].node.as_str())
        .collect();
    assert_eq!(nodes, ["n0", "n1"], "one rack");
    // A third one finds no room in that rack, and says so by the name of the claim.
    engine.model.put_gang(gang("i", &[("c", 1)], None));
    engine
        .model
        .put_pod(&PodSketch::new("r0", "i", "c").record_with(&uses("c")));
    let decision = engine.decide(at(1));
    assert_eq!(decision.commits, []);
    engine.done(&gang_id("g"));
    engine.done(&gang_id("h"));
}

#[test]
fn a_gang_whose_claims_were_not_bound_gives_its_room_back_and_says_why() {
    let mut engine = with_claim(2);
    let commit = engine.decide(at(0)).commits.remove(0);
    for bind in &commit.bindings {
        engine.not_bound(&bind.pod.key);
    }
    engine.done(&commit.gang);
    engine.volumes_failed(&commit.gang, "volume claim \"c\" was not bound".into(), at(0));
    // Others may have the room meanwhile.
    engine.model.put_gang(gang("other", &[("c", 4)], None));
    for index in 0..4 {
        let pod = PodSketch::new(&format!("o{index}"), "other", "c");
        engine.model.put_pod(&pod.record());
    }
    let decision = engine.decide(at(1));
    assert_eq!(decision.commits.len(), 1, "{:?}", decision.commits);
    assert_eq!(decision.commits[0].gang, gang_id("other"));
    let report = decision
        .reports
        .iter()
        .find(|report| report.gang == gang_id("g"))
        .expect("it says why");
    assert_eq!(report.reason.code, ReasonCode::VolumeNotReady);
    assert!(report.reason.message.contains("its room is free"), "{report:?}");
    assert!(decision.wake.is_some_and(|wake| wake <= at(30)));
}

#[test]
fn pauses_grow_and_end() {
    let mut engine = with_claim(1);
    for pause in [30, 60, 120] {
        let commit = engine.decide(at(1_000 * pause)).commits.remove(0);
        for bind in &commit.bindings {
            engine.not_bound(&bind.pod.key);
        }
        engine.done(&commit.gang);
        let now = at(1_000 * pause);
        engine.volumes_failed(&commit.gang, "late".into(), now);
        let waiting = engine.decide(at(1_000 * pause + pause - 1));
        assert_eq!(waiting.commits, []);
        acknowledge(&mut engine, &waiting);
    }
}

#[test]
fn after_a_restart_the_stored_plan_is_completed_with_the_volume_that_was_made() {
    let mut engine = with_claim(2);
    let commit = engine.decide(at(0)).commits.remove(0);
    // The scheduler dies after the claim was bound, and before its pods were.
    let mut model = engine.model.rebuilt();
    for bind in &commit.bindings {
        model.forget(&bind.pod.key);
    }
    let bound = json!({"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/selected-node": "n0"});
    model.put_claim(Arc::new(claim("c", bound, json!({"volumeName": "v"}))));
    let reference = json!({"namespace": "n", "name": "c", "uid": "c"});
    model.put_volume(Arc::new(volume(
        "v",
        json!({"claimRef": reference, "nodeAffinity": in_rack("r0")}),
    )));
    let mut next = engine_of(model);
    let again = next.decide(at(1)).commits.remove(0);
    assert_eq!(again.volumes, [], "nothing is left to be made");
    let nodes = |commit: &Commit| commit.bindings.iter().map(|bind| bind.node.clone()).collect::<Vec<_>>();
    assert_eq!(nodes(&again), nodes(&commit));
    bind(&mut next, &again);
    assert!(next.model.is_scheduled(&key("g")));
}
