//! One replica as it is read for planning: its layout, and the state of each clique of it. Reads and never decides.

mod attempt;
mod clique;
mod edits;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coppice_api::names::{labels, parsing::parse_index};
use coppice_api::types::LastError;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

pub use attempt::{Attempt, has_attempt};
pub use clique::CliqueState;
use clique::Homes;
pub(crate) use edits::means_the_set;

use crate::components::{ComponentFacts, components, may_adopt};
use crate::context::SetContext;
use crate::gang_map::{GangMap, Generation, StoredGangs, entry_of_gang};
use crate::layout::{LiveSizes, ReplicaLayout};
use crate::report;
use crate::snapshot::{PodFacts, ReplicaSnapshot};

/// One replica while it is planned.
pub(crate) struct Replica<'a> {
    pub(crate) context: &'a SetContext<'a>,
    pub(crate) snapshot: &'a ReplicaSnapshot,
    pub(crate) layout: ReplicaLayout,
    /// The state of each clique, at the positions of the layout.
    pub(crate) cliques: Vec<CliqueState<'a>>,
    /// The components of the set; only where the layout follows the stored map.
    pub(crate) components: Vec<ComponentFacts>,
    /// Whether its layout follows the stored map as it is, because the planner of coherent updates changes it.
    pub(crate) by_map: bool,
    pub(crate) now: Timestamp,
}

impl<'a> Replica<'a> {
    /// Reads a replica. `given` is whether it takes the set's templates now.
    pub(crate) fn read(
        context: &'a SetContext<'a>,
        snapshot: &'a ReplicaSnapshot,
        given: bool,
        now: Timestamp,
    ) -> Self {
        let layout = lay_out(context, snapshot, given);
        Self::with_layout(context, snapshot, layout, false, now)
    }

    /// Reads a replica whose map is laid out as it is stored.
    pub(crate) fn read_by_map(
        context: &'a SetContext<'a>,
        snapshot: &'a ReplicaSnapshot,
        map: GangMap,
        now: Timestamp,
    ) -> Self {
        let layout = ReplicaLayout::of_map(&context.facts, snapshot.index, &live_sizes(snapshot), map);
        Self::with_layout(context, snapshot, layout, true, now)
    }

    fn with_layout(
        context: &'a SetContext<'a>,
        snapshot: &'a ReplicaSnapshot,
        layout: ReplicaLayout,
        by_map: bool,
        now: Timestamp,
    ) -> Self {
        let homes = if by_map {
            homes(snapshot, &layout)
        } else {
            Homes::ByClique
        };
        let mut pods: BTreeMap<&str, Vec<&Arc<PodFacts>>> = BTreeMap::new();
        for pod in snapshot.pods.values() {
            pods.entry(&pod.clique).or_default().push(pod);
        }
        let cliques = layout
            .cliques
            .iter()
            .map(|clique| {
                let pods = pods.remove(clique.name.as_str()).unwrap_or_default();
                CliqueState::read(context, snapshot, &layout, clique, &homes, pods)
            })
            .collect();
        let mut replica = Self {
            context,
            snapshot,
            layout,
            cliques,
            components: if by_map { components(context) } else { Vec::new() },
            by_map,
            now,
        };
        replica.turn_away();
        replica
    }

    /// Pods that name no known gang are not adopted by a unit with another template: they are left of one that was moved.
    fn turn_away(&mut self) {
        if !self.by_map {
            return;
        }
        let known = match homes(self.snapshot, &self.layout) {
            Homes::ByLabel(gangs) => gangs
                .keys()
                .map(|name| (*name).to_owned())
                .collect::<BTreeSet<String>>(),
            Homes::ByClique => return,
        };
        for (clique, state) in self.layout.cliques.iter().zip(&mut self.cliques) {
            let mut components = self.components.iter();
            let component = components.find(|component| component.cliques.contains(&clique.position));
            let entry = self.layout.gangs[clique.newest().gang].entry;
            let (Some(component), Some(entry)) = (component, entry) else {
                continue;
            };
            let revision = self.layout.map.entries[entry].revision(&component.name);
            let revision = revision.unwrap_or(&component.wanted);
            let fits = |pod: &PodFacts| {
                known.contains(&pod.membership.gang)
                    || may_adopt(self.context, component, revision, clique.position, &pod.template_hash)
            };
            if let Some(newest) = state.parts.last_mut() {
                let (stay, go) = std::mem::take(newest).into_iter().partition(|pod| fits(pod));
                *newest = stay;
                let mut go: Vec<&Arc<PodFacts>> = go;
                state.strays.append(&mut go);
            }
        }
    }

    /// Counts the pods of a clique in a gang.
    pub(crate) fn count_in(&self, gang: usize, clique: usize, wanted: impl Fn(&PodFacts) -> bool) -> u32 {
        let shares = &self.layout.cliques[clique].shares;
        let part = shares.iter().position(|share| share.gang == gang);
        let pods = part
            .map(|part| self.cliques[clique].parts[part].as_slice())
            .unwrap_or_default();
        u32::try_from(pods.iter().filter(|pod| wanted(pod)).count()).unwrap_or(u32::MAX)
    }

    /// Writes about children of an object that were refused, as its status records them.
    pub(crate) fn errors_of(&self, owner: &ObjectMeta, before: &[LastError]) -> Vec<LastError> {
        let failures = self.snapshot.failures.iter();
        report::last_errors(
            failures.filter(|failure| Some(&failure.owner.uid) == owner.uid.as_ref()),
            before,
        )
    }
}

/// The gangs by which pods are divided: those of the layout, and others that exist and follow from a map.
fn homes<'a>(snapshot: &'a ReplicaSnapshot, layout: &'a ReplicaLayout) -> Homes<'a> {
    let others = snapshot.gangs.iter().filter(|(_, gang)| entry_of_gang(gang).is_some());
    let mut known: BTreeMap<&str, Option<usize>> = others.map(|(name, _)| (name.as_str(), None)).collect();
    known.extend(
        layout
            .live_gangs()
            .map(|(position, gang)| (gang.name.as_str(), Some(position))),
    );
    Homes::ByLabel(known)
}

/// Lays out the replica, with its gangs as they are stored.
fn lay_out(context: &SetContext<'_>, snapshot: &ReplicaSnapshot, given: bool) -> ReplicaLayout {
    let gangs = snapshot.gangs.iter();
    let stored = StoredGangs {
        map: snapshot.map.as_ref().map(|map| &map.spec),
        gangs: gangs
            .filter_map(|(name, gang)| Some((name.as_str(), entry_of_gang(gang)?)))
            .collect(),
    };
    let generation = Generation {
        hash: &context.generation_hash(),
        given,
    };
    ReplicaLayout::new(
        &context.facts,
        snapshot.index,
        &live_sizes(snapshot),
        &stored,
        generation,
    )
}

/// The sizes of the objects of a replica.
pub(crate) fn live_sizes(snapshot: &ReplicaSnapshot) -> LiveSizes {
    let size = |replicas: i32| u32::try_from(replicas).unwrap_or(0);
    LiveSizes {
        cliques: snapshot
            .cliques
            .iter()
            .map(|(name, clique)| (name.clone(), size(clique.spec.replicas)))
            .collect(),
        groups: snapshot
            .groups
            .iter()
            .map(|(name, group)| (name.clone(), size(group.spec.replicas)))
            .collect(),
        copies: existing_copies(snapshot),
    }
}

/// The copies of each group up to the last that has a PodClique, by the labels of those.
fn existing_copies(snapshot: &ReplicaSnapshot) -> BTreeMap<String, u32> {
    let mut copies: BTreeMap<String, u32> = BTreeMap::new();
    for clique in snapshot.cliques.values() {
        let label = |key: &str| clique.metadata.labels.as_ref().and_then(|all| all.get(key));
        let copy = label(labels::SCALING_GROUP_REPLICA_INDEX).and_then(|text| parse_index(text));
        if let (Some(group), Some(copy)) = (label(labels::SCALING_GROUP), copy) {
            let most = copies.entry(group.clone()).or_default();
            *most = (*most).max(copy.saturating_add(1));
        }
    }
    copies
}
