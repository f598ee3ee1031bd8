//! The check of the sets: which are stuck, and why.

use coppice_api::names::labels;
use coppice_api::types::{PodCliqueSet, PodCliqueSetStatus, PodGang};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use super::Finding;
use super::facts::{Facts, named};
use crate::view::SetState;
use crate::view::build::{gang_waiting, set_state};

/// A set that is not ready for so long is stuck.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);
/// More stuck sets than this are counted, not listed.
const LISTED: usize = 10;

/// The sets that are stuck, or that none is.
pub(super) fn check(facts: &Facts, now: Timestamp) -> Vec<Finding> {
    let sets = match &facts.sets {
        Ok(sets) => sets,
        Err(error) => {
            let next = "coppice crds install, or ask for the right to list podcliquesets";
            return vec![Finding::warn("sets", format!("cannot be listed: {error}"), next)];
        }
    };
    let gangs = facts.gangs.as_deref().unwrap_or_default();
    let mut stuck: Vec<Finding> = sets.iter().filter_map(|set| trouble(set, gangs, now)).collect();
    if stuck.is_empty() {
        let ready = sets.iter().filter(|set| state(set).0 == SetState::Ready).count();
        return vec![Finding::ok(
            "sets",
            format!("{ready} of {} are ready, none is stuck", sets.len()),
        )];
    }
    let more = stuck.len().saturating_sub(LISTED);
    stuck.truncate(LISTED);
    if more > 0 {
        stuck.push(Finding::warn(
            "sets",
            format!("{more} more are stuck"),
            "coppice get -A",
        ));
    }
    stuck
}

fn state(set: &PodCliqueSet) -> (SetState, Option<String>) {
    let empty = PodCliqueSetStatus::default();
    set_state(set, set.status.as_ref().unwrap_or(&empty))
}

fn trouble(set: &PodCliqueSet, gangs: &[PodGang], now: Timestamp) -> Option<Finding> {
    let (state, message) = state(set);
    let since = since(set);
    let long = now.duration_since(since) >= PATIENCE;
    if state == SetState::Ready || (state != SetState::Degraded && !long) {
        return None;
    }
    let minutes = now.duration_since(since).as_secs().max(0) / 60;
    let name = named(set);
    // What a gang waits for says more than that the set is not ready.
    let waiting = gangs.iter().filter(|gang| {
        gang.namespace() == set.namespace() && gang.labels().get(labels::PART_OF) == Some(&set.name_any())
    });
    let why = waiting
        .filter_map(|gang| Some(format!("gang {}: {}", gang.name_any(), gang_waiting(gang)?)))
        .next();
    let why = why.or(message).map(|why| format!("; {why}")).unwrap_or_default();
    Some(Finding::warn(
        "sets",
        format!("{name} is {state:?} since {minutes} minutes{why}"),
        format!(
            "coppice explain pcs/{} -n {}",
            set.name_any(),
            set.namespace().unwrap_or_default()
        ),
    ))
}

/// Since when a set is as it is.
fn since(set: &PodCliqueSet) -> Timestamp {
    let conditions = set.status.iter().flat_map(|status| &status.conditions);
    let told = conditions
        .filter(|condition| condition.type_ == "Ready")
        .map(|condition| condition.last_transition_time.0);
    let created = set.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let deleted = set.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    deleted.or(told.max()).or(created).unwrap_or(Timestamp::UNIX_EPOCH)
}
