//! Objects from the API into the model, none of which can end the scheduler.
//!
//! Owns what becomes of an object that makes the model panic: it is left out and listed as rejected, and everything that is
//! derived from objects is built again without it. A pod that has a node then counts with its requests alone, so that its
//! room is not given away. A rejected object is taken in again when it changes. Assumes that records were made without
//! a panic; projections see to that themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use coppice_placement::predicates::Node;
use coppice_placement::shape::PodDemands;
use coppice_runtime::cache::ObjectKey;

use super::{Changes, GangRecord, Model, PodRecord};
use crate::caught::caught;

/// An object that the model cannot take in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rejected {
    /// What it is.
    pub kind: &'static str,
    /// Which one.
    pub key: ObjectKey,
    /// The message of the panic.
    pub message: String,
}

impl Model {
    /// Adds or replaces a pod.
    pub fn take_in_pod(&mut self, record: &Arc<PodRecord>) {
        let Err(message) = caught(|| self.put_pod(record)) else {
            return;
        };
        let key = record.meta.key.clone();
        self.reject("Pod", &key, message);
        self.pods.remove(&key);
        self.assumed.remove(&key);
        self.recover();
        if record.takes_room()
            && let Err(message) = caught(|| self.put_pod(&with_requests_alone(record)))
        {
            self.reject("Pod", &key, message);
            self.pods.remove(&key);
            self.recover();
        }
    }

    /// Adds or replaces a gang.
    pub fn take_in_gang(&mut self, record: Arc<GangRecord>) {
        let key = record.meta.key.clone();
        if let Err(message) = caught(|| self.put_gang(record)) {
            self.reject("PodGang", &key, message);
            self.gangs.remove(&key);
            self.recover();
        }
    }

    /// Adds or replaces nodes.
    pub fn take_in_nodes(&mut self, nodes: Vec<Node>) {
        let before: BTreeMap<String, Option<Node>> = nodes
            .iter()
            .map(|node| (node.name.clone(), self.nodes.get(&node.name).cloned()))
            .collect();
        if caught(|| self.put_nodes(nodes.clone())).is_ok() {
            return;
        }
        self.put_back(before);
        self.recover();
        for node in nodes {
            let name = node.name.clone();
            let before = BTreeMap::from([(name.clone(), self.nodes.get(&name).cloned())]);
            if let Err(message) = caught(|| self.put_nodes([node])) {
                self.reject("Node", &ObjectKey::new("", name), message);
                self.put_back(before);
                self.recover();
            }
        }
    }

    fn put_back(&mut self, nodes: BTreeMap<String, Option<Node>>) {
        for (name, before) in nodes {
            match before {
                Some(node) => drop(self.nodes.insert(name, node)),
                None => drop(self.nodes.remove(&name)),
            }
        }
    }

    fn reject(&mut self, kind: &'static str, key: &ObjectKey, message: String) {
        self.rejected.push(Rejected {
            kind,
            key: key.clone(),
            message,
        });
    }

    /// Objects that were rejected since this was last asked.
    pub fn take_rejected(&mut self) -> Vec<Rejected> {
        std::mem::take(&mut self.rejected)
    }

    /// Whether a change panicked half way: the model must recover before it is used.
    #[must_use]
    pub fn is_torn(&self) -> bool {
        self.torn || self.state.is_torn()
    }

    /// Builds everything that is derived from objects again, without the pods that make that panic.
    pub fn recover(&mut self) {
        loop {
            let mut culprit = None;
            match caught(|| self.rebuilt_noting(&mut culprit)) {
                Ok(fresh) => {
                    let (room, version, capacity) = (self.room + 1, self.version, self.capacity);
                    let rejected = std::mem::take(&mut self.rejected);
                    *self = fresh;
                    (self.room, self.rejected, self.changes) = (room, rejected, Changes::All);
                    (self.version, self.capacity) = (version, capacity);
                    return;
                }
                Err(message) => {
                    // Without a pod to leave out there is nothing to recover: the process ends and starts afresh.
                    let key = culprit.unwrap_or_else(|| panic!("the model cannot be built: {message}"));
                    self.reject("Pod", &key, message);
                    self.pods.remove(&key);
                    self.assumed.remove(&key);
                }
            }
        }
    }
}

fn with_requests_alone(record: &PodRecord) -> Arc<PodRecord> {
    let demands = PodDemands {
        requests: record.demands.requests.clone(),
        ..PodDemands::default()
    };
    Arc::new(PodRecord {
        demands: Arc::new(demands),
        ..record.clone()
    })
}
