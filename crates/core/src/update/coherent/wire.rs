//! Between the planner's map and the PodGangMap that is stored.
//!
//! `revisions`, the role `Bridge` and `nextEpoch` are ours; everything else is Grove's. An entry without `revisions` has
//! the templates that the caller finds for its generation hash.

use std::collections::BTreeMap;

use coppice_api::names::Epoch;
use coppice_api::sizes::{MOST_COPIES, MOST_PODS};
use coppice_api::types::{PodGangMapEntry, PodGangMapSpec, PodGangRole};

use super::types::{Component, ComponentKind, Entry, Map, Revision, Role, Share, Units};

/// Reads a stored map. One without entries and next epoch, or with an entry that cannot be read, decides nothing. `revision_of` names the
/// template of a component in an entry that does not name it.
pub fn from_spec(
    spec: &PodGangMapSpec,
    components: &[Component],
    revision_of: impl Fn(&PodGangMapEntry, usize) -> Revision,
) -> Option<Map> {
    let mut entries: BTreeMap<Epoch, Entry> = BTreeMap::new();
    for stored in &spec.entries {
        let epoch = Epoch::parse(&stored.epoch)?;
        let role = match &stored.role {
            PodGangRole::Anchor => Role::Anchor,
            PodGangRole::Tail => Role::Tail,
            PodGangRole::ScaleOut => Role::ScaleOut,
            PodGangRole::Bridge => Role::Bridge,
            PodGangRole::Other(_) => return None,
        };
        let shares = components.iter().enumerate().filter_map(|(position, component)| {
            let units = units(stored, component)?;
            let named = stored.revisions.get(&component.name);
            let revision = named.map_or_else(|| revision_of(stored, position), |hash| Revision::new(hash));
            Some((position, Share { revision, units }))
        });
        let entry = Entry {
            epoch,
            role,
            shares: shares.collect(),
            depends_on: stored.depends_on.iter().filter_map(|text| Epoch::parse(text)).collect(),
        };
        entries.entry(epoch).or_insert(entry);
    }
    let follows = entries.keys().next_back().map(|newest| newest.next());
    let stored = spec.next_epoch.as_deref().and_then(Epoch::parse);
    let map = Map {
        entries: entries.into_values().collect(),
        next_epoch: follows.max(stored)?,
    };
    Some(without_duplicates(map).tidy())
}

fn units(stored: &PodGangMapEntry, component: &Component) -> Option<Units> {
    let bounded = |number: i32, most: i32| u32::try_from(number.min(most)).ok().filter(|number| *number > 0);
    match component.kind {
        ComponentKind::Standalone => {
            let pods = stored.pod_cliques.get(&component.name)?;
            bounded(*pods, MOST_PODS).map(Units::Pods)
        }
        ComponentKind::Group => {
            let copies = stored.pcsg_replica_indices.get(&component.name)?;
            let copies = copies.iter().filter(|copy| **copy <= MOST_COPIES.saturating_mul(2));
            let copies = copies.filter_map(|copy| u32::try_from(*copy).ok()).collect();
            Some(Units::Copies(copies)).filter(|units| units.count() > 0)
        }
    }
}

/// A copy that several entries name belongs to the newest.
fn without_duplicates(mut map: Map) -> Map {
    let mut homes: BTreeMap<usize, std::collections::BTreeSet<u32>> = BTreeMap::new();
    for entry in map.entries.iter_mut().rev() {
        for (component, share) in &mut entry.shares {
            if let Units::Copies(copies) = &mut share.units {
                let taken = homes.entry(*component).or_default();
                copies.retain(|copy| taken.insert(*copy));
            }
        }
    }
    map
}

/// The map as it is stored. Fields that another version has put into `stored` are kept, entry by entry; `generation` is
/// the hash of all templates that entries at the target carry for Grove.
pub fn to_spec(
    map: &Map,
    components: &[Component],
    replica: i32,
    generation: &str,
    stored: Option<&PodGangMapSpec>,
) -> PodGangMapSpec {
    let number = |count: u32| i32::try_from(count).unwrap_or(i32::MAX);
    let entries = map.entries.iter().map(|entry| {
        let epoch = entry.epoch.to_string();
        let old = stored.and_then(|stored| stored.entries.iter().find(|old| old.epoch == epoch));
        let is_current = |(component, share): (&usize, &Share)| {
            let component = components.get(*component);
            component.is_some_and(|component| component.revision == share.revision)
        };
        let current = entry
            .shares
            .iter()
            .all(|(component, share)| is_current((component, share)));
        let mut written = PodGangMapEntry {
            epoch,
            role: match entry.role {
                Role::Anchor => PodGangRole::Anchor,
                Role::Tail => PodGangRole::Tail,
                Role::ScaleOut => PodGangRole::ScaleOut,
                Role::Bridge => PodGangRole::Bridge,
            },
            anchor_index: (entry.role == Role::Anchor).then_some(0),
            depends_on: entry.depends_on.iter().map(ToString::to_string).collect(),
            pod_clique_set_generation_hash: match old {
                Some(old) if !current => old.pod_clique_set_generation_hash.clone(),
                _ => generation.to_owned(),
            },
            unknown: old.map(|old| old.unknown.clone()).unwrap_or_default(),
            ..PodGangMapEntry::default()
        };
        for (component, share) in &entry.shares {
            let Some(component) = components.get(*component) else {
                continue;
            };
            let name = component.name.clone();
            written.revisions.insert(name.clone(), share.revision.to_string());
            match &share.units {
                Units::Pods(pods) => drop(written.pod_cliques.insert(name, number(*pods))),
                Units::Copies(copies) => {
                    let copies = copies.iter().map(|copy| number(*copy)).collect();
                    written.pcsg_replica_indices.insert(name, copies);
                }
            }
        }
        written
    });
    let entries: Vec<PodGangMapEntry> = entries.collect();
    let follows = map
        .entries
        .last()
        .is_some_and(|last| last.epoch.next() == map.next_epoch);
    PodGangMapSpec {
        pod_clique_set_replica_index: replica,
        entries,
        next_epoch: (!follows).then(|| map.next_epoch.to_string()),
        unknown: stored.map(|stored| stored.unknown.clone()).unwrap_or_default(),
    }
}
