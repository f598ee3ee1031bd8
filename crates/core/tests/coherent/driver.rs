//! Drives one world step by step, in the order in which a healthy cluster would, and writes down what happens.

use std::collections::BTreeMap;

use coppice_core::update::coherent::{Component, ComponentKind, Map, Phase, Role, Units};

use crate::model::World;

/// One change of a map by an update.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Batch {
    pub(crate) phase: Phase,
    /// The units that were put somewhere, by entry: `A{2F P0 D0}`.
    pub(crate) text: String,
}

/// What was seen on the way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    pub(crate) batches: Vec<Batch>,
    /// The fewest available units of each component.
    pub(crate) lowest: Vec<u32>,
    /// The lowest effective capacity: for each version the scarcest component, summed over versions, in percent.
    pub(crate) effective: u32,
}

impl Trace {
    pub(crate) fn texts(&self) -> Vec<&str> {
        self.batches.iter().map(|batch| batch.text.as_str()).collect()
    }
}

/// The names of components in traces.
pub(crate) const NAMES: [&str; 3] = ["F", "P", "D"];

/// What `after` has in its entries that `before` has not.
pub(crate) fn describe(before: &Map, after: &Map) -> String {
    let mut parts: Vec<String> = Vec::new();
    for entry in &after.entries {
        let old = before.entries.iter().find(|old| old.epoch == entry.epoch);
        let mut units: Vec<String> = Vec::new();
        for (&component, share) in &entry.shares {
            let old = old.and_then(|old| old.shares.get(&component)).map(|share| &share.units);
            match (&share.units, old) {
                (Units::Pods(now), old) => {
                    let more = now.saturating_sub(old.map_or(0, Units::count));
                    if more > 0 {
                        units.push(format!("{more}{}", NAMES[component]));
                    }
                }
                (Units::Copies(now), old) => {
                    let had = |copy: &u32| matches!(old, Some(Units::Copies(old)) if old.contains(copy));
                    let new = now.iter().filter(|copy| !had(copy));
                    units.extend(new.map(|copy| format!("{}{copy}", NAMES[component])));
                }
            }
        }
        if !units.is_empty() {
            let sign = if old.is_some() { "+" } else { "" };
            parts.push(format!("{}{sign}{{{}}}", letter(entry.role), units.join(" ")));
        }
    }
    if parts.is_empty() {
        let gone = before
            .entries
            .iter()
            .filter(|old| after.entries.iter().all(|new| new.epoch != old.epoch));
        parts.extend(gone.map(|entry| format!("-{}", letter(entry.role))));
    }
    parts.join(" ")
}

fn letter(role: Role) -> &'static str {
    match role {
        Role::Anchor => "A",
        Role::Tail => "T",
        Role::ScaleOut => "S",
        Role::Bridge => "B",
    }
}

/// The gangs of a map: anchors, bridges, and one gang for each further copy.
pub(crate) fn gangs(map: &Map) -> (usize, usize) {
    let anchors = map.entries.iter().filter(|entry| entry.role.is_one_gang()).count();
    let others = map.entries.iter().filter(|entry| !entry.role.is_one_gang());
    let copies = others
        .flat_map(|entry| entry.shares.values())
        .map(|share| share.units.count() as usize);
    (anchors, copies.sum())
}

/// Available units of each component.
pub(crate) fn available(world: &World, replica: usize) -> Vec<u32> {
    let mut available = vec![0; world.shapes.len()];
    for unit in &world.replicas[replica].units {
        available[unit.live.component] += u32::from(unit.live.ready_since.is_some() && !unit.live.terminating);
    }
    available
}

/// Effective capacity in percent. A side is a generation of the components in scope; each side serves as much as its
/// scarcest component has of its size, and sides are summed.
pub(crate) fn effective(available: &BTreeMap<&str, Vec<u32>>, components: &[Component], scope: &[usize]) -> u32 {
    let of_side = |units: &Vec<u32>| {
        let shares = scope
            .iter()
            .map(|&component| 100 * units[component] / components[component].desired.max(1));
        shares.min().unwrap_or(100)
    };
    available.values().map(of_side).sum()
}

/// One round: the set, one plan of one replica, and everything that follows from it.
pub(crate) fn round(world: &mut World, replica: usize, trace: &mut Trace) -> Phase {
    world.plan_set();
    let outcome = world.plan_fresh(replica);
    let before = world.replicas[replica].map.clone();
    world.store(replica, &outcome);
    if let (Some(before), Some(after)) = (&before, &outcome.map) {
        trace.batches.push(Batch {
            phase: outcome.phase,
            text: describe(before, after),
        });
    }
    follow(world, replica, trace);
    world.now += 1;
    outcome.phase
}

/// Executes everything that the map asks for, until nothing is left.
pub(crate) fn follow(world: &mut World, replica: usize, trace: &mut Trace) {
    loop {
        let writes = world.writes(replica);
        if writes.is_empty() {
            break;
        }
        for write in writes {
            world.execute(replica, write);
        }
        note(world, replica, trace);
        world.reap(replica, usize::MAX);
    }
    world.schedule(replica);
    world.get_ready(replica, usize::MAX);
    note(world, replica, trace);
}

fn note(world: &World, replica: usize, trace: &mut Trace) {
    let now = available(world, replica);
    if trace.lowest.is_empty() {
        trace.lowest.clone_from(&now);
        trace.effective = 100;
    }
    for (lowest, now) in trace.lowest.iter_mut().zip(now) {
        *lowest = (*lowest).min(now);
    }
    let target = world.target(replica);
    let scope: Vec<usize> = world.set_record.scope.iter().copied().collect();
    let mut sides: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    for unit in &world.replicas[replica].units {
        let live = &unit.live;
        if live.ready_since.is_none() || live.terminating {
            continue;
        }
        let component = &target.components[live.component];
        let side = if live.revision == component.revision {
            "new"
        } else {
            "old"
        };
        sides.entry(side).or_insert_with(|| vec![0; world.shapes.len()])[live.component] += 1;
    }
    if !scope.is_empty() {
        trace.effective = trace.effective.min(effective(&sides, &target.components, &scope));
    }
}

/// Rounds until nothing changes any more, or the replica only waits.
pub(crate) fn settle(world: &mut World, replica: usize, trace: &mut Trace) -> Phase {
    let mut quiet = 0;
    let mut phase = Phase::Adopt;
    while quiet < 3 {
        let before = (world.replicas[replica].version, world.set_record.clone());
        phase = round(world, replica, trace);
        let same = before == (world.replicas[replica].version, world.set_record.clone());
        quiet = if same { quiet + 1 } else { 0 };
    }
    phase
}

/// A group, or a standalone clique, of an example.
pub(crate) fn shape(kind: ComponentKind, minimum: u32, max_unavailable: u32) -> crate::model::Shape {
    crate::model::Shape {
        kind,
        minimum,
        max_unavailable,
    }
}
