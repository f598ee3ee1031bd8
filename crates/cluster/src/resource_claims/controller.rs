//! The shell of the claim controller.
//!
//! Owns the requests: claims made from templates, the statuses of pods that name them, reservations that have no pod any more.
//! Decides nothing before everything has been listed once; its own writes are in the cache when it decides again.

use super::pod::{Needs, Pod, Pods, Tidying, needs, tidy};
use super::view::{Claim, Claims, Consumer, Devices, consumers};
use crate::controller::{Action, Controller, Shell, unless_changed, writer};
use crate::view::{Reduced, resource};
use coppice_runtime::cache::reflect::{self, reflect};
use coppice_runtime::cache::{Cache, Index, Interner, Kind, Meta, ObjectKey};
use coppice_runtime::clock::SharedClock;
use coppice_runtime::queue::{Priority, Queue};
use coppice_runtime::write::{DeleteOptions, Patch, Precondition, WriteError, Writer};
use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod as ApiPod;
use k8s_openapi::api::resource::v1::ResourceClaimTemplate;
use kube::Client;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const MANAGER: &str = "coppice-resource-claims";

/// Keeps claims until told to stop. `devices` is fed by the caller.
pub(crate) fn run(
    client: Client,
    devices: &Devices,
    concurrency: usize,
    clock: &SharedClock,
    stop: CancellationToken,
) -> impl Future<Output = ()> + Send + use<> {
    let cache = Cache::default();
    let pods: Pods = cache.kind(resource::<ApiPod>(), Reduced::new(Pod::from_object));
    let templates: Templates = cache.kind(
        resource::<ResourceClaimTemplate>(),
        Reduced::new(|_: &Meta, object: TemplateObject, _: &Interner| object.spec),
    );
    let claims = devices.claims.clone();
    let keeper = Keeper {
        pods_wanting: pods.index(|pod: &Pod, emit| {
            for template in pod
                .claims
                .iter()
                .filter_map(|entry| entry.resource_claim_template_name.as_deref())
            {
                emit(ObjectKey::new(pod.meta.key.namespace.clone(), template));
            }
        }),
        claims_of: claims.index(|claim: &Claim, emit| {
            claim.pod.iter().for_each(|uid| emit(uid.clone()));
            for consumer in &claim.reserved_for {
                emit(consumer.uid.as_str().into());
            }
        }),
        pod_by_uid: pods.index(|pod: &Pod, emit| emit(pod.meta.uid.clone())),
        requests: Requests {
            writer: writer(client.clone(), MANAGER, concurrency),
            pods: pods.clone(),
            claims: claims.clone(),
        },
        templates: templates.clone(),
        cache,
        knows_all: false,
    };
    let shell = Shell::new(keeper, concurrency, clock);
    shell.follow(&pods, |keeper, change, _, queue| {
        queue.mark(Key::Pod(change.key.clone()), Priority::High);
        for pod in change.old.iter().chain(&change.new) {
            keeper.mark_claims(&pod.meta.uid, queue);
        }
    });
    shell.follow(&templates, |keeper, change, _, queue| {
        for pod in keeper.pods_wanting.get(&keeper.cache.moment(), &change.key) {
            queue.mark(Key::Pod(pod.meta.key.clone()), Priority::High);
        }
    });
    shell.follow(&claims, |keeper, change, _, queue| {
        queue.mark(Key::Claim(change.key.clone()), Priority::High);
        for claim in change.old.iter().chain(&change.new) {
            keeper.mark_pod(claim, queue);
        }
    });
    let options = reflect::Options::default;
    let watch_pods = reflect(client.clone(), pods.clone(), options(), stop.clone());
    let watch_templates = reflect(client, templates.clone(), options(), stop.clone());
    let known = Arc::clone(&shell);
    let all_known = async move {
        tokio::join!(pods.wait_synced(), templates.wait_synced(), claims.wait_synced());
        known.with(|keeper, _, queue| keeper.all_known(queue));
    };
    let watches = async move {
        tokio::join!(watch_pods, watch_templates, all_known);
    };
    shell.run(watches, stop)
}

#[derive(Deserialize)]
struct TemplateObject {
    #[serde(default)]
    spec: Value,
}

/// The templates, by what they say of a claim.
type Templates = Kind<Reduced<TemplateObject, Value>>;

/// What is worked on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    /// The claims of a pod.
    Pod(ObjectKey),
    /// The reservations of a claim.
    Claim(ObjectKey),
}

struct Keeper {
    requests: Requests,
    cache: Cache,
    templates: Templates,
    pods_wanting: Index<Pod, ObjectKey>,
    pod_by_uid: Index<Pod, Arc<str>>,
    /// By UID of a pod: the claims that were made for it or are reserved for it.
    claims_of: Index<Claim, Arc<str>>,
    /// Whether everything has been listed once.
    knows_all: bool,
}

impl Keeper {
    fn all_known(&mut self, queue: &Queue<Key>) {
        self.knows_all = true;
        let moment = self.cache.moment();
        for key in self.requests.pods.keys(&moment) {
            queue.mark(Key::Pod(key), Priority::High);
        }
        for key in self.requests.claims.keys(&moment) {
            queue.mark(Key::Claim(key), Priority::High);
        }
    }

    fn mark_claims(&self, pod_uid: &Arc<str>, queue: &Queue<Key>) {
        for claim in self.claims_of.get(&self.cache.moment(), pod_uid) {
            queue.mark(Key::Claim(claim.meta.key.clone()), Priority::High);
        }
    }

    fn mark_pod(&self, claim: &Claim, queue: &Queue<Key>) {
        let owner = claim.pod.as_ref().and_then(|uid| self.pod(uid));
        if let Some(pod) = owner {
            queue.mark(Key::Pod(pod.meta.key.clone()), Priority::High);
        }
    }

    fn pod(&self, uid: &Arc<str>) -> Option<Arc<Pod>> {
        self.pod_by_uid.get(&self.cache.moment(), uid).into_iter().next()
    }
}

impl Controller for Keeper {
    type Key = Key;
    type Outcome = ();
    const NAME: &'static str = "resource claims";

    fn begin(&mut self, key: &Key, _now: Timestamp, _queue: &Queue<Key>) -> Option<Action<()>> {
        if !self.knows_all {
            return None;
        }
        match key {
            Key::Pod(key) => {
                let pod = self.requests.pods.latest(key)?;
                let template = |name: &str| self.templates.latest(&ObjectKey::new(key.namespace.clone(), name));
                let needs = needs(&pod, |key| self.requests.claims.latest(key), template);
                (needs != Needs::default()).then(|| self.requests.fulfil(pod, needs))
            }
            Key::Claim(key) => {
                let claim = self.requests.claims.latest(key)?;
                let owner = claim.pod.as_ref().and_then(|uid| self.pod(uid));
                let pod = |name: &str| self.requests.pods.latest(&ObjectKey::new(key.namespace.clone(), name));
                match tidy(&claim, owner.as_deref(), pod) {
                    Tidying::Nothing => None,
                    Tidying::Release(rest) => Some(self.requests.release(claim, rest)),
                    Tidying::Delete => Some(self.requests.delete(claim)),
                }
            }
        }
    }
}

/// What requests are made with.
#[derive(Clone)]
struct Requests {
    writer: Writer,
    pods: Pods,
    claims: Claims,
}

impl Requests {
    fn fulfil(&self, pod: Arc<Pod>, needs: Needs) -> Action<()> {
        let Self { writer, pods, claims } = self.clone();
        async move {
            let key = &pod.meta.key;
            for claim in &needs.create {
                match writer.create(&claims, Some(&key.namespace), claim).await {
                    // The pod's namespace is being deleted, and the pod with it.
                    Err(WriteError::Forbidden { .. }) => return Ok(()),
                    // A claim of that name that the watch has not reported yet, or that another pod of this name left behind.
                    created => created.map(drop)?,
                }
            }
            if let Some(statuses) = needs.statuses {
                let patch = Patch::Strategic(json!({"status": {"resourceClaimStatuses": statuses}}));
                let known = Precondition::uid(&pod.meta);
                unless_changed(writer.patch_status(&pods, key, &known, patch).await)?;
            }
            for claim in needs.reserve.iter().filter_map(|key| claims.latest(key)) {
                let mut consumers = consumers(&claim.reserved_for);
                consumers.push(json!({"resource": "pods", "name": &*key.name, "uid": &*pod.meta.uid}));
                let patch = Patch::Merge(json!({"status": {"reservedFor": consumers}}));
                let known = Precondition::version(&claim.meta);
                unless_changed(writer.patch_status(&claims, &claim.meta.key, &known, patch).await)?;
            }
            Ok(())
        }
        .boxed()
    }

    fn release(&self, claim: Arc<Claim>, rest: Vec<Consumer>) -> Action<()> {
        let Self { writer, claims, .. } = self.clone();
        async move {
            let mut status = json!({"reservedFor": consumers(&rest)});
            if rest.is_empty() {
                (status["reservedFor"], status["allocation"]) = (Value::Null, Value::Null);
            }
            let patch = Patch::Merge(json!({"status": status}));
            let known = Precondition::version(&claim.meta);
            unless_changed(writer.patch_status(&claims, &claim.meta.key, &known, patch).await)?;
            Ok(())
        }
        .boxed()
    }

    fn delete(&self, claim: Arc<Claim>) -> Action<()> {
        let Self { writer, claims, .. } = self.clone();
        async move {
            unless_changed(writer.delete(&claims, &claim.meta, DeleteOptions::default()).await)?;
            Ok(())
        }
        .boxed()
    }
}
