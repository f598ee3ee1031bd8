//! Carries out what planners want done.
//!
//! Every answer is folded into the cache before the next plan. A write that is refused holds back what depends on it, and
//! nothing else. A create that meets an object of ours is a success: its
//! answer was lost. One that meets somebody else's is an error that names the object.

use std::sync::Arc;

use coppice_api::names::labels;
use coppice_api::types::{ClusterTopologyBinding, PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang, PodGangMap};
use coppice_core::command::{Command, Kind, Target, Urgency};
use coppice_core::conditions::ConditionType;
use coppice_core::object::NewObject;
use coppice_core::report;
use coppice_runtime::cache::Kind as CachedKind;
use coppice_runtime::cache::{Meta, ObjectKey, PodView, Projection, Version};
use coppice_runtime::events::{EventKind, ObjectReference, Recorder};
use coppice_runtime::write::{DeleteOptions, OwnPart, Patch, Precondition, WriteError, Writer};
use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::world::World;

/// Carries out commands.
#[derive(Clone)]
pub struct Actions {
    world: World,
    writer: Writer,
    /// For what goes before everything else that waits.
    ahead: Writer,
    recorder: Recorder,
}

/// What became of commands.
#[derive(Debug, Default)]
pub struct Report {
    /// Carried out.
    pub done: Vec<Command>,
    /// Refused by the API server; trying them again at once is of no use.
    pub refused: Vec<(Command, WriteError)>,
    /// Why the work ended early.
    pub stopped: Option<WriteError>,
}

impl Report {
    /// Whether a command of a later stage must wait because of what was refused before: what depends on it does, and
    /// statuses wait for the next plan, which knows of the refusals. A mark that was refused holds back everything that
    /// it announces.
    fn blocks(&self, command: &Command) -> bool {
        self.refused.iter().any(|(refused, _)| {
            matches!(refused, Command::Status { .. })
                || matches!(command, Command::Status { .. })
                || report::depends_on(command, refused)
        })
    }
}

/// Whether the API server said no to the write itself, and would say so again.
fn is_refusal(error: &WriteError) -> bool {
    matches!(
        error,
        WriteError::Invalid { .. }
            | WriteError::Forbidden { .. }
            | WriteError::AlreadyExists(_)
            | WriteError::NotFound(_)
            | WriteError::BadRequest { .. }
    )
}

/// Calls a function with the cached kind of an object.
macro_rules! with_kind {
    ($world:expr, $kind:expr, $cached:ident => $body:expr) => {
        match $kind {
            Kind::PodCliqueSet => {
                let $cached = &$world.sets;
                $body
            }
            Kind::PodCliqueScalingGroup => {
                let $cached = &$world.groups;
                $body
            }
            Kind::PodClique => {
                let $cached = &$world.cliques;
                $body
            }
            Kind::PodGang => {
                let $cached = &$world.gangs;
                $body
            }
            Kind::PodGangMap => {
                let $cached = &$world.gang_maps;
                $body
            }
            Kind::Pod => {
                let $cached = &$world.pods;
                $body
            }
            Kind::Service => {
                let $cached = &$world.services;
                $body
            }
            Kind::HorizontalPodAutoscaler => {
                let $cached = &$world.autoscalers;
                $body
            }
            Kind::Role => {
                let $cached = &$world.roles;
                $body
            }
            Kind::RoleBinding => {
                let $cached = &$world.role_bindings;
                $body
            }
            Kind::ControllerRevision => {
                let $cached = &$world.revisions;
                $body
            }
            Kind::ComputeDomain => {
                let $cached = &$world.domains;
                $body
            }
            Kind::ClusterTopologyBinding => {
                let $cached = &$world.topologies;
                $body
            }
            Kind::KaiTopology => {
                let $cached = &$world.kai_topologies;
                $body
            }
            Kind::KaiPodGroup => {
                let $cached = &$world.pod_groups.kai;
                $body
            }
            Kind::VolcanoPodGroup => {
                let $cached = &$world.pod_groups.volcano;
                $body
            }
            Kind::NativePodGroup => {
                let $cached = &$world.pod_groups.native;
                $body
            }
            Kind::ResourceClaim => {
                let $cached = &$world.claims;
                $body
            }
        }
    };
}

impl Actions {
    /// Actions on a world.
    pub fn new(world: World, writer: Writer, recorder: Recorder) -> Self {
        Self {
            world,
            ahead: writer.ahead(),
            writer,
            recorder,
        }
    }

    /// Carries out stages in order; the commands of one stage beside each other.
    ///
    /// A write that the API server refuses holds back only what depends on it. Any other error ends the work after its
    /// stage: the world is not as the plan assumed, or cannot be reached, so the rest is left to the next plan.
    pub async fn carry_out(&self, stages: Vec<Vec<Command>>) -> Report {
        let mut report = Report::default();
        for mut stage in stages {
            stage.retain(|command| !report.blocks(command));
            let results = futures::future::join_all(stage.iter().map(|command| self.one(command))).await;
            for (command, result) in stage.into_iter().zip(results) {
                match result {
                    Ok(()) => report.done.push(command),
                    Err(error) if is_refusal(&error) => report.refused.push((command, error)),
                    Err(error) => drop(report.stopped.get_or_insert(error)),
                }
            }
            if report.stopped.is_some() {
                break;
            }
        }
        report
    }

    async fn one(&self, command: &Command) -> Result<(), WriteError> {
        match command {
            Command::Create(object) => self.create(object).await,
            Command::Merge { target, patch } => {
                // What ends an object that is being deleted is not kept behind the beginnings of others.
                let writer = if command.lets_go() { &self.ahead } else { &self.writer };
                with_kind!(self.world, target.kind, kind => {
                    let (key, condition) = known(target);
                    let done = writer.patch(kind, &key, &condition, Patch::Merge(patch.clone())).await.map(drop);
                    self.settled(kind, target, done)
                })
            }
            Command::Status { target, patch, .. } if target.kind == Kind::PodGang => {
                let done = self.gang_status(target, patch).await;
                self.settled(&self.world.gangs, target, done)
            }
            Command::Status { target, patch, urgency } => {
                let writer = if *urgency == Urgency::Now {
                    &self.ahead
                } else {
                    &self.writer
                };
                with_kind!(self.world, target.kind, kind => {
                    let (key, condition) = known(target);
                    let patch = Patch::Merge(json!({"status": patch}));
                    let done = writer.patch_status(kind, &key, &condition, patch).await.map(drop);
                    self.settled(kind, target, done)
                })
            }
            Command::RemoveGate { target, remaining } => {
                let gates: Vec<Value> = remaining.iter().map(|name| json!({"name": name})).collect();
                let gates = if gates.is_empty() {
                    Value::Null
                } else {
                    Value::Array(gates)
                };
                let (key, condition) = known(target);
                let patch = Patch::Merge(json!({"spec": {"schedulingGates": gates}}));
                let done = self
                    .writer
                    .patch(&self.world.pods, &key, &condition, patch)
                    .await
                    .map(drop);
                self.settled(&self.world.pods, target, done)
            }
            Command::Delete { target } => {
                with_kind!(self.world, target.kind, kind => {
                    let done = self.writer.delete(kind, &meta(target), DeleteOptions::default()).await;
                    self.settled(kind, target, done)
                })
            }
            Command::Confirm { target, names } => self.confirm_gone(target, names).await,
            event @ Command::Event { .. } => {
                self.tell(event);
                Ok(())
            }
        }
    }

    /// Reads pods of a clique that seem to be gone. One that exists is in the cache afterwards, and ends the work: the plan
    /// was made without it.
    async fn confirm_gone(&self, clique: &Target, names: &[String]) -> Result<(), WriteError> {
        let read = names.iter().map(|name| async move {
            let key = ObjectKey::new(clique.namespace.as_str(), name.as_str());
            match self.writer.read(&self.world.pods, &key).await {
                Ok(pod) if pod.controller_uid().as_deref() == Some(clique.uid.as_str()) => Err(WriteError::Conflict(
                    format!("pod {name} exists and was not visible yet"),
                )),
                Ok(_) | Err(WriteError::NotFound(_)) => Ok(()),
                Err(error) => Err(error),
            }
        });
        let results = futures::future::join_all(read).await;
        results.into_iter().collect()
    }

    /// Records an event; any other command is none of its business.
    pub fn tell(&self, command: &Command) {
        if let Command::Event {
            target,
            warning,
            reason,
            message,
        } = command
        {
            let kind = if *warning {
                EventKind::Warning
            } else {
                EventKind::Normal
            };
            self.recorder.record(&reference(target), kind, reason.as_str(), message);
        }
    }

    async fn create(&self, object: &NewObject) -> Result<(), WriteError> {
        let (namespace, name) = (object.metadata.namespace.as_str(), object.metadata.name.as_str());
        let wanted = object.owner.as_ref().map(|owner| owner.uid.as_str());
        with_kind!(self.world, object.kind, cached => {
            match self.writer.create(cached, object.namespace(), object).await {
                Err(WriteError::AlreadyExists(message)) => {
                    let found = self.writer.read(cached, &ObjectKey::new(namespace, name)).await?;
                    if found.controller_uid().as_deref() == wanted {
                        return Ok(());
                    }
                    let set = object.label(labels::PART_OF).unwrap_or_default();
                    Err(WriteError::AlreadyExists(format!(
                        "{message}; it belongs to something else: delete or rename it, or rename the PodCliqueSet {set}"
                    )))
                }
                result => result.map(drop),
            }
        })
    }

    /// Writes our part of a gang's status: its scheduler writes another part at the same time.
    async fn gang_status(&self, target: &Target, patch: &Value) -> Result<(), WriteError> {
        let known = meta(target);
        let read = self.world.gangs.latest(&known.key);
        let read = read.filter(|gang| gang.metadata.uid.as_deref() == Some(target.uid.as_str()));
        let Some((gang, current)) = read.and_then(|gang| Meta::of(&*gang).map(|meta| (gang, meta))) else {
            return Err(WriteError::NotFound(format!("PodGang {}", known.key)));
        };
        let status = gang.status.as_ref().map(|status| json!(status));
        let ours = |kind: &str| ConditionType::ALL.iter().any(|known| known.as_str() == kind);
        let part = OwnPart::of(status.as_ref(), patch, ours);
        if part.operations.is_empty() {
            return Ok(());
        }
        // The first status is ours, whatever version the gang has since its scheduler stored a plan on it: should the scheduler
        // have reported first, it finds its condition missing and reports again.
        let condition = Precondition::uid(&current);
        let patch = Patch::Json(part.operations);
        let done = self
            .writer
            .patch_status(&self.world.gangs, &known.key, &condition, patch);
        done.await.map(drop)
    }

    /// An object that is gone is folded in as gone: the watch may not have told us yet.
    #[expect(clippy::unused_self, reason = "reads as a step of the action")]
    fn settled<P: Projection>(
        &self,
        kind: &CachedKind<P>,
        target: &Target,
        result: Result<(), WriteError>,
    ) -> Result<(), WriteError> {
        match result {
            Err(WriteError::NotFound(_)) => {
                let gone = RawValue::from_string("{\"kind\":\"Status\"}".to_owned()).expect("valid JSON");
                kind.fold_delete(&meta(target), &gone)
                    .map_err(|error| WriteError::OutcomeUnknown(error.to_string()))
            }
            other => other,
        }
    }
}

/// Who controls an object, whatever view the cache keeps of it.
trait Controlled {
    fn controller_uid(&self) -> Option<String>;
}

impl Controlled for Value {
    fn controller_uid(&self) -> Option<String> {
        let owners = self["metadata"]["ownerReferences"].as_array()?;
        let controller = owners.iter().find(|owner| owner["controller"] == true)?;
        controller["uid"].as_str().map(str::to_owned)
    }
}

impl Controlled for PodView {
    fn controller_uid(&self) -> Option<String> {
        self.controller_uid.as_deref().map(str::to_owned)
    }
}

macro_rules! controlled {
    ($($kind:ty),+) => {$(
        impl Controlled for $kind {
            fn controller_uid(&self) -> Option<String> {
                let references = self.metadata.owner_references.as_deref().unwrap_or_default();
                references.iter().find(|reference| reference.controller == Some(true)).map(|reference| reference.uid.clone())
            }
        }
    )+};
}

controlled!(
    ClusterTopologyBinding,
    PodCliqueSet,
    PodClique,
    PodCliqueScalingGroup,
    PodGang,
    PodGangMap,
    ControllerRevision
);

fn meta(target: &Target) -> Meta {
    Meta {
        key: ObjectKey::new(target.namespace.as_str(), target.name.as_str()),
        uid: Arc::from(target.uid.as_str()),
        version: Version::parse(&target.resource_version).unwrap_or_default(),
    }
}

fn known(target: &Target) -> (ObjectKey, Precondition) {
    let meta = meta(target);
    let condition = if target.resource_version.is_empty() {
        Precondition::uid(&meta)
    } else {
        Precondition::version(&meta)
    };
    (meta.key, condition)
}

fn reference(target: &Target) -> ObjectReference {
    ObjectReference {
        api_version: target.kind.api_version().to_owned(),
        kind: target.kind.as_str().to_owned(),
        namespace: Some(target.namespace.clone()).filter(|namespace| !namespace.is_empty()),
        name: target.name.clone(),
        uid: target.uid.clone(),
    }
}
