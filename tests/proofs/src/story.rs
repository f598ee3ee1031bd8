//! A workload and its life: created, scaled, updated, deleted.
//!
//! Small, because it is lived through once for every API call, but with everything that has an order: a scaling group
//! with a copy in the base gang and others beyond it, start-up order, a clique on its own that scales out while the group
//! scales in, an update of one clique of each.

use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

use crate::audit::PodHistory;
use crate::stage::{LONG, Stage};
use crate::state::{State, difference, read};

/// The namespace of the story.
pub const NAMESPACE: &str = "default";

const WORKLOAD: &str = "
apiVersion: grove.io/v1alpha1
kind: PodCliqueSet
metadata: {name: web, namespace: default}
spec:
  replicas: 1
  template:
    cliqueStartupType: CliqueStartupTypeInOrder
    headlessServiceConfig: {publishNotReadyAddresses: true}
    terminationDelay: 4h
    cliques:
    - {name: front, spec: {roleName: front, replicas: 1, minAvailable: 1, podSpec: {containers: [{name: main, image: 'front:1'}]}}}
    - {name: lead, spec: {roleName: lead, replicas: 1, minAvailable: 1, podSpec: {containers: [{name: main, image: 'lead:1'}]}}}
    - {name: work, spec: {roleName: work, replicas: 1, minAvailable: 1, podSpec: {containers: [{name: main, image: 'work:1'}]}}}
    podCliqueScalingGroups:
    - {name: pair, cliqueNames: [lead, work], replicas: 3, minAvailable: 1}
";

/// How the workload of a story is updated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Updates {
    /// In place, one after another.
    #[default]
    RollingRecreate,
    /// All changed components in step, in new gangs.
    Coherent,
}

impl Updates {
    fn workload(self) -> Value {
        let mut set: Value = serde_saphyr::from_str(WORKLOAD).expect("valid YAML");
        if self == Self::Coherent {
            set["spec"]["updateStrategy"] = json!({"type": "Coherent"});
        }
        set
    }
}

/// One chapter of the story.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chapter {
    /// The set is created.
    Create,
    /// Its clique is scaled out, its group in.
    Scale,
    /// One clique of each kind gets a new image.
    Update,
    /// The set is deleted.
    Delete,
}

/// All chapters, in order.
pub const CHAPTERS: [Chapter; 4] = [Chapter::Create, Chapter::Scale, Chapter::Update, Chapter::Delete];

impl Chapter {
    /// Does what the user does in this chapter.
    pub async fn begin(self, client: &Client, updates: Updates) {
        match self {
            Chapter::Create => {
                create(client, &updates.workload()).await;
            }
            Chapter::Scale => {
                patch(client, "PodClique", "web-0-front", json!({"spec": {"replicas": 2}})).await;
                patch(
                    client,
                    "PodCliqueScalingGroup",
                    "web-0-pair",
                    json!({"spec": {"replicas": 2}}),
                )
                .await;
            }
            Chapter::Update => {
                let mut set = updates.workload();
                for (clique, image) in [(0, "front:2"), (2, "work:2")] {
                    set["spec"]["template"]["cliques"][clique]["spec"]["podSpec"]["containers"][0]["image"] =
                        image.into();
                }
                patch(client, "PodCliqueSet", "web", json!({"spec": set["spec"]})).await;
            }
            Chapter::Delete => {
                delete(client, "PodCliqueSet", "web").await;
            }
        }
    }
}

fn api(client: &Client, kind: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("grove.io", "v1alpha1", kind));
    Api::namespaced_with(client.clone(), NAMESPACE, &resource)
}

/// Creates an object of the Grove API.
pub async fn create(client: &Client, object: &Value) {
    let kind = object["kind"].as_str().expect("a kind");
    let object: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
    api(client, kind)
        .create(&PostParams::default(), &object)
        .await
        .expect("the object is accepted");
}

/// Merges a patch into an object of the Grove API.
pub async fn patch(client: &Client, kind: &str, name: &str, patch: Value) {
    api(client, kind)
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .expect("the patch is accepted");
}

/// Deletes an object of the Grove API.
pub async fn delete(client: &Client, kind: &str, name: &str) {
    let deleted = api(client, kind).delete(name, &DeleteParams::default()).await;
    deleted.expect("the object can be deleted");
}

/// How a story went.
#[derive(Clone, Debug, Default)]
pub struct Told {
    /// The state at the end of each chapter.
    pub states: Vec<State>,
    /// What happened to pods.
    pub pods: PodHistory,
}

/// Tells the whole story on a stage on which operators are at work.
pub async fn tell(stage: &Stage, updates: Updates) -> Told {
    stage.audit.clear();
    let mut told = Told::default();
    for chapter in CHAPTERS {
        chapter.begin(&stage.client, updates).await;
        tokio::time::sleep(LONG).await;
        told.states.push(read(&stage.client, NAMESPACE).await);
    }
    told.pods = stage.audit.pods();
    told
}

impl Told {
    /// Where another story came to another state, in words.
    pub fn other_state(&self, found: &Self) -> Option<String> {
        let pairs = self.states.iter().zip(&found.states);
        CHAPTERS.iter().zip(pairs).find_map(|(chapter, (expected, found))| {
            difference(expected, found).map(|difference| format!("after {chapter:?}:\n{difference}"))
        })
    }
}
