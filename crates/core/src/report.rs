//! What is told about the outcome of a command: which object it concerns, which event tells of it, and which error a
//! status records. Pure; who carries commands out calls it with what happened.
//!
//! An event about a child is recorded on its owner, because that is where people look: pods on their clique, members of
//! a scaling group on the group, everything else on the set.

use std::collections::BTreeMap;

use coppice_api::names::labels;
use coppice_api::types::{LastError, PodCliqueSet};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::command::{Command, Kind, Target};
use crate::conditions::whole_seconds;
use crate::failure::{Failure, Subject, Verb};
use crate::reasons::Reason;
use crate::snapshot::{ReplicaSnapshot, target_of};

/// Errors that a status lists at most.
const MOST_ERRORS: usize = 10;

/// Names that an event lists at most.
const MOST_NAMES: usize = 3;

/// The object that an event about a command is recorded on.
pub fn owner(command: &Command, set: &PodCliqueSet, replica: Option<&ReplicaSnapshot>) -> Target {
    let whole_set = || target_of(Kind::PodCliqueSet, &set.metadata);
    let (kind, name) = match command {
        Command::Create(object) => {
            return object.owner.as_ref().map_or_else(whole_set, |owner| Target {
                kind: owner.kind,
                namespace: object.metadata.namespace.clone(),
                name: owner.name.clone(),
                uid: owner.uid.clone(),
                resource_version: String::new(),
            });
        }
        Command::Merge { target, .. }
        | Command::Status { target, .. }
        | Command::RemoveGate { target, .. }
        | Command::Delete { target }
        | Command::Confirm { target, .. }
        | Command::Event { target, .. } => (target.kind, &target.name),
    };
    let of_child = replica.and_then(|replica| match kind {
        Kind::Pod => {
            let owner = &replica.pods.get(name)?.owner_uid;
            let mut cliques = replica.cliques.values();
            let clique = cliques.find(|clique| clique.metadata.uid.as_ref() == Some(owner))?;
            Some(target_of(Kind::PodClique, &clique.metadata))
        }
        Kind::PodClique => {
            let references = replica.cliques.get(name)?.metadata.owner_references.as_ref()?;
            let group = replica.groups.values().find(|group| {
                let mut owners = references.iter();
                owners.any(|reference| Some(&reference.uid) == group.metadata.uid.as_ref())
            })?;
            Some(target_of(Kind::PodCliqueScalingGroup, &group.metadata))
        }
        _ => None,
    });
    of_child.unwrap_or_else(whole_set)
}

/// Whether a command must wait for another one of an earlier stage that was refused. A pod waits for its gang
/// and for what stands for it at its scheduler, so that a scheduler never sees a pod whose gang it does not know, and for the claims it names, so that it never takes an object
/// of somebody else for its own.
pub fn depends_on(command: &Command, refused: &Command) -> bool {
    let Command::Create(object) = command else {
        return false;
    };
    let Some(subject) = Subject::of(refused) else {
        return false;
    };
    // Gangs and pods follow from the map.
    if subject.kind == Kind::PodGangMap && subject.verb != Verb::Delete {
        return matches!(object.kind, Kind::Pod | Kind::PodGang);
    }
    if object.kind != Kind::Pod {
        return false;
    }
    match (subject.kind, subject.verb) {
        (Kind::PodGang, Verb::Create | Verb::Update)
        | (Kind::KaiPodGroup | Kind::VolcanoPodGroup | Kind::NativePodGroup, Verb::Create) => {
            object.label(labels::POD_GANG) == Some(&subject.name)
        }
        (Kind::ResourceClaim, Verb::Create) => {
            let claims = object.spec()["resourceClaims"].as_array();
            let mut names = claims
                .into_iter()
                .flatten()
                .map(|claim| claim["resourceClaimName"].as_str());
            names.any(|name| name == Some(&subject.name))
        }
        _ => false,
    }
}

/// The events that tell of commands that succeeded: one for each owner and reason, however many objects it concerns.
pub fn successes<'a>(
    done: impl Iterator<Item = &'a Command>,
    set: &PodCliqueSet,
    replica: Option<&ReplicaSnapshot>,
) -> Vec<Command> {
    // The owners are going, and an event for each step would cost as many requests as the steps.
    if set.metadata.deletion_timestamp.is_some() {
        return Vec::new();
    }
    let mut told: BTreeMap<(Target, Reason), (Subject, Vec<String>)> = BTreeMap::new();
    for command in done {
        let Some(subject) = Subject::of(command) else { continue };
        let owner = owner(command, set, replica);
        if let Some(reason) = subject.success(owner.kind) {
            let name = subject.name.clone();
            let names = told.entry((owner, reason)).or_insert_with(|| (subject, Vec::new()));
            names.1.push(name);
        }
    }
    let event = |((target, reason), (subject, names)): ((Target, Reason), (Subject, Vec<String>))| {
        let verb = match subject.verb {
            Verb::Create => "created",
            Verb::Delete => "deleted",
            Verb::Update | Verb::Status | Verb::Ungate => "wrote",
        };
        let listed = names
            .iter()
            .take(MOST_NAMES)
            .map(String::as_str)
            .collect::<Vec<_>>()
            .join(", ");
        let more = match names.len().saturating_sub(MOST_NAMES) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        Command::Event {
            target,
            warning: false,
            reason,
            message: format!("{verb} {} {listed}{more}", subject.kind.as_str()),
        }
    };
    told.into_iter().map(event).collect()
}

/// Failures as a status records them: one entry for each code, the first of its kind in words. An entry that says the
/// same as before keeps its time, so that another attempt alone is nothing to write.
pub fn last_errors<'a>(failures: impl Iterator<Item = &'a Failure>, before: &[LastError]) -> Vec<LastError> {
    let mut by_code: BTreeMap<String, Vec<&Failure>> = BTreeMap::new();
    for failure in failures {
        by_code.entry(failure.subject.code()).or_default().push(failure);
    }
    let entry = |(code, mut failures): (String, Vec<&Failure>)| {
        failures.sort_by(|left, right| left.subject.cmp(&right.subject));
        let mut description = failures[0].description();
        if failures.len() > 1 {
            description.push_str(&format!(" (and {} more of this code)", failures.len() - 1));
        }
        let since = failures.iter().map(|failure| failure.since).min().unwrap_or_default();
        LastError {
            code,
            description,
            observed_at: Time(whole_seconds(since)),
            unknown: Default::default(),
        }
    };
    keep_times(by_code.into_iter().map(entry).collect(), before)
}

/// The code of an error about a size beyond the bounds.
pub const TOO_LARGE: &str = "ERR_TOO_LARGE";

/// Sizes beyond the bounds, as a status records them; none when there are none.
pub fn too_large(excesses: &[String], now: Timestamp) -> Option<LastError> {
    let mut description = excesses.first()?.clone();
    if excesses.len() > 1 {
        description.push_str(&format!(" (and {} more)", excesses.len() - 1));
    }
    description.push_str("; what exists is kept, and nothing is added until the size is lowered");
    Some(LastError {
        code: TOO_LARGE.to_owned(),
        description,
        observed_at: Time(whole_seconds(now)),
        unknown: Default::default(),
    })
}

/// Errors of several places as one list, bounded, each code once; see [`last_errors`].
pub fn combined<'a>(errors: impl Iterator<Item = &'a LastError>, before: &[LastError]) -> Vec<LastError> {
    let mut by_code: BTreeMap<&str, LastError> = BTreeMap::new();
    for error in errors {
        by_code.entry(&error.code).or_insert_with(|| error.clone());
    }
    keep_times(by_code.into_values().take(MOST_ERRORS).collect(), before)
}

fn keep_times(mut errors: Vec<LastError>, before: &[LastError]) -> Vec<LastError> {
    for error in &mut errors {
        let same = |old: &&LastError| old.code == error.code && old.description == error.description;
        if let Some(old) = before.iter().find(same) {
            error.observed_at = old.observed_at.clone();
        }
    }
    errors
}
