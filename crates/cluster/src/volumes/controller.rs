//! The shell of binder and provisioner.
//!
//! Owns the requests. Decides nothing before everything has been listed once; its own writes are in the cache when it
//! decides again, and each is on condition of what was read.

use super::decide::{Write, bind, ephemeral, keep, provision, reclaim};
use super::view::{Claim, ClaimObject, Class, Pod, PodObject, Volume, VolumeObject};
use crate::controller::{Action, Controller, Shell, unless_changed, writer};
use crate::node_view::Nodes;
use crate::view::{Reduced, resource};
use coppice_runtime::cache::reflect::{self, reflect};
use coppice_runtime::cache::{Cache, Index, Kind, ObjectKey};
use coppice_runtime::clock::SharedClock;
use coppice_runtime::queue::{Priority, Queue};
use coppice_runtime::write::{DeleteOptions, Patch, Precondition, WriteError, Writer};
use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod as ApiPod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Client;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

const MANAGER: &str = "coppice-volumes";

/// Which parts run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts {
    pub(crate) binder: bool,
    pub(crate) provisioner: bool,
}

type Claims = Kind<Reduced<ClaimObject, Claim>>;
type Volumes = Kind<Reduced<VolumeObject, Volume>>;
type Classes = Kind<Reduced<StorageClass, Class>>;
type Pods = Kind<Reduced<PodObject, Pod>>;

/// Keeps volumes until it is stopped. `nodes` is fed by the caller.
pub(crate) fn run(
    client: Client,
    nodes: &Nodes,
    parts: Parts,
    concurrency: usize,
    clock: &SharedClock,
    stop: CancellationToken,
) -> BoxFuture<'static, ()> {
    let cache = Cache::default();
    let claims: Claims = cache.kind(resource::<PersistentVolumeClaim>(), Reduced::new(Claim::from_object));
    let volumes: Volumes = cache.kind(resource::<PersistentVolume>(), Reduced::new(Volume::from_object));
    let classes: Classes = cache.kind(resource::<StorageClass>(), Reduced::new(Class::from_object));
    let pods: Pods = cache.kind(resource::<ApiPod>(), Reduced::new(Pod::from_object));
    let keeper = Keeper {
        users: pods.index(|pod: &Pod, emit| {
            let namespace = &pod.meta.key.namespace;
            pod.claims
                .iter()
                .for_each(|claim| emit(ObjectKey::new(namespace.clone(), claim.clone())));
        }),
        requests: Requests {
            writer: writer(client.clone(), MANAGER, concurrency),
            claims: claims.clone(),
            volumes: volumes.clone(),
        },
        classes: classes.clone(),
        pods: pods.clone(),
        nodes: nodes.clone(),
        parts,
        cache,
        knows_all: false,
    };
    let shell = Shell::new(keeper, concurrency, clock);
    shell.follow(&claims, |keeper, change, _, queue| {
        queue.mark(Key::Claim(change.key.clone()), Priority::High);
        let named = change
            .old
            .iter()
            .chain(&change.new)
            .filter_map(|claim| claim.volume.clone());
        named.for_each(|volume| queue.mark(Key::Volume(ObjectKey::new("", volume)), Priority::High));
        keeper.mark_users(&change.key, queue);
        if change.new.is_none() {
            keeper.mark_volumes_of(&change.key, queue);
        }
    });
    shell.follow(&volumes, |keeper, change, _, queue| {
        queue.mark(Key::Volume(change.key.clone()), Priority::High);
        match change.new.as_ref().and_then(|volume| volume.claim.as_ref()) {
            Some((claim, _)) => queue.mark(Key::Claim(claim.clone()), Priority::High),
            None => keeper.mark_unbound(queue),
        }
    });
    shell.follow(&classes, |keeper, _, _, queue| keeper.mark_unbound(queue));
    shell.follow(&pods, |_, change, _, queue| {
        if let Some(pod) = change.new.as_ref().filter(|pod| !pod.claims.is_empty()) {
            queue.mark(Key::Pod(change.key.clone()), Priority::High);
            for claim in pod.claims.iter().filter(|_| pod.node.is_some()) {
                let claim = ObjectKey::new(change.key.namespace.clone(), claim.clone());
                queue.mark(Key::Claim(claim), Priority::High);
            }
        }
    });
    let options = reflect::Options::default;
    // Boxed: these futures are large, and the starter of all components holds them all.
    let watch_claims = reflect(client.clone(), claims.clone(), options(), stop.clone()).boxed();
    let watch_volumes = reflect(client.clone(), volumes.clone(), options(), stop.clone()).boxed();
    let watch_classes = reflect(client.clone(), classes.clone(), options(), stop.clone()).boxed();
    let watch_pods = reflect(client, pods.clone(), options(), stop.clone()).boxed();
    let (known, nodes) = (Arc::clone(&shell), nodes.clone());
    let all_known = async move {
        tokio::join!(
            claims.wait_synced(),
            volumes.wait_synced(),
            classes.wait_synced(),
            pods.wait_synced(),
            nodes.wait_synced()
        );
        known.with(|keeper, _, queue| keeper.all_known(queue));
    };
    let watches = async move {
        tokio::join!(watch_claims, watch_volumes, watch_classes, watch_pods, all_known);
    };
    shell.run(watches, stop).boxed()
}

/// What is worked on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Claim(ObjectKey),
    Volume(ObjectKey),
    /// The ephemeral volumes of a pod.
    Pod(ObjectKey),
}

struct Keeper {
    requests: Requests,
    classes: Classes,
    pods: Pods,
    nodes: Nodes,
    users: Index<Pod, ObjectKey>,
    parts: Parts,
    cache: Cache,
    /// Whether everything has been listed once.
    knows_all: bool,
}

impl Keeper {
    fn all_known(&mut self, queue: &Queue<Key>) {
        self.knows_all = true;
        let moment = self.cache.moment();
        let claims = self.requests.claims.keys(&moment).into_iter().map(Key::Claim);
        let volumes = self.requests.volumes.keys(&moment).into_iter().map(Key::Volume);
        let pods = self.pods.keys(&moment).into_iter().map(Key::Pod);
        for key in claims.chain(volumes).chain(pods) {
            queue.mark(key, Priority::High);
        }
    }

    fn mark_users(&self, claim: &ObjectKey, queue: &Queue<Key>) {
        for pod in self.users.get(&self.cache.moment(), claim) {
            if !pod.ephemeral.is_empty() {
                queue.mark(Key::Pod(pod.meta.key.clone()), Priority::High);
            }
        }
    }

    fn mark_volumes_of(&self, claim: &ObjectKey, queue: &Queue<Key>) {
        for volume in self.requests.volumes.all(&self.cache.moment()) {
            if volume.claim.as_ref().is_some_and(|(key, _)| key == claim) {
                queue.mark(Key::Volume(volume.meta.key.clone()), Priority::High);
            }
        }
    }

    fn mark_unbound(&self, queue: &Queue<Key>) {
        for claim in self.requests.claims.all(&self.cache.moment()) {
            if claim.volume.is_none() {
                queue.mark(Key::Claim(claim.meta.key.clone()), Priority::High);
            }
        }
    }

    fn of_claim(&self, claim: &Claim) -> Vec<Write> {
        let moment = self.cache.moment();
        let class = claim.class.as_ref().filter(|name| !name.is_empty());
        let class = class.and_then(|name| self.classes.get(&moment, &ObjectKey::new("", name.as_str())));
        let mut writes = Vec::new();
        if self.parts.binder {
            let classes = self.classes.all(&moment);
            let default = classes
                .iter()
                .filter(|class| class.is_default)
                .max_by_key(|class| class.name.clone());
            let volumes = self.requests.volumes.all(&moment);
            let users = self.users.get(&moment, &claim.meta.key);
            let consumer = users.iter().find_map(|pod| pod.node.as_deref());
            let default = default.map(|class| &**class);
            writes = bind(claim, class.as_deref(), default, &volumes, consumer);
        }
        if self.parts.provisioner && writes.is_empty() {
            let selected = claim.selected_node.as_deref();
            let node = selected.and_then(|name| self.nodes.latest(&ObjectKey::new("", name)));
            writes = provision(claim, class.as_deref(), node.as_ref().map(|node| &node.labels));
        }
        writes
    }
}

impl Controller for Keeper {
    type Key = Key;
    type Outcome = ();
    const NAME: &'static str = "volumes";

    fn begin(&mut self, key: &Key, _now: Timestamp, _queue: &Queue<Key>) -> Option<Action<()>> {
        if !self.knows_all {
            return None;
        }
        let (claim, writes) = match key {
            Key::Claim(key) => {
                let claim = self.requests.claims.latest(key)?;
                let writes = self.of_claim(&claim);
                (Some(claim), writes)
            }
            Key::Volume(key) => {
                let volume = self.requests.volumes.latest(key)?;
                let claim = volume
                    .claim
                    .as_ref()
                    .and_then(|(key, _)| self.requests.claims.latest(key));
                let mut writes = match self.parts.binder {
                    true => keep(&volume, claim.as_deref()),
                    false => Vec::new(),
                };
                if self.parts.provisioner {
                    writes.extend(reclaim(&volume));
                }
                (None, writes)
            }
            Key::Pod(key) => {
                let pod = self.pods.latest(key)?;
                let exists = |name: &str| {
                    let key = ObjectKey::new(key.namespace.clone(), name);
                    self.requests.claims.latest(&key).is_some()
                };
                let writes = match self.parts.binder {
                    true => ephemeral(&pod, exists),
                    false => Vec::new(),
                };
                (None, writes)
            }
        };
        (!writes.is_empty()).then(|| self.requests.carry_out(claim, writes))
    }
}

/// What requests are made with.
#[derive(Clone)]
struct Requests {
    writer: Writer,
    claims: Claims,
    volumes: Volumes,
}

impl Requests {
    /// Carries writes out one after the other. One that was overtaken ends them: the watch brings the next turn.
    fn carry_out(&self, claim: Option<Arc<Claim>>, writes: Vec<Write>) -> Action<()> {
        let requests = self.clone();
        async move {
            let mut claim = claim;
            for write in writes {
                let done = requests.carry_out_one(&mut claim, write).await;
                if unless_changed(done)?.is_none() {
                    break;
                }
            }
            Ok(())
        }
        .boxed()
    }

    async fn carry_out_one(&self, claim: &mut Option<Arc<Claim>>, write: Write) -> Result<(), WriteError> {
        let Self {
            writer,
            claims,
            volumes,
        } = self;
        let known = |name: &Arc<str>| volumes.latest(&ObjectKey::new("", name.clone()));
        match (write, claim.clone()) {
            (Write::Claim(patch), Some(of)) => {
                let condition = Precondition::version(&of.meta);
                *claim = Some(
                    writer
                        .patch(claims, &of.meta.key, &condition, Patch::Merge(patch))
                        .await?,
                );
            }
            (Write::ClaimStatus(status), Some(of)) => {
                let condition = Precondition::version(&of.meta);
                let patch = Patch::Merge(json!({"status": status}));
                *claim = Some(writer.patch_status(claims, &of.meta.key, &condition, patch).await?);
            }
            (Write::Claim(_) | Write::ClaimStatus(_), None) => {}
            (Write::Volume(volume, patch), _) => {
                let condition = Precondition::version(&volume);
                writer
                    .patch(volumes, &volume.key, &condition, Patch::Merge(patch))
                    .await?;
            }
            (Write::VolumeStatus(name, status), _) => {
                let Some(volume) = known(&name) else { return Ok(()) };
                let condition = Precondition::version(&volume.meta);
                let patch = Patch::Merge(json!({"status": status}));
                writer
                    .patch_status(volumes, &volume.meta.key, &condition, patch)
                    .await?;
            }
            (Write::MakeVolume(object), _) => drop(writer.create(volumes, None, &object).await?),
            (Write::MakeClaim(object), _) => {
                let namespace = object["metadata"]["namespace"].as_str().map(str::to_owned);
                drop(
                    writer
                        .create::<_>(claims, namespace.as_deref(), &object as &Value)
                        .await?,
                );
            }
            (Write::DeleteVolume(name), _) => {
                let Some(volume) = known(&name) else { return Ok(()) };
                writer.delete(volumes, &volume.meta, DeleteOptions::default()).await?;
            }
        }
        Ok(())
    }
}
