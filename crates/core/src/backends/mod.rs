//! What other schedulers read instead of PodGangs: one pure mapping for each of them.
//!
//! A [`Backend`] says which object stands for a gang, what its pods carry, how a stored object is corrected, what its
//! scheduler reports, and what of the gang it cannot express. It is chosen by the pods' `schedulerName` and never reads
//! the cluster. A mapping never drops a part of a gang in silence: what is lost is a [`Limit`], which admission refuses
//! or a condition reports.

mod default;
mod kai;
mod limits;
mod native;
mod objects;
mod queues;
mod volcano;

use std::collections::BTreeMap;

use coppice_api::admission::{SchedulerBackend, SchedulerProfile};
use coppice_api::names::{annotations, labels};
use coppice_api::types::{PodGang, PodGangSpec, PodGroup};
use serde_json::Value;

pub use limits::Limit;
pub use queues::{kai_queue, volcano_queue};

use crate::command::Kind;
use crate::facts::SetFacts;
use crate::object::NewObject;
use crate::settings::Settings;

/// The name of Volcano's scheduler.
pub const VOLCANO_SCHEDULER: &str = "volcano";

/// How gangs are expressed for one scheduler.
pub trait Backend: Sync {
    /// The kind of the object that stands for a gang; none where the scheduler reads PodGangs or knows no gangs.
    fn kind(&self) -> Option<Kind>;

    /// The object that stands for a gang, and what of the gang it does not say.
    fn map(&self, gang: &Gang<'_>) -> Mapping;

    /// What the pods of a clique carry, so that the scheduler knows their gang.
    fn stamp(&self, gang: &str, clique: &str) -> Stamp;

    /// Annotations of the PodGang itself.
    fn gang_annotations(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// How a stored object becomes the wanted one. Fields that belong to the scheduler, or to others, are kept.
    fn correct(&self, gang: &Gang<'_>, stored: &Value, wanted: &NewObject) -> Correction;

    /// Why the scheduler has not placed the gang, as the stored object says.
    fn waits_for(&self, stored: &Value) -> Option<String>;
}

/// The back-end of the scheduler with this name. `native` is whether gang scheduling of Kubernetes itself is enabled.
pub fn of_scheduler(name: &str, native: bool) -> &'static dyn Backend {
    match SchedulerProfile::named(name).backend {
        SchedulerBackend::Kai => &kai::Kai,
        SchedulerBackend::Volcano => &volcano::Volcano,
        SchedulerBackend::KubernetesGangs => &native::Native,
        SchedulerBackend::Kubernetes if native => &native::Native,
        SchedulerBackend::Kubernetes | SchedulerBackend::Lpx | SchedulerBackend::Gangs => &default::Nothing,
    }
}

/// The scheduler of a set: that of its first clique which names one; admission makes them agree.
pub fn scheduler_of<'a>(facts: &SetFacts<'a>, settings: &'a Settings) -> &'a str {
    let mut cliques = facts.cliques.iter();
    let named = cliques.find_map(|clique| clique.template.spec.pod_spec.scheduler_name());
    named.unwrap_or(&settings.default_scheduler)
}

/// The back-end of the scheduler of a set.
pub fn of_set(facts: &SetFacts<'_>, settings: &Settings) -> &'static dyn Backend {
    of_scheduler(scheduler_of(facts, settings), settings.native_gangs)
}

/// A PodGang with what is not in it.
#[derive(Clone, Copy, Debug)]
pub struct Gang<'a> {
    /// The PodGang, as it is or will be stored.
    pub object: &'a PodGang,
    /// The set that it belongs to.
    pub facts: &'a SetFacts<'a>,
    /// The topology of the scheduler that its constraints refer to, when it is known.
    pub topology: Option<&'a BackendTopology>,
}

/// A topology, as the scheduler of a set knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendTopology {
    /// The scheduler's own topology object.
    pub name: String,
    /// Node label keys, broadest level first.
    pub keys: Vec<String>,
}

impl BackendTopology {
    /// Whether the level of one key is broader than that of another. Unknown keys are not comparable.
    pub(crate) fn is_broader(&self, one: &str, other: &str) -> bool {
        let level = |key: &str| self.keys.iter().position(|known| known == key);
        matches!((level(one), level(other)), (Some(one), Some(other)) if one < other)
    }
}

/// What the objects of a set's scheduler need to know of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackendContext {
    /// Whether the API server lacks the kind of the objects.
    pub not_served: bool,
    /// The topology that the set refers to, when there is one.
    pub topology: Option<BackendTopology>,
}

/// What becomes of a gang.
#[derive(Clone, Debug, PartialEq)]
pub struct Mapping {
    /// The object that stands for it.
    pub object: Wanted,
    /// What the object does not say of it.
    pub limits: Vec<Limit>,
}

impl Mapping {
    /// No object: the scheduler has no gangs, or the gang has no pods.
    pub(crate) fn nothing() -> Self {
        Self {
            object: Wanted::Nothing,
            limits: Vec::new(),
        }
    }
}

/// The object that stands for a gang.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// This one.
    Object(Box<NewObject>),
    /// None: there is nothing to place, or the scheduler reads no such objects.
    Nothing,
    /// It cannot be written down for now; one that is stored is left as it is.
    Unknown,
}

/// How a stored object becomes the wanted one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Correction {
    /// A JSON merge patch; none when nothing is to be written.
    pub patch: Option<Value>,
    /// What cannot be corrected.
    pub limits: Vec<Limit>,
}

/// What a pod carries for its scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// The native PodGroup in `spec.schedulingGroup`.
    pub scheduling_group: Option<String>,
}

impl Stamp {
    /// Puts it on a pod.
    pub fn put_on(&self, pod: &mut NewObject) {
        pod.metadata.labels.extend(self.labels.clone());
        pod.metadata.annotations.extend(self.annotations.clone());
        if let Some(group) = &self.scheduling_group {
            pod.body.field_mut("spec")["schedulingGroup"] = serde_json::json!({"podGroupName": group});
        }
    }
}

/// Labels by which schedulers know the place of a pod in its gang.
pub const STAMP_LABELS: [&str; 1] = [labels::KAI_SUBGROUP_NAME];

/// Annotations by which schedulers know the gang of a pod.
pub const STAMP_ANNOTATIONS: [&str; 4] = [
    annotations::KAI_SKIP_POD_GROUPER,
    annotations::KAI_POD_GROUP_NAME,
    annotations::VOLCANO_GROUP_NAME,
    annotations::KUBE_BATCH_GROUP_NAME,
];

/// Pod groups of a gang that have something to place. A clique that is scaled to zero keeps its entry in the gang.
fn live_groups(spec: &PodGangSpec) -> impl Iterator<Item = &PodGroup> {
    let live = |group: &&PodGroup| group.min_replicas > 0 || !group.pod_references.is_empty();
    spec.pod_groups.iter().filter(live)
}

/// The sum of the floors of a gang.
fn floor(spec: &PodGangSpec) -> i64 {
    live_groups(spec)
        .map(|group| i64::from(group.min_replicas.max(0)))
        .sum()
}
