//! A plan while it is made: commands in the order of the stages, deadlines, waits, and what may still be created.
//!
//! Deciders add to it and never read it; what it holds is turned into the stages of a plan once, at the end.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;

use crate::command::{Command, Target};
use crate::reasons::Reason;

/// Something a replica waits for, in words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The object that waits.
    pub about: String,
    /// A reason of the documented list.
    pub reason: Reason,
    /// What it waits for, and until when; absolute times only, so that time passing changes nothing.
    pub message: String,
    /// When something happens even if nothing changes.
    pub until: Option<Timestamp>,
}

impl Wait {
    /// Whether it ends only when something changes that starting up or updating does not bring about by itself.
    pub fn is_stall(&self) -> bool {
        !matches!(
            self.reason,
            Reason::WaitingForBaseGang | Reason::WaitingForUpdateTurn | Reason::UpdatePaused
        )
    }

    /// What counts first: a stall before a wait of normal operation, and among those the one that ends first.
    fn rank(&self) -> impl Ord + use<> {
        (!self.is_stall(), self.until.unwrap_or(Timestamp::MAX))
    }

    /// The wait that counts first.
    pub fn foremost<'a>(waits: impl Iterator<Item = &'a Self>) -> Option<&'a Self> {
        waits.min_by_key(|wait| wait.rank())
    }
}

/// Commands while they are collected, in the order of the stages.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// Services, scaling groups, cliques, autoscalers; templates of cliques.
    pub(crate) children: Vec<Command>,
    /// Gangs, before the pods they list; marks that a termination began, before its deletes.
    pub(crate) gangs: Vec<Command>,
    /// Pods, and what else must come after the gangs.
    pub(crate) pods: Vec<Command>,
    /// Statuses and events, after what they speak of.
    pub(crate) statuses: Vec<Command>,
    pub(crate) deadline: Option<Timestamp>,
    pub(crate) waits: Vec<Wait>,
    /// What may still be created in this plan.
    pub(crate) room: Room,
}

/// What one plan may create: a bounded number of objects, and of bytes. What does not fit is left to the next plan, so
/// that neither a large number nor a large template makes a plan that does not fit into memory.
#[derive(Debug)]
pub(crate) struct Room {
    objects: usize,
    bytes: usize,
}

impl Default for Room {
    fn default() -> Self {
        Self {
            objects: 500,
            bytes: 4 << 20,
        }
    }
}

impl Room {
    /// Whether one more object may be created. The last one may be larger than what is left.
    pub(crate) fn is_left(&self) -> bool {
        self.objects > 0 && self.bytes > 0
    }

    /// Takes the room of one object.
    pub(crate) fn take(&mut self, bytes: usize) {
        self.objects = self.objects.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Adds one merge patch to another; where both name a field, the later one counts.
fn merge_into(before: &mut Value, later: Value) {
    match (before, later) {
        (Value::Object(before), Value::Object(later)) => {
            for (key, value) in later {
                merge_into(before.entry(key).or_insert(Value::Null), value);
            }
        }
        (before, later) => *before = later,
    }
}

/// How many bytes an object takes as JSON.
pub(crate) fn weight(object: &impl serde::Serialize) -> usize {
    serde_json::to_vec(object).map_or(0, |text| text.len())
}

impl Draft {
    /// Asks for another plan no later than this.
    pub(crate) fn wake_at(&mut self, at: Timestamp) {
        self.deadline = Some(self.deadline.map_or(at, |earlier| earlier.min(at)));
    }

    /// Records a wait of a clique.
    pub(crate) fn wait(&mut self, about: &str, reason: Reason, message: String) {
        self.waits.push(Wait {
            about: about.to_owned(),
            reason,
            message,
            until: None,
        });
    }

    /// Records a wait of a clique that ends at a time, and asks for another plan then.
    pub(crate) fn wait_until(&mut self, about: &str, reason: Reason, message: String, until: Timestamp) {
        self.wake_at(until);
        self.waits.push(Wait {
            about: about.to_owned(),
            reason,
            message,
            until: Some(until),
        });
    }

    /// The wait of each clique that counts first, by name of the clique.
    pub(crate) fn foremost_waits(&self) -> BTreeMap<String, Wait> {
        let mut by_clique: BTreeMap<&str, Vec<&Wait>> = BTreeMap::new();
        for wait in &self.waits {
            by_clique.entry(&wait.about).or_default().push(wait);
        }
        by_clique
            .into_iter()
            .filter_map(|(name, waits)| Some((name.to_owned(), Wait::foremost(waits.into_iter())?.clone())))
            .collect()
    }

    /// Patches a child; a patch of the same object in this plan takes it along, because it moves the version on.
    pub(crate) fn merge_child(&mut self, target: Target, patch: Value) {
        for command in &mut self.children {
            if let Command::Merge {
                target: other,
                patch: before,
            } = command
                && other.uid == target.uid
            {
                merge_into(before, patch);
                return;
            }
        }
        self.children.push(Command::Merge { target, patch });
    }

    /// Whether an object is patched before the gangs are written, so that a status of it would be refused.
    pub(crate) fn patches(&self, uid: Option<&str>) -> bool {
        let mut commands = self.children.iter();
        commands.any(|command| matches!(command, Command::Merge { target, .. } if Some(target.uid.as_str()) == uid))
    }

    /// Deletes an object after the gangs were written.
    pub(crate) fn delete(&mut self, target: Target) {
        self.pods.push(Command::Delete { target });
    }

    /// The commands, stage by stage. A patch moves the version on, so a status of the same object in the same plan would
    /// be refused: the next plan writes it.
    pub(crate) fn into_stages(mut self) -> Vec<Vec<Command>> {
        let before = self.children.iter().chain(&self.gangs).chain(&self.pods);
        let patched: BTreeSet<String> = before
            .filter_map(|command| match command {
                Command::Merge { target, .. } | Command::Status { target, .. } => Some(target.uid.clone()),
                _ => None,
            })
            .collect();
        let late =
            |command: &Command| matches!(command, Command::Status { target, .. } if patched.contains(&target.uid));
        self.statuses.retain(|command| !late(command));
        let mut stages = vec![self.children, self.gangs, self.pods, self.statuses];
        stages.retain(|stage| !stage.is_empty());
        stages
    }
}
