//! What a node remembers of claims across restarts of the plugin.
//!
//! One JSON document with a digest, replaced atomically by the shell (write, sync, rename), so it is the old one or the new
//! one. It belongs to one boot: after a reboot no container runs and no device is prepared, so it starts empty.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The file in the plugin's directory. The driver's own `checkpoint.json` is imported once and never changed.
pub const FILE: &str = "coppice-checkpoint.json";
/// How long an aborted claim is remembered, so that an older retry does not prepare it again.
pub const ABORTED_FOR: SignedDuration = SignedDuration::from_secs(90);
/// A checkpoint that is larger was not written by this plugin.
pub const MAX_BYTES: usize = 8 * 1024 * 1024;
const VERSION: u32 = 1;

/// How far a claim has come.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state")]
pub enum ClaimState {
    /// Something may have been prepared.
    PrepareStarted,
    /// Everything has been prepared.
    PrepareCompleted,
    /// It was complete and is being unprepared: what was prepared may be gone.
    Unpreparing,
    /// It was unprepared before it was complete.
    PrepareAborted {
        /// When.
        at: Timestamp,
    },
}

/// What is remembered of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// How far it has come.
    #[serde(flatten)]
    pub state: ClaimState,
    /// Name of the claim.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Fingerprint of its allocation.
    pub fingerprint: String,
    /// UID of the domain.
    #[serde(rename = "domainUID")]
    pub domain_uid: String,
    /// The device.
    pub device: String,
    /// Its pool.
    pub pool: String,
    /// The request that it satisfies.
    pub request: String,
    /// Whether it was given for administration.
    #[serde(default)]
    pub admin_access: bool,
    /// The CDI devices that kubelet was told; empty until completed.
    #[serde(default)]
    pub cdi_devices: Vec<String>,
}

/// All claims of a node, by UID.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Checkpoint {
    /// The boot that it belongs to.
    #[serde(rename = "bootID")]
    pub boot_id: String,
    /// The claims.
    #[serde(default)]
    pub claims: BTreeMap<String, Entry>,
}

#[derive(Serialize, Deserialize)]
struct Document {
    version: u32,
    digest: String,
    checkpoint: Checkpoint,
}

/// A checkpoint that cannot be used. It is not thrown away: it says what is prepared on this node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// Larger than any that was written.
    #[error("{FILE} has {0} bytes; reboot the node, or move the file away when no pod uses a ComputeDomain on it")]
    TooLarge(usize),
    /// Not readable.
    #[error("{FILE} is damaged ({0}); reboot the node, or move the file away when no pod uses a ComputeDomain on it")]
    Damaged(String),
    /// Written by a newer version.
    #[error("{FILE} has version {0}, this plugin reads version {VERSION}; use the newer plugin")]
    Newer(u32),
}

impl Checkpoint {
    /// An empty checkpoint of this boot.
    pub fn empty(boot_id: &str) -> Self {
        Self {
            boot_id: boot_id.to_owned(),
            claims: BTreeMap::new(),
        }
    }

    /// The document to store.
    pub fn encode(&self) -> String {
        let document = Document {
            version: VERSION,
            digest: digest(self),
            checkpoint: self.clone(),
        };
        serde_json::to_string_pretty(&document).unwrap_or_default() + "\n"
    }

    /// Reads a stored document; empty when it belongs to another boot.
    pub fn decode(text: &str, boot_id: &str) -> Result<Self, CheckpointError> {
        if text.len() > MAX_BYTES {
            return Err(CheckpointError::TooLarge(text.len()));
        }
        let damaged = |error: serde_json::Error| CheckpointError::Damaged(error.to_string());
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let Version { version } = serde_json::from_str(text).map_err(damaged)?;
        if version > VERSION {
            return Err(CheckpointError::Newer(version));
        }
        let document: Document = serde_json::from_str(text).map_err(damaged)?;
        if document.digest != digest(&document.checkpoint) {
            return Err(CheckpointError::Damaged("the digest does not match".to_owned()));
        }
        let current = document.checkpoint.boot_id == boot_id;
        Ok(if current {
            document.checkpoint
        } else {
            Self::empty(boot_id)
        })
    }

    /// With a claim in this state.
    #[must_use]
    pub fn with(&self, uid: &str, entry: Entry) -> Self {
        let mut next = self.clone();
        next.claims.insert(uid.to_owned(), entry);
        next
    }

    /// Without a claim.
    #[must_use]
    pub fn without(&self, uid: &str) -> Self {
        let mut next = self.clone();
        next.claims.remove(uid);
        next
    }

    /// Without aborted claims whose time has passed; none when there is none.
    pub fn expired(&self, now: Timestamp) -> Option<Self> {
        let keep = |entry: &Entry| match entry.state {
            ClaimState::PrepareAborted { at } => now.duration_since(at) < ABORTED_FOR,
            ClaimState::PrepareStarted | ClaimState::PrepareCompleted | ClaimState::Unpreparing => true,
        };
        let mut next = self.clone();
        next.claims.retain(|_, entry| keep(entry));
        (next.claims.len() < self.claims.len()).then_some(next)
    }

    /// Claims that are neither complete nor over: they are unprepared when the API says that they are gone.
    pub fn unfinished(&self) -> impl Iterator<Item = (&String, &Entry)> {
        self.claims
            .iter()
            .filter(|(_, entry)| matches!(entry.state, ClaimState::PrepareStarted | ClaimState::Unpreparing))
    }
}

fn digest(checkpoint: &Checkpoint) -> String {
    let text = serde_json::to_string(checkpoint).unwrap_or_default();
    Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn entry(state: ClaimState) -> Entry {
        Entry {
            state,
            name: "claim".into(),
            namespace: "team".into(),
            fingerprint: "f".into(),
            domain_uid: "d".into(),
            device: "channel-0".into(),
            pool: "node-a".into(),
            request: "channel".into(),
            admin_access: false,
            cdi_devices: Vec::new(),
        }
    }

    #[test]
    fn documents_are_read_back_and_damage_is_found() {
        let aborted = ClaimState::PrepareAborted {
            at: Timestamp::from_second(7).unwrap(),
        };
        let checkpoint = Checkpoint::empty("boot")
            .with("a", entry(ClaimState::PrepareCompleted))
            .with("b", entry(aborted));
        let text = checkpoint.encode();
        assert_eq!(Checkpoint::decode(&text, "boot"), Ok(checkpoint));
        assert_eq!(
            Checkpoint::decode(&text, "another boot"),
            Ok(Checkpoint::empty("another boot"))
        );
        let changed = text.replace("channel-0", "channel-1");
        assert!(matches!(
            Checkpoint::decode(&changed, "boot"),
            Err(CheckpointError::Damaged(_))
        ));
        for cut in (0..text.len() - 1).step_by(7) {
            assert!(Checkpoint::decode(&text[..cut], "boot").is_err(), "cut at {cut}");
        }
        assert!(matches!(
            Checkpoint::decode("{\"version\": 2}", "boot"),
            Err(CheckpointError::Newer(2))
        ));
    }

    #[test]
    fn aborted_claims_are_forgotten_after_ninety_seconds() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let checkpoint = Checkpoint::empty("boot")
            .with("a", entry(ClaimState::PrepareAborted { at: at(0) }))
            .with("b", entry(ClaimState::PrepareStarted));
        assert_eq!(checkpoint.expired(at(89)), None);
        assert_eq!(checkpoint.expired(at(90)).unwrap().claims.len(), 1);
        assert_eq!(checkpoint.unfinished().count(), 1);
    }
}
