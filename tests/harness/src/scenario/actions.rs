//! Carries out the actions of steps through the API. Objects are looked up at the API server, not in the recorder's
//! world, so that a step sees what the step before it wrote.

use std::collections::BTreeMap;

use coppice_cluster::behaviour::POWER;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, EvictParams, Patch, PatchParams, PostParams, PropagationPolicy};
use kube::core::DynamicObject;
use kube::{Api, Client, Error};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::environment::{Environment, EnvironmentError};
use super::expectation::Memory;
use super::kinds::Resource;
use super::lookup::{Found, edit, send_patch, text};
use super::model::{Action, Objects, PatchKind, Propagation};
use super::recorder::{Recorder, Waited};
use super::requests::{is_already_there, is_not_found, persist};
use super::target::{KindName, Target};
use super::world;

/// The name under which applied fields are owned.
const FIELD_MANAGER: &str = "scenario";

/// Why an action did not succeed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ActionError {
    /// The API server said no.
    #[error("{what}: {error}")]
    Request {
        /// What was asked for.
        what: String,
        /// The answer.
        error: Box<Error>,
    },
    /// There is nothing to act on.
    #[error("{0}")]
    Nothing(String),
    /// The environment could not do it.
    #[error(transparent)]
    Environment(#[from] EnvironmentError),
    /// Waiting ended.
    #[error("{0:?}")]
    Waited(Waited),
}

/// What actions work with.
pub(super) struct Actor<'a> {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) environment: &'a dyn Environment,
    pub(super) recorder: &'a Recorder,
    pub(super) memory: Memory,
    /// Cluster-wide objects made by the scenario, for the clean-up.
    pub(super) made: Vec<(Resource, String)>,
}

impl Actor<'_> {
    /// Carries out an action and waits until its effect has been seen, so that no expectation looks at the time before.
    pub(super) async fn act(&mut self, action: &Action, deadline: Instant) -> Result<(), ActionError> {
        self.carry_out(action, deadline).await?;
        match action {
            Action::RestartApiServer => self.catch_up(None, deadline).await,
            Action::KillApiServer | Action::RestartOperator | Action::Wait { .. } | Action::Remember { .. } => Ok(()),
            action => self.catch_up(Some(&action.kinds()), deadline).await,
        }
    }

    async fn carry_out(&mut self, action: &Action, deadline: Instant) -> Result<(), ActionError> {
        match action {
            Action::Apply(manifests) => {
                for manifest in manifests {
                    self.apply(manifest, deadline).await?;
                }
                Ok(())
            }
            Action::Create(manifests) => {
                for manifest in manifests {
                    self.create(manifest, deadline).await?;
                }
                Ok(())
            }
            Action::Patch {
                objects,
                kind,
                subresource,
                patch,
            } => {
                for found in self.find(objects, deadline).await? {
                    send_patch(&found, *kind, subresource.as_deref(), patch, deadline).await?;
                }
                Ok(())
            }
            Action::Edit { objects, set, remove } => {
                for found in self.find(objects, deadline).await? {
                    let change = |object: &mut Value| {
                        set.iter().try_for_each(|(path, value)| path.set(object, value))?;
                        remove.iter().for_each(|path| {
                            path.remove(object);
                        });
                        Ok(())
                    };
                    edit(&found, change, deadline).await?;
                }
                Ok(())
            }
            Action::Scale { objects, replicas } => {
                let (patch, parameters) = (
                    Patch::Merge(json!({"spec": {"replicas": replicas}})),
                    PatchParams::default(),
                );
                for found in self.find(objects, deadline).await? {
                    let scale = |_| found.api.patch_scale(&found.name, &parameters, &patch);
                    persist(deadline, scale)
                        .await
                        .map_err(|error| found.refused("scale", error))?;
                }
                Ok(())
            }
            Action::Delete {
                objects,
                propagation,
                grace_period_seconds,
            } => {
                let parameters = DeleteParams {
                    propagation_policy: propagation.map(|policy| match policy {
                        Propagation::Background => PropagationPolicy::Background,
                        Propagation::Foreground => PropagationPolicy::Foreground,
                        Propagation::Orphan => PropagationPolicy::Orphan,
                    }),
                    grace_period_seconds: *grace_period_seconds,
                    ..DeleteParams::default()
                };
                self.delete(objects, &parameters, deadline).await
            }
            Action::KillPod(objects) => {
                self.delete(objects, &DeleteParams::default().grace_period(0), deadline)
                    .await
            }
            Action::Cordon(objects) => self.merge(objects, &cordon(true), deadline).await.map(drop),
            Action::Uncordon(objects) => self.merge(objects, &cordon(false), deadline).await.map(drop),
            Action::Drain(objects) => self.drain(objects, deadline).await,
            Action::KillNode(objects) => self.merge(objects, &power(Some("off")), deadline).await.map(drop),
            Action::RestoreNode(objects) => self.merge(objects, &power(None), deadline).await.map(drop),
            Action::PodBehaviour { objects, annotations } => {
                let patch = json!({"metadata": {"annotations": annotations}});
                self.merge(objects, &patch, deadline).await.map(drop)
            }
            Action::Remember { name, target } => {
                let found = self
                    .find(
                        &Objects {
                            target: target.clone(),
                            count: None,
                        },
                        deadline,
                    )
                    .await?;
                let uids = found
                    .iter()
                    .filter_map(|found| world::uid(&found.object).map(str::to_owned))
                    .collect();
                self.memory.insert(name.clone(), uids);
                Ok(())
            }
            Action::RestartOperator => Ok(self.environment.restart_operator().await?),
            Action::RestartScheduler => Ok(self.environment.restart_scheduler().await?),
            Action::KillScheduler { after_bindings } => Ok(self.environment.kill_scheduler(*after_bindings).await?),
            Action::KillApiServer => Ok(self.environment.kill_api_server().await?),
            Action::RestartApiServer => Ok(self.environment.restart_api_server().await?),
            Action::Wait { quiet_for: None } => Ok(()),
            Action::Wait { quiet_for: Some(time) } => loop {
                let before = self.recorder.look(|seen| seen.changes);
                let end = Instant::now() + *time;
                if end > deadline {
                    let message = format!("something changed again and again; it was never quiet for {time:?}");
                    return Err(ActionError::Nothing(message));
                }
                match self
                    .recorder
                    .wait(end, |seen| (seen.changes != before).then_some(()))
                    .await
                {
                    Ok(()) => {}
                    Err(Waited::TooLong) => return Ok(()),
                    Err(violated) => return Err(ActionError::Waited(violated)),
                }
            },
        }
    }

    pub(super) async fn apply(&mut self, manifest: &Value, deadline: Instant) -> Result<(), ActionError> {
        let (api, name, object) = self.prepare(manifest, deadline).await?;
        let parameters = PatchParams::apply(FIELD_MANAGER).force();
        let patch = Patch::Apply(&object);
        persist(deadline, |_| api.patch(&name, &parameters, &patch))
            .await
            .map(drop)
            .map_err(|error| ActionError::Request {
                what: format!("apply {} {name}", text(manifest, "/kind")),
                error: Box::new(error),
            })
    }

    async fn create(&mut self, manifest: &Value, deadline: Instant) -> Result<(), ActionError> {
        let (api, name, object) = self.prepare(manifest, deadline).await?;
        let request = |error: Error| ActionError::Request {
            what: format!("create {} {name}", text(manifest, "/kind")),
            error: Box::new(error),
        };
        let object: DynamicObject =
            serde_json::from_value(object).map_err(|error| request(Error::SerdeError(error)))?;
        let create = |lost: bool| {
            let (api, object) = (&api, &object);
            async move {
                match api.create(&PostParams::default(), object).await {
                    Err(error) if lost && is_already_there(&error) => Ok(()),
                    answer => answer.map(drop),
                }
            }
        };
        persist(deadline, create).await.map_err(request)
    }

    /// The manifest with the scenario's namespace filled in, and where it goes.
    async fn prepare(
        &mut self,
        manifest: &Value,
        deadline: Instant,
    ) -> Result<(Api<DynamicObject>, String, Value), ActionError> {
        let mut manifest = manifest.clone();
        substitute(&mut manifest, &self.namespace);
        let kind: KindName = text(&manifest, "/kind").parse().map_err(ActionError::Nothing)?;
        let resource = self
            .resource(&kind.with_api_version(&text(&manifest, "/apiVersion")), deadline)
            .await?;
        let namespace = Some(text(&manifest, "/metadata/namespace")).filter(|text| !text.is_empty());
        let api = self.api(&resource, namespace.as_deref());
        let name = text(&manifest, "/metadata/name");
        if !resource.namespaced && !name.is_empty() {
            self.made.push((resource, name.clone()));
        }
        Ok((api, name, manifest))
    }

    async fn merge(&self, objects: &Objects, patch: &Value, deadline: Instant) -> Result<Vec<Found>, ActionError> {
        let found = self.find(objects, deadline).await?;
        for one in &found {
            send_patch(one, PatchKind::Merge, None, patch, deadline).await?;
        }
        Ok(found)
    }

    async fn delete(&self, objects: &Objects, parameters: &DeleteParams, deadline: Instant) -> Result<(), ActionError> {
        for found in self.find(objects, deadline).await? {
            let delete = |lost: bool| {
                let found = &found;
                async move {
                    match found.api.delete(&found.name, parameters).await {
                        Err(error) if lost && is_not_found(&error) => Ok(()),
                        answer => answer.map(drop),
                    }
                }
            };
            persist(deadline, delete)
                .await
                .map_err(|error| found.refused("delete", error))?;
        }
        Ok(())
    }

    /// Cordons the nodes and evicts the scenario's pods from them; done when the recorder has seen them go.
    async fn drain(&self, objects: &Objects, deadline: Instant) -> Result<(), ActionError> {
        let nodes = self.merge(objects, &cordon(true), deadline).await?;
        let every_pod = Target::all(KindName::core("Pod"));
        let resource = self.resource(&every_pod.kind, deadline).await?;
        let on_nodes = |pod: &Found| {
            let node = text(&pod.object, "/spec/nodeName");
            let owners = pod
                .object
                .pointer("/metadata/ownerReferences")
                .and_then(Value::as_array);
            let of_daemon_set = owners
                .into_iter()
                .flatten()
                .any(|owner| text(owner, "/kind") == "DaemonSet");
            nodes.iter().any(|found| found.name == node) && !of_daemon_set
        };
        let pods = self.list(&every_pod, &resource, deadline).await?;
        let pods: Vec<Found> = pods.into_iter().filter(on_nodes).collect();
        let api: Api<Pod> = Api::namespaced(self.client.clone(), &self.namespace);
        for pod in &pods {
            let evict = |_| async {
                match api.evict(&pod.name, &EvictParams::default()).await {
                    Err(error) if is_not_found(&error) => Ok(()),
                    answer => answer.map(drop),
                }
            };
            persist(deadline, evict)
                .await
                .map_err(|error| pod.refused("evict", error))?;
        }
        let uids: Vec<&str> = pods.iter().filter_map(|pod| world::uid(&pod.object)).collect();
        let left = |seen: &super::recorder::Seen| {
            let is_left = |object: &Value| world::uid(object).is_some_and(|uid| uids.contains(&uid));
            seen.world.objects().filter(|(_, object)| is_left(object)).count()
        };
        match self
            .recorder
            .wait(deadline, |seen| (left(seen) == 0).then_some(()))
            .await
        {
            Ok(()) => Ok(()),
            Err(Waited::TooLong) => {
                let left = self.recorder.look(left);
                Err(ActionError::Nothing(format!(
                    "{left} of {} evicted pods are still there",
                    uids.len()
                )))
            }
            Err(violated) => Err(ActionError::Waited(violated)),
        }
    }
}

fn cordon(unschedulable: bool) -> Value {
    json!({"spec": {"unschedulable": unschedulable.then_some(true)}})
}

fn power(state: Option<&str>) -> Value {
    json!({"metadata": {"annotations": BTreeMap::from([(POWER, state)])}})
}

/// Puts the scenario's namespace in place of `${namespace}` in every text.
fn substitute(value: &mut Value, namespace: &str) {
    match value {
        Value::String(text) if text.contains("${namespace}") => *text = text.replace("${namespace}", namespace),
        Value::Array(elements) => elements.iter_mut().for_each(|element| substitute(element, namespace)),
        Value::Object(entries) => entries.values_mut().for_each(|entry| substitute(entry, namespace)),
        _ => {}
    }
}
