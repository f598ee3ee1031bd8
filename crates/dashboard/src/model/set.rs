//! One set: its state, its components with their revisions, its conditions, and its replicas, those with problems first.

use std::collections::BTreeMap;

use coppice_api::names::labels;
use coppice_api::types::PodCliqueSet;
use coppice_view::build::{Objects, cliques_of, set_view};
use coppice_view::plan::changes::template_view;
use coppice_view::pod_state::{self, PodState};
use coppice_view::{ReplicaView, SetView};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt as _;

use super::Shown;

/// Replicas that a page lists.
const REPLICAS: usize = 100;
/// Replicas of which a page shows all parts.
const OPEN: usize = 6;
/// Revisions that are shown of a component.
const REVISIONS: usize = 4;

/// A set.
#[derive(Debug, Clone)]
pub struct SetPage {
    /// State and counts. Its replicas were moved to `replicas`.
    pub view: SetView,
    /// Its generation, and the one that the operator has seen.
    pub generation: (Option<i64>, Option<i64>),
    /// When the last update began and ended.
    pub update: (Option<Timestamp>, Option<Timestamp>),
    /// Its conditions.
    pub conditions: Vec<Condition>,
    /// Its components, in the order of the template.
    pub components: Vec<Component>,
    /// Its replicas, those with problems first.
    pub replicas: Shown<Replica>,
}

/// A replica.
#[derive(Debug, Clone)]
pub struct Replica {
    /// What it consists of.
    pub view: ReplicaView,
    /// Its pods: ready of desired.
    pub pods: (i64, i64),
    /// Whether all that was asked for is ready.
    pub whole: bool,
    /// Whether the page shows its parts.
    pub open: bool,
}

/// A clique over all replicas and copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Component {
    /// Its name in the template.
    pub name: String,
    /// Its group.
    pub group: Option<String>,
    /// Its image.
    pub image: String,
    /// Its pods by revision, the newest first.
    pub revisions: Vec<Revision>,
    /// Pods asked for.
    pub desired: i64,
}

/// Pods of one revision.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    /// The label of the template.
    pub hash: String,
    /// Whether it is that of the set as it is now.
    pub current: bool,
    /// How many pods there are.
    pub pods: i64,
    /// How many of them are ready.
    pub ready: i64,
}

/// The page of a set; `replica` is shown with all its parts.
#[must_use]
pub fn set(set: &PodCliqueSet, objects: &Objects, replica: Option<u32>) -> SetPage {
    let mut view = set_view(set, objects);
    let status = set.status.as_ref();
    let progress = status.and_then(|status| status.update_progress.as_ref());
    let time = |time: &Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| time.as_ref().map(|time| time.0);
    let components = components(set, &view, objects);
    let mut replicas: Vec<Replica> = std::mem::take(&mut view.replicas)
        .into_iter()
        .map(|view| {
            let counts = cliques_of(&view).fold((0, 0), |(ready, desired), clique| {
                (ready + clique.count.ready, desired + clique.count.desired)
            });
            Replica {
                whole: counts.0 >= counts.1 && view.gangs.iter().all(|gang| gang.waiting.is_none()),
                pods: counts,
                open: false,
                view,
            }
        })
        .collect();
    let asked = |candidate: &Replica| replica == Some(candidate.view.index);
    replicas.sort_by_key(|candidate| (!asked(candidate), candidate.whole, candidate.view.index));
    for candidate in replicas.iter_mut().take(OPEN) {
        candidate.open = true;
    }
    SetPage {
        generation: (
            set.metadata.generation,
            status.and_then(|status| status.observed_generation),
        ),
        update: progress.map_or((None, None), |progress| {
            (time(&progress.update_started_at), time(&progress.update_ended_at))
        }),
        conditions: status.map(|status| status.conditions.clone()).unwrap_or_default(),
        components,
        replicas: Shown::first(replicas, REPLICAS),
        view,
    }
}

/// Which pods run which template.
fn components(set: &PodCliqueSet, view: &SetView, objects: &Objects) -> Vec<Component> {
    let mut desired: BTreeMap<&str, i64> = BTreeMap::new();
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    for clique in view.replicas.iter().flat_map(cliques_of) {
        *desired.entry(&clique.name).or_default() += clique.count.desired;
        names.insert(&clique.object, &clique.name);
    }
    /// The youngest pod, all pods, and those that are ready.
    type Counts = (Option<Timestamp>, i64, i64);
    let mut revisions: BTreeMap<&str, BTreeMap<&str, Counts>> = BTreeMap::new();
    for pod in &objects.pods {
        let labels = pod.labels();
        let clique = labels
            .get(labels::POD_CLIQUE)
            .and_then(|object| names.get(object.as_str()));
        let (Some(clique), Some(hash)) = (clique, labels.get(labels::POD_TEMPLATE_HASH)) else {
            continue;
        };
        let state = pod_state::of(pod).0;
        if state == PodState::Terminating {
            continue;
        }
        let born = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
        let entry = revisions.entry(clique).or_default().entry(hash).or_default();
        entry.0 = entry.0.max(born);
        entry.1 += 1;
        entry.2 += i64::from(state == PodState::Ready);
    }
    let groups = &set.spec.template.pod_clique_scaling_groups;
    let cliques = set.spec.template.cliques.iter();
    let described = cliques.map(|clique| {
        let wanted = template_view(set, clique).identity().label();
        let mut found: Vec<(&str, Counts)> = revisions
            .remove(clique.name.as_str())
            .map(|found| found.into_iter().collect())
            .unwrap_or_default();
        found.sort_by_key(|(hash, (born, ..))| (*hash != wanted, std::cmp::Reverse(*born)));
        // Labels that other versions wrote mean the same template: with one of them, it is the current one.
        let alone = found.len() == 1 && view.update.is_none();
        let revisions = found.iter().take(REVISIONS).map(|(hash, (_, pods, ready))| Revision {
            hash: (*hash).to_owned(),
            current: *hash == wanted || alone,
            pods: *pods,
            ready: *ready,
        });
        let containers = clique.spec.pod_spec.as_map().get("containers");
        let first = containers.and_then(|containers| containers.get(0));
        let image = first
            .and_then(|container| container.get("image"))
            .and_then(|image| image.as_str());
        let group = groups.iter().find(|group| group.clique_names.contains(&clique.name));
        Component {
            name: clique.name.clone(),
            group: group.map(|group| group.name.clone()),
            image: image.unwrap_or_default().to_owned(),
            revisions: revisions.collect(),
            desired: desired.get(clique.name.as_str()).copied().unwrap_or(0),
        }
    });
    described.collect()
}
