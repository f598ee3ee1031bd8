//! `coppice rollout` and the sides of `coppice get`, on an embedded cluster in another process: an update is stopped, continued,
//! broken, taken back and repeated, as people do it.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod terminal;

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::types::PodCliqueSet;
use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use terminal::{Transcript, Up, client};

/// Two routers, and two copies of a leader with a worker. Pods need no more than a name.
const SET: &str = "
metadata: {name: llm, annotations: {kubernetes.io/change-cause: the first release}}
spec:
  replicas: 1
  template:
    cliques:
    - {name: router, spec: {roleName: router, replicas: 3, minAvailable: 1, podSpec: {containers: [{name: main, image: 'registry.example/router:1.0'}]}}}
    - {name: leader, spec: {roleName: leader, replicas: 1, podSpec: {containers: [{name: main, image: 'registry.example/leader:1.0'}]}}}
    - {name: worker, spec: {roleName: worker, replicas: 2, podSpec: {containers: [{name: main, image: 'registry.example/worker:1.0'}]}}}
    podCliqueScalingGroups:
    - {name: decode, cliqueNames: [leader, worker], replicas: 2, minAvailable: 1}
";

struct Stage {
    transcript: Transcript,
    _up: Up,
    client: Client,
}

impl Stage {
    async fn with(set: &str) -> Self {
        let mut transcript = Transcript::new();
        let up = Up::start(&transcript);
        let (client, address) = client(&transcript.directory.path().join("cluster")).await;
        transcript.masks.push((address, "https://ADDRESS"));
        let stage = Self {
            transcript,
            _up: up,
            client,
        };
        let set = serde_saphyr::from_str(set).unwrap();
        stage.sets().create(&PostParams::default(), &set).await.unwrap();
        assert_eq!(stage.code("rollout status llm --wait --timeout 2m"), 0);
        stage
    }

    fn sets(&self) -> Api<PodCliqueSet> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn set(&self) -> PodCliqueSet {
        self.sets().get("llm").await.unwrap()
    }

    /// A merge patch of the image of a clique, and of the cause.
    async fn image(&self, clique: usize, image: &str, cause: Option<&str>) {
        let path = format!("/spec/template/cliques/{clique}/spec/podSpec/containers/0/image");
        let mut operations = vec![json!({"op": "replace", "path": path, "value": image})];
        if let Some(cause) = cause {
            let path = "/metadata/annotations/kubernetes.io~1change-cause";
            operations.push(json!({"op": "add", "path": path, "value": cause}));
        }
        let patch: json_patch::Patch = serde_json::from_value(Value::Array(operations)).unwrap();
        let patch = Patch::Json::<()>(patch);
        self.sets().patch("llm", &PatchParams::default(), &patch).await.unwrap();
    }

    /// Serving pods by name, with uid and image.
    async fn pods(&self) -> BTreeMap<String, (String, String)> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        let pods = pods.list(&ListParams::default()).await.unwrap().items;
        let serving = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let known = serving.map(|pod| {
            let image = pod.spec.as_ref().unwrap().containers[0].image.clone().unwrap();
            (pod.name_any(), (pod.uid().unwrap(), image))
        });
        known.collect()
    }

    async fn uids(&self) -> BTreeSet<String> {
        self.pods().await.into_values().map(|(uid, _)| uid).collect()
    }

    fn code(&self, line: &str) -> i32 {
        self.output(line).0
    }

    /// The exit code and both outputs.
    fn output(&self, line: &str) -> (i32, String) {
        let output = self.transcript.output(&format!("{line} --kubeconfig cluster"));
        let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        (output.status.code().unwrap(), text)
    }

    /// What a command prints, when it succeeds.
    fn said(&self, line: &str) -> String {
        let (code, text) = self.output(line);
        assert_eq!(code, 0, "{line}: {text}");
        text
    }

    fn document(&self, line: &str) -> Value {
        serde_json::from_str(&self.said(&format!("{line} -o json"))).unwrap()
    }

    /// Waits until the JSON of a command is as it should be, looking whenever a pod or the set changed.
    async fn until(&self, line: &str, holds: impl Fn(&Value) -> bool) -> Value {
        use futures::StreamExt as _;
        let config = kube::runtime::watcher::Config::default;
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), "default");
        let pods = kube::runtime::watcher(pods, config())
            .map(|event| event.map(drop))
            .boxed();
        let sets = kube::runtime::watcher(self.sets(), config())
            .map(|event| event.map(drop))
            .boxed();
        let mut changes = futures::stream::select(pods, sets);
        let wait = async {
            loop {
                let (_, text) = self.output(&format!("{line} -o json"));
                let document = serde_json::from_str(&text).unwrap_or(Value::Null);
                if holds(&document) {
                    return document;
                }
                changes.next().await.unwrap().unwrap();
            }
        };
        let waited = tokio::time::timeout(std::time::Duration::from_secs(120), wait).await;
        waited.unwrap_or_else(|_| panic!("{line} never says it: {}", self.output(line).1))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_is_followed_stopped_continued_and_taken_back() {
    let mut stage = Stage::with(SET).await;
    let first = stage.pods().await;
    assert_eq!(first.len(), 9);

    // Nothing to undo yet, and the pause can be set before the update.
    let (code, text) = stage.output("rollout undo pcs/llm");
    assert_eq!(code, 1, "{text}");
    assert!(
        text.contains("only its current revision: there is nothing to undo\nnext: "),
        "{text}"
    );
    assert_eq!(
        stage.said("rollout pause llm --wait"),
        "podcliqueset default/llm paused\n"
    );
    assert_eq!(
        stage.said("rollout pause llm"),
        "podcliqueset default/llm already paused\n"
    );
    assert_eq!(stage.code("rollout status llm --wait"), 0, "nothing is to be updated");

    stage.image(0, "registry.example/router:1.1", Some("router 1.1")).await;
    let paused = stage
        .until("rollout status llm", |view| view["state"] == "Paused")
        .await;
    assert_eq!(paused["outdatedPods"], 3, "{paused}");
    assert_eq!(stage.code("rollout status llm --wait --timeout 1m"), 6);
    assert_eq!(stage.pods().await, first, "no pod is replaced while updates are paused");
    let (_, refused) = stage.output("rollout restart llm");
    assert!(
        refused.contains("are paused") && refused.contains("coppice rollout resume llm"),
        "{refused}"
    );

    let text = stage.said("rollout resume llm --wait --timeout 2m");
    assert!(text.contains("podcliqueset default/llm resumed\n"), "{text}");
    assert!(text.contains("default/llm: Complete, revision "), "{text}");
    assert!(text.contains("9/9 pods updated, 9 of them ready"), "{text}");
    assert_eq!(
        stage.said("rollout resume llm"),
        "podcliqueset default/llm not paused\n"
    );
    let second = stage.pods().await;
    assert_eq!(uids(&first).intersection(&uids(&second)).count(), 6);

    // Revisions carry their causes, and know their pods.
    let history = stage.document("rollout history llm");
    let revisions = history["revisions"].as_array().unwrap();
    let causes: Vec<&Value> = revisions.iter().map(|revision| &revision["cause"]).collect();
    assert_eq!(causes, ["the first release", "router 1.1"]);
    let pods: Vec<usize> = revisions
        .iter()
        .map(|revision| revision["pods"].as_array().unwrap().len())
        .collect();
    assert_eq!(pods, [0, 9]);
    assert_eq!(revisions[1]["current"], true);
    assert_eq!(revisions[1]["changedCliques"], json!(["router"]));
    let number = revisions[0]["number"].as_i64().unwrap();
    let templates = stage.document(&format!("rollout history llm --revision {number}"));
    assert_eq!(
        templates["cliques"][0]["podSpec"]["containers"][0]["image"],
        "registry.example/router:1.0"
    );

    // Going back: first without writing.
    let version = stage.set().await.resource_version();
    let dry = stage.said("rollout undo llm --dry-run");
    let line = "image: \"registry.example/router:1.1\" -> \"registry.example/router:1.0\"";
    assert!(
        dry.contains("~ clique router: 3 of 3 pods\n") && dry.contains(line),
        "{dry}"
    );
    assert!(
        dry.contains("rolled back to revision 1 (dry run): replaces 3 of 9 pods"),
        "{dry}"
    );
    assert_eq!(stage.set().await.resource_version(), version);
    let text = stage.said("rollout undo llm --wait --timeout 2m");
    assert!(
        text.contains("rolled back to revision 1: replaces 3 of 9 pods"),
        "{text}"
    );
    let third = stage.pods().await;
    assert_eq!(uids(&second).intersection(&uids(&third)).count(), 6);
    assert!(third.values().all(|(_, image)| image.ends_with(":1.0")), "{third:?}");
    let set = stage.set().await;
    assert_eq!(set.annotations()["kubernetes.io/change-cause"], "the first release");
    // Only what differs was written, and without the defaults of the canonical form.
    let router = &set.spec.template.cliques[0].spec.pod_spec;
    assert_eq!(
        json!(router.0["containers"]),
        json!([{"name": "main", "image": "registry.example/router:1.0"}])
    );

    let again = stage.document("rollout history llm");
    assert_eq!(
        again["revisions"].as_array().unwrap().len(),
        2,
        "a revision comes back under a new number"
    );
    let text = stage.said(&format!(
        "rollout undo llm --to-revision {}",
        again["revisions"][1]["number"]
    ));
    assert!(text.contains("already at revision"), "{text}");
    let (code, text) = stage.output("rollout undo llm --to-revision 99");
    assert_eq!(code, 1);
    assert!(text.contains("has no revision 99\nnext: name one of these: "), "{text}");
    let revisions: Api<ControllerRevision> = Api::namespaced(stage.client.clone(), "default");
    assert_eq!(revisions.list(&ListParams::default()).await.unwrap().items.len(), 2);

    // What people see.
    for line in [
        "rollout history llm",
        "rollout status llm",
        "rollout history llm --revision 99",
        "rollout undo nothing",
    ] {
        let recorded = recorded(&stage, line);
        stage.transcript.text.push_str(&recorded);
    }
    stage.transcript.check("rollout.txt");
}

/// A command and what it says, with times masked.
fn recorded(stage: &Stage, line: &str) -> String {
    let (code, text) = stage.output(line);
    let masked: Vec<String> = text
        .lines()
        .map(|line| {
            let words = line.split(' ').map(|word| {
                let is_time = word.len() == 20 && word.ends_with('Z') && word.contains('T');
                if is_time { "<time>" } else { word }
            });
            words.collect::<Vec<_>>().join(" ")
        })
        .collect();
    format!("$ coppice {line}\n{}\n[exit {code}]\n\n", masked.join("\n"))
}

fn uids(pods: &BTreeMap<String, (String, String)>) -> BTreeSet<String> {
    pods.values().map(|(uid, _)| uid.clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_that_never_gets_ready_is_seen_from_both_sides_and_undone_by_what_moved() {
    let deadline = SET.replace(
        "{name: router, spec:",
        "{name: router, rollingUpdate: {maxUnavailable: 1, progressDeadline: 3s}, spec:",
    );
    let stage = Stage::with(&deadline).await;
    let before = stage.uids().await;
    // An annotation of the simulated kubelet: the container crashes.
    let crash = json!([
        {"op": "add", "path": "/spec/template/cliques/0/annotations", "value": {"simulation.coppice.dev/crash-loop": "true"}},
        {"op": "replace", "path": "/spec/template/cliques/0/spec/podSpec/containers/0/image", "value": "registry.example/router:broken"},
    ]);
    let patch: json_patch::Patch = serde_json::from_value(crash).unwrap();
    let patch = Patch::Json::<()>(patch);
    stage
        .sets()
        .patch("llm", &PatchParams::default(), &patch)
        .await
        .unwrap();
    let (code, text) = stage.output("rollout status llm --wait --timeout 1m");
    assert_eq!(code, 4, "stuck: {text}");
    assert!(text.contains("progressDeadline"), "{text}");
    assert!(text.contains("coppice rollout undo llm"), "{text}");
    let old_and_new = "rev 1 2/3  rev 2 0/3 (+1 not ready)";
    assert!(text.contains(&format!("router  {old_and_new}")), "{text}");
    let tree = stage.said("get llm");
    assert!(tree.contains(old_and_new), "{tree}");
    let document = stage.document("get llm");
    let router = &document["replicas"][0]["cliques"][0];
    assert_eq!(
        router["versions"],
        json!([
            {"revision": 1, "current": false, "units": 2, "ready": 2},
            {"revision": 2, "current": true, "units": 1, "ready": 0},
        ])
    );
    let text = stage.said("rollout undo llm --wait --timeout 2m");
    assert!(
        text.contains("rolled back to revision 1: replaces 1 of 9 pods"),
        "{text}"
    );
    let after = stage.uids().await;
    assert_eq!(
        before.intersection(&after).count(),
        8,
        "only what had moved was moved back"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_are_restarted_and_with_on_delete_their_turn_comes_when_they_are_deleted() {
    let stage = Stage::with(SET).await;
    let before = stage.uids().await;
    let (code, text) = stage.output("rollout restart llm --clique routers");
    assert_eq!(code, 1);
    assert!(
        text.contains("has no clique \"routers\"") && text.contains("router, leader, worker"),
        "{text}"
    );
    let text = stage.said("rollout restart llm --clique router --wait --timeout 2m");
    assert!(
        text.contains("podcliqueset default/llm restarted: replaces 3 of 3 pods"),
        "{text}"
    );
    let after = stage.uids().await;
    assert_eq!(before.intersection(&after).count(), 6);
    let annotations = &stage.set().await.spec.template.cliques[0].annotations;
    assert!(
        annotations.contains_key("kubectl.kubernetes.io/restartedAt"),
        "{annotations:?}"
    );

    let strategy = json!({"spec": {"updateStrategy": {"type": "OnDelete"}}});
    let strategy = Patch::Merge(strategy);
    stage
        .sets()
        .patch("llm", &PatchParams::default(), &strategy)
        .await
        .unwrap();
    let (code, text) = stage.output("rollout pause llm");
    assert_eq!(code, 1, "{text}");
    assert!(text.contains("OnDelete"), "{text}");
    stage.image(0, "registry.example/router:2.0", None).await;
    let waiting = stage
        .until("rollout status llm", |view| view["state"] == "WaitingForDeletions")
        .await;
    assert_eq!(waiting["outdatedPods"], 3, "{waiting}");
    assert_eq!(stage.code("rollout status llm"), 3);
    assert_eq!(stage.code("rollout status llm --timeout 1s"), 5);
    let pods: Api<Pod> = Api::namespaced(stage.client.clone(), "default");
    let routers = ListParams::default().labels("grove.io/podclique=llm-0-router");
    for pod in pods.list(&routers).await.unwrap() {
        pods.delete(&pod.name_any(), &kube::api::DeleteParams::default())
            .await
            .unwrap();
    }
    assert_eq!(stage.code("rollout status llm --timeout 2m"), 0);
    let routers: Vec<String> = stage
        .pods()
        .await
        .into_values()
        .map(|(_, image)| image)
        .filter(|image| image.contains("router"))
        .collect();
    assert_eq!(routers, ["registry.example/router:2.0"; 3]);
}
