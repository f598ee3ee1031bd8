//! From records to what is asked of the engine about one gang.
//!
//! Owns who belongs to a gang (by label), which of its pods have nodes and which wait, what it depends on, what it shares
//! with the other gangs of its copy of the set, and its priority.
//!
//! A gang that has no pod on a node is asked about as a whole: all floors or nothing. One that has, because it lost a
//! pod, was scaled, or was interrupted, is completed: its floors are cut to the pods there are, and nothing holds it
//! back, since waiting would not make it any more whole. A group of it that has no pod on a node keeps its floor: its pods are
//! asked about once all of that floor exist.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coppice_api::names::labels;
use coppice_api::names::parsing::parse_index;
use coppice_placement::shape::ShapeId;
use coppice_placement::volume::UnboundClaim;
use coppice_placement::{Gang, Group, GroupConfig, Pack, Reason, ReasonCode};
use coppice_runtime::cache::ObjectKey;
use jiff::Timestamp;

use super::{GangId, GangRecord, Model, PodRecord};

/// What to ask about a gang, and what to know of it beside.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// Whom it is about.
    pub id: GangId,
    /// What to ask. Pods and gangs are named `namespace/name`.
    pub gang: Gang,
    /// Those of its dependencies that are scheduled: for the engine's options.
    pub scheduled: BTreeSet<String>,
    /// Why it cannot be asked about yet, if so.
    pub obstacle: Option<Reason>,
    /// Why some of its pods are left out: they wait for a volume.
    pub waits_for_volume: Option<Reason>,
    /// Why a group of a gang that has begun is left out: none of its pods has a node, and not all of its floor exist.
    pub incomplete: Option<Reason>,
    /// What is not known yet of the other gangs of its replica, which follow it into the domain that it takes.
    pub arriving: Option<Reason>,
    /// Some of its pods have nodes.
    pub begun: bool,
    /// The creation of its oldest waiting pod.
    pub since: Timestamp,
    /// Its waiting pods, as they are named in `gang`.
    pub pods: BTreeMap<String, ObjectKey>,
}

/// The pods of one group, sorted out.
#[derive(Debug, Clone, Default)]
pub(super) struct Members {
    /// Pods with a node, whether bound or about to be, and the node.
    pub(super) placed: Vec<(Arc<PodRecord>, Arc<str>)>,
    pub(super) waiting: Vec<Arc<PodRecord>>,
    pub(super) held: Vec<Arc<PodRecord>>,
}

impl Model {
    /// What to ask about a gang; nothing when it has no pods to place.
    pub fn question(&mut self, id: &GangId) -> Option<Question> {
        let waiting = self.waiting.get(id)?;
        let records: Vec<Arc<PodRecord>> = waiting.iter().filter_map(|key| self.pods.get(key).cloned()).collect();
        self.question_about(id, &records)
    }

    /// What to ask about a gang that is placed, to learn how well; nothing unless its floors are met by pods that are bound,
    /// all of them by us, and none is about to be.
    pub fn placed(&mut self, key: &ObjectKey) -> Option<Question> {
        let members = self.members_of(self.gangs.get(key)?);
        let placed = || members.iter().flat_map(|group| &group.placed);
        let bound_by_us = placed().all(|(pod, _)| pod.node.is_some() && self.is_ours(pod));
        if placed().next().is_none() || !bound_by_us || !self.is_scheduled(key) {
            return None;
        }
        self.question_about(&GangId::Gang(key.clone()), &[])
    }

    fn question_about(&mut self, id: &GangId, records: &[Arc<PodRecord>]) -> Option<Question> {
        let since = records.iter().filter_map(|pod| pod.created).min();
        let name = |pod: &Arc<PodRecord>| (pod.meta.key.to_string(), pod.meta.key.clone());
        let mut question = Question {
            id: id.clone(),
            gang: Gang {
                name: id.to_string(),
                ..Gang::default()
            },
            scheduled: BTreeSet::new(),
            obstacle: None,
            waits_for_volume: None,
            incomplete: None,
            arriving: None,
            begun: false,
            since: since.unwrap_or(Timestamp::UNIX_EPOCH),
            pods: records.iter().map(name).collect(),
        };
        match id {
            GangId::Pod(_) => {
                let pod = records.first()?;
                question.obstacle = self.volume_obstacle(pod, &mut BTreeSet::new());
                question.gang.priority = pod.priority;
                question.gang.never_preempts = pod.never_preempts;
                question.gang.groups.push(Group {
                    name: pod.meta.key.to_string(),
                    shape: self.shape(pod),
                    floor: 1,
                    pending: vec![pod.meta.key.to_string()],
                    bound: Vec::new(),
                    pack: Pack::none(),
                });
            }
            GangId::Gang(key) => match self.gangs.get(key).cloned() {
                Some(record) => self.fill(&mut question, &record, records),
                None => {
                    let message = format!("PodGang {key} does not exist");
                    question.obstacle = Some(Reason::new(ReasonCode::WaitingForPods, message));
                }
            },
        }
        question.gang.claims = self.claims_of(&question.gang);
        Some(question)
    }

    /// The claims that pods of a gang and of its siblings name and that are not bound yet.
    fn claims_of(&self, gang: &Gang) -> BTreeMap<String, Arc<UnboundClaim>> {
        let siblings = gang.placement_group.iter().flat_map(|group| &group.siblings);
        let groups = gang.groups.iter().chain(siblings.flat_map(|sibling| &sibling.groups));
        let claims = groups.flat_map(|group| &self.state.shape_of(group.shape).demands.claims);
        self.unbound_claims(claims)
    }

    fn fill(&mut self, question: &mut Question, record: &GangRecord, waiting: &[Arc<PodRecord>]) {
        let mut members = self.members_of(record);
        if let Some(stray) = waiting.iter().find(|pod| group_of(record, pod).is_none()) {
            let message = format!("{} is in no group of PodGang {}", stray.meta.key, record.meta.key);
            question.obstacle = Some(Reason::new(ReasonCode::WaitingForPods, message));
        }
        question.begun = members.iter().any(|group| !group.placed.is_empty());
        let pods = || self.member_pods(&record.meta.key).filter(|pod| pod.counts());
        // By the least important pod: nobody gets room at the expense of others for a pod that could not claim it alone.
        question.gang.priority = pods().map(|pod| pod.priority).min().unwrap_or(0);
        question.gang.never_preempts = pods().any(|pod| pod.never_preempts);
        question.gang.topology = self.topology(record);
        question.gang.pack = record.pack.clone();
        let mut positions: Vec<Vec<usize>> = Vec::new();
        let mut taken = BTreeSet::new();
        for (group, members) in record.groups.iter().zip(&mut members) {
            self.hold_back(question, &group.name, group.floor, members, &mut taken);
            let there = count(members.placed.len() + members.waiting.len());
            let floor = if question.begun {
                group.floor.min(there)
            } else {
                group.floor
            };
            let floor = if floor < group.floor && members.placed.is_empty() {
                // Nothing of it runs: it is placed as a whole once all of it is there, and does not hold the others up.
                if there > 0 {
                    let message = format!(
                        "{}: {there} of {} pods exist and are free of gates",
                        group.name, group.floor
                    );
                    question.incomplete = Some(Reason::new(ReasonCode::WaitingForPods, message));
                }
                members.held.append(&mut members.waiting);
                0
            } else {
                floor
            };
            positions.push(self.add_group(&mut question.gang, &group.name, floor, &group.pack, members));
        }
        let nested = |at: &usize| positions[*at].len() > 1 && record.groups[*at].pack != Pack::none();
        for (name, groups, pack) in &record.configs {
            if let Some(at) = groups.iter().find(|at| nested(at)) {
                let clique = &record.groups[*at].name;
                let message = format!("{clique}: its waiting pods differ, and cannot be packed inside {name}");
                question.obstacle = Some(Reason::new(ReasonCode::Unsupported, message));
            }
            question.gang.configs.push(GroupConfig {
                name: name.clone(),
                groups: groups.iter().flat_map(|at| positions[*at].iter().copied()).collect(),
                pack: pack.clone(),
            });
        }
        let alone = |at: &usize| record.configs.iter().all(|(_, groups, _)| !groups.contains(at));
        for at in (0..record.groups.len()).filter(|at| nested(at) && alone(at)) {
            // Parts of one clique stay packed together.
            question.gang.configs.push(GroupConfig {
                name: record.groups[at].name.clone(),
                groups: positions[at].clone(),
                pack: record.groups[at].pack.clone(),
            });
            for part in &positions[at] {
                question.gang.groups[*part].pack = Pack::none();
            }
        }
        if !question.begun {
            let base = self.base_of(record);
            question.gang.depends_on = base.iter().map(ToString::to_string).collect();
            let scheduled = base.iter().filter(|base| self.is_scheduled(base));
            question.scheduled = scheduled.map(ToString::to_string).collect();
        }
        question.arriving = self.share(&mut question.gang, record, &members);
        if let Some(reason) = self.spread(&mut question.gang, record) {
            question.obstacle = Some(reason);
        }
    }

    /// Leaves out the waiting pods that wait for a volume. A floor that cannot be met without them waits for it too.
    fn hold_back(
        &self,
        question: &mut Question,
        group: &str,
        floor: u32,
        members: &mut Members,
        taken: &mut BTreeSet<ObjectKey>,
    ) {
        if members.waiting.iter().all(|pod| pod.volumes.is_empty()) {
            return;
        }
        let mut first = None;
        for pod in std::mem::take(&mut members.waiting) {
            match self.volume_obstacle(&pod, taken) {
                None => members.waiting.push(pod),
                Some(reason) => {
                    first.get_or_insert(reason);
                    members.held.push(pod);
                }
            }
        }
        let Some(mut reason) = first else { return };
        reason.message = format!("{group}: {}", reason.message);
        if count(members.placed.len() + members.waiting.len()) < floor && !question.begun {
            question.obstacle.get_or_insert(reason);
        } else {
            question.waits_for_volume.get_or_insert(reason);
        }
    }

    /// Adds a group to a gang; several when its waiting pods do not all have one shape. Returns their positions.
    fn add_group(&mut self, gang: &mut Gang, name: &str, floor: u32, pack: &Pack, members: &Members) -> Vec<usize> {
        let bound: Vec<String> = members.placed.iter().map(|(_, node)| node.to_string()).collect();
        let missing = (floor as usize).saturating_sub(bound.len());
        let mut parts: Vec<(ShapeId, Vec<String>, u32)> = Vec::new();
        for (at, pod) in members.waiting.iter().enumerate() {
            let shape = self.shape(pod);
            let found = parts.iter().position(|(other, ..)| *other == shape);
            let part = found.unwrap_or_else(|| {
                parts.push((shape, Vec::new(), 0));
                parts.len() - 1
            });
            parts[part].1.push(pod.meta.key.to_string());
            parts[part].2 += u32::from(at < missing);
        }
        if parts.is_empty() {
            let some = members
                .placed
                .iter()
                .map(|(pod, _)| pod)
                .chain(&members.held)
                .next()
                .cloned();
            let shape = match some {
                Some(pod) => self.shape(&pod),
                None => self.state.shape(&Default::default()),
            };
            parts.push((shape, Vec::new(), 0));
        }
        let one = parts.len() == 1;
        let first = gang.groups.len();
        for (at, (shape, pending, share)) in parts.into_iter().enumerate() {
            let bound = if at == 0 { bound.clone() } else { Vec::new() };
            gang.groups.push(Group {
                name: name.to_owned(),
                shape,
                floor: if one { floor } else { share + count(bound.len()) },
                pending,
                bound,
                pack: pack.clone(),
            });
        }
        (first..gang.groups.len()).collect()
    }

    /// Whether every floor of a gang is met by pods that are bound; being about to be bound is not enough.
    #[must_use]
    pub fn is_scheduled(&self, key: &ObjectKey) -> bool {
        let Some(record) = self.gangs.get(key) else {
            return false;
        };
        let groups = record.groups.iter().zip(self.members_of(record));
        groups.into_iter().all(|(group, members)| {
            let bound = members.placed.iter().filter(|(pod, _)| pod.node.is_some()).count();
            bound >= group.floor as usize
        })
    }

    pub(super) fn members_of(&self, record: &GangRecord) -> Vec<Members> {
        let mut groups = vec![Members::default(); record.groups.len()];
        let pods = self.members.get(&record.meta.key).into_iter().flatten();
        for pod in pods.filter_map(|key| self.pods.get(key)).filter(|pod| pod.counts()) {
            let Some(at) = group_of(record, pod) else { continue };
            match self.node_of(pod) {
                Some(node) => groups[at].placed.push((pod.clone(), node)),
                None if pod.gated || !self.is_ours(pod) => groups[at].held.push(pod.clone()),
                None => groups[at].waiting.push(pod.clone()),
            }
        }
        let index = |pod: &PodRecord| {
            pod.label(labels::POD_INDEX)
                .and_then(|text| parse_index(text))
                .unwrap_or(u32::MAX)
        };
        for group in &mut groups {
            group.waiting.sort_by_key(|pod| (index(pod), pod.meta.key.clone()));
            group.placed.sort_by_key(|(pod, _)| (pod.created, pod.meta.key.clone()));
        }
        groups
    }
}

fn group_of(record: &GangRecord, pod: &PodRecord) -> Option<usize> {
    let clique = pod.label(labels::POD_CLIQUE)?;
    record.groups.iter().position(|group| *group.name == **clique)
}

pub(super) fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}
