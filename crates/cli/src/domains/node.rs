//! The kubelet plugin of a simulated node: our plugin's decisions, with checkpoint and CDI files in memory.
//!
//! Owns what is prepared on one node. It does no requests: the label is patched by its caller.

use std::collections::{BTreeMap, BTreeSet};

use coppice_domains::api::limits;
use coppice_domains::api::names;
use coppice_domains::api::parameters::Decoding;
use coppice_domains::decide::plugin::cdi;
use coppice_domains::decide::plugin::checkpoint::{Checkpoint, ClaimState};
use coppice_domains::decide::plugin::claim::{Claim, DeviceKind};
use coppice_domains::decide::plugin::prepare::{self, DomainLookup, NodeFacts, Step};
use coppice_domains::decide::plugin::unprepare::{self, UnprepareFacts, UnprepareStep};
use coppice_runtime::cache::ObjectKey;
use jiff::Timestamp;
use serde_json::Value;

/// Major number of channels; nothing opens them.
const CHANNELS_MAJOR: u32 = 234;

/// A claim that a pod waits for.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) pod: ObjectKey,
    pub(crate) claim: Claim,
    pub(crate) reason: String,
}

/// What is so around a node.
pub(crate) struct Surroundings<'a> {
    pub(crate) clique_id: &'a str,
    pub(crate) label: Option<String>,
    pub(crate) resource_version: String,
    pub(crate) domain: &'a dyn Fn(&str) -> DomainLookup,
    pub(crate) not_ready: &'a dyn Fn(&str) -> Option<String>,
}

/// What the caller does next.
#[derive(Debug, PartialEq)]
pub(crate) enum Next {
    /// Patch the label of the node to this, then ask again.
    Label(Option<String>),
    /// Let this pod be looked at: its claim is prepared, or waits for something else.
    Wake(ObjectKey),
    /// Nothing until something changes.
    Rest,
}

/// What is prepared on a node.
#[derive(Debug)]
pub(crate) struct SimulatedNode {
    checkpoint: Checkpoint,
    files: BTreeMap<String, Value>,
    pub(crate) pending: BTreeMap<String, Pending>,
    leaving: BTreeSet<String>,
}

impl SimulatedNode {
    pub(crate) fn new(name: &str) -> Self {
        Self {
            checkpoint: Checkpoint::empty(name),
            files: BTreeMap::new(),
            pending: BTreeMap::new(),
            leaving: BTreeSet::new(),
        }
    }

    pub(crate) fn is_prepared(&self, claim_uid: &str) -> bool {
        let entry = self.checkpoint.claims.get(claim_uid);
        entry.is_some_and(|entry| entry.state == ClaimState::PrepareCompleted) && !self.leaving.contains(claim_uid)
    }

    /// Whether the claim of a domain's daemon is prepared: CDI gives it its environment.
    pub(crate) fn has_daemon_claim(&self, domain_uid: &str) -> bool {
        self.checkpoint.claims.values().any(|entry| {
            entry.state == ClaimState::PrepareCompleted
                && entry.device == names::DAEMON_DEVICE
                && entry.domain_uid == domain_uid
        })
    }

    pub(crate) fn unprepare(&mut self, claim_uid: &str) {
        self.pending.remove(claim_uid);
        self.leaving.insert(claim_uid.to_owned());
    }

    /// Takes every step up to one that the caller has to do.
    pub(crate) fn next(&mut self, around: &Surroundings<'_>, now: Timestamp) -> Next {
        if let Some(next) = self
            .leaving
            .first()
            .cloned()
            .and_then(|uid| self.leave(&uid, around, now))
        {
            return next;
        }
        if let Some(next) = self.checkpoint.expired(now) {
            self.checkpoint = next;
        }
        let waiting: Vec<String> = self.pending.keys().cloned().collect();
        for uid in waiting {
            if let Some(next) = self.prepare(&uid, around) {
                return next;
            }
        }
        Next::Rest
    }

    fn leave(&mut self, uid: &str, around: &Surroundings<'_>, now: Timestamp) -> Option<Next> {
        loop {
            let names = cdi::file_names(uid);
            let facts = UnprepareFacts {
                label: around.label.clone(),
                cdi_files: names.into_iter().filter(|name| self.files.contains_key(name)).collect(),
                host_managed: false,
            };
            match unprepare::next_step(uid, &facts, &self.checkpoint, now) {
                UnprepareStep::PatchNode(_) => return Some(Next::Label(None)),
                UnprepareStep::RemoveCdi(files) => self.files.retain(|name, _| !files.contains(name)),
                UnprepareStep::Store(next) => self.checkpoint = next,
                UnprepareStep::Done => {
                    self.leaving.remove(uid);
                    let other = self.leaving.first().cloned()?;
                    return self.leave(&other, around, now);
                }
            }
        }
    }

    fn prepare(&mut self, uid: &str, around: &Surroundings<'_>) -> Option<Next> {
        let Pending { claim, pod, .. } = self.pending.get(uid)?.clone();
        let device = claim.device(Decoding::Strict);
        let domain_uid = device.as_ref().map(|device| device.parameters.domain_uid().to_owned());
        let domain_uid = domain_uid.unwrap_or_default();
        let channel = device.is_ok_and(|device| device.kind == DeviceKind::Channel);
        let (mut cdi_written, mut daemon_files_written) = (false, false);
        let reason = loop {
            let facts = NodeFacts {
                domain: (around.domain)(&domain_uid),
                label: around.label.clone(),
                resource_version: around.resource_version.clone(),
                clique_id: around.clique_id.to_owned(),
                not_ready: channel.then(|| (around.not_ready)(&domain_uid)).flatten(),
                index: None,
                host_managed: false,
                daemon_files_written,
                cdi_written,
                daemon_directory: format!("/var/lib/kubelet/plugins/{}/domains/{domain_uid}", names::DRIVER),
                channels_major: CHANNELS_MAJOR,
                channels: limits::DEFAULT_CHANNELS,
                management: None,
            };
            match prepare::next_step(&claim, &facts, &self.checkpoint) {
                Step::Store(next) => self.checkpoint = next,
                Step::PatchNode(_) => return Some(Next::Label(Some(domain_uid))),
                Step::WriteDaemonFiles => daemon_files_written = true,
                Step::WriteCdi { file, document } => {
                    self.files.insert(file, document);
                    cdi_written = true;
                }
                Step::Done(_) => {
                    self.pending.remove(uid);
                    return Some(Next::Wake(pod));
                }
                Step::Wait(reason) | Step::Refuse(reason) => break reason,
            }
        };
        let pending = self.pending.get_mut(uid)?;
        if pending.reason == reason {
            return None;
        }
        pending.reason = reason;
        Some(Next::Wake(pod))
    }
}
