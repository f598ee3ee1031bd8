//! The first map of a replica: from the units that exist, by their labels, or else as a deployment has it.

use std::collections::{BTreeMap, BTreeSet};

use coppice_api::names::Epoch;

use super::types::{ComponentKind, Entry, LiveUnit, Map, Observed, Role, Share, Target, Units};

/// The map of a replica that has none.
pub(super) fn plan(target: &Target, observed: &Observed) -> Map {
    let newest = observed.units.iter().map(|unit| unit.epoch).max();
    let next_epoch = newest.map_or(Epoch::FIRST, Epoch::next);
    let live: Vec<&LiveUnit> = observed.units.iter().filter(|unit| !unit.terminating).collect();
    if live.is_empty() {
        canonical(target, next_epoch)
    } else {
        from_live(target, &live, next_epoch)
    }
}

/// One anchor with the minimum of every scaling group and all pods of standalone cliques; further copies behind it.
pub(super) fn canonical(target: &Target, first: Epoch) -> Map {
    let mut map = Map::empty(first);
    let anchor = map.add_entry(Role::Anchor, Vec::new());
    let tail = map.add_entry(Role::Tail, vec![anchor]);
    for (position, component) in target.components.iter().enumerate() {
        let revision = &component.revision;
        match component.kind {
            ComponentKind::Standalone => map.put(anchor, position, revision, &Units::Pods(component.desired)),
            ComponentKind::Group => {
                let anchored = (0..component.anchored()).collect();
                map.put(anchor, position, revision, &Units::Copies(anchored));
                let rest = (component.anchored()..component.desired).collect();
                map.put(tail, position, revision, &Units::Copies(rest));
            }
        }
    }
    map.tidy()
}

fn from_live(target: &Target, live: &[&LiveUnit], next_epoch: Epoch) -> Map {
    let mut entries: BTreeMap<Epoch, Entry> = BTreeMap::new();
    let mut homes: BTreeSet<(usize, u32)> = BTreeSet::new();
    // Of two units at one index the newer one counts; the other one is about to go.
    let mut newest_first: Vec<&&LiveUnit> = live.iter().collect();
    newest_first.sort_by_key(|unit| std::cmp::Reverse(unit.epoch));
    for unit in newest_first {
        let Some(component) = target.components.get(unit.component) else {
            continue;
        };
        if unit.copy.is_some_and(|copy| !homes.insert((unit.component, copy))) {
            continue;
        }
        let entry = entries.entry(unit.epoch).or_insert_with(|| Entry {
            epoch: unit.epoch,
            role: unit.role,
            shares: BTreeMap::new(),
            depends_on: Vec::new(),
        });
        let share = entry.shares.entry(unit.component).or_insert_with(|| Share {
            revision: unit.revision.clone(),
            units: match component.kind {
                ComponentKind::Standalone => Units::Pods(0),
                ComponentKind::Group => Units::Copies(BTreeSet::new()),
            },
        });
        // Another strategy may have replaced some of them in place: what is lost comes back at the target.
        if unit.revision == component.revision {
            share.revision = unit.revision.clone();
        }
        match (&mut share.units, unit.copy) {
            (Units::Copies(copies), Some(copy)) => drop(copies.insert(copy)),
            (Units::Pods(pods), None) => *pods += 1,
            _ => {}
        }
    }
    let mut map = Map {
        entries: entries.into_values().collect(),
        next_epoch,
    };
    let dependencies: Vec<Vec<Epoch>> = map.entries.iter().map(|entry| anchors_of(&map, entry)).collect();
    for (entry, depends_on) in map.entries.iter_mut().zip(dependencies) {
        entry.depends_on = depends_on;
    }
    map.tidy()
}

/// The newest older anchor that shares a component at the same revision.
fn anchors_of(map: &Map, entry: &Entry) -> Vec<Epoch> {
    if entry.role.is_one_gang() {
        return Vec::new();
    }
    let shares = |other: &&Entry| {
        let same = |(component, share): (&usize, &Share)| {
            let theirs = other.shares.get(component);
            theirs.is_none_or(|theirs| theirs.revision == share.revision)
        };
        other.role == Role::Anchor && other.epoch < entry.epoch && entry.shares.iter().all(same)
    };
    let anchor = map.entries.iter().rev().find(shares);
    anchor.map(|anchor| anchor.epoch).into_iter().collect()
}
