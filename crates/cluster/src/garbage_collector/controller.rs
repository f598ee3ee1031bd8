//! The shell around the collector's rules.
//!
//! Owns the graph, the verified absences and the requests. Deletes carry the UID and version that were decided on; an
//! object that has changed meanwhile is decided again when its change arrives.

use super::decide::{Decision, Knowledge, Propagation, decide};
use super::graph::{Graph, ORPHAN, Object, Owner};
use crate::clock::{Clock, later};
use crate::engine::queue::Queue;
use crate::engine::requests::{Deletion, delete, is_conflict, is_not_found, patch_as};
use crate::engine::watch::{Change, Listing};
use crate::engine::{self, Action, Controller};
use crate::kinds::{self, AnyMeta, Kind, KindChange, KindId};
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Client;
use kube::api::{Api, Patch, PropagationPolicy};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

const MANAGER: &str = "coppice-garbage-collector";
/// How many verified absences are remembered. Forgetting one costs a request, nothing else.
const REMEMBERED_ABSENCES: usize = 10_000;
/// An owner that exists but that no watch has reported yet is asked for again after this time, in case it is gone by then.
const UNSEEN_OWNER_RECHECK: Duration = Duration::from_secs(10);

/// Collects garbage until told to stop.
pub(crate) async fn run(client: Client, concurrency: usize, clock: Arc<dyn Clock>, stop: CancellationToken) {
    let events = kinds::all_objects(client.clone(), Object::from_metadata);
    let collector = Collector {
        client,
        kinds: BTreeMap::new(),
        listings: BTreeMap::new(),
        graph: Graph::default(),
        knowledge: Knowledge::default(),
        absent_order: VecDeque::new(),
    };
    engine::run(collector, events, clock, concurrency, stop).await;
}

struct Collector {
    client: Client,
    kinds: BTreeMap<KindId, Kind>,
    listings: BTreeMap<KindId, Listing<String>>,
    graph: Graph,
    knowledge: Knowledge,
    absent_order: VecDeque<(String, String)>,
}

enum Outcome {
    Done,
    /// What was found out about owners: UID, namespace, and whether it exists.
    Verified(Vec<(String, String, bool)>),
}

impl Collector {
    fn remember_absent(&mut self, uid: String, namespace: String) {
        if self.knowledge.absent.insert((uid.clone(), namespace.clone())) {
            self.absent_order.push_back((uid, namespace));
        }
        while self.absent_order.len() > REMEMBERED_ABSENCES {
            if let Some(oldest) = self.absent_order.pop_front() {
                self.knowledge.absent.remove(&oldest);
            }
        }
    }

    fn remove(&mut self, uid: &String, queue: &mut Queue<String>) {
        queue.forget(uid);
        for concerned in self.graph.remove(uid) {
            queue.mark(concerned);
        }
    }

    fn observe_objects(&mut self, id: &KindId, change: Change<Object>, queue: &mut Queue<String>) {
        // A change may still be on its way when its kind has vanished.
        let Some(listing) = self.listings.get_mut(id) else {
            return;
        };
        match change {
            Change::ListStarted => listing.start(),
            Change::Applied(object) => {
                listing.saw(&object.uid);
                for concerned in self.graph.apply(object) {
                    queue.mark(concerned);
                }
            }
            Change::Deleted(object) => self.remove(&object.uid, queue),
            Change::ListDone => {
                for uid in listing.finish(self.graph.of_kind(id)) {
                    self.remove(&uid, queue);
                }
                self.note_completeness(queue);
            }
        }
    }

    fn note_completeness(&mut self, queue: &mut Queue<String>) {
        let complete = self.listings.values().all(Listing::is_complete);
        if complete && !self.knowledge.complete {
            for uid in self.graph.deleting() {
                queue.mark(uid.clone());
            }
        }
        self.knowledge.complete = complete;
    }

    fn target(&self, object: &Object) -> Option<Target> {
        let kind = self.kinds.get(&object.kind)?;
        Some(Target {
            api: kind.api(&self.client, &object.namespace),
            name: object.name.clone(),
            uid: object.uid.clone(),
        })
    }
}

impl Controller for Collector {
    type Key = String;
    type Event = KindChange<Object>;
    type Outcome = Outcome;
    const NAME: &'static str = "garbage collector";

    fn observe(&mut self, event: KindChange<Object>, _now: Timestamp, queue: &mut Queue<String>) {
        match event {
            KindChange::Appeared(kind) => {
                let id = kind.id();
                self.knowledge.kinds.insert(id.clone(), kind.namespaced);
                self.listings.insert(id.clone(), Listing::default());
                self.kinds.insert(id, kind);
                self.note_completeness(queue);
            }
            KindChange::Vanished(id) => {
                let gone: Vec<String> = self.graph.of_kind(&id).cloned().collect();
                for uid in gone {
                    self.remove(&uid, queue);
                }
                self.knowledge.kinds.remove(&id);
                self.listings.remove(&id);
                self.kinds.remove(&id);
                self.note_completeness(queue);
            }
            KindChange::Objects(id, change) => self.observe_objects(&id, change, queue),
        }
    }

    fn begin(&mut self, uid: &String, _now: Timestamp, _queue: &mut Queue<String>) -> Option<Action<Outcome>> {
        let object = self.graph.get(uid)?;
        match decide(object, &self.graph, &self.knowledge) {
            Decision::Nothing => None,
            Decision::Verify(owners) => {
                let questions = owners.into_iter().filter_map(|owner| {
                    let kind = self.kinds.get(&owner.kind)?;
                    let namespace = if kind.namespaced {
                        object.namespace.clone()
                    } else {
                        String::new()
                    };
                    Some((kind.api(&self.client, &namespace), owner, namespace))
                });
                Some(verify(questions.collect()))
            }
            Decision::Delete(propagation) => {
                let target = self.target(object).filter(|_| self.kinds[&object.kind].deletable)?;
                Some(collect(target, object.resource_version.clone(), propagation))
            }
            Decision::DropOwners(owners) => {
                let target = self.target(object)?;
                Some(done(async move { target.drop_owners(&owners).await }))
            }
            Decision::Unblock => {
                let target = self.target(object)?;
                Some(done(async move { target.unblock().await }))
            }
            Decision::RemoveFinalizer(finalizer) => {
                let target = self.target(object)?;
                Some(done(async move { target.remove_finalizer(finalizer).await }))
            }
            Decision::ReleaseDependents(dependents) => {
                let owner = self.target(object)?;
                let dependents: Vec<Target> = dependents
                    .iter()
                    .filter_map(|uid| self.graph.get(uid))
                    .filter_map(|dependent| self.target(dependent))
                    .collect();
                Some(done(async move {
                    let reference = BTreeSet::from([owner.uid.clone()]);
                    for dependent in dependents {
                        dependent.drop_owners(&reference).await?;
                    }
                    owner.remove_finalizer(ORPHAN).await
                }))
            }
        }
    }

    fn finish(&mut self, uid: &String, outcome: Outcome, now: Timestamp, queue: &mut Queue<String>) {
        let Outcome::Verified(findings) = outcome else { return };
        let mut absent = false;
        for (owner, namespace, exists) in findings {
            if exists {
                queue.wake_at(uid.clone(), later(now, UNSEEN_OWNER_RECHECK));
            } else {
                absent = true;
                self.remember_absent(owner, namespace);
            }
        }
        if absent {
            queue.mark(uid.clone());
        }
    }
}

fn verify(questions: Vec<(Api<AnyMeta>, Owner, String)>) -> Action<Outcome> {
    async move {
        let mut findings = Vec::new();
        for (api, owner, namespace) in questions {
            let found = api.get_opt(&owner.name).await?;
            let exists = found.is_some_and(|found| found.metadata.uid.as_deref() == Some(owner.uid.as_str()));
            findings.push((owner.uid, namespace, exists));
        }
        Ok(Outcome::Verified(findings))
    }
    .boxed()
}

fn collect(target: Target, version: String, propagation: Propagation) -> Action<Outcome> {
    let policy = match propagation {
        Propagation::Background => PropagationPolicy::Background,
        Propagation::Foreground => PropagationPolicy::Foreground,
        Propagation::Orphan => PropagationPolicy::Orphan,
    };
    done(async move {
        let deletion = Deletion {
            uid: target.uid,
            resource_version: Some(version),
            propagation: Some(policy),
            ..Deletion::default()
        };
        match delete(&target.api, &target.name, deletion).await {
            // It has changed since the decision; the change will be decided on.
            Err(error) if is_conflict(&error) => Ok(()),
            answer => answer,
        }
    })
}

fn done(work: impl Future<Output = Result<(), kube::Error>> + Send + 'static) -> Action<Outcome> {
    async move { work.await.map(|()| Outcome::Done) }.boxed()
}

/// One incarnation of an object, to be changed.
struct Target {
    api: Api<AnyMeta>,
    name: String,
    uid: String,
}

impl Target {
    async fn drop_owners(&self, uids: &BTreeSet<String>) -> Result<(), kube::Error> {
        self.edit(|metadata| {
            let owners: &Vec<OwnerReference> = metadata.owner_references.as_ref()?;
            let kept: Vec<&OwnerReference> = owners.iter().filter(|owner| !uids.contains(&owner.uid)).collect();
            (kept.len() < owners.len()).then(|| json!({"ownerReferences": kept}))
        })
        .await
    }

    async fn unblock(&self) -> Result<(), kube::Error> {
        self.edit(|metadata| {
            let mut owners = metadata.owner_references.clone()?;
            for owner in &mut owners {
                owner.block_owner_deletion = Some(false);
            }
            Some(json!({"ownerReferences": owners}))
        })
        .await
    }

    async fn remove_finalizer(&self, finalizer: &str) -> Result<(), kube::Error> {
        self.edit(|metadata| {
            let finalizers = metadata.finalizers.as_ref()?;
            let kept: Vec<&String> = finalizers.iter().filter(|name| *name != finalizer).collect();
            (kept.len() < finalizers.len()).then(|| json!({"finalizers": kept}))
        })
        .await
    }

    /// Changes metadata as it is now; nothing happens if the object is gone or needs no change.
    async fn edit(
        &self,
        change: impl FnOnce(&kube::api::ObjectMeta) -> Option<Value> + Send,
    ) -> Result<(), kube::Error> {
        let Some(current) = self.api.get_opt(&self.name).await? else {
            return Ok(());
        };
        if current.metadata.uid.as_deref() != Some(self.uid.as_str()) {
            return Ok(());
        }
        let Some(mut metadata) = change(&current.metadata) else {
            return Ok(());
        };
        metadata["uid"] = json!(self.uid);
        metadata["resourceVersion"] = json!(current.metadata.resource_version);
        let patch = json!({"metadata": metadata});
        match self
            .api
            .patch(&self.name, &patch_as(MANAGER), &Patch::Merge(&patch))
            .await
        {
            Ok(_) => Ok(()),
            Err(error) if is_not_found(&error) => Ok(()),
            // A conflict is an error here: the engine tries again with what is there then.
            Err(error) => Err(error),
        }
    }
}
