//! What is remembered of an update, between the planner's record and the status of the map. Components go by name there,
//! because their positions change with the template.

use std::collections::BTreeMap;

use coppice_api::names::Epoch;
use coppice_api::types::{CoherentUpdateRecord, PodGangMapStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::components::ComponentFacts;
use crate::conditions::whole_seconds;
use crate::update::coherent::{ReplicaRecord, Revision};

/// Reads the record. What cannot be read is not remembered.
pub(super) fn read(status: Option<&PodGangMapStatus>, components: &[ComponentFacts]) -> ReplicaRecord {
    let Some(stored) = status.and_then(|status| status.update.as_ref()) else {
        return ReplicaRecord::default();
    };
    let position = |name: &str| components.iter().position(|component| component.name == name);
    let revisions: Option<Vec<Revision>> = components
        .iter()
        .map(|component| stored.revisions.get(&component.name).map(|hash| Revision::new(hash)))
        .collect();
    let mut settled = BTreeMap::new();
    for (name, epochs) in &stored.settled {
        let Some(component) = position(name) else { continue };
        for (epoch, count) in epochs {
            if let (Some(epoch), Ok(count)) = (Epoch::parse(epoch), u32::try_from(*count)) {
                settled.insert((epoch, component), count);
            }
        }
    }
    ReplicaRecord {
        revisions: revisions.unwrap_or_default(),
        settled,
        fewest_stale: u32::try_from(stored.fewest_stale).unwrap_or(0),
        last_progress: stored.last_progressed_at.as_ref().map(|at| at.0),
        surge_abandoned: stored.surge_abandoned == Some(true),
        held: stored.held == Some(true),
    }
}

/// The record as it is stored; none when there is nothing to remember.
pub(super) fn written(
    record: &ReplicaRecord,
    components: &[ComponentFacts],
    before: Option<&CoherentUpdateRecord>,
) -> Option<CoherentUpdateRecord> {
    if *record == ReplicaRecord::default() {
        return None;
    }
    let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    let names = || components.iter().map(|component| component.name.clone());
    let mut settled: BTreeMap<String, BTreeMap<String, i32>> = BTreeMap::new();
    for ((epoch, component), count) in &record.settled {
        if let Some(component) = components.get(*component) {
            let of_component = settled.entry(component.name.clone()).or_default();
            of_component.insert(epoch.to_string(), number(*count));
        }
    }
    Some(CoherentUpdateRecord {
        revisions: names().zip(record.revisions.iter().map(ToString::to_string)).collect(),
        settled,
        fewest_stale: number(record.fewest_stale),
        last_progressed_at: record.last_progress.map(|at| Time(whole_seconds(at))),
        surge_abandoned: record.surge_abandoned.then_some(true),
        held: record.held.then_some(true),
        unknown: before.map(|before| before.unknown.clone()).unwrap_or_default(),
    })
}
