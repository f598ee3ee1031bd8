//! The shell around the collector's rules.
//!
//! Owns the graph, the verified absences and the requests. Deletes carry the UID and version that were decided on; an
//! object that has changed meanwhile is decided again when its change arrives.

use super::decide::{Decision, Knowledge, Propagation, decide};
use super::graph::{Graph, ORPHAN, Object, Objects};
use super::requests::{MANAGER, Outcome, Target, done, verify};
use crate::controller::{Action, Controller, Shell, unless_changed, writer};
use crate::kinds::{Defined, Kind, KindId, definitions, discover};
use coppice_runtime::backoff::Backoff;
use coppice_runtime::cache::reflect::{self, reflect};
use coppice_runtime::cache::{Cache, Change};
use coppice_runtime::clock::{SharedClock, later};
use coppice_runtime::queue::{Priority, Queue};
use coppice_runtime::write::{DeleteOptions, Writer};
use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{FuturesUnordered, StreamExt};
use jiff::Timestamp;
use kube::Client;
use kube::api::PropagationPolicy;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// How many verified absences are remembered. Forgetting one costs a request, nothing else.
const REMEMBERED_ABSENCES: usize = 10_000;
/// An owner that exists but that no watch has reported yet is asked for again after this time, in case it is gone by then.
const UNSEEN_OWNER_RECHECK: Duration = Duration::from_secs(10);

/// Collects garbage until told to stop.
pub(crate) fn run(
    client: Client,
    concurrency: usize,
    clock: &SharedClock,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let (watches, new_watches) = mpsc::unbounded_channel();
    let collector = Collector {
        writer: writer(client.clone(), MANAGER, concurrency),
        client: client.clone(),
        watches,
        kinds: BTreeMap::new(),
        graph: Graph::default(),
        knowledge: Knowledge::default(),
        absent_order: VecDeque::new(),
    };
    let shell = Shell::new(collector, concurrency, clock);
    let watches = watch_all(Arc::clone(&shell), client, new_watches, stop.clone());
    shell.run(watches, stop)
}

type Watch = BoxFuture<'static, ()>;

/// Watches the objects of all kinds, which come from discovery at first and from definitions later.
async fn watch_all(
    shell: Arc<Shell<Collector>>,
    client: Client,
    mut new_watches: mpsc::UnboundedReceiver<Watch>,
    stop: CancellationToken,
) {
    let backoff = Backoff {
        longest: Duration::from_secs(20),
        ..Backoff::default()
    };
    let kinds = backoff.until_ok("discovery", || discover(&client)).await;
    for kind in kinds.into_values() {
        watch_kind(&shell, kind);
    }
    let definitions = definitions();
    let weak = Arc::downgrade(&shell);
    definitions.on_change(move |change| {
        if let Some(shell) = weak.upgrade() {
            definition_changed(&shell, change);
        }
    });
    let mut watches = FuturesUnordered::new();
    watches.push(reflect(client, definitions, reflect::Options::default(), stop).boxed());
    loop {
        tokio::select! {
            biased;
            Some(watch) = new_watches.recv() => watches.push(watch),
            Some(()) = watches.next() => {}
        }
    }
}

fn definition_changed(shell: &Arc<Shell<Collector>>, change: &Change<Defined>) {
    match (change.new.as_deref(), change.old.as_deref()) {
        (Some((_, Some(kind))), _) => watch_kind(shell, kind.clone()),
        (None, Some((id, _))) => shell.with(|collector, _, queue| collector.kind_vanished(id, queue)),
        _ => {}
    }
}

/// Begins to watch the objects of a kind, unless they are watched already.
fn watch_kind(shell: &Arc<Shell<Collector>>, kind: Kind) {
    let id = kind.id();
    let is_watched = shell.with(|collector, _, _| collector.kinds.contains_key(&id));
    if is_watched || !kind.has_owners() {
        return;
    }
    let objects = Cache::default().kind(kind.resource.clone(), Object::projection(&id));
    let followed = id.clone();
    shell.follow(&objects, move |collector, change, _, queue| {
        collector.object_changed(&followed, change, queue);
    });
    let end = CancellationToken::new();
    let (listed, listed_shell) = (objects.clone(), Arc::clone(shell));
    let when_listed = async move {
        listed.wait_synced().await;
        listed_shell.with(|collector, _, queue| collector.kind_listed(&id, queue));
    };
    shell.with(|collector, _, queue| {
        let client = collector.client.clone();
        let watch = reflect(client, objects.clone(), reflect::Options::default(), end.clone());
        let until_end = end.clone();
        let watch = async move {
            until_end
                .run_until_cancelled(async { tokio::join!(watch, when_listed) })
                .await;
        };
        collector.kind_appeared(
            Watched {
                kind,
                objects,
                is_listed: false,
                end,
            },
            watch.boxed(),
            queue,
        );
    });
}

/// A kind and its objects.
struct Watched {
    kind: Kind,
    objects: Objects,
    is_listed: bool,
    /// Ends the watch.
    end: CancellationToken,
}

struct Collector {
    client: Client,
    writer: Writer,
    /// Where the watches of new kinds go.
    watches: mpsc::UnboundedSender<Watch>,
    kinds: BTreeMap<KindId, Watched>,
    graph: Graph,
    knowledge: Knowledge,
    absent_order: VecDeque<(Arc<str>, Arc<str>)>,
}

type Uids = Queue<Arc<str>>;

impl Collector {
    fn remember_absent(&mut self, uid: Arc<str>, namespace: Arc<str>) {
        if self.knowledge.absent.insert((uid.clone(), namespace.clone())) {
            self.absent_order.push_back((uid, namespace));
        }
        while self.absent_order.len() > REMEMBERED_ABSENCES {
            if let Some(oldest) = self.absent_order.pop_front() {
                self.knowledge.absent.remove(&oldest);
            }
        }
    }

    fn kind_appeared(&mut self, watched: Watched, watch: Watch, queue: &Uids) {
        let id = watched.kind.id();
        self.knowledge.kinds.insert(id.clone(), watched.kind.namespaced);
        self.kinds.insert(id, watched);
        self.note_completeness(queue);
        // Fails only when the collector is being stopped.
        let _ = self.watches.send(watch);
    }

    fn kind_vanished(&mut self, id: &KindId, queue: &Uids) {
        let Some(watched) = self.kinds.remove(id) else { return };
        watched.end.cancel();
        self.knowledge.kinds.remove(id);
        for uid in self.graph.of_kind(id) {
            mark_all(self.graph.remove(&uid), queue);
        }
        self.note_completeness(queue);
    }

    fn kind_listed(&mut self, id: &KindId, queue: &Uids) {
        if let Some(watched) = self.kinds.get_mut(id) {
            watched.is_listed = true;
            self.note_completeness(queue);
        }
    }

    fn object_changed(&mut self, id: &KindId, change: &Change<Object>, queue: &Uids) {
        // A change may still be on its way when its kind has vanished.
        let Some(watched) = self.kinds.get(id) else { return };
        let latest = watched.objects.latest(&change.key);
        let replaced = |object: &&Arc<Object>| latest.as_ref().is_none_or(|latest| latest.uid() != object.uid());
        for gone in change.old.iter().chain(&change.new).filter(replaced) {
            mark_all(self.graph.remove(gone.uid()), queue);
        }
        if let Some(object) = latest {
            mark_all(self.graph.apply(object), queue);
        }
    }

    fn note_completeness(&mut self, queue: &Uids) {
        let complete = self.kinds.values().all(|watched| watched.is_listed);
        if complete && !self.knowledge.complete {
            mark_all(self.graph.deleting().cloned(), queue);
        }
        self.knowledge.complete = complete;
    }

    fn target(&self, object: &Object) -> Option<Target> {
        let kind = &self.kinds.get(&object.kind)?.kind;
        Some(Target {
            api: kind.api(&self.client, &object.meta.key.namespace),
            meta: object.meta.clone(),
        })
    }

    fn collect(&self, object: &Object, propagation: Propagation) -> Option<Action<Outcome>> {
        let watched = self.kinds.get(&object.kind).filter(|watched| watched.kind.deletable)?;
        let (writer, objects, meta) = (self.writer.clone(), watched.objects.clone(), object.meta.clone());
        let options = DeleteOptions {
            only_known_version: true,
            propagation: Some(match propagation {
                Propagation::Background => PropagationPolicy::Background,
                Propagation::Foreground => PropagationPolicy::Foreground,
                Propagation::Orphan => PropagationPolicy::Orphan,
            }),
            ..DeleteOptions::default()
        };
        // If it has changed since the decision, the change will be decided on.
        Some(done(async move {
            unless_changed(writer.delete(&objects, &meta, options).await).map(drop)
        }))
    }
}

fn mark_all(uids: impl IntoIterator<Item = Arc<str>>, queue: &Uids) {
    for uid in uids {
        queue.mark(uid, Priority::High);
    }
}

impl Controller for Collector {
    type Key = Arc<str>;
    type Outcome = Outcome;
    const NAME: &'static str = "garbage collector";

    fn begin(&mut self, uid: &Arc<str>, _now: Timestamp, _queue: &Uids) -> Option<Action<Outcome>> {
        let object = self.graph.get(uid)?;
        match decide(object, &self.graph, &self.knowledge) {
            Decision::Nothing => None,
            Decision::Verify(owners) => {
                let questions = owners.into_iter().filter_map(|owner| {
                    let kind = &self.kinds.get(&owner.kind)?.kind;
                    let namespace: Arc<str> = match kind.namespaced {
                        true => object.meta.key.namespace.clone(),
                        false => "".into(),
                    };
                    Some((kind.api(&self.client, &namespace), owner, namespace))
                });
                Some(verify(questions.collect()))
            }
            Decision::Delete(propagation) => self.collect(object, propagation),
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
                    let reference = BTreeSet::from([owner.meta.uid.clone()]);
                    for dependent in dependents {
                        dependent.drop_owners(&reference).await?;
                    }
                    owner.remove_finalizer(ORPHAN).await
                }))
            }
        }
    }

    fn finish(&mut self, uid: &Arc<str>, outcome: Outcome, now: Timestamp, queue: &Uids) {
        let Outcome::Verified(findings) = outcome else { return };
        let mut absent = false;
        for (owner, namespace, exists) in findings {
            if exists {
                queue.mark_at(uid.clone(), later(now, UNSEEN_OWNER_RECHECK));
            } else {
                absent = true;
                self.remember_absent(owner, namespace);
            }
        }
        if absent {
            queue.mark(uid.clone(), Priority::High);
        }
    }
}
