//! What a replica should become, from the specification and the status of its set.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::admission::DEFAULT_COHERENT_PROGRESS_DEADLINE;
use coppice_api::duration::Duration;
use coppice_api::sizes::MOST_PODS;
use coppice_api::types::{
    CoherentUpdate, OnUpdateFailure, PodCliqueSetUpdateProgress, PodGangMapEntry, PodGangMapSpec, RollingUpdate,
    SurgePolicy as WrittenPolicy,
};
use jiff::SignedDuration;

use super::read;
use crate::components::{ComponentFacts, revision_in};
use crate::context::SetContext;
use crate::layout::{LiveSizes, ReplicaLayout};
use crate::snapshot::ReplicaSnapshot;
use crate::update::coherent::{
    Component, ComponentKind, Knobs, Map, OnFailure, Revision, SetKnobs, Strategy, SurgePolicy, Target,
};

/// What the user set of coherent updates.
fn settings<'a>(context: &SetContext<'a>) -> Option<&'a CoherentUpdate> {
    context.facts.set.spec.update_strategy.as_ref()?.coherent.as_ref()
}

/// What concerns all replicas.
pub fn knobs_of_set(context: &SetContext<'_>) -> SetKnobs {
    let settings = settings(context);
    let most = settings.and_then(|settings| settings.max_concurrent_replicas);
    let on_failure = settings.and_then(|settings| settings.on_failure.as_ref());
    SetKnobs {
        max_concurrent_replicas: most.and_then(|most| u32::try_from(most).ok()).unwrap_or(1).max(1),
        on_failure: match on_failure {
            Some(OnUpdateFailure::Rollback) => OnFailure::Rollback,
            _ => OnFailure::Pause,
        },
    }
}

fn knobs(context: &SetContext<'_>) -> Knobs {
    let settings = settings(context);
    let count = |value: Option<i32>| value.and_then(|value| u32::try_from(value).ok()).unwrap_or(0);
    let policy = settings.and_then(|settings| settings.surge_policy.as_ref());
    let template = &context.facts.set.spec.template;
    let of_cliques = template.cliques.iter().map(|clique| clique.rolling_update.as_ref());
    let of_groups = template
        .pod_clique_scaling_groups
        .iter()
        .map(|group| group.rolling_update.as_ref());
    let deadline = |update: &RollingUpdate| length(update.progress_deadline.as_deref()?);
    let shortest = of_cliques.chain(of_groups).flatten().filter_map(deadline).min();
    let given = settings.and_then(|settings| length(settings.progress_deadline.as_deref()?));
    let default = || length(DEFAULT_COHERENT_PROGRESS_DEADLINE).unwrap_or(SignedDuration::from_mins(30));
    Knobs {
        max_surge_units: count(settings.and_then(|settings| settings.max_surge_units)),
        surge_policy: match policy {
            Some(WrittenPolicy::Required) => SurgePolicy::Required,
            _ => SurgePolicy::BestEffort,
        },
        min_ready: SignedDuration::from_secs(i64::from(count(
            settings.and_then(|settings| settings.min_ready_seconds),
        ))),
        progress_deadline: given.or(shortest).unwrap_or_else(default),
    }
}

fn length(text: &str) -> Option<SignedDuration> {
    let parsed = text.parse::<Duration>().ok().filter(|length| length.is_positive())?;
    Some(SignedDuration::from_nanos(parsed.nanoseconds()))
}

/// The update that the status of the set speaks of, where it speaks of the templates of today.
fn progress<'a>(context: &SetContext<'a>) -> Option<&'a PodCliqueSetUpdateProgress> {
    let status = context.facts.set.status.as_ref()?;
    status
        .update_progress
        .as_ref()
        .filter(|_| context.accepted() == Some(true))
}

/// The revisions that replicas should have: those of the set's templates, or those before when an update was taken back.
pub fn target_revisions(context: &SetContext<'_>, components: &[ComponentFacts]) -> Vec<Revision> {
    let progress = progress(context).filter(|progress| progress.rolled_back == Some(true));
    let previous = |component: &ComponentFacts| progress?.previous_revisions.get(&component.name);
    let revision = |component: &ComponentFacts| Revision::new(previous(component).unwrap_or(&component.wanted));
    components.iter().map(revision).collect()
}

pub(super) fn target(
    context: &SetContext<'_>,
    snapshot: &ReplicaSnapshot,
    components: &[ComponentFacts],
    live: &LiveSizes,
) -> Target {
    let sized = ReplicaLayout::sized(&context.facts, snapshot.index, live);
    let progress = progress(context);
    let units = settings(context)
        .and_then(|settings| settings.max_unavailable_units)
        .unwrap_or(1);
    let revisions = target_revisions(context, components);
    let wanted = components.iter().zip(revisions).map(|(component, revision)| {
        let size = size(context, snapshot, &sized, component, live);
        let set = size.update.and_then(|update| update.max_unavailable);
        let budget = set.and_then(|set| u32::try_from(set).ok());
        let by_units = || u32::try_from(units).unwrap_or(0).saturating_mul(size.minimum.max(1));
        let mut stored = context.revisions.iter();
        Component {
            name: component.name.clone(),
            kind: if component.group.is_some() {
                ComponentKind::Group
            } else {
                ComponentKind::Standalone
            },
            revision_stored: stored
                .any(|stored| revision_in(context, component, stored).as_deref() == Some(revision.as_str())),
            revision,
            desired: size.desired,
            minimum: size.minimum,
            max_unavailable: budget.unwrap_or_else(by_units),
        }
    });
    let in_scope = |component: &ComponentFacts| {
        progress.is_some_and(|progress| {
            let names = if component.group.is_some() {
                &progress.in_scope_pod_clique_scaling_groups
            } else {
                &progress.in_scope_standalone_pod_cliques
            };
            names.contains(&component.name)
        })
    };
    let scope = components
        .iter()
        .enumerate()
        .filter(|(_, component)| in_scope(component));
    let index = i32::try_from(snapshot.index).unwrap_or(i32::MAX);
    let has_turn = |progress: &PodCliqueSetUpdateProgress| {
        let mut all = progress.currently_updating.iter();
        progress.update_ended_at.is_none() && all.any(|update| update.replica_index == index)
    };
    Target {
        components: wanted.collect(),
        scope: scope.map(|(position, _)| position).collect(),
        knobs: knobs(context),
        paused: context.paused(),
        admitted: progress.is_some_and(has_turn),
        strategy: if context.coherent() {
            Strategy::Coherent
        } else {
            Strategy::InPlace
        },
    }
}

struct Size<'a> {
    desired: u32,
    minimum: u32,
    update: Option<&'a RollingUpdate>,
}

fn size<'a>(
    context: &SetContext<'a>,
    snapshot: &ReplicaSnapshot,
    sized: &ReplicaLayout,
    component: &ComponentFacts,
    live: &LiveSizes,
) -> Size<'a> {
    let facts = &context.facts;
    if let Some(group) = component.group {
        return Size {
            desired: sized.groups[group].aim,
            minimum: facts.groups[group].min_available,
            update: facts.groups[group].config.rolling_update.as_ref(),
        };
    }
    let position = component.cliques[0];
    let clique = &facts.cliques[position];
    let name = facts.replica(snapshot.index).clique_name(&clique.template.name);
    let asked = live.cliques.get(&name).copied().unwrap_or(clique.replicas);
    // A size beyond the bounds is held at what exists.
    let existing = || {
        snapshot
            .pods
            .values()
            .filter(|pod| pod.clique == name && pod.active())
            .count()
    };
    let desired = if i64::from(asked) > i64::from(MOST_PODS) {
        u32::try_from(existing()).unwrap_or(0)
    } else {
        asked
    };
    Size {
        desired,
        minimum: clique.min_available,
        update: clique.template.rolling_update.as_ref(),
    }
}

/// Reads the stored map. An entry that does not name the revision of a component has that of the generation that it names,
/// or else that of the set.
pub(super) fn read_map(
    context: &SetContext<'_>,
    components: &[ComponentFacts],
    target: &Target,
    spec: &PodGangMapSpec,
) -> Option<Map> {
    let mut by_generation: BTreeMap<&str, Vec<Option<String>>> = BTreeMap::new();
    let hashes: BTreeSet<&str> = spec
        .entries
        .iter()
        .map(|entry| entry.pod_clique_set_generation_hash.as_str())
        .collect();
    for hash in hashes {
        if let Some(stored) = context.revisions.of_generation(hash) {
            let all = components
                .iter()
                .map(|component| revision_in(context, component, stored));
            by_generation.insert(hash, all.collect());
        }
    }
    read(spec, target, |entry: &PodGangMapEntry, component: usize| {
        let known = by_generation.get(entry.pod_clique_set_generation_hash.as_str());
        let found = known.and_then(|all| all[component].as_deref());
        Revision::new(found.unwrap_or(&components[component].wanted))
    })
}
