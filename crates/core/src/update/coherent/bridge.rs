//! Bridges: temporary systems at the target that make room for the rest to be replaced in place.
//!
//! A bridge counts as capacity like any other unit, and goes when the floor holds without it. It has indices of its own,
//! at or above the size of its components.

use std::collections::BTreeSet;

use super::census::Census;
use super::edit::Taken;
use super::types::{ComponentKind, Map, Role, Target, Units};

/// Components with stale units of which no bridge has any. A second change may bring further components into an update
/// that already has its bridges.
pub(super) fn uncovered(scope: &BTreeSet<usize>, map: &Map, census: &Census) -> BTreeSet<usize> {
    let covered = |component: &usize| {
        let mut bridges = map.entries.iter().filter(|entry| entry.role == Role::Bridge);
        bridges.any(|entry| entry.shares.contains_key(component))
    };
    let stale = scope.iter().copied().filter(|component| census.stale(*component) > 0);
    stale.filter(|component| !covered(component)).collect()
}

/// The map with bridges for some components.
pub(super) fn build(target: &Target, components: &BTreeSet<usize>, map: &Map) -> Map {
    let mut next = map.clone();
    for _ in 0..target.knobs.max_surge_units {
        let epoch = next.add_entry(Role::Bridge, Vec::new());
        for &component in components {
            let wanted = &target.components[component];
            let count = wanted.anchored();
            let copies = match wanted.kind {
                ComponentKind::Standalone => BTreeSet::new(),
                ComponentKind::Group => next.free_copies(component, wanted.desired, count),
            };
            let units = Taken { count, copies }.units(wanted.kind);
            next.put(epoch, component, &wanted.revision, &units);
        }
    }
    next.tidy()
}

/// The map without those bridges that `unwanted` names (by position) and that no floor needs; none when there are none.
pub(super) fn drop_where_possible(
    target: &Target,
    map: &Map,
    census: &Census,
    unwanted: impl Fn(usize) -> bool,
) -> Option<Map> {
    let mut available: Vec<u32> = (0..target.components.len())
        .map(|component| census.available(component))
        .collect();
    let mut next = map.clone();
    for (position, entry) in map.entries.iter().enumerate() {
        if entry.role != Role::Bridge || !unwanted(position) {
            continue;
        }
        let serving: Vec<u32> = (0..available.len())
            .map(|component| {
                let units = census.units[component].iter();
                super::census::count(units.filter(|unit| unit.entry == position && unit.available))
            })
            .collect();
        let needed = available.iter().zip(&serving).zip(&target.components);
        if needed
            .into_iter()
            .any(|((all, here), component)| *here > 0 && all - here < component.floor())
        {
            continue;
        }
        for (all, here) in available.iter_mut().zip(&serving) {
            *all -= here;
        }
        for share in next.entries[position].shares.values_mut() {
            share.units = match &share.units {
                Units::Pods(_) => Units::Pods(0),
                Units::Copies(_) => Units::Copies(BTreeSet::new()),
            };
        }
    }
    (next != *map).then(|| next.tidy())
}
