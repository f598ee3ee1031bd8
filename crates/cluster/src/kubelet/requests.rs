//! The requests a kubelet makes.
//!
//! Owns how each answer is understood: what is gone or replaced is left to the watch, what is refused for good is
//! reported as refused, everything else is an error to be tried again.

use super::pod::{Pod, PodKey, PodObject};
use crate::behaviour::BehaviourError;
use crate::engine::Action;
use crate::engine::requests::{Deletion, delete, is_conflict, is_invalid, is_not_found, patch_as};
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::api::{Api, ObjectMeta, Patch, PostParams};
use kube::{Client, Resource};
use serde_json::Value;

const MANAGER: &str = "coppice-kubelet";

/// What a request brought back.
pub(crate) enum Outcome {
    /// The pod as it is after the write.
    Written(Box<PodObject>),
    /// The pod is gone, or will be seen again by the watch.
    Settled,
    /// The last step of deletion was accepted.
    Deleted,
    /// The API server refuses this status; writing it again would not help.
    Refused(Value),
}

/// Writes the status, and a warning event for each annotation that makes no sense.
pub(crate) fn write_status(
    client: Client,
    pod: &Pod,
    patch: Option<Value>,
    errors: &[BehaviourError],
    now: Timestamp,
) -> Action<Outcome> {
    let key = pod.key.clone();
    let reports: Vec<Event> = errors
        .iter()
        .enumerate()
        .map(|(index, error)| annotation_event(pod, index, error, now))
        .collect();
    async move {
        let events: Api<Event> = Api::namespaced(client.clone(), &key.namespace);
        for event in reports {
            if let Err(error) = events.create(&PostParams::default(), &event).await
                && !is_conflict(&error)
            {
                tracing::warn!(pod = %key, %error, message = ?event.message, "bad simulation annotation");
            }
        }
        let Some(patch) = patch else {
            return Ok(Outcome::Settled);
        };
        let pods: Api<PodObject> = Api::namespaced(client, &key.namespace);
        match pods
            .patch_status(&key.name, &patch_as(MANAGER), &Patch::Strategic(&patch))
            .await
        {
            Ok(pod) => Ok(Outcome::Written(Box::new(pod))),
            // Gone, or replaced by another incarnation: the watch will tell.
            Err(error) if is_not_found(&error) || is_conflict(&error) => Ok(Outcome::Settled),
            Err(error) if is_invalid(&error) => {
                tracing::warn!(pod = %key, %error, "the API server refuses the status of a pod");
                Ok(Outcome::Refused(patch))
            }
            Err(error) => Err(error),
        }
    }
    .boxed()
}

/// The last step of deletion.
pub(crate) fn final_delete(client: Client, key: PodKey, uid: String) -> Action<Outcome> {
    async move {
        let pods: Api<PodObject> = Api::namespaced(client, &key.namespace);
        let deletion = Deletion {
            uid,
            grace: Some(0),
            ..Deletion::default()
        };
        delete(&pods, &key.name, deletion).await?;
        Ok(Outcome::Deleted)
    }
    .boxed()
}

fn annotation_event(pod: &Pod, index: usize, error: &BehaviourError, now: Timestamp) -> Event {
    let now = Time(now);
    Event {
        metadata: ObjectMeta {
            // The version makes the name unique per change of the annotations, without randomness.
            name: Some(format!("{}.simulation-{}-{index}", pod.key.name, pod.version)),
            namespace: Some(pod.key.namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some(PodObject::api_version(&()).into_owned()),
            kind: Some(PodObject::kind(&()).into_owned()),
            name: Some(pod.key.name.clone()),
            namespace: Some(pod.key.namespace.clone()),
            uid: Some(pod.uid.clone()),
            ..ObjectReference::default()
        },
        type_: Some("Warning".to_owned()),
        reason: Some("InvalidSimulationAnnotation".to_owned()),
        message: Some(error.to_string()),
        count: Some(1),
        first_timestamp: Some(now.clone()),
        last_timestamp: Some(now),
        source: Some(EventSource {
            component: Some(MANAGER.to_owned()),
            host: Some(pod.node.clone()),
        }),
        ..Event::default()
    }
}
