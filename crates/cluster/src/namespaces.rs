//! Deletion of namespaces.
//!
//! Owns what happens after a namespace was asked to go: its content of every kind is deleted, pods first, and when
//! nothing is left, the namespace is released. It waits for objects with finalizers or grace periods by watching them,
//! never by asking again and again. It stands in for the namespace controller of Kubernetes and must not run
//! beside it. Left out: the conditions that report what remains.

use crate::controller::{Action, Controller, Shell, unless_changed};
use crate::kinds::{AnyMeta, Kind, KindId, discover};
use crate::view::{Metadata, Reduced, resource};
use coppice_runtime::cache::reflect::{self, reflect};
use coppice_runtime::cache::{Cache, Change, Meta, ObjectKey};
use coppice_runtime::clock::SharedClock;
use coppice_runtime::queue::{Priority, Queue};
use coppice_runtime::write::WriteError;
use futures::stream::{self, StreamExt, TryStreamExt};
use futures::{FutureExt, pin_mut};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const FINALIZER: &str = "kubernetes";
/// Kinds that are emptied at the same time.
const KINDS_AT_ONCE: usize = 8;

/// Empties and releases namespaces until told to stop.
pub(crate) fn run(
    client: Client,
    concurrency: usize,
    clock: &SharedClock,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let namespaces: Namespaces = Cache::default().kind(
        resource::<Namespace>(),
        Reduced::new(|meta, object, _| going(meta, &object)),
    );
    let emptier = Emptier {
        client: client.clone(),
        namespaces: namespaces.clone(),
    };
    let shell = Shell::new(emptier, concurrency, clock);
    shell.follow(&namespaces, |_, change, _, queue| mark(change, queue));
    let watch = reflect(client, namespaces, reflect::Options::default(), stop.clone());
    shell.run(watch, stop)
}

/// The wire form: what is decoded of a namespace.
#[derive(Deserialize)]
struct NamespaceObject {
    metadata: Metadata,
    #[serde(default)]
    spec: NamespaceSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NamespaceSpec {
    finalizers: Vec<String>,
}

/// The namespaces that are being deleted and wait for their content to go.
type Namespaces = coppice_runtime::cache::Kind<Reduced<NamespaceObject, Option<Meta>>>;

/// The namespace if it is being deleted and waits for its content to go.
fn going(meta: &Meta, namespace: &NamespaceObject) -> Option<Meta> {
    let held = namespace.spec.finalizers.iter().any(|finalizer| finalizer == FINALIZER);
    (namespace.metadata.is_deleting() && held).then(|| meta.clone())
}

/// Marks a namespace that has just been asked to go.
fn mark(change: &Change<Option<Meta>>, queue: &Queue<Arc<str>>) {
    let uid = |view: &Option<Arc<Option<Meta>>>| Some((**view.as_ref()?).as_ref()?.uid.clone());
    let wanted = uid(&change.new);
    if wanted.is_some() && uid(&change.old) != wanted {
        queue.mark(change.key.name.clone(), Priority::High);
    }
}

struct Emptier {
    client: Client,
    namespaces: Namespaces,
}

impl Controller for Emptier {
    type Key = Arc<str>;
    type Outcome = ();
    const NAME: &'static str = "namespaces";

    fn begin(&mut self, name: &Arc<str>, _now: Timestamp, _queue: &Queue<Arc<str>>) -> Option<Action<()>> {
        let key = ObjectKey::new("", name.clone());
        let going = Option::clone(&*self.namespaces.latest(&key)?)?;
        Some(empty_and_release(self.client.clone(), going).boxed())
    }
}

/// The order in which kinds are emptied: pods before anything they may use.
fn stages(kinds: BTreeMap<KindId, Kind>) -> [Vec<Kind>; 2] {
    let pods = KindId::new("", "Pod");
    let (first, rest) = kinds
        .into_values()
        .filter(|kind| kind.namespaced && kind.deletable)
        .partition(|kind| kind.id() == pods);
    [first, rest]
}

async fn empty_and_release(client: Client, going: Meta) -> Result<(), WriteError> {
    let name = &*going.key.name;
    for stage in stages(discover(&client).await?) {
        stream::iter(stage.into_iter().map(|kind| empty_kind(kind.api(&client, name), kind)))
            .buffer_unordered(KINDS_AT_ONCE)
            .try_collect::<Vec<()>>()
            .await?;
    }
    let namespaces: Api<Namespace> = Api::all(client);
    let found = namespaces.get_opt(name).await?;
    let Some(mut namespace) = found.filter(|found| found.metadata.uid.as_deref() == Some(&*going.uid)) else {
        return Ok(());
    };
    if let Some(finalizers) = namespace.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    let released = namespaces
        .replace_subresource("finalize", name, &PostParams::default(), &namespace)
        .await;
    match released.map_err(WriteError::from) {
        Err(WriteError::NotFound(_)) => Ok(()),
        // A conflict leads to another attempt with the namespace as it is then.
        released => released.map(drop),
    }
}

/// Deletes all objects of a kind in a namespace and returns when they are gone.
async fn empty_kind(api: Api<AnyMeta>, kind: Kind) -> Result<(), WriteError> {
    let present = match api.list(&ListParams::default().limit(1)).await {
        Ok(list) => !list.items.is_empty(),
        // The kind may have been removed since it was discovered, or may not be listable in a namespace.
        Err(kube::Error::Api(status)) if [404, 405].contains(&status.code) => false,
        Err(error) => return Err(error.into()),
    };
    if !present {
        return Ok(());
    }
    if kind.delete_collection {
        let deleted = api
            .delete_collection(&DeleteParams::background(), &ListParams::default())
            .await;
        unless_changed(deleted.map_err(WriteError::from))?;
    }
    await_empty(api).await
}

/// Watches until nothing is left, deleting what has not been asked to go yet.
async fn await_empty(api: Api<AnyMeta>) -> Result<(), WriteError> {
    let events = watcher(api.clone(), watcher::Config::default()).default_backoff();
    pin_mut!(events);
    let mut remaining = BTreeSet::new();
    let mut listed = false;
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => {
                remaining.clear();
                listed = false;
            }
            Ok(Event::InitDone) => listed = true,
            Ok(Event::InitApply(object) | Event::Apply(object)) => {
                let metadata = object.metadata;
                if metadata.deletion_timestamp.is_none() {
                    let only_this = Preconditions {
                        uid: metadata.uid.clone(),
                        resource_version: None,
                    };
                    let params = DeleteParams::default().preconditions(only_this);
                    let deleted = api.delete(metadata.name.as_deref().unwrap_or_default(), &params).await;
                    unless_changed(deleted.map_err(WriteError::from))?;
                }
                remaining.insert(metadata.uid);
            }
            Ok(Event::Delete(object)) => {
                remaining.remove(&object.metadata.uid);
            }
            Err(error) => tracing::debug!(%error, "a watch was interrupted, will go on"),
        }
        if listed && remaining.is_empty() {
            break;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::tests::view;
    use kube::api::ApiResource;
    use serde_json::json;

    #[test]
    fn only_namespaces_that_were_asked_to_go_and_are_held_are_emptied() {
        let is_going =
            |object: serde_json::Value| view(&Reduced::new(|meta, object, _| going(meta, &object)), object).is_some();
        let mut namespace = json!({
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "1"}, "spec": {"finalizers": ["kubernetes"]},
        });
        assert!(!is_going(namespace.clone()));
        namespace["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(is_going(namespace.clone()));
        namespace["spec"]["finalizers"] = json!(["example.com/other"]);
        assert!(!is_going(namespace));
    }

    #[test]
    fn pods_go_first_and_only_deletable_namespaced_kinds_are_touched() {
        let kind = |name: &str, namespaced: bool, deletable: bool| {
            let resource = ApiResource {
                group: String::new(),
                version: "v1".to_owned(),
                api_version: "v1".to_owned(),
                kind: name.to_owned(),
                plural: format!("{}s", name.to_lowercase()),
            };
            let kind = Kind {
                resource,
                namespaced,
                watchable: true,
                deletable,
                delete_collection: true,
            };
            (kind.id(), kind)
        };
        let kinds = [
            kind("ConfigMap", true, true),
            kind("Pod", true, true),
            kind("Node", false, true),
            kind("Binding", true, false),
        ];
        let names = stages(kinds.into()).map(|stage| {
            stage
                .into_iter()
                .map(|kind| kind.resource.kind)
                .collect::<Vec<String>>()
        });
        assert_eq!(names, [vec!["Pod".to_owned()], vec!["ConfigMap".to_owned()]]);
    }
}
