//! The requests a kubelet makes.
//!
//! Owns how each answer is understood: what is gone or replaced is left to the watch, what is refused for good is
//! reported as refused, everything else is an error to be tried again.

use super::pod::{Pod, Pods};
use crate::behaviour::BehaviourError;
use crate::controller::{Action, unless_changed};
use coppice_runtime::write::{DeleteOptions, Patch, Precondition, WriteError, Writer};
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::Client;
use kube::api::{Api, ObjectMeta, PostParams};
use serde_json::Value;
use std::sync::Arc;

pub(super) const MANAGER: &str = "coppice-kubelet";

/// What a request brought back.
pub(crate) enum Outcome {
    /// The status was written, or the pod is gone or changed, which the watch reports.
    Settled,
    /// The last step of deletion was accepted for the pod with this UID.
    Deleted(Arc<str>),
    /// The API server refuses this status; writing it again would not help.
    Refused(Value),
}

/// What requests are made with.
#[derive(Clone)]
pub(super) struct Requests {
    /// For events, which are not cached.
    pub(super) client: Client,
    pub(super) writer: Writer,
    pub(super) pods: Pods,
}

impl Requests {
    /// Writes the status, and a warning event for each annotation that makes no sense.
    pub(super) fn write_status(
        &self,
        pod: Arc<Pod>,
        patch: Option<Value>,
        errors: &[BehaviourError],
        now: Timestamp,
    ) -> Action<Outcome> {
        let reports: Vec<Event> = errors
            .iter()
            .enumerate()
            .map(|(index, error)| annotation_event(&pod, index, error, now))
            .collect();
        let Self { client, writer, pods } = self.clone();
        async move {
            let key = &pod.meta.key;
            let events: Api<Event> = Api::namespaced(client, &key.namespace);
            for event in reports {
                let created = events.create(&PostParams::default(), &event).await;
                if let Err(error) = unless_changed(created.map_err(WriteError::from)) {
                    tracing::warn!(pod = %key, %error, message = ?event.message, "bad simulation annotation");
                }
            }
            let Some(patch) = patch else {
                return Ok(Outcome::Settled);
            };
            let answer = writer
                .patch_status(
                    &pods,
                    key,
                    &Precondition::uid(&pod.meta),
                    Patch::Strategic(patch.clone()),
                )
                .await;
            match unless_changed(answer) {
                Ok(_) => Ok(Outcome::Settled),
                Err(error @ (WriteError::Invalid { .. } | WriteError::BadRequest { .. })) => {
                    tracing::warn!(pod = %key, %error, "the API server refuses the status of a pod");
                    Ok(Outcome::Refused(patch))
                }
                Err(error) => Err(error),
            }
        }
        .boxed()
    }

    /// The last step of deletion.
    pub(super) fn final_delete(&self, pod: Arc<Pod>) -> Action<Outcome> {
        let Self { writer, pods, .. } = self.clone();
        let options = DeleteOptions {
            grace_seconds: Some(0),
            ..DeleteOptions::default()
        };
        async move {
            unless_changed(writer.delete(&pods, &pod.meta, options).await)?;
            Ok(Outcome::Deleted(pod.meta.uid.clone()))
        }
        .boxed()
    }
}

fn annotation_event(pod: &Pod, index: usize, error: &BehaviourError, now: Timestamp) -> Event {
    let now = Time(now);
    let (name, namespace) = (&pod.meta.key.name, pod.meta.key.namespace.to_string());
    Event {
        metadata: ObjectMeta {
            // The version makes the name unique per change of the annotations, without randomness.
            name: Some(format!("{name}.simulation-{}-{index}", pod.meta.version)),
            namespace: Some(namespace.clone()),
            ..ObjectMeta::default()
        },
        involved_object: ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Pod".to_owned()),
            name: Some(name.to_string()),
            namespace: Some(namespace),
            uid: Some(pod.meta.uid.to_string()),
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
            host: Some(pod.node.name.to_string()),
        }),
        ..Event::default()
    }
}
