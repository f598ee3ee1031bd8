//! Carries out decisions.
//!
//! Owns the order of writes of one gang: its plan is stored before the first of its pods is bound or the first victim
//! evicted; bindings go out side by side, each on condition of the pod's uid, which makes a second binding harmless.
//! Whatever fails is reported back and decided anew; nothing is repeated here except a binding whose fate is not known.

use std::time::Duration;

use coppice_api::names::annotations;
use coppice_api::types::PodGang;
use coppice_placement::Reason;
use coppice_runtime::cache::{Meta, ObjectKey};
use coppice_runtime::clock::SharedClock;
use coppice_runtime::events::{EventKind, ObjectReference, Recorder};
use coppice_runtime::write::{DeleteOptions, OwnPart, Patch, Precondition, WriteError, Writer};
use futures::future::join_all;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use serde_json::{Value, json};
use tracing::{debug, error, warn};

use crate::engine::{Bind, Commit, Confirmation, Eviction, Release, Report, message_of, reason_text};
use crate::model::{GangId, PLACED, Rejected, StoredPlan};
use crate::world::World;

/// How often a binding whose fate is not known is looked at.
const TRIES: u32 = 5;
/// How long a gang waits after a write that failed and is not repeated here.
const PAUSE: Duration = Duration::from_millis(200);

/// Carries out decisions.
#[derive(Clone)]
pub(crate) struct Actions {
    pub(crate) world: World,
    pub(crate) writer: Writer,
    pub(crate) recorder: Recorder,
    clock: SharedClock,
    /// How long the claims of a gang may take to be bound.
    pub(crate) volume_wait: Duration,
}

impl Actions {
    pub(crate) fn new(
        world: World,
        writer: Writer,
        recorder: Recorder,
        clock: SharedClock,
        volume_wait: Duration,
    ) -> Self {
        Self {
            world,
            writer,
            recorder,
            clock,
            volume_wait,
        }
    }

    /// Binds the pods of a gang, once their claims are. Returns those that were not bound, and why its volumes failed.
    pub(crate) async fn commit(&self, commit: &Commit) -> (Vec<ObjectKey>, Option<String>) {
        let all = || commit.bindings.iter().map(|bind| bind.pod.key.clone()).collect();
        if let Err(error) = self.store(&commit.gang, commit.store.as_ref()).await {
            warn!(gang = %commit.gang, %error, "the plan was not stored");
            tokio::time::sleep(PAUSE).await;
            return (all(), None);
        }
        if let Err(problem) = self.provide(commit).await {
            return (all(), problem);
        }
        let results = join_all(commit.bindings.iter().map(|bind| self.bind(bind))).await;
        let (mut failed, mut refused) = (Vec::new(), false);
        for (bind, result) in commit.bindings.iter().zip(results) {
            if let Err(error) = result {
                warn!(pod = %bind.pod.key, node = bind.node, %error, "the pod was not bound");
                failed.push(bind.pod.key.clone());
                refused |= matches!(error, WriteError::Fenced(_) | WriteError::Forbidden { .. });
            }
        }
        if refused {
            // We may not: whoever asks again at once gets the same answer.
            tokio::time::sleep(PAUSE).await;
        }
        if failed.is_empty()
            && let Some(target) = self.reference(&commit.gang)
        {
            let message = message_of(commit);
            self.recorder.record(&target, EventKind::Normal, "Scheduled", &message);
        }
        (failed, None)
    }

    /// Tells a gang that it is placed. Returns whether it says so now, or is gone.
    pub(crate) async fn confirm(&self, confirmation: &Confirmation) -> bool {
        let Confirmation { gang, message, score } = confirmation;
        self.say_placed(gang, true, "Placed", message, Some(*score)).await
    }

    async fn store(&self, gang: &GangId, plan: Option<&StoredPlan>) -> Result<(), WriteError> {
        let (GangId::Gang(key), Some(plan)) = (gang, plan) else {
            return Ok(());
        };
        let meta = {
            let moment = self.world.cache.moment();
            let found = self.world.gangs.get(&moment, key);
            found.and_then(|gang| Meta::of(&*gang))
        };
        let meta = meta.ok_or_else(|| WriteError::NotFound(format!("PodGang {key}")))?;
        let patch = json!({"metadata": {"annotations": {annotations::PLACEMENT_PLAN: plan.to_text()}}});
        let condition = Precondition::uid(&meta);
        let done = self
            .writer
            .patch(&self.world.gangs, key, &condition, Patch::Merge(patch));
        done.await.map(drop)
    }

    async fn bind(&self, bind: &Bind) -> Result<(), WriteError> {
        let key = &bind.pod.key;
        let binding = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": &*key.name, "namespace": &*key.namespace, "uid": &*bind.pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": bind.node},
        });
        let mut wait = Duration::from_millis(50);
        let mut tries = 0;
        loop {
            let sent = self.writer.post_subresource(&self.world.pods, key, "binding", &binding);
            let Err(error) = sent.await else { return Ok(()) };
            tries += 1;
            let unknown = match &error {
                WriteError::OutcomeUnknown(_) | WriteError::Unavailable(_) | WriteError::Throttled { .. } => true,
                // Perhaps it was our own binding, whose answer was lost, that came first.
                WriteError::Conflict(_) => tries > 1,
                _ => false,
            };
            if !unknown || tries > TRIES {
                return Err(error);
            }
            tokio::time::sleep(error.retry_after().unwrap_or(wait)).await;
            wait *= 2;
            if let Ok(pod) = self.writer.read(&self.world.pods, key).await
                && pod.meta.uid == bind.pod.uid
                && pod.node.as_deref() == Some(bind.node.as_str())
            {
                return Ok(());
            }
        }
    }

    /// Evicts victims, once the plan that uses their room is stored.
    pub(crate) async fn evict(&self, eviction: &Eviction) {
        if let Err(error) = self.store(&eviction.gang, eviction.store.as_ref()).await {
            warn!(gang = %eviction.gang, %error, "the plan was not stored");
            tokio::time::sleep(PAUSE).await;
            return;
        }
        let whom: Vec<&str> = eviction.victims.keys().map(String::as_str).collect();
        if let Some(target) = self.reference(&eviction.gang) {
            let message = format!("evicting {}", whom.join(", "));
            self.recorder.record(&target, EventKind::Normal, "Preempting", &message);
        }
        let message = format!("evicted for {}, which has a higher priority", eviction.gang);
        let pods = eviction.victims.values().flatten();
        let evictions = pods.map(|pod| async {
            if eviction.protected.contains(&pod.key) {
                self.evict_protected(pod, &message).await;
            } else {
                self.delete(pod, DeleteOptions::default(), "Preempted", &message).await;
            }
        });
        join_all(evictions).await;
    }

    /// Evicts a pod that a disruption budget protects, if the API server agrees.
    async fn evict_protected(&self, pod: &Meta, message: &str) {
        let key = &pod.key;
        let eviction = json!({
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": &*key.name, "namespace": &*key.namespace},
            "deleteOptions": {"preconditions": {"uid": &*pod.uid}},
        });
        let sent = self
            .writer
            .post_subresource(&self.world.pods, key, "eviction", &eviction);
        match sent.await {
            Ok(_) => {
                self.recorder
                    .record(&pod_reference(pod), EventKind::Normal, "Preempted", message);
                // The answer is not the pod: whoever decides next must know that it is ending.
                drop(self.writer.read(&self.world.pods, key).await);
            }
            Err(WriteError::NotFound(_) | WriteError::Conflict(_)) => {}
            Err(error) => {
                warn!(pod = %key, %error, "the pod was not evicted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Deletes the pods of a gang that was bound in part.
    pub(crate) async fn release(&self, release: &Release) {
        let message = "its gang was bound in part and could not be completed";
        if let Some(target) = self.reference(&release.gang) {
            self.recorder.record(&target, EventKind::Warning, "Released", message);
        }
        // In this version only: a pod that has become Ready meanwhile stays.
        let options = DeleteOptions {
            only_known_version: true,
            ..DeleteOptions::default()
        };
        let deletions = release.pods.iter();
        join_all(deletions.map(|pod| self.delete(pod, options.clone(), "Released", message))).await;
    }

    async fn delete(&self, pod: &Meta, options: DeleteOptions, reason: &str, message: &str) {
        match self.writer.delete(&self.world.pods, pod, options).await {
            Ok(()) => self
                .recorder
                .record(&pod_reference(pod), EventKind::Normal, reason, message),
            Err(WriteError::NotFound(_) | WriteError::Conflict(_)) => {}
            Err(error) => {
                warn!(pod = %pod.key, %error, "the pod was not deleted");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }

    /// Tells waiting pods and their gang why they wait.
    pub(crate) async fn report(&self, report: &Report) {
        let text = reason_text(&report.reason);
        if let Some(target) = self.reference(&report.gang) {
            self.recorder
                .record(&target, EventKind::Warning, "FailedScheduling", &text);
        }
        let of_gang = matches!(report.gang, GangId::Gang(_));
        for pod in report.pods.iter().filter(|_| report.events && of_gang) {
            let target = pod_reference(pod);
            self.recorder
                .record(&target, EventKind::Warning, "FailedScheduling", &text);
        }
        join_all(report.pods.iter().map(|pod| self.tell(pod, &text))).await;
        if let (true, GangId::Gang(key)) = (report.whole, &report.gang) {
            let Reason { code, message } = &report.reason;
            // What could not be told is decided anew: the condition is compared with what it should be.
            self.say_placed(key, false, code.as_str(), message, None).await;
        }
    }

    pub(crate) async fn tell(&self, pod: &Meta, text: &str) {
        let known = {
            let moment = self.world.cache.moment();
            self.world.pods.get(&moment, &pod.key)
        };
        let Some(known) = known.filter(|known| known.meta.uid == pod.uid && known.node.is_none()) else {
            return;
        };
        let mut condition =
            json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": text});
        if known.reported_reason.is_none() {
            condition["lastTransitionTime"] = json!(Time(self.clock.now()));
        }
        let patch = Patch::Strategic(json!({"status": {"conditions": [condition]}}));
        // In this version only: it may have been bound meanwhile, and then it waits no longer.
        let condition = Precondition::version(&known.meta);
        let done = self.writer.patch_status(&self.world.pods, &pod.key, &condition, patch);
        if let Err(error) = done.await {
            debug!(pod = %pod.key, %error, "could not update the pod's PodScheduled condition");
        }
    }

    /// Writes our condition of a gang, and how well it is placed; the rest of the status is the operator's. The phase is the
    /// operator's too, and sent along with the first status because it is required.
    /// Returns whether the gang says so now, or is gone.
    async fn say_placed(&self, key: &ObjectKey, holds: bool, reason: &str, message: &str, score: Option<f64>) -> bool {
        for _ in 0..TRIES {
            let known = {
                let moment = self.world.cache.moment();
                self.world.gangs.get(&moment, key)
            };
            let Some((known, meta)) = known.and_then(|gang| Meta::of(&*gang).map(|meta| (gang, meta))) else {
                return true;
            };
            let Some(status) = with_placed(&known, holds, reason, message, score, self.clock.now()) else {
                return true;
            };
            let read = known.status.as_ref().map(|status| json!(status));
            let part = OwnPart::of(read.as_ref(), &status, |kind| kind == PLACED);
            if part.operations.is_empty() {
                return true;
            }
            let condition = match part.needs_version {
                true => Precondition::version(&meta),
                false => Precondition::uid(&meta),
            };
            let patch = Patch::Json(part.operations);
            let done = self.writer.patch_status(&self.world.gangs, key, &condition, patch);
            match done.await {
                Err(WriteError::Conflict(_)) => drop(self.writer.read(&self.world.gangs, key).await),
                Err(WriteError::NotFound(_)) | Ok(_) => return true,
                Err(error) => {
                    debug!(gang = %key, %error, "could not update the PodGang status");
                    return false;
                }
            }
        }
        false
    }

    /// Reports a panic while deciding about a gang or acting on it.
    pub(crate) fn panicked(&self, gang: Option<&GangId>, doing: &str, message: &str) {
        let name = gang.map(GangId::to_string).unwrap_or_default();
        error!(
            gang = name,
            message, "the scheduler panicked while {doing} a gang, which is set aside for a while"
        );
        if let Some(target) = gang.and_then(|gang| self.reference(gang)) {
            let message = format!("the scheduler panicked while {doing} this gang and tries again later: {message}");
            self.recorder
                .record(&target, EventKind::Warning, "InternalError", &message);
        }
    }

    /// Reports an object that made the model panic.
    pub(crate) fn rejected(&self, rejected: &Rejected) {
        let Rejected { kind, key, message } = rejected;
        error!(%key, kind, message, "the scheduler panicked while reading an object, which is left out until it changes");
        let target = match *kind {
            "Pod" => self.reference(&GangId::Pod(key.clone())),
            "PodGang" => self.reference(&GangId::Gang(key.clone())),
            _ => None,
        };
        if let Some(target) = target {
            let message = format!("the scheduler panicked while reading this object and leaves it out: {message}");
            self.recorder
                .record(&target, EventKind::Warning, "InternalError", &message);
        }
    }

    pub(crate) fn reference(&self, gang: &GangId) -> Option<ObjectReference> {
        let moment = self.world.cache.moment();
        match gang {
            GangId::Pod(key) => self.world.pods.get(&moment, key).map(|pod| pod_reference(&pod.meta)),
            GangId::Gang(key) => {
                let found = self.world.gangs.get(&moment, key)?;
                Some(ObjectReference {
                    api_version: "scheduler.grove.io/v1alpha1".to_owned(),
                    kind: "PodGang".to_owned(),
                    namespace: Some(key.namespace.to_string()),
                    name: key.name.to_string(),
                    uid: found.metadata.uid.clone().unwrap_or_default(),
                })
            }
        }
    }
}

/// The part of a gang's status to write; nothing when it says so already.
fn with_placed(
    gang: &PodGang,
    holds: bool,
    reason: &str,
    message: &str,
    score: Option<f64>,
    now: Timestamp,
) -> Option<Value> {
    let before = gang.status.clone().unwrap_or_default();
    let mut conditions = before.conditions.clone();
    let status = if holds { "True" } else { "False" };
    let known = conditions.iter().position(|condition| condition.type_ == PLACED);
    let same = known
        .map(|at| &conditions[at])
        .filter(|condition| condition.status == status);
    let since = same.map_or(Time(now), |condition| condition.last_transition_time.clone());
    let fresh = Condition {
        type_: PLACED.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation: gang.metadata.generation,
        last_transition_time: since,
    };
    match known {
        Some(at) => conditions[at] = fresh,
        None => conditions.push(fresh),
    }
    let scored = match score {
        None => holds || before.placement_score.is_none(),
        some => some == before.placement_score,
    };
    if conditions == before.conditions && scored {
        return None;
    }
    let mut status = json!({"conditions": conditions});
    if gang.status.is_none() {
        status["phase"] = json!(before.phase);
    }
    if let Some(score) = score {
        status["placementScore"] = json!(score);
    } else if !holds {
        // How well it was placed before says nothing any more.
        status["placementScore"] = Value::Null;
    }
    Some(status)
}

fn pod_reference(pod: &Meta) -> ObjectReference {
    ObjectReference {
        api_version: "v1".to_owned(),
        kind: "Pod".to_owned(),
        namespace: Some(pod.key.namespace.to_string()),
        name: pod.key.name.to_string(),
        uid: pod.uid.to_string(),
    }
}
