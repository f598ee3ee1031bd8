//! Claims of a gang before its pods are bound.
//!
//! Owns the writes to claims and volumes, and the wait for the controllers that act on them: a node is selected for claims
//! whose volumes are made, a volume is reserved for a claim that gets one that exists, and pods are bound only when all
//! claims are and their volumes can be used where the pods go. Each write is on condition of what was read, so one that was
//! done before a crash is found and not repeated. What does not come about in time is taken back where it can be: the
//! selection of a node, and the stored plan. Decides nothing itself (`model/volumes/progress.rs` does). Never polls.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use coppice_api::names::annotations;
use coppice_runtime::cache::{Meta, ObjectKey};
use coppice_runtime::events::EventKind;
use coppice_runtime::write::{Patch, Precondition, WriteError};
use futures::future::join_all;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::{debug, warn};

use crate::actions::Actions;
use crate::engine::Commit;
use crate::model::GangId;
use crate::model::volumes::{ClaimRecord, Provision, SELECTED_NODE, Step, VolumeRecord, next_step};

/// How long nothing is said of a claim that is not bound.
const SILENCE: Duration = Duration::from_secs(1);
/// How long to wait after a write that failed.
const PAUSE: Duration = Duration::from_millis(500);

impl Actions {
    /// Asks for the volumes of a commit and waits until its claims are bound. An error says why they were not, unless the gang should be planned again at
    /// once.
    pub(crate) async fn provide(&self, commit: &Commit) -> Result<(), Option<String>> {
        if commit.volumes.is_empty() {
            return Ok(());
        }
        let deadline = Instant::now() + self.volume_wait;
        let mut changes = self.world.storage.subscribe();
        let mut selected = BTreeSet::new();
        let mut report_at = Some(Instant::now() + SILENCE);
        loop {
            changes.borrow_and_update();
            let mut waiting = Vec::new();
            let mut failed = false;
            for provision in &commit.volumes {
                let (claim, volume) = self.current(provision);
                let was_selected = selected.contains(&provision.claim);
                let done = match next_step(provision, claim.as_ref(), volume.as_ref(), was_selected) {
                    Step::Done => continue,
                    Step::Wait => Ok(()),
                    Step::GiveUp(problem) => {
                        self.withdraw(commit).await;
                        return Err(Some(problem));
                    }
                    Step::Select => self.select(provision, claim.as_ref()).await,
                    Step::Reserve => self.reserve(provision, volume.as_ref()).await,
                };
                if claim.is_some_and(|claim| claim.selected_node.is_some()) {
                    selected.insert(provision.claim.clone());
                }
                waiting.push(provision);
                if let Err(error) = done {
                    debug!(claim = %provision.claim, %error, "could not ask for the volume of a claim");
                    // A conflict is read again; anything else is tried again after a pause.
                    failed |= !matches!(error, WriteError::Conflict(_));
                    let _read = self.writer.read(&self.world.claims, &provision.claim).await;
                }
            }
            if let Some(pod) = self.gone(commit) {
                debug!(%pod, "a pod is gone while its claims were not bound");
                self.withdraw(commit).await;
                return Err(None);
            }
            if waiting.is_empty() {
                return self.within_reach(commit);
            }
            let names: Vec<&str> = waiting
                .iter()
                .take(3)
                .map(|provision| provision.what.as_str())
                .collect();
            let problem = format!("{} was not bound within {:?}", names.join(", "), self.volume_wait);
            let pause = async {
                match failed {
                    true => tokio::time::sleep(PAUSE).await,
                    false => std::future::pending().await,
                }
            };
            let report = async {
                match report_at {
                    Some(at) => tokio::time::sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                _ = changes.changed() => {}
                () = pause => {}
                () = report => {
                    report_at = None;
                    self.report_waiting(commit, &waiting).await;
                }
                () = tokio::time::sleep_until(deadline) => {
                    warn!(gang = %commit.gang, problem, "claims were not bound");
                    self.withdraw(commit).await;
                    return Err(Some(problem));
                }
            }
        }
    }

    fn current(&self, provision: &Provision) -> (Option<ClaimRecord>, Option<VolumeRecord>) {
        let claim = self.world.claims.latest(&provision.claim);
        let name = provision.promise.volume.as_ref();
        let volume = name.and_then(|name| self.world.volumes.latest(&ObjectKey::new("", name.clone())));
        (
            claim.and_then(|claim| ClaimRecord::of(&claim)),
            volume.and_then(|volume| VolumeRecord::of(&volume)),
        )
    }

    async fn select(&self, provision: &Provision, claim: Option<&ClaimRecord>) -> Result<(), WriteError> {
        let Some(claim) = claim else { return Ok(()) };
        self.annotate(claim, json!(&*provision.promise.node)).await
    }

    async fn annotate(&self, claim: &ClaimRecord, node: Value) -> Result<(), WriteError> {
        let patch = Patch::Merge(json!({"metadata": {"annotations": {SELECTED_NODE: node}}}));
        let known = Precondition::version(&claim.meta);
        let done = self.writer.patch(&self.world.claims, &claim.meta.key, &known, patch);
        done.await.map(drop)
    }

    async fn reserve(&self, provision: &Provision, volume: Option<&VolumeRecord>) -> Result<(), WriteError> {
        let Some(volume) = volume else { return Ok(()) };
        let key = &provision.claim;
        let reference = json!({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": &*key.namespace, "name": &*key.name, "uid": &*provision.uid,
        });
        let patch = Patch::Merge(json!({
            // The controller that binds takes the reservation back when the claim goes.
            "metadata": {"annotations": {"pv.kubernetes.io/bound-by-controller": "yes"}},
            "spec": {"claimRef": reference},
        }));
        let known = Precondition::version(&volume.meta);
        let done = self.writer.patch(&self.world.volumes, &volume.meta.key, &known, patch);
        done.await.map(drop)
    }

    /// A pod of the commit that is gone or going.
    fn gone<'a>(&self, commit: &'a Commit) -> Option<&'a ObjectKey> {
        let mut pods = commit.bindings.iter().map(|bind| &bind.pod);
        let gone = pods.find(|known: &&Meta| {
            let pod = self.world.pods.latest(&known.key);
            pod.is_none_or(|pod| pod.meta.uid != known.uid || !pod.counts())
        });
        gone.map(|pod| &pod.key)
    }

    /// Whether the volumes of all pods can be used where the pods go. What was made elsewhere is planned with as it is.
    fn within_reach(&self, commit: &Commit) -> Result<(), Option<String>> {
        for bind in &commit.bindings {
            let node = self.world.nodes.latest(&ObjectKey::new("", bind.node.as_str()));
            let pod = self.world.pods.latest(&bind.pod.key);
            let (Some(node), Some(pod)) = (node, pod) else {
                return Err(None);
            };
            for volume in &pod.volumes {
                let claim = ObjectKey::new(bind.pod.key.namespace.clone(), volume.claim.clone());
                let claim = self
                    .world
                    .claims
                    .latest(&claim)
                    .and_then(|claim| ClaimRecord::of(&claim));
                let name = claim.and_then(|claim| claim.volume);
                let bound = name.and_then(|name| self.world.volumes.latest(&ObjectKey::new("", name)));
                let bound = bound.and_then(|volume| VolumeRecord::of(&volume));
                if !bound.is_some_and(|bound| bound.reaches(&node)) {
                    debug!(pod = %bind.pod.key, node = bind.node, claim = %volume.claim, "the volume is elsewhere");
                    return Err(None);
                }
            }
        }
        Ok(())
    }

    /// Takes back what can be taken back: the selection of nodes for claims that were not bound, and the stored plan.
    async fn withdraw(&self, commit: &Commit) {
        let nodes: BTreeSet<&str> = commit.bindings.iter().map(|bind| bind.node.as_str()).collect();
        for provision in &commit.volumes {
            let (Some(claim), _) = self.current(provision) else {
                continue;
            };
            let ours = claim.selected_node.as_deref().is_some_and(|node| nodes.contains(node));
            if claim.meta.uid != provision.uid || claim.volume.is_some() || !ours {
                continue;
            }
            if let Err(error) = self.annotate(&claim, Value::Null).await {
                debug!(claim = %provision.claim, %error, "could not take back the selected node of a claim");
            }
        }
        let GangId::Gang(key) = &commit.gang else { return };
        let Some(meta) = self.world.gangs.latest(key).and_then(|gang| Meta::of(&*gang)) else {
            return;
        };
        let patch = Patch::Merge(json!({"metadata": {"annotations": {annotations::PLACEMENT_PLAN: Value::Null}}}));
        let known = Precondition::uid(&meta);
        if let Err(error) = self.writer.patch(&self.world.gangs, key, &known, patch).await {
            debug!(gang = %key, %error, "could not take back the plan of a gang");
        }
    }

    /// Says of the pods, and of the gang in an event, which claims they wait for.
    async fn report_waiting(&self, commit: &Commit, waiting: &[&Provision]) {
        let mut by_node: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for provision in waiting.iter().take(3) {
            by_node
                .entry(&provision.promise.node)
                .or_default()
                .push(&provision.what);
        }
        let each = by_node
            .into_iter()
            .map(|(node, claims)| format!("{} for node {node}", claims.join(", ")));
        let each: Vec<String> = each.collect();
        let text = format!(
            "VolumeNotReady: waits until {} is bound, {:?} at most",
            each.join(", "),
            self.volume_wait
        );
        if let Some(target) = self.reference(&commit.gang) {
            self.recorder
                .record(&target, EventKind::Normal, "WaitForVolumes", &text);
        }
        join_all(commit.bindings.iter().map(|bind| self.tell(&bind.pod, &text))).await;
    }
}
