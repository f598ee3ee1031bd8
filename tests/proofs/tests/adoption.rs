//! Every state in which another version leaves a set is taken over without touching a running pod: the legacy names of
//! alpha.11 and of our own 0.1, the maps of alpha.12 and alpha.13, a migration that was interrupted, workloads that were
//! scaled to zero or far above their template meanwhile. And an alpha.13 operator could take over from us again.

use std::collections::{BTreeMap, BTreeSet};

use coppice_operator::Operator;
use coppice_proofs::alpha13;
use coppice_proofs::legacy::{Gangs, Left, Scene, leave};
use coppice_proofs::stage::{LONG, Stage, in_virtual_time};
use coppice_proofs::{state, story};
use coppice_runtime::layers::{Call, Fault};
use serde_json::{Value, json};

const NODE: &str = "node-00000";

/// Name, restarts and gates of each pod by uid: what must not change.
async fn running(stage: &Stage) -> BTreeMap<String, Value> {
    let pods = state::list(&stage.client, "default", "", "v1", "Pod").await;
    let facts = |pod: &Value| {
        json!([
            pod["metadata"]["name"],
            pod["spec"]["schedulingGates"],
            pod["status"]["containerStatuses"][0]["restartCount"],
        ])
    };
    pods.iter()
        .map(|pod| {
            let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
            (uid.to_owned(), facts(pod))
        })
        .collect()
}

async fn set_conditions(stage: &Stage) -> BTreeSet<String> {
    let set = &state::list(&stage.client, "default", "grove.io", "v1alpha1", "PodCliqueSet").await[0];
    let conditions = set["status"]["conditions"].as_array().into_iter().flatten();
    conditions
        .map(|condition| condition["type"].as_str().unwrap_or_default().to_owned())
        .collect()
}

/// Takes a scene over and checks that nothing that runs was touched, that it is at rest afterwards, and that alpha.13
/// would accept it. The stage goes on with the operator running.
async fn take_over(scene: Scene) -> (Stage, Operator) {
    let stage = Stage::start().await;
    leave(&stage.client, scene, NODE).await;
    tokio::time::sleep(LONG).await;
    let before = running(&stage).await;
    assert_eq!(before.len(), scene.front + 3 * scene.copies);
    let operator = stage.operator("operator", |_: &Call| Fault::Pass).await;
    tokio::time::sleep(LONG).await;
    assert_eq!(running(&stage).await, before, "{scene:?}: no pod is touched");
    assert_eq!(
        alpha13::objections(&stage.client).await,
        Vec::<String>::new(),
        "{scene:?}"
    );
    let migrating = "PodGangMigrationInProgress".to_owned();
    assert!(!set_conditions(&stage).await.contains(&migrating), "{scene:?}");
    let written = stage.audit.len();
    tokio::time::sleep(LONG).await;
    let operators = stage.audit.of("operator", written);
    assert!(operators.is_empty(), "{scene:?}: {operators:?}");
    // A restart finds nothing to do either.
    operator.stop().await;
    stage.audit.clear();
    let operator = stage.operator("operator", |_: &Call| Fault::Pass).await;
    tokio::time::sleep(LONG).await;
    let again = stage.audit.of("operator", 0);
    assert!(again.is_empty(), "{scene:?} after a restart: {again:?}");
    (stage, operator)
}

async fn scale_pair(stage: &Stage, copies: u32) {
    let size = json!({"spec": {"replicas": copies}});
    story::patch(&stage.client, "PodCliqueScalingGroup", "web-0-pair", size).await;
    tokio::time::sleep(LONG).await;
}

/// All pods run, and their number.
async fn all_run(stage: &Stage) -> usize {
    let pods = state::list(&stage.client, "default", "", "v1", "Pod").await;
    for pod in &pods {
        assert_eq!(pod["status"]["phase"], "Running", "{}", pod["metadata"]["name"]);
    }
    pods.len()
}

#[test]
fn gangs_by_name_by_epoch_and_half_migrated_are_taken_over() {
    for gangs in [Gangs::ByName, Gangs::ByEpoch, Gangs::HalfMigrated] {
        in_virtual_time(async {
            let (stage, _operator) = take_over(Scene::new(Left::AtRest, gangs)).await;
            // It goes on as before: copies come and go, and those that stay are not touched.
            let before: BTreeSet<String> = running(&stage).await.into_keys().collect();
            scale_pair(&stage, 4).await;
            assert_eq!(all_run(&stage).await, 14, "{gangs:?}");
            scale_pair(&stage, 2).await;
            let after: BTreeSet<String> = running(&stage).await.into_keys().collect();
            assert_eq!(after, before, "{gangs:?}");
            assert_eq!(alpha13::objections(&stage.client).await, Vec::<String>::new());
        });
    }
}

#[test]
fn what_was_scaled_above_its_template_keeps_its_size() {
    for gangs in [Gangs::ByName, Gangs::ByEpoch, Gangs::HalfMigrated] {
        in_virtual_time(async {
            let scene = Scene {
                front: 4,
                copies: 5,
                ..Scene::new(Left::AtRest, gangs)
            };
            let (stage, _operator) = take_over(scene).await;
            assert_eq!(all_run(&stage).await, 19, "{gangs:?}");
        });
    }
}

#[test]
fn what_was_scaled_to_zero_during_the_upgrade_wakes_up() {
    for gangs in [Gangs::ByName, Gangs::ByEpoch, Gangs::HalfMigrated] {
        in_virtual_time(async {
            let scene = Scene {
                front: 0,
                copies: 0,
                ..Scene::new(Left::AtRest, gangs)
            };
            let (stage, _operator) = take_over(scene).await;
            scale_pair(&stage, 2).await;
            assert_eq!(all_run(&stage).await, 6, "{gangs:?}");
            story::patch(
                &stage.client,
                "PodClique",
                "web-0-front",
                json!({"spec": {"replicas": 1}}),
            )
            .await;
            tokio::time::sleep(LONG).await;
            assert_eq!(all_run(&stage).await, 7, "{gangs:?}");
            assert_eq!(alpha13::objections(&stage.client).await, Vec::<String>::new());
        });
    }
}

#[test]
fn a_group_that_was_scaled_to_zero_wakes_up_beside_what_runs() {
    for gangs in [Gangs::ByName, Gangs::ByEpoch, Gangs::HalfMigrated] {
        in_virtual_time(async {
            let scene = Scene {
                copies: 0,
                ..Scene::new(Left::AtRest, gangs)
            };
            let (stage, _operator) = take_over(scene).await;
            scale_pair(&stage, 3).await;
            assert_eq!(all_run(&stage).await, 11, "{gangs:?}");
        });
    }
}

#[test]
fn a_lost_map_is_rebuilt_without_touching_pods() {
    in_virtual_time(async {
        let (stage, _operator) = take_over(Scene::new(Left::AtRest, Gangs::ByEpoch)).await;
        let before = running(&stage).await;
        let gangs = state::list(&stage.client, "default", "scheduler.grove.io", "v1alpha1", "PodGang").await;
        story::delete(&stage.client, "PodGangMap", "web-0").await;
        tokio::time::sleep(LONG).await;
        assert_eq!(running(&stage).await, before);
        let names = |gangs: &[Value]| -> BTreeSet<String> {
            gangs.iter().map(|gang| gang["metadata"]["name"].to_string()).collect()
        };
        let after = state::list(&stage.client, "default", "scheduler.grove.io", "v1alpha1", "PodGang").await;
        assert_eq!(names(&after), names(&gangs));
        assert_eq!(alpha13::objections(&stage.client).await, Vec::<String>::new());
    });
}
