//! A small world for planners: it carries out commands on JSON objects as an API server would, and its pods get nodes
//! and become ready when told. No client, no clock but the one it is given.
#![allow(dead_code, unused_imports, reason = "each test file uses a part of it")]

pub(crate) mod history;
mod oracle;
mod workloads;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coppice_api::names::labels;
use coppice_api::types::PodCliqueSet;
use coppice_core::backends::{STAMP_ANNOTATIONS, STAMP_LABELS, Stamp};
use coppice_core::command::{Command, Kind, Target};
use coppice_core::context::SetContext;
use coppice_core::replica::{ReplicaSummary, plan_abandoned, plan_replica};
use coppice_core::set::{SetSnapshot, adopted_hash, plan_set};
use coppice_core::settings::Settings;
use coppice_core::snapshot::{Membership, PodFacts, ReplicaSnapshot};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

pub(crate) use oracle::live;
pub(crate) use workloads::{WL1, WL2, pods_of, uids};

pub(crate) type Key = (String, String);

pub(crate) struct World {
    pub(crate) objects: BTreeMap<Key, Value>,
    pub(crate) settings: Settings,
    pub(crate) now: Timestamp,
    pub(crate) events: Vec<String>,
    /// Writes by kind and verb.
    pub(crate) writes: BTreeMap<String, usize>,
    /// How many pods may have a node; none for no limit.
    pub(crate) capacity: Option<usize>,
    /// While this is so, no pod becomes ready.
    pub(crate) loading: bool,
    /// ResourceClaimTemplates by namespace and name.
    pub(crate) claim_templates: BTreeMap<(String, String), Arc<Value>>,
    /// What happens to the next commands, the last one first.
    pub(crate) troubles: Vec<history::Trouble>,
    /// The newest generation that each object's status has spoken of, by uid.
    pub(crate) observed: BTreeMap<String, i64>,
    /// Every pod that was ever made, by uid of its owner and name.
    used_names: BTreeSet<(String, String)>,
    /// Pods that the operator does not see yet.
    pub(crate) hidden: BTreeSet<String>,
    /// Pods that the operator has seen, by name, with the replica that they belonged to.
    seen_pods: BTreeMap<String, (u32, Arc<PodFacts>)>,
    /// Pods that the operator has seen go.
    departed: Vec<(u32, Arc<PodFacts>)>,
    /// When the last plans asked to be made again.
    deadline: Option<Timestamp>,
    /// Whether only replicas that exist are planned.
    only_existing: bool,
    version: u64,
}

impl World {
    pub(crate) fn new(set: &str) -> Self {
        Self::with(serde_saphyr::from_str(set).expect("valid YAML"))
    }

    pub(crate) fn with(mut object: Value) -> Self {
        object["apiVersion"] = "grove.io/v1alpha1".into();
        object["kind"] = "PodCliqueSet".into();
        object["metadata"]["namespace"] = "test".into();
        let mut world = Self {
            objects: BTreeMap::new(),
            settings: Settings::default(),
            now: Timestamp::from_second(1_000_000).expect("in range"),
            events: Vec::new(),
            writes: BTreeMap::new(),
            capacity: None,
            loading: false,
            claim_templates: BTreeMap::new(),
            troubles: Vec::new(),
            observed: BTreeMap::new(),
            used_names: BTreeSet::new(),
            hidden: BTreeSet::new(),
            seen_pods: BTreeMap::new(),
            departed: Vec::new(),
            deadline: None,
            only_existing: false,
            version: 0,
        };
        world.create(object);
        world.writes.clear();
        world
    }

    pub(crate) fn create(&mut self, mut object: Value) {
        self.version += 1;
        let kind = object["kind"].as_str().expect("a kind").to_owned();
        let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
        let key = (kind, name);
        if self.objects.contains_key(&key) {
            return;
        }
        let metadata = &mut object["metadata"];
        metadata["uid"] = format!("uid-{}", self.version).into();
        metadata["resourceVersion"] = self.version.to_string().into();
        metadata["generation"] = 1.into();
        metadata["creationTimestamp"] = json!(self.now);
        if key.0 == "Pod" {
            let owner = metadata["ownerReferences"][0]["uid"].as_str().unwrap_or_default();
            let fresh = self.used_names.insert((owner.to_owned(), key.1.clone()));
            assert!(fresh, "a second pod of the name {}", key.1);
        }
        *self.writes.entry(format!("create {}", key.0)).or_default() += 1;
        let is_pod = key.0 == "Pod";
        self.objects.insert(key, object);
        // A watch reports every pod, however short its life.
        if is_pod {
            self.watch_pods();
        }
    }

    pub(crate) fn get(&self, kind: &str, name: &str) -> &Value {
        &self.objects[&(kind.to_owned(), name.to_owned())]
    }

    pub(crate) fn names(&self, kind: &str) -> Vec<String> {
        self.objects
            .keys()
            .filter(|(of, _)| of == kind)
            .map(|(_, name)| name.clone())
            .collect()
    }

    pub(crate) fn pods(&self) -> Vec<&Value> {
        self.objects
            .iter()
            .filter(|((kind, _), _)| kind == "Pod")
            .map(|(_, object)| object)
            .collect()
    }

    /// A pod ends badly.
    pub(crate) fn fail(&mut self, name: &str) {
        let ended = self.now;
        self.edit("Pod", name, |pod| {
            pod["status"] = json!({"phase": "Failed", "ended": ended});
        });
    }

    /// Edits an object as a user would: its generation moves on.
    pub(crate) fn edit(&mut self, kind: &str, name: &str, change: impl FnOnce(&mut Value)) {
        let object = self
            .objects
            .get_mut(&(kind.to_owned(), name.to_owned()))
            .expect("an object");
        change(object);
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        let generation = object["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
        object["metadata"]["generation"] = generation.into();
    }

    /// Deletes an object as a user would: with finalizers, or a node under a pod, it stays for a while.
    pub(crate) fn delete(&mut self, kind: &str, name: &str) {
        let key = (kind.to_owned(), name.to_owned());
        let Some(object) = self.objects.get_mut(&key) else {
            return;
        };
        let held = object["metadata"]["finalizers"]
            .as_array()
            .is_some_and(|list| !list.is_empty());
        let running = kind == "Pod" && object["spec"]["nodeName"].is_string();
        *self.writes.entry(format!("delete {kind}")).or_default() += 1;
        if held || running {
            object["metadata"]["deletionTimestamp"] = json!(self.now);
        } else {
            self.objects.remove(&key);
        }
    }

    /// The operator starts again: it knows nothing of pods that it does not find.
    pub(crate) fn forget_pods(&mut self) {
        self.seen_pods.clear();
        self.departed.clear();
    }

    /// Takes note of pods that are gone, or belong to another replica now.
    fn watch_pods(&mut self) {
        let mut visible = BTreeMap::new();
        for pod in self.of_kind("Pod") {
            let facts = Arc::new(pod_facts(pod));
            let index = pod["metadata"]["labels"][labels::SET_REPLICA_INDEX].as_str();
            if let Some(index) = index.and_then(|index| index.parse::<u32>().ok())
                && !self.hidden.contains(&facts.name)
            {
                visible.insert(facts.name.clone(), (index, facts));
            }
        }
        let gone = std::mem::take(&mut self.seen_pods)
            .into_iter()
            .filter(|(name, (index, pod))| {
                !visible
                    .get(name)
                    .is_some_and(|(at, now)| at == index && now.uid == pod.uid)
            });
        self.departed.extend(gone.map(|(_, pod)| pod));
        self.seen_pods = visible;
    }

    /// Goes on counting versions where another world stands.
    pub(crate) fn skip_to(&mut self, other: &Self) {
        self.version = other.version;
    }

    pub(crate) fn advance(&mut self, seconds: i64) {
        self.now = self
            .now
            .saturating_add(SignedDuration::from_secs(seconds))
            .expect("in range");
    }

    pub(crate) fn carry_out(&mut self, command: &Command) {
        match command {
            Command::Create(object) => self.create(json!(object)),
            Command::Merge { target, patch } => self.patch(target, "patch", |object| merge(object, patch)),
            Command::Status { target, patch, .. } => {
                self.patch(target, "status", |object| merge(&mut object["status"], patch));
                self.check_done();
            }
            Command::RemoveGate { target, .. } => self.patch(target, "gate", |object| {
                if let Some(gates) = object["spec"]["schedulingGates"].as_array_mut() {
                    gates.retain(|gate| gate["name"] != "grove.io/podgang-pending-creation");
                }
            }),
            Command::Delete { target } => {
                let name = target.name.clone();
                let kind = kind_name(target.kind);
                if self
                    .objects
                    .get(&(kind.to_owned(), name.clone()))
                    .is_some_and(|object| object["metadata"]["uid"] == target.uid.as_str())
                {
                    self.delete(kind, &name);
                }
            }
            Command::Confirm { names, .. } => {
                for name in names {
                    self.hidden.remove(name);
                }
            }
            Command::Event { reason, target, .. } => self.events.push(format!("{reason} {}", target.name)),
        }
    }

    fn patch(&mut self, target: &Target, verb: &str, change: impl FnOnce(&mut Value)) {
        let kind = kind_name(target.kind);
        let key = (kind.to_owned(), target.name.clone());
        let Some(object) = self.objects.get_mut(&key) else {
            return;
        };
        if object["metadata"]["uid"] != target.uid.as_str()
            || object["metadata"]["resourceVersion"] != target.resource_version.as_str()
        {
            return; // stale: a conflict
        }
        let before = object.clone();
        change(object);
        assert_ne!(
            &before, object,
            "a {verb} of {kind} {} that changes nothing",
            target.name
        );
        if before["spec"] != object["spec"] {
            object["metadata"]["generation"] = (object["metadata"]["generation"].as_i64().unwrap_or(0) + 1).into();
        }
        self.version += 1;
        object["metadata"]["resourceVersion"] = self.version.to_string().into();
        *self.writes.entry(format!("{verb} {kind}")).or_default() += 1;
        let gone = object["metadata"]["deletionTimestamp"].is_string()
            && object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        if gone {
            self.objects.remove(&key);
        }
    }

    /// Plans everything once and carries it out. Returns the number of commands that change something.
    pub(crate) fn step(&mut self) -> usize {
        self.now = self
            .now
            .saturating_add(SignedDuration::from_micros(1))
            .expect("in range");
        self.watch_pods();
        let Some(set) = self.set() else {
            let indices = self.replica_indices(0);
            return indices
                .into_iter()
                .map(|index| self.carry_out_plan(&plan_abandoned(&self.snapshot(index)).stages))
                .sum();
        };
        let settings = self.settings.clone();
        let mut context = SetContext::new(&set, &settings, None);
        context.claim_templates = self.claim_templates.clone();
        let revisions: Vec<_> = self
            .of_kind("ControllerRevision")
            .map(|object| Arc::new(serde_json::from_value(object.clone()).expect("a revision")))
            .collect();
        context.adopted_hash = adopted_hash(&context, &revisions);
        self.deadline = None;
        let mut changes = 0;
        let mut summaries: BTreeMap<u32, ReplicaSummary> = BTreeMap::new();
        for index in self.replica_indices(u32::try_from(set.spec.replicas).unwrap_or(0)) {
            let snapshot = self.snapshot(index);
            let plan = plan_replica(&context, &snapshot, self.now);
            assert_eq!(
                plan,
                plan_replica(&context, &snapshot, self.now),
                "planning twice gives the same"
            );
            let floors = self.serving();
            changes += self.carry_out_plan(&plan.stages);
            self.check_floors(&floors, &plan.stages);
            self.deadline = self.deadline.into_iter().chain(plan.deadline).min();
            summaries.insert(index, plan.summary);
        }
        let find = |kind: &str| self.of_kind(kind).next().cloned().map(Arc::new);
        let snapshot = SetSnapshot {
            replicas: summaries,
            role: find("Role"),
            role_binding: find("RoleBinding"),
            revisions,
            claims: by_name(
                self.of_kind("ResourceClaim")
                    .filter(|claim| gang_index(claim).is_none()),
            ),
            existing: BTreeSet::new(),
            failures: Vec::new(),
        };
        let plan = plan_set(&context, &snapshot, self.now);
        assert_eq!(
            plan,
            plan_set(&context, &snapshot, self.now),
            "planning twice gives the same"
        );
        changes += self.carry_out_plan(&plan.stages);
        self.check_objects();
        changes
    }

    /// Plans, and lets kubelets and a scheduler work, until nothing happens any more.
    pub(crate) fn settle(&mut self) {
        for round in 0.. {
            let planned = self.step();
            let moved = self.kubelets() | self.collect_garbage();
            if planned == 0 && !moved {
                self.check_ended();
                return;
            }
            assert!(round < 500, "does not settle; last writes: {:?}", self.writes);
        }
    }

    /// When the planners want to be called again although nothing happens.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.deadline
    }

    /// As [`Self::settle`], for a set that asks for more replicas than can be looked at: only those that exist are.
    pub(crate) fn settle_existing(&mut self) {
        self.only_existing = true;
        self.settle();
        self.only_existing = false;
    }

    /// Gives pods nodes, makes them ready, and removes those that were deleted. One step of each pod at a time.
    pub(crate) fn kubelets(&mut self) -> bool {
        let mut moved = false;
        let used = self
            .pods()
            .iter()
            .filter(|pod| pod["spec"]["nodeName"].is_string() && pod["status"]["phase"] != "Failed")
            .count();
        let mut room = self
            .capacity
            .map_or(usize::MAX, |capacity| capacity.saturating_sub(used));
        for key in self
            .objects
            .keys()
            .filter(|(kind, _)| kind == "Pod")
            .cloned()
            .collect::<Vec<_>>()
        {
            let pod = self.objects.get_mut(&key).expect("listed");
            if pod["metadata"]["deletionTimestamp"].is_string() {
                self.objects.remove(&key);
                moved = true;
                continue;
            }
            let gated = pod["spec"]["schedulingGates"]
                .as_array()
                .is_some_and(|gates| !gates.is_empty());
            let ended = pod["status"]["phase"] == "Failed";
            if !pod["spec"]["nodeName"].is_string() {
                if !gated && room > 0 {
                    room -= 1;
                    pod["spec"]["nodeName"] = "node".into();
                    moved = true;
                } else {
                    continue;
                }
            } else if pod["status"]["ready"] != true && pod["status"]["stuck"] != true && !ended && !self.loading {
                pod["status"]["ready"] = true.into();
                moved = true;
            } else {
                continue;
            }
            self.version += 1;
            let pod = self.objects.get_mut(&key).expect("still there");
            pod["metadata"]["resourceVersion"] = self.version.to_string().into();
        }
        moved
    }

    pub(crate) fn of_kind<'a>(&'a self, kind: &'a str) -> impl Iterator<Item = &'a Value> {
        self.objects
            .iter()
            .filter(move |((of, _), _)| of == kind)
            .map(|(_, object)| object)
    }

    pub(crate) fn set(&self) -> Option<PodCliqueSet> {
        let object = self.of_kind("PodCliqueSet").next()?;
        Some(serde_json::from_value(object.clone()).expect("a set"))
    }

    fn replica_indices(&self, wanted: u32) -> BTreeSet<u32> {
        let wanted = 0..if self.only_existing { 0 } else { wanted };
        let existing = self.objects.values().filter_map(|object| {
            object["metadata"]["labels"][labels::SET_REPLICA_INDEX]
                .as_str()?
                .parse()
                .ok()
        });
        wanted.chain(existing).collect()
    }

    pub(crate) fn snapshot(&self, index: u32) -> ReplicaSnapshot {
        let mine = |object: &&Value| {
            let labelled = object["metadata"]["labels"][labels::SET_REPLICA_INDEX].as_str() == Some(&index.to_string());
            // Gangs and autoscalers carry no index label; their owner and name say where they belong.
            labelled
                || object["kind"] == "PodGang" && gang_index(object) == Some(index)
                || object["kind"] == "HorizontalPodAutoscaler"
                    && object["metadata"]["name"]
                        .as_str()
                        .is_some_and(|name| name.split('-').nth(1) == Some(&index.to_string()))
        };
        fn typed<T: serde::de::DeserializeOwned>(object: &Value) -> (String, Arc<T>) {
            let name = object["metadata"]["name"].as_str().expect("a name").to_owned();
            (
                name,
                Arc::new(serde_json::from_value(object.clone()).expect("the right shape")),
            )
        }
        ReplicaSnapshot {
            index,
            cliques: self.of_kind("PodClique").filter(mine).map(typed).collect(),
            groups: self.of_kind("PodCliqueScalingGroup").filter(mine).map(typed).collect(),
            gangs: self.of_kind("PodGang").filter(mine).map(typed).collect(),
            map: self
                .of_kind("PodGangMap")
                .filter(mine)
                .map(typed)
                .map(|(_, map)| map)
                .next(),
            services: self.of_kind("Service").filter(mine).map(typed).collect(),
            autoscalers: self
                .of_kind("HorizontalPodAutoscaler")
                .filter(mine)
                .map(typed)
                .collect(),
            domains: by_name(self.of_kind("ComputeDomain").filter(mine)),
            // Claims are found like gangs: by the set's label and the index in the name.
            claims: by_name(
                self.of_kind("ResourceClaim")
                    .filter(|claim| gang_index(claim) == Some(index)),
            ),
            pod_groups: self
                .of_kind("PodGroup")
                .filter(mine)
                .map(|group| {
                    let version = group["apiVersion"].as_str();
                    let mut kinds = Kind::ALL.iter().copied().filter(|kind| kind.as_str() == "PodGroup");
                    let kind = kinds.find(|kind| Some(kind.api_version()) == version);
                    let kind = kind.expect("a PodGroup of a scheduler");
                    let name = group["metadata"]["name"].as_str().expect("a name").to_owned();
                    ((kind, name), Arc::new(group.clone()))
                })
                .collect(),
            failures: Vec::new(),
            departed: self
                .departed
                .iter()
                .filter(|(of, _)| *of == index)
                .map(|(_, pod)| pod.clone())
                .collect(),
            pods: self
                .of_kind("Pod")
                .filter(mine)
                .filter(|pod| !self.hidden.contains(pod["metadata"]["name"].as_str().expect("a name")))
                .map(|pod| {
                    let facts = pod_facts(pod);
                    (facts.name.clone(), Arc::new(facts))
                })
                .collect(),
        }
    }
}

fn by_name<'a>(objects: impl Iterator<Item = &'a Value>) -> BTreeMap<String, Arc<Value>> {
    let name = |object: &Value| object["metadata"]["name"].as_str().expect("a name").to_owned();
    objects.map(|object| (name(object), Arc::new(object.clone()))).collect()
}

fn gang_index(gang: &Value) -> Option<u32> {
    let set = gang["metadata"]["labels"][labels::PART_OF].as_str()?;
    let rest = gang["metadata"]["name"]
        .as_str()?
        .strip_prefix(set)?
        .strip_prefix('-')?;
    rest.split('-').next()?.parse().ok()
}

fn kept(all: &Value, keys: &[&str]) -> BTreeMap<String, String> {
    let value = |key: &&str| Some(((*key).to_owned(), all[*key].as_str()?.to_owned()));
    keys.iter().filter_map(value).collect()
}

fn pod_facts(pod: &Value) -> PodFacts {
    let text = |pointer: &str| {
        pod.pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let label = |key: &str| pod["metadata"]["labels"][key].as_str().unwrap_or_default().to_owned();
    let ready = pod["status"]["ready"] == true;
    let created: Timestamp = text("/metadata/creationTimestamp").parse().expect("a time");
    PodFacts {
        name: text("/metadata/name"),
        namespace: text("/metadata/namespace"),
        uid: text("/metadata/uid"),
        resource_version: text("/metadata/resourceVersion"),
        owner_uid: text("/metadata/ownerReferences/0/uid"),
        clique: label(labels::POD_CLIQUE),
        index: label(labels::POD_INDEX).parse().ok(),
        membership: Membership {
            gang: label(labels::POD_GANG),
            has_base_gang: pod["metadata"]["labels"][labels::BASE_POD_GANG].is_string(),
            stamp: Stamp {
                labels: kept(&pod["metadata"]["labels"], &STAMP_LABELS),
                annotations: kept(&pod["metadata"]["annotations"], &STAMP_ANNOTATIONS),
                scheduling_group: None,
            },
            group_index: label(labels::SCALING_GROUP_POD_INDEX).parse().ok(),
        },
        template_hash: label(labels::POD_TEMPLATE_HASH),
        created,
        deleting: pod["metadata"]["deletionTimestamp"].is_string(),
        ended: (pod["status"]["phase"] == "Failed").then(|| {
            let ended = pod["status"]["ended"].as_str();
            ended.map_or(created, |text| text.parse().expect("a time"))
        }),
        scheduled: pod["spec"]["nodeName"].is_string(),
        gated: pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| {
            gates
                .iter()
                .any(|gate| gate["name"] == "grove.io/podgang-pending-creation")
        }),
        other_gates: Vec::new(),
        ready,
        failing: pod["status"]["stuck"] == true,
    }
}

pub(crate) fn kind_name(kind: Kind) -> &'static str {
    kind.as_str()
}

fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().expect("an object").remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}
