//! Deletion of namespaces.
//!
//! Owns what happens after a namespace was asked to go: its content of every kind is deleted, pods first, and when
//! nothing is left, the namespace is released. It waits for objects with finalizers or grace periods by watching them,
//! never by asking again and again. It stands in for the namespace controller of Kubernetes and must not run
//! beside it. Left out: the conditions that report what remains.

use crate::clock::Clock;
use crate::engine::queue::Queue;
use crate::engine::requests::{Deletion, delete, is_conflict, is_not_found};
use crate::engine::watch::{Change, changes};
use crate::engine::{self, Action, Controller};
use crate::kinds::{AnyMeta, Kind, KindId, discover};
use futures::stream::{self, StreamExt, TryStreamExt};
use futures::{FutureExt, pin_mut};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, PostParams};
use kube::runtime::watcher;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const FINALIZER: &str = "kubernetes";
/// Kinds that are emptied at the same time.
const KINDS_AT_ONCE: usize = 8;

/// Empties and releases namespaces until told to stop.
pub(crate) async fn run(client: Client, concurrency: usize, clock: Arc<dyn Clock>, stop: CancellationToken) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let events = changes(namespaces, watcher::Config::default(), going);
    let controller = Emptier {
        client,
        going: BTreeMap::new(),
    };
    engine::run(controller, events.boxed(), clock, concurrency, stop).await;
}

/// Name, and the UID if the namespace is being deleted and waits for its content to go.
fn going(namespace: Namespace) -> (String, Option<String>) {
    let held = namespace.spec.is_some_and(|spec| {
        spec.finalizers
            .is_some_and(|finalizers| finalizers.iter().any(|finalizer| finalizer == FINALIZER))
    });
    let metadata = namespace.metadata;
    let wanted = metadata.deletion_timestamp.is_some() && held;
    (metadata.name.unwrap_or_default(), metadata.uid.filter(|_| wanted))
}

struct Emptier {
    client: Client,
    going: BTreeMap<String, String>,
}

impl Controller for Emptier {
    type Key = String;
    type Event = Change<(String, Option<String>)>;
    type Outcome = ();
    const NAME: &'static str = "namespaces";

    fn observe(&mut self, event: Self::Event, _now: Timestamp, queue: &mut Queue<String>) {
        match event {
            Change::Applied((name, Some(uid))) => {
                if self.going.insert(name.clone(), uid.clone()).as_ref() != Some(&uid) {
                    queue.mark(name);
                }
            }
            Change::Applied((name, None)) | Change::Deleted((name, _)) => {
                self.going.remove(&name);
                queue.forget(&name);
            }
            Change::ListStarted | Change::ListDone => {}
        }
    }

    fn begin(&mut self, name: &String, _now: Timestamp, _queue: &mut Queue<String>) -> Option<Action<()>> {
        let uid = self.going.get(name)?.clone();
        Some(empty_and_release(self.client.clone(), name.clone(), uid).boxed())
    }

    fn finish(&mut self, _name: &String, (): (), _now: Timestamp, _queue: &mut Queue<String>) {}
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

async fn empty_and_release(client: Client, name: String, uid: String) -> Result<(), kube::Error> {
    for stage in stages(discover(&client).await?) {
        stream::iter(
            stage
                .into_iter()
                .map(|kind| empty_kind(client.clone(), kind, name.clone())),
        )
        .buffer_unordered(KINDS_AT_ONCE)
        .try_collect::<Vec<()>>()
        .await?;
    }
    let namespaces: Api<Namespace> = Api::all(client);
    let mut namespace = match namespaces.get(&name).await {
        Ok(namespace) => namespace,
        Err(error) if is_not_found(&error) => return Ok(()),
        Err(error) => return Err(error),
    };
    if namespace.metadata.uid.as_deref() != Some(uid.as_str()) {
        return Ok(());
    }
    if let Some(finalizers) = namespace.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()) {
        finalizers.retain(|finalizer| finalizer != FINALIZER);
    }
    match namespaces
        .replace_subresource("finalize", &name, &PostParams::default(), &namespace)
        .await
    {
        Ok(_) => Ok(()),
        Err(error) if is_not_found(&error) => Ok(()),
        // A conflict leads to another attempt with the namespace as it is then.
        Err(error) => Err(error),
    }
}

/// Deletes all objects of a kind in a namespace and returns when they are gone.
async fn empty_kind(client: Client, kind: Kind, namespace: String) -> Result<(), kube::Error> {
    let api = kind.api(&client, &namespace);
    let present = match api.list(&ListParams::default().limit(1)).await {
        Ok(list) => !list.items.is_empty(),
        // The kind may have been removed since it was discovered, or may not be listable in a namespace.
        Err(kube::Error::Api(status)) if [404, 405].contains(&status.code) => false,
        Err(error) => return Err(error),
    };
    if !present {
        return Ok(());
    }
    if kind.delete_collection {
        match api
            .delete_collection(&DeleteParams::background(), &ListParams::default())
            .await
        {
            Ok(_) => {}
            Err(error) if is_not_found(&error) || is_conflict(&error) => {}
            Err(error) => return Err(error),
        }
    }
    await_empty(api).await
}

/// Watches until nothing is left, deleting what has not been asked to go yet.
async fn await_empty(api: Api<AnyMeta>) -> Result<(), kube::Error> {
    let changes = changes(api.clone(), watcher::Config::default(), |object: AnyMeta| {
        object.metadata
    });
    pin_mut!(changes);
    let mut remaining = BTreeSet::new();
    let mut listed = false;
    while let Some(change) = changes.next().await {
        match change {
            Change::ListStarted => {
                remaining.clear();
                listed = false;
            }
            Change::ListDone => listed = true,
            Change::Applied(metadata) => {
                let (name, uid) = (metadata.name.unwrap_or_default(), metadata.uid.unwrap_or_default());
                if metadata.deletion_timestamp.is_none() {
                    delete(
                        &api,
                        &name,
                        Deletion {
                            uid: uid.clone(),
                            ..Deletion::default()
                        },
                    )
                    .await?;
                }
                remaining.insert(uid);
            }
            Change::Deleted(metadata) => {
                remaining.remove(&metadata.uid.unwrap_or_default());
            }
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
    use kube::api::ApiResource;
    use serde_json::json;

    fn namespace(value: serde_json::Value) -> (String, Option<String>) {
        going(serde_json::from_value(value).unwrap())
    }

    #[test]
    fn only_namespaces_that_were_asked_to_go_and_are_held_are_emptied() {
        let live = json!({"metadata": {"name": "a", "uid": "u"}, "spec": {"finalizers": ["kubernetes"]}});
        assert_eq!(namespace(live), ("a".to_owned(), None));
        let mut gone = json!({
            "metadata": {"name": "a", "uid": "u", "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"finalizers": ["kubernetes"]},
        });
        assert_eq!(namespace(gone.clone()), ("a".to_owned(), Some("u".to_owned())));
        gone["spec"]["finalizers"] = json!(["example.com/other"]);
        assert_eq!(namespace(gone), ("a".to_owned(), None));
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
