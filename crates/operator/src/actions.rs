//! Carries out what planners want done.
//!
//! Every answer is folded into the cache before the next plan. A create that meets an object of ours is a success: its
//! answer was lost. One that meets somebody else's is an error that names the object.

use std::sync::Arc;

use coppice_api::names::labels;
use coppice_api::types::{PodClique, PodCliqueScalingGroup, PodCliqueSet, PodGang};
use coppice_core::command::{Command, Kind, Target};
use coppice_runtime::cache::Kind as CachedKind;
use coppice_runtime::cache::{Meta, ObjectKey, PodView, Projection, Version};
use coppice_runtime::events::{EventKind, ObjectReference, Recorder};
use coppice_runtime::write::{DeleteOptions, Patch, Precondition, WriteError, Writer};
use k8s_openapi::api::apps::v1::ControllerRevision;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::world::World;

/// Carries out commands.
#[derive(Clone)]
pub struct Actions {
    world: World,
    writer: Writer,
    recorder: Recorder,
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
        }
    };
}

impl Actions {
    /// Actions on a world.
    pub fn new(world: World, writer: Writer, recorder: Recorder) -> Self {
        Self {
            world,
            writer,
            recorder,
        }
    }

    /// Carries out stages in order; the commands of one stage beside each other. Returns the first error of the first
    /// stage that has one; later stages are then left to the next plan.
    pub async fn carry_out(&self, stages: Vec<Vec<Command>>) -> Result<(), WriteError> {
        for stage in stages {
            let results = futures::future::join_all(stage.into_iter().map(|command| self.one(command))).await;
            results.into_iter().collect::<Result<Vec<()>, WriteError>>()?;
        }
        Ok(())
    }

    async fn one(&self, command: Command) -> Result<(), WriteError> {
        match command {
            Command::Create(object) => self.create(object).await,
            Command::Merge { target, patch } => {
                with_kind!(self.world, target.kind, kind => {
                    let (key, condition) = known(&target);
                    let done = self.writer.patch(kind, &key, &condition, Patch::Merge(patch)).await.map(drop);
                    self.settled(kind, &target, done)
                })
            }
            Command::Status { target, patch, .. } => {
                with_kind!(self.world, target.kind, kind => {
                    let (key, condition) = known(&target);
                    let patch = Patch::Merge(json!({"status": patch}));
                    let done = self.writer.patch_status(kind, &key, &condition, patch).await.map(drop);
                    self.settled(kind, &target, done)
                })
            }
            Command::RemoveGate { target, remaining } => {
                let gates: Vec<Value> = remaining.iter().map(|name| json!({"name": name})).collect();
                let gates = if gates.is_empty() {
                    Value::Null
                } else {
                    Value::Array(gates)
                };
                let (key, condition) = known(&target);
                let patch = Patch::Merge(json!({"spec": {"schedulingGates": gates}}));
                let done = self
                    .writer
                    .patch(&self.world.pods, &key, &condition, patch)
                    .await
                    .map(drop);
                self.settled(&self.world.pods, &target, done)
            }
            Command::Delete { target } => {
                with_kind!(self.world, target.kind, kind => {
                    let done = self.writer.delete(kind, &meta(&target), DeleteOptions::default()).await;
                    self.settled(kind, &target, done)
                })
            }
            Command::Event {
                target,
                warning,
                reason,
                message,
            } => {
                let kind = if warning { EventKind::Warning } else { EventKind::Normal };
                self.recorder.record(&reference(&target), kind, reason, &message);
                Ok(())
            }
        }
    }

    async fn create(&self, object: Value) -> Result<(), WriteError> {
        let namespace = object["metadata"]["namespace"].as_str().unwrap_or_default();
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let wanted = object["metadata"]["ownerReferences"][0]["uid"].as_str();
        with_kind!(self.world, kind_of(&object)?, cached => {
            match self.writer.create(cached, Some(namespace), &object).await {
                Err(WriteError::AlreadyExists(message)) => {
                    let found = self.writer.read(cached, &ObjectKey::new(namespace, name)).await?;
                    if found.controller_uid().as_deref() == wanted {
                        return Ok(());
                    }
                    let set = object["metadata"]["labels"][labels::PART_OF].as_str().unwrap_or_default();
                    Err(WriteError::AlreadyExists(format!(
                        "{message}; it belongs to something else: delete or rename it, or rename the PodCliqueSet {set}"
                    )))
                }
                result => result.map(drop),
            }
        })
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
        self["metadata"]["ownerReferences"][0]["uid"]
            .as_str()
            .map(str::to_owned)
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
    PodCliqueSet,
    PodClique,
    PodCliqueScalingGroup,
    PodGang,
    ControllerRevision
);

fn kind_of(object: &Value) -> Result<Kind, WriteError> {
    Ok(match object["kind"].as_str().unwrap_or_default() {
        "PodCliqueScalingGroup" => Kind::PodCliqueScalingGroup,
        "PodClique" => Kind::PodClique,
        "PodGang" => Kind::PodGang,
        "Pod" => Kind::Pod,
        "Service" => Kind::Service,
        "HorizontalPodAutoscaler" => Kind::HorizontalPodAutoscaler,
        "Role" => Kind::Role,
        "RoleBinding" => Kind::RoleBinding,
        "ControllerRevision" => Kind::ControllerRevision,
        other => {
            return Err(WriteError::BadRequest {
                code: 0,
                message: format!("no kind {other}"),
            });
        }
    })
}

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
    let (api_version, kind) = match target.kind {
        Kind::PodCliqueSet => ("grove.io/v1alpha1", "PodCliqueSet"),
        Kind::PodCliqueScalingGroup => ("grove.io/v1alpha1", "PodCliqueScalingGroup"),
        Kind::PodClique => ("grove.io/v1alpha1", "PodClique"),
        Kind::PodGang => ("scheduler.grove.io/v1alpha1", "PodGang"),
        Kind::Pod => ("v1", "Pod"),
        Kind::Service => ("v1", "Service"),
        Kind::HorizontalPodAutoscaler => ("autoscaling/v2", "HorizontalPodAutoscaler"),
        Kind::Role => ("rbac.authorization.k8s.io/v1", "Role"),
        Kind::RoleBinding => ("rbac.authorization.k8s.io/v1", "RoleBinding"),
        Kind::ControllerRevision => ("apps/v1", "ControllerRevision"),
    };
    ObjectReference {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        namespace: Some(target.namespace.clone()),
        name: target.name.clone(),
        uid: target.uid.clone(),
    }
}
