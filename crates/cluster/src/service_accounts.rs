//! A `default` service account in every namespace.
//!
//! Owns its creation, also after somebody deleted it. It stands in for the service account controller of Kubernetes
//! and must not run beside it; tokens are not its business.

use crate::controller::{Action, Controller, Shell, unless_changed, writer};
use crate::view::{Metadata, Reduced, resource};
use coppice_runtime::cache::reflect::{self, reflect};
use coppice_runtime::cache::{Cache, Change, Kind, ObjectKey};
use coppice_runtime::clock::SharedClock;
use coppice_runtime::queue::{Priority, Queue};
use coppice_runtime::write::{WriteError, Writer};
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::Client;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::json;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const MANAGER: &str = "coppice-service-accounts";
const ACCOUNT: &str = "default";

/// Keeps default service accounts until told to stop.
pub(crate) fn run(
    client: Client,
    concurrency: usize,
    clock: &SharedClock,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let keeper = Keeper::new(writer(client.clone(), MANAGER, concurrency));
    let (namespaces, accounts) = (keeper.namespaces.clone(), keeper.accounts.clone());
    let shell = Shell::new(keeper, concurrency, clock);
    shell.follow(&namespaces, |_, change, _, queue| mark_namespace(change, queue));
    shell.follow(&accounts, |_, change, _, queue| mark_account(change, queue));
    let only_default = reflect::Options {
        field_selector: Some(format!("metadata.name={ACCOUNT}")),
        ..reflect::Options::default()
    };
    let watch_namespaces = reflect(client.clone(), namespaces, reflect::Options::default(), stop.clone());
    let watch_accounts = reflect(client, accounts.clone(), only_default, stop.clone());
    let known = Arc::clone(&shell);
    let all_known = async move {
        accounts.wait_synced().await;
        known.with(|keeper, _, queue| keeper.accounts_known(queue));
    };
    let watches = async move {
        tokio::join!(watch_namespaces, watch_accounts, all_known);
    };
    shell.run(watches, stop)
}

#[derive(Deserialize)]
struct NamespaceObject {
    metadata: Metadata,
}

struct Keeper {
    writer: Writer,
    cache: Cache,
    /// The namespaces, and whether they stay.
    namespaces: Kind<Reduced<NamespaceObject, bool>>,
    accounts: Kind<Reduced<IgnoredAny, ()>>,
    /// Whether all accounts have been listed once.
    accounts_are_known: bool,
}

impl Keeper {
    fn new(writer: Writer) -> Self {
        let cache = Cache::default();
        let stays = |_: &_, object: NamespaceObject, _: &_| !object.metadata.is_deleting();
        Self {
            writer,
            namespaces: cache.kind(resource::<Namespace>(), Reduced::new(stays)),
            accounts: cache.kind(resource::<ServiceAccount>(), Reduced::new(|_, _, _| ())),
            cache,
            accounts_are_known: false,
        }
    }

    fn accounts_known(&mut self, queue: &Queue<Arc<str>>) {
        self.accounts_are_known = true;
        for key in self.namespaces.keys(&self.cache.moment()) {
            queue.mark(key.name, Priority::High);
        }
    }

    fn lacks_account(&self, namespace: &Arc<str>) -> bool {
        let stays = self.namespaces.latest(&ObjectKey::new("", namespace.clone()));
        let account = self.accounts.latest(&ObjectKey::new(namespace.clone(), ACCOUNT));
        self.accounts_are_known && stays.is_some_and(|stays| *stays) && account.is_none()
    }
}

fn mark_namespace(change: &Change<bool>, queue: &Queue<Arc<str>>) {
    let stays = |view: &Option<Arc<bool>>| view.as_ref().is_some_and(|stays| **stays);
    if stays(&change.new) && !stays(&change.old) {
        queue.mark(change.key.name.clone(), Priority::High);
    }
}

fn mark_account(change: &Change<()>, queue: &Queue<Arc<str>>) {
    if change.new.is_none() {
        queue.mark(change.key.namespace.clone(), Priority::High);
    }
}

impl Controller for Keeper {
    type Key = Arc<str>;
    type Outcome = ();
    const NAME: &'static str = "service accounts";

    fn begin(&mut self, namespace: &Arc<str>, _now: Timestamp, _queue: &Queue<Arc<str>>) -> Option<Action<()>> {
        if !self.lacks_account(namespace) {
            return None;
        }
        let (writer, accounts, namespace) = (self.writer.clone(), self.accounts.clone(), namespace.clone());
        let work = async move {
            let account = json!({"metadata": {"name": ACCOUNT}});
            match unless_changed(writer.create(&accounts, Some(&namespace), &account).await) {
                // The namespace began to go; its deletion is on its way here.
                Err(WriteError::Forbidden { .. }) => Ok(()),
                created => created.map(drop),
            }
        };
        Some(work.boxed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use coppice_runtime::cache::Version;
    use serde_json::Value;
    use serde_json::value::RawValue;

    fn raw(object: &Value) -> Box<RawValue> {
        RawValue::from_string(object.to_string()).unwrap()
    }

    fn namespace(version: &str) -> Value {
        json!({"metadata": {"name": "a", "uid": "n", "resourceVersion": version}})
    }

    fn account(version: &str) -> Box<RawValue> {
        raw(&json!({"metadata": {"namespace": "a", "name": ACCOUNT, "uid": "s", "resourceVersion": version}}))
    }

    #[tokio::test(start_paused = true)]
    async fn accounts_are_missed_only_when_all_are_known_and_the_namespace_stays() {
        let unused = tower::service_fn(|_: http::Request<kube::client::Body>| async {
            Err::<http::Response<kube::client::Body>, _>(std::io::Error::other("no request is made"))
        });
        let client = Client::new(unused, "default");
        let clock: SharedClock = Arc::new(coppice_runtime::clock::SystemClock);
        let queue = Queue::new(coppice_runtime::queue::Options::named("test"), clock);
        let mut keeper = Keeper::new(writer(client, MANAGER, 1));
        let name: Arc<str> = "a".into();
        keeper.namespaces.observe(&raw(&namespace("1"))).unwrap();
        assert!(!keeper.lacks_account(&name), "the list of accounts is not complete");
        keeper.accounts.finish_list(Version(1), true).unwrap();
        keeper.accounts_known(&queue);
        assert!(!queue.is_idle(), "every namespace is looked at");
        assert!(keeper.lacks_account(&name));
        keeper.accounts.observe(&account("2")).unwrap();
        assert!(!keeper.lacks_account(&name));
        keeper.accounts.observe_deleted(&account("3")).unwrap();
        assert!(keeper.lacks_account(&name), "a deleted account comes back");
        let mut going = namespace("4");
        going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        keeper.namespaces.observe(&raw(&going)).unwrap();
        assert!(!keeper.lacks_account(&name), "a namespace that goes needs none");
    }
}
