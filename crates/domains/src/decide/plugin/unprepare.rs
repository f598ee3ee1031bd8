//! Unpreparing a claim, from the checkpoint alone.
//!
//! A completed claim is first recorded as being unprepared, then label and CDI document go, and the entry last: a crash
//! repeats what was not recorded, and no completed claim is without its document. A claim that was only begun leaves a
//! tombstone for a while, so that an older retry of its Prepare does not bring it back.

use jiff::Timestamp;
use serde_json::Value;

use super::cdi::file_names;
use super::checkpoint::{Checkpoint, ClaimState, Entry};
use crate::api::names;
use crate::decide::domain::{LabelDecision, remove_label};

/// What is so on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnprepareFacts {
    /// UID of the domain that the node is labelled for.
    pub label: Option<String>,
    /// Files in the CDI directory that belong to the claim.
    pub cdi_files: Vec<String>,
    /// Whether IMEX daemons are run by the host: then nodes are not labelled.
    pub host_managed: bool,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum UnprepareStep {
    /// Patch the node's label away; a patch that finds another label counts as done.
    PatchNode(Value),
    /// Remove these files.
    RemoveCdi(Vec<String>),
    /// Replace the checkpoint durably.
    Store(Checkpoint),
    /// Done: answer kubelet.
    Done,
}

/// The next step of unpreparing a claim.
pub fn next_step(uid: &str, node: &UnprepareFacts, checkpoint: &Checkpoint, now: Timestamp) -> UnprepareStep {
    let Some(entry) = checkpoint.claims.get(uid) else {
        return UnprepareStep::Done;
    };
    if matches!(entry.state, ClaimState::PrepareAborted { .. }) {
        return UnprepareStep::Done;
    }
    if entry.state == ClaimState::PrepareCompleted {
        let state = ClaimState::Unpreparing;
        return UnprepareStep::Store(checkpoint.with(uid, Entry { state, ..entry.clone() }));
    }
    let channel = entry.device == names::CHANNEL_DEVICE;
    if channel
        && !node.host_managed
        && !is_needed(uid, &entry.domain_uid, checkpoint)
        && let LabelDecision::Patch(patch) = remove_label(node.label.as_deref(), &entry.domain_uid)
    {
        return UnprepareStep::PatchNode(patch);
    }
    let ours = file_names(uid);
    let files: Vec<String> = node
        .cdi_files
        .iter()
        .filter(|file| ours.contains(file))
        .cloned()
        .collect();
    if !files.is_empty() {
        return UnprepareStep::RemoveCdi(files);
    }
    UnprepareStep::Store(match entry.state {
        ClaimState::PrepareStarted => checkpoint.with(
            uid,
            Entry {
                state: ClaimState::PrepareAborted { at: now },
                cdi_devices: Vec::new(),
                ..entry.clone()
            },
        ),
        _ => checkpoint.without(uid),
    })
}

/// Whether another channel claim of the domain is being prepared here: the pod was replaced, and its successor needs the
/// daemon that the label keeps.
fn is_needed(uid: &str, domain_uid: &str, checkpoint: &Checkpoint) -> bool {
    let mut others = checkpoint.claims.iter().filter(|(other, _)| *other != uid);
    others.any(|(_, entry)| {
        entry.domain_uid == domain_uid
            && entry.device == names::CHANNEL_DEVICE
            && matches!(entry.state, ClaimState::PrepareStarted | ClaimState::PrepareCompleted)
    })
}

#[cfg(test)]
mod tests {
    use super::super::checkpoint::tests::entry;
    use super::*;

    fn run(uid: &str, checkpoint: &Checkpoint, node: &mut UnprepareFacts) -> (Checkpoint, Vec<&'static str>) {
        let mut checkpoint = checkpoint.clone();
        let mut steps = Vec::new();
        loop {
            match next_step(uid, node, &checkpoint, Timestamp::UNIX_EPOCH) {
                UnprepareStep::PatchNode(_) => {
                    steps.push("label");
                    node.label = None;
                }
                UnprepareStep::RemoveCdi(files) => {
                    steps.push("cdi");
                    node.cdi_files.retain(|file| !files.contains(file));
                }
                UnprepareStep::Store(next) => {
                    steps.push("store");
                    checkpoint = next;
                }
                UnprepareStep::Done => return (checkpoint, steps),
            }
        }
    }

    fn labelled(uid: &str) -> UnprepareFacts {
        UnprepareFacts {
            label: Some("d".into()),
            cdi_files: vec![super::super::cdi::file_name(uid), "other.json".into()],
            host_managed: false,
        }
    }

    #[test]
    fn a_completed_claim_is_forgotten_and_one_that_was_begun_leaves_a_tombstone() {
        let completed = Checkpoint::empty("b").with("a", entry(ClaimState::PrepareCompleted));
        let mut node = labelled("a");
        let (after, steps) = run("a", &completed, &mut node);
        assert_eq!(steps, ["store", "label", "cdi", "store"]);
        assert!(after.claims.is_empty());
        assert_eq!(node.cdi_files, ["other.json"]);
        let begun = Checkpoint::empty("b").with("a", entry(ClaimState::PrepareStarted));
        let (after, _) = run("a", &begun, &mut labelled("a"));
        assert!(matches!(after.claims["a"].state, ClaimState::PrepareAborted { .. }));
        let (again, steps) = run("a", &after, &mut labelled("a"));
        assert_eq!((again, steps.len()), (after, 0));
        assert_eq!(run("x", &begun, &mut labelled("x")).1.len(), 0);
    }

    #[test]
    fn the_label_stays_while_another_claim_needs_it_and_another_domain_keeps_its_own() {
        let two = Checkpoint::empty("b")
            .with("a", entry(ClaimState::PrepareCompleted))
            .with("b", entry(ClaimState::PrepareStarted));
        assert_eq!(run("a", &two, &mut labelled("a")).1, ["store", "cdi", "store"]);
        let one = Checkpoint::empty("b").with("a", entry(ClaimState::PrepareCompleted));
        let mut node = UnprepareFacts {
            label: Some("e".into()),
            ..labelled("a")
        };
        assert_eq!(run("a", &one, &mut node).1, ["store", "cdi", "store"]);
        let mut host = UnprepareFacts {
            host_managed: true,
            ..labelled("a")
        };
        assert_eq!(run("a", &one, &mut host).1, ["store", "cdi", "store"]);
    }
}
