//! A `default` service account in every namespace.
//!
//! Owns its creation, also after somebody deleted it. It stands in for the service account controller of Kubernetes
//! and must not run beside it; tokens are not its business.

use crate::clock::Clock;
use crate::engine::queue::Queue;
use crate::engine::requests::{is_conflict, is_not_found};
use crate::engine::watch::{Change, Listing, changes};
use crate::engine::{self, Action, Controller};
use futures::{FutureExt, StreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{Api, ObjectMeta, PostParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const ACCOUNT: &str = "default";

/// Keeps default service accounts until told to stop.
pub(crate) async fn run(client: Client, concurrency: usize, clock: Arc<dyn Clock>, stop: CancellationToken) {
    let config = watcher::Config::default;
    let namespaces: Api<PartialObjectMeta<Namespace>> = Api::all(client.clone());
    let namespaces = changes(namespaces, config(), |namespace: PartialObjectMeta<Namespace>| {
        (namespace.name_any(), namespace.metadata.deletion_timestamp.is_some())
    });
    let accounts: Api<PartialObjectMeta<ServiceAccount>> = Api::all(client.clone());
    let only_default = config().fields(&format!("metadata.name={ACCOUNT}"));
    let accounts = changes(accounts, only_default, |account: PartialObjectMeta<ServiceAccount>| {
        account.namespace().unwrap_or_default()
    });
    let events = futures::stream::select(namespaces.map(Observed::Namespace), accounts.map(Observed::Account));
    let keeper = Keeper {
        client,
        view: View::default(),
    };
    engine::run(keeper, events.boxed(), clock, concurrency, stop).await;
}

enum Observed {
    /// Name, and whether it is being deleted.
    Namespace(Change<(String, bool)>),
    /// Namespace of the account.
    Account(Change<String>),
}

/// Which namespaces want an account, and which have one.
#[derive(Default)]
struct View {
    namespaces: BTreeSet<String>,
    namespace_listing: Listing<String>,
    accounts: BTreeSet<String>,
    account_listing: Listing<String>,
}

impl View {
    /// Folds an event in and returns the namespaces to look at.
    fn fold(&mut self, event: Observed) -> Vec<String> {
        match event {
            Observed::Namespace(Change::ListStarted) => self.namespace_listing.start(),
            Observed::Namespace(Change::Applied((name, deleting))) => {
                self.namespace_listing.saw(&name);
                if deleting {
                    self.namespaces.remove(&name);
                } else if self.namespaces.insert(name.clone()) {
                    return vec![name];
                }
            }
            Observed::Namespace(Change::Deleted((name, _))) => {
                self.namespaces.remove(&name);
            }
            Observed::Namespace(Change::ListDone) => {
                for name in self.namespace_listing.finish(self.namespaces.iter()) {
                    self.namespaces.remove(&name);
                }
            }
            Observed::Account(Change::ListStarted) => self.account_listing.start(),
            Observed::Account(Change::Applied(namespace)) => {
                self.account_listing.saw(&namespace);
                self.accounts.insert(namespace);
            }
            Observed::Account(Change::Deleted(namespace)) => {
                self.accounts.remove(&namespace);
                return vec![namespace];
            }
            Observed::Account(Change::ListDone) => {
                for namespace in self.account_listing.finish(self.accounts.iter()) {
                    self.accounts.remove(&namespace);
                }
                return self.namespaces.iter().cloned().collect();
            }
        }
        Vec::new()
    }

    fn lacks_account(&self, namespace: &str) -> bool {
        self.account_listing.is_complete() && self.namespaces.contains(namespace) && !self.accounts.contains(namespace)
    }
}

struct Keeper {
    client: Client,
    view: View,
}

impl Controller for Keeper {
    type Key = String;
    type Event = Observed;
    type Outcome = ();
    const NAME: &'static str = "service accounts";

    fn observe(&mut self, event: Observed, _now: Timestamp, queue: &mut Queue<String>) {
        for namespace in self.view.fold(event) {
            queue.mark(namespace);
        }
    }

    fn begin(&mut self, namespace: &String, _now: Timestamp, _queue: &mut Queue<String>) -> Option<Action<()>> {
        if !self.view.lacks_account(namespace) {
            return None;
        }
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), namespace);
        let account = ServiceAccount {
            metadata: ObjectMeta {
                name: Some(ACCOUNT.to_owned()),
                ..ObjectMeta::default()
            },
            ..ServiceAccount::default()
        };
        let work = async move {
            match accounts.create(&PostParams::default(), &account).await {
                Ok(_) => Ok(()),
                Err(error) if is_conflict(&error) || is_not_found(&error) => Ok(()),
                // The namespace began to go; its deletion is on its way here.
                Err(kube::Error::Api(status)) if status.code == 403 => Ok(()),
                Err(error) => Err(error),
            }
        };
        Some(work.boxed())
    }

    fn finish(&mut self, namespace: &String, (): (), _now: Timestamp, _queue: &mut Queue<String>) {
        self.view.accounts.insert(namespace.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_missed_only_when_all_are_known_and_the_namespace_stays() {
        let mut view = View::default();
        assert_eq!(
            view.fold(Observed::Namespace(Change::Applied(("a".to_owned(), false)))),
            ["a"]
        );
        assert!(!view.lacks_account("a"), "the list of accounts is not complete");
        view.fold(Observed::Account(Change::ListStarted));
        assert_eq!(view.fold(Observed::Account(Change::ListDone)), ["a"]);
        assert!(view.lacks_account("a"));
        view.fold(Observed::Account(Change::Applied("a".to_owned())));
        assert!(!view.lacks_account("a"));
        assert_eq!(view.fold(Observed::Account(Change::Deleted("a".to_owned()))), ["a"]);
        assert!(view.lacks_account("a"), "a deleted account comes back");
        view.fold(Observed::Namespace(Change::Applied(("a".to_owned(), true))));
        assert!(!view.lacks_account("a"), "a namespace that goes needs none");
    }
}
