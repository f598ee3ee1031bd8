//! Preparing and unpreparing claims: the loops around the deciders.
//!
//! Owns the store, the node's label and the waiting. Steps of one claim and of another are not mixed: the store is locked
//! while steps are carried out, and never while a claim waits, since a channel waits for a daemon whose own claim is
//! prepared meanwhile. What a claim waits for wakes it; only failed requests and the host's IMEX daemon, which announces
//! nothing, are asked again after a pause. The last reason is what the kubelet is answered at the deadline.

use std::collections::HashMap;
use std::time::Duration;

use coppice_domains::api::names;
use coppice_domains::api::parameters::Decoding;
use coppice_domains::decide::plugin::checkpoint::ClaimState;
use coppice_domains::decide::plugin::claim::Claim;
use coppice_domains::decide::plugin::fabric::{FabricError, clique_id};
use coppice_domains::decide::plugin::prepare::{self, DomainLookup, NodeFacts, PreparedDevice, Step};
use coppice_domains::decide::plugin::unprepare::{self, UnprepareFacts, UnprepareStep};
use coppice_runtime::backoff::Backoff;
use coppice_runtime::cache::{Kind, Meta, ObjectKey, Typed};
use coppice_runtime::clock::SharedClock;
use coppice_runtime::write::{Patch, Precondition, WriteError, Writer};
use futures::future::join_all;
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use parking_lot::RwLock;
use serde_json::{Value, json};
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, timeout_at};
use tracing::{info, warn};

use crate::hardware::Hardware;
use crate::host_imex;
use crate::readiness::{Readiness, Subject};
use crate::reads::{ReadError, Reads};
use crate::settings::Settings;
use crate::store::Store;
use crate::wire;

/// Claims of one request that are prepared at a time: a pod has one or two.
const MOST_CLAIMS: usize = 64;
const RETRIES: Backoff = Backoff {
    first: Duration::from_millis(250),
    longest: Duration::from_secs(3),
    jitter: 0.0,
};

/// The kubelet plugin of one node.
pub struct Plugin {
    pub(crate) settings: Settings,
    pub(crate) clock: SharedClock,
    pub(crate) client: Client,
    pub(crate) reads: Reads,
    pub(crate) writer: Writer,
    pub(crate) nodes: Kind<Typed<Node>>,
    pub(crate) hardware: RwLock<Hardware>,
    pub(crate) store: Mutex<Store>,
    /// Rung when the checkpoint or the node has changed.
    pub(crate) changes: watch::Sender<u64>,
}

/// What one look at a claim came to.
enum Outcome {
    Done(PreparedDevice),
    Refused(String),
    /// Until something changes.
    Wait(String),
    /// Until a pause has passed.
    Failed(String),
}

/// What is known of a claim while it is being prepared.
struct Attempt {
    claim: Claim,
    domain_uid: String,
    hint: Option<String>,
    domain: DomainLookup,
    index: Option<u32>,
    readiness: Option<Readiness>,
}

impl Plugin {
    /// The clique of the node.
    pub(crate) fn clique_id(&self) -> Result<String, FabricError> {
        clique_id(&self.hardware.read().fabric, self.settings.gates.strict_fabric)
    }

    fn ring(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    /// Prepares the claims of a request, beside each other.
    pub(crate) async fn prepare_all(&self, claims: Vec<wire::Claim>) -> wire::NodePrepareResourcesResponse {
        let one = async |wanted: wire::Claim| {
            let result = self.prepare(&wanted).await;
            if let Err(error) = &result {
                warn!(claim = %format!("{}/{}", wanted.namespace, wanted.name), error, "a claim is not prepared");
            }
            let response = match result {
                Ok(device) => wire::NodePrepareResourceResponse {
                    devices: vec![wire::Device {
                        request_names: vec![device.request],
                        pool_name: device.pool,
                        device_name: device.device,
                        cdi_device_ids: device.cdi_devices,
                    }],
                    error: String::new(),
                },
                Err(error) => wire::NodePrepareResourceResponse {
                    devices: Vec::new(),
                    error,
                },
            };
            (wanted.uid, response)
        };
        let claims = claims.into_iter().take(MOST_CLAIMS);
        let claims: HashMap<_, _> = join_all(claims.map(one)).await.into_iter().collect();
        wire::NodePrepareResourcesResponse { claims }
    }

    async fn prepare(&self, wanted: &wire::Claim) -> Result<PreparedDevice, String> {
        let deadline = Instant::now() + self.settings.deadline;
        let mut changes = self.changes.subscribe();
        let mut attempt = None;
        let mut failures = 0;
        let mut last = "the API server has not answered yet".to_owned();
        loop {
            changes.mark_unchanged();
            let Ok(outcome) = timeout_at(deadline, self.look(wanted, &mut attempt)).await else {
                break;
            };
            let followed = attempt
                .as_mut()
                .and_then(|attempt: &mut Attempt| attempt.readiness.as_mut());
            let waiting = async {
                match outcome {
                    Outcome::Done(device) => Some(Ok(device)),
                    Outcome::Refused(problem) => Some(Err(problem)),
                    Outcome::Wait(reason) => {
                        last = reason;
                        let readiness = async {
                            match followed {
                                Some(readiness) => readiness.changed().await,
                                None => std::future::pending().await,
                            }
                        };
                        tokio::select! {
                            changed = changes.changed() => if changed.is_err() { std::future::pending::<()>().await },
                            () = readiness => {}
                        }
                        None
                    }
                    Outcome::Failed(reason) => {
                        last = reason;
                        failures += 1;
                        tokio::time::sleep(RETRIES.full_delay(failures)).await;
                        None
                    }
                }
            };
            match timeout_at(deadline, waiting).await {
                Ok(Some(result)) => return result,
                Ok(None) => {}
                Err(_elapsed) => break,
            }
        }
        Err(format!(
            "{last} (after {} s; the kubelet tries again)",
            self.settings.deadline.as_secs()
        ))
    }

    /// Reads what is missing, then takes every step that can be taken now.
    async fn look(&self, wanted: &wire::Claim, attempt: &mut Option<Attempt>) -> Outcome {
        if attempt.is_none() {
            match self.begin(wanted).await {
                Ok(begun) => *attempt = Some(begun),
                Err(outcome) => return outcome,
            }
        }
        let Some(attempt) = attempt.as_mut() else {
            return Outcome::Failed("the claim was not read".to_owned());
        };
        if attempt.domain == DomainLookup::Unknown {
            let read = self
                .reads
                .domain(&attempt.domain_uid, &attempt.claim.namespace, attempt.hint.as_deref());
            match read.await {
                Ok(found) => attempt.domain = found,
                Err(ReadError::Gone(problem) | ReadError::Failed(problem)) => {
                    return Outcome::Failed(format!("error getting ComputeDomain {}: {problem}", attempt.domain_uid));
                }
            }
        }
        self.steps(attempt).await
    }

    async fn begin(&self, wanted: &wire::Claim) -> Result<Attempt, Outcome> {
        // A completed claim is answered even when the API server does not answer.
        if let Some(entry) = self.store.lock().await.checkpoint().claims.get(&wanted.uid)
            && entry.state == ClaimState::PrepareCompleted
        {
            return Err(Outcome::Done(PreparedDevice {
                request: entry.request.clone(),
                pool: entry.pool.clone(),
                device: entry.device.clone(),
                cdi_devices: entry.cdi_devices.clone(),
            }));
        }
        let (claim, hint) = self.reads.claim(wanted).await.map_err(|error| match error {
            ReadError::Gone(problem) => Outcome::Refused(problem),
            ReadError::Failed(problem) => Outcome::Failed(problem),
        })?;
        let device = claim
            .device(Decoding::Strict)
            .map_err(|error| Outcome::Refused(error.to_string()))?;
        let domain_uid = device.parameters.domain_uid().to_owned();
        let clique = self.clique_id().map_err(|error| Outcome::Failed(error.to_string()))?;
        let channel = device.device == names::CHANNEL_DEVICE;
        let index = if channel {
            None
        } else {
            self.reads.index(&domain_uid, &clique, &self.settings.node).await
        };
        let readiness = (channel && !self.settings.host_managed).then(|| {
            let subject = Subject {
                domain_uid: &domain_uid,
                clique_id: &clique,
                namespace: &self.settings.namespace,
                node: &self.settings.node,
                directory: &self.settings.plugin_directory().join("domains").join(&domain_uid),
            };
            Readiness::follow(self.client.clone(), &subject)
        });
        Ok(Attempt {
            claim,
            domain_uid,
            hint,
            domain: DomainLookup::Unknown,
            index,
            readiness,
        })
    }

    async fn steps(&self, attempt: &mut Attempt) -> Outcome {
        let host_problem = if self.settings.host_managed {
            host_imex::not_ready(&self.settings).await
        } else {
            None
        };
        let (mut cdi_written, mut daemon_files_written) = (false, false);
        let mut store = self.store.lock().await;
        loop {
            let Some(node) = self.nodes.latest(&ObjectKey::new("", self.settings.node.as_str())) else {
                return Outcome::Failed(format!("Node {} does not exist", self.settings.node));
            };
            let clique_id = match self.clique_id() {
                Ok(clique) => clique,
                Err(error) => return Outcome::Failed(error.to_string()),
            };
            let hardware = self.hardware.read().clone();
            let not_ready = match &mut attempt.readiness {
                Some(readiness) => readiness.not_ready(),
                None => host_problem.clone(),
            };
            let facts = NodeFacts {
                domain: attempt.domain.clone(),
                label: label(&node),
                resource_version: node.metadata.resource_version.clone().unwrap_or_default(),
                not_ready,
                index: attempt.index,
                host_managed: self.settings.host_managed,
                daemon_files_written,
                cdi_written,
                daemon_directory: store.domain_directory(&attempt.domain_uid).display().to_string(),
                channels_major: hardware.channels_major.unwrap_or_default(),
                channels: hardware
                    .channels
                    .unwrap_or(coppice_domains::api::limits::DEFAULT_CHANNELS),
                management: hardware.management,
                clique_id,
            };
            if !facts.clique_id.is_empty() && hardware.channels_major.is_none() {
                return Outcome::Failed(
                    "this node has an NVLink fabric and no IMEX channels: nvidia-caps-imex-channels is not in \
                     /proc/devices; load the GPU driver with NVreg_CreateImexChannel0 or a newer version"
                        .to_owned(),
                );
            }
            let written = match prepare::next_step(&attempt.claim, &facts, store.checkpoint()) {
                Step::Store(next) => {
                    let stored = store.replace(next);
                    self.ring();
                    stored
                }
                Step::PatchNode(_) => {
                    let patch = json!({"metadata": {"labels": {names::DOMAIN_LABEL: attempt.domain_uid}}});
                    if let Err(problem) = self.patch_node(&node, patch).await {
                        return Outcome::Failed(format!("error adding Node label for ComputeDomain: {problem}"));
                    }
                    info!(domain = attempt.domain_uid, "the node serves a domain");
                    Ok(())
                }
                Step::WriteDaemonFiles => {
                    daemon_files_written = true;
                    store.write_daemon_files(&attempt.domain_uid)
                }
                Step::WriteCdi { file, document } => {
                    cdi_written = true;
                    store.write_cdi(&file, &document)
                }
                Step::Done(device) => return Outcome::Done(device),
                // Nothing announces that the daemon of the host has become ready.
                Step::Wait(reason) if self.settings.host_managed => return Outcome::Failed(reason),
                Step::Wait(reason) => return Outcome::Wait(reason),
                Step::Refuse(problem) => return Outcome::Refused(problem),
            };
            if let Err(error) = written {
                return Outcome::Failed(error.to_string());
            }
        }
    }

    /// Unprepares the claims of a request.
    pub(crate) async fn unprepare_all(&self, claims: Vec<wire::Claim>) -> wire::NodeUnprepareResourcesResponse {
        let mut answers = HashMap::new();
        for claim in claims {
            let error = match self.unprepare(&claim.uid).await {
                Ok(()) => String::new(),
                Err(problem) => {
                    warn!(claim = claim.name, problem, "a claim is not unprepared");
                    problem
                }
            };
            answers.insert(claim.uid, wire::NodeUnprepareResourceResponse { error });
        }
        wire::NodeUnprepareResourcesResponse { claims: answers }
    }

    /// Unprepares one claim, known by its UID alone.
    pub(crate) async fn unprepare(&self, uid: &str) -> Result<(), String> {
        let deadline = Instant::now() + self.settings.deadline;
        let mut failures = 0;
        loop {
            let problem = match timeout_at(deadline, self.unprepare_steps(uid)).await {
                Ok(Ok(())) => return Ok(()),
                Ok(Err(problem)) => problem,
                Err(_elapsed) => return Err("the API server or another claim took too long".to_owned()),
            };
            failures += 1;
            let pause = tokio::time::sleep(RETRIES.full_delay(failures));
            if timeout_at(deadline, pause).await.is_err() {
                return Err(problem);
            }
        }
    }

    async fn unprepare_steps(&self, uid: &str) -> Result<(), String> {
        let mut store = self.store.lock().await;
        loop {
            let node = self.nodes.latest(&ObjectKey::new("", self.settings.node.as_str()));
            let facts = UnprepareFacts {
                label: node.as_ref().and_then(|node| label(node)),
                cdi_files: store.cdi_files(uid),
                host_managed: self.settings.host_managed,
            };
            let done = match unprepare::next_step(uid, &facts, store.checkpoint(), self.clock.now()) {
                UnprepareStep::PatchNode(_) => {
                    let patch = json!({"metadata": {"labels": {names::DOMAIN_LABEL: null}}});
                    if let Some(node) = &node {
                        self.patch_node(node, patch).await?;
                        info!("the node has left its domain");
                    }
                    Ok(())
                }
                UnprepareStep::RemoveCdi(files) => store.remove_cdi(&files),
                UnprepareStep::Store(next) => {
                    let stored = store.replace(next);
                    self.ring();
                    stored
                }
                UnprepareStep::Done => return Ok(()),
            };
            done.map_err(|error| error.to_string())?;
        }
    }

    /// Patches the node if it is as it was read. One that has changed is read, so that the next attempt is on what it is now.
    pub(crate) async fn patch_node(&self, known: &Node, patch: Value) -> Result<(), String> {
        let Some(meta) = Meta::of(known) else {
            return Err("the Node has no UID".to_owned());
        };
        let condition = Precondition::version(&meta);
        let patched = self
            .writer
            .patch(&self.nodes, &meta.key, &condition, Patch::Merge(patch))
            .await;
        match patched {
            Ok(_) => Ok(()),
            Err(error @ (WriteError::Conflict(_) | WriteError::OutcomeUnknown(_))) => {
                let read = self.writer.read(&self.nodes, &meta.key).await;
                Err(read.err().unwrap_or(error).to_string())
            }
            // The label went with the node.
            Err(error) => Err(error.to_string()),
        }
    }
}

/// UID of the domain that a node serves.
pub(crate) fn label(node: &Node) -> Option<String> {
    node.metadata.labels.as_ref()?.get(names::DOMAIN_LABEL).cloned()
}
