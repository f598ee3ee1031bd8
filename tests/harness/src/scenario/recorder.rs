//! Watches the kinds a scenario speaks of and keeps what it saw: the current world, the timeline, and the never-statements
//! that follow every change. Waiting means looking again whenever something changed. Watches reconnect by themselves, so
//! an API server may go away and come back; what happened in between shows as the difference of two lists.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};
use kube::core::DynamicObject;
use kube::runtime::watcher::{self, watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::kinds::{Kinds, Resource};
use super::never::{Never, Tracker, Violation};
use super::target::KindName;
use super::timeline::Timeline;
use super::world::{self, Change, ObjectKey, Scope, Verb, World};

/// Kinds with the namespaces they are watched in; the scenario's own when none is given.
pub(super) type WatchedKinds = BTreeSet<(KindName, Option<String>)>;

/// Why waiting ended without what was waited for.
#[derive(Debug)]
pub(super) enum Waited {
    /// Time is up.
    TooLong,
    /// A never-statement does not hold.
    Violated(Violation),
}

/// What has been seen so far.
#[derive(Debug)]
pub(super) struct Seen {
    /// The current objects.
    pub(super) world: World,
    /// What happened.
    pub(super) timeline: Timeline,
    /// Grows with every change that means something.
    pub(super) changes: u64,
    /// Grows whenever anything was heard.
    pub(super) revision: u64,
    /// The newest version that each watch has delivered.
    pub(super) versions: BTreeMap<Scope, u64>,
    /// What is watched.
    pub(super) watched: BTreeMap<Scope, Resource>,
    tracker: Tracker,
    violation: Option<Violation>,
}

/// Watches and remembers. Dropping it ends every watch.
pub(super) struct Recorder {
    shared: Arc<Shared>,
    tasks: TaskTracker,
    stop: CancellationToken,
}

struct Shared {
    client: Client,
    namespace: String,
    kinds: Kinds,
    started: Instant,
    seen: Mutex<Seen>,
    revision: watch::Sender<u64>,
}

impl Recorder {
    /// Starts watching. Kinds that no server knows yet are watched as soon as their definition is established; for all
    /// others the first complete list has been seen when this returns.
    pub(super) async fn start(
        client: Client,
        namespace: &str,
        kinds: Kinds,
        watched: WatchedKinds,
        never: Vec<Never>,
        deadline: Instant,
    ) -> Result<Self, Waited> {
        let seen = Seen {
            world: World::default(),
            timeline: Timeline::default(),
            changes: 0,
            revision: 0,
            versions: BTreeMap::new(),
            watched: BTreeMap::new(),
            tracker: Tracker::new(never, namespace),
            violation: None,
        };
        let shared = Arc::new(Shared {
            client,
            namespace: namespace.to_owned(),
            kinds,
            started: Instant::now(),
            seen: Mutex::new(seen),
            revision: watch::Sender::new(0),
        });
        let recorder = Self {
            shared,
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
        };
        let (mut known, unknown): (WatchedKinds, WatchedKinds) = watched
            .into_iter()
            .partition(|(kind, _)| recorder.shared.kinds.resolve(kind, &World::default()).is_some());
        if !unknown.is_empty() {
            let definitions = "CustomResourceDefinition".parse::<KindName>().expect("a kind");
            known.insert((definitions.with_api_version("apiextensions.k8s.io/v1"), None));
        }
        let scopes: BTreeSet<Scope> = known.iter().filter_map(|kind| recorder.watch(kind)).collect();
        recorder
            .wait(deadline, |seen| {
                scopes
                    .iter()
                    .all(|scope| seen.versions.contains_key(scope))
                    .then_some(())
            })
            .await?;
        recorder.watch_when_defined(unknown);
        Ok(recorder)
    }

    /// The resource of a kind, as far as it is known by now.
    pub(super) fn resolve(&self, kind: &KindName) -> Option<Resource> {
        self.shared.kinds.resolve(kind, &self.shared.seen().world)
    }

    /// Looks at what has been seen.
    pub(super) fn look<T>(&self, look: impl FnOnce(&Seen) -> T) -> T {
        look(&self.shared.seen())
    }

    /// Waits until `check` finds something, looking whenever something changed.
    pub(super) async fn wait<T>(
        &self,
        deadline: Instant,
        mut check: impl FnMut(&Seen) -> Option<T>,
    ) -> Result<T, Waited> {
        let mut revision = self.shared.revision.subscribe();
        loop {
            revision.borrow_and_update();
            {
                let seen = self.shared.seen();
                if let Some(violation) = &seen.violation {
                    return Err(Waited::Violated(violation.clone()));
                }
                if let Some(found) = check(&seen) {
                    return Ok(found);
                }
            }
            let changed = tokio::time::timeout_at(deadline, revision.changed()).await;
            match changed {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Err(Waited::TooLong),
            }
        }
    }

    /// A step begins.
    pub(super) fn step_started(&self, step: &str) {
        let mut seen = self.shared.seen();
        seen.tracker.step_started(step);
        seen.timeline
            .note(self.shared.started.elapsed(), format!("step: {step}"));
    }

    /// A step has finished.
    pub(super) fn step_finished(&self, step: &str) -> Result<(), Violation> {
        let mut seen = self.shared.seen();
        let seen = &mut *seen;
        let violation = seen.tracker.step_finished(step, &seen.world);
        seen.violation = seen.violation.take().or(violation);
        seen.violation.clone().map_or(Ok(()), Err)
    }

    /// The scenario is over: whatever happens from now on breaks no statement.
    pub(super) fn release_statements(&self) {
        let mut seen = self.shared.seen();
        seen.tracker = Tracker::new(Vec::new(), &self.shared.namespace);
        seen.violation = None;
    }

    /// Ends every watch and waits until they have ended.
    pub(super) async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }

    /// Watches a kind, if it is known by now; says which scope that is.
    fn watch(&self, (kind, namespace): &(KindName, Option<String>)) -> Option<Scope> {
        let resource = self.resolve(kind)?;
        let scope = self.shared.scope(&resource, namespace.as_deref());
        self.shared.watch_once(resource, &scope, &self.tasks, &self.stop);
        Some(scope)
    }

    fn watch_when_defined(&self, mut unknown: WatchedKinds) {
        if unknown.is_empty() {
            return;
        }
        let (shared, tasks, stop) = (Arc::clone(&self.shared), self.tasks.clone(), self.stop.clone());
        let follow_definitions = async move {
            let mut revision = shared.revision.subscribe();
            loop {
                revision.borrow_and_update();
                let defined: Vec<_> = {
                    let seen = shared.seen();
                    let resolve = |kind: &KindName| shared.kinds.resolve(kind, &seen.world);
                    unknown
                        .iter()
                        .filter_map(|entry| Some((entry.clone(), resolve(&entry.0)?)))
                        .collect()
                };
                for (entry, resource) in defined {
                    let scope = shared.scope(&resource, entry.1.as_deref());
                    unknown.remove(&entry);
                    shared.watch_once(resource, &scope, &tasks, &stop);
                }
                if unknown.is_empty() || revision.changed().await.is_err() {
                    return;
                }
            }
        };
        self.tasks
            .spawn(self.stop.clone().run_until_cancelled_owned(follow_definitions));
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn scope(&self, resource: &Resource, namespace: Option<&str>) -> Scope {
        let namespace = if resource.namespaced {
            namespace.unwrap_or(&self.namespace)
        } else {
            ""
        };
        Scope {
            kind: resource.api.kind.clone(),
            group: resource.api.group.clone(),
            namespace: namespace.to_owned(),
        }
    }

    /// Watches a scope unless that is done already: two watches of one scope would overtake each other.
    fn watch_once(self: &Arc<Self>, resource: Resource, scope: &Scope, tasks: &TaskTracker, stop: &CancellationToken) {
        if self.seen().watched.insert(scope.clone(), resource.clone()).is_none() {
            let following = follow(Arc::clone(self), resource, scope.clone());
            tasks.spawn(stop.clone().run_until_cancelled_owned(following));
        }
    }

    /// Folds changes in and wakes everybody who waits.
    fn observe(&self, scope: &Scope, version: Option<u64>, fold: impl FnOnce(&mut World) -> Vec<Change>) {
        {
            let mut seen = self.seen();
            let seen = &mut *seen;
            let changes = fold(&mut seen.world);
            let before = seen.timeline.entries().len();
            for change in &changes {
                seen.timeline.record(self.started.elapsed(), change);
            }
            let meant = |entry: &super::timeline::Entry| match &entry.event {
                super::timeline::Event::Change { verb, fields, .. } => *verb != Verb::Modified || !fields.is_empty(),
                super::timeline::Event::Note(_) => false,
            };
            seen.changes += seen.timeline.entries()[before..]
                .iter()
                .filter(|entry| meant(entry))
                .count() as u64;
            if seen.violation.is_none() && !changes.is_empty() {
                seen.violation = seen.tracker.observe(&changes, &seen.world);
            }
            let newest = seen.versions.entry(scope.clone()).or_default();
            *newest = version.unwrap_or_default().max(*newest);
            seen.revision += 1;
        }
        self.revision.send_modify(|revision| *revision += 1);
    }
}

/// Lists and watches one scope for ever. A failed request is tried again, soon at first and then once a second.
async fn follow(shared: Arc<Shared>, resource: Resource, scope: Scope) {
    let api: Api<DynamicObject> = if resource.namespaced {
        Api::namespaced_with(shared.client.clone(), &scope.namespace, &resource.api)
    } else {
        Api::all_with(shared.client.clone(), &resource.api)
    };
    let mut events = watcher(api, watcher::Config::default()).boxed();
    let mut listed = Vec::new();
    let mut pause = Duration::from_millis(50);
    loop {
        let event = match events.try_next().await {
            Ok(Some(event)) => event,
            Ok(None) => return,
            Err(_) => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(Duration::from_secs(1));
                continue;
            }
        };
        pause = Duration::from_millis(50);
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(object) => listed.push((scope.key(&object.name_any()), value(object))),
            watcher::Event::InitDone => {
                let listed: Vec<(ObjectKey, Value)> = std::mem::take(&mut listed);
                let newest = listed.iter().filter_map(|(_, object)| world::version(object)).max();
                shared.observe(&scope, newest, |world| world.replace(&scope, listed));
            }
            watcher::Event::Apply(object) => {
                let (key, object) = (scope.key(&object.name_any()), value(object));
                shared.observe(&scope, world::version(&object), |world| world.apply(key, object));
            }
            watcher::Event::Delete(object) => {
                let (key, object) = (scope.key(&object.name_any()), value(object));
                shared.observe(&scope, world::version(&object), |world| world.delete(&key));
            }
        }
    }
}

/// The object as a plain value, without the bookkeeping of field owners, which nobody looks at.
fn value(mut object: DynamicObject) -> Value {
    object.metadata.managed_fields = None;
    serde_json::to_value(object).expect("an object that came as JSON goes back to JSON")
}
