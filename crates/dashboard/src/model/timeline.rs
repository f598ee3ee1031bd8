//! What happened: read from how objects change and from events, kept in bounded memory.
//!
//! Owns what is worth an entry and how many are kept. A change says what happened since the dashboard looks; events say what
//! happened before, too. Never asks what time it is.

use std::collections::VecDeque;

use coppice_api::names::labels;
use coppice_api::types::{PodCliqueSet, PodGang, PodGangPhase};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, Node, Pod};
use kube::ResourceExt as _;

/// Entries that are kept.
pub const KEPT: usize = 2_000;
/// Bytes that are kept of a message.
const MESSAGE: usize = 500;

/// What an entry is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Pods got nodes.
    Placed,
    /// A gang changed its phase.
    Gang,
    /// Pods went away.
    Gone,
    /// A node came, went, or changed its state.
    Node,
    /// An update began or ended, or the state of a set changed.
    Rollout,
    /// A warning that a component reported.
    Warning,
}

impl Kind {
    /// All of them, in the order of the filter.
    pub const ALL: [Self; 6] = [
        Self::Placed,
        Self::Gang,
        Self::Gone,
        Self::Node,
        Self::Rollout,
        Self::Warning,
    ];

    /// The word for it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Placed => "placed",
            Self::Gang => "gang",
            Self::Gone => "removed",
            Self::Node => "node",
            Self::Rollout => "rollout",
            Self::Warning => "warning",
        }
    }
}

/// Something that happened, to one object or to several of the same owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// When, for the last time.
    pub at: Timestamp,
    /// What kind of thing.
    pub kind: Kind,
    /// The namespace; empty for nodes.
    pub namespace: String,
    /// The kind of the object.
    pub object: &'static str,
    /// The object, or what several objects have in common.
    pub name: String,
    /// The gang, where there is one.
    pub gang: Option<String>,
    /// What happened.
    pub message: String,
    /// How many times, or to how many objects.
    pub count: u64,
    /// Whether it was read from a report, and not seen.
    pub reported: bool,
}

impl Entry {
    fn seen(
        at: Timestamp,
        kind: Kind,
        object: &'static str,
        namespace: Option<String>,
        name: String,
        message: String,
    ) -> Self {
        Self {
            at,
            kind,
            namespace: namespace.unwrap_or_default(),
            object,
            name,
            gang: None,
            message: bounded(message),
            count: 1,
            reported: false,
        }
    }
}

fn bounded(mut text: String) -> String {
    if text.len() > MESSAGE {
        let cut = (0..=MESSAGE).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push('…');
    }
    text
}

/// The last entries.
#[derive(Debug, Default)]
pub struct History {
    entries: VecDeque<Entry>,
}

/// Things that are this many seconds apart are not one thing.
const TOGETHER: i64 = 3;
/// Entries this far back may be the same thing still going on.
const NEAR: usize = 40;

impl History {
    /// Adds entries. The same thing of the same gang shortly after is counted, not repeated.
    pub fn extend(&mut self, entries: impl IntoIterator<Item = Entry>) {
        for entry in entries {
            self.add(entry);
        }
    }

    fn add(&mut self, entry: Entry) {
        let same = |known: &&mut Entry| {
            let alike = known.kind == entry.kind
                && known.object == entry.object
                && known.namespace == entry.namespace
                && known.message == entry.message;
            let about = match (&known.gang, &entry.gang) {
                (Some(one), Some(other)) => one == other,
                _ => known.name == entry.name,
            };
            let close = entry.at.duration_since(known.at).as_secs().abs() < TOGETHER;
            alike && about && (close || entry.reported)
        };
        if let Some(known) = self.entries.iter_mut().rev().take(NEAR).find(same) {
            known.count = if entry.reported {
                known.count.max(entry.count)
            } else {
                known.count + entry.count
            };
            known.at = known.at.max(entry.at);
            return;
        }
        self.entries.push_back(entry);
        if self.entries.len() > KEPT {
            // Reports come in any order: the oldest thing goes, not the one that came first.
            let oldest = self.entries.iter().enumerate().min_by_key(|(_, entry)| entry.at);
            if let Some((at, _)) = oldest {
                self.entries.remove(at);
            }
        }
    }

    /// All entries, the newest first.
    #[must_use]
    pub fn newest_first(&self) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self.entries.iter().cloned().collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.at));
        entries
    }
}

fn ours(pod: &Pod) -> bool {
    pod.labels().contains_key(labels::POD_GANG)
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

/// Why a pod is going, as its status says.
fn disruption(pod: &Pod) -> Option<String> {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let mut found = conditions.filter(|condition| condition.type_ == "DisruptionTarget" && condition.status == "True");
    let condition = found.next()?;
    let reason = condition.reason.as_deref().unwrap_or("Disrupted");
    let message = condition.message.as_deref().unwrap_or_default();
    Some(if message.is_empty() {
        reason.to_owned()
    } else {
        format!("{reason}: {message}")
    })
}

/// Pods of gangs: placed, evicted, gone.
pub fn of_pod(old: Option<&Pod>, new: Option<&Pod>, now: Timestamp) -> Vec<Entry> {
    let Some(pod) = new.or(old).filter(|pod| ours(pod)) else {
        return Vec::new();
    };
    let set = pod.labels().get(labels::PART_OF).cloned();
    let entry = |kind: Kind, message: String| {
        let mut entry = Entry::seen(now, kind, "pod", pod.namespace(), pod.name_any(), message);
        entry.gang = pod.labels().get(labels::POD_GANG).cloned().or(set.clone());
        entry
    };
    let same = old
        .zip(new)
        .is_none_or(|(old, new)| old.metadata.uid == new.metadata.uid);
    let old = old.filter(|_| same);
    let mut found = Vec::new();
    if let Some(new) = new {
        if node_of(new).is_some() && old.is_none_or(|old| node_of(old).is_none()) {
            found.push(entry(Kind::Placed, "bound to a node".to_owned()));
        }
        let leaving = |pod: &Pod| pod.metadata.deletion_timestamp.is_some();
        if leaving(new) && old.is_some_and(|old| !leaving(old)) {
            let why = disruption(new).unwrap_or_else(|| "deleted".to_owned());
            found.push(entry(Kind::Gone, why));
        }
    } else if let Some(old) = old
        && old.metadata.deletion_timestamp.is_none()
    {
        found.push(entry(Kind::Gone, "deleted".to_owned()));
    }
    found
}

/// Gangs: created, in another phase, gone.
pub fn of_gang(old: Option<&PodGang>, new: Option<&PodGang>, now: Timestamp) -> Vec<Entry> {
    let phase = |gang: &PodGang| {
        gang.status
            .as_ref()
            .map(|status| status.phase.clone())
            .unwrap_or_default()
    };
    let Some(gang) = new.or(old) else { return Vec::new() };
    let message = match (old, new) {
        (None, Some(_)) => "created".to_owned(),
        (Some(_), None) => "deleted".to_owned(),
        (Some(old), Some(new)) if phase(old) != phase(new) => {
            let why = super::pending::wait(new)
                .filter(|_| phase(new) == PodGangPhase::Pending)
                .map(|condition| format!(": {}", condition.message))
                .unwrap_or_default();
            format!("{} → {}{why}", phase(old).as_str(), phase(new).as_str())
        }
        _ => return Vec::new(),
    };
    let mut entry = Entry::seen(now, Kind::Gang, "gang", gang.namespace(), gang.name_any(), message);
    entry.gang = Some(gang.name_any());
    vec![entry]
}

/// Nodes: new, gone, ready or not, cordoned or not.
pub fn of_node(old: Option<&Node>, new: Option<&Node>, now: Timestamp) -> Vec<Entry> {
    let state = |node: &Node| {
        let mut conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
        let ready = conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True");
        let cordoned = node.spec.as_ref().and_then(|spec| spec.unschedulable).unwrap_or(false);
        (ready, cordoned)
    };
    let Some(node) = new.or(old) else { return Vec::new() };
    let entry = |message: &str| Entry::seen(now, Kind::Node, "node", None, node.name_any(), message.to_owned());
    let (old, new) = match (old, new) {
        (None, Some(_)) => return vec![entry("added")],
        (Some(_), None) => return vec![entry("removed")],
        (Some(old), Some(new)) => (state(old), state(new)),
        (None, None) => return Vec::new(),
    };
    let mut found = Vec::new();
    if old.0 != new.0 {
        found.push(entry(if new.0 { "ready again" } else { "not ready" }));
    }
    if old.1 != new.1 {
        found.push(entry(if new.1 { "cordoned" } else { "uncordoned" }));
    }
    found
}

/// Sets: created, gone, updates and states.
pub fn of_set(old: Option<&PodCliqueSet>, new: Option<&PodCliqueSet>, now: Timestamp) -> Vec<Entry> {
    let Some(set) = new.or(old) else { return Vec::new() };
    let entry = |message: String| Entry::seen(now, Kind::Rollout, "set", set.namespace(), set.name_any(), message);
    let (old, new) = match (old, new) {
        (None, Some(_)) => return vec![entry("created".to_owned())],
        (Some(_), None) => return vec![entry("deleted".to_owned())],
        (Some(old), Some(new)) => (old, new),
        (None, None) => return Vec::new(),
    };
    let mut found = Vec::new();
    let update = |set: &PodCliqueSet| {
        let progress = set.status.as_ref()?.update_progress.as_ref()?;
        Some((
            progress.update_started_at.clone()?.0,
            progress.update_ended_at.clone().map(|time| time.0),
        ))
    };
    if let (before, Some((started, ended))) = (update(old), update(new)) {
        let began = before.is_none_or(|(known, _)| known != started);
        if began {
            found.push(entry("update began".to_owned()));
        }
        if let Some(ended) = ended
            && (began || before.is_some_and(|(_, known)| known.is_none()))
        {
            let seconds = ended.duration_since(started).as_secs().max(0);
            found.push(entry(format!("update ended after {seconds} s")));
        }
    }
    for kind in ["Ready", "Degraded"] {
        let condition = |set: &PodCliqueSet| {
            let conditions = set.status.iter().flat_map(|status| &status.conditions);
            let mut named = conditions.filter(|condition| condition.type_ == kind);
            named.next().cloned()
        };
        let (Some(new), old) = (condition(new), condition(old)) else {
            continue;
        };
        if old.as_ref().map(|old| &old.status) != Some(&new.status) && !(old.is_none() && new.status != "True") {
            let word = if new.status == "True" {
                kind.to_owned()
            } else {
                format!("not {kind}")
            };
            found.push(entry(format!("{word}: {}", new.message)));
        }
    }
    found
}

/// Events: warnings about objects of sets, and what a scheduler says of evictions.
pub fn of_event(_old: Option<&Event>, new: Option<&Event>, now: Timestamp) -> Vec<Entry> {
    let Some(event) = new.filter(|event| event.type_.as_deref() == Some("Warning")) else {
        return Vec::new();
    };
    let object = match event.involved_object.kind.as_deref() {
        Some("PodGang") => "gang",
        Some("PodCliqueSet") => "set",
        Some("PodClique") => "clique",
        Some("PodCliqueScalingGroup") => "group",
        Some("Node") => "node",
        Some("Pod") => "pod",
        _ => return Vec::new(),
    };
    let view = coppice_view::events::build::entries(std::slice::from_ref(event), None);
    let Some(view) = view.into_iter().next() else {
        return Vec::new();
    };
    let message = if view.reason.is_empty() {
        view.message
    } else {
        format!("{}: {}", view.reason, view.message)
    };
    vec![Entry {
        at: view.last.unwrap_or(now).min(now),
        kind: Kind::Warning,
        namespace: event.involved_object.namespace.clone().unwrap_or_default(),
        object,
        gang: (object == "gang").then(|| view.object_name.clone()),
        name: view.object_name,
        message: bounded(message),
        count: u64::try_from(view.count).unwrap_or(1),
        reported: true,
    }]
}

#[cfg(test)]
#[path = "timeline_tests.rs"]
mod tests;
