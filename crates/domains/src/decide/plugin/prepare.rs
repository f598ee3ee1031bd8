//! Preparing a claim, one recorded step after the other.
//!
//! [`next_step`] looks at what is recorded and what is so, and says the next thing to do; it is asked again when that is
//! done. The checkpoint says *started* before anything is changed and *completed* after everything is, and both are durable
//! before the next step. A completed claim is answered from the checkpoint. Errors keep the wording of the driver, which
//! users search for, and say after it what can be done.

use jiff::SignedDuration;
use serde_json::Value;

use super::cdi::{DaemonIdentity, LIBRARIES, channel_document, daemon_document, device_id, file_name};
use super::checkpoint::{Checkpoint, ClaimState, Entry};
use super::claim::{Claim, ClaimedDevice, DeviceKind};
use super::proc_files::CharDevice;
use crate::api::ClaimParameters;
use crate::api::parameters::Decoding;
use crate::decide::domain::{LabelDecision, add_label};

/// How long a request may take before kubelet is answered, with the last reason for waiting.
pub const DEADLINE: SignedDuration = SignedDuration::from_secs(45);

/// The domain of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DomainLookup {
    /// It exists.
    Found {
        /// Its name.
        name: String,
        /// Its namespace.
        namespace: String,
    },
    /// A live read has shown that it does not exist. A cache that does not have it is not enough.
    Gone,
    /// Not known yet.
    Unknown,
}

/// What is so on the node.
#[derive(Clone, Debug)]
pub struct NodeFacts {
    /// The domain.
    pub domain: DomainLookup,
    /// UID of the domain that the node is labelled for.
    pub label: Option<String>,
    /// Revision at which the label was read.
    pub resource_version: String,
    /// The clique; empty without a fabric.
    pub clique_id: String,
    /// None when the domain's daemon on this node is ready, else why not.
    pub not_ready: Option<String>,
    /// The node's index in its clique, when its row exists.
    pub index: Option<u32>,
    /// Whether IMEX daemons are run by the host.
    pub host_managed: bool,
    /// Whether the daemon's directory and configuration template have been written for this claim.
    pub daemon_files_written: bool,
    /// Whether the CDI document of this claim has been written by this attempt.
    pub cdi_written: bool,
    /// The directory of the domain on the host.
    pub daemon_directory: String,
    /// Major number of channels.
    pub channels_major: u32,
    /// How many channels exist.
    pub channels: u32,
    /// The management device of the fabric.
    pub management: Option<CharDevice>,
}

/// What kubelet is told of a prepared device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreparedDevice {
    /// The request.
    pub request: String,
    /// The pool.
    pub pool: String,
    /// The device.
    pub device: String,
    /// Its CDI devices.
    pub cdi_devices: Vec<String>,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Replace the checkpoint durably.
    Store(Checkpoint),
    /// Patch the node's label.
    PatchNode(Value),
    /// Create the domain's directory and write the configuration template.
    WriteDaemonFiles,
    /// Write this CDI document, by rename.
    WriteCdi {
        /// File in the CDI directory.
        file: String,
        /// Its content.
        document: Value,
    },
    /// Done: answer kubelet.
    Done(PreparedDevice),
    /// Try again when something changes, until the deadline.
    Wait(String),
    /// Answer kubelet with this error at once.
    Refuse(String),
}

/// The next step of preparing a claim.
pub fn next_step(claim: &Claim, node: &NodeFacts, checkpoint: &Checkpoint) -> Step {
    let recorded = checkpoint.claims.get(&claim.uid);
    if let Some(entry) = recorded {
        match entry.state {
            ClaimState::PrepareCompleted => return Step::Done(answer(entry)),
            ClaimState::PrepareAborted { .. } if entry.fingerprint == claim.fingerprint() => {
                let id = format!("{}/{}:{}", claim.namespace, claim.name, claim.uid);
                return Step::Refuse(format!(
                    "stale prepare for claim {id}: claim prepare was already aborted"
                ));
            }
            // An unprepare that never ended: everything is prepared again.
            ClaimState::PrepareAborted { .. } | ClaimState::PrepareStarted | ClaimState::Unpreparing => {}
        }
    }
    let device = match claim.device(Decoding::Strict) {
        Ok(device) => device,
        Err(error) => return Step::Refuse(error.to_string()),
    };
    if let Some(holder) = holder_of(&device, claim, checkpoint) {
        return Step::Wait(match device.kind {
            DeviceKind::Channel => {
                format!("allocation failed: channel 0 already allocated by claim {holder} (according to checkpoint)")
            }
            DeviceKind::Daemon => format!(
                "requested device {} is already allocated to different claim {holder}",
                device.device
            ),
        });
    }
    if node.host_managed && device.kind == DeviceKind::Daemon {
        return Step::Refuse("ComputeDomain daemon claims are not supported when imex.mode=hostManaged".to_owned());
    }
    let started = recorded
        .is_some_and(|entry| entry.state == ClaimState::PrepareStarted && entry.fingerprint == claim.fingerprint());
    if !started {
        let entry = new_entry(claim, &device, ClaimState::PrepareStarted, Vec::new());
        return Step::Store(checkpoint.with(&claim.uid, entry));
    }
    match device.parameters.clone() {
        ClaimParameters::Channel { domain_uid, mode } => {
            if let Some(step) = admit_channel(claim, &domain_uid, node) {
                return step;
            }
            let document = channel_document(&claim.uid, &node.clique_id, mode, node.channels_major, node.channels);
            let ids = document
                .iter()
                .map(|_| device_id(&claim.uid, DeviceKind::Channel))
                .collect();
            finish(claim, &device, document, ids, node, checkpoint)
        }
        ClaimParameters::Daemon { domain_uid } => {
            let identity = match &node.domain {
                DomainLookup::Found { name, namespace } => DaemonIdentity {
                    domain_uid,
                    domain_name: name.clone(),
                    domain_namespace: namespace.clone(),
                    clique_id: node.clique_id.clone(),
                    index: node.index,
                },
                DomainLookup::Gone => return Step::Refuse(format!("compute domain not found: {domain_uid}")),
                DomainLookup::Unknown => return Step::Wait(format!("error getting compute domain {domain_uid}")),
            };
            if !node.daemon_files_written {
                return Step::WriteDaemonFiles;
            }
            let document = daemon_document(&claim.uid, &identity, &node.daemon_directory, node.management.as_ref());
            let ids = vec![LIBRARIES.to_owned(), device_id(&claim.uid, DeviceKind::Daemon)];
            finish(claim, &device, Some(document), ids, node, checkpoint)
        }
    }
}

/// What a channel waits for: its domain in its namespace, the node's label, the local daemon.
fn admit_channel(claim: &Claim, domain_uid: &str, node: &NodeFacts) -> Option<Step> {
    let refused = |problem: &str| Step::Refuse(format!("error asserting ComputeDomain's namespace: {problem}"));
    match &node.domain {
        DomainLookup::Gone => return Some(refused(&format!("ComputeDomain not found: {domain_uid}"))),
        DomainLookup::Unknown => return Some(Step::Wait("error getting ComputeDomain: not read yet".to_owned())),
        DomainLookup::Found { namespace, .. } if *namespace != claim.namespace => {
            return Some(refused(
                "the ResourceClaim's namespace is different than the ComputeDomain's namespace",
            ));
        }
        DomainLookup::Found { .. } => {}
    }
    let ready = node.not_ready.as_ref();
    if node.host_managed {
        // Without a fabric there is no daemon to ask.
        let reason = ready.filter(|_| !node.clique_id.is_empty())?;
        return Some(Step::Wait(format!(
            "host nvidia-imex daemon readiness check failed: {reason}"
        )));
    }
    match add_label(node.label.as_deref(), &node.resource_version, domain_uid) {
        LabelDecision::Patch(patch) => return Some(Step::PatchNode(patch)),
        LabelDecision::Taken { by } => {
            let problem = "label already exists for a different ComputeDomain";
            return Some(Step::Wait(format!(
                "error adding Node label for ComputeDomain: {problem} ({by})"
            )));
        }
        LabelDecision::Keep => {}
    }
    let reason = ready?;
    Some(Step::Wait(format!(
        "error asserting ComputeDomain Ready: current node not ready in ComputeDomain ({reason})"
    )))
}

fn finish(
    claim: &Claim,
    device: &ClaimedDevice,
    document: Option<Value>,
    cdi_devices: Vec<String>,
    node: &NodeFacts,
    checkpoint: &Checkpoint,
) -> Step {
    match document {
        Some(document) if !node.cdi_written => Step::WriteCdi {
            file: file_name(&claim.uid),
            document,
        },
        _ => {
            let entry = new_entry(claim, device, ClaimState::PrepareCompleted, cdi_devices);
            Step::Store(checkpoint.with(&claim.uid, entry))
        }
    }
}

/// Another completed claim with the same device. One that only began does not hold it: it is retried, or never.
fn holder_of<'a>(device: &ClaimedDevice, claim: &Claim, checkpoint: &'a Checkpoint) -> Option<&'a str> {
    let mut others = checkpoint.claims.iter().filter(|(uid, _)| **uid != claim.uid);
    let holds = |entry: &Entry| {
        let shared = device.admin_access || entry.admin_access;
        entry.state == ClaimState::PrepareCompleted && entry.device == device.device && !shared
    };
    others.find(|(_, entry)| holds(entry)).map(|(uid, _)| uid.as_str())
}

fn new_entry(claim: &Claim, device: &ClaimedDevice, state: ClaimState, cdi_devices: Vec<String>) -> Entry {
    Entry {
        state,
        name: claim.name.clone(),
        namespace: claim.namespace.clone(),
        fingerprint: claim.fingerprint(),
        domain_uid: device.parameters.domain_uid().to_owned(),
        device: device.device.clone(),
        pool: device.pool.clone(),
        request: device.request.clone(),
        admin_access: device.admin_access,
        cdi_devices,
    }
}

fn answer(entry: &Entry) -> PreparedDevice {
    PreparedDevice {
        request: entry.request.clone(),
        pool: entry.pool.clone(),
        device: entry.device.clone(),
        cdi_devices: entry.cdi_devices.clone(),
    }
}

#[cfg(test)]
mod tests;
