//! Carries out an update on an embedded cluster and writes down how it goes.
//!
//! The operator itself decides every step, on one replica: replicas are alike and are updated one after another. Pod
//! specifications are reduced to the identity of their templates, so that nothing in them (images, claims, node selectors)
//! can keep a simulated pod from starting; whether an update happens, and in which order, depends on identities and sizes
//! alone. Pods start and stop at once here, so the rehearsal tells the order and the floor, not how long it takes.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use coppice_api::names::parsing::parse_index;
use coppice_api::names::{CliqueIdentity, labels};
use coppice_api::types::PodCliqueSet;
use coppice_cluster::behaviour::PodBehaviour;
use coppice_cluster::profile::NodeProfile;
use futures::{StreamExt as _, pin_mut};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::runtime::{WatchStreamExt as _, watcher};
use kube::{Client, ResourceExt as _};
use serde_json::{Map, Value, json};

use crate::embedded::{Embedded, EmbeddedOptions};
use crate::view::plan::changes::{Sizes, template_view};
use crate::view::plan::{Floor, Rehearsal, Step};
use crate::view::pod_state::{self, PodState};

/// An update of a few hundred pods takes seconds; one that takes this long is stuck.
const PATIENCE: Duration = Duration::from_secs(120);
const NAMESPACE: &str = "default";
const PODS_PER_NODE: i64 = 50;

/// Rehearses the update from one set to another.
pub(super) async fn rehearse(current: &PodCliqueSet, wanted: &PodCliqueSet, sizes: &Sizes) -> Result<Rehearsal> {
    let pods: i64 = current
        .spec
        .template
        .cliques
        .iter()
        .map(|clique| sizes.pods(current, 0, clique))
        .sum();
    let embedded = Embedded::start(EmbeddedOptions {
        profile: NodeProfile::Small,
        nodes: u32::try_from(2 + pods / PODS_PER_NODE).unwrap_or(u32::MAX),
        listen: None,
        kubeconfig: None,
        behaviour: PodBehaviour::default(),
    })
    .await
    .context("starting the embedded cluster of the rehearsal")?;
    let running = run(&embedded.client, current, wanted, sizes);
    let result = tokio::time::timeout(PATIENCE, running).await;
    embedded.stop().await;
    result.with_context(|| format!("the rehearsal did not end within {PATIENCE:?}; --no-rehearsal leaves it out"))?
}

async fn run(client: &Client, current: &PodCliqueSet, wanted: &PodCliqueSet, sizes: &Sizes) -> Result<Rehearsal> {
    let sets: Api<PodCliqueSet> = Api::namespaced(client.clone(), NAMESPACE);
    let name = current.name_any();
    let before = reduced(current, sizes, current)?;
    let after = reduced(wanted, sizes, current)?;
    sets.create(&PostParams::default(), &before)
        .await
        .context("creating the set of the rehearsal")?;
    until(&sets, &name, |set| generation_seen(set) && is_ready(set)).await?;

    let pods: Api<Pod> = Api::namespaced(client.clone(), NAMESPACE);
    let mut record = Record::new(&before);
    let watched = watcher(pods, watcher::Config::default()).default_backoff();
    pin_mut!(watched);
    // The first listing is the state before the update.
    while let Some(event) = watched.next().await {
        let event = event?;
        let listed = matches!(event, watcher::Event::InitDone);
        record.see(event);
        if listed {
            break;
        }
    }
    record.begin();
    let patch = json!({"spec": after.spec});
    sets.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    let ended = until(&sets, &name, |set| {
        let progress = set.status.as_ref().and_then(|status| status.update_progress.as_ref());
        let ended = progress.is_some_and(|progress| progress.update_ended_at.is_some());
        generation_seen(set) && ended && is_ready(set)
    });
    pin_mut!(ended);
    loop {
        tokio::select! {
            biased;
            Some(event) = watched.next() => record.see(event?),
            result = &mut ended => {
                result?;
                return Ok(record.finish());
            }
        }
    }
}

fn generation_seen(set: &PodCliqueSet) -> bool {
    set.status
        .as_ref()
        .is_some_and(|status| status.observed_generation == set.metadata.generation)
}

fn is_ready(set: &PodCliqueSet) -> bool {
    let conditions = set.status.iter().flat_map(|status| &status.conditions);
    conditions
        .into_iter()
        .any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

async fn until(sets: &Api<PodCliqueSet>, name: &str, holds: impl Fn(&PodCliqueSet) -> bool) -> Result<()> {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let changes = watcher(sets.clone(), config).default_backoff().applied_objects();
    pin_mut!(changes);
    while let Some(set) = changes.next().await {
        if holds(&set?) {
            return Ok(());
        }
    }
    bail!("the watch of the rehearsal ended")
}

/// One replica of a set, with the live sizes, and pods that consist of the identity of their template.
fn reduced(set: &PodCliqueSet, sizes: &Sizes, live: &PodCliqueSet) -> Result<PodCliqueSet> {
    let template = &set.spec.template;
    let name = live.name_any();
    let cliques = template.cliques.iter().map(|clique| {
        let identity = template_view(set, clique).identity().label();
        let pod_spec = json!({"terminationGracePeriodSeconds": 1,
            "containers": [{"name": "main", "image": "rehearsal", "env": [{"name": "TEMPLATE", "value": identity}]}]});
        let grouped = template
            .pod_clique_scaling_groups
            .iter()
            .any(|group| group.clique_names.contains(&clique.name));
        // Members of groups are scaled by copies; the size of a clique of its own is that of its live object.
        let replicas = if grouped {
            i64::from(clique.spec.replicas)
        } else {
            sizes.pods(live, 0, clique)
        };
        json!({"name": clique.name, "spec": {"roleName": clique.spec.role_name, "replicas": replicas,
            "minAvailable": clique.spec.min_available, "startsAfter": clique.spec.starts_after, "podSpec": pod_spec}})
    });
    let groups = template.pod_clique_scaling_groups.iter().map(|group| {
        json!({"name": group.name, "cliqueNames": group.clique_names, "minAvailable": group.min_available,
            "replicas": sizes.copies(&name, 0, &group.name, group.replicas)})
    });
    let object = json!({
        "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": 1, "updateStrategy": set.spec.update_strategy, "template": {
            "cliqueStartupType": template.clique_startup_type, "terminationDelay": "4h",
            "cliques": cliques.collect::<Vec<Value>>(),
            "podCliqueScalingGroups": groups.collect::<Vec<Value>>()}},
    });
    serde_json::from_value(without_nulls(object)).context("reducing the set for the rehearsal")
}

fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(entries) => {
            let kept = entries.into_iter().filter(|(_, value)| !value.is_null());
            Value::Object(
                kept.map(|(key, value)| (key, without_nulls(value)))
                    .collect::<Map<_, _>>(),
            )
        }
        Value::Array(items) => Value::Array(items.into_iter().map(without_nulls).collect()),
        other => other,
    }
}

/// What is counted: a clique of its own, or a group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Unit {
    group: bool,
    name: String,
}

/// A pod as the record sees it.
struct Seen {
    unit: Unit,
    /// The index of the pod, or the copy of the group.
    index: u32,
    ready: bool,
    leaving: bool,
}

/// Follows pods and notes who leaves, and how few are left.
struct Record {
    /// Pods that make up one whole: 1 for cliques, all pods of a copy for groups.
    whole: BTreeMap<Unit, usize>,
    minimum: BTreeMap<Unit, i32>,
    pods: BTreeMap<String, Seen>,
    steps: Vec<Step>,
    lowest: BTreeMap<Unit, usize>,
    desired: BTreeMap<Unit, usize>,
    begun: bool,
}

impl Record {
    fn new(set: &PodCliqueSet) -> Self {
        let (mut whole, mut minimum, mut desired) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let template = &set.spec.template;
        for group in &template.pod_clique_scaling_groups {
            let members = template
                .cliques
                .iter()
                .filter(|clique| group.clique_names.contains(&clique.name));
            let pods: i32 = members.map(|clique| clique.spec.replicas).sum();
            let unit = Unit {
                group: true,
                name: group.name.clone(),
            };
            whole.insert(unit.clone(), usize::try_from(pods).unwrap_or(0));
            desired.insert(unit.clone(), usize::try_from(group.replicas.unwrap_or(1)).unwrap_or(0));
            minimum.insert(unit, group.min_available.unwrap_or(1));
        }
        let grouped = |name: &String| {
            template
                .pod_clique_scaling_groups
                .iter()
                .any(|group| group.clique_names.contains(name))
        };
        for clique in template.cliques.iter().filter(|clique| !grouped(&clique.name)) {
            let unit = Unit {
                group: false,
                name: clique.name.clone(),
            };
            whole.insert(unit.clone(), 1);
            desired.insert(unit.clone(), usize::try_from(clique.spec.replicas).unwrap_or(0));
            minimum.insert(unit, clique.spec.min_available.unwrap_or(clique.spec.replicas));
        }
        Self {
            whole,
            minimum,
            pods: BTreeMap::new(),
            steps: Vec::new(),
            lowest: desired.clone(),
            desired,
            begun: false,
        }
    }

    fn begin(&mut self) {
        self.begun = true;
    }

    fn see(&mut self, event: watcher::Event<Pod>) {
        match event {
            watcher::Event::Apply(pod) | watcher::Event::InitApply(pod) => self.applied(&pod),
            watcher::Event::Delete(pod) => self.gone(&pod),
            watcher::Event::Init | watcher::Event::InitDone => {}
        }
        if self.begun {
            self.measure();
        }
    }

    fn applied(&mut self, pod: &Pod) {
        let Some((unit, index)) = Self::place(pod) else { return };
        let leaving = pod.metadata.deletion_timestamp.is_some();
        let before = self.pods.get(&pod.name_any()).is_some_and(|seen| seen.leaving);
        if leaving && !before {
            self.leaves(&unit, index);
        }
        let ready = pod_state::of(pod).0 == PodState::Ready;
        self.pods.insert(
            pod.name_any(),
            Seen {
                unit,
                index,
                ready,
                leaving,
            },
        );
    }

    fn gone(&mut self, pod: &Pod) {
        if let Some(seen) = self.pods.remove(&pod.name_any())
            && !seen.leaving
        {
            self.leaves(&seen.unit, seen.index);
        }
    }

    fn leaves(&mut self, unit: &Unit, index: u32) {
        if !self.begun {
            return;
        }
        if let Some(last) = self
            .steps
            .iter_mut()
            .rev()
            .find(|step| step.group == unit.group && step.of == unit.name)
            && unit.group
            && last.index == index
        {
            last.pods += 1;
            return;
        }
        self.steps.push(Step {
            of: unit.name.clone(),
            index,
            group: unit.group,
            pods: 1,
        });
    }

    /// Where a pod belongs, by its labels.
    fn place(pod: &Pod) -> Option<(Unit, u32)> {
        let clique = pod.labels().get(labels::POD_CLIQUE)?;
        let identity = CliqueIdentity::read(clique, pod.labels()).ok()?;
        Some(match identity.scaling_group {
            Some((name, copy)) => (Unit { group: true, name }, copy),
            None => {
                let index = parse_index(pod.labels().get(labels::POD_INDEX)?)?;
                (
                    Unit {
                        group: false,
                        name: identity.clique,
                    },
                    index,
                )
            }
        })
    }

    fn measure(&mut self) {
        let mut wholes: BTreeMap<&Unit, BTreeMap<u32, usize>> = BTreeMap::new();
        for seen in self.pods.values().filter(|seen| seen.ready && !seen.leaving) {
            *wholes.entry(&seen.unit).or_default().entry(seen.index).or_default() += 1;
        }
        for (unit, lowest) in &mut self.lowest {
            let needed = self.whole.get(unit).copied().unwrap_or(1);
            let counts = wholes.get(unit).into_iter().flat_map(BTreeMap::values);
            *lowest = (*lowest).min(counts.filter(|count| **count >= needed).count());
        }
    }

    fn finish(self) -> Rehearsal {
        let floors = self.lowest.iter().map(|(unit, lowest)| Floor {
            of: unit.name.clone(),
            group: unit.group,
            lowest: *lowest,
            desired: self.desired.get(unit).copied().unwrap_or(0),
            min_available: self.minimum.get(unit).copied().unwrap_or(0),
        });
        Rehearsal {
            floors: floors.collect(),
            steps: self.steps,
        }
    }
}
