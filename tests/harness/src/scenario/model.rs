//! A scenario after parsing and checking: everything the runner needs, and nothing that could still be wrong about the
//! file. Plain data.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use coppice_cluster::profile::NodeProfile;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::expectation::Expectation;
use super::matcher::Matcher;
use super::never::Never;
use super::operator::OperatorNeeds;
use super::path::FieldPath;
use super::target::{KindName, Target};

/// A whole scenario.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The file it was read from.
    pub file: PathBuf,
    /// Its name.
    pub name: String,
    /// What it shows.
    pub description: String,
    /// The control planes it is meant for.
    pub runs_on: BTreeSet<Place>,
    /// What it needs to run.
    pub cluster: ClusterNeeds,
    /// Applied before the first step.
    pub manifests: Vec<Value>,
    /// What must not happen.
    pub never: Vec<Never>,
    /// What is done and expected, in order.
    pub steps: Vec<Step>,
}

/// A kind of control plane.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Place {
    /// kube-apiserver and etcd.
    Real,
    /// The embedded control plane.
    Embedded,
}

/// What a scenario needs beside an API server.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase", default)]
pub struct ClusterNeeds {
    /// Simulated nodes.
    pub nodes: Option<NodeGroup>,
    /// The controllers of Kubernetes itself.
    pub controller_manager: bool,
    /// A scheduler for pods that ask for `default-scheduler`.
    pub scheduler: bool,
    /// The gang scheduler under test, for pods that ask for `coppice`.
    pub gang_scheduler: bool,
    /// The operator under test.
    #[serde(deserialize_with = "super::operator::needs")]
    pub operator: Option<OperatorNeeds>,
}

/// Simulated nodes of one profile.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct NodeGroup {
    /// What each node looks like.
    #[serde(deserialize_with = "profile")]
    pub profile: NodeProfile,
    /// How many.
    pub count: u32,
}

fn profile<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NodeProfile, D::Error> {
    String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
}

/// One step: something is done, then something is expected.
#[derive(Debug, Clone)]
pub struct Step {
    /// Where in the file it stands.
    pub line: u64,
    /// Its name, or words made from what it does.
    pub name: String,
    /// What is done.
    pub action: Action,
    /// The refusal that the action must meet.
    pub fails: Option<Refusal>,
    /// What must become true.
    pub expect: Vec<Expectation>,
    /// The time for action and expectations together.
    pub within: Duration,
    /// How long the expectations have to stay true.
    pub holds_for: Option<Duration>,
}

/// The API server is to refuse an action.
#[derive(Debug, Clone, PartialEq)]
pub struct Refusal {
    /// The HTTP status code.
    pub code: Option<u16>,
    /// About the reason, such as `Invalid`.
    pub reason: Option<Matcher>,
    /// About the message.
    pub message: Option<Matcher>,
}

/// What a step does.
#[derive(Debug, Clone)]
pub enum Action {
    /// Server-side apply of manifests.
    Apply(Vec<Value>),
    /// Creation of manifests.
    Create(Vec<Value>),
    /// A patch of each object.
    Patch {
        /// The objects.
        objects: Objects,
        /// The kind of patch.
        kind: PatchKind,
        /// A subresource, such as `status`.
        subresource: Option<String>,
        /// The patch.
        patch: Value,
    },
    /// Reads, changes and writes each object, on condition that nobody else wrote in between.
    Edit {
        /// The objects.
        objects: Objects,
        /// Values to put in place.
        set: BTreeMap<FieldPath, Value>,
        /// Fields to take away.
        remove: Vec<FieldPath>,
    },
    /// A new number of replicas, through the scale subresource.
    Scale {
        /// The objects.
        objects: Objects,
        /// How many.
        replicas: u32,
    },
    /// Deletion of each object.
    Delete {
        /// The objects.
        objects: Objects,
        /// What happens to dependants.
        propagation: Option<Propagation>,
        /// The grace period.
        grace_period_seconds: Option<u32>,
    },
    /// Nodes take no new pods.
    Cordon(Objects),
    /// Nodes take pods again.
    Uncordon(Objects),
    /// Nodes take no new pods and lose those they have, through the eviction API.
    Drain(Objects),
    /// Simulated nodes lose power.
    KillNode(Objects),
    /// Simulated nodes get their power back.
    RestoreNode(Objects),
    /// Pods vanish without a grace period.
    KillPod(Objects),
    /// Simulated kubelets treat pods in another way.
    PodBehaviour {
        /// The pods.
        objects: Objects,
        /// Annotations to set, or to remove.
        annotations: BTreeMap<String, Option<String>>,
    },
    /// The UIDs of objects are noted under a name.
    Remember {
        /// The name.
        name: String,
        /// The objects.
        target: Target,
    },
    /// The operator is stopped without farewell and started again.
    RestartOperator,
    /// The gang scheduler is stopped without farewell and started again.
    RestartScheduler,
    /// The gang scheduler dies once it has bound so many more pods.
    KillScheduler {
        /// How many.
        after_bindings: u32,
    },
    /// The API server is killed.
    KillApiServer,
    /// The API server is started again.
    RestartApiServer,
    /// Nothing is done; optionally waits until no object changes for a while.
    Wait {
        /// The length of the quiet time.
        quiet_for: Option<Duration>,
    },
}

/// The objects an action is about.
#[derive(Debug, Clone, PartialEq)]
pub struct Objects {
    /// Which.
    pub target: Target,
    /// Only the first so many, in the order of names.
    pub count: Option<usize>,
}

/// Kinds of patches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "camelCase")]
pub enum PatchKind {
    /// RFC 7396.
    #[default]
    Merge,
    /// The merge that knows the lists of built-in kinds.
    Strategic,
    /// RFC 6902.
    Json,
}

/// What happens to the dependants of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Propagation {
    /// They are deleted afterwards.
    Background,
    /// They are deleted first.
    Foreground,
    /// They stay.
    Orphan,
}

impl Scenario {
    /// Whether the API server is killed or restarted, which others on the same control plane would notice.
    pub fn disturbs_api_server(&self) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(step.action, Action::KillApiServer | Action::RestartApiServer))
    }

    /// Whether the operator is restarted.
    pub fn restarts_operator(&self) -> bool {
        self.steps
            .iter()
            .any(|step| matches!(step.action, Action::RestartOperator))
    }

    /// The operator that the scenario needs; one that is restarted is needed.
    pub fn operator(&self) -> Option<OperatorNeeds> {
        let needs = self.cluster.operator;
        needs.or_else(|| self.restarts_operator().then(OperatorNeeds::default))
    }

    /// Whether the gang scheduler takes part.
    pub fn uses_gang_scheduler(&self) -> bool {
        let about = |step: &Step| matches!(step.action, Action::RestartScheduler | Action::KillScheduler { .. });
        self.cluster.gang_scheduler || self.steps.iter().any(about)
    }

    /// Every kind the scenario speaks of, with the namespace where it looks for it, if not its own. Pods, nodes and
    /// events are always among them: they tell what happened.
    pub fn kinds(&self) -> BTreeSet<(KindName, Option<String>)> {
        let mut kinds: BTreeSet<(KindName, Option<String>)> =
            ["Event", "Node", "Pod"].map(|kind| (KindName::core(kind), None)).into();
        kinds.extend(self.manifests.iter().filter_map(manifest_kind));
        kinds.extend(self.never.iter().map(|never| target_kind(never.what.target())));
        for step in &self.steps {
            kinds.extend(step.expect.iter().map(|expectation| target_kind(&expectation.target)));
            kinds.extend(step.action.kinds().into_iter().map(|kind| (kind, None)));
            match &step.action {
                Action::Apply(manifests) | Action::Create(manifests) => {
                    kinds.extend(manifests.iter().filter_map(manifest_kind));
                }
                action => kinds.extend(action.objects().map(|objects| target_kind(&objects.target))),
            }
        }
        kinds
    }
}

impl Action {
    /// The kinds that the action reads or writes.
    pub fn kinds(&self) -> Vec<KindName> {
        match self {
            Self::Apply(manifests) | Self::Create(manifests) => manifests
                .iter()
                .filter_map(manifest_kind)
                .map(|(kind, _)| kind)
                .collect(),
            Self::Drain(_) => ["Node", "Pod"].map(KindName::core).into(),
            Self::Remember { target, .. } => vec![target.kind.clone()],
            action => action
                .objects()
                .map(|objects| objects.target.kind.clone())
                .into_iter()
                .collect(),
        }
    }

    /// The existing objects the action is about.
    pub fn objects(&self) -> Option<&Objects> {
        match self {
            Self::Patch { objects, .. }
            | Self::Edit { objects, .. }
            | Self::Scale { objects, .. }
            | Self::Delete { objects, .. }
            | Self::PodBehaviour { objects, .. }
            | Self::Cordon(objects)
            | Self::Uncordon(objects)
            | Self::Drain(objects)
            | Self::KillNode(objects)
            | Self::RestoreNode(objects)
            | Self::KillPod(objects) => Some(objects),
            Self::Apply(_)
            | Self::Create(_)
            | Self::Remember { .. }
            | Self::RestartOperator
            | Self::RestartScheduler
            | Self::KillScheduler { .. }
            | Self::KillApiServer
            | Self::RestartApiServer
            | Self::Wait { .. } => None,
        }
    }
}

fn target_kind(target: &Target) -> (KindName, Option<String>) {
    (target.kind.clone(), target.namespace.clone())
}

fn manifest_kind(manifest: &Value) -> Option<(KindName, Option<String>)> {
    let kind: KindName = manifest.get("kind")?.as_str()?.parse().ok()?;
    let namespace = manifest
        .pointer("/metadata/namespace")
        .and_then(Value::as_str)
        .filter(|namespace| *namespace != "${namespace}");
    Some((
        kind.with_api_version(manifest.get("apiVersion")?.as_str()?),
        namespace.map(str::to_owned),
    ))
}
