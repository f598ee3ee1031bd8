//! The PodGangMap of a replica: which of its units belong to which gang.
//!
//! A unit is a copy of a scaling group, or the pods of a standalone clique. The map is the one stored decision about
//! gangs; names, labels, gates and scheduler objects follow from it. [`desired`] takes the stored map to the sizes of
//! today and changes nothing else: a unit that has a gang keeps it. A lost map is rebuilt from the labels of the gangs
//! that exist, and a replica without either starts with the epochs of [`Epoch::FIRST`].
//!
//! Nothing here reads a clock: the same replica gets the same gangs again.

mod epochs;
mod made_from;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::names::{Epoch, ReplicaName, labels};
use coppice_api::types::{PodGang, PodGangMapEntry, PodGangMapSpec, PodGangRole};

use epochs::Epochs;
pub use made_from::MadeFrom;

/// The gangs of a replica, by epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct GangMap {
    /// One entry an epoch, in order.
    pub entries: Vec<Entry>,
    /// For each scaling group, by position in the template, its copies and the position of the entry of each.
    pub copies: Vec<BTreeMap<u32, usize>>,
    /// The epoch of the newest anchor, also while it has no units.
    pub anchor_epoch: Epoch,
}

impl Default for GangMap {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            copies: Vec::new(),
            anchor_epoch: Epoch::FIRST,
        }
    }
}

/// The units of one epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Its number.
    pub epoch: Epoch,
    /// What its gangs are for.
    pub role: PodGangRole,
    /// Epochs whose gangs are scheduled before pods of this one.
    pub depends_on: Vec<Epoch>,
    /// The entry as it is written.
    written: PodGangMapEntry,
}

impl Entry {
    /// Whether it is a smallest complete system.
    pub fn is_anchor(&self) -> bool {
        self.role == PodGangRole::Anchor
    }

    /// Whether all its units are in one gang; else every copy has a gang of its own.
    pub fn is_one_gang(&self) -> bool {
        matches!(self.role, PodGangRole::Anchor | PodGangRole::Bridge)
    }

    /// Whether its units are temporary.
    pub fn is_bridge(&self) -> bool {
        self.role == PodGangRole::Bridge
    }

    /// The pods that it has of a standalone clique.
    pub fn pods(&self, clique: &str) -> u32 {
        let pods = self.written.pod_cliques.get(clique).copied().unwrap_or(0);
        u32::try_from(pods).unwrap_or(0)
    }

    /// The template that it names for a component (standalone clique or scaling group).
    pub fn revision(&self, component: &str) -> Option<&str> {
        self.written.revisions.get(component).map(String::as_str)
    }

    /// The templates that its units were last given.
    pub fn generation_hash(&self) -> &str {
        &self.written.pod_clique_set_generation_hash
    }
}

impl GangMap {
    /// A map as it is stored, for scaling groups by name in the order of the template. The caller has made sure that its
    /// entries can be read, and that no two of them have the same copy.
    pub fn of_spec(spec: &PodGangMapSpec, groups: &[&str]) -> Self {
        let before = read(spec);
        let mut copies: Vec<BTreeMap<u32, usize>> = vec![BTreeMap::new(); groups.len()];
        for (position, entry) in before.iter().enumerate() {
            for (group, copies) in groups.iter().zip(&mut copies) {
                let indices = entry.entry.pcsg_replica_indices.get(*group).into_iter().flatten();
                copies.extend(indices.filter_map(|index| Some((u32::try_from(*index).ok()?, position))));
            }
        }
        let anchors = before.iter().filter(|entry| entry.entry.role == PodGangRole::Anchor);
        let newest = before.last().map(|entry| entry.epoch);
        let anchor_epoch = anchors.map(|entry| entry.epoch).max().or(newest.map(Epoch::next));
        let entries = before.iter().map(|entry| Entry {
            epoch: entry.epoch,
            role: entry.entry.role.clone(),
            depends_on: entry
                .entry
                .depends_on
                .iter()
                .filter_map(|text| Epoch::parse(text))
                .collect(),
            written: entry.entry.clone(),
        });
        Self {
            entries: entries.collect(),
            copies,
            anchor_epoch: anchor_epoch.unwrap_or(Epoch::FIRST),
        }
    }

    /// The position of the entry of the newest anchor.
    pub fn anchor(&self) -> Option<usize> {
        self.entries.iter().rposition(Entry::is_anchor)
    }

    /// The map as it is stored. Fields that another version has put into `stored` are kept.
    pub fn to_spec(&self, replica: u32, stored: Option<&PodGangMapSpec>) -> PodGangMapSpec {
        PodGangMapSpec {
            pod_clique_set_replica_index: bounded(replica),
            entries: self.entries.iter().map(|entry| entry.written.clone()).collect(),
            next_epoch: stored.and_then(|stored| stored.next_epoch.clone()),
            unknown: stored.map(|stored| stored.unknown.clone()).unwrap_or_default(),
        }
    }
}

/// The sizes that a map has to cover.
#[derive(Clone, Debug, Default)]
pub struct Units<'a> {
    /// Standalone cliques by name in the template, and their pods.
    pub standalone: BTreeMap<&'a str, u32>,
    /// Scaling groups, by position in the template.
    pub groups: Vec<GroupUnits<'a>>,
}

/// The size of a scaling group.
#[derive(Clone, Copy, Debug)]
pub struct GroupUnits<'a> {
    /// Its name in the template.
    pub name: &'a str,
    /// Its copies.
    pub copies: u32,
    /// The copies that are placed with the rest of the replica.
    pub min_available: u32,
    /// The copies that it has by the template.
    pub of_template: u32,
}

/// What is stored of the gangs of a replica.
#[derive(Clone, Debug, Default)]
pub struct StoredGangs<'a> {
    /// The map, when there is one.
    pub map: Option<&'a PodGangMapSpec>,
    /// Epoch and role of the PodGangs that exist, by name.
    pub gangs: BTreeMap<&'a str, (Epoch, PodGangRole)>,
}

/// The epoch and role that a PodGang carries; none for one of a version without maps.
pub fn entry_of_gang(gang: &PodGang) -> Option<(Epoch, PodGangRole)> {
    let labels = gang.metadata.labels.as_ref()?;
    let epoch = Epoch::parse(labels.get(labels::EPOCH)?)?;
    let role = PodGangRole::from(labels.get(labels::POD_GANG_ROLE)?.clone());
    role.is_known().then_some((epoch, role))
}

/// The templates of the set, and whether this replica is being given them.
#[derive(Clone, Copy, Debug)]
pub struct Generation<'a> {
    /// Their hash.
    pub hash: &'a str,
    /// Whether entries take it. Until then they keep the one they have.
    pub given: bool,
}

/// The map that a replica of this size should have.
pub fn desired(
    replica: ReplicaName<'_>,
    units: &Units<'_>,
    stored: &StoredGangs<'_>,
    generation: Generation<'_>,
) -> GangMap {
    let before = stored.map.map(read).unwrap_or_default();
    let epochs = Epochs::choose(&before, stored);
    let placed = place(replica, units, &before, stored, &epochs);
    let mut entries: BTreeMap<Epoch, PodGangMapEntry> = BTreeMap::new();
    for (group, copies) in units.groups.iter().zip(&placed) {
        for (copy, place) in copies.iter().enumerate() {
            let entry = entries.entry(place.epoch).or_default();
            entry.role = place.role.clone();
            let indices = entry.pcsg_replica_indices.entry(group.name.to_owned()).or_default();
            indices.push(i32::try_from(copy).unwrap_or(i32::MAX));
        }
    }
    for (name, pods) in units.standalone.iter().filter(|(_, pods)| **pods > 0) {
        let entry = entries.entry(epochs.anchor).or_default();
        entry.role = PodGangRole::Anchor;
        entry.pod_cliques.insert((*name).to_owned(), bounded(*pods));
    }
    // The Go operator expects a place for further copies as soon as there is a group that may get some.
    if entries.contains_key(&epochs.anchor) && !units.groups.is_empty() {
        entries.entry(epochs.scale_out).or_default().role = PodGangRole::ScaleOut;
    }
    let known: BTreeSet<Epoch> = entries.keys().copied().collect();
    let positions: BTreeMap<Epoch, usize> = known.iter().copied().zip(0..).collect();
    let finished = entries.into_iter().map(|(epoch, entry)| {
        let old = before.iter().find(|old| old.epoch == epoch).map(|old| old.entry);
        finish(epoch, entry, old, &epochs, &known, generation)
    });
    GangMap {
        entries: finished.collect(),
        copies: placed
            .iter()
            .map(|copies| (0..).zip(copies.iter().map(|place| positions[&place.epoch])).collect())
            .collect(),
        anchor_epoch: epochs.anchor,
    }
}

/// An entry of the stored map that can be read.
#[derive(Clone, Copy, Debug)]
struct Before<'a> {
    epoch: Epoch,
    entry: &'a PodGangMapEntry,
}

/// The entries of a stored map by epoch. One without entries, or with one that cannot be read, decides nothing.
fn read(map: &PodGangMapSpec) -> Vec<Before<'_>> {
    let read = |entry| -> Option<Before<'_>> {
        let entry: &PodGangMapEntry = entry;
        let epoch = Epoch::parse(&entry.epoch).filter(|_| entry.role.is_known())?;
        Some(Before { epoch, entry })
    };
    let entries: Option<Vec<Before<'_>>> = map.entries.iter().map(read).collect();
    let mut entries = entries.unwrap_or_default();
    entries.sort_by_key(|entry| entry.epoch);
    entries.dedup_by_key(|entry| entry.epoch);
    entries
}

/// Where a copy of a group belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    epoch: Epoch,
    role: PodGangRole,
}

/// Where each copy of each group belongs: where it is, else where its index says.
fn place(
    replica: ReplicaName<'_>,
    units: &Units<'_>,
    before: &[Before<'_>],
    stored: &StoredGangs<'_>,
    epochs: &Epochs,
) -> Vec<Vec<Place>> {
    let by_index = |group: &GroupUnits<'_>, copy: u32| {
        let role = if copy < group.min_available {
            PodGangRole::Anchor
        } else if copy < group.of_template {
            PodGangRole::Tail
        } else {
            PodGangRole::ScaleOut
        };
        let epoch = epochs.of(&role);
        Place { epoch, role }
    };
    let of_group = |group: &GroupUnits<'_>| -> Vec<Place> {
        let mut places: BTreeMap<u32, Place> = BTreeMap::new();
        // An interrupted coherent update leaves several anchors; from here on there is one.
        for old in before {
            let role = match &old.entry.role {
                PodGangRole::Tail | PodGangRole::ScaleOut => old.entry.role.clone(),
                _ => PodGangRole::Anchor,
            };
            let epoch = if role == PodGangRole::Anchor {
                epochs.anchor
            } else {
                old.epoch
            };
            let indices = old.entry.pcsg_replica_indices.get(group.name).into_iter().flatten();
            for copy in indices.filter_map(|index| u32::try_from(*index).ok()) {
                let place = Place {
                    epoch,
                    role: role.clone(),
                };
                places.entry(copy).or_insert(place);
            }
        }
        let of_gangs: BTreeSet<(Epoch, &PodGangRole)> = stored
            .gangs
            .values()
            .filter(|(_, role)| before.is_empty() && matches!(role, PodGangRole::Tail | PodGangRole::ScaleOut))
            .map(|(epoch, role)| (*epoch, role))
            .collect();
        let gang_of = |copy: u32| {
            let named = of_gangs.iter().find(|(epoch, _)| {
                let name = replica.scaling_group(group.name).copy_gang_name(*epoch, copy);
                stored.gangs.contains_key(name.as_str())
            });
            named.map(|(epoch, role)| Place {
                epoch: *epoch,
                role: (*role).clone(),
            })
        };
        (0..group.copies)
            .map(|copy| {
                let kept = places.remove(&copy).or_else(|| gang_of(copy));
                kept.unwrap_or_else(|| by_index(group, copy))
            })
            .collect()
    };
    units.groups.iter().map(of_group).collect()
}

/// Fills in what an entry has beside its units.
fn finish(
    epoch: Epoch,
    mut entry: PodGangMapEntry,
    old: Option<&PodGangMapEntry>,
    epochs: &Epochs,
    known: &BTreeSet<Epoch>,
    generation: Generation<'_>,
) -> Entry {
    let anchor = entry.role == PodGangRole::Anchor;
    let mut depends_on: Vec<Epoch> = Vec::new();
    if !anchor {
        let stored = old.into_iter().flat_map(|old| &old.depends_on);
        depends_on.extend(
            stored
                .filter_map(|text| Epoch::parse(text))
                .filter(|epoch| known.contains(epoch)),
        );
        // A gang never waits for one that does not exist: that would be for ever.
        if depends_on.is_empty() && known.contains(&epochs.anchor) {
            depends_on.push(epochs.anchor);
        }
    }
    entry.epoch = epoch.to_string();
    entry.anchor_index = anchor.then_some(0);
    entry.depends_on = depends_on.iter().map(ToString::to_string).collect();
    entry.pod_clique_set_generation_hash = match old {
        Some(old) if !generation.given => old.pod_clique_set_generation_hash.clone(),
        _ => generation.hash.to_owned(),
    };
    if let Some(old) = old {
        entry.unknown = old.unknown.clone();
        entry.revisions = old.revisions.clone();
    }
    Entry {
        epoch,
        role: entry.role.clone(),
        depends_on,
        written: entry,
    }
}

fn bounded(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}
