//! Preparing on a small node that crashes after any step.

use std::collections::BTreeMap;

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::json;

use super::super::cdi::file_names;
use super::super::claim::tests::{channel_claim, daemon_claim};
use super::super::unprepare::{self, UnprepareFacts, UnprepareStep};
use super::*;

/// What survives a crash, and whether the daemon of a domain is ready.
#[derive(Clone, Debug)]
struct Node {
    checkpoint: String,
    label: Option<String>,
    files: BTreeMap<String, Value>,
    daemon_files: bool,
    daemon_ready: bool,
    now: i64,
}

impl Node {
    fn new() -> Self {
        Self {
            checkpoint: Checkpoint::empty("boot").encode(),
            label: None,
            files: BTreeMap::new(),
            daemon_files: false,
            daemon_ready: true,
            now: 0,
        }
    }

    fn checkpoint(&self) -> Checkpoint {
        Checkpoint::decode(&self.checkpoint, "boot").unwrap()
    }

    fn facts(&self, claim: &Claim, cdi_written: bool) -> NodeFacts {
        NodeFacts {
            domain: DomainLookup::Found {
                name: "imex".into(),
                namespace: claim.namespace.clone(),
            },
            label: self.label.clone(),
            resource_version: "1".into(),
            clique_id: "u.1".into(),
            not_ready: (!self.daemon_ready).then(|| "nvidia-imex has started and is not READY yet".to_owned()),
            index: Some(3),
            host_managed: false,
            daemon_files_written: self.daemon_files,
            cdi_written,
            daemon_directory: "/plugin/domains/d".into(),
            channels_major: 234,
            channels: 2_048,
            management: None,
        }
    }

    /// Runs at most this many steps, then the process dies; the last step when it ended by itself.
    fn prepare(&mut self, claim: &Claim, steps: usize) -> Option<Step> {
        let mut cdi_written = false;
        for _ in 0..steps {
            let step = next_step(claim, &self.facts(claim, cdi_written), &self.checkpoint());
            match step {
                Step::Store(next) => {
                    self.checkpoint = next.encode();
                    self.verify();
                }
                Step::PatchNode(patch) => {
                    let label = &patch["metadata"]["labels"]["resource.nvidia.com/computeDomain"];
                    self.label = label.as_str().map(str::to_owned);
                }
                Step::WriteDaemonFiles => self.daemon_files = true,
                Step::WriteCdi { file, document } => {
                    self.files.insert(file, document);
                    cdi_written = true;
                }
                end => return Some(end),
            }
        }
        None
    }

    fn unprepare(&mut self, uid: &str, steps: usize) -> bool {
        for _ in 0..steps {
            let facts = UnprepareFacts {
                label: self.label.clone(),
                cdi_files: self.files.keys().cloned().collect(),
                host_managed: false,
            };
            let now = Timestamp::from_second(self.now).unwrap();
            match unprepare::next_step(uid, &facts, &self.checkpoint(), now) {
                UnprepareStep::PatchNode(_) => self.label = None,
                UnprepareStep::RemoveCdi(files) => self.files.retain(|file, _| !files.contains(file)),
                UnprepareStep::Store(next) => {
                    self.checkpoint = next.encode();
                    self.verify();
                }
                UnprepareStep::Done => return true,
            }
        }
        false
    }

    fn verify(&self) {
        let checkpoint = self.checkpoint();
        let completed = || {
            checkpoint
                .claims
                .iter()
                .filter(|(_, entry)| entry.state == ClaimState::PrepareCompleted)
        };
        let channels = || completed().filter(|(_, entry)| entry.device == "channel-0");
        assert!(channels().count() <= 1, "one claim has the channel");
        for (uid, _) in completed() {
            assert!(
                file_names(uid).iter().any(|file| self.files.contains_key(file)),
                "{uid} has its document"
            );
        }
        for (_, entry) in channels() {
            assert_eq!(
                self.label.as_deref(),
                Some(entry.domain_uid.as_str()),
                "the node serves the claim's domain"
            );
        }
    }
}

#[test]
fn a_channel_is_labelled_waited_for_written_and_completed() {
    let mut node = Node {
        daemon_ready: false,
        ..Node::new()
    };
    let claim = channel_claim("c-1", "d");
    let Some(Step::Wait(reason)) = node.prepare(&claim, 9) else {
        panic!("it waits")
    };
    assert_eq!(
        reason,
        "error asserting ComputeDomain Ready: current node not ready in ComputeDomain \
         (nvidia-imex has started and is not READY yet)"
    );
    assert_eq!(node.label.as_deref(), Some("d"));
    node.daemon_ready = true;
    let Some(Step::Done(device)) = node.prepare(&claim, 9) else {
        panic!("it is done")
    };
    assert_eq!(
        device.cdi_devices,
        ["k8s.compute-domain.nvidia.com/claim=c-1-channel-0"]
    );
    assert_eq!(
        node.prepare(&claim, 1),
        Some(Step::Done(device)),
        "answered from the checkpoint"
    );
}

#[test]
fn what_cannot_be_helped_is_refused_and_the_rest_waits() {
    let claim = channel_claim("c-1", "d");
    let node = Node::new();
    let started = node.checkpoint().with("c-1", {
        let device = claim.device(Decoding::Strict).unwrap();
        new_entry(&claim, &device, ClaimState::PrepareStarted, Vec::new())
    });
    let step = |change: &dyn Fn(&mut NodeFacts)| {
        let mut facts = node.facts(&claim, false);
        change(&mut facts);
        next_step(&claim, &facts, &started)
    };
    let other = |facts: &mut NodeFacts| {
        facts.domain = DomainLookup::Found {
            name: "x".into(),
            namespace: "other".into(),
        };
    };
    assert!(matches!(step(&other), Step::Refuse(text) if text.ends_with("than the ComputeDomain's namespace")));
    assert!(matches!(
        step(&|facts| facts.domain = DomainLookup::Gone),
        Step::Refuse(_)
    ));
    // §9, 5.2: a domain that is only missing from a cache is not refused.
    assert!(matches!(
        step(&|facts| facts.domain = DomainLookup::Unknown),
        Step::Wait(_)
    ));
    let taken = step(&|facts| facts.label = Some("e".into()));
    assert!(matches!(taken, Step::Wait(text) if text.contains("label already exists for a different ComputeDomain")));
    let unallocated = Claim {
        allocation: None,
        ..claim.clone()
    };
    assert!(matches!(
        next_step(&unallocated, &node.facts(&claim, false), &node.checkpoint()),
        Step::Refuse(_)
    ));
    let hosted = NodeFacts {
        host_managed: true,
        ..node.facts(&claim, false)
    };
    assert!(matches!(
        next_step(&daemon_claim("x", "d"), &hosted, &started),
        Step::Refuse(_)
    ));
    let waiting = NodeFacts {
        not_ready: Some("no socket".into()),
        ..hosted
    };
    let reason = next_step(&claim, &waiting, &started);
    assert!(matches!(reason, Step::Wait(text) if text.starts_with("host nvidia-imex daemon readiness check failed")));
}

#[test]
fn an_aborted_claim_is_not_brought_back_unless_it_is_allocated_again() {
    let mut node = Node {
        daemon_ready: false,
        ..Node::new()
    };
    let claim = channel_claim("c-1", "d");
    node.prepare(&claim, 9);
    assert!(node.unprepare("c-1", 9));
    assert!(matches!(node.prepare(&claim, 9), Some(Step::Refuse(text)) if text.starts_with("stale prepare")));
    node.daemon_ready = true;
    let mut again = claim;
    again.allocation.as_mut().unwrap()["nodeSelector"] = json!({});
    assert!(matches!(node.prepare(&again, 9), Some(Step::Done(_))));
}

#[test]
fn a_node_without_a_fabric_gets_a_claim_without_devices() {
    let claim = channel_claim("c-1", "d");
    let mut node = Node::new();
    let mut checkpoint = node.checkpoint();
    node.label = Some("d".into());
    for _ in 0..3 {
        let facts = NodeFacts {
            clique_id: String::new(),
            ..node.facts(&claim, false)
        };
        match next_step(&claim, &facts, &checkpoint) {
            Step::Store(next) => checkpoint = next,
            Step::Done(device) => return assert!(device.cdi_devices.is_empty()),
            other => panic!("{other:?}"),
        }
    }
    panic!("never done");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn crashes_at_any_step_lose_nothing_and_leave_nothing(
        events in prop::collection::vec((0..5_usize, any::<bool>(), 0..8_usize, any::<bool>()), 1..40),
    ) {
        let claims = [
            channel_claim("c-1", "d"), channel_claim("c-2", "d"), channel_claim("c-3", "e"),
            daemon_claim("c-4", "d"), daemon_claim("c-5", "e"),
        ];
        let mut node = Node::new();
        for (which, prepares, steps, ready) in events {
            node.daemon_ready = ready;
            node.now += 1;
            if prepares {
                node.prepare(&claims[which], steps);
            } else {
                node.unprepare(&claims[which].uid, steps);
            }
        }
        for claim in &claims {
            prop_assert!(node.unprepare(&claim.uid, 9));
        }
        prop_assert!(node.files.is_empty(), "{:?}", node.files.keys());
        prop_assert_eq!(&node.label, &None);
        let later = Timestamp::from_second(node.now + 90).unwrap();
        let left = node.checkpoint();
        prop_assert!(left.expired(later).unwrap_or(left.clone()).claims.is_empty());
        node.checkpoint = Checkpoint::empty("boot").encode();
        prop_assert!(matches!(node.prepare(&claims[0], 9), Some(Step::Wait(_) | Step::Done(_))));
    }
}
