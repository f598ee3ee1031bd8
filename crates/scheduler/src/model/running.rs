//! The gangs that run, and which of them changed since somebody asked.
//!
//! Owns what the engine is told of a running gang (floors, pods by age, base, priority, whether it may be touched) and the
//! notes by which an index of running gangs is kept up to date gang by gang: every change of a pod or a gang notes the gang;
//! what moves everything (nodes that come and go, disruption budgets that select other pods) notes that nothing of the index holds any more.

use std::collections::BTreeSet;

use coppice_placement::preempt::{Running, RunningGroup, RunningPod};
use coppice_runtime::cache::ObjectKey;
use jiff::Timestamp;

use super::{GangId, Model, PodRecord};

/// What changed of the gangs that run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changes {
    /// Possibly everything.
    All,
    /// At most these.
    Gangs(BTreeSet<GangId>),
}

impl Default for Changes {
    fn default() -> Self {
        Self::Gangs(BTreeSet::new())
    }
}

impl Changes {
    pub(super) fn note(&mut self, gang: GangId) {
        if let Self::Gangs(gangs) = self {
            gangs.insert(gang);
        }
    }
}

impl Model {
    /// What changed of the gangs that run since this was last asked.
    pub fn take_changes(&mut self) -> Changes {
        std::mem::take(&mut self.changes)
    }

    /// Notes that what is known of this gang elsewhere no longer holds.
    pub fn note_change(&mut self, gang: GangId) {
        self.changes.note(gang);
    }

    /// The gangs that run and could be evicted: those whose pods are ours. A gang that is being bound is protected.
    #[must_use]
    pub fn running(&self) -> Vec<Running> {
        let gangs = self.gangs.keys().cloned().map(GangId::Gang);
        let alone = self.pods.values().filter(|pod| pod.gang().is_none());
        let alone = alone.map(|pod| GangId::Pod(pod.meta.key.clone()));
        gangs.chain(alone).filter_map(|id| self.running_gang(&id)).collect()
    }

    /// One of them; nothing when it has no pods on nodes.
    #[must_use]
    pub fn running_gang(&self, id: &GangId) -> Option<Running> {
        match id {
            GangId::Gang(key) => {
                let record = self.gangs.get(key)?;
                let mut running = Running {
                    name: id.to_string(),
                    // By the most important pod: nobody evicts a pod that is as important as he is.
                    priority: self.highest_priority(key),
                    base: self.base_of(record).map(|base| base.to_string()),
                    sequence: age(record.created),
                    protected: false,
                    groups: Vec::new(),
                };
                for (group, members) in record.groups.iter().zip(self.members_of(record)) {
                    running.protected |= members
                        .placed
                        .iter()
                        .any(|(pod, _)| pod.node.is_none() || !self.is_ours(pod));
                    running.groups.push(RunningGroup {
                        floor: group.floor,
                        pods: members.placed.iter().map(|(pod, _)| self.running_pod(pod)).collect(),
                    });
                }
                let some = running.groups.iter().any(|group| !group.pods.is_empty());
                some.then_some(running)
            }
            GangId::Pod(key) => {
                let pod = self.pods.get(key)?;
                let runs = pod.takes_room() && pod.counts() && self.is_ours(pod) && pod.gang().is_none();
                runs.then(|| Running {
                    name: id.to_string(),
                    priority: pod.priority,
                    base: None,
                    sequence: age(pod.created),
                    protected: false,
                    groups: vec![RunningGroup {
                        floor: 1,
                        pods: vec![self.running_pod(pod)],
                    }],
                })
            }
        }
    }
}

impl Model {
    fn highest_priority(&self, gang: &ObjectKey) -> i32 {
        let pods = self.member_pods(gang).filter(|pod| pod.counts());
        pods.map(|pod| pod.priority).max().unwrap_or(0)
    }

    fn running_pod(&self, pod: &PodRecord) -> RunningPod {
        RunningPod {
            name: pod.meta.key.to_string(),
            budgets: self.budgets_of(pod),
        }
    }
}

/// Grows with the date of creation; whoever has none is older than everybody.
fn age(created: Option<Timestamp>) -> u64 {
    created.map_or(0, |at| u64::try_from(at.as_second()).unwrap_or(0))
}
