//! Looking up existing objects at the API server for steps, and writing to those that were found. Where nothing fits
//! yet, the recorder says when to look again.

use kube::api::{ListParams, Patch, PatchParams, PostParams};
use kube::core::DynamicObject;
use kube::{Api, Error, ResourceExt};
use serde_json::Value;
use tokio::time::Instant;

use super::actions::{ActionError, Actor};
use super::kinds::Resource;
use super::model::{Objects, PatchKind};
use super::recorder::Waited;
use super::requests::{is_conflict, persist};
use super::target::{KindName, Target};
use super::world::Scope;

/// An object found at the API server.
pub(super) struct Found {
    pub(super) api: Api<DynamicObject>,
    pub(super) name: String,
    pub(super) object: Value,
}

impl Actor<'_> {
    /// What was seen before a write or an outage proves nothing about the time after it: lists the kinds afresh and waits
    /// until the watches are as new as the lists. Without kinds, everything that is watched.
    pub(super) async fn catch_up(&self, kinds: Option<&[KindName]>, deadline: Instant) -> Result<(), ActionError> {
        loop {
            let (before, watched) = self.recorder.look(|seen| (seen.revision, seen.watched.clone()));
            let mut stale = kinds
                .into_iter()
                .flatten()
                .find(|kind| !watched.keys().any(|scope| kind.covers(scope)));
            let stale_name;
            for (scope, resource) in &watched {
                if kinds.is_none_or(|kinds| kinds.iter().any(|kind| kind.covers(scope)))
                    && !self.is_current(scope, resource, deadline).await?
                {
                    stale_name = KindName {
                        kind: scope.kind.clone(),
                        group: Some(scope.group.clone()),
                        version: None,
                    };
                    stale = Some(&stale_name);
                    break;
                }
            }
            let Some(stale) = stale else {
                return Ok(());
            };
            match self
                .recorder
                .wait(deadline, |seen| (seen.revision != before).then_some(()))
                .await
            {
                Ok(()) => {}
                Err(Waited::TooLong) => {
                    let message = format!("the watch of {stale} does not catch up with the API server");
                    return Err(ActionError::Nothing(message));
                }
                Err(violated) => return Err(ActionError::Waited(violated)),
            }
        }
    }

    async fn is_current(&self, scope: &Scope, resource: &Resource, deadline: Instant) -> Result<bool, ActionError> {
        let namespace = Some(scope.namespace.as_str()).filter(|namespace| !namespace.is_empty());
        let api = self.api(resource, namespace);
        let parameters = ListParams::default();
        let list = persist(deadline, |_| api.list(&parameters)).await;
        let list = list.map_err(|error| ActionError::Request {
            what: format!("list {}", scope.kind),
            error: Box::new(error),
        })?;
        let listed_at = list
            .metadata
            .resource_version
            .and_then(|text| text.parse().ok())
            .unwrap_or_default();
        let key = |object: &DynamicObject| scope.key(&object.name_any());
        let value = |object: DynamicObject| Some((key(&object), serde_json::to_value(object).ok()?));
        let listed: Vec<_> = list.items.into_iter().filter_map(value).collect();
        Ok(self.recorder.look(|seen| {
            let seen_up_to = seen.versions.get(scope).copied();
            seen_up_to.is_some_and(|seen_up_to| seen.world.is_current(scope, &listed, listed_at, seen_up_to))
        }))
    }

    /// The resource of a kind, once the API server serves it.
    pub(super) async fn resource(&self, kind: &KindName, deadline: Instant) -> Result<Resource, ActionError> {
        let mut resource = self.recorder.resolve(kind);
        while resource.is_none() {
            let before = self.recorder.look(|seen| seen.changes);
            match self
                .recorder
                .wait(deadline, |seen| (seen.changes != before).then_some(()))
                .await
            {
                Ok(()) => resource = self.recorder.resolve(kind),
                Err(Waited::TooLong) => {
                    return Err(ActionError::Nothing(format!(
                        "the API server does not know the kind {kind}"
                    )));
                }
                Err(violated) => return Err(ActionError::Waited(violated)),
            }
        }
        Ok(resource.expect("the loop ends only with one"))
    }

    pub(super) fn api(&self, resource: &Resource, namespace: Option<&str>) -> Api<DynamicObject> {
        if resource.namespaced {
            Api::namespaced_with(self.client.clone(), namespace.unwrap_or(&self.namespace), &resource.api)
        } else {
            Api::all_with(self.client.clone(), &resource.api)
        }
    }

    /// The objects meant, as they are now; waits until there are any, and as many as asked for.
    pub(super) async fn find(&self, objects: &Objects, deadline: Instant) -> Result<Vec<Found>, ActionError> {
        let mut target = objects.target.clone();
        for part in [&mut target.name, &mut target.namespace].into_iter().flatten() {
            *part = part.replace("${namespace}", &self.namespace);
        }
        let resource = self.resource(&target.kind, deadline).await?;
        let wanted = objects.count.unwrap_or(1);
        loop {
            let before = self.recorder.look(|seen| seen.changes);
            let mut found = self.list(&target, &resource, deadline).await?;
            if found.len() >= wanted {
                found.truncate(objects.count.unwrap_or(found.len()));
                return Ok(found);
            }
            match self
                .recorder
                .wait(deadline, |seen| (seen.changes != before).then_some(()))
                .await
            {
                Ok(()) => {}
                Err(Waited::TooLong) => {
                    let message = format!("there are {} {target}, at least {wanted} needed", found.len());
                    return Err(ActionError::Nothing(message));
                }
                Err(violated) => return Err(ActionError::Waited(violated)),
            }
        }
    }

    pub(super) async fn list(
        &self,
        target: &Target,
        resource: &Resource,
        deadline: Instant,
    ) -> Result<Vec<Found>, ActionError> {
        let api = self.api(resource, target.namespace.as_deref());
        let parameters = match &target.selector {
            Some(selector) => ListParams::default().labels(&selector.to_string()),
            None => ListParams::default(),
        };
        let answer = persist(deadline, |_| api.list(&parameters)).await;
        let list = answer.map_err(|error| ActionError::Request {
            what: format!("list {target}"),
            error: Box::new(error),
        })?;
        let namespace = target.namespace.as_deref().unwrap_or(&self.namespace);
        let scope = Scope {
            kind: resource.api.kind.clone(),
            group: resource.api.group.clone(),
            namespace: if resource.namespaced {
                namespace.to_owned()
            } else {
                String::new()
            },
        };
        let mut found: Vec<Found> = list
            .items
            .into_iter()
            .filter_map(|object| {
                let name = object.metadata.name.clone()?;
                Some(Found {
                    api: api.clone(),
                    name,
                    object: serde_json::to_value(object).ok()?,
                })
            })
            .filter(|found| target.matches(&scope.key(&found.name), &found.object, namespace))
            .collect();
        found.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(found)
    }
}

impl Found {
    pub(super) fn refused(&self, verb: &str, error: Error) -> ActionError {
        ActionError::Request {
            what: format!("{verb} {}", self.name),
            error: Box::new(error),
        }
    }
}

pub(super) async fn send_patch(
    found: &Found,
    kind: PatchKind,
    subresource: Option<&str>,
    patch: &Value,
    deadline: Instant,
) -> Result<(), ActionError> {
    let patch: Patch<Value> = match kind {
        PatchKind::Merge => Patch::Merge(patch.clone()),
        PatchKind::Strategic => Patch::Strategic(patch.clone()),
        PatchKind::Json => Patch::Json(
            serde_json::from_value(patch.clone()).map_err(|error| found.refused("patch", Error::SerdeError(error)))?,
        ),
    };
    let parameters = PatchParams::default();
    let send = |_| async {
        match subresource {
            Some(subresource) => {
                found
                    .api
                    .patch_subresource(subresource, &found.name, &parameters, &patch)
                    .await
            }
            None => found.api.patch(&found.name, &parameters, &patch).await,
        }
    };
    persist(deadline, send)
        .await
        .map(drop)
        .map_err(|error| found.refused("patch", error))
}

/// Reads, changes and writes until nobody else wrote in between.
pub(super) async fn edit(
    found: &Found,
    change: impl Fn(&mut Value) -> Result<(), String>,
    deadline: Instant,
) -> Result<(), ActionError> {
    loop {
        let current = persist(deadline, |_| found.api.get(&found.name)).await;
        let current = current.map_err(|error| found.refused("read", error))?;
        let unreadable = |error| found.refused("edit", Error::SerdeError(error));
        let mut object = serde_json::to_value(current).map_err(unreadable)?;
        change(&mut object).map_err(|message| ActionError::Nothing(format!("edit {}: {message}", found.name)))?;
        let object: DynamicObject = serde_json::from_value(object).map_err(unreadable)?;
        let parameters = PostParams::default();
        match persist(deadline, |_| found.api.replace(&found.name, &parameters, &object)).await {
            Ok(_) => return Ok(()),
            Err(error) if is_conflict(&error) && Instant::now() < deadline => {}
            Err(error) => return Err(found.refused("edit", error)),
        }
    }
}

/// A text within an object; empty when it is not there.
pub(super) fn text(value: &Value, pointer: &str) -> String {
    value
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}
