//! Connects the planner of coherent updates with a replica: what it is asked, what it is shown, and what follows.
//!
//! The map is the only decision. When the planner changes it, nothing else is written in the same plan; everything else
//! follows from the stored map. Also a replica with another strategy is planned here while its map has what only a coherent
//! update leaves behind (several anchors, temporary gangs): its map then follows sizes, and nothing else of it changes.

mod execute;
mod observe;
mod record;
mod target;

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::names::Epoch;
use coppice_api::types::{ComponentCounters, PodGangMapSpec, PodGangRole};
use jiff::Timestamp;
use serde_json::Value;

pub(crate) use execute::plan as execute;
pub use target::{knobs_of_set, target_revisions};

use crate::command::status_patch;
use crate::components::{ComponentFacts, components};
use crate::context::SetContext;
use crate::gang_map::GangMap;
use crate::snapshot::ReplicaSnapshot;
use crate::state::live_sizes;
use crate::update::coherent::{
    Map, Observed, Outcome, Phase, Reason, Revision, Target, from_spec, message, plan, to_spec,
};

/// One call of the planner for a replica.
pub(crate) struct Step {
    /// What the replica should become.
    pub(crate) target: Target,
    /// The components of the set, at the positions of the target.
    pub(crate) components: Vec<ComponentFacts>,
    /// The stored map, as the planner sees it.
    pub(crate) map: Option<Map>,
    /// What was seen.
    observed: Observed,
    /// What the planner says.
    pub(crate) outcome: Outcome,
}

/// What the set needs to know of a replica that is planned here.
#[derive(Clone, Debug, PartialEq)]
pub struct StepSummary {
    /// For each component the revisions that its units have, by the map and by the pods.
    pub revisions: Vec<BTreeSet<Revision>>,
    /// The revisions that the replica was to have.
    pub target: Vec<Revision>,
    /// Whether nothing is left to do for them.
    pub done: bool,
    /// Whether units with them were placed and did not get ready in time.
    pub failed: bool,
    /// Where the replica stands.
    pub phase: Phase,
    /// Why it waits.
    pub reason: Reason,
    /// The same in words.
    pub message: String,
    /// Epochs with units that have not been available yet.
    pub in_flight: Vec<Epoch>,
    /// Counters of the components that the update concerns, by name.
    pub components: BTreeMap<String, ComponentCounters>,
}

/// Whether the map of a replica is changed by the planner of coherent updates.
pub(crate) fn is_planned(context: &SetContext<'_>, snapshot: &ReplicaSnapshot) -> bool {
    context.coherent() || snapshot.map.as_ref().is_some_and(|map| is_mixed(&map.spec))
}

/// Whether a map has what only a coherent update leaves behind. Grove numbers the copies of its maps without gaps.
fn is_mixed(spec: &PodGangMapSpec) -> bool {
    let anchors = spec.entries.iter().filter(|entry| entry.role == PodGangRole::Anchor);
    let named = spec.entries.iter().any(|entry| !entry.revisions.is_empty());
    let bridges = spec.entries.iter().any(|entry| entry.role == PodGangRole::Bridge);
    named || bridges || anchors.count() > 1
}

impl Step {
    /// Asks the planner about a replica.
    pub(crate) fn new(context: &SetContext<'_>, snapshot: &ReplicaSnapshot, now: Timestamp) -> Self {
        let components = components(context);
        let target = target::target(context, snapshot, &components, &live_sizes(snapshot));
        let stored = snapshot
            .map
            .as_ref()
            .filter(|map| map.metadata.deletion_timestamp.is_none());
        let map = stored.and_then(|stored| target::read_map(context, &components, &target, &stored.spec));
        let observed = observe::observe(context, snapshot, &components, map.as_ref());
        let record = stored.map(|stored| record::read(stored.status.as_ref(), &components));
        let outcome = plan(&target, map.as_ref(), &observed, &record.unwrap_or_default(), now);
        Self {
            target,
            components,
            map,
            observed,
            outcome,
        }
    }

    /// A map as it is stored.
    pub(crate) fn to_spec(&self, context: &SetContext<'_>, snapshot: &ReplicaSnapshot, map: &Map) -> PodGangMapSpec {
        let stored = snapshot.map.as_ref().map(|map| &map.spec);
        let replica = i32::try_from(snapshot.index).unwrap_or(i32::MAX);
        to_spec(
            map,
            &self.target.components,
            replica,
            &context.generation_hash(),
            stored,
        )
    }

    /// A map as it is laid out.
    pub(crate) fn laid_out(&self, context: &SetContext<'_>, snapshot: &ReplicaSnapshot, map: &Map) -> GangMap {
        let groups: Vec<&str> = context
            .facts
            .groups
            .iter()
            .map(|group| group.config.name.as_str())
            .collect();
        GangMap::of_spec(&self.to_spec(context, snapshot, map), &groups)
    }

    /// The patch of the status of the map: what is remembered of the update, and the counters.
    pub(crate) fn status_patch(&self, snapshot: &ReplicaSnapshot) -> Option<Value> {
        let stored = snapshot.map.as_ref()?;
        let before = stored.status.clone().unwrap_or_default();
        let mut after = before.clone();
        after.observed_generation = stored.metadata.generation;
        after.components = self.counters(|_| true);
        after.update = record::written(&self.outcome.record, &self.components, before.update.as_ref());
        status_patch(stored.status.as_ref(), &after)
    }

    fn counters(&self, wanted: impl Fn(usize) -> bool) -> BTreeMap<String, ComponentCounters> {
        let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
        let all = self.components.iter().zip(&self.outcome.progress).enumerate();
        all.filter(|(position, _)| wanted(*position))
            .map(|(_, (component, progress))| {
                let counters = ComponentCounters {
                    desired: number(progress.desired),
                    available: number(progress.available),
                    updated: number(progress.updated),
                    ..ComponentCounters::default()
                };
                (component.name.clone(), counters)
            })
            .collect()
    }

    /// What the set needs to know.
    pub(crate) fn summary(&self) -> StepSummary {
        let mut revisions: Vec<BTreeSet<Revision>> = vec![BTreeSet::new(); self.components.len()];
        for entry in self.map.iter().flat_map(|map| &map.entries) {
            for (component, share) in &entry.shares {
                revisions[*component].insert(share.revision.clone());
            }
        }
        for unit in self.observed.units.iter().filter(|unit| !unit.terminating) {
            revisions[unit.component].insert(unit.revision.clone());
        }
        let components = self.target.components.iter();
        StepSummary {
            revisions,
            target: components.map(|component| component.revision.clone()).collect(),
            done: self.outcome.done,
            failed: self.outcome.failed,
            phase: self.outcome.phase,
            reason: self.outcome.reason,
            message: message(&self.target, &self.outcome),
            in_flight: self.outcome.in_flight.clone(),
            components: self.counters(|position| self.outcome.scope.contains(&position)),
        }
    }

    /// Whether the replica has its turn and is not held back.
    pub(crate) fn is_moving(&self) -> bool {
        self.target.admitted && !self.outcome.done && !matches!(self.outcome.phase, Phase::Paused | Phase::Queued)
    }
}

/// The stored map, as the planner sees it.
fn read(
    spec: &PodGangMapSpec,
    target: &Target,
    revision_of: impl Fn(&coppice_api::types::PodGangMapEntry, usize) -> Revision,
) -> Option<Map> {
    from_spec(spec, &target.components, revision_of)
}
