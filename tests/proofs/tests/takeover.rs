//! Taking over from the Go operator: nothing is deleted, no template is written, and the first edit rolls only what it
//! changed. An update that the other operator left half-way is finished, and what it had done is not done again.
#![allow(clippy::print_stdout, reason = "the log of a test run shows what was written")]

use std::collections::{BTreeMap, BTreeSet};

use coppice_proofs::legacy::{Gangs, Left, Scene, leave};
use coppice_proofs::stage::{LONG, Stage, in_virtual_time};
use coppice_proofs::{state, story};
use coppice_runtime::layers::{Call, Fault};
use kube::Client;
use serde_json::{Value, json};

const NODE: &str = "node-00000";

async fn pods(client: &Client) -> Vec<Value> {
    state::list(client, "default", "", "v1", "Pod").await
}

/// Uids and clique of all pods.
fn identities(pods: &[Value]) -> BTreeMap<String, String> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    pods.iter()
        .map(|pod| {
            (
                text(&pod["metadata"]["uid"]),
                text(&pod["metadata"]["labels"]["grove.io/podclique"]),
            )
        })
        .collect()
}

async fn edit_work(client: &Client) {
    let mut set = coppice_proofs::legacy::set(Left::AtRest);
    set["spec"]["template"]["cliques"][2]["spec"]["podSpec"]["containers"][0]["image"] = "work:3".into();
    story::patch(client, "PodCliqueSet", "web", json!({"spec": set["spec"]})).await;
}

#[test]
fn what_is_at_rest_stays_so_and_the_first_edit_rolls_only_what_it_changed() {
    in_virtual_time(async {
        let stage = Stage::start().await;
        leave(&stage.client, Scene::new(Left::AtRest, Gangs::ByName), NODE).await;
        tokio::time::sleep(LONG).await;
        let before = identities(&pods(&stage.client).await);
        assert_eq!(before.len(), 8);
        let operator = stage.operator("operator", |_: &Call| Fault::Pass).await;
        tokio::time::sleep(LONG).await;
        let writes: Vec<String> = stage
            .audit
            .of("operator", 0)
            .iter()
            .map(coppice_proofs::audit::Entry::what)
            .collect();
        println!("written at the takeover: {writes:#?}");
        assert_eq!(identities(&pods(&stage.client).await), before, "no pod was touched");
        // A pod, and a clique, is given the name of its gang: once, by its labels.
        let count = |what: &str| writes.iter().filter(|write| *write == what).count();
        assert_eq!((count("patch pods"), count("patch podcliques")), (8, 5), "{writes:?}");
        assert_eq!(count("patch podcliquescalinggroups"), 0, "{writes:?}");
        let cliques = state::list(&stage.client, "default", "grove.io", "v1alpha1", "PodClique").await;
        assert!(
            cliques.iter().all(|clique| clique["metadata"]["generation"] == 1),
            "no template was written"
        );
        let set = &state::list(&stage.client, "default", "grove.io", "v1alpha1", "PodCliqueSet").await[0];
        assert_eq!(
            set["status"]["currentGenerationHash"], "7c9f8b6d5",
            "clients keep the hash they know"
        );
        assert_eq!(set["status"]["updateProgress"], Value::Null, "no update began");
        assert_eq!(set["status"]["availableReplicas"], 1);
        let binding = &state::list(
            &stage.client,
            "default",
            "rbac.authorization.k8s.io",
            "v1",
            "RoleBinding",
        )
        .await[0];
        let subjects = binding["subjects"].as_array().cloned().unwrap_or_default();
        assert!(
            subjects.iter().any(|subject| subject["name"] == "web"),
            "pods that still wait with the former account keep its rights: {subjects:?}"
        );

        edit_work(&stage.client).await;
        tokio::time::sleep(LONG).await;
        let after = pods(&stage.client).await;
        let kept: BTreeSet<String> = identities(&after).into_keys().collect();
        for (uid, clique) in &before {
            assert_eq!(kept.contains(uid), !clique.ends_with("-work"), "{clique}");
        }
        assert_eq!(after.len(), 8);
        assert!(stage.audit.pods().doubles.is_empty());
        operator.stop().await;
    });
}

#[test]
fn an_update_that_was_left_half_way_is_finished_and_not_begun_again() {
    in_virtual_time(async {
        let stage = Stage::start().await;
        leave(&stage.client, Scene::new(Left::MidUpdate, Gangs::ByName), NODE).await;
        tokio::time::sleep(LONG).await;
        let found = pods(&stage.client).await;
        let image = |pod: &Value| {
            pod["spec"]["containers"][0]["image"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let done: BTreeMap<String, String> = identities(
            &found
                .iter()
                .filter(|pod| image(pod).ends_with(":2") || image(pod).starts_with("lead"))
                .cloned()
                .collect::<Vec<_>>(),
        );
        assert_eq!((found.len(), done.len()), (8, 5));
        let operator = stage.operator("operator", |_: &Call| Fault::Pass).await;
        tokio::time::sleep(LONG).await;
        let after = pods(&stage.client).await;
        let kept = identities(&after);
        for (uid, clique) in &done {
            assert!(kept.contains_key(uid), "a pod of {clique} that was up to date is gone");
        }
        assert_eq!(after.len(), 8);
        for pod in &after {
            let wanted = if image(pod).starts_with("lead") { ":1" } else { ":2" };
            assert!(image(pod).ends_with(wanted), "{}", image(pod));
        }
        let set = &state::list(&stage.client, "default", "grove.io", "v1alpha1", "PodCliqueSet").await[0];
        assert_eq!(set["status"]["updatedReplicas"], 1, "{}", set["status"]);
        assert!(
            set["status"]["updateProgress"]["updateEndedAt"].is_string(),
            "{}",
            set["status"]
        );
        assert!(stage.audit.pods().doubles.is_empty());
        operator.stop().await;
    });
}
