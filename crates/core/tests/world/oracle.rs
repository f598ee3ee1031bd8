//! What must hold at every moment, whatever happens.

use std::collections::{BTreeMap, BTreeSet};

use coppice_core::command::{Command, Kind};
use serde_json::Value;

use super::World;

/// What serves: ready pods of standalone cliques by name, and available copies of groups by name and index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Serving {
    ready: BTreeMap<String, usize>,
    copies: BTreeMap<String, BTreeSet<u64>>,
    /// Standalone cliques with an update that has not ended.
    updating: BTreeSet<String>,
}

/// Whether an object stays, and runs if it is a pod.
pub(crate) fn live(object: &Value) -> bool {
    !object["metadata"]["deletionTimestamp"].is_string() && object["status"]["phase"] != "Failed"
}

fn number(value: &Value) -> usize {
    value
        .as_u64()
        .and_then(|number| usize::try_from(number).ok())
        .unwrap_or(0)
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object["metadata"]["labels"][key].as_str()
}

/// The budget of a clique or scaling group of the template.
fn budget(template: Option<&Value>) -> usize {
    let budget = template.map_or(&Value::Null, |template| &template["rollingUpdate"]["maxUnavailable"]);
    number(budget).max(1)
}

fn marked(object: &Value) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "GangTerminationInProgress" && condition["status"] == "True")
}

impl World {
    fn ready_pods(&self, clique: &Value) -> usize {
        self.of_kind("Pod")
            .filter(|pod| {
                live(pod)
                    && pod["status"]["ready"] == true
                    && pod["metadata"]["ownerReferences"][0]["uid"] == clique["metadata"]["uid"]
            })
            .count()
    }

    fn minimum(clique: &Value) -> usize {
        number(&clique["spec"]["minAvailable"]).min(number(&clique["spec"]["replicas"]))
    }

    /// What serves now.
    pub(crate) fn serving(&self) -> Serving {
        let mut serving = Serving::default();
        let mut broken: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
        for clique in self.of_kind("PodClique") {
            let name = clique["metadata"]["name"].as_str().expect("a name").to_owned();
            let ready = self.ready_pods(clique);
            match label(clique, "grove.io/podcliquescalinggroup") {
                None => {
                    let progress = &clique["status"]["updateProgress"];
                    if progress.is_object() && !progress["updateEndedAt"].is_string() {
                        serving.updating.insert(name.clone());
                    }
                    serving.ready.insert(name, ready);
                }
                Some(group) => {
                    let copy = label(clique, "grove.io/podcliquescalinggroup-replica-index").expect("an index");
                    let copy: u64 = copy.parse().expect("a number");
                    serving.copies.entry(group.to_owned()).or_default().insert(copy);
                    if !live(clique) || ready < Self::minimum(clique) {
                        broken.entry(group.to_owned()).or_default().insert(copy);
                    }
                }
            }
        }
        for (group, copies) in broken {
            serving
                .copies
                .entry(group)
                .or_default()
                .retain(|copy| !copies.contains(copy));
        }
        serving
    }

    /// What was deleted by our own hand has left enough: all but the budget of an update. And an update that has ended left
    /// every pod ready. What is terminated, was deleted by somebody or is no longer wanted has no floor.
    pub(crate) fn check_floors(&self, before: &Serving, stages: &[Vec<Command>]) {
        let Some(set) = self.set() else { return };
        let set_object = self.of_kind("PodCliqueSet").next().expect("there is one");
        let strategy = &set_object["spec"]["updateStrategy"]["type"];
        // A coherent update ends when every unit was ready once and the floors hold: one that flaps does not hold it up. Its
        // floors are looked at where the map is changed, by the tests of its planner; what follows from the map is deleted
        // although something else broke meanwhile.
        if strategy == "Coherent" {
            return;
        }
        if strategy != "OnDelete" {
            for name in before.updating.difference(&self.serving().updating) {
                let Some(clique) = self.objects.get(&("PodClique".to_owned(), name.clone())) else {
                    continue;
                };
                let (ready, size) = (before.ready[name], number(&clique["spec"]["replicas"]));
                assert!(
                    !live(clique) || ready >= size,
                    "the update of {name} ended with {ready} of {size} pods ready"
                );
            }
        }
        let own_hand = stages
            .iter()
            .flatten()
            .any(|command| matches!(command, Command::Delete { target } if target.kind == Kind::Pod));
        if !own_hand || set.metadata.deletion_timestamp.is_some() {
            return;
        }
        let wanted = |object: &Value| {
            let index =
                label(object, "grove.io/podcliqueset-replica-index").and_then(|index| index.parse::<i32>().ok());
            live(object) && !marked(object) && index.is_some_and(|index| index < set.spec.replicas)
        };
        let after = self.serving();
        for clique in self.of_kind("PodClique").filter(|clique| wanted(clique)) {
            let name = clique["metadata"]["name"].as_str().expect("a name");
            let (Some(had), Some(has)) = (before.ready.get(name), after.ready.get(name)) else {
                continue;
            };
            let size = number(&clique["spec"]["replicas"]);
            let template = set_object["spec"]["template"]["cliques"].as_array();
            let mut templates = template.into_iter().flatten();
            let template = templates.find(|template| template["spec"]["roleName"] == clique["spec"]["roleName"]);
            let floor = size.saturating_sub(budget(template));
            assert!(
                has >= had || *has >= floor,
                "{name} went from {had} to {has} ready pods, its floor is {floor}"
            );
        }
        for group in self.of_kind("PodCliqueScalingGroup").filter(|group| wanted(group)) {
            let name = group["metadata"]["name"].as_str().expect("a name");
            let copies = number(&group["spec"]["replicas"]);
            let count = |serving: &super::oracle::Serving| {
                let all = serving.copies.get(name);
                all.into_iter()
                    .flatten()
                    .filter(|copy| (**copy as usize) < copies)
                    .count()
            };
            let terminated = self.of_kind("PodClique").any(|clique| {
                label(clique, "grove.io/podcliquescalinggroup") == Some(name) && (marked(clique) || !live(clique))
            });
            if terminated {
                continue;
            }
            let (had, has) = (count(before), count(&after));
            let index = label(group, "grove.io/podcliqueset-replica-index").expect("an index");
            let template = set_object["spec"]["template"]["podCliqueScalingGroups"].as_array();
            let mut templates = template.into_iter().flatten();
            let template =
                templates.find(|template| name == format!("wl-{index}-{}", template["name"].as_str().expect("a name")));
            let floor = copies.saturating_sub(budget(template));
            assert!(
                has >= had || has >= floor,
                "{name} went from {had} to {has} available copies, its floor is {floor}"
            );
        }
    }

    /// What a reader takes for "done" is: when a set says that it observed its generation, neither it nor a clique of it
    /// says that all is updated while a pod with another template is left.
    pub(crate) fn check_done(&self) {
        let Some(set) = self.of_kind("PodCliqueSet").next() else {
            return;
        };
        let generation = |object: &Value| object["metadata"]["generation"].as_i64();
        let observed = |object: &Value| object["status"]["observedGeneration"].as_i64();
        if observed(set) != generation(set) || set["metadata"]["deletionTimestamp"].is_string() {
            return;
        }
        let templates = set["spec"]["template"]["cliques"].as_array().expect("cliques");
        let image = |spec: &Value| spec["containers"][0]["image"].clone();
        let mut pods_by_owner: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
        for pod in self.of_kind("Pod").filter(|pod| live(pod)) {
            let owner = pod["metadata"]["ownerReferences"][0]["uid"]
                .as_str()
                .unwrap_or_default();
            pods_by_owner.entry(owner).or_default().push(pod);
        }
        let mut old_anywhere = None;
        for clique in self.of_kind("PodClique").filter(|clique| live(clique)) {
            let index =
                label(clique, "grove.io/podcliqueset-replica-index").and_then(|index| index.parse::<u64>().ok());
            if index >= set["spec"]["replicas"].as_u64() {
                continue;
            }
            let role = &clique["spec"]["roleName"];
            let Some(template) = templates.iter().find(|template| template["spec"]["roleName"] == *role) else {
                continue;
            };
            let wanted = image(&template["spec"]["podSpec"]);
            let owned = pods_by_owner.get(clique["metadata"]["uid"].as_str().unwrap_or_default());
            let old = owned.into_iter().flatten().find(|pod| image(&pod["spec"]) != wanted);
            let Some(old) = old else { continue };
            old_anywhere = Some(old["metadata"]["name"].clone());
            let status = &clique["status"];
            let says = observed(clique) == generation(clique)
                && number(&status["updatedReplicas"]) == number(&clique["spec"]["replicas"])
                && number(&status["replicas"]) == number(&clique["spec"]["replicas"]);
            assert!(
                !says,
                "{} says that it is updated, and pod {} is not",
                clique["metadata"]["name"], old["metadata"]["name"]
            );
        }
        let says = number(&set["status"]["updatedReplicas"]) == number(&set["spec"]["replicas"])
            && number(&set["status"]["replicas"]) > 0;
        assert!(
            !says || old_anywhere.is_none(),
            "the set says that it is updated, and pod {old_anywhere:?} is not"
        );
    }

    /// No two live pods have one index, and no status speaks of an older generation than it did before.
    pub(crate) fn check_objects(&mut self) {
        let mut seats = BTreeSet::new();
        for pod in self.of_kind("Pod").filter(|pod| live(pod)) {
            let seat = (
                label(pod, "grove.io/podclique"),
                label(pod, "grove.io/podclique-pod-index"),
            );
            assert!(seats.insert(seat), "two live pods with one index: {seat:?}");
        }
        let mut observed = Vec::new();
        for object in self.objects.values() {
            if let (Some(uid), Some(generation)) = (
                object["metadata"]["uid"].as_str(),
                object["status"]["observedGeneration"].as_i64(),
            ) {
                let last = self.observed.get(uid).copied().unwrap_or(0);
                let newest = object["metadata"]["generation"].as_i64().unwrap_or(0);
                assert!(
                    (last..=newest).contains(&generation),
                    "{}: observed {generation} after {last}, is at {newest}",
                    object["metadata"]["name"]
                );
                observed.push((uid.to_owned(), generation));
            }
        }
        self.observed.extend(observed);
    }

    /// No clique keeps more pods that ended than the settings allow.
    pub(crate) fn check_ended(&self) {
        let mut kept: BTreeMap<Option<&str>, usize> = BTreeMap::new();
        for pod in self.of_kind("Pod").filter(|pod| pod["status"]["phase"] == "Failed") {
            let kept = kept.entry(label(pod, "grove.io/podclique")).or_default();
            *kept += 1;
            assert!(
                *kept <= self.settings.ended_pods.per_clique,
                "too many ended pods: {pod}"
            );
        }
    }

    /// Deletes what belongs to an owner that is gone, as Kubernetes does. Returns whether there was anything.
    pub(crate) fn collect_garbage(&mut self) -> bool {
        let uids: BTreeSet<String> = self
            .objects
            .values()
            .filter_map(|object| Some(object["metadata"]["uid"].as_str()?.to_owned()))
            .collect();
        let orphans: Vec<(String, String)> = self
            .objects
            .iter()
            .filter(|(_, object)| live(object) || object["status"]["phase"] == "Failed")
            .filter(|(_, object)| !object["metadata"]["deletionTimestamp"].is_string())
            .filter(|(_, object)| {
                let owner = object["metadata"]["ownerReferences"][0]["uid"].as_str();
                owner.is_some_and(|owner| !uids.contains(owner))
            })
            .map(|(key, _)| key.clone())
            .collect();
        for (kind, name) in &orphans {
            self.delete(kind, name);
        }
        !orphans.is_empty()
    }
}
