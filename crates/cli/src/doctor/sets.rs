//! The check of the sets: which need attention, and why.
//!
//! A degraded set and a gang that cannot be placed are reported at once: the operator and the scheduler have judged them.
//! Anything else that is not ready may be on its way, and is reported when it has been so for longer than the patience
//! of the caller.

use coppice_api::names::labels;
use coppice_api::types::{PodCliqueSet, PodCliqueSetStatus, PodGang};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt as _;

use super::Finding;
use super::facts::{Facts, named};
use crate::view::SetState;
use crate::view::build::{gang_unplaced, gang_waiting, set_state};

/// More sets than this are counted, not listed.
const LISTED: usize = 10;

/// The sets that need attention, or that none does.
pub(super) fn check(facts: &Facts, now: Timestamp, patience: SignedDuration) -> Vec<Finding> {
    let sets = match &facts.sets {
        Ok(sets) => sets,
        Err(error) => {
            let next = "coppice crds install, or ask for the right to list podcliquesets";
            return vec![Finding::warn("sets", format!("cannot be listed: {error}"), next)];
        }
    };
    let gangs = facts.gangs.as_deref().unwrap_or_default();
    let troubles = sets.iter().filter_map(|set| trouble(set, gangs, now, patience));
    let mut found: Vec<Finding> = troubles.collect();
    if found.is_empty() {
        let ready = sets.iter().filter(|set| state(set).0 == SetState::Ready).count();
        let message = match sets.len() {
            0 => "there are no PodCliqueSets".to_owned(),
            all => format!("{ready} of {all} ready, and none needs attention"),
        };
        return vec![Finding::ok("sets", message)];
    }
    let more = found.len().saturating_sub(LISTED);
    found.truncate(LISTED);
    if more > 0 {
        let message = format!("{more} more need attention");
        found.push(Finding::warn("sets", message, "coppice get -A"));
    }
    found
}

fn state(set: &PodCliqueSet) -> (SetState, Option<String>) {
    let empty = PodCliqueSetStatus::default();
    set_state(set, set.status.as_ref().unwrap_or(&empty))
}

fn trouble(set: &PodCliqueSet, gangs: &[PodGang], now: Timestamp, patience: SignedDuration) -> Option<Finding> {
    let (state, message) = state(set);
    let since = since(set, state);
    let own = gangs.iter().filter(|gang| {
        gang.namespace() == set.namespace() && gang.labels().get(labels::PART_OF) == Some(&set.name_any())
    });
    let own: Vec<&PodGang> = own.filter(|gang| gang.metadata.deletion_timestamp.is_none()).collect();
    let unplaced = own.iter().find_map(|gang| {
        Some(format!(
            "gang {} cannot be placed: {}",
            gang.name_any(),
            gang_unplaced(gang)?
        ))
    });
    let long = now.duration_since(since) >= patience;
    let at_once = state == SetState::Degraded || unplaced.is_some();
    if !at_once && (state == SetState::Ready || !long) {
        return None;
    }
    // What a gang waits for says more than that the set is not ready.
    let waiting = own
        .iter()
        .find_map(|gang| Some(format!("gang {}: {}", gang.name_any(), gang_waiting(gang)?)));
    let why = unplaced
        .or(waiting)
        .or(message)
        .map(|why| format!("; {why}"))
        .unwrap_or_default();
    let name = named(set);
    let is = match state {
        SetState::Ready => "is Ready".to_owned(),
        state => format!("has been {state:?} for {}", short(now.duration_since(since))),
    };
    Some(Finding::warn(
        "sets",
        format!("{name} {is}{why}"),
        format!(
            "coppice explain pcs/{} -n {}",
            set.name_any(),
            set.namespace().unwrap_or_default()
        ),
    ))
}

/// A duration in its largest unit, as kubectl shows ages.
fn short(duration: SignedDuration) -> String {
    let seconds = duration.as_secs().max(0);
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7_200 => format!("{}m", seconds / 60),
        7_200..172_800 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Since when a set is as it is: an update since it began, so that one that no longer moves is found.
fn since(set: &PodCliqueSet, state: SetState) -> Timestamp {
    let progress = set.status.iter().filter_map(|status| status.update_progress.as_ref());
    let began = progress
        .filter_map(|progress| progress.update_started_at.as_ref())
        .map(|time| time.0);
    if let (SetState::Updating, Some(began)) = (state, began.max()) {
        return began;
    }
    let kind = if state == SetState::Degraded {
        "Degraded"
    } else {
        "Ready"
    };
    let conditions = set.status.iter().flat_map(|status| &status.conditions);
    let told = conditions
        .filter(|condition| condition.type_ == kind)
        .map(|condition| condition.last_transition_time.0);
    let created = set.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let deleted = set.metadata.deletion_timestamp.as_ref().map(|time| time.0);
    deleted.or(told.max()).or(created).unwrap_or(Timestamp::UNIX_EPOCH)
}
