//! The checks before a switch, on what each version of the other operator leaves.

use coppice_apiserver::ApiServer;
use coppice_crds::{InstallOptions, install};
use coppice_proofs::legacy::{Gangs, Left as State, Scene, leave};
use jiff::Timestamp;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use super::super::facts::Facts;
use super::super::{DoctorView, Finding, Status};
use super::{definitions, examine, judge, maps, objects::Left, operator};
use coppice_api::types::{PodClique, PodCliqueSet};

fn now() -> Timestamp {
    "2026-03-01T12:00:00Z".parse().expect("a time")
}

/// A cluster in the state that a version left, and a client of it.
async fn cluster(scene: Scene) -> Client {
    let server = ApiServer::builder().build();
    let client = Client::new(server.service(), "default");
    install(client.clone(), &InstallOptions::default(), |_| {})
        .await
        .expect("the definitions fit");
    leave(&client, scene, "node-00000").await;
    client
}

async fn examined(client: &Client) -> DoctorView {
    let facts = Facts::gather(client, "https://cluster.example:6443").await;
    examine(client, &facts, now()).await
}

fn of<'a>(view: &'a DoctorView, check: &str) -> &'a Finding {
    let mut found = view.findings.iter().filter(|finding| finding.check == check);
    found
        .next()
        .unwrap_or_else(|| panic!("no {check} in {:#?}", view.findings))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_every_version_leaves_is_taken_over_on_a_copy_without_a_restart() {
    for gangs in [Gangs::ByName, Gangs::ByEpoch, Gangs::HalfMigrated] {
        let client = cluster(Scene::new(State::AtRest, gangs)).await;
        let view = examined(&client).await;
        let rehearsal = of(&view, "rehearsal");
        assert_eq!(rehearsal.status, Status::Ok, "{gangs:?}: {rehearsal:?}");
        assert!(rehearsal.message.contains("8 pods kept"), "{rehearsal:?}");
        assert_eq!(of(&view, "fields").status, Status::Ok, "{:?}", of(&view, "fields"));
        let migration = &of(&view, "migration").message;
        assert_eq!(
            migration.contains("left half-way: 1 set"),
            gangs == Gangs::HalfMigrated,
            "{migration}"
        );
        assert!(
            view.findings.iter().all(|finding| finding.status != Status::Fail),
            "{:#?}",
            view.findings
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_under_way_is_a_warning_and_a_template_that_differs_a_failure() {
    let client = cluster(Scene::new(State::MidUpdate, Gangs::ByEpoch)).await;
    let view = examined(&client).await;
    assert_eq!(of(&view, "updates").status, Status::Warn);
    let rehearsal = of(&view, "rehearsal");
    assert_eq!(rehearsal.status, Status::Warn, "{rehearsal:?}");

    // A clique was edited by hand: our operator would replace its pods.
    let client = cluster(Scene::new(State::AtRest, Gangs::ByEpoch)).await;
    let cliques: Api<PodClique> = Api::namespaced(client.clone(), "default");
    let edit = json!({"spec": {"podSpec": {"containers": [{"name": "main", "image": "front:other"}]}}});
    let parameters = PatchParams::default();
    cliques
        .patch("web-0-front", &parameters, &Patch::Merge(edit))
        .await
        .expect("an edit");
    let view = examined(&client).await;
    let rehearsal = of(&view, "rehearsal");
    assert_eq!(rehearsal.status, Status::Fail, "{rehearsal:?}");
    assert!(rehearsal.message.contains("Coppice deletes "), "{rehearsal:?}");
    let before: Vec<Value> = Left::read(&client).await.pods;
    assert_eq!(before.len(), 8, "nothing happens to the cluster itself");
    assert!(
        before
            .iter()
            .all(|pod| !pod["metadata"]["deletionTimestamp"].is_string())
    );
}

fn facts() -> Facts {
    let unread = Facts::unknown("https://cluster.example:6443", String::new());
    let mut all = coppice_api::crd::all();
    for definition in &mut all {
        definition["status"] = json!({"storedVersions": ["v1alpha1"]});
    }
    Facts {
        version: Ok("v1.36.3".to_owned()),
        definitions: Ok(all),
        deployments: Ok(Vec::new()),
        leases: Ok(Vec::new()),
        topologies: Ok(Vec::new()),
        sets: Ok(Vec::new()),
        ..unread
    }
}

fn deployment(
    name: &str,
    namespace: &str,
    arguments: &[&str],
    replicas: i32,
) -> k8s_openapi::api::apps::v1::Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": namespace, "labels": {"app.kubernetes.io/component": "operator-deployment"}},
        "spec": {"replicas": replicas, "selector": {}, "template": {"spec": {"containers": [{"name": "c", "args": arguments}]}}},
    }))
    .expect("a Deployment")
}

#[test]
fn the_other_operator_is_named_with_how_to_stop_it() {
    let grove = || deployment("grove-operator", "grove-system", &["--config=/etc/c.yaml"], 1);
    let ours = || deployment("coppice", "coppice-system", &["operator", "--config=/etc/c.yaml"], 2);
    let found = |deployments: Vec<_>| {
        operator(
            &Facts {
                deployments: Ok(deployments),
                ..facts()
            },
            now(),
        )
    };
    assert_eq!(found(Vec::new()).status, Status::Ok);
    let running = found(vec![grove()]);
    assert_eq!(running.status, Status::Warn);
    let next = "kubectl -n grove-system scale deployment grove-operator --replicas=0";
    assert_eq!(running.next.as_deref(), Some(next));
    assert_eq!(found(vec![ours()]).status, Status::Ok);
    let both = found(vec![ours(), grove()]);
    assert_eq!((both.status, both.next.as_deref()), (Status::Fail, Some(next)));
    let stopped = deployment("grove-operator", "grove-system", &[], 0);
    assert_eq!(found(vec![stopped]).status, Status::Ok);
    // A process that no Deployment explains still holds the lease.
    let lease = json!({"metadata": {"name": "grove-operator-leader-election", "namespace": "x"}, "spec": {
        "holderIdentity": "somewhere", "leaseDurationSeconds": 15, "renewTime": "2026-03-01T11:59:58.000000Z"}});
    let leases = Ok(vec![serde_json::from_value(lease).expect("a lease")]);
    let held = operator(&Facts { leases, ..facts() }, now());
    assert_eq!(held.status, Status::Fail, "{held:?}");
}

#[test]
fn definitions_say_which_version_was_there() {
    let left = Left::empty();
    let check = |change: fn(&mut Vec<Value>)| {
        let mut facts = facts();
        change(facts.definitions.as_mut().expect("definitions"));
        definitions(&facts, &left)
    };
    assert_eq!(check(|_| ())[0].status, Status::Ok);
    let older = check(|all| all.retain(|found| found["metadata"]["name"] != "podgangmaps.grove.io"));
    assert!(
        older[0].status == Status::Warn && older[0].message.contains("alpha.11"),
        "{older:?}"
    );
    let newer = check(|all| {
        for found in all
            .iter_mut()
            .filter(|found| found["metadata"]["name"] == "podcliquesets.grove.io")
        {
            found["status"]["storedVersions"] = json!(["v1alpha1", "v1beta1"]);
        }
    });
    assert!(
        newer[0].status == Status::Fail && newer[0].message.contains("v1beta1"),
        "{newer:?}"
    );
    let legacy = Left {
        legacy_topologies: Ok(2),
        ..Left::empty()
    };
    let mut facts = facts();
    facts
        .definitions
        .as_mut()
        .expect("definitions")
        .push(json!({"metadata": {"name": "clustertopologies.grove.io"}}));
    let found = definitions(&facts, &legacy);
    assert!(
        found
            .iter()
            .any(|finding| finding.message.contains("2 objects of a kind that is not read")),
        "{found:?}"
    );
}

#[test]
fn what_our_admission_refuses_and_maps_that_cannot_be_read_are_named() {
    let set = json!({"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
        "metadata": {"name": "llm", "namespace": "serving"},
        "spec": {"replicas": 1, "template": {"cliques": [{"name": "a", "spec": {"roleName": "a", "replicas": 1, "minAvailable": 3,
            "podSpec": {"schedulerName": "lpx-scheduler", "containers": [{"name": "c", "image": "i"}]}}}]}}});
    let set: PodCliqueSet = serde_json::from_value(set).expect("a set");
    let found = judge(
        &Facts {
            sets: Ok(vec![set]),
            ..facts()
        },
        &Left::empty(),
        now(),
    );
    let message = |check: &str| {
        let found = found.iter().find(|finding| finding.check == check);
        found
            .map(|finding| (finding.status, finding.message.clone()))
            .expect("a finding")
    };
    let (status, text) = message("fields");
    assert!(
        status == Status::Warn && text.contains("serving/llm: spec.template.cliques[0]"),
        "{text}"
    );
    let (status, text) = message("schedulers");
    assert!(status == Status::Warn && text.contains("lpx-scheduler"), "{text}");

    let map = |epoch: Value| {
        json!({"apiVersion": "grove.io/v1alpha1", "kind": "PodGangMap", "metadata": {"name": "llm-0", "namespace": "serving"},
        "spec": {"podCliqueSetReplicaIndex": 0, "entries": [{"epoch": epoch, "role": "Anchor", "podCliqueSetGenerationHash": "h"}]}})
    };
    let check = |map: Value| {
        maps(&Left {
            maps: vec![map],
            ..Left::empty()
        })
    };
    assert_eq!(check(map(json!("17"))), None);
    let broken = check(map(json!("v1"))).expect("a finding");
    assert!(
        broken.status == Status::Fail && broken.message.contains("serving/llm-0"),
        "{broken:?}"
    );
    assert!(check(map(json!(7))).is_some());
}
