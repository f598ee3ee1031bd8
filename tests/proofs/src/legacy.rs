//! A set and its children as the Go operator leaves them, written down from the contract and not with our own builders:
//! its labels and names, hashes that mean nothing to us, generated pod names, the token secret, gangs that list their
//! pods, gates that were taken off.
//!
//! One replica: `front` on its own (2 pods), the group `pair` of `lead` (1) and `work` (2) in two copies, the second of them
//! with a gang of its own; `work` starts after `lead`. A [`Scene`] says which version left it, at which sizes, and how far
//! it had come.

use kube::Client;
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use serde_json::{Value, json};

/// How far the other operator had come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// Everything is at rest.
    AtRest,
    /// `front` and `work` get a new image: one pod of `front` and the first copy of the group have it already.
    MidUpdate,
}

/// How the gangs are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gangs {
    /// As alpha.11 and older do, and version 0.1 of ours: by names, without a map.
    ByName,
    /// As alpha.12 and alpha.13 do: a PodGangMap, and epochs in names and labels.
    ByEpoch,
    /// On the way from the one to the other: the map exists and is empty, the set says that the migration is under way.
    HalfMigrated,
}

/// What another operator left.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// How far it had come with an update.
    pub left: Left,
    /// How the gangs are recorded.
    pub gangs: Gangs,
    /// Pods of `front`.
    pub front: usize,
    /// Copies of `pair`; the template says two.
    pub copies: usize,
}

impl Scene {
    /// The sizes of the template.
    pub fn new(left: Left, gangs: Gangs) -> Self {
        Self {
            left,
            gangs,
            front: 2,
            copies: 2,
        }
    }

    /// The gang of a copy; the first one is placed with everything else.
    fn gang_of(self, copy: usize) -> String {
        match (self.gangs, copy) {
            (Gangs::ByEpoch, 0) => format!("web-0-{ANCHOR}"),
            (Gangs::ByEpoch, _) => format!("web-0-{}-pair-{copy}", if copy < 2 { TAIL } else { SCALE_OUT }),
            (_, 0) => "web-0".to_owned(),
            (_, _) => format!("web-0-pair-{}", copy - 1),
        }
    }

    fn pods_of(self, clique: &str) -> usize {
        match clique {
            "front" => self.front,
            "lead" => 1,
            _ => 2,
        }
    }
}

const SET: &str = "web";
const ANCHOR: u64 = 1_788_533_963_425_275_528;
const TAIL: u64 = ANCHOR + 1;
const SCALE_OUT: u64 = ANCHOR + 2;
const OLD: &str = "5d8b6f7c9d";
const NEW: &str = "8f6c5b4d7z";

struct Builder<'a> {
    client: &'a Client,
    scene: Scene,
    set_uid: String,
}

/// Whether a pod has the new template.
fn is_new(left: Left, clique: &str, copy: usize, pod: usize) -> bool {
    let changed = clique != "lead";
    left == Left::MidUpdate && changed && if clique == "front" { pod == 0 } else { copy == 0 }
}

fn image(clique: &str, new: bool) -> String {
    format!("{clique}:{}", if new { 2 } else { 1 })
}

fn hash(clique: &str, new: bool) -> String {
    format!("{}{clique}", if new { NEW } else { OLD })
}

/// The set, as its author wrote it. Only what was updated has the second image.
pub fn set(left: Left) -> Value {
    let clique = |name: &str, replicas: u32| {
        let new = left == Left::MidUpdate && name != "lead";
        let mut spec = json!({"roleName": name, "replicas": replicas, "minAvailable": 1,
            "podSpec": {"containers": [{"name": "main", "image": image(name, new)}]}});
        if name == "work" {
            spec["startsAfter"] = json!(["lead"]);
        }
        json!({"name": name, "spec": spec})
    };
    json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
        "metadata": {"name": SET, "namespace": "default", "finalizers": ["grove.io/podcliqueset.grove.io"]},
        "spec": {"replicas": 1, "template": {
            "cliqueStartupType": "CliqueStartupTypeExplicit",
            "headlessServiceConfig": {"publishNotReadyAddresses": true},
            "terminationDelay": "4h",
            "cliques": [clique("front", 2), clique("lead", 1), clique("work", 2)],
            "podCliqueScalingGroups": [{"name": "pair", "cliqueNames": ["lead", "work"], "replicas": 2, "minAvailable": 1}],
        }},
    })
}

/// Creates everything. Pods are on `node` already.
pub async fn leave(client: &Client, scene: Scene, node: &str) {
    let left = scene.left;
    let mut builder = Builder {
        client,
        scene,
        set_uid: String::new(),
    };
    let created = builder.create(set(left)).await;
    builder.set_uid = uid(&created);
    builder.access().await;
    let owner = builder.create(builder.scaling_group()).await;
    builder
        .status("grove.io", "PodCliqueScalingGroup", "web-0-pair", group_status(scene))
        .await;
    let mut gangs: Vec<Vec<Value>> = vec![Vec::new(); scene.copies.max(1)];
    gangs[0].push(builder.clique("front", None, node).await);
    for (copy, groups) in gangs.iter_mut().enumerate().take(scene.copies) {
        for name in ["lead", "work"] {
            groups.push(builder.clique(name, Some((copy, &uid(&owner))), node).await);
        }
    }
    if scene.gangs != Gangs::ByName {
        builder.create(builder.map()).await;
    }
    for (copy, groups) in gangs.iter().enumerate() {
        let pods = groups.iter().any(|group| group["podReferences"] != json!([]));
        if pods {
            builder.gang(copy, groups).await;
        }
    }
    let mut status = set_status(left);
    if scene.gangs == Gangs::HalfMigrated {
        status["conditions"] = json!([condition(
            "PodGangMigrationInProgress",
            "True",
            "LegacyPodGangsPendingMigration"
        )]);
    }
    builder.status("grove.io", "PodCliqueSet", SET, status).await;
}

fn uid(object: &Value) -> String {
    object["metadata"]["uid"].as_str().expect("a uid").to_owned()
}

fn generation(left: Left) -> &'static str {
    match left {
        Left::AtRest => "7c9f8b6d5",
        Left::MidUpdate => "4d5f6g7h8",
    }
}

fn set_status(left: Left) -> Value {
    let mut status = json!({"observedGeneration": 1, "replicas": 1, "availableReplicas": 1, "updatedReplicas": 1,
        "currentGenerationHash": generation(left),
        "hpaPodSelector": "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=web"});
    if left == Left::MidUpdate {
        status["updatedReplicas"] = 0.into();
        status["updateProgress"] = json!({"updateStartedAt": "2026-01-01T00:00:00Z",
            "currentlyUpdating": [{"replicaIndex": 0, "updateStartedAt": "2026-01-01T00:00:00Z"}]});
    }
    status
}

fn group_status(scene: Scene) -> Value {
    let copies = scene.copies;
    json!({"observedGeneration": 1, "replicas": copies, "scheduledReplicas": copies, "availableReplicas": copies,
        "updatedReplicas": if scene.left == Left::AtRest { copies } else { 1 },
        "currentPodCliqueSetGenerationHash": generation(Left::AtRest),
        "selector": "app.kubernetes.io/managed-by=grove-operator,app.kubernetes.io/part-of=web,grove.io/podcliquescalinggroup=web-0-pair",
        "conditions": [condition("MinAvailableBreached", "False", "SufficientAvailablePodCliqueScalingGroupReplicas")]})
}

fn condition(kind: &str, status: &str, reason: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"})
}

fn labels(name: &str, component: &str) -> Value {
    json!({"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": SET,
           "app.kubernetes.io/name": name, "app.kubernetes.io/component": component})
}

fn with(mut labels: Value, more: &[(&str, &str)]) -> Value {
    for (key, value) in more {
        labels[*key] = (*value).into();
    }
    labels
}

fn owned_by(kind: &str, name: &str, uid: &str) -> Value {
    json!([{"apiVersion": "grove.io/v1alpha1", "kind": kind, "name": name, "uid": uid, "controller": true,
            "blockOwnerDeletion": true}])
}

impl Builder<'_> {
    fn api(&self, object: &Value) -> Api<DynamicObject> {
        let (group, version) = match object["apiVersion"].as_str().expect("a version").split_once('/') {
            Some((group, version)) => (group, version),
            None => ("", "v1"),
        };
        let kind = object["kind"].as_str().expect("a kind");
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
        Api::default_namespaced_with(self.client.clone(), &resource)
    }

    async fn create(&self, object: Value) -> Value {
        let name = format!("{} {}", object["kind"], object["metadata"]["name"]);
        let typed: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
        let created = self.api(&object).create(&PostParams::default(), &typed).await;
        json!(created.unwrap_or_else(|error| panic!("{name}: {error}")))
    }

    async fn status(&self, group: &str, kind: &str, name: &str, status: Value) {
        let object = json!({"apiVersion": format!("{group}/v1alpha1"), "kind": kind});
        let patch = Patch::Merge(json!({"status": status}));
        let patched = self
            .api(&object)
            .patch_status(name, &PatchParams::default(), &patch)
            .await;
        patched.unwrap_or_else(|error| panic!("status of {kind} {name}: {error}"));
    }

    fn of_set(&self) -> Value {
        owned_by("PodCliqueSet", SET, &self.set_uid)
    }

    async fn access(&self) {
        let metadata = |name: &str, component: &str| {
            json!({"name": name, "namespace": "default",
            "labels": labels(&name.replace(':', "-"), component), "ownerReferences": self.of_set()})
        };
        let role = "grove.io:pcs:web";
        self.create(
            json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata(SET, "pod-service-account"),
            "automountServiceAccountToken": true}),
        )
        .await;
        self.create(
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata(role, "pod-role"),
            "rules": [{"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get", "list", "watch"]}]}),
        )
        .await;
        self.create(
            json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": metadata(role, "pod-role-binding"),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role},
            "subjects": [{"kind": "ServiceAccount", "name": SET, "namespace": "default"}]}),
        )
        .await;
        let mut secret = metadata("web-ic-sat", "pod-sa-token-secret");
        secret["annotations"] = json!({"kubernetes.io/service-account.name": SET});
        self.create(
            json!({"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": secret, "data": {"token": "dG9rZW4="}}),
        )
        .await;
        let mut service = metadata("web-0", "pcs-headless-service");
        service["labels"] = with(
            service["labels"].clone(),
            &[("grove.io/podcliqueset-replica-index", "0")],
        );
        let selector = json!({"app.kubernetes.io/managed-by": "grove-operator", "app.kubernetes.io/part-of": SET,
            "grove.io/podcliqueset-replica-index": "0"});
        self.create(json!({"apiVersion": "v1", "kind": "Service", "metadata": service,
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": true, "selector": selector}}))
            .await;
    }

    fn scaling_group(&self) -> Value {
        let labels = with(
            labels("web-0-pair", "pcs-podcliquescalinggroup"),
            &[("grove.io/podcliqueset-replica-index", "0")],
        );
        json!({"apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueScalingGroup",
            "metadata": {"name": "web-0-pair", "namespace": "default", "labels": labels, "ownerReferences": self.of_set(),
                "finalizers": ["grove.io/podcliquescalinggroup.grove.io"]},
            "spec": {"replicas": self.scene.copies, "minAvailable": 1, "cliqueNames": ["lead", "work"]}})
    }

    /// A clique with its pods. Returns its entry in the gang.
    async fn clique(&self, clique: &str, member: Option<(usize, &str)>, node: &str) -> Value {
        let copy = member.map_or(0, |(copy, _)| copy);
        let name = match member {
            None => format!("web-0-{clique}"),
            Some(_) => format!("web-0-pair-{copy}-{clique}"),
        };
        let replicas = self.scene.pods_of(clique);
        // Cliques on their own get a new template at once; those of a group when their copy is recreated.
        let new = (0..replicas).any(|pod| is_new(self.scene.left, clique, copy, pod));
        let gang = self.scene.gang_of(copy);
        let component = if member.is_some() {
            "pcsg-podclique"
        } else {
            "pcs-podclique"
        };
        let mut of_clique = with(
            labels(&name, component),
            &[
                ("grove.io/podcliqueset-replica-index", "0"),
                ("grove.io/pod-template-hash", &hash(clique, new)),
            ],
        );
        if member.is_some() || self.scene.gangs != Gangs::ByEpoch {
            of_clique["grove.io/podgang"] = gang.as_str().into();
        }
        let mut pod_spec = json!({"containers": [{"name": "main", "image": image(clique, new)}]});
        let mut owner = self.of_set();
        if let Some((copy, group)) = member {
            of_clique["grove.io/podcliquescalinggroup"] = "web-0-pair".into();
            of_clique["grove.io/podcliquescalinggroup-replica-index"] = copy.to_string().into();
            if copy > 0 && self.scene.gangs != Gangs::ByEpoch {
                of_clique["grove.io/base-podgang"] = "web-0".into();
            }
            let label = |name: &str, key: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": format!("metadata.labels['{key}']")}}});
            pod_spec["containers"][0]["env"] = json!([
                label("GROVE_PCSG_NAME", "grove.io/podcliquescalinggroup"),
                {"name": "GROVE_PCSG_TEMPLATE_NUM_PODS", "value": "3"},
                label("GROVE_PCSG_INDEX", "grove.io/podcliquescalinggroup-replica-index"),
            ]);
            owner = owned_by("PodCliqueScalingGroup", "web-0-pair", group);
        }
        let mut spec = json!({"roleName": clique, "replicas": replicas, "minAvailable": 1, "podSpec": pod_spec});
        if clique == "work" {
            spec["startsAfter"] = json!([format!("web-0-pair-{copy}-lead")]);
        }
        let created = self
            .create(json!({"apiVersion": "grove.io/v1alpha1", "kind": "PodClique",
                "metadata": {"name": name, "namespace": "default", "labels": of_clique, "ownerReferences": owner,
                    "finalizers": ["grove.io/podclique.grove.io"]},
                "spec": spec}))
            .await;
        let mut status = json!({"observedGeneration": 1, "replicas": replicas, "readyReplicas": replicas,
            "scheduledReplicas": replicas, "updatedReplicas": replicas,
            "currentPodTemplateHash": hash(clique, new), "currentPodCliqueSetGenerationHash": generation(Left::AtRest),
            "conditions": [condition("PodCliqueScheduled", "True", "SufficientScheduledPods"),
                           condition("MinAvailableBreached", "False", "SufficientReadyPods")]});
        if self.scene.left == Left::MidUpdate && clique == "front" {
            status["updatedReplicas"] = 1.into();
            status["currentPodTemplateHash"] = hash(clique, false).into();
            status["updateProgress"] = json!({"updateStartedAt": "2026-01-01T00:00:00Z",
                "podCliqueSetGenerationHash": generation(self.scene.left), "podTemplateHash": hash(clique, true)});
        }
        self.status("grove.io", "PodClique", &name, status).await;
        let mut references = Vec::new();
        for pod in 0..replicas {
            let pod = self.pod(&created, clique, copy, pod, node).await;
            references.push(json!({"namespace": "default", "name": pod}));
        }
        references.sort_by_key(ToString::to_string);
        json!({"name": name, "minReplicas": 1, "podReferences": references})
    }

    async fn pod(&self, of: &Value, clique: &str, copy: usize, index: usize, node: &str) -> String {
        let owner = of["metadata"]["name"].as_str().expect("a name");
        let new = is_new(self.scene.left, clique, copy, index);
        let number = index.to_string();
        let gang = self.scene.gang_of(copy);
        let labels = with(
            of["metadata"]["labels"].clone(),
            &[
                ("grove.io/podclique", owner),
                ("grove.io/podgang", &gang),
                ("grove.io/podclique-pod-index", &number),
                ("grove.io/pod-template-hash", &hash(clique, new)),
            ],
        );
        let mut spec = of["spec"]["podSpec"].clone();
        spec["containers"][0]["image"] = image(clique, new).into();
        spec["hostname"] = format!("{owner}-{index}").into();
        spec["subdomain"] = "web-0".into();
        spec["schedulerName"] = "default-scheduler".into();
        spec["nodeName"] = node.into();
        let mut env = vec![
            json!({"name": "GROVE_PCS_NAME", "value": SET}),
            json!({"name": "GROVE_PCS_INDEX", "value": "0"}),
            json!({"name": "GROVE_PCLQ_NAME", "value": owner}),
            json!({"name": "GROVE_HEADLESS_SERVICE", "value": "web-0.default.svc.cluster.local"}),
        ];
        env.extend(spec["containers"][0]["env"].as_array().into_iter().flatten().cloned());
        spec["containers"][0]["env"] = env.into();
        if clique == "work" {
            spec["volumes"] = json!([
                {"name": "sa-token-secret-vol", "secret": {"secretName": "web-ic-sat", "defaultMode": 420}},
                {"name": "pod-info-vol", "downwardAPI": {"items": [
                    {"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}},
                    {"path": "podgangname", "fieldRef": {"fieldPath": "metadata.labels['grove.io/podgang']"}}]}}]);
            spec["initContainers"] = json!([{"name": "grove-initc", "image": "initc:v0.1.0-alpha.10",
                "args": [format!("--podcliques=web-0-pair-{copy}-lead:1")],
                "volumeMounts": [{"name": "pod-info-vol", "mountPath": "/var/grove/pod-info", "readOnly": true}]}]);
        }
        let created = self
            .create(json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"generateName": format!("{owner}-"), "namespace": "default", "labels": labels,
                    "ownerReferences": owned_by("PodClique", owner, &uid(of))},
                "spec": spec}))
            .await;
        created["metadata"]["name"]
            .as_str()
            .expect("a generated name")
            .to_owned()
    }

    /// The map as alpha.12 and alpha.13 write it.
    fn map(&self) -> Value {
        let entry = |epoch: u64, role: &str, copies: Vec<usize>| {
            let mut entry = json!({"epoch": epoch.to_string(), "role": role,
                "podCliqueSetGenerationHash": generation(self.scene.left)});
            if !copies.is_empty() {
                entry["pcsgReplicaIndices"] = json!({"pair": copies});
            }
            entry
        };
        let copies = self.scene.copies;
        let mut anchor = entry(ANCHOR, "Anchor", (0..copies.min(1)).collect());
        anchor["anchorIndex"] = 0.into();
        anchor["podCliques"] = json!({"front": self.scene.front});
        let mut entries = vec![anchor];
        for (epoch, role, range) in [(TAIL, "Tail", 1..copies.min(2)), (SCALE_OUT, "ScaleOut", 2..copies)] {
            let mut further = entry(epoch, role, range.collect());
            further["dependsOn"] = json!([ANCHOR.to_string()]);
            entries.push(further);
        }
        if self.scene.gangs == Gangs::HalfMigrated {
            entries.clear();
        }
        let labels = with(
            labels("web-0", "pcs-podgangmap"),
            &[("grove.io/podcliqueset-replica-index", "0")],
        );
        json!({"apiVersion": "grove.io/v1alpha1", "kind": "PodGangMap",
            "metadata": {"name": "web-0", "namespace": "default", "labels": labels, "ownerReferences": self.of_set()},
            "spec": {"podCliqueSetReplicaIndex": 0, "entries": entries}})
    }

    async fn gang(&self, copy: usize, groups: &[Value]) {
        let name = &self.scene.gang_of(copy);
        let mut labels = with(
            labels(name, "podgang"),
            &[("grove.io/scheduler-name", "default-scheduler")],
        );
        if self.scene.gangs == Gangs::ByEpoch {
            let (epoch, role) = match copy {
                0 => (ANCHOR, "Anchor"),
                1 => (TAIL, "Tail"),
                _ => (SCALE_OUT, "ScaleOut"),
            };
            labels = with(
                labels,
                &[
                    ("grove.io/epoch", &epoch.to_string()),
                    ("grove.io/podgang-role", role),
                    ("grove.io/podcliqueset-replica-index", "0"),
                    ("grove.io/podcliqueset-generation-hash", generation(self.scene.left)),
                ],
            );
        }
        self.create(json!({"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang",
            "metadata": {"name": name, "namespace": "default", "labels": labels, "ownerReferences": self.of_set()},
            "spec": {"podgroups": groups}}))
            .await;
        let status =
            json!({"phase": "Pending", "conditions": [condition("Initialized", "True", "PodGangPodsCreated")]});
        self.status("scheduler.grove.io", "PodGang", name, status).await;
    }
}
